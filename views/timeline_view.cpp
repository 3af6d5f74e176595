#include "views/timeline_view.h"

#include <QAction>
#include <QActionGroup>
#include <QContextMenuEvent>
#include <QFocusEvent>
#include <QMenu>
#include <QMouseEvent>
#include <algorithm>
#include <cmath>

#include "views/format.h"
#include "views/prompt_values.h"
#include "views/heatmap_geometry.h"

namespace slotscope::views {

TimelineView::TimelineView(SelectionModel* selection, QWidget* parent) : View(selection, parent) {
  setMouseTracking(true);
  setFixedHeight(kHeight);
  setAccessibleName(QStringLiteral("Timeline"));
  timer_.setTimerType(Qt::PreciseTimer);
  connect(&timer_, &QTimer::timeout, this, &TimelineView::tick);
  const auto repaint = [this] { update(); };
  connect(selection, &SelectionModel::changed, this, [this](const Selection&, int parts) {
    if (parts & SelectionModel::Token) update();
  });
  connect(selection, &SelectionModel::hoverChanged, this, repaint);
  connect(selection, &SelectionModel::brushChanged, this, repaint);
  connect(selection, &SelectionModel::tokenRangeChanged, this, repaint);
}

qint64 TimelineView::tokens() const { return run_ ? run_->info().tokens : 0; }

void TimelineView::setRun(std::shared_ptr<const RunData> run) {
  setPlaying(false);
  View::setRun(std::move(run));
  computeValues();
}

void TimelineView::setHead(std::shared_ptr<const analysis::HeadData> head) {
  View::setHead(std::move(head));
  computeValues();
}

void TimelineView::setQuantity(Quantity quantity) {
  quantity_ = quantity;
  computeValues();
}

void TimelineView::computeValues() {
  values_.assign(size_t(tokens()), 0);
  column_width_ = -1;
  largest_ = 0;
  if (quantity_ == Quantity::writes && head_) {
    values_ = totalWrites(*head_);
    values_.resize(size_t(tokens()), 0);
  }
  if (quantity_ == Quantity::surprisal && run_) {
    const auto& info = run_->info();
    std::fill(values_.begin(), values_.end(), std::nan(""));
    // The generated tokens' own probabilities are known; token P + i was chosen at step i.
    const int64_t c = info.candidates;
    for (size_t i = 0; c > 0 && i < info.output_ids.size(); ++i) {
      const size_t t = size_t(info.prompt_tokens) + i;
      for (int64_t k = 0; k < c && t < values_.size(); ++k) {
        const size_t at = i * size_t(c) + size_t(k);
        if (at < info.top_ids.size() && at < info.top_logprob.size() &&
            info.top_ids[at] == info.output_ids[i]) {
          values_[t] = -info.top_logprob[at];
        }
      }
    }
  }
  for (const double v : values_)
    if (std::isfinite(v)) largest_ = std::max(largest_, v);
  update();
}

void TimelineView::setPlaying(bool on) {
  if (on == timer_.isActive()) return;
  if (on && run_) {
    if (selection_->current().token + 1 >= tokens()) selection_->request({.token = 0});
    timer_.start(speed_ >= 30 ? 1000 / 30 : 1000 / speed_);
  } else {
    timer_.stop();
  }
  update();
}

void TimelineView::nextSpeed() {
  static constexpr int speeds[] = {1, 4, 8, 30, 120};
  const auto* at = std::find(std::begin(speeds), std::end(speeds), speed_);
  speed_ = at + 1 < std::end(speeds) ? at[1] : speeds[0];
  if (timer_.isActive()) timer_.start(speed_ >= 30 ? 1000 / 30 : 1000 / speed_);
  update();
}

void TimelineView::tick() {
  qint64 token = selection_->current().token + std::max(1, speed_ / 30);
  const auto brush = selection_->brush();
  if (brush && token >= brush->second) token = brush->first;
  if (token >= tokens()) {
    setPlaying(false);
    token = tokens() - 1;
  }
  selection_->request({.token = token}, true);
}

TimelineView::Button TimelineView::buttonAt(const QPointF& p) const {
  for (const Button b : {Button::Back, Button::Play, Button::Forward, Button::Speed})
    if (buttonRect(b, rect()).contains(p)) return b;
  return Button::None;
}

TimelineView::Drag TimelineView::dragAt(const QPointF& p) const {
  const QRectF r = track();
  if (p.x() < r.left() - 5 || p.x() > r.right() + 5) return Drag::None;
  if (std::abs(p.x() - x(selection_->current().token + 0.5)) <= 5 && p.y() <= r.top() + 5) return Drag::Knob;
  const auto [first, last] = selection_->tokenRange();
  if (std::abs(p.x() - x(double(first))) <= 4) return Drag::Left;
  if (std::abs(p.x() - x(double(last))) <= 4) return Drag::Right;
  if (p.x() > x(double(first)) && p.x() < x(double(last))) return Drag::Frame;
  return Drag::None;
}

void TimelineView::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton || !run_) return;
  const QPointF p = event->position();
  switch (buttonAt(p)) {
    case Button::Back:
      selection_->request({.token = selection_->current().token - 1});
      return;
    case Button::Forward:
      selection_->request({.token = selection_->current().token + 1});
      return;
    case Button::Play:
      setPlaying(!playing());
      return;
    case Button::Speed:
      nextSpeed();
      return;
    case Button::None:
      break;
  }
  press_x_ = p.x();
  press_token_ = tokenAt(p.x());
  press_range_ = selection_->tokenRange();
  dragged_ = false;
  drag_ = event->modifiers() & Qt::ShiftModifier ? Drag::Brush : dragAt(p);
}

void TimelineView::mouseMoveEvent(QMouseEvent* event) {
  const QPointF p = event->position();
  if (!(event->buttons() & Qt::LeftButton)) {
    const Button over = buttonAt(p);
    if (over != hover_button_) {
      hover_button_ = over;
      update();
    }
    const Drag at = dragAt(p);
    setCursor(over != Button::None                    ? Qt::PointingHandCursor
              : at == Drag::Left || at == Drag::Right ? Qt::SizeHorCursor
                                                      : Qt::ArrowCursor);
    const bool on_track = run_ && track().adjusted(0, -4, 0, 4).contains(p);
    const qint64 t = on_track ? tokenAt(p.x()) : -1;
    selection_->setHover(-1, t);
    if (t >= 0 && size_t(t) < values_.size())
      Q_EMIT statusText(
          QStringLiteral("token %1   %2 = %3")
              .arg(count(t),
                   quantity_ == Quantity::writes ? QStringLiteral("Σs") : QStringLiteral("surprisal"),
                   strength(values_[size_t(t)], 4)));
    return;
  }
  if (!dragged_ && std::abs(p.x() - press_x_) < 3) return;
  const bool merge = dragged_;
  dragged_ = true;
  const qint64 by = qint64(std::llround((p.x() - press_x_) / track().width() * double(tokens())));
  switch (drag_) {
    case Drag::Knob:
      selection_->request({.token = tokenAt(p.x())}, merge);
      break;
    case Drag::Frame: {
      const auto range = panRange(press_range_, by, tokens());
      selection_->setTokenRange(range.first, range.second, merge);
      break;
    }
    case Drag::Left: {
      const qint64 first = std::clamp<qint64>(press_range_.first + by, 0,
                                              std::max<qint64>(0, press_range_.second - kLeastCells));
      selection_->setTokenRange(first, press_range_.second, merge);
      break;
    }
    case Drag::Right: {
      const qint64 last = std::clamp<qint64>(press_range_.second + by,
                                             std::min(tokens(), press_range_.first + kLeastCells), tokens());
      selection_->setTokenRange(press_range_.first, last, merge);
      break;
    }
    case Drag::Brush: {
      const qint64 t = tokenAt(p.x());
      selection_->setBrush(std::pair{std::min(t, press_token_), std::max(t, press_token_) + 1});
      break;
    }
    case Drag::None:
      break;
  }
}

void TimelineView::mouseReleaseEvent(QMouseEvent* event) {
  if (event->button() == Qt::LeftButton && !dragged_ && run_ && buttonAt(event->position()) == Button::None &&
      track().adjusted(-5, -6, 5, 4).contains(event->position()))
    selection_->request({.token = tokenAt(event->position().x())});
  drag_ = Drag::None;
}

void TimelineView::mouseDoubleClickEvent(QMouseEvent* event) {
  if (buttonAt(event->position()) != Button::None) return mousePressEvent(event);
  selection_->setTokenRange(0, tokens());
}

void TimelineView::leaveEvent(QEvent*) {
  hover_button_ = Button::None;
  selection_->setHover(-1, -1);
  Q_EMIT statusText(QString());
  update();
}

void TimelineView::wheelEvent(QWheelEvent* event) {
  if (!run_) return;
  wheel_rest_ += event->angleDelta().y();
  const double anchor = (event->position().x() - track().left()) / track().width() * double(tokens());
  const auto old = selection_->tokenRange();
  const double clamped = std::clamp(anchor, double(old.first), double(old.second));
  const auto range = zoomRange(old, clamped, wheelFactor(wheel_rest_), tokens());
  wheel_rest_ = 0;
  selection_->setTokenRange(range.first, range.second);
  event->accept();
}

void TimelineView::keyPressEvent(QKeyEvent* event) {
  const int by = event->modifiers() & Qt::ShiftModifier ? 10 : 1;
  switch (event->key()) {
    case Qt::Key_Space:
      setPlaying(!playing());
      return;
    case Qt::Key_Left:
      selection_->request({.token = selection_->current().token - by}, event->isAutoRepeat());
      return;
    case Qt::Key_Right:
      selection_->request({.token = selection_->current().token + by}, event->isAutoRepeat());
      return;
    case Qt::Key_Period:
      nextSpeed();
      return;
    default:
      View::keyPressEvent(event);
  }
}

void TimelineView::contextMenuEvent(QContextMenuEvent* event) {
  QMenu menu(this);
  auto* group = new QActionGroup(&menu);
  const auto add = [&](const QString& text, Quantity q, bool enabled, const QString& why) {
    QAction* action = menu.addAction(text, this, [this, q] { setQuantity(q); });
    action->setCheckable(true);
    action->setChecked(quantity_ == q);
    action->setEnabled(enabled);
    action->setToolTip(why);
    group->addAction(action);
  };
  menu.setToolTipsVisible(true);
  add(QStringLiteral("Total write strength"), Quantity::writes, true, {});
  const bool known = run_ && run_->info().candidates > 0;
  add(QStringLiteral("Surprisal of the answer"), Quantity::surprisal, known,
      known ? QString() : QStringLiteral("no candidates were stored"));
  menu.addSeparator();
  menu.addAction(QStringLiteral("Zoom to brush"), this,
                 [this] {
                   if (const auto b = selection_->brush()) selection_->setTokenRange(b->first, b->second);
                 })
      ->setEnabled(selection_->brush().has_value());
  menu.addAction(QStringLiteral("Clear brush"), this, [this] { selection_->setBrush(std::nullopt); })
      ->setEnabled(selection_->brush().has_value());
  menu.addAction(QStringLiteral("Show all tokens"), this, [this] { selection_->setTokenRange(0, tokens()); });
  menu.exec(event->globalPos());
}

void TimelineView::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange || event->type() == QEvent::FontChange) update();
  View::changeEvent(event);
}

QString TimelineView::csv() const {
  QString text = QStringLiteral("# figure: timeline\ntoken,%1\n")
                     .arg(quantity_ == Quantity::writes ? QStringLiteral("write_strength_sum")
                                                        : QStringLiteral("surprisal_nats"));
  for (size_t t = 0; t < values_.size(); ++t)
    text += QString::number(t) + QLatin1Char(',') +
            (std::isnan(values_[t]) ? QString() : QString::number(values_[t], 'g', 17)) + QLatin1Char('\n');
  return text;
}

void TimelineView::focusInEvent(QFocusEvent* event) {
  focus_ring_ = event->reason() == Qt::TabFocusReason || event->reason() == Qt::BacktabFocusReason ||
                event->reason() == Qt::ShortcutFocusReason;
  update();
}

void TimelineView::focusOutEvent(QFocusEvent*) {
  focus_ring_ = false;
  update();
}

}  // namespace slotscope::views
