// How far one row of token-to-token weights is from another, and one output from another (spec: ramnet 4).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace slotscope::analysis {

// A row divided by its sum. Nothing where the sum is 0 (a row that reads nothing: missing mass, to be reported and passed over).
// Throws Error for a value that is negative or not finite.
std::optional<std::vector<double>> normalised(std::span<const double> row);

// Both want two distributions of one size: values >= 0 whose sum is 1 to 1e-3 (captured rows are float32); Error otherwise.
// Jensen-Shannon divergence in nats, (KL(p||m) + KL(q||m)) / 2 with m = (p + q) / 2: 0 .. ln 2. No digits are lost where p and q
// nearly agree.
double js_divergence(std::span<const double> p, std::span<const double> q);
// KL(teacher || student) in nats: the forward direction. Infinity where the student has 0 and the teacher has not.
double forward_kl(std::span<const double> teacher, std::span<const double> student);

struct RowMean {
  double mean = 0;      // NaN when no row counted
  int64_t rows = 0;     // that counted
  int64_t skipped = 0;  // NaN rows from `first` on: missing mass
};
// Uniform mean of per-row values over rows >= first; row 0 of a causal matrix is trivially equal, so first = 1 is the rule.
RowMean mean_over_rows(std::span<const double> values, int64_t first = 1);

// sum |o - t|^2 / sum |t|^2. NaN when both are all zero, infinity when only the target is. Error when sizes differ or are 0.
double nmse(std::span<const double> output, std::span<const double> target);

}  // namespace slotscope::analysis
