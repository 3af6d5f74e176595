#include "core/analysis/grid.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/analysis/grid_pool.h"
#include "core/error.h"

namespace slotscope::analysis {

SlotGrid empty_grid(int64_t rows, int64_t first, int64_t last, int max_rows, int max_columns,
                    int64_t least_per_column) {
  SlotGrid grid;
  grid.first = first;
  grid.last = std::max(first, last);
  const int64_t tokens = grid.last - first;
  const auto divide_up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  if (rows <= 0 || tokens <= 0) return grid;
  const int64_t per_column =
      std::max<int64_t>({divide_up(tokens, std::max(max_columns, 1)), least_per_column, 1});
  const int64_t per_row = divide_up(rows, std::max(max_rows, 1));
  grid.tokens_per_column = double(per_column);
  grid.slots_per_row = double(per_row);
  grid.columns = int(divide_up(tokens, per_column));
  grid.rows = int(divide_up(rows, per_row));
  grid.value.assign(size_t(grid.rows) * size_t(grid.columns), std::numeric_limits<float>::quiet_NaN());
  grid.state.assign(grid.value.size(), Cell::not_routed);
  return grid;
}

std::string reduction_name(const SlotGrid& grid, const GridRequest& request, int64_t tokens) {
  const auto per_column = std::to_string(int64_t(grid.tokens_per_column)) + " tokens per column";
  const auto per_row = std::to_string(int64_t(grid.slots_per_row)) + " slots per row";
  const int64_t shown = grid.last - grid.first;
  const std::string all =
      shown == tokens ? "all " + std::to_string(tokens) + (tokens == 1 ? " token drawn" : " tokens drawn")
                      : std::to_string(shown) + " of " + std::to_string(tokens) + " tokens drawn";
  const std::string pool = request.pooling == Pooling::mean         ? "mean of the routed cells of "
                           : request.quantity == Quantity::log_gate ? "largest magnitude of "
                                                                    : "max of ";
  std::string name;
  if (grid.tokens_per_column == 1 && grid.slots_per_row == 1)
    name = all + ", no reduction";
  else if (grid.slots_per_row == 1)
    name = pool + per_column;
  else if (grid.tokens_per_column == 1)
    name = all + ", " + pool + per_row;
  else
    name = pool + per_column + " and " + per_row;
  if (grid.unknown_cells > 0)
    name += ", " + std::to_string(grid.unknown_cells) + " cells unknown (tokens between were not captured)";
  return name;
}

std::string missing_quantity(const HeadRoutes& routes, const GridRequest& request) {
  const bool gates = routes.has_decay(), strengths = (gates && !routes.every_slot) || routes.has_strength();
  const std::string no_decay = "log decay was not captured: run again with log_decay";
  switch (request.quantity) {
    case Quantity::route_weight:
      return "";
    case Quantity::write_strength:
      if (!routes.no_strength.empty()) return routes.no_strength;
      return strengths ? "" : "write strength was not captured: run again with write_strength";
    case Quantity::log_gate:
    case Quantity::survival_at:
    case Quantity::survival_of:
      if (!routes.no_survival.empty()) return routes.no_survival;
      if (!gates) return no_decay;
      if (request.quantity != Quantity::survival_of || row_of(routes, request.reference) >= 0) return "";
      return "token " + std::to_string(request.reference) + " was not captured";
    case Quantity::read_weight:
      return routes.no_reads.empty() ? "read weight is drawn from captured reads" : routes.no_reads;
    case Quantity::read_attribution:
      if (!request.attribution.empty()) return "";
      if (!routes.no_reads.empty()) return "no query was captured at this token";
      if (!gates) return routes.no_survival.empty() ? no_decay : routes.no_survival;
      return request.read_weight.size() == size_t(routes.slots) ? "" : "no reads were captured at this token";
  }
  return "";
}

namespace {

// Collects the cells of one slot after the other into the pools of one display row.
class Row {
 public:
  Row(SlotGrid& grid, const GridRequest& request, Totals& totals)
      : grid_(grid), request_(request), totals_(totals), pools_(size_t(grid.columns)) {}

  // Cells must come in token order within a slot.
  void add(int64_t token, double value) {
    if (token >= column_end_ || token < column_begin_) move_to(token);
    if (!std::isfinite(value)) ++(std::isnan(value) ? grid_.nan_cells : grid_.inf_cells);
    current_->add(value);
  }
  // `count` finite cells of the column of `token` at once. For pooling by maximum: their sum is not kept.
  void add_extremes(int64_t token, double low, double high, int64_t count) {
    if (token >= column_end_ || token < column_begin_) move_to(token);
    current_->low = std::min(current_->low, low);
    current_->high = std::max(current_->high, high);
    current_->count += count;
  }
  int64_t column_end(int64_t token) const {  // one past the last token of the column
    const int64_t width = int64_t(grid_.tokens_per_column);
    return grid_.first + ((token - grid_.first) / width + 1) * width;
  }
  void unknown() { ++grid_.unknown_cells; }
  // What was added so far, taken out; and the same added once more for each of `copies` slots that are written alike.
  std::vector<CellPool> take() { return std::exchange(pools_, std::vector<CellPool>(pools_.size())); }
  void add_copies(const std::vector<CellPool>& one, int64_t copies) {
    if (copies == 0) return;
    pools_ = one;
    for (CellPool& pool : pools_) pool.sum *= double(copies), pool.count *= copies;
  }
  void finish(int row) {
    for (int64_t c = 0; c < grid_.columns; ++c) {
      totals_.add(pools_[size_t(c)]);
      put(grid_, row, c, pools_[size_t(c)], request_.pooling, request_.quantity == Quantity::log_gate);
    }
    std::fill(pools_.begin(), pools_.end(), CellPool{});
    column_begin_ = column_end_ = 0;
  }

 private:
  void move_to(int64_t token) {
    const int64_t width = int64_t(grid_.tokens_per_column), column = (token - grid_.first) / width;
    column_begin_ = grid_.first + column * width;
    column_end_ = column_begin_ + width;
    current_ = &pools_[size_t(column)];
  }

  SlotGrid& grid_;
  const GridRequest& request_;
  Totals& totals_;
  std::vector<CellPool> pools_;
  CellPool* current_ = nullptr;
  int64_t column_begin_ = 0, column_end_ = 0;
};

// What one slot contributes to the window, for each quantity.
class SlotReader {
 public:
  SlotReader(const HeadRoutes& routes, const SlotWrites& writes, const GridRequest& request,
             const SlotGrid& grid)
      : w_(writes), request_(request), grid_(grid), known_(writes.captured_from(request.reference)) {
    if (request.quantity != Quantity::survival_of) return;
    const int64_t row = row_of(routes, request.reference);
    written_.resize(size_t(writes.slots));
    for (int k = 0; row >= 0 && k < routes.top_k; ++k)
      if (routes.slot_at(row, k) < uint32_t(routes.slots) && routes.weight_at(row, k) != 0)
        written_[routes.slot_at(row, k)] = true;
  }

  void read(int slot, Row& row) const {
    switch (request_.quantity) {
      case Quantity::write_strength:
        return copy(slot, row, [&](int64_t e) { return w_.strength[size_t(e)]; });
      case Quantity::route_weight:
        return copy(slot, row, [&](int64_t e) { return w_.weight_at(e); });
      case Quantity::log_gate:
        return copy(slot, row, [&](int64_t e) { return w_.log_gate[size_t(e)]; });
      case Quantity::survival_at:
        if (w_.decaying && w_.captured.size() == 1 && request_.pooling == Pooling::maximum &&
            grid_.tokens_per_column > 1)
          return left_at_reference_by_column(slot, row);
        if (w_.has_common()) return left_with_common(slot, row);
        return left_at_reference(slot, row, [](int64_t) { return 1.0; });
      case Quantity::read_attribution:  // common gates are in the read weights
        if (!request_.attribution.empty())
          return copy(slot, row, [&](int64_t e) { return request_.attribution[size_t(w_.token_at(e))]; },
                      int64_t(request_.attribution.size()) - 1);
        return left_at_reference(slot, row, [&](int64_t e) {
          return request_.read_weight[size_t(slot)] * w_.strength[size_t(e)];
        });
      case Quantity::survival_of:
        return left_of_reference(slot, row);
      case Quantity::read_weight:
        return;
    }
  }

 private:
  template <class Value>
  void copy(int slot, Row& row, Value value, int64_t last = std::numeric_limits<int64_t>::max()) const {
    const int64_t end = w_.entries_until(slot, std::min(last, grid_.last - 1));
    for (int64_t e = w_.entries_until(slot, grid_.first - 1); e < end; ++e) row.add(w_.token_at(e), value(e));
  }

  // Survival where gates act at every token: no running sum of the slot's own writes tells it.
  void left_with_common(int slot, Row& row) const {
    const int64_t reference = std::min(request_.reference, w_.tokens - 1);
    const int64_t end = w_.entries_until(slot, std::min(reference, grid_.last - 1));
    for (int64_t e = w_.entries_until(slot, grid_.first - 1); e < end; ++e)
      add_known(row, w_.token_at(e), w_.log_keep_between(slot, w_.token_at(e), reference));
  }

  void add_known(Row& row, int64_t token, double log_keep) const {
    if (std::isnan(log_keep))
      row.unknown();
    else
      row.add(token, std::exp(log_keep));
  }

  // factor(e) exp(sum of f over (token of e, reference]) for the writes up to the reference.
  template <class Factor>
  void left_at_reference(int slot, Row& row, Factor factor) const {
    const int64_t reference = std::min(request_.reference, w_.tokens - 1);
    const int64_t stop = w_.entries_until(slot, reference);
    const int64_t end = std::min(stop, w_.entries_until(slot, grid_.last - 1));
    if (stop == w_.first(slot)) return;
    const double total = w_.log_keep[size_t(stop - 1)];
    for (int64_t e = w_.entries_until(slot, grid_.first - 1); e < end; ++e) {
      const int64_t token = w_.token_at(e);
      if (token + 1 < known_)
        row.unknown();
      else if (w_.undefined.empty())
        row.add(token, factor(e) * std::exp(total - w_.log_keep[size_t(e)]));
      else
        row.add(token, factor(e) * std::exp(w_.log_read_keep_between(slot, token, reference)));
    }
  }

  // The same for survival under pooling by maximum: what is left only grows with the token of the write, so a
  // column's extremes are its first and last write, and two exponentials serve however many writes there are.
  void left_at_reference_by_column(int slot, Row& row) const {
    const int64_t reference = std::min(request_.reference, w_.tokens - 1);
    if (w_.captured_from(reference) > w_.captured.front().first)
      return left_at_reference(slot, row, [](int64_t) { return 1.0; });
    const int64_t stop = w_.entries_until(slot, reference);
    const int64_t end = std::min(stop, w_.entries_until(slot, grid_.last - 1));
    int64_t e = w_.entries_until(slot, grid_.first - 1);
    if (e >= end) return;
    const double total = w_.log_keep[size_t(stop - 1)];
    while (e < end) {
      const int64_t from = e, column_end = row.column_end(w_.token_at(e));
      while (e < end && w_.token_at(e) < column_end) ++e;
      row.add_extremes(w_.token_at(from), std::exp(total - w_.log_keep[size_t(from)]),
                       std::exp(total - w_.log_keep[size_t(e - 1)]), e - from);
    }
  }

  // exp(sum of f over (reference, t]) at every t of the window from the reference on, in the slots it wrote.
  void left_of_reference(int slot, Row& row) const {
    if (!written_[size_t(slot)]) return;
    const int64_t begin = std::max(grid_.first, request_.reference);
    if (begin >= grid_.last) return;
    if (w_.has_common()) {
      for (int64_t t = begin; t < grid_.last; ++t)
        add_known(row, t, w_.log_keep_between(slot, request_.reference, t));
      return;
    }
    double sum = w_.log_keep_between(slot, request_.reference, begin), value = std::exp(sum);
    const int64_t known_until = w_.captured_until(request_.reference);
    int64_t e = w_.entries_until(slot, begin);
    const int64_t stop = w_.last(slot);
    for (int64_t t = begin; t < grid_.last; ++t) {
      bool changed = false;
      for (; e < stop && w_.token_at(e) <= t; ++e) {
        sum += w_.log_gate[size_t(e)];
        changed = true;
      }
      if (changed) value = std::exp(sum);
      if (t <= known_until)
        row.add(t, value);
      else
        row.unknown();
    }
  }

  const SlotWrites& w_;
  const GridRequest& request_;
  const SlotGrid& grid_;
  int64_t known_;
  std::vector<bool> written_;  // [M] by the reference token
};

}  // namespace

SlotGrid reduce(const HeadRoutes& routes, const SlotWrites& writes, const GridRequest& request,
                Progress* progress) {
  const int64_t first = std::clamp<int64_t>(request.first, 0, writes.tokens);
  const int64_t last = std::clamp<int64_t>(request.last, 0, writes.tokens);
  SlotGrid grid = empty_grid(int64_t(request.rows.size()), first, last, request.max_rows, request.max_columns,
                             request.tokens_per_column);
  if (grid.rows == 0) return grid;
  grid.reduction = missing_quantity(routes, request);
  if (!grid.reduction.empty()) return grid;
  Totals totals;
  Row row(grid, request, totals);
  const SlotReader reader(routes, writes, request, grid);
  const size_t per_row = size_t(grid.slots_per_row);
  const auto inside = [&](int slot) { return slot >= 0 && slot < writes.slots; };
  // Where all slots are written alike one of them is read for all; a read attribution has a weight for each.
  const bool alike = writes.shared && writes.slots > 0 &&
                     (request.quantity != Quantity::read_attribution || !request.attribution.empty());
  std::vector<CellPool> one;
  if (alike) {
    reader.read(0, row);
    one = row.take();
    const int64_t copies = std::count_if(request.rows.begin(), request.rows.end(), inside);
    grid.nan_cells *= copies, grid.inf_cells *= copies, grid.unknown_cells *= copies;
  }
  for (int r = 0; r < grid.rows; ++r) {
    if (progress && progress->cancel_requested()) return {};
    const size_t end = std::min(request.rows.size(), (size_t(r) + 1) * per_row);
    if (alike)
      row.add_copies(one, std::count_if(request.rows.begin() + int64_t(size_t(r) * per_row),
                                        request.rows.begin() + int64_t(end), inside));
    for (size_t i = size_t(r) * per_row; i < end && !alike; ++i)
      if (inside(request.rows[i])) reader.read(request.rows[i], row);
    row.finish(r);
  }
  totals.store(grid);
  grid.reduction = reduction_name(grid, request, writes.tokens);
  return grid;
}

SlotGrid reduce_dense(std::span<const double> values, int rows, int64_t columns, int max_rows,
                      int max_columns, Pooling pooling) {
  if (rows < 0 || columns < 0 || values.size() != size_t(rows) * size_t(columns))
    throw Error({.item = "matrix",
                 .found = std::to_string(values.size()) + " values",
                 .expected = std::to_string(rows) + " x " + std::to_string(columns)});
  SlotGrid grid = empty_grid(rows, 0, columns, max_rows, max_columns, 1);
  if (grid.rows == 0) return grid;
  GridRequest request;
  request.pooling = pooling;
  Totals totals;
  Row row(grid, request, totals);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) row.add(c, values[size_t(r * columns + c)]);
    const int64_t per_row = int64_t(grid.slots_per_row);
    if ((r + 1) % per_row == 0 || r + 1 == rows) row.finish(int(r / per_row));
  }
  totals.store(grid);
  const std::string shape = std::to_string(rows) + " x " + std::to_string(columns);
  grid.reduction = grid.tokens_per_column == 1 && grid.slots_per_row == 1
                       ? "all " + shape + " cells drawn, no reduction"
                       : std::string(pooling == Pooling::mean ? "mean" : "max") + " of " +
                             std::to_string(int64_t(grid.slots_per_row)) + " x " +
                             std::to_string(int64_t(grid.tokens_per_column)) + " of " + shape + " cells";
  return grid;
}

}  // namespace slotscope::analysis
