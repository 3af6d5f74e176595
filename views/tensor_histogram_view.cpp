#include "views/tensor_histogram_view.h"

#include <QClipboard>
#include <QComboBox>
#include <QContextMenuEvent>
#include <QGuiApplication>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QMenu>
#include <QMouseEvent>
#include <QPainter>
#include <QSignalBlocker>
#include <QToolButton>
#include <algorithm>
#include <cmath>

#include "views/esl_paint.h"
#include "views/format.h"
#include "views/list_widgets.h"

namespace slotscope::views {

namespace {

constexpr double kLeft = 74, kRight = 16, kTop = 15, kBottom = 46, kRow = 17, kRowsWidth = 196,
                 kRowsFrom = 420;

// Where `value` lies between two ends, 0 to 1, in x or in sign(x) log(1 + |x| / unit). Halves, because the
// difference of two doubles may be more than a double holds.
double shareOf(double value, double low, double high, bool symmetric_log, double unit) {
  const auto place = [&](double v) {
    return symmetric_log && unit > 0 ? std::copysign(std::log1p(std::abs(v) / unit), v) / 2 : v / 2;
  };
  const double width = place(high) - place(low);
  return width > 0 ? (place(value) - place(low)) / width : 0.5;
}

QString tickText(double value, double step, double largest) {
  if (value == 0) return QStringLiteral("0");
  if (largest >= 1e7 || step < 1e-4) return valueText(value, 3);
  const int decimals = std::clamp(int(-std::floor(std::log10(step) + 1e-9)), 0, 6);
  return decimals == 0 ? count(qint64(std::llround(value))) : signedNumber(value, decimals);
}

// 1, 2 or 5 times a power of ten, at least `least`.
double roundStep(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0, 10.0})
    if (power * factor >= least * (1 - 1e-9)) return power * factor;
  return power * 10;
}

QString bigCount(quint64 n) { return count(qint64(std::min(n, quint64(INT64_MAX)))); }

}  // namespace

QString valueText(double value, int digits) {
  if (std::isnan(value)) return QString(QChar(0x2013));
  if (std::isinf(value)) return (value < 0 ? QString(QChar(0x2212)) : QString()) + QChar(0x221E);
  if (value == 0) return QStringLiteral("0");
  const double magnitude = std::abs(value);
  QString text;
  if (magnitude >= 1e-4 && magnitude < 1e7) {
    const int decimals = std::max(0, digits - 1 - int(std::floor(std::log10(magnitude))));
    text = QString::number(value, 'f', decimals);
    if (text.contains('.')) {
      while (text.endsWith('0')) text.chop(1);
      if (text.endsWith('.')) text.chop(1);
    }
  } else {
    text = QString::number(value, 'e', digits - 1);
    const auto e = text.indexOf('e');
    QString mantissa = text.left(e);
    if (mantissa.contains('.')) {
      while (mantissa.endsWith('0')) mantissa.chop(1);
      if (mantissa.endsWith('.')) mantissa.chop(1);
    }
    text = mantissa + 'e' + QString::number(text.mid(e + 1).toInt());
  }
  return text.replace('-', QChar(0x2212));
}

TensorHistogramView::TensorHistogramView(QWidget* parent) : PaintedView(nullptr, parent) {
  setFocusPolicy(Qt::StrongFocus);
  auto* bar = viewBar();
  legend_ = new LegendWidget(this);
  bar->addWidget(legend_, 1);
  log_ = new QToolButton(this);
  log_->setText(QStringLiteral("Log counts"));
  log_->setCheckable(true);
  log_->setProperty("ui", "segment");
  log_->setToolTip(QStringLiteral("Counts on a logarithmic scale: bins with few elements become visible"));
  connect(log_, &QToolButton::toggled, this, &TensorHistogramView::setLogCounts);
  bar->addWidget(log_);
  scale_ = new QComboBox(this);
  scale_->setAccessibleName(QStringLiteral("Spacing of the bins"));
  scale_->addItems({QStringLiteral("values: linear"), QStringLiteral("values: symmetric log")});
  scale_->setToolTip(
      QStringLiteral("Linear, or sign(x) · log(1 + |x| / unit): outliers and the middle in one picture"));
  connect(scale_, &QComboBox::activated, this, [this](int index) { Q_EMIT scaleRequested(index == 1); });
  bar->addWidget(scale_);
  clear(QStringLiteral("No tensor is chosen."));
}

void TensorHistogramView::setHistogram(TensorHistogram histogram) {
  data_ = std::move(histogram);
  why_.clear();
  if (data_.counts.isEmpty() || data_.edges.size() != data_.counts.size() + 1) {
    data_.counts.clear();
    why_ = data_.elements == 0 ? QStringLiteral("This tensor has no elements.")
                               : QStringLiteral("None of its %1 elements is finite: %2.")
                                     .arg(bigCount(data_.elements), notFinite());
  }
  hover_ = chosen_ = -1;
  contentChanged();
}

void TensorHistogramView::clear(const QString& why) {
  const bool symmetric_log = data_.symmetric_log;
  data_ = {};
  data_.symmetric_log = symmetric_log;
  why_ = why.isEmpty() ? QStringLiteral("No tensor is chosen.")
                       : why;  // zeros are never drawn for what is not known
  hover_ = chosen_ = -1;
  contentChanged();
}

void TensorHistogramView::setLogCounts(bool on) {
  log_counts_ = on;
  contentChanged();
}

QString TensorHistogramView::notFinite() const {
  QStringList parts;
  if (data_.nan) parts << bigCount(data_.nan) + QStringLiteral(" NaN");
  if (data_.positive_infinity) parts << bigCount(data_.positive_infinity) + QStringLiteral(" +∞");
  if (data_.negative_infinity) parts << bigCount(data_.negative_infinity) + QStringLiteral(" −∞");
  return parts.join(QStringLiteral(", "));
}

QVector<LegendItem> TensorHistogramView::legend(const Theme& theme) const {
  if (data_.counts.isEmpty()) return {};
  QVector<LegendItem> items{{LegendItem::Square, theme.timelineOther, QStringLiteral("elements")},
                            {LegendItem::Line, theme.fit, QStringLiteral("mean")}};
  if (const QString bad = notFinite(); !bad.isEmpty())
    items.push_back({LegendItem::Square, theme.nan, bad + QStringLiteral(" (not drawn)"), bad});
  return items;
}

void TensorHistogramView::contentChanged() {
  legend_->setItems(legend(Theme::current()));
  const QSignalBlocker one(log_), two(scale_);
  log_->setChecked(log_counts_);
  scale_->setCurrentIndex(data_.symmetric_log ? 1 : 0);
  scale_->setEnabled(!data_.counts.isEmpty() && !data_.whole);
  PaintedView::contentChanged();
}

QString TensorHistogramView::emptyText() const { return why_; }

quint64 TensorHistogramView::highest() const {
  return data_.counts.isEmpty() ? 0 : *std::max_element(data_.counts.begin(), data_.counts.end());
}

// All rows of the statistics can be scrolled to.
double TensorHistogramView::contentHeight(double width) const {
  const double scale = Theme::current().base / 12;
  return width >= kRowsFrom * scale ? (double(statisticsRows().size()) * kRow + 16) * scale : 0;
}

QString TensorHistogramView::accessibleText() const {
  if (!why_.isEmpty()) return QStringLiteral("Histogram, ") + why_;
  QString text = QStringLiteral("Histogram of %1, %2 elements from %3 to %4, mean %5, standard deviation %6")
                     .arg(data_.tensor.left(200), bigCount(data_.elements), valueText(data_.minimum),
                          valueText(data_.maximum), valueText(data_.mean), valueText(data_.deviation));
  if (const QString bad = notFinite(); !bad.isEmpty()) text += QStringLiteral(", ") + bad;
  if (chosen_ >= 0) text += QStringLiteral(", ") + binText(chosen_);
  return text;
}

QVector<std::pair<QString, QString>> TensorHistogramView::statisticsRows() const {
  QVector<std::pair<QString, QString>> rows;
  const auto row = [&](const char* name, const QString& value) {
    rows.push_back({QString::fromUtf8(name), value});
  };
  row("elements", bigCount(data_.elements));
  if (data_.nan) row("NaN", bigCount(data_.nan));
  if (data_.positive_infinity) row("+∞", bigCount(data_.positive_infinity));
  if (data_.negative_infinity) row("−∞", bigCount(data_.negative_infinity));
  row("zeros", bigCount(data_.zeros) +
                   (data_.zeros && data_.elements
                        ? QStringLiteral(" · ") + share(double(data_.zeros) / double(data_.elements))
                        : QString()));
  const auto exact = [](QString text) { return text.replace('-', QChar(0x2212)); };
  row("minimum", data_.minimum_text.isEmpty() ? valueText(data_.minimum, 6) : exact(data_.minimum_text));
  row("maximum", data_.maximum_text.isEmpty() ? valueText(data_.maximum, 6) : exact(data_.maximum_text));
  row("mean", valueText(data_.mean, 5));
  row("standard deviation", valueText(data_.deviation, 5));
  row("L2 norm", valueText(data_.l2, 5));
  for (const auto& [part, value] : data_.quantiles)
    rows.push_back({part == 0.5 ? QStringLiteral("median")
                                : QString::number(part * 100) + QChar(0x2009) + QStringLiteral("% quantile"),
                    valueText(value, 5)});
  return rows;
}

QRectF TensorHistogramView::plotRect(const QRectF& area, const Theme& theme) const {
  const double scale = theme.base / 12;
  const double rows = area.width() >= kRowsFrom * scale ? kRowsWidth * scale : 0;
  return {std::floor(area.left() + kLeft * scale), std::floor(area.top() + kTop * scale),
          std::floor(std::max(1.0, area.width() - (kLeft + kRight) * scale - rows)),
          std::floor(std::max(1.0, area.height() - (kTop + kBottom) * scale))};
}

QRectF TensorHistogramView::shownPlot() const {
  const QRectF area = contentRect();
  return plotRect({0, 0, area.width(), std::max(area.height(), contentHeight(area.width()))},
                  Theme::current());
}

double TensorHistogramView::yOf(const QRectF& plot, quint64 n) const {
  const double top = double(std::max<quint64>(1, highest()));
  if (!log_counts_) return plot.bottom() - plot.height() * double(n) / (top * 1.04);
  if (n == 0) return plot.bottom();
  // One element is seen: the axis begins below 1.
  constexpr double least = 0.6;
  return plot.bottom() - plot.height() * std::log(double(n) / least) / std::log(top * 1.2 / least);
}

QRectF TensorHistogramView::bar(const QRectF& plot, int bin, double pixel) const {
  const double width = plot.width() / double(std::max<qsizetype>(1, data_.counts.size()));
  const double left = std::floor((plot.left() + bin * width) / pixel) * pixel;
  double right = std::floor((plot.left() + (bin + 1) * width) / pixel) * pixel;
  if (width >= 6) right -= 1;  // surface gap
  if (right <= left) right = left + pixel;
  const quint64 n = data_.counts[bin];
  double top = std::round(yOf(plot, n) / pixel) * pixel;
  if (n > 0) top = std::min(top, plot.bottom() - pixel);  // a bin with elements is never drawn as nothing
  return {left, top, right - left, plot.bottom() - top};
}

int TensorHistogramView::binAt(const QRectF& plot, double x) const {
  const int bins = int(data_.counts.size());
  if (bins == 0 || x < plot.left() || x >= plot.right()) return -1;
  return std::clamp(int((x - plot.left()) / plot.width() * bins), 0, bins - 1);
}

double TensorHistogramView::xOf(const QRectF& plot, double value) const {
  if (data_.edges.isEmpty()) return plot.center().x();
  return plot.left() + plot.width() * shareOf(value, data_.edges.front(), data_.edges.back(),
                                              data_.symmetric_log, data_.unit);
}

QVector<double> TensorHistogramView::ticks(const QRectF& plot, double gap) const {
  QVector<double> result;
  if (data_.edges.isEmpty()) return result;
  const double low = data_.edges.front(), high = data_.edges.back();
  if (!(high > low)) return {low};
  if (!data_.symmetric_log) {
    const double least = (high / 2 - low / 2) / std::max(1.0, std::floor(plot.width() / gap)) * 2;
    if (!(least > 0) || !std::isfinite(least)) return {0};
    const double step = std::max(roundStep(least), data_.whole ? 1.0 : 0.0);
    for (double i = std::ceil(low / step - 1e-9); i * step <= high + step * 1e-9 && result.size() < 200; ++i)
      result.push_back(i == 0 ? 0 : i * step);
    return result;
  }
  // Decades on both sides, the largest first: they are what the scale is for.
  if (low <= 0 && high >= 0) result.push_back(0);
  const auto side = [&](double end, double sign) {
    if (!(end > 0)) return;
    const int first = int(std::floor(std::log10(end))),
              last = int(std::ceil(std::log10(std::max(data_.unit, 1e-300))));
    for (int k = first; k >= last; --k) {
      const double v = sign * std::pow(10.0, k);
      if (v < low || v > high) continue;
      const double x = xOf(plot, v);
      if (std::all_of(result.begin(), result.end(),
                      [&](double t) { return std::abs(xOf(plot, t) - x) >= gap; }))
        result.push_back(v);
    }
  };
  side(high, 1);
  side(-low, -1);
  std::sort(result.begin(), result.end());
  return result;
}

void TensorHistogramView::paintAxes(QPainter& painter, const QRectF& plot, const Theme& theme) const {
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing, false);
  painter.setFont(theme.label());
  const QFontMetricsF metrics(theme.label());
  const double scale = theme.base / 12;
  QVector<double> counts;
  const double top = double(std::max<quint64>(1, highest()));
  if (log_counts_) {
    const int decades = int(std::floor(std::log10(top))), most = std::max(1, int(plot.height() / 24));
    const int each = std::max(1, (decades + most) / most);
    for (int k = 0; k <= decades; k += each) counts.push_back(std::pow(10.0, k));
  } else {
    counts = roundTicks(top * 1.04, std::max(1, std::min(5, int(plot.height() / 26))), true);
  }
  for (const double tick : counts) {
    const double y = std::round(yOf(plot, quint64(tick)));
    painter.fillRect(QRectF(plot.left(), y, plot.width(), 1), theme.line);
    painter.fillRect(QRectF(plot.left() - 4, y, 4, 1), theme.lineStrong);
    painter.setPen(theme.text2);
    painter.drawText(QRectF(plot.left() - 80 * scale, y - 10, 80 * scale - 8, 20),
                     int(Qt::AlignRight | Qt::AlignVCenter),
                     tick < 1e7 ? count(qint64(tick)) : valueText(tick, 3));
  }
  painter.fillRect(QRectF(plot.left() - 1, plot.top(), 1, plot.height() + 1), theme.lineStrong);
  painter.fillRect(QRectF(plot.left() - 1, plot.bottom(), plot.width() + 1, 1), theme.lineStrong);
  const auto values = ticks(plot, 64 * scale);
  const double largest =
      data_.edges.isEmpty() ? 0 : std::max(std::abs(data_.edges.front()), std::abs(data_.edges.back()));
  for (const double tick : values) {
    const double x = std::round(xOf(plot, tick));
    painter.fillRect(QRectF(x, plot.bottom(), 1, 5), theme.lineStrong);
    painter.setPen(theme.text2);
    const double step = data_.symmetric_log || values.size() < 2 ? 0 : values[1] - values[0];
    painter.drawText(QRectF(x - 50, plot.bottom() + 5, 100, metrics.height() + 4),
                     int(Qt::AlignHCenter | Qt::AlignVCenter),
                     step > 0 ? tickText(tick, step, largest) : valueText(tick, 3));
  }
  painter.setPen(theme.text2);
  painter.drawText(
      QRectF(plot.left() - 40, plot.bottom() + 7 + metrics.height(), plot.width() + 80, metrics.height() + 4),
      int(Qt::AlignHCenter | Qt::AlignVCenter),
      data_.symmetric_log ? QStringLiteral("value, symmetric log with unit %1").arg(valueText(data_.unit, 3))
                          : QStringLiteral("value"));
  painter.translate(plot.left() - kLeft * scale + 11, plot.center().y());
  painter.rotate(-90);
  painter.drawText(QRectF(-plot.height() / 2 - 20, -10, plot.height() + 40, 20), Qt::AlignCenter,
                   log_counts_ ? QStringLiteral("elements, log") : QStringLiteral("elements"));
  painter.restore();
}

void TensorHistogramView::paintBars(QPainter& painter, const QRectF& plot, const Theme& theme,
                                    bool marks) const {
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing, false);
  const double pixel = 1 / std::max(1.0, painter.deviceTransform().m11());
  for (int bin = 0; bin < data_.counts.size(); ++bin)
    if (data_.counts[bin] > 0) painter.fillRect(bar(plot, bin, pixel), theme.timelineOther);
  if (std::isfinite(data_.mean)) {
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setPen(QPen(theme.fit, 1.5));
    const double x = xOf(plot, data_.mean);
    painter.drawLine(QPointF(x, plot.top()), QPointF(x, plot.bottom()));
    painter.setRenderHint(QPainter::Antialiasing, false);
  }
  if (marks)
    for (const auto& [bin, colour] : {std::pair{hover_, theme.hover}, {chosen_, theme.selection}}) {
      if (bin < 0 || bin >= data_.counts.size()) continue;
      QRectF box = bar(plot, bin);
      if (box.height() < 3) box.setTop(plot.bottom() - 3);
      painter.setBrush(Qt::NoBrush);
      painter.setPen(QPen(colour, 1));
      painter.drawRect(box.adjusted(-0.5, -0.5, 0.5, -0.5));
    }
  painter.restore();
}

void TensorHistogramView::paintRows(QPainter& painter, const QRectF& area, const Theme& theme) const {
  const double scale = theme.base / 12;
  double y = area.top() + 6 * scale;
  painter.setFont(theme.label());
  const QFontMetricsF metrics(theme.label());
  for (const auto& [name, value] : statisticsRows()) {
    painter.setPen(theme.text2);
    painter.drawText(QRectF(area.left(), y, area.width(), kRow * scale),
                     int(Qt::AlignLeft | Qt::AlignVCenter), name);
    const double room = area.width() - metrics.horizontalAdvance(name) - 8;
    painter.setPen(theme.text);
    painter.drawText(QRectF(area.right() - room, y, room, kRow * scale),
                     int(Qt::AlignRight | Qt::AlignVCenter), metrics.elidedText(value, Qt::ElideRight, room));
    y += kRow * scale;
  }
}

void TensorHistogramView::paintAll(QPainter& painter, const QRectF& area, const Theme& theme,
                                   bool marks) const {
  const QRectF plot = plotRect(area, theme);
  paintAxes(painter, plot, theme);
  paintBars(painter, plot, theme, marks);
  const double scale = theme.base / 12;
  if (area.width() >= kRowsFrom * scale)
    paintRows(painter,
              QRectF(plot.right() + kRight * scale, area.top(),
                     area.right() - plot.right() - (kRight + 12) * scale, area.height()),
              theme);
}

void TensorHistogramView::paintContent(QPainter& painter, const QSizeF& size, const Theme& theme) {
  paintAll(painter, QRectF(QPointF(0, 0), size), theme, true);
}

void TensorHistogramView::paintFigure(QPainter& painter, const QRectF& area, const Theme& theme,
                                      const FigureOptions& options) {
  painter.save();
  painter.fillRect(area, theme.surface);
  painter.setClipRect(area, Qt::IntersectClip);
  QRectF rest = area;
  if (!why_.isEmpty()) {
    painter.setPen(theme.text2);
    painter.setFont(theme.ui);
    painter.drawText(area, int(Qt::AlignCenter) | Qt::TextWordWrap, why_);
    painter.restore();
    return;
  }
  if (options.caption) {
    QStringList parts{data_.checkpoint, oneLine(data_.tensor).left(300), data_.dtype, data_.shape,
                      bigCount(data_.elements) + QStringLiteral(" elements")};
    if (const QString bad = notFinite(); !bad.isEmpty()) parts << bad + QStringLiteral(" not drawn");
    parts.removeAll(QString());
    rest = paintCaption(painter, area, parts.join(QStringLiteral(" · ")), theme);
  }
  if (options.legend) {
    const double bar = 28 * theme.base / 12;
    paintLegend(painter, rest.left() + 12, rest.top() + bar / 2 + 4, legend(theme), theme);
    rest.adjust(0, bar, 0, 0);
  }
  paintAll(painter, rest, theme, options.selection);
  painter.restore();
}

Facts TensorHistogramView::facts() const {
  Facts facts{{QStringLiteral("checkpoint"), data_.checkpoint},
              {QStringLiteral("tensor"), data_.tensor},
              {QStringLiteral("dtype"), data_.dtype},
              {QStringLiteral("shape"), data_.shape},
              {QStringLiteral("figure"), figureKind()}};
  const auto number = [&](const char* key, quint64 n) {
    facts.push_back({QString::fromLatin1(key), QString::number(n)});
  };
  number("elements", data_.elements);
  number("finite", data_.finite);
  number("nan", data_.nan);
  number("positive_infinity", data_.positive_infinity);
  number("negative_infinity", data_.negative_infinity);
  number("zeros", data_.zeros);
  facts.push_back({QStringLiteral("minimum"), data_.minimum_text});
  facts.push_back({QStringLiteral("maximum"), data_.maximum_text});
  facts.push_back({QStringLiteral("mean"), csvNumber(data_.mean)});
  facts.push_back({QStringLiteral("standard_deviation"), csvNumber(data_.deviation)});
  facts.push_back({QStringLiteral("l2_norm"), csvNumber(data_.l2)});
  for (const auto& [part, value] : data_.quantiles)
    facts.push_back({QStringLiteral("quantile_") + csvNumber(part), csvNumber(value)});
  facts.push_back({QStringLiteral("bins"),
                   data_.symmetric_log
                       ? QStringLiteral("even in sign(x) log(1 + |x| / %1)").arg(csvNumber(data_.unit))
                       : QStringLiteral("even in x")});
  return facts;
}

QString TensorHistogramView::csv() const {
  if (data_.elements == 0) return {};
  QString text = factLines(facts()) + QStringLiteral("low,high,elements\n");
  for (int bin = 0; bin < data_.counts.size(); ++bin)
    text += csvNumber(data_.edges[bin]) + QLatin1Char(',') + csvNumber(data_.edges[bin + 1]) +
            QLatin1Char(',') + QString::number(data_.counts[bin]) + QLatin1Char('\n');
  return text;
}

QString TensorHistogramView::binText(int bin) const {
  if (bin < 0 || bin >= data_.counts.size()) return {};
  const double low = data_.edges[bin], high = data_.edges[bin + 1];
  const QString where = data_.whole ? count(qint64(std::llround((low + high) / 2)))
                                    : QStringLiteral("%1 to %2").arg(valueText(low), valueText(high));
  return QStringLiteral("%1   %2 of %3 elements")
      .arg(where, bigCount(data_.counts[bin]), bigCount(data_.finite));
}

QString TensorHistogramView::tipAt(const QPointF& position) const {
  const QRectF plot = shownPlot();
  if (position.y() < plot.top() || position.y() > plot.bottom() + 20) return {};
  const int bin = binAt(plot, position.x());
  if (bin < 0) return {};
  const double low = data_.edges[bin], high = data_.edges[bin + 1];
  return tipText(data_.whole
                     ? count(qint64(std::llround((low + high) / 2)))
                     : QStringLiteral("%1 ≤ x %3 %2")
                           .arg(valueText(low), valueText(high),
                                bin + 1 == data_.counts.size() ? QStringLiteral("≤") : QStringLiteral("<")),
                 {{QStringLiteral("elements"), bigCount(data_.counts[bin])},
                  {QStringLiteral("of the finite ones"),
                   share(data_.finite ? double(data_.counts[bin]) / double(data_.finite) : 0)}},
                 QString(), Theme::current());
}

void TensorHistogramView::choose(int bin) {
  chosen_ = bin;
  Q_EMIT statusText(binText(bin));
  refreshAccessibility();
  update();
}

bool TensorHistogramView::event(QEvent* event) {
  if (event->type() == QEvent::ShortcutOverride && why_.isEmpty()) {
    const auto* key = static_cast<QKeyEvent*>(event);
    if (key->matches(QKeySequence::Copy) || (key->modifiers() <= Qt::ShiftModifier &&
                                             (key->key() == Qt::Key_Left || key->key() == Qt::Key_Right ||
                                              key->key() == Qt::Key_Home || key->key() == Qt::Key_End)))
      event->accept();
  }
  return PaintedView::event(event);
}

void TensorHistogramView::mouseMoveEvent(QMouseEvent* event) {
  if (!why_.isEmpty()) return;
  const QPointF at = toContent(event->position());
  const QRectF plot = shownPlot();
  const int bin = at.y() >= plot.top() && at.y() <= plot.bottom() + 20 ? binAt(plot, at.x()) : -1;
  if (bin == hover_) return;
  hover_ = bin;
  Q_EMIT statusText(binText(bin));
  update();
}

void TensorHistogramView::mousePressEvent(QMouseEvent* event) {
  if (event->button() == Qt::LeftButton && why_.isEmpty()) choose(hover_);
}

void TensorHistogramView::leaveEvent(QEvent*) {
  hover_ = -1;
  Q_EMIT statusText({});
  update();
}

void TensorHistogramView::keyPressEvent(QKeyEvent* event) {
  if (why_.isEmpty() && event->matches(QKeySequence::Copy)) {
    QGuiApplication::clipboard()->setText(chosen_ >= 0 ? binText(chosen_) : csv());
    return event->accept();
  }
  const int bins = int(data_.counts.size()), step = event->modifiers() & Qt::ShiftModifier ? 10 : 1;
  int to = -1;
  if (event->key() == Qt::Key_Left) to = chosen_ < 0 ? bins - 1 : std::max(0, chosen_ - step);
  if (event->key() == Qt::Key_Right) to = std::min(bins - 1, chosen_ < 0 ? 0 : chosen_ + step);
  if (event->key() == Qt::Key_Home) to = 0;
  if (event->key() == Qt::Key_End) to = bins - 1;
  if (bins == 0 || to < 0) return PaintedView::keyPressEvent(event);
  choose(to);
  event->accept();
}

void TensorHistogramView::contextMenuEvent(QContextMenuEvent* event) {
  if (!why_.isEmpty()) return;
  auto* menu = new QMenu(this);
  menu->setAttribute(Qt::WA_DeleteOnClose);
  menu->addAction(QStringLiteral("Copy statistics"), this, [this] {
    QString text = oneLine(data_.tensor) + QLatin1Char('\n');
    for (const auto& [name, value] : statisticsRows())
      text += name + QLatin1Char('\t') + value + QLatin1Char('\n');
    QGuiApplication::clipboard()->setText(text);
  });
  menu->addAction(QStringLiteral("Copy data as CSV"), this,
                  [this] { QGuiApplication::clipboard()->setText(csv()); });
  menu->popup(event->globalPos());
}

}  // namespace slotscope::views
