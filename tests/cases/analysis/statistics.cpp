#include "core/analysis/memory.h"
#include "tests/cases/analysis/twin.h"
#include "tests/cases/case.h"

using namespace slotscope::analysis;
using slotscope::HeadRoutes;
namespace twin = slotscope::testing::twin;

SLOTSCOPE_CASE(gini_by_hand) {
  CHECK_CLOSE(gini(std::vector<uint32_t>{5, 5, 5, 5}), 0, 1e-15);
  CHECK_CLOSE(gini(std::vector<uint32_t>{0, 8, 0, 0}), 0.75, 1e-15);  // all in one of four: 1 - 1/4
  CHECK_CLOSE(gini(std::vector<uint32_t>{3, 1}), 0.25, 1e-15);        // |3-1| x 2 / (2 x 2^2 x mean 2)
  CHECK_CLOSE(gini(std::vector<uint32_t>{7}), 0, 1e-15);
  CHECK(std::isnan(gini(std::vector<uint32_t>{0, 0})));
  CHECK(std::isnan(gini({})));
}

// Mean absolute difference of all pairs over twice the mean.
SLOTSCOPE_CASE(twin_of_gini) {
  std::mt19937 random(9);
  for (int round = 0; round < 30; ++round) {
    std::vector<uint32_t> x(1 + random() % 40);
    for (auto& v : x) v = random() % 3 == 0 ? 0 : random() % 1000;
    double differences = 0, sum = 0;
    for (const double a : x) {
      sum += a;
      for (const double b : x) differences += std::abs(a - b);
    }
    const double n = double(x.size());
    CHECK(twin::same(gini(x), sum == 0 ? twin::kNaN : differences / (2 * n * sum), 1e-12));
  }
}

// Two tokens on four slots: routes 0.75 0.25 - - and 0.25 - 0.25 - (not summing to one): mean mass 1, 0.25,
// 0.25 of 1.5.
SLOTSCOPE_CASE(by_hand) {
  HeadRoutes r;
  r.slots = 4;
  r.top_k = 2;
  r.rows = r.tokens = 2;
  r.index = {0, 1, 0, 2};
  r.weight = {0.75, 0.25, 0.25, 0.25};
  const RoutingStatistics s = routing_statistics(r, std::vector<double>{0.5, 0.1}, 1);
  CHECK(s.used == 3 && s.dead == 1);
  const double expected = -(2.0 / 3) * std::log(2.0 / 3) - 2 * (1.0 / 6) * std::log(1.0 / 6);
  CHECK_CLOSE(s.entropy, expected, 1e-15);
  CHECK_CLOSE(s.effective_slots, std::exp(expected), 1e-14);
  CHECK_CLOSE(s.gini, 0.375, 1e-15);  // ESL 2 1 1 0: sorted 0 1 1 2 with -3 -1 1 3: 6 / (4 x 4)
  CHECK_CLOSE(s.margin_mean, 0.3, 1e-15);
  CHECK_EQ(s.margin_min, 0.1);
  CHECK_CLOSE(s.tied_share, 0.5, 1e-15);
}

SLOTSCOPE_CASE(uniform_routes) {
  HeadRoutes r;
  r.slots = r.top_k = 8;
  r.rows = r.tokens = 3;
  for (int i = 0; i < 24; ++i) r.index.push_back(uint32_t(i % 8)), r.weight.push_back(0.125);
  const RoutingStatistics s = routing_statistics(r, std::vector<double>{1, 1, 1}, 3);
  CHECK_CLOSE(s.entropy, std::log(8.0), 1e-14);
  CHECK_CLOSE(s.effective_slots, 8, 1e-13);
  CHECK_CLOSE(s.gini, 0, 1e-15);
  CHECK(std::isnan(s.margin_mean) && std::isnan(s.margin_min) &&
        std::isnan(s.tied_share));  // K = M has no cut
}

SLOTSCOPE_CASE(unknown_and_empty) {
  const HeadRoutes r = twin::make({});
  const RoutingStatistics s = routing_statistics(r, {}, -1);
  CHECK(std::isnan(s.margin_mean) && std::isnan(s.margin_min) && std::isnan(s.tied_share));
  CHECK_EQ(routing_statistics(r, std::vector<double>{twin::kNaN, 0.2}, 0).margin_mean,
           0.2);  // a row without a cut
  CHECK_EQ(routing_statistics(r, {}, 0).tied_share, 0.0);
  HeadRoutes nothing;
  nothing.slots = 4;
  nothing.top_k = 2;
  const RoutingStatistics none = routing_statistics(nothing, {}, 0);
  CHECK(none.used == 0 && none.dead == 4);
  CHECK(std::isnan(none.entropy) && std::isnan(none.effective_slots) && std::isnan(none.gini));
  CHECK(std::isnan(none.tied_share));
}

SLOTSCOPE_CASE(twin_of_statistics) {
  for (const auto& problem : twin::problems()) {
    const HeadRoutes r = twin::make(problem);
    const twin::Dense d = twin::dense(r);
    std::vector<double> mean(size_t(d.slots), 0);
    std::vector<uint32_t> esl(size_t(d.slots), 0);
    double total = 0, entropy = 0;
    for (int64_t at = 0; at < d.tokens; ++at)
      for (int i = 0; i < d.slots; ++i)
        mean[size_t(i)] += d.r[d.at(at, i)], esl[size_t(i)] += d.r[d.at(at, i)] != 0;
    for (const double m : mean) total += m;
    for (const double m : mean) entropy -= m > 0 ? m / total * std::log(m / total) : 0;
    const RoutingStatistics s = routing_statistics(r, {}, -1);
    CHECK(twin::same(s.entropy, total > 0 ? entropy : twin::kNaN, 1e-12));
    CHECK_EQ(s.dead, int(std::count(esl.begin(), esl.end(), 0u)));
    CHECK_EQ(s.used, d.slots - s.dead);
    // Counters over all tokens win over what was captured.
    std::vector<uint32_t> counters(size_t(d.slots), 1);
    const RoutingStatistics whole = routing_statistics(r, {}, -1, counters);
    CHECK(whole.used == d.slots && whole.dead == 0);
    CHECK_CLOSE(whole.gini, 0, 1e-15);
  }
}
