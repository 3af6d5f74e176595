#include "core/analysis/kernel_sweep.h"

#include <cmath>

#include "core/error.h"
#include "tests/cases/case.h"

using namespace slotscope::analysis;
using slotscope::Error;
using Vector = std::vector<double>;

namespace {
const KernelInput kInput{4, {.6, -.2, .1, .7}, {.5, .3, -.4, .6}, 1, 1};
}

SLOTSCOPE_CASE(sweep_is_point_by_point) {
  const Vector at{0, 0.5, 1, 1.58, 2, 4};
  const BetaSweep s = sweep_beta(kInput, at);
  for (size_t i = 0; i < at.size(); ++i) {
    KernelInput in = kInput;
    in.beta_read = in.beta_write = at[i];
    const KernelNumbers n = kernel_numbers(in);
    CHECK_EQ(s.multiple[i], at[i]);
    CHECK_EQ(s.beta_write[i], at[i]);
    CHECK_EQ(s.log_kappa[i], n.log_kappa);
    CHECK_EQ(s.log_kappa_hard[i], n.log_kappa_hard);
    CHECK_EQ(s.log_error[i], n.log_error);
    CHECK_EQ(s.xi[i], n.bounds.xi);
    CHECK_EQ(std::isnan(s.bound[i]), n.bounds.xi >= 1);
  }
  CHECK_CLOSE(s.log_error[2], -0.037049, 5e-7);  // spec 2.1
  CHECK_CLOSE(s.bound[3], 5.534, 5e-4);
  CHECK(std::isnan(s.bound[4]));
}

SLOTSCOPE_CASE(spacing) {
  const Vector log = spaced(0.1, 10, 201, true), plain = spaced(-1, 1, 3, false);
  CHECK_EQ(log.front(), 0.1);
  CHECK_EQ(log.back(), 10.0);
  CHECK_CLOSE(log[100], 1, 1e-15);
  CHECK_CLOSE(log[1] / log[0], log[200] / log[199], 1e-14);
  CHECK_EQ(plain, (Vector{-1, 0, 1}));
  CHECK_ERROR(spaced(0, 1, 5, true), "range", "above 0");
  CHECK_ERROR(spaced(2, 1, 5, false), "smaller one first");
  CHECK_ERROR(spaced(0, 1, 1, false), "points", "2 to 100000");
  CHECK_ERROR(spaced(0, NAN, 3, false), "range");
}

SLOTSCOPE_CASE(clouds) {
  for (const PairKind kind : {PairKind::random_angles, PairKind::random_blocks, PairKind::turned_key}) {
    const PairCloud c = pair_cloud(kInput, kind, 300, 7), again = pair_cloud(kInput, kind, 300, 7);
    CHECK_EQ(c.log_error, again.log_error);
    CHECK_EQ(c.q.size(), size_t(300 * 4));
    double least = 1, most = -1;
    const double radius = kernel_radius(kInput);
    for (size_t i = 0; i < 300; ++i) {
      KernelInput in = kInput;
      in.q.assign(c.q.begin() + long(4 * i), c.q.begin() + long(4 * i + 4));
      in.k.assign(c.k.begin() + long(4 * i), c.k.begin() + long(4 * i + 4));
      const KernelNumbers n = kernel_numbers(in);
      CHECK_EQ(c.log_error[i], n.log_error);
      CHECK_EQ(c.q_dot_k[i], n.q_dot_k);
      CHECK(std::abs(c.log_error[i]) <= c.bound[i]);  // xi < 1 for all of these
      if (kind == PairKind::random_blocks)
        CHECK(c.radius[i] <= radius * (1 + 1e-15));
      else
        CHECK_CLOSE(c.radius[i], radius, 1e-15);
      if (kind == PairKind::turned_key) CHECK_EQ(in.q, kInput.q);
      least = std::min(least, c.q_dot_k[i]), most = std::max(most, c.q_dot_k[i]);
    }
    CHECK(least < -0.3 && most > 0.3);
  }
  CHECK_EQ(pair_cloud(kInput, PairKind::turned_key, 8, 0).k[0], kInput.k[0]);
  CHECK(pair_cloud(kInput, PairKind::random_angles, 5, 1).q != pair_cloud(kInput, PairKind::random_angles, 5, 2).q);
}

SLOTSCOPE_CASE(too_much) {
  CHECK_ERROR(pair_cloud(kInput, PairKind::random_angles, 0, 1), "points", "1 to 100000");
  CHECK_ERROR(pair_cloud(kInput, PairKind::random_angles, 200000, 1), "200000");
  CHECK_ERROR(sweep_beta({kMaxCodes, {1, 0}, {0, 1}, 1, 1}, Vector(5000, 1.0)), "fewer points", "1048576 codes");
  CHECK_ERROR(sweep_beta(kInput, Vector{-1}), "multiple of beta", "-1");
  CHECK_ERROR(sweep_beta(kInput, Vector{1e300}), "q, number 0");
  CHECK_ERROR(sweep_beta(kInput, {}), "points");
}
