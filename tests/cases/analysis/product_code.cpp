#include "core/analysis/product_code.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numbers>
#include <numeric>

#include "core/error.h"
#include "tests/cases/analysis/random_vectors.h"
#include "tests/cases/case.h"

using namespace slotscope::analysis;
using nlohmann::json;
using slotscope::Error;
using slotscope::testing::Draw;
using Vector = std::vector<double>;

namespace {

json reference(slotscope::testing::Context& t) {
  std::ifstream file(t.data("golden/ramnet/reference.json"));
  return json::parse(file);
}

// Relative to the expected number.
#define CHECK_NEAR(a, b, relative) CHECK_CLOSE((a), (b), (relative) * std::abs(b))

KernelInput input_of(const json& c) {
  return {c["d_p"].get<int64_t>(), c["q"].get<Vector>(), c["k"].get<Vector>(), c["beta_r"].get<double>(), c["beta_w"].get<double>()};
}

// kappa_A straight from its definition in long double: no logs, nothing taken out.
double naive_kappa(const KernelInput& in) {
  const auto sum = [&](int64_t d, double x, double y) {
    long double z = 0;
    for (int64_t j = 0; j < d; ++j) {
      const long double angle = 2 * std::numbers::pi_v<long double> * (long double)j / (long double)d;
      z += std::exp(std::cos(angle) * x + std::sin(angle) * y);
    }
    return z / (long double)d;
  };
  long double kappa = 1;
  for (size_t u = 0; u < in.q.size() / 2; ++u) {
    const double x = in.beta_read * in.q[2 * u], y = in.beta_read * in.q[2 * u + 1];
    const double v = in.beta_write * in.k[2 * u], w = in.beta_write * in.k[2 * u + 1];
    kappa *= sum(in.codes, x + v, y + w) / (sum(in.codes, x, y) * sum(in.codes, v, w));
  }
  return double(kappa);
}

}  // namespace

SLOTSCOPE_CASE(theory_of_reference) {
  const json all = reference(t)["theory"];
  CHECK_EQ(all.size(), size_t(35));
  for (const json& c : all) {
    const KernelInput in = input_of(c);
    const KernelNumbers n = kernel_numbers(in);
    CHECK_NEAR(n.kappa, c["kappa_closed"].get<double>(), 1e-12);
    CHECK_NEAR(std::exp(log_kappa_brute_force(in)), c["kappa_brute"].get<double>(), 1e-12);
    CHECK_NEAR(n.kappa_infinite, c["kappa_infinite"].get<double>(), 1e-12);
    CHECK_NEAR(n.target, c["exp_target"].get<double>(), 1e-12);
    // Differences of logs near 1: as many digits as float64 left in the reference.
    CHECK_CLOSE(n.log_kappa, c["log_kappa"].get<double>(), 1e-14);
    CHECK_CLOSE(n.log_target, c["log_target"].get<double>(), 1e-14);
    CHECK_CLOSE(n.log_error, c["log_error"].get<double>(), 1e-14);
    CHECK_CLOSE(n.log_error_infinite, c["log_error_infinite"].get<double>(), 1e-14);
    CHECK_CLOSE(n.q_dot_k, c["q_dot_k"].get<double>(), 1e-15);
    CHECK_NEAR(n.bounds.radius, c["M"].get<double>(), 1e-12);
    CHECK_NEAR(n.bounds.xi, c["xi"].get<double>(), 1e-12);
    CHECK_EQ(n.bounds.bound.has_value(), !c["bound_theorem2"].is_null());
    if (n.bounds.bound) CHECK_NEAR(*n.bounds.bound, c["bound_theorem2"].get<double>(), 1e-12);
    CHECK_NEAR(n.bounds.continuous_lower, c["continuous_lower"].get<double>(), 1e-12);
    CHECK_NEAR(n.bounds.continuous_upper, c["continuous_upper"].get<double>(), 1e-12);
    CHECK_NEAR(beta_star(in.factors()), c["beta_star"].get<double>(), 1e-15);
    CHECK_NEAR(beta_star_of_tau(c["tau"].get<double>()), c["beta_star"].get<double>(), 1e-15);
  }
  CHECK_CLOSE(beta_star(1), 1.189207, 5e-7);
  CHECK_EQ(beta_star(2), 1.0);
  CHECK_CLOSE(beta_star(5), 0.795271, 5e-7);
}

SLOTSCOPE_CASE(partition_function_of_reference) {
  const json all = reference(t)["partition_function"];
  CHECK_EQ(all.size(), size_t(8));
  for (const json& c : all) {
    const int64_t d = c["d_p"];
    const double rho = c["rho"], arg = c["arg"], scale = std::exp(rho), z = c["Z_direct"];
    CHECK_NEAR(std::exp(log_partition(d, rho * std::cos(arg), rho * std::sin(arg))), z, 1e-12);
    CHECK_NEAR(std::exp(log_bessel_i0(rho)), c["I0"].get<double>(), 1e-12);
    const PartitionSeries s = partition_series(d, rho, arg);
    CHECK_NEAR(s.scaled_z * scale, z, 1e-12);
    CHECK_NEAR(s.scaled_i0 * scale, c["I0"].get<double>(), 1e-12);
    CHECK_NEAR(s.scaled_first * scale, c["bessel_l1"].get<double>(), 1e-12);
    CHECK_NEAR(s.scaled_correction * scale, c["correction"].get<double>(), 1e-12);
    CHECK_CLOSE(s.relative_deviation, c["relative_deviation"].get<double>(), 4e-16);  // the reference's is Z / I0 - 1
    CHECK_NEAR(std::exp(s.log_bound), c["relative_deviation_bound"].get<double>(), 1e-12);
  }
}

SLOTSCOPE_CASE(hard_write_of_reference) {
  const json all = reference(t)["hard_write_limit"];
  CHECK_EQ(all.size(), size_t(2));
  for (const json& c : all) {
    KernelInput in{c["d_p"].get<int64_t>(), c["q"].get<Vector>(), c["k"].get<Vector>(), c["beta_r"].get<double>(), 1};
    for (const json& step : c["steps"]) {
      in.beta_write = step["beta_w"];
      const KernelNumbers n = kernel_numbers(in);
      CHECK_NEAR(n.kappa, step["kappa"].get<double>(), 1e-12);
      CHECK_NEAR(n.kappa_hard, c["kappa_limit"].get<double>(), 1e-12);
      CHECK_EQ(n.codes_of_k, c["codes"].get<std::vector<int64_t>>());
      CHECK(!n.tied);
    }
    in.beta_write = 1e9;  // and beyond every exp: the closed form reaches its limit
    CHECK_NEAR(std::exp(log_kappa(in)), c["kappa_limit"].get<double>(), 1e-12);
    CHECK_NEAR(std::exp(log_kappa_brute_force(in)), c["kappa_limit"].get<double>(), 1e-12);
  }
}

SLOTSCOPE_CASE(cape_of_reference) {
  const json all = reference(t)["cape"];
  for (const json& c : all) {
    const Vector x = c["x"];
    const auto p = compare_positions(c["d_p"], x, c["beta"], c["t"]);
    const Vector unshifted = c["log_probs_unshifted"], cape = c["log_probs_cape"], rope = c["log_probs_rope"];
    CHECK_EQ(p.unshifted.size(), unshifted.size());
    for (size_t i = 0; i < unshifted.size(); ++i) {
      CHECK_NEAR(p.unshifted[i], unshifted[i], 1e-12);
      CHECK_NEAR(p.cape[i], cape[i], 1e-12);
      CHECK_NEAR(p.rope[i], rope[i], 1e-12);
    }
    CHECK_CLOSE(p.cape_minus_rope, c["max_abs_cape_minus_rope"].get<double>(), 1e-12);
    CHECK_CLOSE(p.cape_minus_carry_free, c["max_abs_cape_minus_carry_free"].get<double>(), 1e-12);
  }
  // spec 1.4: d 4, U 2, slot 3, t 1.
  CHECK_EQ(cape_slot(3, 16, 1, 1), int64_t(4));
  CHECK_EQ(carry_free_slot(3, 4, 2, 1, 1), int64_t(0));
}

SLOTSCOPE_CASE(shifts_are_permutations) {
  for (const auto& [d, factors] : {std::pair<int64_t, int64_t>{2, 1}, {3, 2}, {4, 3}, {16, 2}}) {
    const int64_t m = *slot_count(d, factors);
    for (const int64_t t_pos : {int64_t(0), int64_t(1), m - 1, m, m + 5, std::numeric_limits<int64_t>::max()}) {
      for (const int direction : {1, -1}) {
        std::vector<int> hit(size_t(m), 0), hit_free(size_t(m), 0);
        for (int64_t i = 0; i < m; ++i) {
          const int64_t to = cape_slot(i, m, t_pos, direction);
          CHECK_EQ(cape_slot(to, m, t_pos, -direction), i);
          ++hit[size_t(to)];
          // Digit u moves by floor(t / d^u) and the carry of the digits below it.
          const int64_t free = carry_free_slot(i, d, factors, t_pos, direction);
          ++hit_free[size_t(free)];
          if (direction == 1)
            for (int64_t u = 0, place = 1; u < factors; ++u, place *= d) {
              const int64_t carry = i % place + t_pos % place >= place ? 1 : 0;
              CHECK_EQ(to / place % d, (free / place % d + carry) % d);
            }
        }
        for (int64_t i = 0; i < m; ++i) CHECK(hit[size_t(i)] == 1 && hit_free[size_t(i)] == 1);
      }
    }
  }
  // One factor: CAPE, RoPE and the shift without carry are one.
  Draw draw(5);
  for (int64_t d = 2; d <= 16; ++d) {
    const auto p = compare_positions(d, draw.vector(1, 2), 1.5, int64_t(draw.below(100)), draw.below(2) ? 1 : -1);
    CHECK(p.cape_minus_rope <= 1e-13 && p.cape_minus_carry_free == 0);
  }
}

SLOTSCOPE_CASE(codebook) {
  for (const int64_t d : {2, 3, 4, 5, 7, 8, 12, 16, 64, 1000}) {
    const auto book = circular_codebook(d);
    double worst = 0;
    for (int64_t j = 0; j < d; ++j) {
      const long double angle = 2 * std::numbers::pi_v<long double> * (long double)j / (long double)d;
      worst = std::max({worst, std::abs(book.cos[size_t(j)] - double(std::cos(angle))),
                        std::abs(book.sin[size_t(j)] - double(std::sin(angle)))});
      if (j > 0) {
        CHECK_EQ(book.cos[size_t(j)], book.cos[size_t(d - j)]);  // mirror images to the last bit
        CHECK_EQ(book.sin[size_t(j)], -book.sin[size_t(d - j)]);
      }
    }
    CHECK(worst <= 1.2e-16);
  }
  const auto four = circular_codebook(4);
  CHECK_EQ(four.cos, (Vector{1, 0, -1, 0}));
  CHECK_EQ(four.sin, (Vector{0, 1, 0, -1}));
}

SLOTSCOPE_CASE(bessel_functions) {
  // Against the integral (1/pi) int_0^pi exp(rho cos a) cos(n a) da by the trapezoid rule, exact to rounding for periodic functions.
  for (const double rho : {0.0, 1e-9, 0.3, 1.0, 1.0000001, 5.0, 29.9, 30.1, 80.0, 700.0, 5000.0, 1e5}) {
    const auto all = scaled_bessel_i(rho, 40);
    const int steps = rho < 1000 ? 1024 : 16384;
    for (const int n : {0, 1, 2, 5, 17}) {
      long double sum = 0;
      for (int i = 0; i < steps; ++i) {
        const long double a = 2 * std::numbers::pi_v<long double> * i / steps;
        sum += std::exp(rho * (std::cos(a) - 1)) * std::cos(n * a);
      }
      CHECK_CLOSE(all[size_t(n)], double(sum / steps), 3e-15 * all[0]);
    }
    CHECK_CLOSE(log_bessel_i0(rho) - rho, std::log(all[0]), 1e-15 * (2 + rho));
    CHECK_CLOSE(std::accumulate(all.begin(), all.end(), 0.0) * 2 - all[0], 1.0, 1e-13);
  }
  CHECK_NEAR(scaled_bessel_i(2.0, 3)[3] * std::exp(2.0), std::cyl_bessel_i(3.0, 2.0), 1e-13);
  CHECK_NEAR(scaled_bessel_i(0.25, 6)[6] * std::exp(0.25), std::cyl_bessel_i(6.0, 0.25), 1e-13);
  CHECK_NEAR(log_bessel_i0(1e-8), 2.5e-17, 1e-12);
  CHECK_NEAR(log_bessel_i0(1e140), 1e140, 1e-15);
}

SLOTSCOPE_CASE(partition_series_is_the_sum) {
  Draw draw(11);
  for (int i = 0; i < 2000; ++i) {
    const int64_t d = 2 + int64_t(draw.below(23));
    const double rho = std::pow(10, draw.between(-3, 1.3)), arg = draw.between(-4, 4);
    const double direct = log_partition(d, rho * std::cos(arg), rho * std::sin(arg));
    const auto s = partition_series(d, rho, arg);
    CHECK_CLOSE(s.scaled_z, std::exp(direct - rho), 1e-14 * s.scaled_i0);  // Z <= d I_0, but may be far below it
    CHECK(std::abs(s.relative_deviation) <= std::exp(s.log_bound) * (1 + 1e-12));
    const double quadratic = rho * rho / 4 - log_bessel_i0(rho);
    CHECK(quadratic >= -1e-15 * rho * rho && quadratic <= std::pow(rho, 4) / 64 * (1 + 1e-9) + 1e-15);
  }
}

SLOTSCOPE_CASE(closed_form_is_brute_force) {
  Draw draw(1);
  double worst = 0, worst_naive = 0;
  for (int i = 0; i < 1500; ++i) {
    KernelInput in = draw.kernel(16, 5, std::pow(10, draw.between(-4, 1.5)));
    while (*slot_count(in.codes, in.factors()) > 20000) in = draw.kernel(16, 5, std::pow(10, draw.between(-4, 1.5)));
    const double closed = log_kappa(in), brute = log_kappa_brute_force(in), naive = std::log(naive_kappa(in));
    const double size = 1 + std::abs(closed);
    worst = std::max(worst, std::abs(closed - brute) / size);
    worst_naive = std::max(worst_naive, std::abs(closed - naive) / size);
    CHECK(std::abs(closed - brute) <= 1e-12 * size);
    CHECK(std::abs(closed - naive) <= 1e-12 * size);
    CHECK(closed <= kernel_numbers(in).log_ceiling * (1 + 1e-14) + 1e-14);  // kappa_A <= M
  }
  t.note("closed form against brute force: " + slotscope::testing::to_text(worst) + ", against the definition in long double: " +
         slotscope::testing::to_text(worst_naive));
}

SLOTSCOPE_CASE(no_overflow_for_any_beta) {
  Draw draw(2);
  for (int i = 0; i < 300; ++i) {
    KernelInput in = draw.kernel(16, 3, 1);
    for (const double beta : {1e3, 1e9, 1e100, 1e140}) {
      in.beta_read = in.beta_write = beta;
      const KernelNumbers n = kernel_numbers(in);
      CHECK(n.kappa >= 0 && n.log_kappa <= n.log_ceiling * (1 + 1e-14) && !std::isnan(n.log_error) && !std::isnan(n.bounds.xi));
      CHECK(!std::isnan(n.log_kappa_infinite) && !std::isnan(n.log_error_infinite) && !n.bounds.bound);
      CHECK(std::isfinite(n.bounds.radius));
      CHECK_CLOSE(log_kappa_brute_force(in), n.log_kappa, 1e-9 * (1 + std::abs(n.log_kappa)));
      if (beta >= 1e9 && !n.tied) {  // both hard: the same codes or nothing in common
        const bool same = n.codes_of_k == n.codes_of_q;
        CHECK(same ? std::abs(n.log_kappa - n.log_ceiling) <= 1e-12 : n.kappa == 0);
      }
    }
  }
}

SLOTSCOPE_CASE(beta_zero_is_one) {
  for (const auto& [read, write] : {std::pair{0.0, 0.0}, {0.0, 3.0}, {2.0, 0.0}}) {
    const KernelInput in{4, {.6, -.2, .1, .7}, {.5, .3, -.4, .6}, read, write};
    const KernelNumbers n = kernel_numbers(in);
    CHECK_EQ(n.target, 1.0);
    CHECK_CLOSE(n.kappa, 1.0, 1e-15);
    CHECK_CLOSE(n.kappa_infinite, 1.0, 1e-15);
    CHECK_CLOSE(std::exp(log_kappa_brute_force(in)), 1.0, 1e-15);
    CHECK_CLOSE(n.log_error, 0, 1e-15);
  }
  const KernelNumbers none = kernel_numbers({4, {0, 0}, {0, 0}, 1, 1});
  CHECK_EQ(none.kappa, 1.0);
  CHECK_EQ(none.bounds.xi, 0.0);
  CHECK_EQ(*none.bounds.bound, 0.0);
  CHECK(none.tied);  // no code is nearer than another
  CHECK_EQ(none.log_kappa_hard, 0.0);
}

// The log error keeps its digits where kappa and target agree to more than float64 shows in either.
SLOTSCOPE_CASE(log_error_of_small_beta) {
  const Vector q{.6, -.2, .1, .7}, k{.5, .3, -.4, .6};
  for (const int64_t d : {4, 5, 8, 16}) {
    const KernelInput one{d, q, k, 0.05, 0.08}, tenth{d, q, k, 0.005, 0.008};
    const double a = kernel_numbers(one).log_error, b = kernel_numbers(tenth).log_error;
    CHECK_CLOSE(a, std::log(naive_kappa(one)) - kernel_numbers(one).log_target, 1e-15);
    CHECK_CLOSE(a / b, 1e4, d == 5 ? 30.0 : 60.0);  // fourth order
  }
  const double a = kernel_numbers({3, q, k, 0.05, 0.08}).log_error, b = kernel_numbers({3, q, k, 0.005, 0.008}).log_error;
  CHECK_CLOSE(a / b, 1e3, 40);  // d = 3: third order
  // One formula on both sides of the radius where the series takes over.
  Draw draw(3);
  for (int i = 0; i < 400; ++i) {
    KernelInput in = draw.kernel(16, 1, 1);
    const double longest = std::hypot(in.beta_read * in.q[0] + in.beta_write * in.k[0], in.beta_read * in.q[1] + in.beta_write * in.k[1]);
    const double scale = 1 / std::max(longest, kernel_radius(in));
    for (const double around : {1 - 1e-9, 1 + 1e-9}) {
      KernelInput at = in;
      at.beta_read *= scale * around, at.beta_write *= scale * around;
      const KernelNumbers n = kernel_numbers(at);
      CHECK_CLOSE(n.log_error, std::log(naive_kappa(at)) - n.log_target, 2e-15);
      CHECK_CLOSE(n.log_error + n.log_target, n.log_kappa, 2e-15);
      CHECK_CLOSE(n.log_error_infinite + n.log_target, n.log_kappa_infinite, 2e-15);
    }
  }
}

// d = 2 sees the first coordinate alone; d = 3 has the right quadratic term and a cubic error (spec 2).
SLOTSCOPE_CASE(two_and_three_codes) {
  Draw draw(4);
  for (int i = 0; i < 200; ++i) {
    KernelInput in = draw.kernel(2, 3, 1);
    in.codes = 2;
    KernelInput other = in;
    double quadratic = 0;
    for (size_t u = 0; u < in.q.size() / 2; ++u) {
      other.q[2 * u + 1] = draw.between(-3, 3), other.k[2 * u + 1] = draw.between(-3, 3);
      quadratic += in.q[2 * u] * in.k[2 * u];
      const double x = in.beta_read * in.q[2 * u], y = in.beta_write * in.k[2 * u];
      if (in.factors() == 1) CHECK_CLOSE(log_kappa(in), std::log(std::cosh(x + y) / std::cosh(x) / std::cosh(y)), 1e-14);
    }
    CHECK_CLOSE(log_kappa(in), log_kappa(other), 1e-14);
    in.beta_read = in.beta_write = 1e-4;
    CHECK_CLOSE(log_kappa(in) / 1e-8, quadratic, 1e-6);
    in.codes = 3;
    const KernelNumbers three = kernel_numbers(in);
    const double m = three.bounds.radius;
    CHECK(std::abs(three.log_error) <= double(in.factors()) * 0.5 * m * m * m);  // cubic: no quadratic part is left
  }
}

SLOTSCOPE_CASE(hard_write_is_softmax_over_codes) {
  Draw draw(6);
  int tied = 0;
  for (int i = 0; i < 200; ++i) {
    KernelInput in = draw.kernel(12, 3, 1);
    in.beta_read = draw.between(0, 3);
    const size_t width = in.q.size(), count = 7;
    const auto book = circular_codebook(in.codes);
    Vector keys;
    for (size_t s = 0; s < count; ++s) {
      const Vector key = draw.vector(in.factors(), 1);
      keys.insert(keys.end(), key.begin(), key.end());
    }
    Vector logits(count, 0);  // beta_r q.k_hat, by looking for the nearest code
    double sum = 0;
    for (size_t s = 0; s < count; ++s) {
      for (size_t u = 0; u < width / 2; ++u) {
        size_t best = 0;
        const auto near = [&](size_t j) {
          return std::hypot(book.cos[j] - keys[s * width + 2 * u], book.sin[j] - keys[s * width + 2 * u + 1]);
        };
        for (size_t j = 1; j < book.cos.size(); ++j)
          if (near(j) < near(best)) best = j;
        logits[s] += in.beta_read * (book.cos[best] * in.q[2 * u] + book.sin[best] * in.q[2 * u + 1]);
      }
      sum += std::exp(logits[s]);
    }
    const Vector hard = hard_write_weights(in, keys);
    for (size_t s = 0; s < count; ++s) CHECK_CLOSE(hard[s], std::exp(logits[s]) / sum, 1e-13);
    // And what kappa's weights become.
    in.beta_write = 1e7;
    const Vector soft = cumulative_weights(in, keys);
    bool near_tie = false;
    for (size_t s = 0; s < count; ++s) {
      KernelInput pair = in;
      pair.k.assign(keys.begin() + std::ptrdiff_t(s * width), keys.begin() + std::ptrdiff_t((s + 1) * width));
      KernelInput ten = pair;
      ten.beta_write = 1e8;
      near_tie = near_tie || std::abs(log_kappa(pair) - log_kappa(ten)) > 1e-12;
    }
    tied += near_tie;
    for (size_t s = 0; s < count && !near_tie; ++s) CHECK_CLOSE(soft[s], hard[s], 1e-12);
  }
  CHECK(tied <= 5);
  // A key right between two codes: half of each, and that is the limit.
  const KernelInput between{4, {.7, .2}, {.4, .4}, 1.5, 1e6};
  const KernelNumbers n = kernel_numbers(between);
  CHECK(n.tied);
  CHECK_EQ(n.codes_of_k, (std::vector<int64_t>{0}));
  CHECK_CLOSE(n.log_kappa_hard, n.log_kappa, 1e-13);
}

SLOTSCOPE_CASE(weights_over_keys) {
  Draw draw(7);
  for (int i = 0; i < 60; ++i) {
    KernelInput in = draw.kernel(5, 3, 1.5);
    in.beta_read = in.beta_write = beta_star_of_tau(1.7);
    const size_t count = 2 + draw.below(6);
    Vector keys;
    for (size_t s = 0; s < count; ++s) {
      const Vector key = draw.vector(in.factors(), 1);
      keys.insert(keys.end(), key.begin(), key.end());
    }
    const auto sum = [](const Vector& w) { return std::accumulate(w.begin(), w.end(), 0.0); };
    for (const Vector& w : {attention_weights(in.q, keys, 1.7), cumulative_weights(in, keys), infinite_weights(in, keys),
                            hard_write_weights(in, keys), cumulative_standard_weights(in, keys)}) {
      CHECK_EQ(w.size(), count);
      CHECK_CLOSE(sum(w), 1.0, 1e-12);
    }
    // The memory itself, written key by key: mass and mean per slot, both readouts (eps = 0, rho = 1).
    const auto read = address_log_probabilities(in.codes, in.q, in.beta_read);
    Vector standard(count, 0), aware(count, 0), mass(read.size(), 0);
    std::vector<Vector> write(count);
    for (size_t s = 0; s < count; ++s) {
      write[s] = address_log_probabilities(in.codes, std::span(keys).subspan(s * in.q.size(), in.q.size()), in.beta_write);
      for (size_t a = 0; a < read.size(); ++a) mass[a] += std::exp(write[s][a]);
    }
    double read_mass = 0;
    for (size_t a = 0; a < read.size(); ++a) {
      read_mass += std::exp(read[a]) * mass[a];
      for (size_t s = 0; s < count; ++s) {
        standard[s] += std::exp(read[a] + write[s][a]) / mass[a];
        aware[s] += std::exp(read[a] + write[s][a]);
      }
    }
    const Vector by_kappa = cumulative_weights(in, keys), by_standard = cumulative_standard_weights(in, keys);
    for (size_t s = 0; s < count; ++s) {
      CHECK_CLOSE(by_kappa[s], aware[s] / read_mass, 1e-12);
      CHECK_CLOSE(by_standard[s], standard[s], 1e-12);
    }
  }
}

SLOTSCOPE_CASE(bad_input) {
  const Vector two{1, 0}, four{1, 0, 0, 1};
  CHECK_ERROR(kernel_numbers({1, two, two, 1, 1}), "codes per factor", "1", "2 to");
  CHECK_ERROR(kernel_numbers({0, two, two, 1, 1}), "codes per factor");
  CHECK_ERROR(kernel_numbers({int64_t{1} << 40, two, two, 1, 1}), "codes per factor");
  CHECK_ERROR(kernel_numbers({4, {}, {}, 1, 1}), "q", "0 numbers");
  CHECK_ERROR(kernel_numbers({4, {1, 2, 3}, two, 1, 1}), "q", "3 numbers");
  CHECK_ERROR(kernel_numbers({4, two, four, 1, 1}), "k", "4 numbers", "2, as many as q");
  CHECK_ERROR(kernel_numbers({4, {NAN, 0}, two, 1, 1}), "q, number 0", "NaN");
  CHECK_ERROR(kernel_numbers({4, two, {0, INFINITY}, 1, 1}), "k, number 1", "Infinity");
  CHECK_ERROR(kernel_numbers({4, two, two, -1, 1}), "beta_read", "-1");
  CHECK_ERROR(kernel_numbers({4, two, two, 1, NAN}), "beta_write");
  CHECK_ERROR(kernel_numbers({4, two, two, INFINITY, 1}), "beta_read");
  CHECK_ERROR(kernel_numbers({4, two, two, 1e200, 1}), "q, number 0", "1e150");
  CHECK_ERROR(log_kappa_brute_force({16, Vector(14, 0.1), Vector(14, 0.1), 1, 1}), "16^7 = 268435456", "at most 16777216", "closed form");
  CHECK_ERROR(log_kappa_brute_force({1000, Vector(80, 0.1), Vector(80, 0.1), 1, 1}), "1000^40 addresses");
  CHECK_CLOSE(log_kappa({1000, Vector(80, 0.1), Vector(80, 0.1), 1, 1}), 0.39, 0.02);  // the closed form does not mind
  CHECK(!slot_count(1000, 40));
  CHECK_EQ(*slot_count(2, 62), int64_t{1} << 62);
  CHECK(!slot_count(2, 63));
  CHECK_ERROR(slot_count(4, 0), "factors", "at least 1");
  CHECK_ERROR(beta_star(0), "factors");
  CHECK_ERROR(beta_star_of_tau(0), "tau");
  CHECK_ERROR(beta_star_of_tau(NAN), "tau");
  CHECK_ERROR(log_bessel_i0(-1), "radius");
  CHECK_ERROR(scaled_bessel_i(1e7, 2), "1e6");
  CHECK_ERROR(partition_series(4, 1, NAN), "angle");
  CHECK_ERROR(attention_weights(two, Vector{1, 2, 3}, 1), "keys", "multiple of 2");
  CHECK_ERROR(attention_weights(two, Vector{1, NAN}, 1), "key, number 1", "NaN");
  CHECK_ERROR(cumulative_weights({4, two, two, 1, 1}, {}), "keys", "0 numbers");
  CHECK_ERROR(cape_slot(16, 16, 1, 1), "slot", "16 of 16");
  CHECK_ERROR(cape_slot(0, 16, 1, 2), "direction");
  CHECK_ERROR(carry_free_slot(-1, 4, 2, 1, 1), "slot");
}
