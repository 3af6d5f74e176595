#include "views/value_field_canvas.h"

#include <QApplication>
#include <QContextMenuEvent>
#include <QHelpEvent>
#include <QMenu>
#include <QMouseEvent>
#include <QPainter>
#include <QTimer>
#include <QToolTip>
#include <algorithm>
#include <cmath>
#include <numbers>

#include "views/format.h"
#include "views/painted_view.h"
#include "views/value_field_view.h"

namespace slotscope::views {

using analysis::FieldSpace;

namespace {
constexpr double kGrip = 8;  // pixels around a key that take it
constexpr double kTurn = 2 * std::numbers::pi;

QString coordinates(const analysis::FieldSettings& s, const QPointF& at) {
  const bool torus = s.space == FieldSpace::torus;
  return QStringLiteral("%1 = %2   %3 = %4")
      .arg(torus ? QStringLiteral("φ₀") : QStringLiteral("q₀"), signedNumber(at.x(), 3), torus ? QStringLiteral("φ₁") : QStringLiteral("q₁"), signedNumber(at.y(), 3));
}
}  // namespace

ValueFieldCanvas::ValueFieldCanvas(ValueFieldView* view) : QWidget(view), view_(view), click_(new QTimer(this)), wheel_(new QTimer(this)) {
  setMouseTracking(true);
  setFocusPolicy(Qt::StrongFocus);
  setAttribute(Qt::WA_OpaquePaintEvent);
  // A click opens a panel, a double click adds a key: the click waits for what it becomes.
  click_->setSingleShot(true);
  connect(click_, &QTimer::timeout, this, [this] { view_->setLarge(view_->state().large >= 0 ? -1 : clicked_); });
  wheel_->setSingleShot(true);
  wheel_->setInterval(160);
  connect(wheel_, &QTimer::timeout, this, [this] { view_->finishQuick(); });
}

FieldGeometry ValueFieldCanvas::geometryNow() const { return fieldGeometry(view_->state().settings, QRectF(rect()), Theme::current()); }

ValueFieldCanvas::Place ValueFieldCanvas::placeAt(const QPointF& point, double margin) const {
  if (const int large = view_->state().large; large >= 0) {
    const QRectF square = largeFieldPanel(QRectF(rect()), Theme::current());
    return square.adjusted(-margin, -margin, margin, margin).contains(point) ? Place{large, square} : Place{};
  }
  const FieldGeometry g = geometryNow();
  const int panel = g.at(point, 0) >= 0 ? g.at(point, 0) : g.at(point, std::min(margin, 4.0));
  return panel < 0 ? Place{} : Place{panel, g.panels[panel]};
}

int ValueFieldCanvas::keyAt(const QPointF& point) const {
  const Place place = placeAt(point, kGrip);
  if (place.panel < 0) return -1;
  const auto& state = view_->state();
  int best = -1;
  double least = kGrip * Theme::current().base / 12;
  for (int i = 0; i < int(state.settings.keys.size()); ++i) {
    const auto& key = state.settings.keys[size_t(i)];
    const QPointF at = fieldPoint(state.settings, place.square, key.x, key.y);
    const double d = std::hypot(at.x() - point.x(), at.y() - point.y()) - (i == state.selected ? 2 : 0);
    if (d <= least) least = d, best = i;
  }
  return best;
}

void ValueFieldCanvas::contentChanged() {
  const auto& state = view_->state();
  const double wanted = state.large >= 0 ? 0 : fieldHeight(state.settings, width(), Theme::current());
  setMinimumHeight(int(std::ceil(wanted)));
  if (view_->field()) images_.forgetOthers(*view_->field());
  update();
}

void ValueFieldCanvas::paintEvent(QPaintEvent*) {
  const Theme& theme = Theme::current();
  QPainter painter(this);
  painter.fillRect(rect(), theme.surface);
  const auto& state = view_->state();
  const auto& field = view_->field();
  if (!field) {
    painter.setPen(theme.text2);
    painter.setFont(theme.ui);
    painter.drawText(rect(), Qt::AlignCenter, QStringLiteral("Computing the fields…"));
  } else {
    const FieldMarks marks{&state.settings.keys, state.cross, state.selected, hovered_key_, -1, int(field->x.size()) > ValueFieldView::kQuickGrid};
    // While other panels are being computed the last ones stay.
    if (state.large >= 0 && state.large < int(field->panels.size()))
      paintLargeField(painter, QRectF(rect()), *field, state.large, theme, marks, images_);
    else
      paintField(painter, fieldGeometry(field->settings, QRectF(rect()), theme), *field, theme, marks, images_);
  }
  if (!focus_ring_) return;
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(QPen(theme.selection, 2));
  painter.setBrush(Qt::NoBrush);
  painter.drawRoundedRect(QRectF(rect()).adjusted(1, 1, -1, -1), 4, 4);
}

QString ValueFieldCanvas::statusAt(const Place& place, const QPointF& point) const {
  const auto& s = view_->state().settings;
  if (const int key = keyAt(point); key >= 0) {
    const auto& k = s.keys[size_t(key)];
    QString value = signedNumber(k.value[0], 3);
    if (s.channels == 3) value = fieldColour(s, k.value.data()).name();
    return QStringLiteral("key %1 · %2 · value %3 · drag it, Delete removes it").arg(key).arg(coordinates(s, {k.x, k.y}), value);
  }
  if (place.panel < 0) return QStringLiteral("drag a key to move it · double click to add one · click a panel to open it large");
  const size_t column = size_t(place.panel) % s.columns.size();
  QString text = fieldTitle(s, column);
  if (s.columns[column].kind == analysis::FieldKind::ramnet) text += QStringLiteral(", ") + fieldRowText(s.rows[size_t(place.panel) / s.columns.size()]);
  text += QStringLiteral(" · ") + coordinates(s, fieldQuery(s, place.square, point));
  const auto& values = view_->crossValues();
  const size_t at = size_t(place.panel + 1) * size_t(s.channels);
  if (values.size() >= at + size_t(s.channels))
    text += QStringLiteral(" · value %1").arg(s.channels == 3 ? fieldColour(s, &values[at]).name() : signedNumber(values[at], 4));
  return text;
}

QString ValueFieldCanvas::tipAt(const QPointF& point) const {
  const auto& field = view_->field();
  const Place place = placeAt(point);
  if (!field || place.panel < 0 || place.panel >= int(field->panels.size())) return {};
  const auto& s = field->settings;
  const size_t column = size_t(place.panel) % s.columns.size();
  const auto& p = s.columns[column];
  const auto& result = *field->panels[size_t(place.panel)];
  QVector<std::pair<QString, QString>> rows;
  if (p.kind == analysis::FieldKind::ramnet) rows.push_back({QStringLiteral("β"), fieldRowText(s.rows[size_t(place.panel) / s.columns.size()])});
  if (p.kind != analysis::FieldKind::full_attention) rows.push_back({QStringLiteral("RMSE to full attention"), QString::number(result.rmse, 'f', 4)});
  if (p.kind == analysis::FieldKind::ramnet) {
    rows.push_back({QStringLiteral("mean read mass"), QString::number(result.mean_read_mass, 'f', 4)});
    rows.push_back({QStringLiteral("slots written"), QStringLiteral("%1 of %2").arg(count(result.written), count(qint64(result.mass.size())))});
    if (result.empty_cells > 0) rows.push_back({QStringLiteral("queries that read nothing"), share(double(result.empty_cells) / double(field->x.size() * field->y.size()))});
  }
  const QString formula = p.kind == analysis::FieldKind::full_attention    ? QStringLiteral("f(q) = Σ softmax(q·k/τ) v")
                          : p.kind == analysis::FieldKind::quantised       ? QStringLiteral("full attention over quantised keys and values")
                          : p.kind == analysis::FieldKind::linear_elu      ? QStringLiteral("φ(q)·Σ φ(k) v / φ(q)·Σ φ(k), φ = elu + 1")
                          : p.kind == analysis::FieldKind::linear_features ? QStringLiteral("φ(q)·Σ φ(k) v / φ(q)·Σ φ(k), positive random features")
                          : p.mass_aware                                   ? QStringLiteral("Σ r m s / Σ r m over the K read slots · RAM-Net")
                          : p.divide                                       ? QStringLiteral("Σ r s / Σ r over written slots (ours)")
                                                                           : QStringLiteral("Σ r s over the K read slots · RAM-Net");
  return tipText(fieldTitle(s, column), rows, formula, Theme::current());
}

bool ValueFieldCanvas::event(QEvent* event) {
  if (event->type() == QEvent::ToolTip) {
    auto* help = static_cast<QHelpEvent*>(event);
    const QString tip = dragged_ < 0 ? tipAt(help->pos()) : QString();
    if (tip.isEmpty())
      QToolTip::hideText();
    else
      QToolTip::showText(help->globalPos(), tip, this);
    return true;
  }
  if (event->type() == QEvent::Resize) contentChanged();
  return QWidget::event(event);
}

void ValueFieldCanvas::mousePressEvent(QMouseEvent* event) {
  setFocus(Qt::MouseFocusReason);
  if (event->button() != Qt::LeftButton) return;
  pressed_ = event->position();
  moved_ = false;
  const Place place = placeAt(pressed_, kGrip);
  dragged_ = keyAt(pressed_);
  pressed_on_panel_ = place.panel >= 0 && dragged_ < 0;
  if (dragged_ >= 0) {
    drag_square_ = place.square;
    const auto& key = view_->state().settings.keys[size_t(dragged_)];
    grip_ = fieldPoint(view_->state().settings, drag_square_, key.x, key.y) - pressed_;  // a key does not jump when it is taken
    view_->selectKey(dragged_);
  } else if (place.panel >= 0) {
    view_->setCross(fieldQuery(view_->state().settings, place.square, pressed_));
  }
}

void ValueFieldCanvas::mouseMoveEvent(QMouseEvent* event) {
  const QPointF at = event->position();
  if ((at - pressed_).manhattanLength() >= 3) moved_ = true;
  if (dragged_ >= 0 && (event->buttons() & Qt::LeftButton)) {
    if (!moved_) return;
    setCursor(Qt::ClosedHandCursor);
    view_->moveKey(dragged_, fieldQuery(view_->state().settings, drag_square_, at + grip_), true);
    Q_EMIT view_->statusText(statusAt(placeAt(at), fieldPoint(view_->state().settings, drag_square_, view_->state().settings.keys[size_t(dragged_)].x, view_->state().settings.keys[size_t(dragged_)].y)));
    return;
  }
  hover(at);
}

void ValueFieldCanvas::mouseReleaseEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton) return;
  const bool was_key = dragged_ >= 0;
  dragged_ = -1;
  unsetCursor();
  if (was_key && moved_) view_->finishQuick();
  if (!was_key && !moved_) {
    if (pressed_on_panel_) {
      clicked_ = placeAt(event->position()).panel;
      if (clicked_ >= 0) click_->start(QApplication::doubleClickInterval());
    } else {
      view_->selectKey(-1);
    }
  }
}

void ValueFieldCanvas::mouseDoubleClickEvent(QMouseEvent* event) {
  click_->stop();
  pressed_on_panel_ = false;  // the release that follows is no click
  if (event->button() != Qt::LeftButton) return;
  const Place place = placeAt(event->position());
  if (place.panel < 0 || keyAt(event->position()) >= 0) return;
  view_->addKey(fieldQuery(view_->state().settings, place.square, event->position()));
}

void ValueFieldCanvas::hover(const QPointF& point) {
  const Place place = placeAt(point);
  const int key = keyAt(point);
  if (key != hovered_key_) hovered_key_ = key, update();
  if (key >= 0)
    setCursor(Qt::OpenHandCursor);
  else
    unsetCursor();
  hovered_panel_ = place.panel;
  if (place.panel >= 0) {
    view_->setHoveredRow(place.panel / int(view_->state().settings.columns.size()));
    view_->setCross(fieldQuery(view_->state().settings, place.square, point));
  }
  Q_EMIT view_->statusText(statusAt(place, point));
}

void ValueFieldCanvas::leaveEvent(QEvent*) {
  if (hovered_key_ >= 0) update();
  hovered_key_ = hovered_panel_ = -1;
  Q_EMIT view_->statusText({});
}

void ValueFieldCanvas::scaleRow(int row, double factor) {
  view_->change(
      [row, factor](FieldState& state) {
        double& beta = state.settings.rows[size_t(row)];
        if (!std::isfinite(beta)) return;
        // Three digits, so that β = 0.5 β* does not become 0.50000001.
        const double wanted = std::clamp(beta == 0 ? 0.05 : beta * factor, 0.01, 100.0);
        const double digit = std::pow(10, std::floor(std::log10(wanted)) - 2);
        beta = std::round(wanted / digit) * digit;
        beta = QString::number(beta, 'g', 3).toDouble();
      },
      true);
  wheel_->start();
}

void ValueFieldCanvas::wheelEvent(QWheelEvent* event) {
  const Place place = placeAt(event->position());
  const auto& s = view_->state().settings;
  if (place.panel < 0 || (event->modifiers() & ~Qt::ShiftModifier) || s.columns[size_t(place.panel) % s.columns.size()].kind != analysis::FieldKind::ramnet)
    return event->ignore();  // scrolls
  const int delta = event->angleDelta().y() != 0 ? event->angleDelta().y() : event->angleDelta().x();
  wheel_rest_ += delta;
  const int steps = wheel_rest_ / 120;
  wheel_rest_ -= steps * 120;
  if (steps != 0) scaleRow(place.panel / int(s.columns.size()), std::pow(event->modifiers() & Qt::ShiftModifier ? 1.01 : 1.08, steps));
  event->accept();
}

void ValueFieldCanvas::moveBy(double x, double y) {
  const auto& state = view_->state();
  const auto& s = state.settings;
  const double unit = s.space == FieldSpace::torus ? kTurn : 2 * s.extent;
  const auto moved = [&](const QPointF& from) {
    QPointF to(from.x() + x * unit, from.y() + y * unit);
    if (s.space == FieldSpace::torus) return QPointF(to.x() - kTurn * std::floor(to.x() / kTurn), to.y() - kTurn * std::floor(to.y() / kTurn));
    return QPointF(std::clamp(to.x(), -s.extent, s.extent), std::clamp(to.y(), -s.extent, s.extent));
  };
  if (state.selected >= 0) {
    const auto& key = s.keys[size_t(state.selected)];
    view_->moveKey(state.selected, moved({key.x, key.y}), true);
    wheel_->start();  // many queries when the arrows rest
  } else {
    view_->setCross(moved(state.cross.value_or(s.space == FieldSpace::torus ? QPointF(kTurn / 2, kTurn / 2) : QPointF(0, 0))));
  }
}

void ValueFieldCanvas::keyPressEvent(QKeyEvent* event) {
  const auto& state = view_->state();
  const int keys = int(state.settings.keys.size()), columns = int(state.settings.columns.size());
  const double step = event->modifiers() & Qt::ShiftModifier ? 1.0 / 512 : 1.0 / 64;
  switch (event->key()) {
    case Qt::Key_Left: return moveBy(-step, 0);
    case Qt::Key_Right: return moveBy(step, 0);
    case Qt::Key_Up: return moveBy(0, step);
    case Qt::Key_Down: return moveBy(0, -step);
    case Qt::Key_PageDown: return view_->selectKey(keys == 0 ? -1 : (state.selected + 1) % keys);
    case Qt::Key_PageUp: return view_->selectKey(keys == 0 ? -1 : (std::max(state.selected, 0) + keys - 1) % keys);
    case Qt::Key_Delete:
    case Qt::Key_Backspace: return view_->removeKey(state.selected);
    case Qt::Key_Insert:
      if (state.cross) view_->addKey(*state.cross);
      return;
    case Qt::Key_Return:
    case Qt::Key_Enter: return view_->setLarge(state.large >= 0 ? -1 : std::max(0, hovered_panel_));
    case Qt::Key_Escape:
      if (state.large >= 0) return view_->setLarge(-1);
      if (state.selected >= 0) return view_->selectKey(-1);
      return event->ignore();
    case Qt::Key_Plus:
    case Qt::Key_Minus: return scaleRow(std::clamp(view_->shownRow(), 0, int(state.settings.rows.size()) - 1), event->key() == Qt::Key_Plus ? 1.08 : 1 / 1.08);
    case Qt::Key_Tab:
    case Qt::Key_Backtab: break;
    case Qt::Key_BracketLeft:
    case Qt::Key_BracketRight:
      if (state.large >= 0) return view_->setLarge((state.large + (event->key() == Qt::Key_BracketRight ? 1 : columns * int(state.settings.rows.size()) - 1)) % (columns * int(state.settings.rows.size())));
      return;
    case Qt::Key_Z:
      if (event->modifiers() & Qt::ControlModifier) return view_->undo();
      break;
    default: break;
  }
  event->ignore();
  QWidget::keyPressEvent(event);
}

void ValueFieldCanvas::contextMenuEvent(QContextMenuEvent* event) {
  click_->stop();
  auto* menu = new QMenu(this);
  menu->setAttribute(Qt::WA_DeleteOnClose);
  const QPointF at = event->pos();
  const Place place = placeAt(at);
  if (const int key = keyAt(at); key >= 0) {
    menu->addAction(QStringLiteral("Remove key %1").arg(key), view_, [view = view_, key] { view->removeKey(key); });
    menu->addSeparator();
  } else if (place.panel >= 0) {
    const QPointF query = fieldQuery(view_->state().settings, place.square, at);
    menu->addAction(QStringLiteral("Add a key here"), view_, [view = view_, query] { view->addKey(query); });
    menu->addSeparator();
  }
  if (place.panel >= 0) view_->fillPanelMenu(menu, place.panel);
  view_->fillMenu(menu);
  menu->popup(event->globalPos());
}

void ValueFieldCanvas::focusInEvent(QFocusEvent* event) {
  focus_ring_ = event->reason() == Qt::TabFocusReason || event->reason() == Qt::BacktabFocusReason || event->reason() == Qt::ShortcutFocusReason;
  update();
}
void ValueFieldCanvas::focusOutEvent(QFocusEvent*) {
  focus_ring_ = false;
  update();
}

}  // namespace slotscope::views
