// Sets of keys in the limits; positions.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>

#include "core/analysis/product_code.h"
#include "core/analysis/product_code_internal.h"
#include "core/error.h"

namespace slotscope::analysis {
namespace {

// N for `keys` of as many numbers as `width`, which must all be usable.
size_t key_count(std::span<const double> keys, size_t width) {
  if (width > 0 && !keys.empty() && keys.size() % width == 0) {
    for (size_t at = 0; at < keys.size(); at += width) internal::check_vector(keys.subspan(at, width), 1, "key");
    return keys.size() / width;
  }
  throw Error({.item = "keys", .found = std::to_string(keys.size()) + " numbers",
               .expected = "a multiple of " + std::to_string(width) + ", the width of q"}, Error::Kind::usage);
}

std::vector<double> softmax(std::vector<double> logits) {
  const double log_sum = internal::log_sum_exp(logits);
  for (double& v : logits) v = std::exp(v - log_sum);
  return logits;
}

template <class LogValue>
std::vector<double> normalised_kernel(const KernelInput& input, std::span<const double> keys, LogValue log_value) {
  const size_t width = input.q.size(), count = key_count(keys, width);
  std::vector<double> logits(count);
  KernelInput pair = input;
  for (size_t s = 0; s < count; ++s) {
    pair.k.assign(keys.begin() + std::ptrdiff_t(s * width), keys.begin() + std::ptrdiff_t((s + 1) * width));
    logits[s] = log_value(pair);
  }
  return softmax(std::move(logits));
}

}  // namespace

std::vector<double> attention_weights(std::span<const double> q, std::span<const double> keys, double tau) {
  beta_star_of_tau(tau);  // checks it
  internal::check_vector(q, 1, "q");
  const size_t count = key_count(keys, q.size());
  std::vector<double> logits(count, 0);
  for (size_t s = 0; s < count; ++s) {
    for (size_t i = 0; i < q.size(); ++i) logits[s] += q[i] * keys[s * q.size() + i];
    logits[s] /= tau;
  }
  return softmax(std::move(logits));
}

std::vector<double> cumulative_weights(const KernelInput& input, std::span<const double> keys) {
  return normalised_kernel(input, keys, log_kappa);
}

std::vector<double> infinite_weights(const KernelInput& input, std::span<const double> keys) {
  return normalised_kernel(input, keys, log_kappa_infinite);
}

std::vector<double> hard_write_weights(const KernelInput& input, std::span<const double> keys) {
  return normalised_kernel(input, keys, [](const KernelInput& pair) { return kernel_numbers(pair).log_kappa_hard; });
}

std::vector<double> cumulative_standard_weights(const KernelInput& input, std::span<const double> keys) {
  const size_t width = input.q.size(), count = key_count(keys, width);
  internal::checked_slots(input.codes, input.factors(), kMaxBruteForce / int64_t(count), "standard readout over every address");
  const auto read = address_log_probabilities(input.codes, input.q, input.beta_read);
  std::vector<std::vector<double>> write;
  for (size_t s = 0; s < count; ++s)
    write.push_back(address_log_probabilities(input.codes, keys.subspan(s * width, width), input.beta_write));
  std::vector<double> out(count, 0), here(count);
  for (size_t a = 0; a < read.size(); ++a) {
    for (size_t s = 0; s < count; ++s) here[s] = write[s][a];
    const double log_mass = internal::log_sum_exp(here);
    for (size_t s = 0; s < count; ++s) out[s] += std::exp(read[a] + (here[s] - log_mass));
  }
  return out;
}

namespace {

int64_t modulo(int64_t a, int64_t b) {
  const int64_t rest = a % b;
  return rest < 0 ? rest + b : rest;
}

void check_direction(int direction) {
  if (direction == 1 || direction == -1) return;
  throw Error({.item = "direction of CAPE", .found = std::to_string(direction), .expected = "1 or -1"}, Error::Kind::usage);
}

void check_slot(int64_t slot, int64_t slots) {
  if (slots >= 1 && slot >= 0 && slot < slots) return;
  throw Error({.item = "slot", .found = std::to_string(slot) + " of " + std::to_string(slots), .expected = "0 to below the number of slots"},
              Error::Kind::usage);
}

// (a + b) mod m for a, b in [0, m), without overflow.
int64_t add_modulo(int64_t a, int64_t b, int64_t m) { return a >= m - b ? a - (m - b) : a + b; }

}  // namespace

int64_t cape_slot(int64_t slot, int64_t slots, int64_t t, int direction) {
  check_direction(direction);
  check_slot(slot, slots);
  const int64_t shift = modulo(t, slots);
  return add_modulo(slot, direction == 1 || shift == 0 ? shift : slots - shift, slots);
}

int64_t carry_free_slot(int64_t slot, int64_t codes, int64_t factors, int64_t t, int direction) {
  check_direction(direction);
  const int64_t slots = internal::checked_slots(codes, factors, std::numeric_limits<int64_t>::max(), "carry-free shift");
  check_slot(slot, slots);
  int64_t out = 0;
  for (int64_t u = 0, place = 1, left = modulo(t, slots); u < factors; ++u, left /= codes) {
    const int64_t digit = slot / place % codes, shift = left % codes;
    out += place * modulo(digit + direction * shift, codes);
    if (u + 1 < factors) place *= codes;
  }
  return out;
}

std::vector<double> rope_rotated(int64_t codes, std::span<const double> x, int64_t t, int direction) {
  check_direction(direction);
  internal::check_codes(codes);
  internal::check_vector(x, 1, "x");
  std::vector<double> out(x.size());
  for (size_t u = 0; u < x.size() / 2; ++u) {
    // Whole turns are taken out of t in integers while the period is one.
    const auto period = slot_count(codes, int64_t(u) + 1);
    const double turns = period ? double(modulo(t, *period)) / double(*period) : double(t) / std::pow(double(codes), double(u + 1));
    const double angle = direction * 2 * std::numbers::pi * turns, c = std::cos(angle), s = std::sin(angle);
    out[2 * u] = c * x[2 * u] - s * x[2 * u + 1];
    out[2 * u + 1] = s * x[2 * u] + c * x[2 * u + 1];
  }
  return out;
}

PositionComparison compare_positions(int64_t codes, std::span<const double> x, double beta, int64_t t, int direction) {
  PositionComparison out;
  out.unshifted = address_log_probabilities(codes, x, beta);
  out.rope = address_log_probabilities(codes, rope_rotated(codes, x, t, direction), beta);
  const int64_t slots = int64_t(out.unshifted.size()), factors = int64_t(x.size()) / 2;
  out.cape.resize(out.unshifted.size());
  out.carry_free.resize(out.unshifted.size());
  for (int64_t slot = 0; slot < slots; ++slot) {
    out.cape[size_t(cape_slot(slot, slots, t, direction))] = out.unshifted[size_t(slot)];
    out.carry_free[size_t(carry_free_slot(slot, codes, factors, t, direction))] = out.unshifted[size_t(slot)];
  }
  for (size_t i = 0; i < out.cape.size(); ++i) {
    out.cape_minus_rope = std::max(out.cape_minus_rope, std::abs(out.cape[i] - out.rope[i]));
    out.cape_minus_carry_free = std::max(out.cape_minus_carry_free, std::abs(out.cape[i] - out.carry_free[i]));
  }
  return out;
}

}  // namespace slotscope::analysis
