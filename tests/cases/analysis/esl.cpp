#include "core/analysis/esl.h"

#include <cmath>
#include <limits>
#include <random>

#include "tests/cases/analysis/twin.h"
#include "tests/cases/case.h"

using namespace slotscope::analysis;
namespace twin = slotscope::testing::twin;
using Counts = std::vector<uint32_t>;
using Regimes = std::vector<Regime>;

SLOTSCOPE_CASE(ring) {
  CHECK_EQ(ring_esl(10, 4, 0), 3u);  // tokens 0, 4, 8
  CHECK_EQ(ring_esl(10, 4, 3), 2u);  // tokens 3, 7
  CHECK_EQ(ring_esl(2, 4, 3), 0u);
  CHECK_EQ(ring_esl(0, 4, 0), 0u);
  CHECK_EQ(ring_esl(9, 4, 4), 0u);  // there is no slot 4
  for (const int64_t tokens : {1, 7, 64, 65}) {
    for (const int64_t window : {1, 3, 64, 100}) {
      Counts counted(size_t(window), 0);
      for (int64_t t = 0; t < tokens; ++t) ++counted[size_t(t % window)];
      for (int64_t i = 0; i < window; ++i) CHECK_EQ(ring_esl(tokens, window, i), counted[size_t(i)]);
    }
  }
}

// Seven slots over 20 tokens: counts 10 1 4 0 7 1 4. min 1, max 10: cuts at 1 + 9/3 = 4 and 1 + 18/3 = 7
// writes. A slot on the upper cut is long, one on the lower cut intermediate.
SLOTSCOPE_CASE(regimes_by_hand) {
  const EslResult r = analyse_esl(Counts{10, 1, 4, 0, 7, 1, 4}, Counts{10, 2, 4, 0, 7, 1, 4}, 20);
  CHECK_EQ(r.order, (std::vector<int>{0, 4, 2, 6, 1, 5, 3}));
  CHECK_EQ(r.regime, (Regimes{Regime::long_range, Regime::short_range, Regime::intermediate, Regime::empty,
                              Regime::long_range, Regime::short_range, Regime::intermediate}));
  CHECK_EQ(r.used, 6);
  CHECK_CLOSE(r.cut_low, 0.2, 1e-15);
  CHECK_CLOSE(r.cut_high, 0.35, 1e-15);
  CHECK_EQ(r.selected[1], 2u);
  CHECK_EQ(r.tokens, int64_t(20));
}

// Exact ties with a cut stay exact for every range that three divides.
SLOTSCOPE_CASE(cuts_are_exact) {
  for (uint32_t third = 1; third < 5000; ++third) {
    const EslResult r = analyse_esl(Counts{3 * third + 1, 2 * third + 1, third + 1, 1}, {}, 99991);
    CHECK(r.regime[0] == Regime::long_range && r.regime[1] == Regime::long_range);
    CHECK(r.regime[2] == Regime::intermediate && r.regime[3] == Regime::short_range);
  }
}

SLOTSCOPE_CASE(user_cuts) {
  const EslResult r = analyse_esl(Counts{10, 6, 2}, {}, 10, {.low = 0.25, .high = 0.5});
  CHECK_CLOSE(r.cut_low, 0.4, 1e-15);
  CHECK_CLOSE(r.cut_high, 0.6, 1e-15);
  CHECK_EQ(r.regime, (Regimes{Regime::long_range, Regime::long_range, Regime::short_range}));
}

SLOTSCOPE_CASE(degenerate) {
  const EslResult none = analyse_esl({}, {}, 0);
  CHECK(none.order.empty() && none.used == 0 && !none.fit.valid);
  const EslResult empty = analyse_esl(Counts{0, 0}, {}, 5);
  CHECK_EQ(empty.regime, (Regimes{Regime::empty, Regime::empty}));
  CHECK_EQ(empty.order, (std::vector<int>{0, 1}));
  CHECK(!empty.fit.valid && empty.used == 0);
  const EslResult flat = analyse_esl(Counts{3, 0, 3}, {}, 6);
  CHECK_EQ(flat.regime, (Regimes{Regime::uniform, Regime::empty, Regime::uniform}));
  CHECK_EQ(flat.order, (std::vector<int>{0, 2, 1}));
  CHECK(flat.fit.valid && std::isinf(flat.fit.lambda) && std::isnan(flat.fit.r2));
  CHECK_EQ(flat.fit.c, 0.5);
  CHECK_EQ(flat.cut_low, 0.5);
  CHECK_EQ(flat.cut_high, 0.5);
}

SLOTSCOPE_CASE(fit_of_few_bars) {
  const EslFit one = fit_exponential(std::vector<double>{0.25});
  CHECK(one.valid && std::isinf(one.lambda) && std::isnan(one.r2));
  CHECK_EQ(one.c, 0.25);
  const EslFit two =
      fit_exponential(std::vector<double>{0.8, 0.2});  // passes through both: e^(-1/lambda) = 1/4
  CHECK_CLOSE(two.c, 0.8, 1e-14);
  CHECK_CLOSE(two.lambda, 1 / std::log(4.0), 1e-13);
  CHECK_CLOSE(two.r2, 1, 1e-14);
  CHECK(!fit_exponential({}).valid);
  CHECK(!fit_exponential(std::vector<double>{1, 0}).valid);
  CHECK(!fit_exponential(std::vector<double>{1, twin::kNaN}).valid);
  CHECK(!fit_exponential(std::vector<double>{std::numeric_limits<double>::infinity(), 1}).valid);
}

SLOTSCOPE_CASE(fit_recovers_exponential) {
  for (const double lambda : {0.3, 1.0, 7.1, 40.0, 500.0}) {
    std::vector<double> bars;
    for (int i = 0; i < 64; ++i) bars.push_back(1.051 * std::exp(-i / lambda));
    const EslFit fit = fit_exponential(bars);
    CHECK_CLOSE(fit.c, 1.051, 1e-12);
    CHECK_CLOSE(fit.lambda / lambda, 1, 1e-12);
    CHECK_CLOSE(fit.r2, 1, 1e-12);
  }
}

namespace {

// For a given k the best c is linear: sum y e / sum e^2. What is left is a function of k alone.
long double profile(const std::vector<double>& y, long double k) {
  long double ye = 0, ee = 0, sse = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    const long double e = std::exp(-k * (long double)(i));
    ye += y[i] * e;
    ee += e * e;
  }
  for (size_t i = 0; i < y.size(); ++i) {
    const long double d = y[i] - ye / ee * std::exp(-k * (long double)(i));
    sse += d * d;
  }
  return sse;
}

}  // namespace

// Random sorted bars: the fit is a stationary point to 1e-12 and no neighbour of it is better (brute-force
// twin by bisection of the profile's derivative in long double).
SLOTSCOPE_CASE(fit_is_the_least_squares_optimum) {
  std::mt19937 random(3);
  double worst = 0;
  for (int round = 0; round < 200; ++round) {
    const int n = 3 + int(random() % 62);
    std::vector<double> bars;
    const double scale = 1 + double(random() % 20);
    for (int i = 0; i < n; ++i) bars.push_back(std::exp(-double(random() % 1000) / 1000 * scale) + 1e-4);
    std::sort(bars.rbegin(), bars.rend());
    if (bars.front() == bars.back()) continue;
    const EslFit fit = fit_exponential(bars);
    CHECK(fit.valid && fit.lambda > 0);
    // d/dk of the profile in closed form, bracketed around the fit.
    const auto slope = [&](long double k) {
      long double ye = 0, ee = 0, yxe = 0, xee = 0;
      for (size_t i = 0; i < bars.size(); ++i) {
        const long double x = (long double)(i), e = std::exp(-k * x);
        ye += bars[i] * e;
        ee += e * e;
        yxe += bars[i] * x * e;
        xee += x * e * e;
      }
      return 2 * (ye / ee) * (yxe - ye / ee * xee);  // dSSE/dk = 2 c sum (y - c e) x e
    };
    const long double k = 1 / (long double)(fit.lambda);
    long double low = k * 0.98L, high = k * 1.02L;
    if (!(slope(low) < 0 && slope(high) > 0)) {
      t.fail("no minimum around the fit: lambda " + std::to_string(fit.lambda) + " of bars " +
                 slotscope::testing::to_text(bars),
             __FILE__, __LINE__);
      continue;
    }
    for (int i = 0; i < 100; ++i) (slope((low + high) / 2) < 0 ? low : high) = (low + high) / 2;
    worst = std::max(worst, double(std::abs(low / k - 1)));
    CHECK(profile(bars, k) <= profile(bars, k * 1.01L) && profile(bars, k) <= profile(bars, k * 0.99L));
    double mean = 0, sst = 0;
    for (const double v : bars) mean += v / n;
    for (const double v : bars) sst += (v - mean) * (v - mean);
    CHECK_CLOSE(fit.r2, 1 - double(profile(bars, k)) / sst, 1e-12);
  }
  CHECK_CLOSE(worst, 0, 1e-11);
  t.note("worst relative error of lambda " + std::to_string(worst * 1e15) + "e-15");
}

SLOTSCOPE_CASE(counting_routes) {
  for (const auto& problem : twin::problems()) {
    const slotscope::HeadRoutes routes = twin::make(problem);
    const twin::Dense d = twin::dense(routes);
    Counts writes(size_t(d.slots), 0), selections(size_t(d.slots), 0);
    for (int64_t t0 = 0; t0 < d.tokens; ++t0)
      for (int i = 0; i < d.slots; ++i) writes[size_t(i)] += d.r[d.at(t0, i)] != 0;
    for (const uint32_t i : routes.index)
      if (i < uint32_t(d.slots)) ++selections[i];
    CHECK_EQ(count_writes(routes), writes);
    CHECK_EQ(count_selections(routes), selections);
  }
}
