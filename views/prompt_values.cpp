#include "views/prompt_values.h"

#include <algorithm>
#include <cmath>

namespace slotscope::views {

std::vector<double> writesIntoSlot(const analysis::HeadData& head, int slot) {
  std::vector<double> values(size_t(head.routes.tokens), 0.0);
  const auto& w = head.writes;
  if (slot < 0 || slot >= w.slots) return values;
  const bool strengths = head.routes.has_strength();
  for (auto e = size_t(w.begin[size_t(slot)]); e < size_t(w.begin[size_t(slot) + 1]); ++e)
    if (size_t(w.token[e]) < values.size())
      values[size_t(w.token[e])] = strengths ? w.strength[e] : w.weight[e];
  return values;
}

std::vector<double> totalWrites(const analysis::HeadData& head) {
  std::vector<double> values(size_t(head.routes.tokens), 0.0);
  const auto& r = head.routes;
  const auto& from = r.has_strength() ? r.strength : r.weight;
  for (int64_t row = 0; row < r.rows; ++row)
    for (int k = 0; k < r.top_k; ++k)
      if (const auto at = size_t(row * r.top_k + k); at < from.size())
        values[size_t(r.token_of(row))] += from[at];
  return values;
}

std::vector<double> survivalOfAll(const analysis::HeadData& head, int64_t t) {
  const auto& w = head.writes;
  if (!w.has_gates || !head.routes.has_strength()) return {};
  std::vector<double> left(size_t(head.routes.tokens), 0.0), written(left.size(), 0.0);
  for (int slot = 0; slot < w.slots; ++slot) {
    const auto begin = size_t(w.begin[size_t(slot)]), end = size_t(w.begin[size_t(slot) + 1]);
    const auto last =
        size_t(std::upper_bound(w.token.begin() + begin, w.token.begin() + end, t) - w.token.begin());
    // Backwards: gate sums of what came later, without differences of large sums.
    double later = 0;
    for (size_t e = last; e-- > begin;) {
      left[size_t(w.token[e])] += w.strength[e] * std::exp(later);
      written[size_t(w.token[e])] += w.strength[e];
      later += w.log_gate[e];
    }
  }
  for (size_t j = 0; j < left.size(); ++j)
    left[j] = int64_t(j) <= t && written[j] > 0 ? left[j] / written[j] : std::nan("");
  return left;
}

std::vector<double> attributionOf(const analysis::HeadData& head, int64_t t) {
  std::vector<double> most;
  for (const int h : head.read_heads) {
    const auto p = head.reads_at(t, h);
    if (p.empty() || !head.writes.has_gates) continue;
    const auto a = analysis::read_attribution(head.writes, p, t);
    if (most.empty()) most.assign(size_t(head.routes.tokens), 0.0);
    for (size_t j = 0; j < a.weight.size() && j < most.size(); ++j) most[j] = std::max(most[j], a.weight[j]);
  }
  return most;
}

}  // namespace slotscope::views
