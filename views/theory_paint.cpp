#include "views/theory_paint.h"

#include <QPainter>
#include <QPainterPath>
#include <algorithm>
#include <memory>

#include "views/caption.h"
#include "views/format.h"
#include "views/painted_view.h"
#include "views/tensor_histogram_view.h"

namespace slotscope::views {

namespace {

constexpr double kLeft = 56;  // of a plot, as in theory_layout.cpp

double scaleOf(const Theme& theme) { return theme.base / 12; }

void text(QPainter& p, const QRectF& box, const QFont& font, const QColor& colour, const QString& words,
          int flags = Qt::AlignLeft | Qt::AlignVCenter) {
  p.setFont(font);
  p.setPen(colour);
  p.drawText(box, flags, QFontMetricsF(font, p.device()).elidedText(words, Qt::ElideRight, box.width() + 1));
}

QString tickText(double value, const PlotScale& scale) {
  if (std::abs(value) < 1e-12 * (scale.high - scale.low)) return QStringLiteral("0");
  return valueText(value, 4);
}

void axes(QPainter& p, const TheoryPanel& panel, const Theme& theme, const QString& x_title, const QString& y_title, bool x_ticks = true) {
  const double s = scaleOf(theme);
  const QRectF& plot = panel.plot;
  p.setRenderHint(QPainter::Antialiasing, false);
  p.setPen(QPen(theme.lineStrong, 1));
  p.drawLine(plot.bottomLeft(), plot.bottomRight());
  p.drawLine(plot.topLeft(), plot.bottomLeft());
  for (const double v : panel.y.ticks(30 * s)) {
    const double y = std::round(panel.y.at(v)) + 0.5;
    p.setPen(QPen(theme.lineStrong, 1));
    p.drawLine(QPointF(plot.left() - 4, y), QPointF(plot.left(), y));
    text(p, QRectF(plot.left() - kLeft * s, y - 8 * s, (kLeft - 7) * s, 16 * s), theme.label(), theme.text2, tickText(v, panel.y),
         Qt::AlignRight | Qt::AlignVCenter);
  }
  if (x_ticks)
    for (const double v : panel.x.ticks(46 * s)) {
      const double x = std::round(panel.x.at(v)) + 0.5;
      p.setPen(QPen(theme.lineStrong, 1));
      p.drawLine(QPointF(x, plot.bottom()), QPointF(x, plot.bottom() + 4));
      text(p, QRectF(x - 30 * s, plot.bottom() + 5 * s, 60 * s, 15 * s), theme.label(), theme.text2, tickText(v, panel.x), Qt::AlignCenter);
    }
  text(p, QRectF(plot.left(), plot.bottom() + 20 * s, plot.width(), 16 * s), theme.label(), theme.text2, x_title, Qt::AlignCenter);
  p.save();
  p.translate(panel.cell.left() + 9 * s, plot.center().y());
  p.rotate(-90);
  text(p, QRectF(-plot.height() / 2, -8 * s, plot.height(), 16 * s), theme.label(), theme.text2, y_title, Qt::AlignCenter);
  p.restore();
}

void title(QPainter& p, const TheoryPanel& panel, const Theme& theme, const QString& words, const QString& aside) {
  const double s = scaleOf(theme);
  const QRectF line(panel.cell.left() + 8 * s, panel.cell.top() + 5 * s, panel.cell.width() - 16 * s, 18 * s);
  const double wide = QFontMetricsF(theme.semibold(), p.device()).horizontalAdvance(words) + 14 * s;
  text(p, line, theme.semibold(), theme.text, words);
  if (!aside.isEmpty() && line.width() - wide > 40 * s)
    text(p, line.adjusted(wide, 0, 0, 0), theme.label(), theme.text2, aside, Qt::AlignRight | Qt::AlignVCenter);
}

// A row of line samples or marks with names below the title; names that do not fit are left out.
struct Key {
  QString name;
  QColor colour;
  Qt::PenStyle style = Qt::SolidLine;
  QChar mark;  // null: a line
};

void paintMark(QPainter& p, const QPointF& at, QChar mark, const QColor& colour, const Theme& theme, double r) {
  p.setPen(QPen(colour, 1.5));
  p.setBrush(mark == QChar('o') ? QBrush(theme.surface) : QBrush(colour));
  if (mark == QChar('o') || mark == QChar('*')) p.drawEllipse(at, r, r);
  if (mark == QChar('s')) p.drawRect(QRectF(at.x() - r, at.y() - r, 2 * r, 2 * r));
  if (mark == QChar('d')) {
    p.setBrush(theme.surface);
    p.drawPolygon(QPolygonF{at + QPointF(0, -r * 1.25), at + QPointF(r * 1.25, 0), at + QPointF(0, r * 1.25), at + QPointF(-r * 1.25, 0)});
  }
  if (mark == QChar('x')) {
    p.drawLine(at + QPointF(-r, -r), at + QPointF(r, r));
    p.drawLine(at + QPointF(-r, r), at + QPointF(r, -r));
  }
}

void paintKeys(QPainter& p, const TheoryPanel& panel, const Theme& theme, const QVector<Key>& keys) {
  const double s = scaleOf(theme), y = panel.cell.top() + 33 * s, right = panel.cell.right() - 4 * s;
  double x = panel.cell.left() + 8 * s;
  const QFontMetricsF metrics(theme.label(), p.device());
  const auto sample = [&](const Key& key) { return (key.mark.isNull() ? 20 : 9) * s; };
  double names = 0;
  for (const Key& key : keys) names += sample(key) + 4 * s + metrics.horizontalAdvance(key.name);
  const double gap = std::clamp((right - x - names) / std::max<double>(1, double(keys.size()) - 1), 5 * s, 12 * s);
  for (const Key& key : keys) {
    const double wide = metrics.horizontalAdvance(key.name);
    if (x + sample(key) + 4 * s + wide > right + 1) break;
    p.setRenderHint(QPainter::Antialiasing);
    if (key.mark.isNull()) {
      p.setPen(QPen(key.colour, 2, key.style, Qt::FlatCap));
      p.drawLine(QPointF(x, y), QPointF(x + sample(key), y));
    } else if (key.mark == QChar('#')) {
      p.fillRect(QRectF(x, y - 4.5 * s, 9 * s, 9 * s), key.colour);
    } else {
      paintMark(p, {x + sample(key) / 2, y}, key.mark, key.colour, theme, 3.5 * s);
    }
    text(p, QRectF(x + sample(key) + 4 * s, y - 9 * s, wide + 2, 18 * s), theme.label(), theme.text2, key.name);
    x += sample(key) + 4 * s + wide + gap;
  }
}

QPainterPath curve(const TheoryPanel& panel, const std::vector<double>& xs, const std::vector<double>& values) {
  QPainterPath path;
  bool open = false;
  // A little beyond the plot is enough: numbers of any size never reach the painter.
  const double room = panel.y.high - panel.y.low;
  for (size_t i = 0; i < xs.size(); ++i) {
    if (std::isnan(values[i])) {
      open = false;
      continue;
    }
    const QPointF at(panel.x.at(xs[i]), panel.y.at(std::clamp(values[i], panel.y.low - room, panel.y.high + room)));
    open ? path.lineTo(at) : path.moveTo(at);
    open = true;
  }
  return path;
}

QColor washed(QColor colour, double alpha) {
  colour.setAlphaF(float(alpha));
  return colour;
}

// A label on the ground of its plot.
void tag(QPainter& p, const QRectF& within, const QPointF& anchor, int side, const QString& words, const QColor& colour, const Theme& theme) {
  const double s = scaleOf(theme), wide = QFontMetricsF(theme.label(), p.device()).horizontalAdvance(words) + 6 * s;
  double left = side > 0 ? anchor.x() + 3 * s : side < 0 ? anchor.x() - wide - 3 * s : anchor.x() - wide / 2;
  left = std::clamp(left, within.left() + 1, std::max(within.left() + 1, within.right() - wide - 1));
  const QRectF box(left, std::clamp(anchor.y() - 8 * s, within.top() + 1, std::max(within.top() + 1, within.bottom() - 17 * s)), wide, 16 * s);
  p.fillRect(box, washed(theme.surface, 0.85));
  text(p, box, theme.label(), colour, words, Qt::AlignCenter);
}

void paintBeta(QPainter& p, const TheoryData& d, const TheoryPanel& panel, const Theme& theme, const TheoryMarks& marks) {
  title(p, panel, theme, QStringLiteral("log κ against β"), d.state.read == d.state.write ? QString() : QStringLiteral("β = √(β_r β_w)"));
  if (d.sweep_x.empty()) {
    text(p, panel.plot, theme.ui, theme.text2, QStringLiteral("β = 0: κ = 1 for every pair, exactly the target."), Qt::AlignCenter);
    return;
  }
  QVector<Key> keys;
  const auto curves = theoryCurves(d, theme);
  for (const auto& c : curves) keys.append({c.name, c.colour, c.style, {}});
  keys.append({QStringLiteral("Theorem 2"), washed(theme.fit, theme.dark ? 0.45 : 0.25), Qt::SolidLine, QChar('#')});
  paintKeys(p, panel, theme, keys);
  p.save();
  p.setClipRect(panel.plot.adjusted(0, 0, 1, 1), Qt::IntersectClip);
  p.setRenderHint(QPainter::Antialiasing);
  // Where Theorem 2 speaks: target +- bound. From xi = 1 on: hatched.
  std::vector<double> upper, lower;
  for (size_t i = 0; i < d.sweep_x.size(); ++i) {
    upper.push_back(d.sweep.log_target[i] + d.sweep.bound[i]);
    lower.push_back(d.sweep.log_target[i] - d.sweep.bound[i]);
  }
  QPainterPath band = curve(panel, d.sweep_x, upper);
  if (!band.isEmpty()) {
    band.connectPath(curve(panel, d.sweep_x, lower).toReversed());
    p.fillPath(band, washed(theme.fit, theme.dark ? 0.25 : 0.12));
  }
  const double end = panel.x.at(std::clamp(d.x_end, panel.x.low, panel.x.high));
  if (d.x_end < panel.x.high) paintHatch(p, QRectF(QPointF(end, panel.plot.top()), panel.plot.bottomRight()), theme);
  const double ceiling = panel.y.at(d.numbers.log_ceiling);
  p.setPen(QPen(theme.text3, 1, Qt::DashLine));
  p.drawLine(QPointF(panel.plot.left(), ceiling), QPointF(panel.plot.right(), ceiling));
  p.setBrush(Qt::NoBrush);
  for (const auto& c : curves) {
    p.setPen(QPen(c.colour, 2, c.style, Qt::FlatCap));
    p.drawPath(curve(panel, d.sweep_x, *c.values));
  }
  const double star = panel.x.at(1);
  p.setPen(QPen(theme.text, 1, Qt::DotLine));
  p.drawLine(QPointF(star, panel.plot.top()), QPointF(star, panel.plot.bottom()));
  const double s = scaleOf(theme);
  tag(p, panel.plot, {star, panel.plot.bottom() - 10 * s}, 1, QStringLiteral("β*"), theme.text, theme);
  tag(p, panel.plot, {panel.plot.left(), ceiling - 9 * s}, 1, QStringLiteral("log M = %1").arg(valueText(d.numbers.log_ceiling, 4)), theme.text2, theme);
  if (d.x_end < panel.x.high)
    tag(p, panel.plot, {end, panel.plot.top() + 26 * s}, 1, QStringLiteral("ξ ≥ 1: no bound"), theme.text2, theme);
  if (marks.on) {
    const double here = panel.x.at(d.x), y = panel.y.at(std::clamp(d.numbers.log_kappa, panel.y.low, panel.y.high));
    p.setPen(QPen(theme.selection, 1.5));
    p.drawLine(QPointF(here, panel.plot.top()), QPointF(here, panel.plot.bottom()));
    p.setBrush(theme.selection);
    p.setPen(QPen(theme.surface, 1.5));
    p.drawEllipse(QPointF(here, y), 5 * s, 5 * s);
    if (std::isfinite(marks.x)) {
      p.setPen(QPen(theme.hover, 1, Qt::DotLine));
      p.drawLine(QPointF(panel.x.at(marks.x), panel.plot.top()), QPointF(panel.x.at(marks.x), panel.plot.bottom()));
    }
  }
  p.restore();
  axes(p, panel, theme, QStringLiteral("β / β*"), QStringLiteral("log κ"));
}

void paintPairs(QPainter& p, const TheoryData& d, const TheoryPanel& panel, const Theme& theme, const TheoryMarks& marks) {
  const double s = scaleOf(theme);
  static const char* const kinds[] = {"random angles", "random blocks", "k turned once around"};
  title(p, panel, theme, QStringLiteral("log error against q·k"),
        QStringLiteral("%1 pairs, %2").arg(count(qint64(d.cloud.q_dot_k.size())), QString::fromUtf8(kinds[int(d.state.pair_kind)])));
  double most = 0, largest_xi = 0;
  bool silent = false;
  for (size_t i = 0; i < d.cloud.xi.size(); ++i) {
    largest_xi = std::max(largest_xi, d.cloud.xi[i]);
    if (d.cloud.xi[i] >= 1)
      silent = true;
    else
      most = std::max(most, d.cloud.bound[i]);
  }
  QVector<Key> keys{{QStringLiteral("ξ < 1"), theme.fit, Qt::SolidLine, QChar('*')}};
  if (silent) keys.append({QStringLiteral("ξ ≥ 1: no bound"), theme.retrieval, Qt::SolidLine, QChar('o')});
  // Pairs of other lengths have bounds of their own, none above this one.
  const QString at_most = d.state.pair_kind == analysis::PairKind::random_blocks ? QStringLiteral("at most ") : QString();
  if (most > 0) keys.append({QStringLiteral("Theorem 2, %1±%2").arg(at_most, valueText(most, 4)), washed(theme.fit, theme.dark ? 0.45 : 0.25), Qt::SolidLine, QChar('#')});
  if (marks.on) keys.append({QStringLiteral("q, k"), theme.selection, Qt::SolidLine, QChar('*')});
  paintKeys(p, panel, theme, keys);
  p.save();
  p.setClipRect(panel.plot.adjusted(0, 0, 1, 1), Qt::IntersectClip);
  p.setRenderHint(QPainter::Antialiasing);
  if (most > 0) {
    const double top = panel.y.at(std::min(most, panel.y.high)), bottom = panel.y.at(std::max(-most, panel.y.low));
    p.fillRect(QRectF(panel.plot.left(), top, panel.plot.width(), bottom - top), washed(theme.fit, theme.dark ? 0.2 : 0.09));
    p.setPen(QPen(washed(theme.fit, 0.6), 1));
    for (const double edge : {most, -most})
      if (edge < panel.y.high && edge > panel.y.low) p.drawLine(QPointF(panel.plot.left(), panel.y.at(edge)), QPointF(panel.plot.right(), panel.y.at(edge)));
  }
  const bool all_silent = silent && most == 0;
  if (all_silent) paintHatch(p, panel.plot, theme);
  p.setPen(QPen(theme.lineStrong, 1));
  p.drawLine(QPointF(panel.plot.left(), panel.y.at(0)), QPointF(panel.plot.right(), panel.y.at(0)));
  for (size_t i = 0; i < d.cloud.q_dot_k.size(); ++i) {
    const QPointF at(panel.x.at(d.cloud.q_dot_k[i]), panel.y.at(d.cloud.log_error[i]));
    const bool hollow = d.cloud.xi[i] >= 1;
    p.setPen(hollow ? QPen(washed(theme.retrieval, 0.8), 1) : QPen(Qt::NoPen));
    p.setBrush(hollow ? QBrush(Qt::NoBrush) : QBrush(washed(theme.fit, 0.55)));
    p.drawEllipse(at, 2.4 * s, 2.4 * s);
  }
  if (all_silent)
    tag(p, panel.plot, {panel.plot.center().x(), panel.plot.top() + 12 * s}, 0,
        QStringLiteral("ξ = %1 ≥ 1: Theorem 2 says nothing here").arg(valueText(largest_xi, 4)), theme.text, theme);
  else if (most > 0 && most > std::max(panel.y.high, -panel.y.low))
    tag(p, panel.plot, {panel.plot.center().x(), panel.plot.top() + 12 * s}, 0,
        QStringLiteral("the bound ±%1 is beyond this scale").arg(valueText(most, 4)), theme.text2, theme);
  if (marks.on) {
    p.setPen(QPen(theme.surface, 1.5));
    p.setBrush(theme.selection);
    p.drawEllipse(QPointF(panel.x.at(d.numbers.q_dot_k), panel.y.at(d.numbers.log_error)), 5 * s, 5 * s);
    if (marks.pair >= 0 && size_t(marks.pair) < d.cloud.q_dot_k.size()) {
      p.setPen(QPen(theme.hover, 1.5));
      p.setBrush(Qt::NoBrush);
      p.drawEllipse(QPointF(panel.x.at(d.cloud.q_dot_k[size_t(marks.pair)]), panel.y.at(d.cloud.log_error[size_t(marks.pair)])), 5 * s, 5 * s);
    }
  }
  p.restore();
  axes(p, panel, theme, QStringLiteral("q·k"), QStringLiteral("log κ − log target"));
}

void paintWeights(QPainter& p, const TheoryData& d, const TheoryPanel& panel, const Theme& theme) {
  const double s = scaleOf(theme);
  title(p, panel, theme, QStringLiteral("Weights over %1 keys").arg(d.state.keys), QStringLiteral("cumulative averaging; key 0 is k"));
  static const QChar shapes[] = {QChar('#'), QChar('*'), QChar('o'), QChar('d'), QChar('x')};
  const QColor colours[] = {washed(theme.timelineOther, theme.dark ? 0.5 : 0.45), theme.fit, theme.fit, theme.otherText, theme.retrieval};
  QVector<Key> keys;
  for (qsizetype i = 0; i < d.weights.size(); ++i) {
    const TheoryWeights& w = d.weights[i];
    if (!w.weight.empty()) keys.append({w.name, colours[i], Qt::SolidLine, shapes[i]});
  }
  paintKeys(p, panel, theme, keys);
  const double step = panel.plot.width() / d.state.keys, wide = std::min(step * 0.8, 60 * s);
  p.setRenderHint(QPainter::Antialiasing);
  const bool labelled = step >= 16 * s;
  for (int key = 0; key < d.state.keys; ++key) {
    const double middle = panel.x.at(key + 0.5);
    const double top = panel.y.at(d.weights[0].weight[size_t(key)]);
    p.fillRect(QRectF(middle - wide / 2, top, wide, panel.plot.bottom() - top), colours[0]);
    for (qsizetype i = 1; i < d.weights.size(); ++i) {
      if (d.weights[i].weight.empty()) continue;
      const double x = middle + (double(i) - 2.5) * wide / 4.6;
      paintMark(p, {x, panel.y.at(d.weights[i].weight[size_t(key)])}, shapes[i], colours[i], theme, std::min(3.4 * s, step * 0.12));
    }
    if (labelled || key % 8 == 0)
      text(p, QRectF(middle - 20 * s, panel.plot.bottom() + 4 * s, 40 * s, 15 * s), theme.label(), key == 0 ? theme.text : theme.text2,
           QString::number(key), Qt::AlignCenter);
  }
  axes(p, panel, theme, QStringLiteral("key"), QStringLiteral("weight"), false);
}

// Codes with their soft assignments: reads outside the circle, writes inside. Area of a disc = probability.
void paintCodebook(QPainter& p, const TheoryData& d, int factor, const QPointF& middle, double unit, const Theme& theme, bool large) {
  const double s = scaleOf(theme);
  p.setRenderHint(QPainter::Antialiasing);
  p.setPen(QPen(theme.lineStrong, 1));
  p.setBrush(Qt::NoBrush);
  p.drawEllipse(middle, unit, unit);
  const auto book = analysis::circular_codebook(d.state.codes);
  const double largest = (large ? 0.2 : 0.34) * unit;
  for (int j = 0; j < d.state.codes; ++j) {
    const double c = book.cos[size_t(j)], n = book.sin[size_t(j)];
    const size_t at = size_t(factor * d.state.codes + j);
    const auto disc = [&](double probability, double radius, const QColor& colour) {
      const double r = largest * std::sqrt(probability);
      p.setPen(Qt::NoPen);
      p.setBrush(washed(colour, 0.75));
      if (r > 0.2) p.drawEllipse(middle + QPointF(c, -n) * radius, r, r);
    };
    disc(d.read[at], unit * (large ? 1.2 : 1.0), theoryReadColour(theme));
    disc(d.write[at], unit * (large ? 0.8 : 1.0), theoryWriteColour(theme));
    if (!large) continue;
    p.setPen(Qt::NoPen);
    p.setBrush(theme.text);
    p.drawEllipse(middle + QPointF(c, -n) * unit, 2 * s, 2 * s);
    if (d.state.codes <= 16)
      text(p, QRectF(middle.x() + c * unit * 1.52 - 14 * s, middle.y() - n * unit * 1.52 - 8 * s, 28 * s, 16 * s), theme.label(), theme.text3,
           QStringLiteral("c%1").arg(j), Qt::AlignCenter);
  }
}

void paintVector(QPainter& p, const TheoryLayout& l, double x, double y, const QString& name, const QColor& colour, const Theme& theme, bool grip) {
  const double s = scaleOf(theme);
  const QPointF from = l.point(0, 0), to = l.point(x, y);
  p.setRenderHint(QPainter::Antialiasing);
  p.setPen(QPen(colour, 2));
  p.drawLine(from, to);
  p.setBrush(colour);
  p.setPen(QPen(theme.surface, 1.5));
  p.drawEllipse(to, 6 * s, 6 * s);
  if (grip) {
    p.setBrush(Qt::NoBrush);
    p.setPen(QPen(theme.selection, 2));
    p.drawEllipse(to, 9 * s, 9 * s);
  }
  const double length = std::hypot(x, y);
  const QPointF aside = length > 0 ? QPointF(-y, -x) / length * 13 * s : QPointF(13 * s, 0);  // beside the tip, not on the line
  const QPointF middle = to + aside;
  p.setPen(Qt::NoPen);
  p.setBrush(washed(theme.surface, 0.8));
  p.drawEllipse(middle, 7.5 * s, 8 * s);
  text(p, QRectF(middle.x() - 12 * s, middle.y() - 9.5 * s, 24 * s, 18 * s), theme.semibold(), colour, name, Qt::AlignCenter);
}

void paintCircle(QPainter& p, const TheoryData& d, const TheoryLayout& l, const Theme& theme, const TheoryMarks& marks) {
  const int u = d.state.factor;
  title(p, l.circle, theme, d.state.factors() > 1 ? QStringLiteral("Codebook, factor %1").arg(u) : QStringLiteral("Codebook"),
        QStringLiteral("κ of the factor %1").arg(valueText(std::exp(d.factor_log_kappa[size_t(u)]), 5)));
  paintKeys(p, l.circle, theme, {{QStringLiteral("p(j|q) reads"), theoryReadColour(theme), Qt::SolidLine, QChar('*')},
                                 {QStringLiteral("p(j|k) writes"), theoryWriteColour(theme), Qt::SolidLine, QChar('*')}});
  p.setPen(QPen(theme.line, 1));
  p.setRenderHint(QPainter::Antialiasing, false);
  p.drawLine(l.point(-1, 0), l.point(1, 0));
  p.drawLine(l.point(0, -1), l.point(0, 1));
  paintCodebook(p, d, u, l.point(0, 0), l.unit, theme, true);
  const size_t at = size_t(2 * u);
  paintVector(p, l, d.state.k[at], d.state.k[at + 1], QStringLiteral("k"), theoryWriteColour(theme), theme, marks.on && marks.grip == QChar('k'));
  paintVector(p, l, d.state.q[at], d.state.q[at + 1], QStringLiteral("q"), theoryReadColour(theme), theme, marks.on && marks.grip == QChar('q'));
  for (qsizetype i = 0; i < l.thumbs.size(); ++i) {
    const QRectF& box = l.thumbs[i];
    p.setRenderHint(QPainter::Antialiasing);
    p.setBrush(theme.plot);
    p.setPen(QPen(i == u ? theme.selection : theme.line, i == u ? 2 : 1));
    p.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), 3, 3);
    const double unit = box.width() * 0.3;
    paintCodebook(p, d, int(i), box.center(), unit, theme, false);
    const auto hand = [&](const std::vector<double>& x, const QColor& colour) {
      const double a = x[size_t(2 * i)], b = x[size_t(2 * i) + 1], length = std::max(1e-300, std::hypot(a, b));
      p.setPen(QPen(colour, 1.5));
      p.drawLine(box.center(), box.center() + QPointF(a, -b) / std::max(1.0, length) * unit);
    };
    hand(d.state.k, theoryWriteColour(theme));
    hand(d.state.q, theoryReadColour(theme));
  }
}

}  // namespace

QColor theoryReadColour(const Theme& theme) { return theme.modelA; }
QColor theoryWriteColour(const Theme& theme) { return theme.modelB; }

QVector<TheoryCurve> theoryCurves(const TheoryData& d, const Theme& theme) {
  return {{QStringLiteral("hard write"), &d.sweep.log_kappa_hard, theme.retrieval, Qt::DashDotLine},
          {QStringLiteral("d → ∞"), &d.sweep.log_kappa_infinite, theme.other, Qt::DashLine},
          {QStringLiteral("target"), &d.sweep.log_target, theme.text2, Qt::DotLine},
          {QStringLiteral("κ"), &d.sweep.log_kappa, theme.fit, Qt::SolidLine}};
}

void paintTheory(QPainter& p, const TheoryData& d, const TheoryLayout& l, const Theme& theme, const TheoryMarks& marks) {
  p.save();
  paintCircle(p, d, l, theme, marks);
  paintBeta(p, d, l.beta, theme, marks);
  paintWeights(p, d, l.weights, theme);
  paintPairs(p, d, l.pairs, theme, marks);
  p.restore();
}

void paintTheoryFigure(QPainter& p, const TheoryData& d, const QRectF& area, const Theme& theme, const FigureOptions& options) {
  p.save();
  p.fillRect(area, theme.surface);
  QRectF rest = area;
  if (options.caption) {
    const auto& n = d.numbers;
    QString words = theoryCaption(d) + QStringLiteral(" · κ = %1, target %2, log error %3 · M = %4, ξ = %5, ")
                                           .arg(valueText(n.kappa, 7), valueText(n.target, 7), valueText(n.log_error, 6),
                                                valueText(n.bounds.radius, 5), valueText(n.bounds.xi, 4));
    words += n.bounds.bound ? QStringLiteral("Theorem 2: |log error| ≤ %1").arg(valueText(*n.bounds.bound, 5))
                            : QStringLiteral("Theorem 2 gives no bound (ξ ≥ 1)");
    rest = paintCaption(p, area, words, theme);
  }
  TheoryMarks marks;
  marks.on = options.selection;
  paintTheory(p, d, theoryLayout(d, rest.adjusted(6, 4, -6, -4), theme), theme, marks);
  p.restore();
}

Figure theoryFigure(const TheoryState& state) {
  const auto data = std::make_shared<const TheoryData>(theoryData(state));
  Figure figure;
  figure.size = kTheoryFigureSize;
  figure.kind = QStringLiteral("theory");
  figure.title = theoryCaption(*data);
  figure.csv = theoryCsv(*data);
  figure.facts = parseFacts(figure.csv);
  figure.paint = [data](QPainter& p, const QRectF& area, const Theme& theme, const FigureOptions& options) {
    paintTheoryFigure(p, *data, area, theme, options);
  };
  return figure;
}

}  // namespace slotscope::views
