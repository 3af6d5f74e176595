// What one tensor holds, in numbers: counts, range, moments, exact quantiles and a histogram. Reads the tensor in slices, so
// that memory does not grow with it (at most about 20 MB), in a fixed order, so that equal bytes give equal numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/formats/checkpoint.h"
#include "core/progress.h"

namespace slotscope::formats {

// Where the edges of a histogram lie between its two ends: evenly spaced in x, or in sign(x) log(1 + |x| / unit), which is
// linear below `unit` and logarithmic above it on both sides of zero.
enum class BinScale { linear, symmetric_log };

struct StatisticsOptions {
  int bins = 64;                                    // of the histogram, 0 to kMaxBins; 0: no histogram
  BinScale scale = BinScale::linear;
  double unit = 0;                                  // of symmetric_log; 0: 1/1000 of the larger end's magnitude
  std::optional<std::pair<double, double>> range;   // ends of the histogram; empty: least and largest finite value
  std::vector<double> quantiles = {0.01, 0.25, 0.5, 0.75, 0.99};  // shares from 0 to 1; at most kMaxQuantiles
};
inline constexpr int kMaxBins = 65536;
inline constexpr size_t kMaxQuantiles = 32;

// counts[i] are the finite elements with edges[i] <= x < edges[i + 1]; the last bin includes its upper edge. Exact for every
// dtype but I64 and U64 beyond 2^53, whose elements are binned as the nearest double.
struct Histogram {
  std::vector<double> edges;     // bins + 1, not descending; empty: none was asked for, or no element is finite
  std::vector<uint64_t> counts;  // bins
  uint64_t below = 0, above = 0; // finite elements outside a given range
  BinScale scale = BinScale::linear;
  double unit = 0;               // of symmetric_log, as used
};

struct Quantile {
  double share = 0;  // 0.5: the median
  double value = 0;  // interpolated linearly between the two order statistics beside share * (finite - 1), as NumPy does
};

// NaN and infinities are counted and take no part in anything else. Where no element is finite the numbers are NaN and the
// texts and lists empty.
struct TensorStatistics {
  uint64_t count = 0;  // elements
  uint64_t finite = 0, nan = 0, positive_infinity = 0, negative_infinity = 0;
  uint64_t zeros = 0;  // -0 too; for BOOL the elements that are false
  double minimum = 0, maximum = 0, absolute_maximum = 0;
  std::string minimum_text, maximum_text;  // exact: whole numbers in full, reals in the shortest form that reads back
  double mean = 0;
  double standard_deviation = 0;           // of the elements as a whole population: divided by n, not n - 1
  double l2_norm = 0;
  std::vector<Quantile> quantiles;         // in the order asked for
  Histogram histogram;
};

// Statistics of `tensor`, or nothing when `progress` asked to stop. Stage "reading tensor", counted in elements times passes:
// one pass for dtypes of 8 and 16 bits, two for 32, four for 64 bits with quantiles (fewer without).
// Moments: per block of 4096 elements in two passes, blocks joined pairwise (Chan, Golub, LeVeque 1983); relative error of a
// few 1e-16 times log2(n). Dtypes of 8 and 16 bits are counted per code, so that their numbers come from exact counts; sums of
// whole numbers are exact. Quantiles by radix selection: order statistics are exact.
// Throws Error: dtypes that cannot be computed with, by name; options out of range (usage); a file that is damaged or shrank.
std::optional<TensorStatistics> tensor_statistics(const Checkpoint& checkpoint, const TensorInfo& tensor,
                                                  const StatisticsOptions& options = {}, Progress* progress = nullptr);

}  // namespace slotscope::formats
