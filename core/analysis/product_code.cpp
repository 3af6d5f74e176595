#include "core/analysis/product_code.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>

#include "core/analysis/product_code_internal.h"
#include "core/error.h"
#include "core/formats/config.h"

namespace slotscope::analysis {
namespace {

using internal::log_sum_exp;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One factor of a pair, beta included: x = beta_r q^u, y = beta_w k^u.
struct Block {
  double x0 = 0, x1 = 0, y0 = 0, y1 = 0;
};

Block block_of(const KernelInput& in, size_t u) {
  return {in.beta_read * in.q[2 * u], in.beta_read * in.q[2 * u + 1], in.beta_write * in.k[2 * u],
          in.beta_write * in.k[2 * u + 1]};
}

// Compensated: up to a million codes, 16 million addresses.
struct Sum {
  double value = 0, lost = 0;
  void add(double term) {
    term -= lost;
    const double next = value + term;
    lost = (next - value) - term;
    value = next;
  }
};

// log d sum_j p(j|x) p(j|y) = log Z(x + y) - log Z(x) - log Z(y), with the largest logit of each side taken out before anything is
// added: the three log Z are as large as beta, their difference is never above log d.
double log_overlap(const CircularCodebook& book, const Block& b, std::vector<double>& x, std::vector<double>& y) {
  const size_t d = book.cos.size();
  double most_x = -kInfinity, most_y = -kInfinity;
  for (size_t j = 0; j < d; ++j) {
    x[j] = book.cos[j] * b.x0 + book.sin[j] * b.x1;
    y[j] = book.cos[j] * b.y0 + book.sin[j] * b.y1;
    most_x = std::max(most_x, x[j]);
    most_y = std::max(most_y, y[j]);
  }
  Sum sum_x, sum_y, sum;
  double most = -kInfinity;
  for (size_t j = 0; j < d; ++j) {
    sum_x.add(std::exp(x[j] -= most_x));
    sum_y.add(std::exp(y[j] -= most_y));
    most = std::max(most, x[j] += y[j]);
  }
  for (size_t j = 0; j < d; ++j) sum.add(std::exp(x[j] - most));
  return most + std::log(sum.value) - std::log(sum_x.value) - std::log(sum_y.value) + std::log(double(d));
}

// log Z(x) - |x|^2 / 4 for |x| <= 1 and d >= 3, where sum_j c_j.x = 0 and sum_j (c_j.x)^2 = d |x|^2 / 2 (d >= 4: the cubes vanish
// too): what is left of the series of exp, so that no digit is lost to the terms that cancel.
double log_partition_excess(const CircularCodebook& book, double x, double y) {
  const size_t d = book.cos.size();
  const int first = d == 3 ? 3 : 4;
  Sum all;
  for (size_t j = 0; j < d; ++j) {
    const double v = book.cos[j] * x + book.sin[j] * y;
    double term = v * v * v / 6 * (first == 4 ? v / 4 : 1), sum = 0;
    for (int n = first; n < 40; ++n) {
      sum += term;
      term *= v / (n + 1);
      if (!(std::abs(term) > 1e-18 * std::abs(sum))) break;
    }
    all.add(sum);
  }
  const double rest = all.value / double(d);
  return internal::log1p_minus((x * x + y * y) / 4 + rest) + rest;
}

// Whether beta is small enough for the excess over the quadratic term.
bool small(const Block& b) {
  return std::hypot(b.x0, b.x1) <= 1 && std::hypot(b.y0, b.y1) <= 1 && std::hypot(b.x0 + b.y0, b.x1 + b.y1) <= 1;
}

// log kappa of one factor, its target, and the difference of the two with the digits it has.
struct Factor {
  double log_kappa = 0, target = 0, error = 0;
};
Factor factor_of(const CircularCodebook& book, const Block& b, std::vector<double>& x, std::vector<double>& y) {
  const double target = (b.x0 * b.y0 + b.x1 * b.y1) / 2;
  if (book.codes() >= 3 && small(b)) {
    const double error = log_partition_excess(book, b.x0 + b.y0, b.x1 + b.y1) - log_partition_excess(book, b.x0, b.x1) -
                         log_partition_excess(book, b.y0, b.y1);
    return {target + error, target, error};
  }
  const double log_kappa = log_overlap(book, b, x, y);
  return {log_kappa, target, log_kappa - target};
}

double factor_error_infinite(const Block& b) {
  const double x = std::hypot(b.x0, b.x1), y = std::hypot(b.y0, b.y1), both = std::hypot(b.x0 + b.y0, b.x1 + b.y1);
  if (small(b))
    return internal::log_bessel_excess(both) - internal::log_bessel_excess(x) - internal::log_bessel_excess(y);
  // |x + y| - |x| - |y| without cancellation, from the angle between them.
  const double half = std::atan2(b.x0 * b.y1 - b.x1 * b.y0, b.x0 * b.y0 + b.x1 * b.y1) / 2;
  const double stretch = -4 * (x / (both + x + y)) * y * std::sin(half) * std::sin(half);
  return internal::log_scaled_bessel_i0(both) - internal::log_scaled_bessel_i0(x) - internal::log_scaled_bessel_i0(y) +
         stretch - (b.x0 * b.y0 + b.x1 * b.y1) / 2;
}

// The nearest code of a block; several when it lies between codes (or is 0).
std::vector<int64_t> nearest_codes(const CircularCodebook& book, double x, double y) {
  std::vector<double> near(book.cos.size());
  double most = -kInfinity;
  for (size_t j = 0; j < near.size(); ++j) most = std::max(most, near[j] = book.cos[j] * x + book.sin[j] * y);
  const double slack = 4 * std::numeric_limits<double>::epsilon() * std::hypot(x, y);
  std::vector<int64_t> out;
  for (size_t j = 0; j < near.size(); ++j)
    if (near[j] >= most - slack) out.push_back(int64_t(j));
  return out;
}

// Mean over the nearest codes of k^u of d p(j | beta_r q^u), as a log: one code unless k^u lies between codes.
double log_hard_write(const CircularCodebook& book, double q0, double q1, const std::vector<int64_t>& codes) {
  const auto read = factor_log_softmax(book, q0, q1);
  std::vector<double> chosen;
  for (const int64_t j : codes) chosen.push_back(read[size_t(j)]);
  return log_sum_exp(chosen) - std::log(double(chosen.size())) + std::log(double(read.size()));
}

}  // namespace

void check(const KernelInput& in) {
  internal::check_codes(in.codes);
  for (const auto& [beta, name] : {std::pair{in.beta_read, "beta_read"}, std::pair{in.beta_write, "beta_write"}})
    if (!(beta >= 0 && beta <= std::numeric_limits<double>::max()))
      throw Error({.item = name, .found = formats::number_text(beta), .expected = "a finite number, 0 or more"}, Error::Kind::usage);
  internal::check_vector(in.q, 1, "q");
  internal::check_vector(in.k, 1, "k");
  internal::check_vector(in.q, in.beta_read, "q");
  internal::check_vector(in.k, in.beta_write, "k");
  if (in.q.size() != in.k.size())
    throw Error({.item = "k", .found = std::to_string(in.k.size()) + " numbers",
                 .expected = std::to_string(in.q.size()) + ", as many as q has"}, Error::Kind::usage);
}

double beta_star_of_tau(double tau) {
  if (!(tau > 0 && std::isfinite(tau)))
    throw Error({.item = "tau", .found = formats::number_text(tau), .expected = "a finite number above 0"}, Error::Kind::usage);
  return std::sqrt(2 / tau);
}

double beta_star(int64_t factors) {
  if (factors < 1)
    throw Error({.item = "factors (U)", .found = std::to_string(factors), .expected = "at least 1"}, Error::Kind::usage);
  return beta_star_of_tau(std::sqrt(2.0 * double(factors)));
}

double kernel_radius(const KernelInput& in) {
  check(in);
  double radius = 0;
  for (size_t u = 0; u < in.q.size() / 2; ++u) {
    radius = std::max(radius, in.beta_read * std::hypot(in.q[2 * u], in.q[2 * u + 1]));
    radius = std::max(radius, in.beta_write * std::hypot(in.k[2 * u], in.k[2 * u + 1]));
  }
  return radius;
}

KernelBounds kernel_bounds(int64_t codes, int64_t factors, double radius) {
  slot_count(codes, factors);  // checks both
  if (!(radius >= 0 && std::isfinite(radius)))
    throw Error({.item = "radius", .found = formats::number_text(radius), .expected = "a finite number, 0 or more"}, Error::Kind::usage);
  KernelBounds out;
  out.radius = radius;
  const double d = double(codes), u = double(factors);
  out.log_xi = radius == 0 ? -kInfinity : std::numbers::ln2 + radius + d * std::log(radius) - std::lgamma(d + 1);
  out.xi = std::exp(out.log_xi);
  const double fourth = radius * radius * radius * radius;
  out.continuous_lower = -u * fourth / 4;
  out.continuous_upper = u * fourth / 32;
  if (out.xi < 1) {
    out.quantisation = 3 * u * out.xi / (1 - out.xi);
    out.bound = u * (fourth / 4 + 3 * out.xi / (1 - out.xi));
  }
  return out;
}

double radius_of_xi(int64_t codes, double xi) {
  internal::check_codes(codes);
  if (!(xi > 0 && std::isfinite(xi)))
    throw Error({.item = "xi", .found = formats::number_text(xi), .expected = "a finite number above 0"}, Error::Kind::usage);
  double low = 0, high = 1;
  while (kernel_bounds(codes, 1, high).xi < xi) high *= 2;
  for (int step = 0; step < 200; ++step) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) break;
    (kernel_bounds(codes, 1, middle).xi < xi ? low : high) = middle;
  }
  return low;
}

KernelNumbers kernel_numbers(const KernelInput& in) {
  check(in);
  const auto book = circular_codebook(in.codes);
  KernelNumbers out;
  std::vector<double> x(book.cos.size()), y(book.cos.size());
  for (size_t u = 0; u < in.q.size() / 2; ++u) {
    const Block b = block_of(in, u);
    const Factor factor = factor_of(book, b, x, y);
    const double error_infinite = factor_error_infinite(b);
    out.log_kappa += factor.log_kappa;
    out.log_error += factor.error;
    out.log_error_infinite += error_infinite;
    out.log_kappa_infinite += error_infinite + factor.target;
    const auto nearest = nearest_codes(book, in.k[2 * u], in.k[2 * u + 1]);
    out.log_kappa_hard += log_hard_write(book, b.x0, b.x1, nearest);
    out.codes_of_k.push_back(nearest.front());
    out.codes_of_q.push_back(nearest_codes(book, in.q[2 * u], in.q[2 * u + 1]).front());
    out.tied = out.tied || nearest.size() > 1;
  }
  // In long double: where the factors' products cancel, log_target keeps its digits.
  long double dot = 0;
  for (size_t i = 0; i < in.q.size(); ++i) dot += static_cast<long double>(in.q[i]) * in.k[i];
  out.q_dot_k = double(dot);
  out.log_target = double(static_cast<long double>(in.beta_read) * in.beta_write / 2 * dot);
  out.kappa = std::exp(out.log_kappa);
  out.kappa_infinite = std::exp(out.log_kappa_infinite);
  out.kappa_hard = std::exp(out.log_kappa_hard);
  out.target = std::exp(out.log_target);
  out.log_ceiling = double(in.factors()) * std::log(double(in.codes));
  out.bounds = kernel_bounds(in.codes, in.factors(), kernel_radius(in));
  return out;
}

double log_kappa(const KernelInput& in) {
  check(in);
  const auto book = circular_codebook(in.codes);
  std::vector<double> x(book.cos.size()), y(book.cos.size());
  double sum = 0;
  for (size_t u = 0; u < in.q.size() / 2; ++u) sum += factor_of(book, block_of(in, u), x, y).log_kappa;
  return sum;
}

double log_kappa_infinite(const KernelInput& in) {
  check(in);
  double sum = 0;
  for (size_t u = 0; u < in.q.size() / 2; ++u) {
    const Block b = block_of(in, u);
    sum += factor_error_infinite(b) + (b.x0 * b.y0 + b.x1 * b.y1) / 2;
  }
  return sum;
}

std::vector<double> log_softmax(int64_t codes, std::span<const double> x, double beta) {
  internal::check_vector(x, 1, "x");
  internal::check_vector(x, beta, "x");
  const auto book = circular_codebook(codes);
  std::vector<double> out;
  out.reserve(x.size() / 2 * size_t(codes));
  for (size_t u = 0; u < x.size() / 2; ++u) {
    const auto factor = factor_log_softmax(book, beta * x[2 * u], beta * x[2 * u + 1]);
    out.insert(out.end(), factor.begin(), factor.end());
  }
  return out;
}

namespace {

// Calls with the log of prod_u p_u(digit u) for flat index 0, 1, ...; sums are kept from the most significant digit down, so that
// most steps add once.
template <class Visit>
void for_every_address(int64_t codes, int64_t slots, std::span<const double> log_p, Visit visit) {
  const size_t factors = log_p.size() / size_t(codes);
  std::vector<int64_t> digit(factors, 0);
  std::vector<double> from(factors + 1, 0);  // from[u] = sum over factors u .. U-1
  const auto renew = [&](size_t highest) {
    for (size_t u = highest + 1; u-- > 0;) from[u] = from[u + 1] + log_p[u * size_t(codes) + size_t(digit[u])];
  };
  renew(factors - 1);
  for (int64_t slot = 0;; ++slot) {
    visit(slot, from[0]);
    if (slot + 1 >= slots) return;
    size_t u = 0;
    while (++digit[u] == codes) digit[u++] = 0;
    renew(u);
  }
}

}  // namespace

std::vector<double> address_log_probabilities(int64_t codes, std::span<const double> x, double beta) {
  const auto log_p = log_softmax(codes, x, beta);
  const int64_t slots = internal::checked_slots(codes, int64_t(x.size()) / 2, kMaxBruteForce, "addresses");
  std::vector<double> out(static_cast<size_t>(slots));
  for_every_address(codes, slots, log_p, [&](int64_t slot, double value) { out[size_t(slot)] = value; });
  return out;
}

double log_kappa_brute_force(const KernelInput& in) {
  check(in);
  const int64_t slots = internal::checked_slots(in.codes, in.factors(), kMaxBruteForce, "brute force over every address");
  auto log_p = log_softmax(in.codes, in.q, in.beta_read);
  const auto write = log_softmax(in.codes, in.k, in.beta_write);
  for (size_t i = 0; i < log_p.size(); ++i) log_p[i] += write[i];
  double shift = -kInfinity;
  for_every_address(in.codes, slots, log_p, [&](int64_t, double value) { shift = std::max(shift, value); });
  Sum sum;
  for_every_address(in.codes, slots, log_p, [&](int64_t, double value) { sum.add(std::exp(value - shift)); });
  return shift + std::log(sum.value) + std::log(double(slots));
}

}  // namespace slotscope::analysis
