// Slot allocation by role, specialisation and head score (spec: raven-analysis; Raven Figs 6, 7).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/routes.h"

namespace slotscope::analysis {

enum class SlotClass : uint8_t { retrieval, shared, other, empty };

struct AllocationOptions {
  double threshold = 0;         // least write strength for "routed to"
  double tau = 0;               // 0: strict
  double retrieval_head = 0.1;  // head score that makes a retrieval head
};

struct HeadAllocation {
  int layer = 0, head = 0;
  std::vector<int64_t> written;       // [M] n: routed tokens
  std::vector<int64_t> retrieval;     // [M] n_R: those with role retrieval
  std::vector<SlotClass> slot_class;  // [M]
  std::vector<int> order;  // retrieval | shared | other | empty; inside a class by n high to low, then slot
  int counts[4] = {0, 0, 0, 0};  // slots per class, SlotClass order
  int64_t max_written = 0;
  std::vector<double> specialisation;  // [M], NaN (null) when nothing was written or strengths are unknown
  double head_score = 0;  // NaN when undefined (no retrieval token written, strengths unknown, HeadRoutes::no_score)
  bool retrieval_head = false;
  bool partial = false;  // some tokens were not captured: counts cover the captured ones only
};

// roles: [T] of the run (0 other, 1 retrieval; tokens past its end are other). Without strengths a routed
// token counts when r != 0 (threshold ignored). A write whose strength is NaN counts as routed, as it does in
// ESL. Strength sums (specialisation, head score) run over all writes, below the threshold too.
HeadAllocation allocate(const HeadRoutes& routes, std::span<const uint8_t> roles,
                        const AllocationOptions& options = {});

}  // namespace slotscope::analysis
