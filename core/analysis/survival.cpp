// Survival of a token's writes and what a read is made of (spec: raven-analysis "Survival", "Read
// attribution", "Overlap").
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "core/analysis/memory.h"
#include "core/error.h"

namespace slotscope::analysis {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// The slots a token wrote to (r != 0) with its strengths.
std::vector<std::pair<int, double>> written_slots(const HeadRoutes& routes, int64_t token) {
  std::vector<std::pair<int, double>> out;
  const int64_t row = row_of(routes, token);
  if (row < 0) return out;
  for (int k = 0; k < routes.top_k; ++k)
    if (routes.slot_at(row, k) < uint32_t(routes.slots) && routes.weight_at(row, k) != 0)
      out.emplace_back(int(routes.slot_at(row, k)), strength_of(routes, row, k));
  return out;
}

// left[t - first] = exp(sum of f over (token, t]) for one slot. Constant between writes, so one exp per
// write.
std::vector<double> left_over_time(const SlotWrites& w, int slot, int64_t token, int64_t first,
                                   int64_t last) {
  std::vector<double> left(size_t(last - first + 1), kNaN);
  if (!w.has_gates) return left;
  const int64_t end = std::min(w.captured_until(token), last);
  int64_t e = w.entries_until(slot, token);
  const int64_t stop = w.last(slot);
  double sum = 0, value = 1;
  for (int64_t t = std::max(token, first); t <= end; ++t) {
    bool changed = false;
    for (; e < stop && w.token_at(e) <= t; ++e) {
      sum += w.log_gate[size_t(e)];
      changed = true;
    }
    if (w.has_common())
      value = std::exp(w.log_keep_between(slot, token, t));
    else if (changed)
      value = std::exp(sum);
    left[size_t(t - first)] = value;
  }
  return left;
}

}  // namespace

double survival(const HeadRoutes& routes, const SlotWrites& writes, int64_t token, int64_t t) {
  if (t < token) return kNaN;
  double kept = 0, total = 0;
  for (const auto& [slot, strength] : written_slots(routes, token)) {
    kept += strength * std::exp(writes.log_keep_between(slot, token, t));
    total += strength;
  }
  return total == 0 ? kNaN : kept / total;
}

std::vector<SlotSurvival> slot_survival_curves(const HeadRoutes& routes, const SlotWrites& writes,
                                               int64_t token, int64_t first, int64_t last) {
  std::vector<SlotSurvival> out;
  if (last < first) return out;
  for (const auto& [slot, strength] : written_slots(routes, token))
    out.push_back({slot, strength, left_over_time(writes, slot, token, first, last)});
  return out;
}

std::vector<double> survival_curve(const HeadRoutes& routes, const SlotWrites& writes, int64_t token,
                                   int64_t first, int64_t last) {
  if (last < first) return {};
  std::vector<double> kept(size_t(last - first + 1), 0);
  double total = 0;
  for (const SlotSurvival& s : slot_survival_curves(routes, writes, token, first, last)) {
    for (size_t i = 0; i < kept.size(); ++i) kept[i] += s.strength * s.left[i];
    total += s.strength;
  }
  for (double& v : kept) v = total == 0 ? kNaN : v / total;
  return kept;
}

Attribution read_attribution(const SlotWrites& w, std::span<const double> read_weight, int64_t t) {
  if (read_weight.size() != size_t(w.slots))
    throw Error({.item = "read weight",
                 .found = std::to_string(read_weight.size()) + " values",
                 .expected = std::to_string(w.slots) + " (one for each slot)"});
  if (t < 0 || t >= w.tokens)
    throw Error(
        {.item = "token", .found = std::to_string(t), .expected = "0 to " + std::to_string(w.tokens - 1)});
  Attribution out;
  out.weight.assign(size_t(t + 1), 0);
  const int64_t known = w.captured_from(t);
  // Token known - 1 was not captured: what it wrote is unknown, and so is what it left of everything before
  // it.
  for (int64_t j = 0; j <= t && (!w.has_gates || j < known); ++j) out.weight[size_t(j)] = kNaN;
  for (int slot = 0; slot < w.slots; ++slot) {
    const double p = read_weight[size_t(slot)];
    double later = 0;
    for (int64_t e = w.entries_until(slot, t) - 1; e >= w.first(slot); --e) {
      out.weight[size_t(w.token_at(e))] += p * w.strength[size_t(e)] * std::exp(later);
      later += w.log_gate[size_t(e)];
    }
  }
  double sum = 0;
  for (const double a : out.weight) sum += a;
  out.read_of_nothing = 1 - sum;
  return out;
}

namespace {

// Sum over slots that both rows routed to; the others contribute 0 to both overlaps.
template <class Value, class Combine>
double overlap(const HeadRoutes& routes, int64_t a, int64_t b, Value value, Combine combine) {
  const auto row = [&](int64_t r) {
    std::vector<std::pair<uint32_t, double>> out;
    for (int k = 0; k < routes.top_k; ++k)
      if (const uint32_t slot = routes.slot_at(r, k); slot < uint32_t(routes.slots))
        out.emplace_back(slot, value(r, k));
    std::sort(out.begin(), out.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
    return out;
  };
  const auto left = row(a), right = row(b);
  double sum = 0;
  for (auto x = left.begin(), y = right.begin(); x != left.end() && y != right.end();) {
    if (x->first < y->first)
      ++x;
    else if (y->first < x->first)
      ++y;
    else
      sum += combine((x++)->second, (y++)->second);
  }
  return sum;
}

double smaller(double a, double b) { return std::isnan(a) || std::isnan(b) ? kNaN : std::min(a, b); }

}  // namespace

std::string overlap_constant(const HeadRoutes& routes) {
  if (!routes.every_slot) return "";
  return "every token's route is 1 in all " + std::to_string(routes.slots) +
         " slots, so route overlap is the same for every pair: write overlap compares the strengths";
}

double overlap_min(const HeadRoutes& routes, int64_t a, int64_t b) {
  const auto r = [&](int64_t row, int k) { return routes.weight_at(row, k); };
  return overlap(routes, a, b, r, smaller);
}

double overlap_dot(const HeadRoutes& routes, int64_t a, int64_t b) {
  const auto r = [&](int64_t row, int k) { return routes.weight_at(row, k); };
  return overlap(routes, a, b, r, [](double x, double y) { return x * y; });
}

double write_overlap(const HeadRoutes& routes, int64_t a, int64_t b) {
  if (!routes.has_strength() && !routes.has_decay()) return kNaN;
  return overlap(
      routes, a, b, [&](int64_t row, int k) { return strength_of(routes, row, k); }, smaller);
}

}  // namespace slotscope::analysis
