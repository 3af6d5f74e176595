// Nonlinear least squares of an exponential decay through the sorted ESL bars (spec: raven-analysis "ESL
// regimes").
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/analysis/esl.h"

namespace slotscope::analysis {
namespace {

// Model c exp(-k i) with k = 1 / lambda. For a given k the best c is linear, so the problem has one unknown
// (variable projection). A step in both parameters from the log-linear start can leap over the minimum to
// where exp(-k) is 0 for all but the first bar and no gradient leads back; a bracketed root of one derivative
// cannot.
struct Profile {
  double c = 0;  // best c: sum y e / sum e^2
  double sse = 0;
  double slope = 0;  // d sse / dk = 2 c sum (y - c e) i e
};

Profile evaluate(std::span<const double> y, double k) {
  Profile p;
  double ye = 0, ee = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    const double e = std::exp(-k * double(i));
    ye += y[i] * e;
    ee += e * e;
  }
  p.c = ye / ee;
  for (size_t i = 0; i < y.size(); ++i) {
    const double e = std::exp(-k * double(i)), residual = y[i] - p.c * e;
    p.sse += residual * residual;
    p.slope += 2 * p.c * residual * double(i) * e;
  }
  return p;
}

// Least squares line through log y; returns k.
double log_linear(std::span<const double> y) {
  const double mean_x = double(y.size() - 1) / 2;
  double mean_l = 0, xx = 0, xl = 0;
  for (const double v : y) mean_l += std::log(v) / double(y.size());
  for (size_t i = 0; i < y.size(); ++i) {
    const double x = double(i) - mean_x;
    xx += x * x;
    xl += x * (std::log(y[i]) - mean_l);
  }
  return -xl / xx;
}

// Walks downhill from `start` until the slope changes its sign, then halves the bracket down to neighbouring
// numbers. NaN when there is no minimum that way.
double minimise(std::span<const double> y, double start) {
  double low = start, high = start;
  double step = 0.1 * std::max(std::abs(start), 1e-6);
  const double direction = evaluate(y, start).slope < 0 ? 1 : -1;
  for (int i = 0;; ++i, step *= 1.5) {
    if (i == 100) return std::numeric_limits<double>::quiet_NaN();
    (direction > 0 ? low : high) = direction > 0 ? high : low;
    double& front = direction > 0 ? high : low;
    front += direction * step;
    const double slope = evaluate(y, front).slope;
    if (!std::isfinite(slope)) return std::numeric_limits<double>::quiet_NaN();
    if (direction > 0 ? slope >= 0 : slope <= 0) break;
  }
  for (int i = 0; i < 200; ++i) {
    const double middle = low + (high - low) / 2;
    if (!(middle > low && middle < high)) break;
    (evaluate(y, middle).slope < 0 ? low : high) = middle;
  }
  return low;
}

}  // namespace

EslFit fit_exponential(std::span<const double> bars) {
  EslFit fit;
  if (bars.empty() ||
      !std::all_of(bars.begin(), bars.end(), [](double v) { return v > 0 && std::isfinite(v); }))
    return fit;
  fit.valid = true;
  fit.c = bars.front();
  fit.lambda = std::numeric_limits<double>::infinity();
  fit.r2 = std::numeric_limits<double>::quiet_NaN();
  const auto [low, high] = std::minmax_element(bars.begin(), bars.end());
  if (*low == *high) return fit;

  const double k = minimise(bars, log_linear(bars));
  if (std::isnan(k)) return {};
  const Profile best = evaluate(bars, k);
  double mean = 0, sst = 0;
  for (const double v : bars) mean += v / double(bars.size());
  for (const double v : bars) sst += (v - mean) * (v - mean);
  fit.c = best.c;
  fit.lambda = 1 / k;
  fit.r2 = 1 - best.sse / sst;
  return fit;
}

}  // namespace slotscope::analysis
