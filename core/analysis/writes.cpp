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
void accumulate(SlotWrites& w) {
  const auto odd = [](double f) { return !std::isfinite(f); };
  const bool special = w.has_gates && std::any_of(w.log_gate.begin(), w.log_gate.end(), odd);
  w.decaying = w.has_gates && !special &&
               std::all_of(w.log_gate.begin(), w.log_gate.end(), [](double f) { return f <= 0; });
  if (special) {
    w.cleared.resize(w.token.size());
    w.undefined.resize(w.token.size());
  }
  for (int slot = 0; slot < w.slots; ++slot) {
    double sum = 0, correction = 0;
    int64_t cleared = 0, undefined = 0;
    for (size_t e = size_t(w.begin[size_t(slot)]); e < size_t(w.begin[size_t(slot) + 1]); ++e) {
      const double f = w.log_gate[e];
      if (std::isfinite(f)) {
        const double next = sum + f;
        correction += std::abs(sum) >= std::abs(f) ? (sum - next) + f : (f - next) + sum;
        sum = next;
      } else if (f == -std::numeric_limits<double>::infinity()) {
        ++cleared;
      } else {
        ++undefined;
      }
      w.log_keep[e] = w.has_gates ? sum + correction : kNaN;
      if (special) w.cleared[e] = cleared, w.undefined[e] = undefined;
    }
  }
}

}  // namespace

void check_routes(const HeadRoutes& r) {
  if (r.slots < 0 || r.top_k < 0 || r.rows < 0 || r.tokens < 0)
    bad_routes(r, "shape", "a negative size", "sizes of at least 0");
  const size_t cells = size_t(r.rows) * size_t(r.top_k);
  check_size(r, "route_index", r.index.size(), cells);
  check_size(r, "route_weight", r.weight.size(), cells);
  if (r.has_decay())
    check_size(r, "log_decay", r.log_decay.size(), r.per_slot_decay ? cells : size_t(r.rows));
  if (r.has_strength()) check_size(r, "write_strength", r.strength.size(), cells);
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

double strength_of(const HeadRoutes& routes, int64_t row, int k) {
  const size_t at = size_t(row * routes.top_k + k);
  if (routes.has_strength()) return routes.strength[at];
  // One minus exp literally, as the model computes it (spec: model-zoo 2.3 step 9).
  return routes.has_decay() ? 1 - std::exp(routes.decay(row, k) * routes.weight[at]) : kNaN;
}

SlotWrites group_writes(const HeadRoutes& routes) {
  check_routes(routes);
  SlotWrites w;
  w.slots = routes.slots;
  w.tokens = routes.tokens;
  w.has_gates = routes.has_decay();
  w.captured = ranges_of(routes);
  // Counting sort by slot: rows come in token order, so every slot's entries do too.
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
  w.log_keep.resize(entries);
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
  const auto first = token.begin() + begin[size_t(slot)], last = token.begin() + begin[size_t(slot) + 1];
  return std::upper_bound(first, last, t) - token.begin();
}

double SlotWrites::log_keep_between(int slot, int64_t a, int64_t b) const {
  b = std::min(b, tokens - 1);
  if (a >= b) return 0;
  if (!has_gates || a + 1 < captured_from(b)) return kNaN;
  const int64_t first = entries_until(slot, a), last = entries_until(slot, b);
  if (first == last) return 0;
  const auto between = [&](const auto& running) {
    return running[size_t(last - 1)] - (first > begin[size_t(slot)] ? running[size_t(first - 1)] : 0);
  };
  if (!undefined.empty() && between(undefined) > 0) return kNaN;
  if (!cleared.empty() && between(cleared) > 0) return -std::numeric_limits<double>::infinity();
  return between(log_keep);
}

std::vector<double> retained(const SlotWrites& w, int slot, int64_t t) {
  const int64_t first = w.begin[size_t(slot)], last = w.begin[size_t(slot) + 1];
  std::vector<double> share(size_t(last - first), 0);
  const int64_t known = w.captured_from(t);
  double later = 0;  // sum of f over the writes after this one: summed backwards, no differences of prefixes
  for (int64_t e = w.entries_until(slot, t) - 1; e >= first; --e) {
    const bool defined = w.has_gates && w.token[size_t(e)] + 1 >= known;
    share[size_t(e - first)] = defined ? w.strength[size_t(e)] * std::exp(later) : kNaN;
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
