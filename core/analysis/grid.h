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
// How several cells become one. maximum: the largest finite value (by absolute value for log_gate, sign
// kept). mean: over the finite routed cells only, so that one weak write among thousands of cells that were
// not routed is neither lost nor thinned.
enum class Pooling : uint8_t { maximum, mean };
// In a pool the first of nan, pos_inf, neg_inf, finite that occurs wins: neither a write nor a defect ever
// vanishes.
enum class Cell : uint8_t { not_routed, finite, nan, pos_inf, neg_inf };

struct GridRequest {
  Quantity quantity = Quantity::write_strength;
  Pooling pooling = Pooling::maximum;
  std::vector<int> rows;        // slots in display order
  int64_t first = 0, last = 0;  // half-open token range
  int max_columns = 2048, max_rows = 2048;
  int64_t reference = 0;            // token for survival_at, survival_of, read_attribution
  std::vector<double> read_weight;  // [M] for read_attribution
  // [reference + 1] for read_attribution of a matrix state: A[reference, j], the same for every slot that j wrote.
  std::vector<double> attribution;
  int64_t tokens_per_column = 0;    // 0: the least that keeps within max_columns; else at least this many
};

struct SlotGrid {
  int rows = 0, columns = 0;
  int64_t first = 0, last = 0;
  // Whole numbers: column c covers tokens first + c * tokens_per_column onwards, so that every column pools
  // equally many (the last one ends at `last`). Map columns to tokens with these, not by dividing last -
  // first. Rows likewise.
  double tokens_per_column = 1;
  double slots_per_row = 1;
  std::vector<float> value;  // [rows, columns], row-major, display order; NaN where state != finite
  std::vector<Cell> state;   // [rows, columns]
  int64_t nan_cells = 0, inf_cells = 0, finite_cells = 0;  // before pooling
  // Survival across tokens that were not captured: drawn as not routed, named in `reduction`.
  int64_t unknown_cells = 0;
  // Of finite values before pooling, rounded to float as `value` is; 0 when there are none.
  double min = 0, max = 0;
  std::string reduction;  // "all 520 tokens drawn, no reduction", "max of 113 tokens per column"
};

// Why a quantity cannot be drawn from these routes, in words for the reader: undefined for the family, not captured, ... ""
// when it can. read_attribution is asked for with request.read_weight.
std::string missing_quantity(const HeadRoutes& routes, const GridRequest& request);

// Returns an empty grid (rows = 0) when progress asks to stop or the window holds no token. Touches only the
// window's writes of the given rows: linear in them. Quantities that were not captured give a grid with
// nothing routed and say so in `reduction`. Rows outside [0, M) are drawn as not routed. read_weight is
// dense: see reduce_dense and reduce_reads (head_data.h).
SlotGrid reduce(const HeadRoutes&, const SlotWrites&, const GridRequest&, Progress* progress = nullptr);
// A dense matrix [rows, columns] given row-major (B45 maps, read weights): classification and pooling as
// above. Throws Error when the number of values does not fit.
SlotGrid reduce_dense(std::span<const double> values, int rows, int64_t columns, int max_rows,
                      int max_columns, Pooling);

// Colour limits from the drawn finite cells only: the values below which a share 1 - percentile and
// percentile of them lie (nearest rank). percentile 1 = min-max; where the percentiles coincide although the
// data differ, min-max too. Flat data: the value
// +/- 1 % of it (+/- 0.01 around 0). `valid` false: no finite value.
struct ColourRange {
  double low = 0, high = 1;
  bool valid = false;
};
ColourRange colour_range(const SlotGrid&, double percentile = 0.999);

// Histogram of the drawn finite values in [low, high] for the colour range editor; values outside are left
// out, `high` itself is in the last bin. All zero when bins < 1 or not low < high.
std::vector<int64_t> histogram(const SlotGrid&, double low, double high, int bins);

}  // namespace slotscope::analysis
