// Mouse and keyboard of the heatmap (design: sections 6 and 14).
#include <QApplication>
#include <QClipboard>
#include <QKeyEvent>
#include <QMenu>
#include <QMouseEvent>
#include <QWheelEvent>
#include <algorithm>
#include <cmath>

#include "views/format.h"
#include "views/heatmap_plot.h"
#include "views/heatmap_tip.h"
#include "views/heatmap_view.h"
#include "views/timeline_view.h"
#include "views/token_cells.h"

namespace slotscope::views {

namespace {
using Part = HeatmapGeometry::Part;
constexpr double kClickSlack = 4;  // moving less than this is a click

QString csv_number(double v) {
  return std::isfinite(v) ? QString::number(v, 'g', 17)
         : std::isnan(v)  ? QStringLiteral("nan")
         : v > 0          ? QStringLiteral("inf")
                          : QStringLiteral("-inf");
}
}  // namespace

bool HeatmapView::eventFilter(QObject* object, QEvent* event) {
  if (object != plot_) return View::eventFilter(object, event);
  switch (event->type()) {
    case QEvent::MouseButtonPress:
      return mousePress(static_cast<QMouseEvent*>(event));
    case QEvent::MouseMove:
      return mouseMove(static_cast<QMouseEvent*>(event));
    case QEvent::MouseButtonRelease:
      return mouseRelease(static_cast<QMouseEvent*>(event));
    case QEvent::MouseButtonDblClick:
      return mouseDouble(static_cast<QMouseEvent*>(event));
    case QEvent::Wheel:
      return wheel(static_cast<QWheelEvent*>(event));
    case QEvent::ContextMenu:
      return true;  // opened on release: a right drag is a zoom
    case QEvent::Leave:
      leaveHover();
      return false;
    case QEvent::Resize:
      message_page_->setGeometry(plot_->geometry());
      return false;
    default:
      return false;
  }
}

// In a pooled column many tokens share a pixel: what is seen there is the strongest write, so that is what is
// meant.
std::pair<int, qint64> HeatmapView::cellAt(const QPointF& at) const {
  const HeatmapGeometry g = plotGeometry();
  const int64_t row = std::clamp<int64_t>(g.rowAt(at.y()), 0, int64_t(rows_.slot.size()) - 1);
  const int slot = rows_.slot[size_t(row)];
  const qint64 token = std::min<qint64>(g.tokenAt(at.x()), (cells_ ? axisTokens() : tokens()) - 1);
  const Picture& picture = pictureFor({tokenRange().first, std::min(tokenRange().second, tokens())}, row_range_);
  if (!picture.grid || cells_ || picture.grid->tokens_per_column <= 1 || quantity_ == Quantity::survival_of)
    return {slot, token};
  const double width = picture.grid->tokens_per_column;
  const int64_t column = int64_t(double(token - picture.grid->first) / width);
  const int64_t from = picture.grid->first + int64_t(std::floor(double(column) * width));
  const int64_t to = picture.grid->first + int64_t(std::floor(double(column + 1) * width));
  const auto& w = head_->writes;
  double best = -1;
  qint64 best_token = token;
  for (int64_t e = w.entries_until(slot, from - 1); e < w.entries_until(slot, to - 1); ++e)
    if (const auto v = cellValue(*head_, quantity_, slot, w.token_at(e), reference())) {
      const double size = std::isfinite(*v) ? std::abs(*v) : 1e300;
      if (size > best) best = size, best_token = w.token_at(e);
    }
  return {slot, best_token};
}

bool HeatmapView::mousePress(QMouseEvent* event) {
  setFocus(Qt::MouseFocusReason);
  tip_->hide();
  tip_timer_.stop();
  if (!head_ || rows_.slot.empty() || tokens() <= 0 || drag_ != Drag::None) return true;
  if (event->button() != Qt::LeftButton && event->button() != Qt::RightButton &&
      event->button() != Qt::MiddleButton)
    return false;
  const HeatmapGeometry g = plotGeometry();
  press_ = event->position();
  press_button_ = event->button();
  press_tokens_ = tokenRange();
  press_rows_ = row_range_;
  drag_merged_ = false;
  drag_ = Drag::Press;
  const Part part = g.partAt(press_);
  const auto& s = selection_->current();
  // The chips on the axes move the selection.
  if (event->button() == Qt::LeftButton && part == Part::TokenStrip &&
      std::abs(press_.x() - g.x(double(s.token) + 0.5)) <= 24 &&
      press_.y() >= g.plot.bottom() + (g.tokenStrip() ? 22 : 3))
    drag_ = Drag::TokenChip;
  const int64_t row = size_t(s.slot) < rows_.row_of.size() ? rows_.row_of[size_t(s.slot)] : -1;
  if (event->button() == Qt::LeftButton && part == Part::SlotMargin && row >= 0 &&
      std::abs(press_.y() - g.y(double(row) + 0.5)) <= 8 && (g.slotIds() || press_.x() <= g.area.left() + 34))
    drag_ = Drag::SlotChip;
  return true;
}

bool HeatmapView::mouseMove(QMouseEvent* event) {
  if (!head_ || rows_.slot.empty() || tokens() <= 0) return true;
  const HeatmapGeometry g = plotGeometry();
  const QPointF at = event->position();
  if (drag_ == Drag::None) {
    hoverAt(at, event->modifiers() & Qt::ShiftModifier);
    return true;
  }
  const QPointF by = at - press_;
  if (drag_ == Drag::Press) {
    if (std::hypot(by.x(), by.y()) < kClickSlack) return true;
    const Part part = g.partAt(press_);
    const bool band = press_button_ == Qt::RightButton || (event->modifiers() & Qt::ControlModifier);
    if (part == Part::TokenStrip && (event->modifiers() & Qt::ShiftModifier))
      drag_ = Drag::Brush;
    else if (band && part == Part::Cells)
      drag_ = Drag::RubberBand;
    else if (part == Part::Cells || part == Part::TokenStrip || part == Part::SlotMargin)
      drag_ = Drag::Pan;
    selection_->setHover(-1, -1);
  }
  switch (drag_) {
    case Drag::Pan: {
      const double cw = g.plot.width() / double(press_tokens_.second - press_tokens_.first);
      const double rh = g.plot.height() / double(press_rows_.second - press_rows_.first);
      const Part part = g.partAt(press_);
      if (part != Part::TokenStrip)
        setRowRange(panRange(press_rows_, -std::llround(by.y() / rh), int64_t(rows_.slot.size())));
      const CellRange next = panRange(press_tokens_, -std::llround(by.x() / cw), axisTokens());
      if (part != Part::SlotMargin && next != tokenRange()) {
        setTokenRange(next, drag_merged_);
        drag_merged_ = true;
      }
      break;
    }
    case Drag::RubberBand:
      rubber_ = QRectF(press_, at).normalized();
      plot_->refreshHover();
      break;
    case Drag::Brush: {
      const qint64 a = g.tokenAt(press_.x()), b = g.tokenAt(at.x());
      selection_->setBrush(std::pair{std::min(a, b), std::max(a, b) + 1});
      break;
    }
    case Drag::TokenChip:
      selection_->request({.token = g.tokenAt(at.x())}, drag_merged_);
      drag_merged_ = true;
      break;
    case Drag::SlotChip:
      selection_->request(
          {.slot =
               rows_.slot[size_t(std::clamp<int64_t>(g.rowAt(at.y()), 0, int64_t(rows_.slot.size()) - 1))]},
          drag_merged_);
      drag_merged_ = true;
      break;
    default:
      break;
  }
  return true;
}

bool HeatmapView::mouseRelease(QMouseEvent* event) {
  if (drag_ == Drag::None || event->button() != press_button_) return true;
  const Drag was = drag_;
  drag_ = Drag::None;
  const HeatmapGeometry g = plotGeometry();
  if (was == Drag::RubberBand) {
    const QRectF band = rubber_.intersected(g.plot);
    rubber_ = {};
    if (band.width() >= kClickSlack && band.height() >= kClickSlack) {
      const CellRange t{g.tokenAt(band.left()), g.tokenAt(band.right()) + 1},
          r{g.rowAt(band.top()), g.rowAt(band.bottom()) + 1};
      setRowRange(r);
      setTokenRange(t);
    }
    plot_->refreshHover();
    return true;
  }
  if (was != Drag::Press) return true;
  if (event->button() == Qt::RightButton) {
    contextMenu(event->globalPosition().toPoint());
    return true;
  }
  if (event->button() != Qt::LeftButton) return true;
  const auto [slot, token] = cellAt(press_);
  switch (g.partAt(press_)) {
    case Part::Cells:
      selection_->request({.slot = slot, .token = token});
      break;
    case Part::SlotMargin:
    case Part::EslMargin:
      selection_->request({.slot = slot});
      break;
    case Part::TokenStrip:
      selection_->request({.token = g.tokenAt(press_.x())});
      break;
    case Part::EslTitle:
      setMarginKind(MarginKind((int(margin_kind_) + 1) % 4));
      break;
    case Part::Spans: {
      // A click over a span's bar goes to its first token.
      if (!run_) break;
      const qint64 at = g.tokenAt(press_.x());
      for (const Span& span : run_->info().spans)
        if (at >= span.begin && at < span.end) selection_->request({.token = span.begin});
      break;
    }
    case Part::Nothing:
      break;
  }
  return true;
}

bool HeatmapView::mouseDouble(QMouseEvent* event) {
  if (!head_ || rows_.slot.empty() || event->button() != Qt::LeftButton) return true;
  const HeatmapGeometry g = plotGeometry();
  if (g.partAt(event->position()) != Part::Cells) return true;
  drag_ = Drag::None;
  const auto [slot, token] = cellAt(event->position());
  if (cells_ || cellValue(*head_, quantity_, slot, token, reference()))
    zoomToTokens(token);
  else
    zoomToAll();
  return true;
}

bool HeatmapView::wheel(QWheelEvent* event) {
  event->accept();
  if (!head_ || rows_.slot.empty() || tokens() <= 0) return true;
  tip_->hide();
  const HeatmapGeometry g = plotGeometry();
  const QPointF at = event->position();
  // With Alt or on some systems with Shift, Qt turns the wheel sideways.
  const double units = event->angleDelta().y() != 0 ? event->angleDelta().y() : event->angleDelta().x();
  const Part part = g.partAt(at);
  if (event->modifiers() & Qt::ShiftModifier) {
    wheel_rest_tokens_ += units;
    const int64_t width = tokenRange().second - tokenRange().first;
    const auto by = int64_t(-wheel_rest_tokens_ / 120 * std::max(1.0, double(width) / 10));
    if (by == 0) return true;
    wheel_rest_tokens_ = 0;
    setTokenRange(panRange(tokenRange(), by, axisTokens()));
    return true;
  }
  const bool rows =
      part == Part::SlotMargin || part == Part::EslMargin || (event->modifiers() & Qt::ControlModifier);
  double& rest = rows ? wheel_rest_rows_ : wheel_rest_tokens_;
  rest += units;
  const CellRange now = rows ? row_range_ : tokenRange();
  const int64_t total = rows ? int64_t(rows_.slot.size()) : axisTokens(), width = now.second - now.first;
  const double factor = wheelFactor(rest);
  // Small deltas of touchpads add up until they change a whole cell, or a whole notch has come.
  if (std::abs(rest) < 120 && std::llround(double(width) / factor) == width) return true;
  rest = 0;
  const CellRange next =
      zoomRange(now, rows ? g.rowPosition(at.y()) : g.tokenPosition(at.x()), factor, total);
  if (rows)
    setRowRange(next);
  else
    setTokenRange(next);
  return true;
}

void HeatmapView::hoverAt(const QPointF& at, bool tip_at_once) {
  const HeatmapGeometry g = plotGeometry();
  last_hover_ = at;
  tip_->hide();
  int slot = -1;
  qint64 token = -1;
  switch (g.partAt(at)) {
    case Part::Cells:
      std::tie(slot, token) = cellAt(at);
      break;
    case Part::SlotMargin:
    case Part::EslMargin:
      slot = cellAt(at).first;
      break;
    case Part::TokenStrip:
      token = g.tokenAt(at.x());
      break;
    default:
      break;
  }
  plot_->setCursor(g.partAt(at) == Part::EslTitle ? Qt::PointingHandCursor : Qt::ArrowCursor);
  selection_->setHover(slot, token);
  if (slot >= 0 && token < 0) {
    const size_t s = size_t(slot);
    const double v = s < margin_.size() ? margin_[s] : std::nan("");
    Q_EMIT statusText(QStringLiteral("slot %1   %2 = %3")
                          .arg(count(slot), marginName(margin_kind_),
                               v >= 1 && v == std::floor(v) ? count(qint64(v)) : strength(v, 4)));
  } else {
    Q_EMIT statusText(token >= 0 ? cellText(slot, token) : QString());
  }
  if (slot < 0 || token < 0) return tip_timer_.stop();
  if (tip_at_once)
    showTip();
  else
    tip_timer_.start();
}

void HeatmapView::leaveHover() {
  tip_timer_.stop();
  tip_->hide();
  selection_->setHover(-1, -1);
  Q_EMIT statusText(QString());
}

void HeatmapView::showTip() {
  const int slot = selection_->hoverSlot();
  const qint64 token = selection_->hoverToken();
  if (!head_ || slot < 0 || token < 0 || drag_ != Drag::None) return;
  if (cells_) {
    tip_->setContent(cells_->name, {{cells_->text(slot, token), QString()}}, {});
    const int64_t at = size_t(slot) < rows_.row_of.size() ? rows_.row_of[size_t(slot)] : 0;
    tip_->showBeside(plotGeometry().cell(token, std::max<int64_t>(0, at)).translated(plot_->pos()));
    return;
  }
  QString title = QStringLiteral("Slot %1  ×  token %2").arg(count(slot), count(token));
  if (run_ && token < run_->info().tokens)
    title += QStringLiteral(" ") + tokenTitle(run_->info(), token);
  HeatmapTip::Rows rows;
  const auto add = [&](Quantity q, const QString& name, bool always) {
    const auto v = cellValue(*head_, q, slot, token, reference());
    if (!v && !always) return;
    const bool logs = q == Quantity::log_gate;
    const bool survival = q == Quantity::survival_at || q == Quantity::survival_of;
    const QString text = !v               ? QStringLiteral("not routed")
                         : std::isnan(*v) ? QStringLiteral("NaN")
                         : logs           ? signedNumber(*v, 4)
                         : survival       ? share(*v)
                                          : strength(*v, 4);
    rows.push_back({name, text});
  };
  add(quantity_, quantityName(quantity_), true);
  if (quantity_ != Quantity::write_strength)
    add(Quantity::write_strength, quantityName(Quantity::write_strength), false);
  if (quantity_ != Quantity::route_weight)
    add(Quantity::route_weight, quantityName(Quantity::route_weight), false);
  const auto& w = head_->writes;
  const int64_t e = w.entries_until(slot, token) - 1;
  if (e >= w.first(slot) && w.token_at(e) == token && w.has_gates) {
    if (w.weight_at(e) != 0)
      rows.push_back({QStringLiteral("log decay a"), signedNumber(w.log_gate[size_t(e)] / w.weight_at(e), 2)});
    const auto left = cellValue(*head_, Quantity::survival_at, slot, token, query());
    rows.push_back({QStringLiteral("left at query"), left ? share(*left) : QStringLiteral("after query")});
  }
  tip_->setContent(title, rows, quantityFormula(quantity_));
  const HeatmapGeometry g = plotGeometry();
  const int64_t row = rows_.row_of[size_t(slot)];
  tip_->showBeside(g.cell(token, std::max<int64_t>(0, row)).translated(plot_->pos()));
}

void HeatmapView::contextMenu(const QPoint& global) {
  if (cells_) return;  // its rows are no slots of one head
  QMenu menu(this);
  menu.setToolTipsVisible(true);
  const auto [slot, token] = cellAt(press_);
  const int s = slot;
  const qint64 t = token;
  const auto& w = head_->writes;
  menu.addAction(QStringLiteral("Select slot %1, token %2").arg(count(s), count(t)), this,
                 [=, this] { selection_->request({.slot = s, .token = t}); });
  const int64_t b = w.first(s), e = w.last(s);
  QAction* writes =
      menu.addAction(QStringLiteral("Zoom to the writes of slot %1").arg(count(s)), this, [=, this] {
        setTokenRange({head_->writes.token_at(b), head_->writes.token_at(e - 1) + 1});
      });
  writes->setEnabled(e > b);
  QAction* follow = menu.addAction(QStringLiteral("Follow token %1").arg(count(t)), this, [=, this] {
    selection_->request({.slot = s, .token = t});
    setQuantity(Quantity::survival_of);
  });
  follow->setEnabled(w.has_gates);
  if (!w.has_gates) follow->setToolTip(emptyReason(*head_, Quantity::survival_of, t));
  menu.addSeparator();
  menu.addAction(QStringLiteral("Copy value"), this, [=, this] {
    const auto v = cellValue(*head_, quantity_, s, t, reference());
    QGuiApplication::clipboard()->setText(v ? strength(*v, 6) : QStringLiteral("not routed"));
  });
  menu.addAction(QStringLiteral("Copy row as CSV"), this, [=, this] { copyRow(s); });
  menu.addAction(QStringLiteral("Copy column as CSV"), this, [=, this] { copyColumn(t); });
  const auto later = [&](const QString& text, const QString& why) {
    QAction* action = menu.addAction(text);
    action->setEnabled(false);
    action->setToolTip(why);
  };
  later(QStringLiteral("Mark as role"), QStringLiteral("roles come from the task's spans"));
  later(QStringLiteral("Show in Reads"), QStringLiteral("the Reads view is not built yet"));
  menu.addSeparator();
  fillMenu(&menu);
  menu.addSeparator();
  menu.addAction(QStringLiteral("Export figure…"), this, &HeatmapView::figureRequested);
  menu.addAction(QStringLiteral("Help on %1").arg(quantityName(quantity_)), this,
                 [this] { Q_EMIT helpRequested(quantityName(quantity_)); });
  menu.exec(global);
}

void HeatmapView::copyRow(int slot) const {
  QString text = QStringLiteral("token,%1\n").arg(quantityName(quantity_));
  const auto& w = head_->writes;
  for (int64_t e = w.first(slot); e < w.last(slot); ++e) {
    const int64_t t = w.token_at(e);
    if (const auto v = cellValue(*head_, quantity_, slot, t, reference()))
      text += QString::number(t) + QLatin1Char(',') + csv_number(*v) + QLatin1Char('\n');
  }
  QGuiApplication::clipboard()->setText(text);
}

void HeatmapView::copyColumn(qint64 token) const {
  QString text = QStringLiteral("slot,%1\n").arg(quantityName(quantity_));
  for (const int s : rows_.slot)
    if (const auto v = cellValue(*head_, quantity_, s, token, reference()))
      text += QString::number(s) + QLatin1Char(',') + csv_number(*v) + QLatin1Char('\n');
  QGuiApplication::clipboard()->setText(text);
}

// --- keyboard ---

void HeatmapView::stepSlot(int by, bool merge) {
  if (rows_.slot.empty()) return;
  const auto n = int64_t(rows_.slot.size());
  const int slot = selection_->current().slot;
  const int64_t row = size_t(slot) < rows_.row_of.size() ? rows_.row_of[size_t(slot)] : -1;
  const int64_t next = row < 0 ? 0 : std::clamp<int64_t>(row + by, 0, n - 1);
  selection_->request({.slot = rows_.slot[size_t(next)]}, merge);
}

void HeatmapView::stepToken(qint64 by, bool merge) {
  selection_->request({.token = selection_->current().token + by}, merge);
}

void HeatmapView::stepRole(int direction) {
  if (!run_) return;
  const auto& roles = run_->info().roles;
  const qint64 now = selection_->current().token;
  if (size_t(now) >= roles.size()) return;
  for (qint64 t = now + direction; t >= 0 && size_t(t) < roles.size(); t += direction)
    if (roles[size_t(t)] == roles[size_t(now)]) {
      selection_->request({.token = t});
      return;
    }
}

// First token of the span; pressed again, the next one inside of it.
void HeatmapView::selectSpan(const char* name) {
  if (!run_) return;
  // What is asked for: a marked value where there is one, else the key (the password).
  const Span* value = std::string_view(name) == "key" ? run_->info().span("value") : nullptr;
  const Span* span = value ? value : run_->info().span(name);
  if (!span) return;
  const qint64 now = selection_->current().token;
  const bool inside = now >= span->begin && now + 1 < span->end;
  selection_->request({.token = inside ? now + 1 : span->begin});
}

void HeatmapView::selectLastWriter() {
  const int slot = selection_->current().slot;
  if (!head_ || slot < 0 || slot >= head_->writes.slots) return;
  const auto& w = head_->writes;
  if (w.last(slot) > w.first(slot)) selection_->request({.token = w.token_at(w.last(slot) - 1)});
}

// The captured read token with the largest attribution A[t,j] to the selected token j.
void HeatmapView::selectStrongestReader() {
  if (!head_ || ((!head_->writes.has_gates || head_->writes.strength.empty()) && !head_->matrix)) return;
  const qint64 j = selection_->current().token;
  double best = 0;
  qint64 reader = -1;
  for (const int64_t t : head_->read_token) {
    if (t < j) continue;
    std::vector<double> row = matrixRow(*head_, t);
    if (const auto p = readsAt(*head_, t); !p.empty()) row = analysis::read_attribution(head_->writes, p, t).weight;
    if (size_t(j) < row.size() && std::abs(row[size_t(j)]) > best) best = std::abs(row[size_t(j)]), reader = t;
  }
  if (reader >= 0) selection_->request({.token = reader});
}

void HeatmapView::keyPressEvent(QKeyEvent* event) {
  if (!head_ || rows_.slot.empty()) return View::keyPressEvent(event);
  const auto& s = selection_->current();
  const bool merge = event->isAutoRepeat(), shift = event->modifiers() & Qt::ShiftModifier,
             control = event->modifiers() & Qt::ControlModifier;
  const double token = double(s.token) + 0.5;
  const auto zoom = [&](double factor) {
    setTokenRange(zoomRange(tokenRange(),
                            std::clamp(token, double(tokenRange().first), double(tokenRange().second)),
                            factor, axisTokens()));
  };
  if (event->matches(QKeySequence::Copy)) {
    const auto v = cellValue(*head_, quantity_, s.slot, s.token, reference());
    QGuiApplication::clipboard()->setText(v ? strength(*v, 6) : QStringLiteral("not routed"));
    return;
  }
  const auto next_choice = [](const QVector<HeatmapChoice>& all, int now) {
    qsizetype at = 0;
    for (qsizetype i = 0; i < all.size(); ++i)
      if (all[i].value == now) at = i;
    for (qsizetype i = 1; i <= all.size(); ++i)
      if (const auto& c = all[(at + i) % all.size()]; c.why.isEmpty()) return c.value;
    return now;
  };
  switch (event->key()) {
    case Qt::Key_Left:
      control ? stepRole(-1) : stepToken(shift ? -10 : -1, merge);
      return;
    case Qt::Key_Right:
      control ? stepRole(1) : stepToken(shift ? 10 : 1, merge);
      return;
    case Qt::Key_Up:
      stepSlot(shift ? -10 : -1, merge);
      return;
    case Qt::Key_Down:
      stepSlot(shift ? 10 : 1, merge);
      return;
    case Qt::Key_Home:
      selection_->request({.token = 0});
      return;
    case Qt::Key_End:
      selection_->request({.token = tokens() - 1});
      return;
    case Qt::Key_Escape:
      if (tip_->isVisible())
        tip_->hide();
      else if (selection_->brush())
        selection_->setBrush(std::nullopt);
      else
        zoomToAll();
      return;
    case Qt::Key_0:
      if (control && (event->modifiers() & Qt::AltModifier))
        return setRowRange({0, int64_t(rows_.slot.size())});
      if (control) break;
      return setTokenRange({0, axisTokens()});
    case Qt::Key_Plus:
    case Qt::Key_Equal:
      if (control) break;  // text size
      return zoom(1.25);
    case Qt::Key_Minus:
      if (control) break;
      return zoom(0.8);
    default:
      break;
  }
  if (control || (event->modifiers() & Qt::AltModifier)) return View::keyPressEvent(event);
  switch (event->key()) {
    case Qt::Key_BracketLeft:
      selection_->request({.head = s.head - 1}, merge);
      return;
    case Qt::Key_BracketRight:
      selection_->request({.head = s.head + 1}, merge);
      return;
    case Qt::Key_BraceLeft:
    case Qt::Key_PageUp:
      selection_->request({.layer = s.layer - 1}, merge);
      return;
    case Qt::Key_BraceRight:
    case Qt::Key_PageDown:
      selection_->request({.layer = s.layer + 1}, merge);
      return;
    case Qt::Key_K:
      selectSpan("key");
      return;
    case Qt::Key_Q:
      selection_->request({.token = query()});
      return;
    case Qt::Key_A:
      selectSpan("answer");
      return;
    case Qt::Key_W:
      selectLastWriter();
      return;
    case Qt::Key_R:
      selectStrongestReader();
      return;
    case Qt::Key_Space:
      timeline_->setPlaying(!timeline_->playing());
      return;
    case Qt::Key_Period:
      timeline_->nextSpeed();
      return;
    case Qt::Key_S:
      setSort(HeatmapSort(next_choice(sortChoices(head_.get(), reference(), !followed_.empty()), int(sort_))));
      return;
    case Qt::Key_C:
      setQuantity(Quantity(next_choice(quantityChoices(head_.get()), int(quantity_))));
      return;
    case Qt::Key_L: {
      ColourSettings c = colours_;
      c.scale = c.scale == RangeScale::log ? RangeScale::linear : RangeScale::log;
      setColours(c);
      return;
    }
    case Qt::Key_Menu: {
      const HeatmapGeometry g = plotGeometry();
      const int64_t row =
          size_t(s.slot) < rows_.row_of.size() ? std::max<int64_t>(0, rows_.row_of[size_t(s.slot)]) : 0;
      press_ = g.cell(s.token, row).center();
      contextMenu(plot_->mapToGlobal(press_.toPoint()));
      return;
    }
    default:
      View::keyPressEvent(event);
  }
}

}  // namespace slotscope::views
