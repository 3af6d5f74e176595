#include "core/analysis/allocation.h"

#include <tuple>

#include "core/analysis/memory.h"
#include "tests/cases/analysis/twin.h"
#include "tests/cases/case.h"

using namespace slotscope::analysis;
using slotscope::HeadRoutes;
namespace twin = slotscope::testing::twin;
using Classes = std::vector<SlotClass>;
using Numbers = std::vector<int64_t>;

namespace {

// Tokens 0..5, roles 0 1 1 0 0 1, five slots, top 2, strengths given:
//   t   0        1        2        3        4        5
//   i:s 0:.1 1:.2  1:.4 2:.5  2:.3 0:0*  0:.2 3:0u  0:.6 3:0u  2:.7 1:.1
// 0* has r != 0 and s = 0 (strength underflowed: a write), 0u has r = 0 (weight underflowed: no write).
//   slot 0: n = 4 (0, 2, 3, 4), n_R = 1 -> shared;  slot 1: n = 3 (0, 1, 5), n_R = 2 -> shared;
//   slot 2: n = 3, n_R = 3 -> retrieval only;  slot 3, 4: empty.
HeadRoutes by_hand() {
  HeadRoutes r;
  r.layer = 2;
  r.head = 1;
  r.slots = 5;
  r.top_k = 2;
  r.rows = r.tokens = 6;
  r.index = {0, 1, 1, 2, 2, 0, 0, 3, 0, 3, 2, 1};
  r.weight = {0.5, 0.5, 0.5, 0.5, 1, 1e-300, 1, 0, 1, 0, 0.5, 0.5};
  r.strength = {0.1, 0.2, 0.4, 0.5, 0.3, 0, 0.2, 0, 0.6, 0, 0.7, 0.1};
  return r;
}
const std::vector<uint8_t> kRoles{0, 1, 1, 0, 0, 1};

}  // namespace

SLOTSCOPE_CASE(by_hand_strict) {
  const HeadAllocation a = allocate(by_hand(), kRoles);
  CHECK(a.layer == 2 && a.head == 1 && !a.partial);
  CHECK_EQ(a.written, (Numbers{4, 3, 3, 0, 0}));
  CHECK_EQ(a.retrieval, (Numbers{1, 2, 3, 0, 0}));
  CHECK_EQ(a.slot_class, (Classes{SlotClass::shared, SlotClass::shared, SlotClass::retrieval,
                                  SlotClass::empty, SlotClass::empty}));
  CHECK_EQ(a.order, (std::vector<int>{2, 0, 1, 3, 4}));
  CHECK(a.counts[0] == 1 && a.counts[1] == 2 && a.counts[2] == 0 && a.counts[3] == 2);
  CHECK_EQ(a.max_written, int64_t(4));
  // Slot 1: (0.4 + 0.1) / 0.7. Score: retrieval tokens write .4 .5 .3 0 .7 .1 = 2.0, in slot 2 .5 + .3 + .7
  // = 1.5.
  CHECK_CLOSE(a.specialisation[0], 0, 1e-15);
  CHECK_CLOSE(a.specialisation[1], 5.0 / 7, 1e-15);
  CHECK_CLOSE(a.specialisation[2], 1, 1e-15);
  CHECK(std::isnan(a.specialisation[3]));
  CHECK_CLOSE(a.head_score, 0.75, 1e-15);
  CHECK(a.retrieval_head);
}

SLOTSCOPE_CASE(by_hand_threshold_and_tau) {
  // s >= 0.2: slot 0 keeps tokens 3, 4 (other only), slot 1 tokens 0, 1 (half), slot 2 all.
  const HeadAllocation a = allocate(by_hand(), kRoles, {.threshold = 0.2});
  CHECK_EQ(a.written, (Numbers{2, 2, 3, 0, 0}));
  CHECK_EQ(a.retrieval, (Numbers{0, 1, 3, 0, 0}));
  CHECK_EQ(a.slot_class[0], SlotClass::other);
  CHECK_EQ(a.order, (std::vector<int>{2, 1, 0, 3, 4}));
  // Threshold above everything: all empty, nothing lands in a retrieval-only slot, specialisation stays.
  const HeadAllocation none = allocate(by_hand(), kRoles, {.threshold = 2});
  CHECK_EQ(none.counts[3], 5);
  CHECK_EQ(none.head_score, 0.0);
  CHECK(!none.retrieval_head);
  CHECK_CLOSE(none.specialisation[1], 5.0 / 7, 1e-15);
  // tau = 1/4: slot 0 has share 1/4 <= tau, other only. tau = 1/3: slot 1 has share 2/3 >= 1 - tau, retrieval
  // only.
  CHECK_EQ(allocate(by_hand(), kRoles, {.tau = 0.25}).slot_class[0], SlotClass::other);
  CHECK_EQ(allocate(by_hand(), kRoles, {.tau = 0.25}).slot_class[1], SlotClass::shared);
  CHECK_EQ(allocate(by_hand(), kRoles, {.tau = 0.34}).slot_class[1], SlotClass::retrieval);
  // The cut that makes a retrieval head is inclusive.
  CHECK(allocate(by_hand(), kRoles, {.retrieval_head = 0.75}).retrieval_head);
  CHECK(!allocate(by_hand(), kRoles, {.retrieval_head = 0.7501}).retrieval_head);
}

SLOTSCOPE_CASE(without_strengths) {
  HeadRoutes r = by_hand();
  r.strength.clear();
  const HeadAllocation a = allocate(r, kRoles, {.threshold = 0.5});  // threshold cannot be applied
  CHECK_EQ(a.written, (Numbers{4, 3, 3, 0, 0}));
  CHECK(std::isnan(a.head_score) && !a.retrieval_head);
  CHECK(std::isnan(a.specialisation[0]) && std::isnan(a.specialisation[2]));
}

SLOTSCOPE_CASE(no_roles) {
  const HeadAllocation a = allocate(by_hand(), {});
  CHECK_EQ(a.counts[size_t(SlotClass::other)], 3);
  CHECK(std::isnan(a.head_score) && !a.retrieval_head);
  HeadRoutes nothing;
  const HeadAllocation empty = allocate(nothing, kRoles);
  CHECK(empty.order.empty() && std::isnan(empty.head_score) && empty.max_written == 0);
}

SLOTSCOPE_CASE(twin_of_allocation) {
  for (const auto& problem : twin::problems()) {
    const HeadRoutes r = twin::make(problem);
    const twin::Dense d = twin::dense(r);
    const std::vector<uint8_t> roles = twin::roles(d.tokens, problem.seed);
    for (const AllocationOptions options :
         {AllocationOptions{}, {.threshold = 0.05}, {.threshold = 0.2, .tau = 0.3}}) {
      const HeadAllocation a = allocate(r, roles, options);
      CHECK_EQ(a.partial, problem.restricted);
      double landed = 0, total = 0;
      int64_t most = 0;
      Classes classes;
      for (int i = 0; i < d.slots; ++i) {
        int64_t n = 0, n_retrieval = 0;
        double strength = 0, strength_retrieval = 0;
        for (int64_t j = 0; j < d.tokens; ++j) {
          const double s = d.s[d.at(j, i)];
          const bool retrieval = roles[size_t(j)] == 1;
          strength += s;
          strength_retrieval += retrieval ? s : 0;
          if (d.r[d.at(j, i)] != 0 && s >= options.threshold) ++n, n_retrieval += retrieval;
        }
        const double share = n == 0 ? twin::kNaN : double(n_retrieval) / double(n);
        classes.push_back(n == 0                     ? SlotClass::empty
                          : share >= 1 - options.tau ? SlotClass::retrieval
                          : share <= options.tau     ? SlotClass::other
                                                     : SlotClass::shared);
        CHECK_EQ(a.written[size_t(i)], n);
        CHECK_EQ(a.retrieval[size_t(i)], n_retrieval);
        CHECK(twin::same(a.specialisation[size_t(i)],
                         strength == 0 ? twin::kNaN : strength_retrieval / strength, 1e-12));
        most = std::max(most, n);
        total += strength_retrieval;
        if (classes.back() == SlotClass::retrieval) landed += strength_retrieval;
      }
      CHECK_EQ(a.slot_class, classes);
      CHECK_EQ(a.max_written, most);
      CHECK(twin::same(a.head_score, total == 0 ? twin::kNaN : landed / total, 1e-12));
      CHECK_EQ(a.retrieval_head, total != 0 && landed / total >= 0.1);
      // The order: every slot once, classes in turn, n from high to low, slots upwards among equals.
      std::vector<int> seen(size_t(d.slots), 0);
      for (size_t i = 0; i < a.order.size(); ++i) {
        const size_t slot = size_t(a.order[i]);
        ++seen[slot];
        if (i == 0) continue;
        const size_t before = size_t(a.order[i - 1]);
        const auto key = [&](size_t s) { return std::tuple(int(a.slot_class[s]), -a.written[s], s); };
        CHECK(key(before) < key(slot));
      }
      CHECK_EQ(seen, std::vector<int>(size_t(d.slots), 1));
      for (int c = 0; c < 4; ++c)
        CHECK_EQ(a.counts[c], int(std::count(classes.begin(), classes.end(), SlotClass(c))));
    }
  }
}
