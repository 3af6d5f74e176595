// Theorem 2 and its sharper pieces on random configurations, many of them at the edge of where it speaks (xi just below 1).
#include <algorithm>
#include <cmath>

#include "core/analysis/product_code.h"
#include "tests/cases/analysis/random_vectors.h"
#include "tests/cases/case.h"

using namespace slotscope::analysis;
using slotscope::testing::Draw;

namespace {

// An input whose xi is `xi`: aligned, opposed, at right angles, on or between codes, or random.
KernelInput at_xi(Draw& draw, double xi) {
  KernelInput in;
  in.codes = 2 + int64_t(draw.below(15));
  const int64_t factors = 1 + int64_t(draw.below(5));
  const double radius = radius_of_xi(in.codes, xi) * (1 - 1e-13);
  in.beta_read = std::pow(10, draw.between(-1.5, 1.5));
  in.beta_write = draw.below(3) == 0 ? in.beta_read : std::pow(10, draw.between(-1.5, 1.5));
  const auto kind = draw.below(6);
  const double ratio = draw.below(2) ? 1 : draw.between(0, 1);  // one side may be shorter
  for (int64_t u = 0; u < factors; ++u) {
    const double grid = 3.14159265358979323846 / double(in.codes) * double(draw.below(uint64_t(2 * in.codes)));
    const double a = kind < 2 ? draw.between(0, 6.3) : grid;
    const double turn[6] = {draw.between(0, 6.3), 0, 0, 3.14159265358979323846, 1.5707963267948966, draw.between(0, 6.3)};
    const double b = a + turn[kind];
    const double own = u == 0 || draw.below(2) ? 1 : draw.between(0, 1);
    const bool swap = draw.below(2);
    const double r = radius * own * (swap ? ratio : 1), w = radius * own * (swap ? 1 : ratio);
    in.q.push_back(r / in.beta_read * std::cos(a)), in.q.push_back(r / in.beta_read * std::sin(a));
    in.k.push_back(w / in.beta_write * std::cos(b)), in.k.push_back(w / in.beta_write * std::sin(b));
  }
  return in;
}

}  // namespace

SLOTSCOPE_CASE(theorem_2_is_never_violated) {
  Draw draw(20261201);
  int held = 0, near_one = 0;
  double closest = 0, closest_quantisation = 0, closest_continuous = 0;
  for (int i = 0; i < 24000; ++i) {
    const double xi = i % 2 ? 1 - std::pow(10, draw.between(-9, -0.3)) : std::pow(10, draw.between(-12, 0));
    const KernelNumbers n = kernel_numbers(at_xi(draw, xi));
    if (!n.bounds.bound) continue;
    ++held;
    near_one += n.bounds.xi > 0.9;
    const double u = double(n.codes_of_k.size());
    const double slack = 1e-15 * u * (1 + std::abs(n.log_target));
    CHECK(std::abs(n.log_error) <= *n.bounds.bound + slack);
    CHECK(std::abs(n.log_kappa - n.log_kappa_infinite) <= *n.bounds.quantisation + slack);
    CHECK(n.log_error_infinite >= n.bounds.continuous_lower - slack && n.log_error_infinite <= n.bounds.continuous_upper + slack);
    closest = std::max(closest, std::abs(n.log_error) / *n.bounds.bound);
    closest_quantisation = std::max(closest_quantisation, (std::abs(n.log_kappa - n.log_kappa_infinite) - slack) / *n.bounds.quantisation);
    closest_continuous = std::max({closest_continuous, (n.log_error_infinite - slack) / n.bounds.continuous_upper,
                                   (n.log_error_infinite + slack) / n.bounds.continuous_lower});
  }
  CHECK(held >= 20000);
  CHECK(near_one >= 8000);
  CHECK(closest > 0.1);             // the bound is no mere formality: some draws use a good part of it
  CHECK(closest_continuous > 0.1);
  t.note(std::to_string(held) + " draws with xi < 1, " + std::to_string(near_one) + " of them above 0.9; largest share of the bound " +
         slotscope::testing::to_text(closest) + ", of the quantisation part " + slotscope::testing::to_text(closest_quantisation) +
         ", of the continuous part " + slotscope::testing::to_text(closest_continuous));
}

// The bound is silent from xi = 1 on, and xi is a number for every radius.
SLOTSCOPE_CASE(where_theorem_2_ends) {
  for (const int64_t d : {2, 3, 4, 5, 8, 16, 64, 100000}) {
    const double edge = radius_of_xi(d, 1);
    CHECK(kernel_bounds(d, 2, edge * (1 - 1e-9)).bound.has_value());
    CHECK(!kernel_bounds(d, 2, edge * (1 + 1e-9)).bound.has_value());
    CHECK_CLOSE(kernel_bounds(d, 2, edge).xi, 1, 1e-8);
    double before = -1;
    for (const double radius : {0.0, 1e-300, 1e-30, 1e-3, 0.5, 1.0, 3.0, 30.0, 1e3, 1e5, 1e150}) {
      const KernelBounds b = kernel_bounds(d, 2, radius);
      CHECK(b.xi >= before);  // rises, and is no NaN
      before = b.xi;
      CHECK(b.bound.has_value() == (b.xi < 1));
      if (b.bound) CHECK(std::isfinite(*b.bound) && *b.bound >= 0);
    }
  }
  CHECK_CLOSE(radius_of_xi(4, 1), 1.334, 5e-4);  // 2 e^M M^4 = 24
}

// Theorem 1: for d >= 4 the log error is of order U M^4 as M goes to 0.
SLOTSCOPE_CASE(theorem_1_order) {
  Draw draw(8);
  for (int i = 0; i < 2000; ++i) {
    KernelInput in = draw.kernel(16, 5, 1);
    if (in.codes < 4) continue;
    const double scale = std::pow(10, draw.between(-8, -0.5)) / kernel_radius(in);
    in.beta_read *= scale, in.beta_write *= scale;
    const KernelNumbers n = kernel_numbers(in);
    const double m = n.bounds.radius, fourth = double(in.factors()) * m * m * m * m;
    CHECK(std::abs(n.log_error) <= 0.5 * fourth);
    CHECK(std::abs(n.log_error_infinite) <= 0.25 * fourth);
  }
}
