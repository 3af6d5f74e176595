#include "core/analysis/kernel_sweep.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>

#include "core/error.h"
#include "core/formats/random.h"

namespace slotscope::analysis {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

void check_points(const KernelInput& in, int64_t count, int64_t least) {
  if (count < least || count > kMaxSweepPoints)
    throw Error({.item = "points", .found = std::to_string(count),
                 .expected = std::to_string(least) + " to " + std::to_string(kMaxSweepPoints)}, Error::Kind::usage);
  const double work = double(count) * double(in.factors()) * double(in.codes);
  if (work > kMaxSweepWork)
    throw Error({.item = "points", .found = std::to_string(count) + " of " + std::to_string(in.factors()) + " factors with " +
                                            std::to_string(in.codes) + " codes",
                 .expected = "at most 2e9 codes in all", .advice = "Take fewer points."}, Error::Kind::usage);
}

// Uniform in [0, 1) with 53 bits.
double unit(formats::SplitMix64& random) { return double(random.next() >> 11) * 0x1p-53; }

double longest_block(const std::vector<double>& x) {
  double longest = 0;
  for (size_t u = 0; u < x.size() / 2; ++u) longest = std::max(longest, std::hypot(x[2 * u], x[2 * u + 1]));
  return longest;
}

void put(std::vector<double>& x, size_t u, double length, double angle) {
  x[2 * u] = length * std::cos(angle);
  x[2 * u + 1] = length * std::sin(angle);
}

// Blocks of `like` with new angles, and new lengths up to `longest` where that is above 0.
std::vector<double> drawn(const std::vector<double>& like, double longest, formats::SplitMix64& random) {
  std::vector<double> out(like.size());
  for (size_t u = 0; u < like.size() / 2; ++u) {
    const double angle = 2 * std::numbers::pi * unit(random);
    put(out, u, longest > 0 ? longest * std::sqrt(unit(random)) : std::hypot(like[2 * u], like[2 * u + 1]), angle);
  }
  return out;
}

}  // namespace

std::vector<double> spaced(double low, double high, int64_t count, bool logarithmic) {
  if (!(std::isfinite(low) && std::isfinite(high) && low < high && (!logarithmic || low > 0)))
    throw Error({.item = "range", .found = std::to_string(low) + " to " + std::to_string(high),
                 .expected = logarithmic ? "two finite numbers above 0, the smaller one first" : "two finite numbers, the smaller one first"},
                Error::Kind::usage);
  if (count < 2 || count > kMaxSweepPoints)
    throw Error({.item = "points", .found = std::to_string(count), .expected = "2 to " + std::to_string(kMaxSweepPoints)}, Error::Kind::usage);
  std::vector<double> out(static_cast<size_t>(count));
  const double a = logarithmic ? std::log(low) : low, b = logarithmic ? std::log(high) : high;
  for (int64_t i = 0; i < count; ++i) {
    const double at = a + (b - a) * (double(i) / double(count - 1));
    out[size_t(i)] = i == 0 ? low : i == count - 1 ? high : logarithmic ? std::exp(at) : at;
  }
  return out;
}

BetaSweep sweep_beta(const KernelInput& input, std::span<const double> multiples) {
  check(input);
  check_points(input, int64_t(multiples.size()), 1);
  BetaSweep out;
  out.multiple.assign(multiples.begin(), multiples.end());
  KernelInput in = input;
  for (const double m : multiples) {
    if (!(m >= 0 && std::isfinite(m)))
      throw Error({.item = "multiple of beta", .found = std::to_string(m), .expected = "a finite number, 0 or more"}, Error::Kind::usage);
    in.beta_read = input.beta_read * m;
    in.beta_write = input.beta_write * m;
    const KernelNumbers n = kernel_numbers(in);
    out.beta_read.push_back(in.beta_read);
    out.beta_write.push_back(in.beta_write);
    out.log_kappa.push_back(n.log_kappa);
    out.log_kappa_infinite.push_back(n.log_kappa_infinite);
    out.log_kappa_hard.push_back(n.log_kappa_hard);
    out.log_target.push_back(n.log_target);
    out.log_error.push_back(n.log_error);
    out.log_error_infinite.push_back(n.log_error_infinite);
    out.radius.push_back(n.bounds.radius);
    out.xi.push_back(n.bounds.xi);
    out.bound.push_back(n.bounds.bound.value_or(kNaN));
    out.quantisation.push_back(n.bounds.quantisation.value_or(kNaN));
  }
  return out;
}

PairCloud pair_cloud(const KernelInput& input, PairKind kind, int64_t count, uint64_t seed) {
  check(input);
  check_points(input, count, 1);
  PairCloud out;
  formats::SplitMix64 random(seed);
  const double longest_q = longest_block(input.q), longest_k = longest_block(input.k);
  KernelInput in = input;
  for (int64_t i = 0; i < count; ++i) {
    if (kind == PairKind::turned_key) {
      const double turn = 2 * std::numbers::pi * double(i) / double(count);
      for (size_t u = 0; u < in.k.size() / 2; ++u) {
        const double x = input.k[2 * u], y = input.k[2 * u + 1];
        in.k[2 * u] = std::cos(turn) * x - std::sin(turn) * y;
        in.k[2 * u + 1] = std::sin(turn) * x + std::cos(turn) * y;
      }
    } else {
      const bool lengths = kind == PairKind::random_blocks;
      in.q = drawn(input.q, lengths ? longest_q : 0, random);
      in.k = drawn(input.k, lengths ? longest_k : 0, random);
    }
    const KernelNumbers n = kernel_numbers(in);
    out.q.insert(out.q.end(), in.q.begin(), in.q.end());
    out.k.insert(out.k.end(), in.k.begin(), in.k.end());
    out.q_dot_k.push_back(n.q_dot_k);
    out.log_kappa.push_back(n.log_kappa);
    out.log_target.push_back(n.log_target);
    out.log_error.push_back(n.log_error);
    out.log_error_infinite.push_back(n.log_error_infinite);
    out.radius.push_back(n.bounds.radius);
    out.xi.push_back(n.bounds.xi);
    out.bound.push_back(n.bounds.bound.value_or(kNaN));
  }
  return out;
}

const char* pair_kind_name(PairKind kind) {
  switch (kind) {
    case PairKind::random_angles: return "random-angles";
    case PairKind::random_blocks: return "random-blocks";
    case PairKind::turned_key: return "turned-key";
  }
  return "";
}

}  // namespace slotscope::analysis
