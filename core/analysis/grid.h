// Reduction for drawing: slots x tokens to at most screen size, so that a written cell never disappears.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/analysis/memory.h"
#include "core/progress.h"

namespace slotscope::analysis {

enum class Quantity : uint8_t {
  write_strength,    // s
  route_weight,      // r
  log_gate,          // a r (<= 0)
  survival_at,       // left of each write at the reference token
  survival_of,       // left of the reference token over time, in the slots it wrote
  read_weight,       // p (dense rows at read tokens; given as a matrix)
  read_attribution,  // to the reference token, per write
};
enum class Pooling : uint8_t { maximum, mean };  // by absolute value for log_gate
enum class Cell : uint8_t { not_routed, finite, nan, pos_inf, neg_inf };

struct GridRequest {
  Quantity quantity = Quantity::write_strength;
  Pooling pooling = Pooling::maximum;
  std::vector<int> rows;            // slots in display order
  int64_t first = 0, last = 0;      // half-open token range
  int max_columns = 2048, max_rows = 2048;
  int64_t reference = 0;            // token for survival_at, survival_of, read_attribution
  std::vector<double> read_weight;  // [M] for read_attribution
};

struct SlotGrid {
  int rows = 0, columns = 0;
  int64_t first = 0, last = 0;
  double tokens_per_column = 1;     // >= 1; columns cover equal ranges, column c starts at first + floor(c * tokens_per_column)
  double slots_per_row = 1;
  std::vector<float> value;         // [rows, columns], row-major, display order; NaN where state != finite
  std::vector<Cell> state;          // [rows, columns]
  int64_t nan_cells = 0, inf_cells = 0, finite_cells = 0;  // before pooling
  double min = 0, max = 0;          // of finite values before pooling
  std::string reduction;            // "all 520 tokens drawn, no reduction", "max of 113 tokens per column"
};

// Throws Cancelled through Progress: returns an empty grid (rows = 0) when progress asks to stop.
SlotGrid reduce(const HeadRoutes&, const SlotWrites&, const GridRequest&, Progress* progress = nullptr);
// A dense matrix [rows, columns] given row-major (B45 maps, read weights): classification and pooling as above.
SlotGrid reduce_dense(std::span<const double> values, int rows, int64_t columns, int max_rows, int max_columns, Pooling);

// Colour limits from finite cells only. percentile 1 = min-max. Flat data: centre +/- small. `valid` false: no finite value.
struct ColourRange {
  double low = 0, high = 1;
  bool valid = false;
};
ColourRange colour_range(const SlotGrid&, double percentile = 0.999);

// Histogram of finite values over [low, high] for the colour range editor.
std::vector<int64_t> histogram(const SlotGrid&, double low, double high, int bins);

}  // namespace slotscope::analysis
