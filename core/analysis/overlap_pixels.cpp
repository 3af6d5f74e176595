// Token-to-token matrices reduced to pixels: one row of cells at a time, a row of pixels per step of a worker.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <thread>

#include "core/analysis/grid_pool.h"
#include "core/analysis/overlap.h"
#include "core/error.h"

namespace slotscope::analysis {
namespace {

// How many captured columns lie in [from, to).
int64_t captured_between(const std::vector<int64_t>& columns, int64_t from, int64_t to) {
  if (to <= from) return 0;
  if (columns.empty()) return to - from;
  return std::lower_bound(columns.begin(), columns.end(), to) - std::lower_bound(columns.begin(), columns.end(), from);
}

// One block of cells. Untouched ones are 0 and count.
struct Block {
  CellPool pool;
  int64_t cells = 0;  // known ones, the non-finite included
};

struct Counts {
  int64_t missing = 0, unknown = 0, nan = 0, inf = 0;
};

class Reducer {
 public:
  Reducer(const TokenMatrix& m, const MatrixRequest& request, MatrixGrid& grid)
      : m_(m), request_(request), grid_(grid), per_row_(int64_t(grid.max.slots_per_row)),
        per_column_(int64_t(grid.max.tokens_per_column)) {}

  // One row of pixels, whose sum goes to `sum`. False when progress asks to stop.
  bool row(int pixel, RowBuffer& buffer, Counts& counts, Totals& totals, double& sum, Progress* progress) {
    std::vector<Block> blocks(size_t(grid_.max.columns));
    const int64_t first = request_.t0 + pixel * per_row_, last = std::min(first + per_row_, request_.t1);
    for (int64_t t = first; t < last; ++t) {
      if (progress && progress->cancel_requested()) return false;
      if (!m_.has_row(t)) ++counts.missing;
      else if (t >= request_.s0) add(t, buffer, blocks, counts);
    }
    for (size_t c = 0; c < blocks.size(); ++c) {
      sum += blocks[c].pool.sum;
      put_block(pixel, int64_t(c), blocks[c], totals);
    }
    return true;
  }

 private:
  void add(int64_t t, RowBuffer& buffer, std::vector<Block>& blocks, Counts& counts) {
    const int64_t end = std::min(t + 1, request_.s1);
    buffer.reset(request_.s0, end);
    const int64_t known = std::clamp(m_.add_row(t, buffer), request_.s0, end);
    counts.unknown += captured_between(m_.columns(), request_.s0, known);
    for (const int64_t s : buffer.touched()) {
      if (s < known) continue;
      const double v = buffer.at(s);
      if (!std::isfinite(v)) ++(std::isnan(v) ? counts.nan : counts.inf);
      blocks[size_t((s - request_.s0) / per_column_)].pool.add(v);
    }
    const int64_t from = (known - request_.s0) / per_column_;
    for (int64_t c = from; c < int64_t(blocks.size()); ++c) {
      const int64_t begin = std::max(request_.s0 + c * per_column_, known);
      if (begin >= end) break;
      blocks[size_t(c)].cells += captured_between(m_.columns(), begin, std::min(request_.s0 + (c + 1) * per_column_, end));
    }
  }

  void put_block(int pixel, int64_t column, Block& block, Totals& totals) {
    if (block.cells == 0) return;
    CellPool& pool = block.pool;
    if (pool.special == Cell::not_routed && pool.count < block.cells) {  // some cell is 0
      pool.high = std::max(pool.high, 0.0);
      pool.low = std::min(pool.low, 0.0);
      pool.count = block.cells;
    }
    totals.add(pool);
    put(grid_.max, pixel, column, pool, Pooling::maximum, m_.is_signed());
    put(grid_.mean, pixel, column, pool, Pooling::mean, false);
  }

  const TokenMatrix& m_;
  const MatrixRequest& request_;
  MatrixGrid& grid_;
  int64_t per_row_, per_column_;
};

std::string reduction_text(const MatrixGrid& grid, const char* pool) {
  const int64_t rows = int64_t(grid.max.slots_per_row), columns = int64_t(grid.max.tokens_per_column);
  std::string text = rows == 1 && columns == 1
                         ? "every pair of tokens drawn, no reduction"
                         : std::string(pool) + " of " + std::to_string(rows) + " × " + std::to_string(columns) +
                               " tokens per pixel";
  if (grid.missing_rows > 0) text += ", " + std::to_string(grid.missing_rows) + " rows not captured";
  if (grid.unknown_cells > 0)
    text += ", " + std::to_string(grid.unknown_cells) + " pairs unknown (tokens between were not captured)";
  return text;
}

}  // namespace

MatrixGrid pixels(const TokenMatrix& m, const MatrixRequest& asked, Progress* progress) {
  MatrixRequest request = asked;
  request.t0 = std::clamp<int64_t>(asked.t0, 0, m.tokens());
  request.t1 = std::clamp<int64_t>(asked.t1, request.t0, m.tokens());
  request.s0 = std::clamp<int64_t>(asked.s0, 0, m.tokens());
  request.s1 = std::clamp<int64_t>(asked.s1, request.s0, m.tokens());
  request.max_rows = std::clamp(asked.max_rows, 1, 4096);
  request.max_columns = std::clamp(asked.max_columns, 1, 4096);
  MatrixGrid grid{.t0 = request.t0, .t1 = request.t1, .s0 = request.s0, .s1 = request.s1};
  grid.max = empty_grid(request.t1 - request.t0, request.s0, request.s1, request.max_rows, request.max_columns, 1);
  grid.mean = grid.max;
  if (grid.max.rows == 0) return grid;
  if (progress) progress->begin_stage("comparing tokens", grid.max.rows);
  Reducer reducer(m, request, grid);
  const int rows = grid.max.rows;
  const int most = request.threads > 0 ? request.threads : int(std::clamp(std::thread::hardware_concurrency(), 1u, 8u));
  const int count = std::clamp(std::min(most, rows), 1, 64);
  std::vector<Counts> counts{std::vector<Counts>(size_t(count))};
  std::vector<Totals> totals{std::vector<Totals>(size_t(count))};
  std::vector<std::exception_ptr> failed{std::vector<std::exception_ptr>(size_t(count))};
  std::vector<double> sums(size_t(rows), 0);
  std::atomic<int> next{0};
  std::atomic<bool> stop{false};
  const auto work = [&](size_t worker) {
    try {
      RowBuffer buffer;
      for (int row = next++; row < rows && !stop; row = next++) {
        const int pixel = rows - 1 - row;  // longest rows first
        if (!reducer.row(pixel, buffer, counts[worker], totals[worker], sums[size_t(pixel)], progress)) stop = true;
        if (progress) progress->add(1);
      }
    } catch (...) {
      failed[worker] = std::current_exception();
      stop = true;
    }
  };
  {
    std::vector<std::jthread> others;
    for (int i = 1; i < count; ++i) others.emplace_back(work, size_t(i));
    work(0);
  }
  for (const auto& error : failed)
    if (error) std::rethrow_exception(error);
  if (stop) return {};
  Totals all;
  for (int i = 0; i < count; ++i) {
    const Counts& c = counts[size_t(i)];
    grid.missing_rows += c.missing;
    grid.unknown_cells += c.unknown;
    grid.max.nan_cells += c.nan;
    grid.max.inf_cells += c.inf;
    const Totals& t = totals[size_t(i)];
    all.high = std::max(all.high, t.high);
    all.low = std::min(all.low, t.low);
    all.finite += t.finite;
  }
  all.store(grid.max);
  double sum = 0;  // in the order of the rows, whatever thread had them
  for (const double s : sums) sum += s;
  grid.cell_mean = all.finite > 0 ? sum / double(all.finite) : std::numeric_limits<double>::quiet_NaN();
  grid.mean.nan_cells = grid.max.nan_cells;
  grid.mean.inf_cells = grid.max.inf_cells;
  all.store(grid.mean);
  grid.max.unknown_cells = grid.mean.unknown_cells = grid.unknown_cells;
  grid.max.reduction = reduction_text(grid, m.is_signed() ? "largest magnitude" : "max");
  grid.mean.reduction = reduction_text(grid, "mean");
  return grid;
}

}  // namespace slotscope::analysis
