// What a slot still holds, survival, read attribution, overlap (spec: raven-analysis "Definitions"). All sums
// in double.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/routes.h"

namespace slotscope::analysis {

// The writes of one head, regrouped by slot, with running log keeps: everything below is a lookup in it.
// Slot i's writes are entries [first(i), last(i)), in token order: the tokens with r != 0, so there are
// ESL of them when every token was captured. Selections whose weight underflowed to 0 change nothing in the
// memory and are left out. Dense layers: every slot has one entry per row; rank and weight are implied, and where all slots
// of a row are written alike (matrix states) they share the same entries.
struct SlotWrites {
  int slots = 0;
  int64_t tokens = 0;
  bool shared = false;           // entries [0, begin[1]) are those of every slot
  int64_t period = 0;            // dense, not shared: entry e is row e % period and token has `period` values
  std::vector<int64_t> begin;    // [M+1]; shared: [2]
  std::vector<int64_t> token;    // position of the write: read it through token_at
  std::vector<int32_t> rank;     // rank in the token's route; empty: the slot itself (dense)
  std::vector<double> weight;    // r; empty: 1 (dense)
  std::vector<double> strength;  // s; NaN when unknown
  std::vector<double> log_gate;  // f = a r; NaN when unknown
  // Sum of the finite f over this slot's writes up to and including this one (compensated sum).
  std::vector<double> log_keep;
  bool has_gates = false;  // decay was captured: survival and attribution are defined
  bool decaying = false;   // has_gates and every f is finite and <= 0: keeps only fall with time
  // Half-open token ranges that were captured. What happened in between is unknown: survival across a gap is
  // NaN.
  std::vector<std::pair<int64_t, int64_t>> captured;
  // Running counts over a slot's writes of f = -inf (the slot was cleared: keep = 0) and of f = NaN or +inf.
  // Empty: none.
  std::vector<int64_t> cleared, undefined;
  // Gates common to all slots at every token, HeadRoutes::common_decay, as running sums and counts by row of common_token.
  std::vector<double> common_keep;
  std::vector<int64_t> common_token, common_cleared, common_undefined;

  int64_t first(int slot) const { return shared ? 0 : begin[size_t(slot)]; }
  int64_t last(int slot) const { return shared ? begin[1] : begin[size_t(slot) + 1]; }
  int64_t token_at(int64_t e) const { return token[size_t(period > 0 ? e % period : e)]; }
  double weight_at(int64_t e) const { return weight.empty() ? 1 : weight[size_t(e)]; }
  int64_t count() const { return shared ? int64_t(slots) * begin[1] : begin.back(); }  // writes of all slots
  bool has_common() const { return !common_keep.empty(); }

  // sum of f of slot i over tokens l with a < l <= b: 0 when a >= b, -inf when the slot was cleared, NaN when
  // gates are unknown or undefined there or a token of the range was not captured. Tokens from T on do not
  // exist and add nothing.
  double log_keep_between(int slot, int64_t a, int64_t b) const;
  // The same without the gates common to all slots: what stands beside a read weight, which has those in itself.
  double log_read_keep_between(int slot, int64_t a, int64_t b) const;
  // Smallest c such that every token in [c, t] was captured; t + 1 when t was not. t is taken as at most
  // T - 1.
  int64_t captured_from(int64_t t) const;
  // Largest e such that every token in (t, e] was captured; t when t + 1 was not, INT64_MAX when all later
  // ones were.
  int64_t captured_until(int64_t t) const;
  // One past the last entry of slot i with token <= t.
  int64_t entries_until(int slot, int64_t t) const;
};
// Linear in rows x K (in rows where a dense layer writes all slots alike). Throws Error when the arrays do not fit each other or tokens are not strictly
// increasing in [0, T).
SlotWrites group_writes(const HeadRoutes& routes);
// The row of a token, or -1 when it was not captured.
int64_t row_of(const HeadRoutes&, int64_t token);
// sum of HeadRoutes::common_decay over tokens l with a < l <= b; NaN when one of them was not captured, 0 without such gates.
double common_log_keep(const HeadRoutes&, int64_t a, int64_t b);
// s of one entry: as captured, else 1 - exp(a r), else NaN.
double strength_of(const HeadRoutes&, int64_t row, int k);
// Throws Error when the arrays do not fit each other (see HeadRoutes) or tokens are not strictly increasing
// in [0, T).
void check_routes(const HeadRoutes&);

// Retained share of each write of slot i at time t: w = s exp(sum of later f up to t). Same order as the
// slot's entries; writes after t get 0. NaN where unknown. The shares of a slot sum to 1 - exp(sum f).
std::vector<double> retained(const SlotWrites&, int slot, int64_t t);
// Participation ratio (sum w)^2 / sum w^2 at time t; 0 for an empty slot.
double tokens_held(const SlotWrites&, int slot, int64_t t);

// Survival of token j at time t: sum_i s[j,i] exp(sum_{j<l<=t} f_l[i]) / sum_i s[j,i]. NaN (null) if nothing
// was written or t < j.
double survival(const HeadRoutes&, const SlotWrites&, int64_t token, int64_t t);
// The curve t = first..last (inclusive), and per slot of the token's route: the exponential alone.
std::vector<double> survival_curve(const HeadRoutes&, const SlotWrites&, int64_t token, int64_t first,
                                   int64_t last);
struct SlotSurvival {
  int slot = 0;
  double strength = 0;       // s of the token in this slot
  std::vector<double> left;  // exp(sum_{token<l<=t} f_l[slot]) for t = first..last; NaN before the token
};
std::vector<SlotSurvival> slot_survival_curves(const HeadRoutes&, const SlotWrites&, int64_t token,
                                               int64_t first, int64_t last);

struct Attribution {
  std::vector<double> weight;  // A[t,j], j = 0..t
  double read_of_nothing = 0;  // 1 - sum_j A[t,j]: read from empty or faded slots
};
// read_weight: p over the M slots at token t of one query head that reads this head's slots. Raven, "Read
// attribution": A[t,j] = sum_i p_i s[j,i] exp(sum_{j<l<=t} f_l[i]). Tokens from which the way to t was not
// captured get NaN, and then read_of_nothing is NaN too. Throws Error unless read_weight has M values and 0
// <= t < T.
Attribution read_attribution(const SlotWrites&, std::span<const double> read_weight, int64_t t);

// Why overlap_min and overlap_dot say nothing about these routes (every token's route is the same), with what to look at
// instead; "" where they do.
std::string overlap_constant(const HeadRoutes&);
// sum_i min(r_a[i], r_b[i]) and sum_i r_a[i] r_b[i] between two captured rows.
double overlap_min(const HeadRoutes&, int64_t row_a, int64_t row_b);
double overlap_dot(const HeadRoutes&, int64_t row_a, int64_t row_b);
// sum_i min(s_a[i], s_b[i])
double write_overlap(const HeadRoutes&, int64_t row_a, int64_t row_b);

struct RoutingStatistics {
  int used = 0, dead = 0;
  double entropy = 0;                      // nats, of the mean route normalised to 1
  double effective_slots = 0;              // e^H
  double gini = 0;                         // of ESL over all M slots
  double margin_mean = 0, margin_min = 0;  // NaN when not captured or K = M
  double tied_share = 0;                   // share of tied cuts; NaN when unknown
};
// margin: [rows] or empty, NaN rows had no cut and are passed over; ties: count over all T tokens or -1.
// `esl`: counters over all tokens [M] for used, dead and Gini; empty: counted from the routes. Entropy and
// Gini are NaN when nothing was written.
RoutingStatistics routing_statistics(const HeadRoutes&, std::span<const double> margin, int64_t ties,
                                     std::span<const uint32_t> esl = {});
// Gini coefficient of counts over all of them: 0 = even, 1 - 1/n = everything in one. NaN when all are 0.
double gini(std::span<const uint32_t> counts);

}  // namespace slotscope::analysis
