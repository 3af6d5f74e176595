#include "views/prompt_values.h"

#include <algorithm>
#include <cmath>

namespace slotscope::views {

std::vector<double> writesIntoSlot(const analysis::HeadData& head, int slot) {
  std::vector<double> values(size_t(head.routes.tokens), 0.0);
  const auto& w = head.writes;
  if (slot < 0 || slot >= w.slots) return values;
  const bool strengths = head.routes.has_strength();
  for (int64_t e = w.first(slot); e < w.last(slot); ++e)
    if (size_t(w.token_at(e)) < values.size())
      values[size_t(w.token_at(e))] = strengths ? w.strength[size_t(e)] : w.weight_at(e);
  return values;
}

std::vector<double> totalWrites(const analysis::HeadData& head) {
  std::vector<double> values(size_t(head.routes.tokens), 0.0);
  const auto& r = head.routes;
  for (int64_t row = 0; row < r.rows; ++row) {
    double& sum = values[size_t(r.token_of(row))];
    if (r.alike()) {  // one number for all slots
      sum = r.slots > 0 ? r.slots * (r.has_strength() ? r.strength_at(row, 0) : 1) : 0;
      continue;
    }
    for (int k = 0; k < r.top_k; ++k) sum += r.has_strength() ? r.strength_at(row, k) : r.weight_at(row, k);
  }
  return values;
}

std::vector<double> survivalOfAll(const analysis::HeadData& head, int64_t t) {
  const auto& w = head.writes;
  if (!w.has_gates || !head.routes.has_strength()) return {};
  std::vector<double> left(size_t(head.routes.tokens), 0.0), written(left.size(), 0.0);
  // Slots that are written alike keep the same share.
  for (int slot = 0; slot < (w.shared ? std::min(w.slots, 1) : w.slots); ++slot) {
    // Backwards: gate sums of what came later, without differences of large sums.
    double later = 0;
    for (int64_t e = w.entries_until(slot, t) - 1; e >= w.first(slot); --e) {
      const double keep = w.has_common() ? w.log_keep_between(slot, w.token_at(e), t) : later;
      left[size_t(w.token_at(e))] += w.strength[size_t(e)] * std::exp(keep);
      written[size_t(w.token_at(e))] += w.strength[size_t(e)];
      later += w.log_gate[size_t(e)];
    }
  }
  for (size_t j = 0; j < left.size(); ++j)
    left[j] = int64_t(j) <= t && written[j] > 0 ? left[j] / written[j] : std::nan("");
  return left;
}

std::vector<double> attributionOf(const analysis::HeadData& head, int64_t t, int slot) {
  std::vector<double> most;
  for (const int h : head.read_heads) {
    const auto a = head.attribution(t, h, slot);
    if (a.weight.empty()) continue;
    if (most.empty()) most.assign(size_t(head.routes.tokens), 0.0);
    for (size_t j = 0; j < a.weight.size() && j < most.size(); ++j)
      if (!(std::abs(a.weight[j]) <= std::abs(most[j]))) most[j] = a.weight[j];
  }
  return most;
}

}  // namespace slotscope::views
