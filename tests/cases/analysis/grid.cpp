#include "core/analysis/grid.h"

#include <numeric>

#include "core/analysis/pyramid.h"
#include "core/error.h"
#include "tests/cases/analysis/twin.h"
#include "tests/cases/case.h"

using namespace slotscope::analysis;
using slotscope::HeadRoutes;
namespace twin = slotscope::testing::twin;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr Quantity kQuantities[] = {Quantity::write_strength, Quantity::route_weight,
                                    Quantity::log_gate,       Quantity::survival_at,
                                    Quantity::survival_of,    Quantity::read_attribution};

// One cell of the full matrix from the definitions. known false: drawn as not routed but counted.
struct Value {
  bool routed = false, known = true;
  double v = 0;
};

Value cell(const twin::Dense& d, const GridRequest& q, int slot, int64_t t) {
  const size_t at = d.at(t, slot);
  const bool routed = d.r[at] != 0;
  const auto survival = [&](int64_t from, int64_t to, double factor) {
    for (int64_t l = from + 1; l <= to; ++l)
      if (!d.known[size_t(l)]) return Value{true, false, 0};
    return Value{true, true, factor * std::exp(d.log_keep(slot, from, to))};
  };
  switch (q.quantity) {
    case Quantity::write_strength:
      return {routed, true, d.s[at]};
    case Quantity::route_weight:
      return {routed, true, d.r[at]};
    case Quantity::log_gate:
      return {routed, true, d.f[at]};
    case Quantity::survival_at:
      return routed && t <= q.reference ? survival(t, q.reference, 1) : Value{};
    case Quantity::read_attribution:
      return routed && t <= q.reference ? survival(t, q.reference, q.read_weight[size_t(slot)] * d.s[at])
                                        : Value{};
    case Quantity::survival_of:
      return t >= q.reference && d.r[d.at(q.reference, slot)] != 0 ? survival(q.reference, t, 1) : Value{};
    case Quantity::read_weight:
      break;
  }
  return {};
}

// Compares a reduced grid with pooling done cell by cell from the full matrix.
void compare(slotscope::testing::Context& t, const twin::Dense& d, const GridRequest& q, const SlotGrid& grid,
             const std::string& what) {
  const int64_t width = int64_t(grid.tokens_per_column), height = int64_t(grid.slots_per_row);
  int64_t finite = 0, unknown = 0, bad = 0, seen_columns = 0;
  double least = kInf, most = -kInf;
  for (int row = 0; row < grid.rows; ++row) {
    for (int column = 0; column < grid.columns; ++column) {
      double best = 0, sum = 0;
      int64_t n = 0;
      for (int64_t i = row * height; i < std::min<int64_t>((row + 1) * height, int64_t(q.rows.size())); ++i) {
        for (int64_t at = grid.first + column * width;
             at < std::min(grid.first + (column + 1) * width, grid.last); ++at) {
          ++seen_columns;
          const Value v = cell(d, q, q.rows[size_t(i)], at);
          if (!v.routed) continue;
          if (!v.known) {
            ++unknown;
            continue;
          }
          const bool better = q.quantity == Quantity::log_gate ? std::abs(v.v) > std::abs(best) : v.v > best;
          if (n == 0 || better) best = v.v;
          sum += v.v;
          least = std::min(least, v.v);
          most = std::max(most, v.v);
          ++n;
        }
      }
      finite += n;
      const size_t at = size_t(row * grid.columns + column);
      const Cell state = n > 0 ? Cell::finite : Cell::not_routed;
      const double expected = n == 0 ? twin::kNaN : q.pooling == Pooling::mean ? sum / double(n) : best;
      // One float rounding of a double that agrees to 1e-12.
      bad += grid.state[at] != state ||
             !twin::same(grid.value[at], expected, 1e-12 + std::abs(expected) * 6.1e-8);
    }
  }
  if (bad > 0) t.fail(what + ": " + std::to_string(bad) + " cells differ", __FILE__, __LINE__);
  CHECK_EQ(seen_columns,
           int64_t(q.rows.size()) * (grid.last - grid.first));  // every cell is in exactly one pool
  CHECK_EQ(grid.finite_cells, finite);
  CHECK_EQ(grid.unknown_cells, unknown);
  CHECK_EQ(grid.nan_cells + grid.inf_cells, int64_t(0));
  CHECK(twin::same(grid.min, finite ? least : 0, 1e-12 + std::abs(least) * 6.1e-8));
  CHECK(twin::same(grid.max, finite ? most : 0, 1e-12 + std::abs(most) * 6.1e-8));
}

std::vector<int> all_rows(int slots) {
  std::vector<int> rows(static_cast<size_t>(slots));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

}  // namespace

SLOTSCOPE_CASE(twin_of_reduce) {
  for (const auto& problem : twin::problems()) {
    const HeadRoutes r = twin::make(problem);
    const twin::Dense d = twin::dense(r);
    const SlotWrites w = group_writes(r);
    std::mt19937 random(problem.seed);
    for (int round = 0; round < 60; ++round) {
      GridRequest q;
      q.quantity = kQuantities[size_t(round) % std::size(kQuantities)];
      q.pooling = round % 4 < 2 ? Pooling::maximum : Pooling::mean;
      q.rows = all_rows(d.slots);
      std::shuffle(q.rows.begin(), q.rows.end(), random);
      if (round % 3 == 0) q.rows.resize(size_t(1 + random() % unsigned(d.slots)));
      q.first = int64_t(random() % uint64_t(d.tokens));
      q.last = q.first + 1 + int64_t(random() % uint64_t(d.tokens - q.first));
      q.max_columns = 1 + int(random() % 30);
      q.max_rows = 1 + int(random() % 20);
      q.reference = int64_t(random() % uint64_t(d.tokens));
      if (q.quantity == Quantity::survival_of && !d.known[size_t(q.reference)]) q.reference = 6;
      for (int i = 0; i < d.slots; ++i) q.read_weight.push_back(double(random() % 100) / 100);
      const SlotGrid grid = reduce(r, w, q);
      CHECK(grid.columns <= q.max_columns && grid.rows <= q.max_rows);
      CHECK(grid.first == q.first && grid.last == q.last);
      compare(t, d, q, grid, "quantity " + std::to_string(int(q.quantity)));
    }
  }
}

SLOTSCOPE_CASE(names_of_the_reduction) {
  const HeadRoutes r = twin::make({.tokens = 520, .slots = 8, .top_k = 2});
  const SlotWrites w = group_writes(r);
  GridRequest q{.rows = all_rows(8), .first = 0, .last = 520};
  CHECK_EQ(reduce(r, w, q).reduction, std::string("all 520 tokens drawn, no reduction"));
  q.last = 64;
  CHECK_EQ(reduce(r, w, q).reduction, std::string("64 of 520 tokens drawn, no reduction"));
  q.last = 520;
  q.max_columns = 5;
  CHECK_EQ(reduce(r, w, q).reduction, std::string("max of 104 tokens per column"));
  q.max_rows = 4;
  CHECK_EQ(reduce(r, w, q).reduction, std::string("max of 104 tokens per column and 2 slots per row"));
  q.quantity = Quantity::log_gate;
  q.max_rows = 8;
  CHECK_EQ(reduce(r, w, q).reduction, std::string("largest magnitude of 104 tokens per column"));
  q.pooling = Pooling::mean;
  CHECK_EQ(reduce(r, w, q).reduction, std::string("mean of the routed cells of 104 tokens per column"));
  q.max_columns = 2048;
  q.max_rows = 3;
  CHECK_EQ(reduce(r, w, q).reduction,
           std::string("all 520 tokens drawn, mean of the routed cells of 3 slots per row"));
  // 131,072 tokens on 1,160 columns: 113 tokens each.
  HeadRoutes long_one;
  long_one.slots = 1;
  long_one.tokens = 131072;
  const SlotGrid grid = reduce(
      long_one, group_writes(long_one),
      {.quantity = Quantity::route_weight, .rows = {0}, .first = 0, .last = 131072, .max_columns = 1160});
  CHECK_EQ(grid.reduction, std::string("max of 113 tokens per column"));
  CHECK_EQ(grid.columns, 1160);
}

// A single write among 131,072 tokens x 256 slots stays visible at any size, and the last cell is there.
SLOTSCOPE_CASE(hot_cells_never_vanish) {
  HeadRoutes r;
  r.slots = 256;
  r.top_k = 1;
  r.tokens = 131072;
  r.token = {40000, 131071};
  r.rows = 2;
  r.index = {77, 255};
  r.weight = {1, 1};
  r.strength = {1e-3, 1};
  const SlotWrites w = group_writes(r);
  for (const Pooling pooling : {Pooling::maximum, Pooling::mean}) {
    for (const int columns : {1, 7, 333, 2048}) {
      GridRequest q{.pooling = pooling,
                    .rows = all_rows(256),
                    .first = 0,
                    .last = r.tokens,
                    .max_columns = columns,
                    .max_rows = 50};
      const SlotGrid grid = reduce(r, w, q);
      const size_t at = size_t(77 / int(grid.slots_per_row) * grid.columns) +
                        size_t(40000 / int64_t(grid.tokens_per_column));
      CHECK(grid.state[at] == Cell::finite);
      CHECK_CLOSE(grid.value[at], 1e-3, 1e-10);
      CHECK(grid.state.back() == Cell::finite && grid.value.back() == 1.0f);
      CHECK_EQ(grid.finite_cells, int64_t(2));
    }
  }
}

// NaN and infinities keep their own state through pooling and are counted; limits come from finite cells.
SLOTSCOPE_CASE(odd_values) {
  HeadRoutes r;
  r.slots = 2;
  r.top_k = 1;
  r.rows = r.tokens = 6;
  r.index = {0, 0, 0, 1, 1, 1};
  r.weight = {0.5, twin::kNaN, 0.25, kInf, -kInf, 0.75};
  const SlotWrites w = group_writes(r);
  GridRequest q{.quantity = Quantity::route_weight, .rows = {1, 0, 7, -1}, .first = 0, .last = 6};
  const SlotGrid grid = reduce(r, w, q);
  const std::vector<Cell> top{Cell::not_routed, Cell::not_routed, Cell::not_routed,
                              Cell::pos_inf,    Cell::neg_inf,    Cell::finite};
  CHECK(std::equal(top.begin(), top.end(), grid.state.begin()));
  CHECK(grid.state[6] == Cell::finite && grid.state[7] == Cell::nan && grid.state[8] == Cell::finite);
  for (size_t i = 12; i < 24; ++i) CHECK(grid.state[i] == Cell::not_routed);  // slots 7 and -1 do not exist
  for (size_t i = 0; i < grid.value.size(); ++i)
    CHECK_EQ(std::isnan(grid.value[i]), grid.state[i] != Cell::finite);
  CHECK(grid.nan_cells == 1 && grid.inf_cells == 2 && grid.finite_cells == 3);
  CHECK(grid.min == 0.25 && grid.max == 0.75);
  q.max_columns = 2;
  const SlotGrid pooled = reduce(r, w, q);
  CHECK(pooled.state[0] == Cell::not_routed && pooled.state[1] == Cell::pos_inf &&
        pooled.state[2] == Cell::nan);
  CHECK(pooled.nan_cells == 1 && pooled.inf_cells == 2 && pooled.finite_cells == 3);
  CHECK(pooled.min == 0.25 && pooled.max == 0.75);
}

SLOTSCOPE_CASE(empty_windows_and_cancel) {
  const HeadRoutes r = twin::make({});
  const SlotWrites w = group_writes(r);
  GridRequest q{.rows = all_rows(12), .first = 10, .last = 10};
  CHECK_EQ(reduce(r, w, q).rows, 0);
  q.last = 5;
  CHECK_EQ(reduce(r, w, q).rows, 0);
  q = {.rows = all_rows(12), .first = -100, .last = 1'000'000};
  CHECK(reduce(r, w, q).first == 0 && reduce(r, w, q).last == 60);
  q.rows.clear();
  CHECK_EQ(reduce(r, w, q).rows, 0);
  q = {.rows = {0}, .first = 0, .last = 60, .max_columns = 0, .max_rows = -3};
  CHECK_EQ(reduce(r, w, q).columns, 1);
  slotscope::Progress progress;
  progress.request_cancel();
  CHECK_EQ(reduce(r, w, q, &progress).rows, 0);
  CHECK_EQ(reduce(r, w, q, &progress).value.size(), size_t(0));
}

SLOTSCOPE_CASE(not_captured_is_said) {
  HeadRoutes r = twin::make({});
  r.log_decay.clear();
  const SlotWrites w = group_writes(r);
  GridRequest q{.rows = all_rows(12), .first = 0, .last = 60};
  CHECK_EQ(reduce(r, w, q).reduction, std::string("write strength was not captured: run again with write_strength"));
  CHECK(reduce(r, w, q).finite_cells == 0 && reduce(r, w, q).rows == 12);
  for (const Quantity quantity : {Quantity::log_gate, Quantity::survival_at, Quantity::survival_of}) {
    q.quantity = quantity;
    CHECK_EQ(reduce(r, w, q).reduction, std::string("log decay was not captured: run again with log_decay"));
  }
  q.quantity = Quantity::route_weight;
  CHECK(reduce(r, w, q).finite_cells > 0);
  const HeadRoutes whole = twin::make({});
  q.quantity = Quantity::read_attribution;
  CHECK_EQ(reduce(whole, group_writes(whole), q).reduction,
           std::string("no reads were captured at this token"));
  const HeadRoutes part = twin::make({.restricted = true});
  q.quantity = Quantity::survival_of;
  q.reference = 20;
  CHECK_EQ(reduce(part, group_writes(part), q).reduction, std::string("token 20 was not captured"));
}

// B45: 4x4 maps with one NaN, one +inf and one -inf, all NaN, all 7, 1e38, and an empty one.
SLOTSCOPE_CASE(dense_maps) {
  std::vector<double> map(16);
  std::iota(map.begin(), map.end(), 0.0);
  map[5] = twin::kNaN;
  SlotGrid grid = reduce_dense(map, 4, 4, 100, 100, Pooling::maximum);
  CHECK(grid.nan_cells == 1 && grid.finite_cells == 15 && grid.inf_cells == 0);
  CHECK(grid.state[5] == Cell::nan && grid.value[6] == 6.0f && grid.min == 0 && grid.max == 15);
  CHECK_EQ(grid.reduction, std::string("all 4 x 4 cells drawn, no reduction"));
  ColourRange range = colour_range(grid, 1);
  CHECK(range.valid && range.low == 0 && range.high == 15);
  map[5] = kInf;
  map[6] = -kInf;
  grid = reduce_dense(map, 4, 4, 100, 100, Pooling::maximum);
  CHECK(grid.inf_cells == 2 && grid.state[5] == Cell::pos_inf && grid.state[6] == Cell::neg_inf);
  range = colour_range(grid);
  CHECK(range.low == 0 && range.high == 15);
  grid = reduce_dense(map, 4, 4, 2, 2, Pooling::maximum);  // 2 x 2 blocks
  CHECK(grid.rows == 2 && grid.columns == 2);
  CHECK(grid.state[0] == Cell::pos_inf && grid.state[1] == Cell::neg_inf && grid.value[2] == 13.0f &&
        grid.value[3] == 15.0f);
  CHECK_EQ(grid.reduction, std::string("max of 2 x 2 of 4 x 4 cells"));
  CHECK_CLOSE(reduce_dense(map, 4, 4, 2, 2, Pooling::mean).value[2], (8 + 9 + 12 + 13) / 4.0, 1e-6);
  grid = reduce_dense(std::vector<double>(16, twin::kNaN), 4, 4, 100, 100, Pooling::maximum);
  CHECK(grid.nan_cells == 16 && !colour_range(grid).valid && grid.min == 0 && grid.max == 0);
  grid = reduce_dense(std::vector<double>(16, 7.0), 4, 4, 100, 100, Pooling::maximum);
  range = colour_range(grid);
  CHECK(range.valid && range.low < 7 && range.high > 7 && range.high - range.low < 1);
  CHECK_CLOSE((range.low + range.high) / 2, 7, 1e-12);
  grid = reduce_dense(std::vector<double>{1e38, 1e300, 0}, 1, 3, 9, 9, Pooling::maximum);
  CHECK(grid.value[0] == 1e38f && std::isfinite(grid.value[1]) && grid.finite_cells == 3);
  CHECK(std::isfinite(colour_range(grid).high));
  CHECK_EQ(reduce_dense({}, 0, 4, 9, 9, Pooling::maximum).rows, 0);
  CHECK_EQ(reduce_dense({}, 4, 0, 9, 9, Pooling::maximum).rows, 0);
  CHECK_ERROR(reduce_dense(map, 4, 5, 9, 9, Pooling::maximum), "16 values", "4 x 5");
}

SLOTSCOPE_CASE(colour_range_percentiles) {
  std::vector<double> values(10000);
  std::iota(values.begin(), values.end(), 0.0);
  values.push_back(1e6);  // one outlier
  const SlotGrid grid = reduce_dense(values, 1, 10001, 1, 20000, Pooling::maximum);
  const ColourRange range =
      colour_range(grid);  // nearest rank: ceil(0.999 x 10001) = 9991st value, and 11th from below
  CHECK_EQ(range.high, 9990.0);
  CHECK_EQ(range.low, 10.0);
  CHECK_EQ(colour_range(grid, 1).high, 1e6);
  CHECK_EQ(colour_range(grid, 1).low, 0.0);
  // All but one cell equal: percentiles coincide, so the range falls back to min-max.
  std::vector<double> nearly(5000, 0.0);
  nearly[123] = 0.5;
  const ColourRange fallback = colour_range(reduce_dense(nearly, 1, 5000, 1, 5000, Pooling::maximum));
  CHECK(fallback.low == 0 && fallback.high == 0.5);
  const ColourRange zero =
      colour_range(reduce_dense(std::vector<double>(4, 0.0), 2, 2, 9, 9, Pooling::maximum));
  CHECK(zero.valid && zero.low == -0.01 && zero.high == 0.01);
}

SLOTSCOPE_CASE(histograms) {
  const std::vector<double> values{0, 0.1, 0.25, 0.5, 0.74, 0.75, 1, 1.5, -0.5, twin::kNaN, kInf};
  const SlotGrid grid = reduce_dense(values, 1, 11, 1, 11, Pooling::maximum);
  CHECK_EQ(histogram(grid, 0, 1, 4), (std::vector<int64_t>{2, 1, 2, 2}));
  CHECK_EQ(histogram(grid, 1, 0, 2), (std::vector<int64_t>{0, 0}));
  CHECK(histogram(grid, 0, 1, 0).empty());
  CHECK_EQ(histogram(grid, twin::kNaN, 1, 1), (std::vector<int64_t>{0}));
  const double big = std::ldexp(1.0, 127);
  const SlotGrid huge = reduce_dense(std::vector<double>{-big, big, 0}, 1, 3, 1, 3, Pooling::maximum);
  CHECK_EQ(histogram(huge, -big, big, 2), (std::vector<int64_t>{1, 2}));
}

SLOTSCOPE_CASE(alignment) {
  const auto aligned = [](int64_t first, int64_t last, int columns, int64_t tokens) {
    return align({.first = first, .last = last, .max_columns = columns}, tokens);
  };
  GridRequest q = aligned(100, 300, 2048, 1000);
  CHECK(q.first == 100 && q.last == 300 && q.tokens_per_column == 1);
  q = aligned(101, 300, 100, 1000);  // 199 tokens: 2 a column would need 100 columns, [100, 300)
  CHECK(q.first == 100 && q.last == 300 && q.tokens_per_column == 2);
  q = aligned(101, 301, 100, 1000);  // 101 columns of 2: so 4
  CHECK(q.first == 100 && q.last == 304 && q.tokens_per_column == 4);
  q = aligned(3, 999, 1, 1000);
  CHECK(q.first == 0 && q.last == 1000 && q.tokens_per_column == 1024);
  q = aligned(-5, 5000, 10, 1000);  // [0, 1000) in columns of 128: 8
  CHECK(q.first == 0 && q.last == 1000 && q.tokens_per_column == 128);
  q = aligned(0, 0, 10, 0);
  CHECK(q.first == 0 && q.last == 0);
}

// The pyramid gives what the writes give: same states, extremes, counts and names; means to one float
// rounding.
SLOTSCOPE_CASE(pyramid_is_exact) {
  std::mt19937 random(11);
  for (const int64_t tokens : {1, 15, 16, 17, 1000, 4099}) {
    HeadRoutes r =
        twin::make({.tokens = tokens, .slots = 11, .top_k = 3, .padding = true, .seed = unsigned(tokens)});
    if (tokens > 900) r.weight[301] = twin::kNaN, r.weight[1500] = kInf;
    const SlotWrites w = group_writes(r);
    for (const Quantity quantity : {Quantity::write_strength, Quantity::route_weight, Quantity::log_gate}) {
      const auto pyramid = Pyramid::build(r, w, quantity);
      for (int round = 0; round < 40; ++round) {
        GridRequest q{.quantity = quantity,
                      .pooling = round % 2 ? Pooling::maximum : Pooling::mean,
                      .rows = all_rows(11)};
        std::shuffle(q.rows.begin(), q.rows.end(), random);
        q.first = int64_t(random() % uint64_t(tokens));
        q.last = q.first + 1 + int64_t(random() % uint64_t(tokens - q.first));
        q.max_columns = 1 + int(random() % 60);
        q.max_rows = 1 + int(random() % 13);
        q.tokens_per_column = 16;
        const SlotGrid fast = pyramid->reduce(q), slow = reduce(r, w, align(q, tokens));
        CHECK(pyramid->serves(q));
        CHECK(fast.rows == slow.rows && fast.columns == slow.columns && fast.columns <= q.max_columns);
        CHECK(fast.first == slow.first && fast.last == slow.last && fast.first <= q.first &&
              fast.last >= q.last);
        CHECK(fast.tokens_per_column == slow.tokens_per_column && fast.slots_per_row == slow.slots_per_row);
        CHECK_EQ(fast.reduction, slow.reduction);
        CHECK(fast.state == slow.state);
        CHECK(fast.finite_cells == slow.finite_cells && fast.nan_cells == slow.nan_cells &&
              fast.inf_cells == slow.inf_cells);
        CHECK(fast.min == slow.min && fast.max == slow.max);
        int64_t bad = 0;
        for (size_t i = 0; i < fast.value.size(); ++i) {
          const double tolerance = q.pooling == Pooling::mean ? std::abs(slow.value[i]) * 1.2e-7 : 0;
          bad += fast.state[i] == Cell::finite && !(std::abs(fast.value[i] - slow.value[i]) <= tolerance);
        }
        CHECK_EQ(bad, int64_t(0));
      }
    }
  }
}

// The cache answers the same whether it reads the writes (fine zooms, short prompts) or the pyramid.
SLOTSCOPE_CASE(cache_agrees_with_reduce) {
  const HeadRoutes r = twin::make({.tokens = 70000, .slots = 8, .top_k = 4, .seed = 8});
  const SlotWrites w = group_writes(r);
  GridCache cache;
  for (const Quantity quantity : {Quantity::write_strength, Quantity::log_gate, Quantity::survival_at}) {
    for (const int64_t width : {100, 9000, 30000, 70000}) {
      GridRequest q{.quantity = quantity,
                    .rows = all_rows(8),
                    .first = 70000 - width,
                    .last = 70000,
                    .max_columns = 700};
      q.reference = 69000;
      const SlotGrid fast = cache.reduce(r, w, q), slow = reduce(r, w, align(q, 70000));
      CHECK(fast.state == slow.state && fast.reduction == slow.reduction && fast.columns == slow.columns);
      for (size_t i = 0; i < fast.value.size(); ++i)
        if (fast.state[i] == Cell::finite && fast.value[i] != slow.value[i])
          t.fail("value differs", __FILE__, __LINE__);
    }
  }
  slotscope::Progress progress;
  progress.request_cancel();
  GridCache cancelled;
  CHECK_EQ(
      cancelled.reduce(r, w, {.rows = {0}, .first = 0, .last = 70000, .max_columns = 100}, &progress).rows,
      0);
  CHECK_EQ(cancelled.reduce(r, w, {.rows = {0}, .first = 0, .last = 70000, .max_columns = 100}).rows, 1);
}
