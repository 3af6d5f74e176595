// The address kernel over a range of beta, and over many pairs of one configuration: what the theory lab and
// `slotscope-cli ramnet theory --out` draw and store.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/analysis/product_code.h"

namespace slotscope::analysis {

inline constexpr int64_t kMaxSweepPoints = 100'000;
inline constexpr double kMaxSweepWork = 2e9;  // points x factors x codes

// One entry per multiple of the input's two betas; bound and quantisation are NaN where xi >= 1.
struct BetaSweep {
  std::vector<double> multiple, beta_read, beta_write;
  std::vector<double> log_kappa, log_kappa_infinite, log_kappa_hard, log_target, log_error, log_error_infinite;
  std::vector<double> radius, xi, bound, quantisation;
};
// Throws Error as kernel_numbers does, for a multiple that is negative or not finite, and for more points than can be computed.
BetaSweep sweep_beta(const KernelInput& input, std::span<const double> multiples);
// `count` >= 2 numbers from `low` to `high`, both included; logarithmic: equal ratios (low > 0).
std::vector<double> spaced(double low, double high, int64_t count, bool logarithmic);

enum class PairKind {
  random_angles,  // every block of q and k keeps its length, all angles are drawn: M is the same for all pairs
  random_blocks,  // lengths are drawn too, uniform over the disc of the longest block of each side
  turned_key,     // q stays, all blocks of k turn together once around from where they are
};
struct PairCloud {
  std::vector<double> q, k;  // [N*2U]
  std::vector<double> q_dot_k, log_kappa, log_target, log_error, log_error_infinite, radius, xi, bound;  // [N]; bound NaN where xi >= 1
};
// N pairs around `input`, the same for the same seed everywhere (SplitMix64). Throws Error as above.
PairCloud pair_cloud(const KernelInput& input, PairKind kind, int64_t count, uint64_t seed);
const char* pair_kind_name(PairKind kind);  // "random-angles", "random-blocks", "turned-key"

}  // namespace slotscope::analysis
