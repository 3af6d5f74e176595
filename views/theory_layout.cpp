// Geometry of the theory lab: where panels, axes and grips are.
#include <algorithm>

#include "views/theory_paint.h"

namespace slotscope::views {

namespace {

constexpr double kTitle = 44, kLeft = 56, kRight = 14, kBottom = 40, kGap = 14, kOneColumn = 500, kPanel = 270;

double scaleOf(const Theme& theme) { return theme.base / 12; }

// The smallest range that holds all finite values of a list.
struct Range {
  double low = INFINITY, high = -INFINITY;
  void add(double v) {
    if (!std::isfinite(v)) return;
    low = std::min(low, v);
    high = std::max(high, v);
  }
  void add(const std::vector<double>& values) {
    for (const double v : values) add(v);
  }
};

void place(TheoryPanel& panel, const QRectF& cell, double s) {
  panel.cell = cell;
  panel.plot = cell.adjusted(kLeft * s, kTitle * s, -kRight * s, -kBottom * s);
  if (panel.plot.height() < 20) panel.plot.setHeight(20);
  if (panel.plot.width() < 20) panel.plot.setWidth(20);
  panel.x.from = panel.plot.left(), panel.x.to = panel.plot.right();
  panel.y.from = panel.plot.bottom(), panel.y.to = panel.plot.top();
}

void placeCircle(TheoryLayout& l, const QRectF& cell, const TheoryState& state, double s, double reach) {
  l.circle.cell = cell;
  const bool thumbs = state.factors() > 1;
  const QRectF room = cell.adjusted(8 * s, kTitle * s, -8 * s, thumbs ? -44 * s : -6 * s);
  const double side = std::max(20.0, std::min(room.width(), room.height()));
  l.circle.plot = QRectF(room.center().x() - side / 2, room.center().y() - side / 2, side, side);
  l.unit = side / 2 / reach;
  if (!thumbs) return;
  const double most = (cell.width() - 16 * s) / state.factors(), edge = std::min(34 * s, most - 4 * s);
  const double left = cell.center().x() - (edge + 6 * s) * state.factors() / 2;
  for (int u = 0; u < state.factors(); ++u)
    l.thumbs.append(QRectF(left + (edge + 6 * s) * u + 3 * s, cell.bottom() - edge - 5 * s, edge, edge));
}

void scaleBeta(TheoryPanel& panel, const TheoryData& d) {
  panel.x.logarithmic = true;
  if (d.sweep_x.empty()) {
    panel.x.low = 0.1, panel.x.high = 10;
    return;
  }
  panel.x.low = d.sweep_x.front(), panel.x.high = d.sweep_x.back();
  const double ceiling = d.numbers.log_ceiling;
  Range range;
  range.add(0);
  range.add(d.sweep.log_kappa);
  range.add(d.sweep.log_kappa_infinite);
  range.add(d.sweep.log_kappa_hard);
  // The target has no ceiling and opposed pairs no floor: what matters is below log M and not far below 0.
  panel.y.high = ceiling * 1.12;
  panel.y.low = std::max(range.low, -1.25 * ceiling) - 0.06 * ceiling;
}

void scalePairs(TheoryPanel& panel, const TheoryData& d) {
  Range x, y;
  x.add(d.cloud.q_dot_k);
  x.add(d.numbers.q_dot_k);
  y.add(0);
  y.add(d.cloud.log_error);
  y.add(d.numbers.log_error);
  double most = 0;  // largest bound there is
  for (const double b : d.cloud.bound)
    if (b > most) most = b;
  const double size = std::max(y.high, -y.low);
  if (most > 0 && most <= 4 * size) y.add(most), y.add(-most);
  const auto widen = [](Range& r, double least) {
    if (!(r.high - r.low >= least)) {
      const double middle = (r.low + r.high) / 2;
      r.low = middle - least / 2, r.high = middle + least / 2;
    }
    const double pad = 0.06 * (r.high - r.low);
    r.low -= pad, r.high += pad;
  };
  widen(x, std::max(1e-12, 1e-9 * std::abs(x.high)));
  widen(y, 1e-15);
  panel.x.low = x.low, panel.x.high = x.high;
  panel.y.low = y.low, panel.y.high = y.high;
}

void scaleWeights(TheoryPanel& panel, const TheoryData& d) {
  panel.x.low = 0, panel.x.high = double(d.state.keys);
  Range range;
  range.add(0);
  for (const TheoryWeights& w : d.weights) range.add(w.weight);
  panel.y.low = 0, panel.y.high = std::max(1e-3, range.high) * 1.08;
}

}  // namespace

double PlotScale::at(double v) const {
  const double share = logarithmic ? std::log(v / low) / std::log(high / low) : (v - low) / (high - low);
  return from + share * (to - from);
}

double PlotScale::value(double pixel) const {
  const double share = (pixel - from) / (to - from);
  return logarithmic ? low * std::pow(high / low, share) : low + share * (high - low);
}

QVector<double> PlotScale::ticks(double gap) const {
  QVector<double> out;
  const double pixels = std::abs(to - from);
  if (!(pixels > 0) || !(high > low)) return out;
  if (logarithmic) {
    const double per_decade = pixels / std::log10(high / low);
    const QVector<double> steps = per_decade >= 4.5 * gap ? QVector<double>{1, 2, 5} : per_decade >= 2 * gap ? QVector<double>{1, 3} : QVector<double>{1};
    const int skip = std::max(1, int(std::ceil(gap / per_decade)));
    for (int e = int(std::floor(std::log10(low))) - 1; e <= std::ceil(std::log10(high)); ++e)
      if (e % skip == 0)
        for (const double f : steps)
          if (const double v = f * std::pow(10.0, e); v >= low * (1 - 1e-9) && v <= high * (1 + 1e-9)) out << v;
    return out;
  }
  const double least = (high - low) * gap / pixels, power = std::pow(10.0, std::floor(std::log10(least)));
  double step = power * 10;
  for (const double f : {5.0, 2.0, 1.0})
    if (power * f >= least) step = power * f;
  if (!(step > 0) || (high - low) / step > 1000) return out;
  for (double i = std::ceil(low / step); i * step <= high; ++i) out << i * step;
  return out;
}

double theoryReach(const TheoryState& state) {
  double longest = 0;
  for (size_t u = 0; u < state.q.size() / 2; ++u)
    longest = std::max({longest, std::hypot(state.q[2 * u], state.q[2 * u + 1]), std::hypot(state.k[2 * u], state.k[2 * u + 1])});
  return std::max(state.codes <= 16 ? 1.7 : 1.42, longest * 1.15);
}

double theoryHeight(double width, const Theme& theme) {
  const double s = scaleOf(theme);
  return (width < kOneColumn * s ? 4 : 2) * kPanel * s;
}

TheoryLayout theoryLayout(const TheoryData& d, const QRectF& area, const Theme& theme, double reach) {
  const double s = scaleOf(theme);
  TheoryLayout l;
  l.area = area;
  QRectF cells[4];
  if (area.width() < kOneColumn * s) {
    const double height = area.height() / 4;
    for (int i = 0; i < 4; ++i) cells[i] = QRectF(area.left(), area.top() + i * height, area.width(), height);
  } else {
    // The circle is square: the plots get what it leaves.
    const double gap = kGap * s, height = (area.height() - gap) / 2;
    const double first[] = {std::clamp(height, 0.36 * area.width(), 0.5 * area.width()), 0.5 * area.width()};
    for (int i = 0; i < 4; ++i) {
      const double left = first[i / 2];
      cells[i] = QRectF(i % 2 ? area.left() + left : area.left(), i / 2 ? area.top() + height + gap : area.top(),
                        i % 2 ? area.width() - left : left, height);
    }
  }
  placeCircle(l, cells[0], d.state, s, reach > 0 ? reach : theoryReach(d.state));
  place(l.beta, cells[1], s);
  place(l.weights, cells[2], s);
  place(l.pairs, cells[3], s);
  scaleBeta(l.beta, d);
  scalePairs(l.pairs, d);
  scaleWeights(l.weights, d);
  return l;
}

int theoryPairAt(const TheoryData& d, const TheoryLayout& l, const QPointF& at, double reach) {
  int best = -1;
  double nearest = reach * reach;
  for (size_t i = 0; i < d.cloud.q_dot_k.size(); ++i) {
    const double dx = l.pairs.x.at(d.cloud.q_dot_k[i]) - at.x(), dy = l.pairs.y.at(d.cloud.log_error[i]) - at.y();
    if (dx * dx + dy * dy < nearest) nearest = dx * dx + dy * dy, best = int(i);
  }
  return best;
}

}  // namespace slotscope::views
