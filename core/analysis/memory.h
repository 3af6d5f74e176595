// What a slot still holds, survival, read attribution, overlap (spec: raven-analysis "Definitions"). All sums in double.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/routes.h"

namespace slotscope::analysis {

// The writes of one head, regrouped by slot, with running log keeps: everything below is a lookup in it.
// Slot i's writes are entries [begin[i], begin[i+1]), in token order.
struct SlotWrites {
  int slots = 0;
  int64_t tokens = 0;
  std::vector<int64_t> begin;    // [M+1]
  std::vector<int64_t> token;    // position of the write
  std::vector<int32_t> rank;     // rank in the token's route
  std::vector<double> weight;    // r
  std::vector<double> strength;  // s
  std::vector<double> log_gate;  // f = a r
  std::vector<double> log_keep;  // sum of f over this slot's writes up to and including this one
  bool has_gates = false;        // decay was captured: survival and attribution are defined

  // sum of f of slot i over tokens l with a < l <= b
  double log_keep_between(int slot, int64_t a, int64_t b) const;
};
SlotWrites group_writes(const HeadRoutes& routes);

// Retained share of each write of slot i at time t: w = s exp(sum of later f up to t). Same order as the slot's entries; writes
// after t get 0.
std::vector<double> retained(const SlotWrites&, int slot, int64_t t);
// Participation ratio (sum w)^2 / sum w^2 at time t; 0 for an empty slot.
double tokens_held(const SlotWrites&, int slot, int64_t t);

// Survival of token j at time t: sum_i s[j,i] exp(sum_{j<l<=t} f_l[i]) / sum_i s[j,i]. NaN (null) if nothing was written or t < j.
double survival(const HeadRoutes&, const SlotWrites&, int64_t token, int64_t t);
// The curve t = first..last (inclusive), and per slot of the token's route: the exponential alone.
std::vector<double> survival_curve(const HeadRoutes&, const SlotWrites&, int64_t token, int64_t first, int64_t last);

struct Attribution {
  std::vector<double> weight;    // A[t,j], j = 0..t
  double read_of_nothing = 0;    // 1 - sum_j A[t,j]
};
// read_weight: p over the M slots at token t of one query head that reads this head's slots.
Attribution read_attribution(const SlotWrites&, std::span<const double> read_weight, int64_t t);

// sum_i min(r_a[i], r_b[i]) and sum_i r_a[i] r_b[i] between two captured rows.
double overlap_min(const HeadRoutes&, int64_t row_a, int64_t row_b);
double overlap_dot(const HeadRoutes&, int64_t row_a, int64_t row_b);
// sum_i min(s_a[i], s_b[i])
double write_overlap(const HeadRoutes&, int64_t row_a, int64_t row_b);

struct RoutingStatistics {
  int used = 0, dead = 0;
  double entropy = 0;            // nats, of the mean route normalised to 1
  double effective_slots = 0;    // e^H
  double gini = 0;               // of ESL over all M slots
  double margin_mean = 0, margin_min = 0;  // NaN when not captured or K = M
  double tied_share = 0;         // share of tied cuts; NaN when unknown
};
// margin: [rows] or empty; ties: count or -1.
RoutingStatistics routing_statistics(const HeadRoutes&, std::span<const double> margin, int64_t ties);

}  // namespace slotscope::analysis
