#include "views/colour_range.h"

#include <QComboBox>
#include <QFontMetricsF>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QMouseEvent>
#include <QPainter>
#include <QScreen>
#include <QToolButton>
#include <algorithm>
#include <cmath>

#include "views/format.h"
#include "views/theme.h"

namespace slotscope::views {

std::vector<int64_t> placedHistogram(const SlotGrid& samples, const ColourScale& scale, int bins) {
  std::vector<int64_t> h(size_t(std::max(0, bins)), 0);
  if (!scale.valid || bins <= 0) return h;
  for (size_t i = 0; i < samples.value.size(); ++i) {
    if (samples.state[i] != analysis::Cell::finite) continue;
    const double t = scale.place(double(samples.value[i]));
    ++h[size_t(std::min(bins - 1, int(t * bins)))];
  }
  return h;
}

bool parseNumber(const QString& text, double* value) {
  QString s = text.trimmed();
  s.replace(QChar(0x2212), QLatin1Char('-')).remove(QChar(0x202F)).remove(QChar(0x2009));
  bool ok = false;
  const double v = s.toDouble(&ok);  // always the C locale: a decimal point is a point
  if (ok && std::isfinite(v)) *value = v;
  return ok && std::isfinite(v);
}

namespace {

// Bars by logarithm of the count, so that a handful of strong writes shows beside thousands of weak ones.
void paint_histogram(QPainter& p, const QRectF& r, const std::vector<int64_t>& h, const QColor& colour) {
  int64_t most = 0;
  for (const int64_t n : h) most = std::max(most, n);
  if (most == 0) return;
  const double w = r.width() / double(h.size());
  for (size_t i = 0; i < h.size(); ++i) {
    if (h[i] == 0) continue;
    const double height =
        std::max(1.0, std::round(r.height() * std::log1p(double(h[i])) / std::log1p(double(most))));
    const double x0 = std::floor(r.left() + double(i) * w), x1 = std::floor(r.left() + double(i + 1) * w);
    p.fillRect(QRectF(x0, r.bottom() - height, std::max(1.0, x1 - x0 - (w >= 3 ? 1 : 0)), height), colour);
  }
}

void paint_strip(QPainter& p, const QRectF& r, const QVector<QRgb>& colours, const Theme& theme) {
  if (colours.size() != 256) return;
  QImage image(256, 1, QImage::Format_RGB32);
  for (int i = 0; i < 256; ++i) image.setPixel(i, 0, colours[i]);
  p.drawImage(r, image);
  p.setPen(QPen(theme.lineStrong, 1));
  p.setBrush(Qt::NoBrush);
  p.drawRect(r.adjusted(0.5, 0.5, -0.5, -0.5));
}

}  // namespace

// --- bar ---

ColourBar::ColourBar(QWidget* parent) : QWidget(parent) {
  setFocusPolicy(Qt::TabFocus);
  setMouseTracking(true);
  setAccessibleName(QStringLiteral("Colour range"));
  setToolTip(QStringLiteral("Colour range: click to edit, drag to change an end"));
  setCursor(Qt::PointingHandCursor);
}

void ColourBar::setState(const ColourState& state) {
  state_ = state;
  setAccessibleDescription(state.scale.valid ? limitText(state.scale.left()) + QStringLiteral(" to ") +
                                                   limitText(state.scale.right())
                                             : QStringLiteral("no finite values"));
  updateGeometry();
  update();
}

QString ColourBar::badText() const {
  QStringList parts;
  if (state_.nan > 0) parts << count(state_.nan) + QStringLiteral(" NaN");
  if (state_.inf > 0) parts << count(state_.inf) + QStringLiteral(" ∞");
  return parts.join(QStringLiteral(", "));
}

QSize ColourBar::sizeHint() const {
  const Theme& theme = Theme::current();
  const double bad =
      badText().isEmpty() ? 0 : QFontMetricsF(theme.labelSemibold()).horizontalAdvance(badText()) + 14;
  return {int(bad + (46 + 120 + 56) * theme.base / 12), 32};
}

QRectF ColourBar::barRect() const {
  const double k = Theme::current().base / 12;
  return {width() - (56 + 120) * k, height() / 2.0 - 2, 120 * k, 12};
}

QRectF ColourBar::badRect() const {
  const QFontMetricsF m(Theme::current().labelSemibold());
  const double w = m.horizontalAdvance(badText());
  return badText().isEmpty() ? QRectF() : QRectF(0, 0, w + 8, height());
}

void ColourBar::paintEvent(QPaintEvent*) {
  QPainter p(this);
  const Theme& theme = Theme::current();
  const QRectF bar = barRect();
  p.setFont(theme.label());
  const QFontMetricsF m(p.font());
  if (state_.scale.valid) {
    paint_histogram(p, QRectF(bar.left(), bar.top() - 10, bar.width(), 9), state_.histogram, theme.text3);
    paint_strip(p, bar, state_.colours, theme);
    p.setPen(theme.text2);
    QString left = limitText(state_.scale.left()), right = limitText(state_.scale.right());
    if (state_.scale.scale == RangeScale::log) right += QStringLiteral(" log");
    if (state_.scale.scale == RangeScale::symlog) right += QStringLiteral(" sym");
    p.drawText(QRectF(bar.left() - 60, bar.top() - 4, 55, 20), Qt::AlignRight | Qt::AlignVCenter, left);
    p.drawText(QRectF(bar.right() + 5, bar.top() - 4, width() - bar.right() - 5, 20),
               Qt::AlignLeft | Qt::AlignVCenter,
               m.elidedText(right, Qt::ElideRight, width() - bar.right() - 5));
  } else if (state_.nan + state_.inf > 0) {
    p.setPen(theme.text2);
    p.drawText(bar.adjusted(-40, -6, 40, 6), Qt::AlignCenter, QStringLiteral("no finite values"));
  }
  if (!badText().isEmpty()) {
    p.setFont(theme.labelSemibold());
    p.setPen(theme.error);
    p.drawText(badRect(), Qt::AlignLeft | Qt::AlignVCenter, badText());
  }
  if (hasFocus()) {
    p.setRenderHint(QPainter::Antialiasing, true);
    p.setBrush(Qt::NoBrush);
    p.setPen(QPen(theme.selection, 2));
    p.drawRoundedRect(QRectF(rect()).adjusted(1, 1, -1, -1), 3, 3);
  }
}

void ColourBar::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton) return;
  if (badRect().contains(event->position())) {
    Q_EMIT badClicked();
    return;
  }
  pressed_ = true;
  dragged_ = false;
  press_x_ = event->position().x();
  press_low_ = 0, press_high_ = 1;
  low_end_ = press_x_ < barRect().center().x();
}

// Dragging an end by d moves that limit by d along the scale as it was when the drag began.
void ColourBar::mouseMoveEvent(QMouseEvent* event) {
  if (!pressed_ || !state_.scale.valid) return;
  if (!dragged_ && std::abs(event->position().x() - press_x_) < 3) return;
  if (!dragged_) press_low_ = state_.scale.left(), press_high_ = state_.scale.right();
  dragged_ = true;
  ColourScale start = state_.scale;
  start.low = std::min(press_low_, press_high_), start.high = std::max(press_low_, press_high_);
  const double by = std::clamp((event->position().x() - press_x_) / barRect().width(), -0.95, 0.95);
  const double at = low_end_ ? start.value(std::max(-0.9, by)) : start.value(std::max(0.05, 1 + by));
  const double other = low_end_ ? press_high_ : press_low_;
  if (std::isfinite(at) && at != other) Q_EMIT rangeDragged(std::min(at, other), std::max(at, other));
}

void ColourBar::mouseReleaseEvent(QMouseEvent* event) {
  if (event->button() == Qt::LeftButton && pressed_ && !dragged_) Q_EMIT clicked();
  pressed_ = false;
}

void ColourBar::keyPressEvent(QKeyEvent* event) {
  if (event->key() == Qt::Key_Space || event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter)
    Q_EMIT clicked();
  else
    QWidget::keyPressEvent(event);
}

// --- editor ---

ColourRangeEditor::ColourRangeEditor(QWidget* parent) : QFrame(parent, Qt::Popup) {
  setAccessibleName(QStringLiteral("Colour range"));
  setFixedSize(300, 176);
  const auto button = [&](const QString& text, const QRect& place, const QString& tip) {
    auto* b = new QToolButton(this);
    b->setText(text);
    b->setToolTip(tip);
    b->setCheckable(true);
    b->setProperty("ui", QStringLiteral("segment"));
    b->setGeometry(place);
    return b;
  };
  min_max_ = button(QStringLiteral("min–max"), {12, 117, 66, 22},
                    QStringLiteral("smallest and largest finite value of the head"));
  percentile_ =
      button(QStringLiteral("99.9 %"), {82, 117, 56, 22}, QStringLiteral("0.1 % of the values lie above"));
  visible_ = button(QStringLiteral("visible"), {142, 117, 54, 22},
                    QStringLiteral("smallest and largest value of what is on screen"));
  log_ = button(QStringLiteral("log"), {200, 117, 32, 22}, QStringLiteral("logarithmic (L)"));
  symlog_ = button(QStringLiteral("symlog"), {236, 117, 54, 22},
                   QStringLiteral("logarithmic away from zero, linear around it"));
  map_ = new QComboBox(this);
  map_->addItems(colourMapNames());
  map_->setGeometry(46, 145, 92, 24);
  map_->setAccessibleName(QStringLiteral("Colour map"));
  reverse_ = button(QStringLiteral("⇄"), {142, 146, 24, 22}, QStringLiteral("reverse the map"));
  soft_ = button(QStringLiteral("soft"), {168, 146, 36, 22},
                 QStringLiteral("soft low end: many weak values stay quiet"));
  low_ = new QLineEdit(this);
  high_ = new QLineEdit(this);
  low_->setGeometry(208, 146, 38, 22);
  high_->setGeometry(252, 146, 38, 22);
  low_->setAccessibleName(QStringLiteral("Lower limit"));
  high_->setAccessibleName(QStringLiteral("Upper limit"));
  for (QLineEdit* e : {low_, high_}) {
    e->setAlignment(Qt::AlignRight);
    e->setTextMargins(-1, 0, -1, 0);
    connect(e, &QLineEdit::returnPressed, this, &ColourRangeEditor::typed);
  }
  const auto mode = [this](QToolButton* b, RangeMode m) {
    connect(b, &QToolButton::clicked, this, [this, m] {
      ColourSettings s = state_.settings;
      s.mode = m;
      Q_EMIT changed(s);
    });
  };
  mode(min_max_, RangeMode::min_max), mode(percentile_, RangeMode::percentile),
      mode(visible_, RangeMode::visible);
  const auto scale = [this](QToolButton* b, RangeScale to) {
    connect(b, &QToolButton::clicked, this, [this, to] {
      ColourSettings s = state_.settings;
      s.scale = s.scale == to ? RangeScale::linear : to;
      Q_EMIT changed(s);
    });
  };
  scale(log_, RangeScale::log), scale(symlog_, RangeScale::symlog);
  connect(map_, &QComboBox::activated, this, [this] {
    ColourSettings s = state_.settings;
    s.map = map_->currentText();
    Q_EMIT changed(s);
  });
  connect(reverse_, &QToolButton::clicked, this, [this](bool on) {
    ColourSettings s = state_.settings;
    s.reverse = on;
    Q_EMIT changed(s);
  });
  connect(soft_, &QToolButton::clicked, this, [this](bool on) {
    ColourSettings s = state_.settings;
    s.soft = on;
    Q_EMIT changed(s);
  });
  restyle();
}

void ColourRangeEditor::restyle() {
  const Theme& theme = Theme::current();
  for (QWidget* w : {static_cast<QWidget*>(low_), static_cast<QWidget*>(high_)}) w->setFont(theme.micro());
  for (QToolButton* b : {min_max_, percentile_, visible_, log_, symlog_, reverse_, soft_}) {
    b->setFont(theme.label());
    b->setStyleSheet(QStringLiteral("QToolButton { padding: 0; min-height: 20px; border-radius: 4px; }"));
  }
}

void ColourRangeEditor::setState(const ColourState& state) {
  state_ = state;
  const auto& s = state.settings;
  min_max_->setChecked(s.mode == RangeMode::min_max);
  percentile_->setChecked(s.mode == RangeMode::percentile);
  visible_->setChecked(s.mode == RangeMode::visible);
  log_->setChecked(s.scale == RangeScale::log);
  symlog_->setChecked(s.scale == RangeScale::symlog);
  reverse_->setChecked(s.reverse);
  soft_->setChecked(s.soft);
  map_->setCurrentText(s.map);
  const auto text = [](double v) {
    return v == 0 ? QStringLiteral("0") : std::abs(v) >= 100 ? limitText(v) : strength(v, 3);
  };
  if (!low_->hasFocus()) low_->setText(text(state.scale.low));
  if (!high_->hasFocus()) high_->setText(text(state.scale.high));
  for (QLineEdit* e : {low_, high_}) e->setCursorPosition(0);
  update();
}

void ColourRangeEditor::openAt(const QPoint& top_right) {
  QPoint at(top_right.x() - width(), top_right.y());
  if (const QScreen* s = screen()) {
    const QRect r = s->availableGeometry();
    at.setX(std::clamp(at.x(), r.left(), std::max(r.left(), r.right() - width())));
    at.setY(std::clamp(at.y(), r.top(), std::max(r.top(), r.bottom() - height())));
  }
  move(at);
  show();
}

QRectF ColourRangeEditor::histogramRect() const { return {12, 32, 276, 60}; }
QRectF ColourRangeEditor::stripRect() const { return {12, 94, 276, 8}; }

double ColourRangeEditor::handleX(bool high) const {
  // The histogram spans all data; handles stand where the limits lie in it.
  ColourScale all = state_.scale;
  all.low = state_.data_low, all.high = state_.data_high;
  const double v = high ? state_.scale.right() : state_.scale.left();
  return stripRect().left() + all.place(v) * stripRect().width();
}

void ColourRangeEditor::paintEvent(QPaintEvent*) {
  QPainter p(this);
  const Theme& theme = Theme::current();
  p.fillRect(rect(), theme.surface);
  p.setPen(QPen(theme.lineStrong, 1));
  p.drawRect(rect().adjusted(0, 0, -1, -1));
  p.setFont(theme.semibold());
  p.setPen(theme.text);
  p.drawText(QRectF(12, 6, 130, 20), Qt::AlignLeft | Qt::AlignVCenter, QStringLiteral("Colour range"));
  p.setFont(theme.micro());
  p.setPen(theme.text2);
  p.drawText(QRectF(110, 6, 178, 20), Qt::AlignRight | Qt::AlignVCenter,
             count(state_.finite) + QStringLiteral(" routed cells, log count"));
  p.setFont(theme.label());
  p.drawText(QRectF(12, 145, 34, 24), Qt::AlignLeft | Qt::AlignVCenter, QStringLiteral("Map"));
  p.drawText(QRectF(246, 146, 6, 22), Qt::AlignCenter, QStringLiteral("–"));
  if (!state_.scale.valid) {
    p.drawText(histogramRect(), Qt::AlignCenter, QStringLiteral("no finite values"));
    return;
  }
  paint_histogram(p, histogramRect(), state_.histogram, theme.text3);
  // Between the handles the map, outside its end colours.
  const QRectF strip = stripRect();
  const double a = std::min(handleX(false), handleX(true)), b = std::max(handleX(false), handleX(true));
  p.fillRect(QRectF(strip.left(), strip.top(), a - strip.left(), strip.height()),
             QColor(state_.colours.first()));
  p.fillRect(QRectF(b, strip.top(), strip.right() - b, strip.height()), QColor(state_.colours.last()));
  if (b - a >= 1) paint_strip(p, QRectF(a, strip.top(), b - a, strip.height()), state_.colours, theme);
  p.setRenderHint(QPainter::Antialiasing, true);
  for (const bool high : {false, true}) {
    const double x = std::clamp(handleX(high), strip.left(), strip.right());
    p.setPen(QPen(theme.text, 1.5));
    p.drawLine(QPointF(x, histogramRect().top()), QPointF(x, strip.bottom()));
    p.setBrush(theme.surface);
    p.drawRoundedRect(QRectF(x - 4, strip.bottom() - 2, 8, 10), 2, 2);
  }
}

void ColourRangeEditor::mousePressEvent(QMouseEvent* event) {
  const QPointF at = event->position();
  if (!rect().contains(at.toPoint())) return QFrame::mousePressEvent(event);  // outside: a popup closes
  dragging_ = 0;
  if (!state_.scale.valid || at.y() < histogramRect().top() - 4 || at.y() > stripRect().bottom() + 12) return;
  dragging_ = std::abs(at.x() - handleX(false)) <= std::abs(at.x() - handleX(true)) ? 1 : 2;
  mouseMoveEvent(event);
}

void ColourRangeEditor::mouseMoveEvent(QMouseEvent* event) {
  if (dragging_ == 0) return;
  ColourScale all = state_.scale;
  all.low = state_.data_low, all.high = state_.data_high;
  const double v =
      all.value(std::clamp((event->position().x() - stripRect().left()) / stripRect().width(), 0.0, 1.0));
  double left = state_.scale.left(), right = state_.scale.right();
  (dragging_ == 1 ? left : right) = v;
  if (left == right || (left < right) == state_.scale.downwards) return;  // handles do not pass each other
  ColourSettings s = state_.settings;
  s.mode = RangeMode::typed;
  s.low = std::min(left, right), s.high = std::max(left, right);
  Q_EMIT changed(s);
}

void ColourRangeEditor::mouseReleaseEvent(QMouseEvent*) { dragging_ = 0; }

void ColourRangeEditor::typed() {
  ColourSettings s = state_.settings;
  double low = 0, high = 0;
  const bool ok = parseNumber(low_->text(), &low) && parseNumber(high_->text(), &high) && low < high;
  for (QLineEdit* e : {low_, high_}) {
    e->setStyleSheet(ok ? QString()
                        : QStringLiteral("border: 1px solid %1").arg(Theme::current().error.name()));
    e->setToolTip(ok ? QString() : QStringLiteral("two numbers, the lower one first"));
  }
  if (!ok) return;
  s.mode = RangeMode::typed;
  s.low = low, s.high = high;
  Q_EMIT changed(s);
}

void ColourRangeEditor::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) update();
  QFrame::changeEvent(event);
}

}  // namespace slotscope::views
