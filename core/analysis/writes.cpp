// Regrouping routes by slot, and what a slot still holds.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "core/analysis/memory.h"
#include "core/error.h"

namespace slotscope::analysis {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

[[noreturn]] void bad_routes(const HeadRoutes& r, std::string item, std::string found, std::string expected) {
  throw Error({.item = "layer " + std::to_string(r.layer) + " head " + std::to_string(r.head) + " " + item,
               .found = std::move(found),
               .expected = std::move(expected),
               .advice = "The routes are damaged: run again"});
}

void check_size(const HeadRoutes& r, const char* item, size_t found, size_t expected) {
  if (found != expected) bad_routes(r, item, std::to_string(found) + " values", std::to_string(expected));
}

std::vector<std::pair<int64_t, int64_t>> ranges_of(const HeadRoutes& routes) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  if (routes.token.empty()) {
    if (routes.rows > 0) ranges.emplace_back(0, routes.rows);
    return ranges;
  }
  for (const int64_t t : routes.token) {
    if (!ranges.empty() && ranges.back().second == t)
      ++ranges.back().second;
    else
      ranges.emplace_back(t, t + 1);
  }
  return ranges;
}

// Neumaier's compensated running sum, so that long prefixes stay exact to their last place; non-finite gates
// are counted apart because they would swallow every later difference.
class RunningGate {
 public:
  void add(double f) {
    if (std::isfinite(f)) {
      const double next = sum_ + f;
      correction_ += std::abs(sum_) >= std::abs(f) ? (sum_ - next) + f : (f - next) + sum_;
      sum_ = next;
    } else {
      ++(f == -std::numeric_limits<double>::infinity() ? cleared : undefined);
    }
  }
  double sum() const { return sum_ + correction_; }
  int64_t cleared = 0, undefined = 0;

 private:
  double sum_ = 0, correction_ = 0;
};

bool any_special(const std::vector<double>& gates) {
  return std::any_of(gates.begin(), gates.end(), [](double f) { return !std::isfinite(f); });
}

void accumulate(SlotWrites& w) {
  const bool special = w.has_gates && any_special(w.log_gate);
  w.decaying = w.has_gates && !special && !w.has_common() &&
               std::all_of(w.log_gate.begin(), w.log_gate.end(), [](double f) { return f <= 0; });
  if (special) {
    w.cleared.resize(w.log_gate.size());
    w.undefined.resize(w.log_gate.size());
  }
  w.log_keep.resize(w.log_gate.size());
  for (int slot = 0; slot < (w.shared ? 1 : w.slots); ++slot) {
    RunningGate running;
    for (size_t e = size_t(w.first(slot)); e < size_t(w.last(slot)); ++e) {
      running.add(w.log_gate[e]);
      w.log_keep[e] = w.has_gates ? running.sum() : kNaN;
      if (special) w.cleared[e] = running.cleared, w.undefined[e] = running.undefined;
    }
  }
}

void accumulate_common(const HeadRoutes& routes, SlotWrites& w) {
  const bool special = any_special(routes.common_decay);
  w.common_token = routes.common_token;
  RunningGate running;
  for (const double f : routes.common_decay) {
    running.add(f);
    w.common_keep.push_back(running.sum());
    if (!special) continue;
    w.common_cleared.push_back(running.cleared);
    w.common_undefined.push_back(running.undefined);
  }
}

// Every slot has one entry per row. Where a row writes all slots alike they share the entries of one slot.
void fill_dense(const HeadRoutes& routes, SlotWrites& w) {
  const size_t rows = size_t(routes.rows), copies = routes.alike() ? 1 : size_t(routes.slots);
  w.shared = routes.alike();
  w.period = w.shared ? 0 : routes.rows;
  w.begin.clear();
  for (size_t i = 0; i <= copies; ++i) w.begin.push_back(int64_t(i * rows));
  w.token.resize(rows);
  for (size_t row = 0; row < rows; ++row) w.token[row] = routes.token_of(int64_t(row));
  w.strength.resize(copies * rows);
  w.log_gate.resize(copies * rows);
  for (size_t row = 0; row < rows; ++row)
    for (size_t slot = 0; slot < copies; ++slot) {
      const size_t e = slot * rows + row;
      w.strength[e] = strength_of(routes, int64_t(row), int(slot));
      w.log_gate[e] = w.has_gates ? routes.decay(int64_t(row), int(slot)) : kNaN;
    }
}

// Counting sort by slot: rows come in token order, so every slot's entries do too.
void sort_by_slot(const HeadRoutes& routes, SlotWrites& w) {
  w.begin.assign(size_t(routes.slots) + 1, 0);
  const auto written = [&](size_t at) {
    return routes.index[at] < uint32_t(routes.slots) && routes.weight[at] != 0;
  };
  for (size_t at = 0; at < routes.index.size(); ++at)
    if (written(at)) ++w.begin[routes.index[at] + 1];
  for (size_t i = 0; i < size_t(routes.slots); ++i) w.begin[i + 1] += w.begin[i];
  const size_t entries = size_t(w.begin.back());
  w.token.resize(entries);
  w.rank.resize(entries);
  w.weight.resize(entries);
  w.strength.resize(entries);
  w.log_gate.resize(entries);
  std::vector<int64_t> next(w.begin.begin(), w.begin.end() - 1);
  for (int64_t row = 0; row < routes.rows; ++row) {
    for (int k = 0; k < routes.top_k; ++k) {
      const size_t at = size_t(row * routes.top_k + k);
      if (!written(at)) continue;
      const size_t e = size_t(next[routes.index[at]]++);
      w.token[e] = routes.token_of(row);
      w.rank[e] = k;
      w.weight[e] = routes.weight[at];
      w.strength[e] = strength_of(routes, row, k);
      w.log_gate[e] = w.has_gates ? routes.decay(row, k) * routes.weight[at] : kNaN;
    }
  }
}

// Differences of running values between two entries; `first` is the start of the running sum.
template <class Running>
auto difference(const Running& running, int64_t start, int64_t from, int64_t to) {
  return running[size_t(to - 1)] - (from > start ? running[size_t(from - 1)] : 0);
}

double sum_between(const std::vector<double>& keep, const std::vector<int64_t>& cleared,
                   const std::vector<int64_t>& undefined, int64_t start, int64_t from, int64_t to) {
  if (from == to) return 0;
  if (!undefined.empty() && difference(undefined, start, from, to) > 0) return kNaN;
  if (!cleared.empty() && difference(cleared, start, from, to) > 0)
    return -std::numeric_limits<double>::infinity();
  return difference(keep, start, from, to);
}

// Sum of the common gates over tokens l with a < l <= b; NaN when one of them is not known.
double common_between(const SlotWrites& w, int64_t a, int64_t b) {
  const auto until = [&](int64_t t) {
    if (w.common_token.empty()) return std::clamp<int64_t>(t + 1, 0, int64_t(w.common_keep.size()));
    return int64_t(std::upper_bound(w.common_token.begin(), w.common_token.end(), t) - w.common_token.begin());
  };
  const int64_t from = until(a), to = until(b);
  if (to - from < b - a) return kNaN;
  return sum_between(w.common_keep, w.common_cleared, w.common_undefined, 0, from, to);
}

}  // namespace

void check_routes(const HeadRoutes& r) {
  if (r.slots < 0 || r.top_k < 0 || r.rows < 0 || r.tokens < 0)
    bad_routes(r, "shape", "a negative size", "sizes of at least 0");
  const size_t cells = size_t(r.rows) * size_t(r.top_k);
  check_size(r, "route_index", r.index.size(), r.every_slot ? 0 : cells);
  check_size(r, "route_weight", r.weight.size(), r.every_slot ? 0 : cells);
  if (r.every_slot && r.top_k != r.slots)
    bad_routes(r, "top_k", std::to_string(r.top_k), std::to_string(r.slots) + ", as every slot is written");
  check_size(r, "common log_decay", r.common_token.empty() ? 0 : r.common_decay.size(), r.common_token.size());
  if (r.has_decay())
    check_size(r, "log_decay", r.log_decay.size(), r.per_slot_decay ? cells : size_t(r.rows));
  if (r.has_strength()) check_size(r, "write_strength", r.strength.size(), r.common_strength ? size_t(r.rows) : cells);
  if (r.token.empty()) {
    if (r.rows > r.tokens)
      bad_routes(r, "rows", std::to_string(r.rows), "at most " + std::to_string(r.tokens) + " tokens");
    return;
  }
  check_size(r, "token", r.token.size(), size_t(r.rows));
  int64_t previous = -1;
  for (const int64_t t : r.token) {
    if (t <= previous || t >= r.tokens)
      bad_routes(r, "token", std::to_string(t), "increasing positions below " + std::to_string(r.tokens));
    previous = t;
  }
}

int64_t row_of(const HeadRoutes& routes, int64_t token) {
  if (routes.token.empty()) return token >= 0 && token < routes.rows ? token : -1;
  const auto at = std::lower_bound(routes.token.begin(), routes.token.end(), token);
  return at != routes.token.end() && *at == token ? at - routes.token.begin() : -1;
}

double common_log_keep(const HeadRoutes& routes, int64_t a, int64_t b) {
  if (routes.common_decay.empty()) return 0;
  const auto& tokens = routes.common_token;
  RunningGate sum;
  int64_t counted = 0;
  for (size_t i = 0; i < routes.common_decay.size(); ++i) {
    const int64_t token = tokens.empty() ? int64_t(i) : tokens[i];
    if (token <= a || token > b) continue;
    sum.add(routes.common_decay[i]);
    ++counted;
  }
  if (counted < b - a || sum.undefined > 0) return kNaN;
  return sum.cleared > 0 ? -std::numeric_limits<double>::infinity() : sum.sum();
}

double strength_of(const HeadRoutes& routes, int64_t row, int k) {
  if (routes.has_strength()) return routes.strength_at(row, k);
  // One minus exp literally, as the model computes it (spec: model-zoo 2.3 step 9). A dense layer's strength is a number of
  // its own, which no decay tells.
  return routes.has_decay() && !routes.every_slot
             ? 1 - std::exp(routes.decay(row, k) * routes.weight[size_t(row * routes.top_k + k)])
             : kNaN;
}

SlotWrites group_writes(const HeadRoutes& routes) {
  check_routes(routes);
  SlotWrites w;
  w.slots = routes.slots;
  w.tokens = routes.tokens;
  w.has_gates = routes.has_decay();
  w.captured = ranges_of(routes);
  if (!routes.common_decay.empty()) accumulate_common(routes, w);
  if (routes.every_slot)
    fill_dense(routes, w);
  else
    sort_by_slot(routes, w);
  accumulate(w);
  return w;
}

int64_t SlotWrites::captured_from(int64_t t) const {
  t = std::min(t, tokens - 1);
  const auto after = std::upper_bound(captured.begin(), captured.end(), t,
                                      [](int64_t v, const auto& range) { return v < range.first; });
  if (after == captured.begin()) return t + 1;
  const auto& range = *std::prev(after);
  return t < range.second ? range.first : t + 1;
}

int64_t SlotWrites::captured_until(int64_t t) const {
  constexpr int64_t all = std::numeric_limits<int64_t>::max();
  if (t >= tokens - 1) return all;
  for (const auto& range : captured)
    if (range.first <= t + 1 && t + 1 < range.second) return range.second >= tokens ? all : range.second - 1;
  return t;
}

int64_t SlotWrites::entries_until(int slot, int64_t t) const {
  // Dense: the tokens of every slot are those of the rows.
  const int64_t base = first(slot), shift = period > 0 ? base : 0, length = last(slot) - base;
  const auto from = token.begin() + (base - shift);
  return std::upper_bound(from, from + length, t) - from + base;
}

double SlotWrites::log_keep_between(int slot, int64_t a, int64_t b) const {
  const double own = log_read_keep_between(slot, a, b);
  b = std::min(b, tokens - 1);
  return has_common() && a < b ? own + common_between(*this, a, b) : own;
}

double SlotWrites::log_read_keep_between(int slot, int64_t a, int64_t b) const {
  b = std::min(b, tokens - 1);
  if (a >= b) return 0;
  if (!has_gates || a + 1 < captured_from(b)) return kNaN;
  return sum_between(log_keep, cleared, undefined, first(slot), entries_until(slot, a), entries_until(slot, b));
}

std::vector<double> retained(const SlotWrites& w, int slot, int64_t t) {
  const int64_t first = w.first(slot), last = w.last(slot);
  std::vector<double> share(size_t(last - first), 0);
  const int64_t known = w.captured_from(t);
  double later = 0;  // sum of f over the writes after this one: summed backwards, no differences of prefixes
  for (int64_t e = w.entries_until(slot, t) - 1; e >= first; --e) {
    const bool defined = w.has_gates && w.token_at(e) + 1 >= known;
    const double common = w.has_common() ? common_between(w, w.token_at(e), std::min(t, w.tokens - 1)) : 0;
    share[size_t(e - first)] = defined ? w.strength[size_t(e)] * std::exp(later + common) : kNaN;
    later += w.log_gate[size_t(e)];
  }
  return share;
}

double tokens_held(const SlotWrites& w, int slot, int64_t t) {
  double sum = 0, squares = 0;
  for (const double share : retained(w, slot, t)) {
    sum += share;
    squares += share * share;
  }
  return sum == 0 ? 0 : sum * sum / squares;
}

}  // namespace slotscope::analysis
