// Which slots of two heads correspond, their difference, and what is left of the key.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/analysis/compare.h"
#include "core/analysis/grid_pool.h"
#include "core/error.h"

namespace slotscope::analysis {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
// Rows and tokens that are subtracted at once: bounds memory whatever the window's size.
constexpr int64_t kChunkTokens = 8192, kChunkRows = 32, kMostColumns = 16384;

// Read tokens of both runs that correspond: (token of A, token of B).
std::vector<std::pair<int64_t, int64_t>> common_reads(const HeadData& a, const HeadData& b,
                                                      const TokenAlignment& tokens) {
  std::vector<int64_t> in_b = b.read_token;
  std::sort(in_b.begin(), in_b.end());
  std::vector<std::pair<int64_t, int64_t>> out;
  for (const int64_t t : a.read_token) {
    const int64_t other = tokens.b_of(t);
    if (other >= 0 && std::binary_search(in_b.begin(), in_b.end(), other)) out.emplace_back(t, other);
  }
  return out;
}

std::string why_unmatched(const HeadData& a, const HeadData& b) {
  for (const bool second : {false, true})
    if (const HeadData& head = second ? b : a; !head.routes.no_reads.empty())
      return std::string("rows cannot be matched: ") + (second ? "B: " : "A: ") + head.routes.no_reads;
  if (a.read_heads.empty() || b.read_heads.empty())
    return std::string("rows cannot be matched: no reads were captured in ") + (a.read_heads.empty() ? "A" : "B");
  for (const bool second : {false, true}) {
    const HeadData& head = second ? b : a;
    if (head.read_token.empty() || head.mean_reads_at(head.read_token.front()).empty())
      return std::string("rows cannot be matched: ") + (second ? "B" : "A") + " has no read weights over slots";
  }
  if (a.routes.slots > kMostMatchedSlots || b.routes.slots > kMostMatchedSlots)
    return "rows cannot be matched: more than " + std::to_string(kMostMatchedSlots) + " slots";
  return "";
}

// Survival says nothing where there was no write: no value is not 0 there.
bool absent_is_zero(Quantity q) { return q != Quantity::survival_at && q != Quantity::survival_of; }

struct Cells {
  const SlotGrid* grid = nullptr;  // null: no such slot
  Cell state(size_t at) const { return grid ? grid->state[at] : Cell::not_routed; }
  double value(size_t at) const {
    switch (state(at)) {
      case Cell::finite:
        return double(grid->value[at]);
      case Cell::pos_inf:
        return std::numeric_limits<double>::infinity();
      case Cell::neg_inf:
        return -std::numeric_limits<double>::infinity();
      case Cell::not_routed:
        return 0;
      case Cell::nan:
        break;
    }
    return kNaN;
  }
};

double subtract(double a, double b) {
  const double d = a - b;
  // Both are rounded to single precision: what is less than that is no difference.
  return std::abs(d) <= std::ldexp(std::max(std::abs(a), std::abs(b)), -23) ? 0 : d;
}

// p at the read tokens, mean of the query heads: what the heatmap shows as read weight.
SlotGrid mean_reads(const HeadData& head, const std::vector<int>& slots, int64_t first, int64_t last) {
  const auto rows = int64_t(slots.size());
  SlotGrid grid = empty_grid(rows, std::min(first, head.routes.tokens), std::min(last, head.routes.tokens),
                             int(slots.size()), int(2 * kChunkTokens), 1);
  if (grid.rows == 0) return grid;
  for (const int64_t t : head.read_token) {
    if (t < grid.first || t >= grid.last) continue;
    const std::vector<double> p = head.mean_reads_at(t);
    for (size_t r = 0; r < slots.size(); ++r) {
      if (slots[r] < 0 || size_t(slots[r]) >= p.size()) continue;
      CellPool pool;
      pool.add(p[size_t(slots[r])]);
      put(grid, int(r), t - grid.first, pool, Pooling::maximum, false);
    }
  }
  return grid;
}

// A[t, j] of a matrix state, mean of the query heads that were captured at `t`; empty when none was.
std::vector<double> mean_attribution(const HeadData& head, int64_t t) {
  std::vector<double> mean;
  int counted = 0;
  for (const int h : head.read_heads) {
    const Attribution a = head.attribution(t, h);
    if (a.weight.empty()) continue;
    mean.resize(a.weight.size(), 0);
    for (size_t j = 0; j < mean.size(); ++j) mean[j] += a.weight[j];
    ++counted;
  }
  for (double& v : mean) v /= double(counted);
  return mean;
}

// The cells of some slots at full resolution.
SlotGrid cells_of(const HeadData& head, const DifferenceRequest& request, std::vector<int> slots, int64_t first,
                  int64_t last, int64_t reference) {
  if (request.quantity == Quantity::read_weight) return mean_reads(head, slots, first, last);
  GridRequest r;
  r.quantity = request.quantity;
  r.rows = std::move(slots);
  r.first = first;
  r.last = last;
  r.max_columns = int(2 * kChunkTokens);
  r.max_rows = int(r.rows.size());
  r.tokens_per_column = 1;
  r.reference = reference;
  if (request.quantity == Quantity::read_attribution) {
    r.read_weight = head.mean_reads_at(reference);
    if (head.matrix && !head.attribution_by_slot()) r.attribution = mean_attribution(head, reference);
  }
  return head.grid(r);
}

}  // namespace

RowMatch match_rows(const HeadData& a, const HeadData& b, const TokenAlignment& tokens, Progress* progress) {
  RowMatch out;
  const int in_a = a.routes.slots, in_b = b.routes.slots;
  out.b_of_a.assign(size_t(in_a), -1);
  out.a_of_b.assign(size_t(in_b), -1);
  out.why = why_unmatched(a, b);
  const auto reads = out.why.empty() ? common_reads(a, b, tokens) : std::vector<std::pair<int64_t, int64_t>>();
  if (out.why.empty() && reads.empty()) out.why = "rows cannot be matched: no token was read in both";
  if (out.why.empty()) {
    std::vector<double> overlap(size_t(in_a) * size_t(in_b), 0);
    for (const auto& [at_a, at_b] : reads) {
      if (progress && progress->cancel_requested()) return {.why = "cancelled"};
      const std::vector<double> p = a.mean_reads_at(at_a), q = b.mean_reads_at(at_b);
      if (p.size() != size_t(in_a) || q.size() != size_t(in_b)) continue;
      ++out.read_tokens;
      for (size_t i = 0; i < p.size(); ++i)
        for (size_t j = 0; j < q.size(); ++j)
          if (p[i] > 0 && q[j] > 0) overlap[i * q.size() + j] += std::min(p[i], q[j]);
    }
    std::vector<RowMatch::Pair> all;
    for (int i = 0; i < in_a; ++i)
      for (int j = 0; j < in_b; ++j)
        if (const double o = overlap[size_t(i) * size_t(in_b) + size_t(j)]; o > 0 && std::isfinite(o))
          all.push_back({i, j, o});
    std::stable_sort(all.begin(), all.end(), [](const auto& x, const auto& y) { return x.overlap > y.overlap; });
    for (const RowMatch::Pair& pair : all) {
      if (out.b_of_a[size_t(pair.a)] >= 0 || out.a_of_b[size_t(pair.b)] >= 0) continue;
      out.b_of_a[size_t(pair.a)] = pair.b;
      out.a_of_b[size_t(pair.b)] = pair.a;
      out.pairs.push_back(pair);
    }
    if (out.pairs.empty()) out.why = "rows cannot be matched: no slot is read in both";
  }
  for (int i = 0; i < in_a; ++i)
    if (out.b_of_a[size_t(i)] < 0) out.only_a.push_back(i);
  for (int j = 0; j < in_b; ++j)
    if (out.a_of_b[size_t(j)] < 0) out.only_b.push_back(j);
  return out;
}

std::string why_no_difference(const HeadData& a, const HeadData& b, const TokenAlignment& tokens,
                              const RowMatch& match) {
  if (a.routes.slots != b.routes.slots)
    return "A − B needs equal slot counts: A has " + std::to_string(a.routes.slots) + ", B has " +
           std::to_string(b.routes.slots);
  if (!tokens.same_tokens) return "A − B needs the same tokens in both";
  if (!match.why.empty()) return "A − B: " + match.why;
  return "";
}

SlotGrid difference_grid(const HeadData& a, const HeadData& b, const DifferenceRequest& request,
                         Progress* progress) {
  const int64_t end = std::max(a.routes.tokens, b.routes.tokens);
  const int64_t first = std::clamp<int64_t>(request.first, 0, end), last = std::clamp<int64_t>(request.last, 0, end);
  const auto rows = int64_t(request.rows.size());
  SlotGrid grid = empty_grid(rows, first, last, std::max(1, request.max_rows), int(kMostColumns),
                             std::max<int64_t>(1, request.tokens_per_column));
  if (grid.rows == 0) return grid;
  Totals totals;
  const auto width = int64_t(grid.tokens_per_column);
  const bool zero = absent_is_zero(request.quantity);
  // Whole drawn rows at a time.
  const auto per_row = int64_t(grid.slots_per_row), chunk = per_row * std::max<int64_t>(1, kChunkRows / per_row);
  for (int64_t row = 0; row < rows; row += chunk) {
    const int64_t row_end = std::min(rows, row + chunk), count = row_end - row, drawn = (count + per_row - 1) / per_row;
    std::vector<int> slots_a, slots_b;
    for (int64_t r = row; r < row_end; ++r) {
      slots_a.push_back(request.rows[size_t(r)].a);  // -1 is drawn as not routed
      slots_b.push_back(request.rows[size_t(r)].b);
    }
    std::vector<CellPool> pools(size_t(drawn) * size_t(grid.columns));
    for (int64_t from = first; from < last; from += kChunkTokens) {
      if (progress && progress->cancel_requested()) return {};
      const int64_t to = std::min(last, from + kChunkTokens);
      const SlotGrid in_a = cells_of(a, request, slots_a, from, to, request.reference_a);
      const SlotGrid in_b = cells_of(b, request, slots_b, from, to, request.reference_b);
      for (int64_t r = 0; r < count; ++r)
        for (int64_t t = from; t < to; ++t) {
          const auto at = [&](const SlotGrid& g) { return size_t(r) * size_t(g.columns) + size_t(t - g.first); };
          const Cells x{in_a.rows > 0 && t < in_a.last ? &in_a : nullptr},
              y{in_b.rows > 0 && t < in_b.last ? &in_b : nullptr};
          const bool has_x = x.grid && x.state(at(in_a)) != Cell::not_routed,
                     has_y = y.grid && y.state(at(in_b)) != Cell::not_routed;
          if (zero ? !has_x && !has_y : !has_x || !has_y) continue;
          const double v = subtract(has_x ? x.value(at(in_a)) : 0, has_y ? y.value(at(in_b)) : 0);
          if (!std::isfinite(v)) ++(std::isnan(v) ? grid.nan_cells : grid.inf_cells);
          pools[size_t(r / per_row) * size_t(grid.columns) + size_t((t - first) / width)].add(v);
        }
    }
    for (int64_t r = 0; r < drawn; ++r)
      for (int64_t c = 0; c < grid.columns; ++c) {
        const CellPool& pool = pools[size_t(r) * size_t(grid.columns) + size_t(c)];
        totals.add(pool);
        put(grid, int(row / per_row + r), c, pool, Pooling::maximum, true);
      }
  }
  totals.store(grid);
  std::string pooled;
  if (width > 1) pooled = std::to_string(width) + " tokens per column";
  if (per_row > 1) pooled += (pooled.empty() ? "" : " and ") + std::to_string(per_row) + " rows per row";
  grid.reduction = pooled.empty() ? "A − B, no reduction" : "A − B, largest magnitude of " + pooled;
  return grid;
}

KeyCurve key_curve(const HeadData& head, const trace::RunInfo& run, const std::vector<uint8_t>* roles) {
  KeyCurve out;
  out.at_query = kNaN;
  if (const int64_t query = query_token(run); query >= 0 && run.prompt_tokens <= run.tokens) out.query = query;
  // Where there is no survival no key can have one.
  GridRequest survival;
  survival.quantity = Quantity::survival_at;
  out.why = missing_quantity(head.routes, survival);
  if (!out.why.empty()) return out;
  const std::vector<int64_t> key = key_tokens(run, roles);
  if (key.empty()) {
    out.why = run.tokens < run.prompt_tokens ? "the run ends before the key" : "no token of this prompt is marked as key";
    return out;
  }
  const int64_t last = head.routes.tokens - 1;
  out.first = key.back();
  if (out.first > last) {
    out.why = "the run ends before the key";
    return out;
  }
  int64_t written = 0;
  std::vector<double> sum(size_t(last - out.first + 1), 0);
  for (const int64_t token : key) {
    const std::vector<double> left = survival_curve(head.routes, head.writes, token, out.first, last);
    // Tokens that wrote nothing have no survival and do not count; nor do those that were not captured.
    double strength = 0;
    for (const SlotSurvival& s : slot_survival_curves(head.routes, head.writes, token, token, token))
      strength += s.strength;
    if (strength == 0) continue;
    ++written;
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += left[i];
  }
  if (written == 0) {
    out.why = "the key wrote nothing into this head";
    return out;
  }
  for (double& v : sum) v /= double(written);
  out.left = std::move(sum);
  if (out.query >= out.first) out.at_query = out.left[size_t(out.query - out.first)];
  return out;
}

}  // namespace slotscope::analysis
