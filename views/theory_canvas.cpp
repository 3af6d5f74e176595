// The painted part of the theory lab: dragging, hovering, keys.
#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>

#include "views/format.h"
#include "views/painted_view.h"
#include "views/tensor_histogram_view.h"
#include "views/theory_lab_view.h"

namespace slotscope::views {

namespace {

constexpr double kPad = 8;

// The vector turned to `angle` or to the nearest code or middle between codes within 4 degrees.
double snapped(double angle, int codes) {
  const double step = M_PI / codes, near = std::round(angle / step) * step;
  return std::abs(near - angle) < 4 * M_PI / 180 ? near : angle;
}

}  // namespace

TheoryCanvas::TheoryCanvas(QWidget* parent) : QWidget(parent) {
  setMouseTracking(true);
  setFocusPolicy(Qt::StrongFocus);
  setAttribute(Qt::WA_OpaquePaintEvent);
}

void TheoryCanvas::setData(const TheoryData* data) {
  data_ = data;
  marks_.pair = -1;
  renewName();
  update();
}

void TheoryCanvas::renewName() {
  if (!data_) return;
  const auto& n = data_->numbers;
  setAccessibleName(QStringLiteral("Theory lab, %1, κ %2, target %3, log error %4, ξ %5, %6")
                        .arg(theoryCaption(*data_), valueText(n.kappa, 6), valueText(n.target, 6), valueText(n.log_error, 6),
                             valueText(n.bounds.xi, 4),
                             n.bounds.bound ? QStringLiteral("bound %1").arg(valueText(*n.bounds.bound, 4)) : QStringLiteral("no bound")));
}

TheoryLayout TheoryCanvas::layoutNow() const {
  return theoryLayout(*data_, QRectF(rect()).adjusted(kPad, kPad / 2, -kPad, -kPad / 2), Theme::current(), reach_);
}

void TheoryCanvas::paintEvent(QPaintEvent*) {
  QPainter p(this);
  const Theme& theme = Theme::current();
  p.fillRect(rect(), theme.surface);
  if (!data_) return;
  TheoryMarks marks = marks_;
  if (!hasFocus() && grip_ == Grip::none) marks.grip = QChar();
  paintTheory(p, *data_, layoutNow(), theme, marks);
}

void TheoryCanvas::drag(const QPointF& at, Qt::KeyboardModifiers modifiers) {
  TheoryState state = data_->state;
  const TheoryLayout l = layoutNow();
  auto& x = grip_ == Grip::q ? state.q : state.k;
  const size_t u = size_t(2 * state.factor);
  const QPointF to = l.vector(at);
  double length = std::hypot(to.x(), to.y()), angle = std::atan2(to.y(), to.x());
  if (modifiers & Qt::ShiftModifier) length = std::hypot(x[u], x[u + 1]);
  if (modifiers & Qt::ControlModifier) angle = snapped(angle, state.codes);
  length = std::min(length, TheoryState::kLongest);
  x[u] = length * std::cos(angle);
  x[u + 1] = length * std::sin(angle);
  Q_EMIT status(QStringLiteral("%1 of factor %2: %3°, length %4   κ %5   log error %6")
                    .arg(grip_ == Grip::q ? QStringLiteral("q") : QStringLiteral("k"))
                    .arg(state.factor)
                    .arg(signedNumber(angle * 180 / M_PI, 1), valueText(length, 4), valueText(data_->numbers.kappa, 5),
                         valueText(data_->numbers.log_error, 4)));
  Q_EMIT changed(state);
}

// Both betas by one factor, so that sqrt(beta_r beta_w) = x beta*.
void TheoryCanvas::setX(double x) {
  TheoryState state = data_->state;
  if (!(data_->x > 0)) return;
  const TheoryPanel& panel = layoutNow().beta;
  x = std::clamp(x, panel.x.low, panel.x.high);
  const double ratio = x / data_->x;
  const auto put = [&](double& multiple) { multiple = std::clamp(multiple * ratio, TheoryState::kLeastMultiple, TheoryState::kMostMultiple); };
  put(state.read);
  put(state.write);
  if (state.linked) state.read = state.write = std::clamp(x, TheoryState::kLeastMultiple, TheoryState::kMostMultiple);
  Q_EMIT changed(state);
}

void TheoryCanvas::mousePressEvent(QMouseEvent* event) {
  if (!data_ || event->button() != Qt::LeftButton) return QWidget::mousePressEvent(event);
  const TheoryLayout l = layoutNow();
  const QPointF at = event->position();
  for (qsizetype u = 0; u < l.thumbs.size(); ++u)
    if (l.thumbs[u].contains(at)) {
      TheoryState state = data_->state;
      state.factor = int(u);
      return Q_EMIT changed(state);
    }
  if (l.beta.plot.contains(at) && data_->x > 0) {
    grip_ = Grip::beta;
    return setX(l.beta.x.value(at.x()));
  }
  if (const int pair = l.pairs.plot.contains(at) ? theoryPairAt(*data_, l, at) : -1; pair >= 0) {
    TheoryState state = data_->state;
    const auto width = std::ptrdiff_t(state.q.size());
    state.q.assign(data_->cloud.q.begin() + pair * width, data_->cloud.q.begin() + (pair + 1) * width);
    state.k.assign(data_->cloud.k.begin() + pair * width, data_->cloud.k.begin() + (pair + 1) * width);
    return Q_EMIT changed(state);
  }
  if (!l.circle.plot.contains(at)) return;
  const size_t u = size_t(2 * data_->state.factor);
  const auto distance = [&](const std::vector<double>& x) {
    const QPointF d = l.point(x[u], x[u + 1]) - at;
    return std::hypot(d.x(), d.y());
  };
  const double to_q = distance(data_->state.q), to_k = distance(data_->state.k);
  if (std::min(to_q, to_k) > 16 * Theme::current().base / 12) return;
  // Of two grips at one place the one that has the keyboard is taken.
  const bool take_q = std::abs(to_q - to_k) < 1 ? marks_.grip != QChar('k') : to_q < to_k;
  grip_ = take_q ? Grip::q : Grip::k;
  marks_.grip = take_q ? QChar('q') : QChar('k');
  reach_ = theoryReach(data_->state);
  update();
}

void TheoryCanvas::mouseMoveEvent(QMouseEvent* event) {
  if (!data_) return;
  if (grip_ == Grip::q || grip_ == Grip::k) return drag(event->position(), event->modifiers());
  if (grip_ == Grip::beta) return setX(layoutNow().beta.x.value(event->position().x()));
  hover(event->position());
}

void TheoryCanvas::mouseReleaseEvent(QMouseEvent*) {
  grip_ = Grip::none;
  reach_ = 0;
  update();
}

void TheoryCanvas::hover(const QPointF& at) {
  const TheoryLayout l = layoutNow();
  const int pair = l.pairs.plot.contains(at) ? theoryPairAt(*data_, l, at) : -1;
  const double x = l.beta.plot.contains(at) && !data_->sweep_x.empty() ? l.beta.x.value(at.x()) : std::nan("");
  const bool thumb = std::any_of(l.thumbs.begin(), l.thumbs.end(), [&](const QRectF& box) { return box.contains(at); });
  setCursor(thumb || pair >= 0 ? Qt::PointingHandCursor : std::isfinite(x) ? Qt::SplitHCursor : Qt::ArrowCursor);
  if (pair != marks_.pair || !(x == marks_.x || (std::isnan(x) && std::isnan(marks_.x)))) {
    marks_.pair = pair;
    marks_.x = x;
    update();
  }
  QString text;
  if (pair >= 0) {
    const size_t i = size_t(pair);
    text = QStringLiteral("pair %1   q·k %2   log error %3   ξ %4   %5")
               .arg(pair)
               .arg(valueText(data_->cloud.q_dot_k[i], 5), valueText(data_->cloud.log_error[i], 5), valueText(data_->cloud.xi[i], 4),
                    std::isnan(data_->cloud.bound[i]) ? QStringLiteral("no bound") : QStringLiteral("bound ") + valueText(data_->cloud.bound[i], 4));
  } else if (std::isfinite(x)) {
    const auto& xs = data_->sweep_x;
    auto near = std::lower_bound(xs.begin(), xs.end(), x);
    if (near == xs.end() || (near != xs.begin() && x / *(near - 1) < *near / x)) --near;
    const size_t i = size_t(near - xs.begin());
    text = QStringLiteral("β/β* %1   log κ %2   target %3   d → ∞ %4   hard write %5   ξ %6")
               .arg(valueText(xs[i], 4), valueText(data_->sweep.log_kappa[i], 5), valueText(data_->sweep.log_target[i], 5),
                    valueText(data_->sweep.log_kappa_infinite[i], 5), valueText(data_->sweep.log_kappa_hard[i], 5), valueText(data_->sweep.xi[i], 4));
  } else if (l.weights.plot.contains(at)) {
    const int key = std::clamp(int(l.weights.x.value(at.x())), 0, data_->state.keys - 1);
    text = QStringLiteral("key %1").arg(key);
    for (const TheoryWeights& w : data_->weights)
      if (!w.weight.empty()) text += QStringLiteral("   %1 %2").arg(w.name, valueText(w.weight[size_t(key)], 4));
  } else if (l.circle.plot.contains(at)) {
    text = QStringLiteral("drag q or k; Shift keeps the length, Ctrl holds to codes");
  }
  Q_EMIT status(text);
}

QString TheoryCanvas::tipAt(const QPointF& at) const {
  const TheoryLayout l = layoutNow();
  const Theme& theme = Theme::current();
  if (marks_.pair >= 0 && l.pairs.plot.contains(at)) {
    const size_t i = size_t(marks_.pair);
    const auto& c = data_->cloud;
    return tipText(QStringLiteral("Pair %1").arg(marks_.pair),
                   {{QStringLiteral("q·k"), valueText(c.q_dot_k[i], 6)}, {QStringLiteral("log κ"), valueText(c.log_kappa[i], 6)},
                    {QStringLiteral("log target"), valueText(c.log_target[i], 6)}, {QStringLiteral("log error"), valueText(c.log_error[i], 6)},
                    {QStringLiteral("M"), valueText(c.radius[i], 6)}, {QStringLiteral("ξ"), valueText(c.xi[i], 4)},
                    {QStringLiteral("bound"), valueText(c.bound[i], 4)}},
                   QStringLiteral("Click takes this pair. |log error| ≤ U (M⁴/4 + 3ξ/(1−ξ)) where ξ < 1, Theorem 2"), theme);
  }
  if (l.beta.cell.contains(at))
    return tipText(QStringLiteral("log κ against β"), {},
                   QStringLiteral("κ = M Σ r(a) w(a), closed form. Target (β_r β_w / 2) q·k. d → ∞: I_0 in place of Z. Hard write: β_w → ∞ at "
                                  "this β_r. Band: Theorem 2 around the target. Drag to set β."),
                   theme);
  if (l.pairs.cell.contains(at))
    return tipText(QStringLiteral("log error against q·k"), {},
                   QStringLiteral("log κ − (β_r β_w / 2) q·k of many pairs; the band is Theorem 2's, hatched where it says nothing (ξ ≥ 1)."), theme);
  if (l.weights.cell.contains(at))
    return tipText(QStringLiteral("Weights over keys"), {},
                   QStringLiteral("Cumulative averaging of full addresses: the mass-aware readout reads κ / Σ κ, the standard one Σ r w / Σ w "
                                  "per slot. Bars: softmax(β_r β_w / 2 q·k)."),
                   theme);
  if (l.circle.cell.contains(at))
    return tipText(QStringLiteral("Codebook"), {},
                   QStringLiteral("c_j = (cos 2πj/d, sin 2πj/d); p(j|x) = softmax_j(β c_j·x) as the area of discs, reads outside, writes inside."),
                   theme);
  return {};
}

bool TheoryCanvas::event(QEvent* event) {
  if (event->type() == QEvent::ToolTip && data_) {
    auto* help = static_cast<QHelpEvent*>(event);
    const QString text = tipAt(help->pos());
    text.isEmpty() ? QToolTip::hideText() : QToolTip::showText(help->globalPos(), text, this);
    return true;
  }
  if (event->type() == QEvent::ShortcutOverride) {
    const auto* key = static_cast<QKeyEvent*>(event);
    if (key->matches(QKeySequence::Copy)) event->accept();
    switch (key->key()) {
      case Qt::Key_Left: case Qt::Key_Right: case Qt::Key_Up: case Qt::Key_Down: case Qt::Key_Space: case Qt::Key_Q: case Qt::Key_K:
      case Qt::Key_BracketLeft: case Qt::Key_BracketRight: case Qt::Key_Plus: case Qt::Key_Minus:
        if ((key->modifiers() & ~(Qt::ShiftModifier | Qt::KeypadModifier)) == 0) event->accept();
        break;
      default:
        break;
    }
  }
  return QWidget::event(event);
}

// Q, K or Space choose a vector; Left and Right turn it, Up and Down change its length, [ ] the factor, + and - beta.
void TheoryCanvas::keyPressEvent(QKeyEvent* event) {
  if (event->matches(QKeySequence::Copy)) return Q_EMIT copyRequested();
  if (!data_ || (event->modifiers() & ~(Qt::ShiftModifier | Qt::KeypadModifier))) return QWidget::keyPressEvent(event);
  TheoryState state = data_->state;
  const double many = event->modifiers() & Qt::ShiftModifier ? 10 : 1;
  auto& x = marks_.grip == QChar('k') ? state.k : state.q;
  const size_t u = size_t(2 * state.factor);
  double length = std::hypot(x[u], x[u + 1]), angle = std::atan2(x[u + 1], x[u]);
  switch (event->key()) {
    case Qt::Key_Q: marks_.grip = QChar('q'); return update();
    case Qt::Key_K: marks_.grip = QChar('k'); return update();
    case Qt::Key_Space: marks_.grip = marks_.grip == QChar('k') ? QChar('q') : QChar('k'); return update();
    case Qt::Key_Left: angle += many * M_PI / 180; break;
    case Qt::Key_Right: angle -= many * M_PI / 180; break;
    case Qt::Key_Up: length = std::min(length + many * 0.01, TheoryState::kLongest); break;
    case Qt::Key_Down: length = std::max(0.0, length - many * 0.01); break;
    case Qt::Key_BracketLeft: state.factor = std::max(0, state.factor - 1); return Q_EMIT changed(state);
    case Qt::Key_BracketRight: state.factor = std::min(state.factors() - 1, state.factor + 1); return Q_EMIT changed(state);
    case Qt::Key_Plus: return setX(data_->x * std::pow(1.02, many));
    case Qt::Key_Minus: return setX(data_->x / std::pow(1.02, many));
    default: return QWidget::keyPressEvent(event);
  }
  x[u] = length * std::cos(angle);
  x[u + 1] = length * std::sin(angle);
  Q_EMIT changed(state);
}

void TheoryCanvas::leaveEvent(QEvent*) {
  marks_.pair = -1;
  marks_.x = std::nan("");
  update();
  Q_EMIT status({});
}

void TheoryCanvas::focusInEvent(QFocusEvent* event) {
  if (marks_.grip.isNull()) marks_.grip = QChar('q');
  update();
  QWidget::focusInEvent(event);
}

void TheoryCanvas::focusOutEvent(QFocusEvent* event) {
  update();
  QWidget::focusOutEvent(event);
}

}  // namespace slotscope::views
