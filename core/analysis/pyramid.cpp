#include "core/analysis/pyramid.h"

#include <algorithm>
#include <bit>

#include "core/analysis/grid_pool.h"

namespace slotscope::analysis {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

int64_t blocks_of(int64_t tokens, int64_t width) { return (tokens + width - 1) / width; }

}  // namespace

std::shared_ptr<const Pyramid> Pyramid::build(const HeadRoutes& routes, const SlotWrites& writes,
                                              Quantity quantity, Progress* progress) {
  const auto p = std::make_shared<Pyramid>();
  p->quantity_ = quantity;
  p->slots_ = writes.slots;
  p->tokens_ = writes.tokens;
  GridRequest request;
  request.quantity = quantity;
  p->missing_ = missing_quantity(routes, request);
  if (!supports(quantity)) p->missing_ = "this quantity has no pyramid";
  if (!p->missing_.empty()) return p;
  p->fill(writes);
  if (!p->add_levels(progress)) return nullptr;
  return p;
}

void Pyramid::fill(const SlotWrites& writes) {
  Level base;
  base.blocks = std::max<int64_t>(blocks_of(tokens_, int64_t(1) << kBaseLog2), 1);
  const size_t size = size_t(slots_) * size_t(base.blocks);
  base.high.assign(size, -kInfinity);
  base.low.assign(size, kInfinity);
  base.sum.assign(size, 0);
  base.count.assign(size, 0);
  specials_.resize(size_t(slots_));
  for (int slot = 0; slot < slots_; ++slot) {
    for (int64_t e = writes.first(slot); e < writes.last(slot); ++e) {
      const double v = quantity_ == Quantity::write_strength ? writes.strength[size_t(e)]
                       : quantity_ == Quantity::route_weight ? writes.weight_at(e)
                                                             : writes.log_gate[size_t(e)];
      const int64_t token = writes.token_at(e);
      if (!std::isfinite(v)) {
        specials_[size_t(slot)].push_back({token, std::isnan(v) ? Cell::nan
                                                  : v > 0       ? Cell::pos_inf
                                                                : Cell::neg_inf});
        continue;
      }
      const size_t at = size_t(slot) * size_t(base.blocks) + size_t(token >> kBaseLog2);
      base.high[at] = std::max(base.high[at], to_float(v));
      base.low[at] = std::min(base.low[at], to_float(v));
      base.sum[at] += v;
      ++base.count[at];
    }
  }
  levels_.push_back(std::move(base));
}

bool Pyramid::add_levels(Progress* progress) {
  while (levels_.back().blocks > 1) {
    const Level& fine = levels_.back();
    Level coarse;
    coarse.blocks = blocks_of(fine.blocks, 2);
    for (int slot = 0; slot < slots_; ++slot) {
      if (progress && progress->cancel_requested()) return false;
      const size_t row = size_t(slot) * size_t(fine.blocks);
      for (int64_t b = 0; b < coarse.blocks; ++b) {
        const size_t x = row + size_t(2 * b), y = 2 * b + 1 < fine.blocks ? x + 1 : x;
        coarse.high.push_back(std::max(fine.high[x], fine.high[y]));
        coarse.low.push_back(std::min(fine.low[x], fine.low[y]));
        coarse.sum.push_back(fine.sum[x] + (y == x ? 0 : fine.sum[y]));
        coarse.count.push_back(fine.count[x] + (y == x ? 0 : fine.count[y]));
      }
    }
    levels_.push_back(std::move(coarse));
  }
  return true;
}

size_t Pyramid::bytes() const {
  size_t total = 0;
  for (const Level& level : levels_)
    total += level.high.size() * (2 * sizeof(float) + sizeof(double) + sizeof(uint32_t));
  for (const auto& list : specials_) total += list.size() * sizeof(Special);
  return total;
}

GridRequest align(GridRequest request, int64_t tokens) {
  request.first = std::clamp<int64_t>(request.first, 0, tokens);
  request.last = std::clamp<int64_t>(request.last, request.first, tokens);
  const int64_t most = std::max(request.max_columns, 1), first = request.first, last = request.last;
  const int64_t least = std::clamp<int64_t>(request.tokens_per_column, 1, int64_t(1) << 60);
  int64_t width = int64_t(std::bit_ceil(uint64_t(least)));
  for (;; width *= 2) {
    request.first = first / width * width;
    request.last = std::min(blocks_of(last, width) * width, tokens);
    if (blocks_of(request.last - request.first, width) <= most) break;
  }
  request.tokens_per_column = width;
  return request;
}

bool Pyramid::serves(const GridRequest& request) const {
  return request.quantity == quantity_ && align(request, tokens_).tokens_per_column >> kBaseLog2 > 0;
}

SlotGrid Pyramid::reduce(const GridRequest& asked, Progress* progress) const {
  GridRequest request = align(asked, tokens_);
  request.quantity = quantity_;
  SlotGrid grid =
      empty_grid(int64_t(request.rows.size()), request.first, request.last, request.max_rows,
                 request.max_columns, std::max<int64_t>(request.tokens_per_column, 1 << kBaseLog2));
  if (grid.rows == 0) return grid;
  grid.reduction = missing_;
  if (!missing_.empty()) return grid;
  const int64_t width = int64_t(grid.tokens_per_column), first_block = grid.first / width;
  const size_t level_at = size_t(std::countr_zero(uint64_t(width)) - kBaseLog2);
  const Level& level = levels_[std::min(level_at, levels_.size() - 1)];
  const bool by_magnitude = quantity_ == Quantity::log_gate;
  Totals totals;
  std::vector<CellPool> row(size_t(grid.columns));
  const size_t per_row = size_t(grid.slots_per_row);
  for (int r = 0; r < grid.rows; ++r) {
    if (progress && progress->cancel_requested()) return {};
    std::fill(row.begin(), row.end(), CellPool{});
    const size_t end = std::min(request.rows.size(), (size_t(r) + 1) * per_row);
    for (size_t i = size_t(r) * per_row; i < end; ++i) {
      const int slot = request.rows[i];
      if (slot < 0 || slot >= slots_) continue;
      const size_t from = size_t(slot) * size_t(level.blocks) + size_t(first_block);
      for (size_t c = 0; c < row.size(); ++c) {
        row[c].high = std::max(row[c].high, double(level.high[from + c]));
        row[c].low = std::min(row[c].low, double(level.low[from + c]));
        row[c].sum += level.sum[from + c];
        row[c].count += level.count[from + c];
      }
      const auto& specials = specials_[size_t(slot)];
      auto s = std::lower_bound(specials.begin(), specials.end(), grid.first,
                                [](const Special& x, int64_t token) { return x.token < token; });
      for (; s != specials.end() && s->token < grid.last; ++s) {
        row[size_t(s->token / width - first_block)].add_special(s->cell);
        ++(s->cell == Cell::nan ? grid.nan_cells : grid.inf_cells);
      }
    }
    for (size_t c = 0; c < row.size(); ++c) {
      totals.add(row[c]);
      put(grid, r, int64_t(c), row[c], request.pooling, by_magnitude);
    }
  }
  totals.store(grid);
  grid.reduction = reduction_name(grid, request, tokens_);
  return grid;
}

SlotGrid GridCache::reduce(const HeadRoutes& routes, const SlotWrites& writes, const GridRequest& request,
                           Progress* progress) {
  const GridRequest aligned = align(request, writes.tokens);
  // Below this many entries the writes themselves are read in about a millisecond, and a pyramid would only
  // take memory.
  constexpr int64_t few_entries = 1 << 18;
  // One slot is read for all where they are written alike. A pyramid has M x T / 16 blocks: where slots are written once
  // (append) that is far more than there are writes.
  constexpr int64_t most_blocks_per_write = 16;
  const int64_t blocks = writes.slots * (writes.tokens >> Pyramid::kBaseLog2);
  if (!Pyramid::supports(request.quantity) || aligned.tokens_per_column < int64_t(1) << Pyramid::kBaseLog2 ||
      writes.count() < few_entries || writes.shared || blocks > most_blocks_per_write * writes.count())
    return analysis::reduce(routes, writes, aligned, progress);
  std::shared_ptr<const Pyramid> pyramid;
  {
    const std::lock_guard lock(mutex_);
    auto& kept = pyramids_[size_t(request.quantity)];
    if (!kept) kept = Pyramid::build(routes, writes, request.quantity, progress);
    pyramid = kept;
  }
  return pyramid ? pyramid->reduce(aligned, progress) : SlotGrid{};
}

}  // namespace slotscope::analysis
