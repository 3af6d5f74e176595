#include "core/analysis/allocation.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/analysis/memory.h"

namespace slotscope::analysis {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

SlotClass classify(int64_t written, int64_t retrieval, double tau) {
  if (written == 0) return SlotClass::empty;
  const double share = double(retrieval) / double(written);
  if (share >= 1 - tau) return SlotClass::retrieval;
  if (share <= tau) return SlotClass::other;
  return SlotClass::shared;
}

// Write strength per slot, of all tokens and of those with role retrieval.
struct Strengths {
  std::vector<double> all, retrieval;
};

Strengths count(const HeadRoutes& routes, std::span<const uint8_t> roles, double threshold,
                HeadAllocation& out) {
  const bool known = routes.has_strength() || (routes.has_decay() && !routes.every_slot);
  Strengths sums{std::vector<double>(size_t(routes.slots), 0), std::vector<double>(size_t(routes.slots), 0)};
  // Slots that are written alike have the same counts: one of them is counted for all.
  const int ranks = routes.alike() ? std::min(routes.top_k, 1) : routes.top_k;
  for (int64_t row = 0; row < routes.rows; ++row) {
    const size_t token = size_t(routes.token_of(row));
    const bool retrieval = token < roles.size() && roles[token] == 1;
    for (int k = 0; k < ranks; ++k) {
      const size_t slot = routes.slot_at(row, k);
      if (slot >= size_t(routes.slots) || routes.weight_at(row, k) == 0) continue;
      const double s = strength_of(routes, row, k);
      sums.all[slot] += s;
      if (retrieval) sums.retrieval[slot] += s;
      if (known && s < threshold) continue;
      ++out.written[slot];
      if (retrieval) ++out.retrieval[slot];
    }
  }
  if (!routes.alike() || routes.slots < 1) return sums;
  const auto repeat = [](auto& list) { std::fill(list.begin() + 1, list.end(), list.front()); };
  repeat(sums.all), repeat(sums.retrieval), repeat(out.written), repeat(out.retrieval);
  return sums;
}

}  // namespace

HeadAllocation allocate(const HeadRoutes& routes, std::span<const uint8_t> roles,
                        const AllocationOptions& options) {
  check_routes(routes);
  const size_t slots = size_t(routes.slots);
  HeadAllocation out;
  out.layer = routes.layer;
  out.head = routes.head;
  out.partial = routes.rows < routes.tokens;
  out.written.assign(slots, 0);
  out.retrieval.assign(slots, 0);
  const Strengths strength = count(routes, roles, options.threshold, out);

  out.slot_class.resize(slots);
  out.specialisation.resize(slots);
  double landed = 0, total = 0;
  for (size_t i = 0; i < slots; ++i) {
    out.slot_class[i] = classify(out.written[i], out.retrieval[i], options.tau);
    ++out.counts[size_t(out.slot_class[i])];
    out.max_written = std::max(out.max_written, out.written[i]);
    out.specialisation[i] = strength.all[i] == 0 ? kNaN : strength.retrieval[i] / strength.all[i];
    total += strength.retrieval[i];
    if (out.slot_class[i] == SlotClass::retrieval) landed += strength.retrieval[i];
  }
  out.head_score = total == 0 || !routes.no_score.empty() ? kNaN : landed / total;
  out.retrieval_head = out.head_score >= options.retrieval_head;

  out.order.resize(slots);
  std::iota(out.order.begin(), out.order.end(), 0);
  std::stable_sort(out.order.begin(), out.order.end(), [&](int a, int b) {
    const size_t x = size_t(a), y = size_t(b);
    return out.slot_class[x] != out.slot_class[y] ? out.slot_class[x] < out.slot_class[y]
                                                  : out.written[x] > out.written[y];
  });
  return out;
}

}  // namespace slotscope::analysis
