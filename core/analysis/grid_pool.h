// Pooling of cells into one drawn row, shared by the reductions of grid.cpp and pyramid.cpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/analysis/grid.h"

namespace slotscope::analysis {

// Several cells that become one. `high` and `low` are the extremes of the finite ones.
struct CellPool {
  double high = -std::numeric_limits<double>::infinity();
  double low = std::numeric_limits<double>::infinity();
  double sum = 0;
  int64_t count = 0;  // finite cells
  Cell special = Cell::not_routed;

  void add(double v) {
    if (std::isfinite(v)) {
      high = std::max(high, v);
      low = std::min(low, v);
      sum += v;
      ++count;
    } else {
      add_special(std::isnan(v) ? Cell::nan : v > 0 ? Cell::pos_inf : Cell::neg_inf);
    }
  }
  void add_special(Cell cell) {
    if (special == Cell::not_routed || cell < special) special = cell;  // nan before pos_inf before neg_inf
  }
  Cell state() const {
    return special != Cell::not_routed ? special : count > 0 ? Cell::finite : Cell::not_routed;
  }
  double value(Pooling pooling, bool by_magnitude) const {
    if (pooling == Pooling::mean) return sum / double(count);
    return by_magnitude && -low > high ? low : high;
  }
};

inline float to_float(double v) {
  constexpr double limit = std::numeric_limits<float>::max();
  return float(std::clamp(v, -limit, limit));  // finite stays finite
}

// A grid with all cells not routed, shaped for `rows` display rows and the tokens [first, last).
SlotGrid empty_grid(int64_t rows, int64_t first, int64_t last, int max_rows, int max_columns,
                    int64_t least_per_column);
// Writes one pooled cell.
inline void put(SlotGrid& grid, int row, int64_t column, const CellPool& pool, Pooling pooling,
                bool by_magnitude) {
  const size_t at = size_t(row) * size_t(grid.columns) + size_t(column);
  grid.state[at] = pool.state();
  if (grid.state[at] == Cell::finite) grid.value[at] = to_float(pool.value(pooling, by_magnitude));
}
// Folds a cell's counts and extremes, before pooling, into the grid's totals.
struct Totals {
  double high = -std::numeric_limits<double>::infinity();
  double low = std::numeric_limits<double>::infinity();
  int64_t finite = 0;
  void add(const CellPool& pool) {
    high = std::max(high, pool.high);
    low = std::min(low, pool.low);
    finite += pool.count;
  }
  void store(SlotGrid& grid) const {
    grid.finite_cells = finite;
    grid.min = finite > 0 ? double(to_float(low)) : 0;
    grid.max = finite > 0 ? double(to_float(high)) : 0;
  }
};
// "all 520 tokens drawn, no reduction", "max of 113 tokens per column"; `tokens`: T of the run.
std::string reduction_name(const SlotGrid& grid, const GridRequest& request, int64_t tokens);

}  // namespace slotscope::analysis
