// Colour limits and histogram of a reduced grid (design: section 6 "Colour range editor"; bad-inputs B45).
#include <algorithm>
#include <cmath>

#include "core/analysis/grid.h"

namespace slotscope::analysis {

ColourRange colour_range(const SlotGrid& grid, double percentile) {
  std::vector<float> finite;
  finite.reserve(grid.value.size());
  for (size_t i = 0; i < grid.value.size(); ++i)
    if (grid.state[i] == Cell::finite) finite.push_back(grid.value[i]);
  if (finite.empty()) return {};
  const auto [lowest, highest] = std::minmax_element(finite.begin(), finite.end());
  ColourRange range{double(*lowest), double(*highest), true};
  if (range.low == range.high) {
    const double margin = range.low == 0 ? 0.01 : std::abs(range.low) * 0.01;
    return {range.low - margin, range.high + margin, true};
  }
  if (!(percentile < 1)) return range;
  const double n = double(finite.size()), p = std::max(percentile, 0.5);
  const auto rank =
      [&](double share) {  // nearest rank: the smallest value with at least this share at or below it
        return std::clamp<int64_t>(int64_t(std::ceil(share * n)) - 1, 0, int64_t(n) - 1);
      };
  const auto pick = [&](int64_t at) {
    std::nth_element(finite.begin(), finite.begin() + at, finite.end());
    return double(finite[size_t(at)]);
  };
  const int64_t upper = rank(p);
  const double high = pick(upper), low = pick(int64_t(n) - 1 - upper);
  return low < high ? ColourRange{low, high, true} : range;
}

std::vector<int64_t> histogram(const SlotGrid& grid, double low, double high, int bins) {
  std::vector<int64_t> counts(size_t(std::max(bins, 0)), 0);
  if (bins < 1 || !(low < high) || !std::isfinite(high - low)) return counts;
  const double scale = bins / (high - low);
  for (size_t i = 0; i < grid.value.size(); ++i) {
    const double v = grid.value[i];
    if (grid.state[i] != Cell::finite || !(v >= low && v <= high)) continue;
    ++counts[size_t(std::min(int((v - low) * scale), bins - 1))];
  }
  return counts;
}

}  // namespace slotscope::analysis
