#include "core/analysis/raster.h"

#include "core/error.h"

#include "tests/cases/analysis/twin.h"
#include "tests/cases/case.h"

using namespace slotscope::analysis;
using namespace slotscope::testing;

namespace {

HeadData head_of(const twin::Options& options) {
  HeadData head;
  head.routes = twin::make(options);
  head.writes = group_writes(head.routes);
  return head;
}

// Straight from the definition: filled where r != 0.
void compare(slotscope::testing::Context& t, const HeadData& head, const Raster& r) {
  const auto& routes = head.routes;
  std::vector<uint8_t> expected(size_t(r.slots) * size_t(r.tokens()), Raster::not_captured);
  int64_t captured = 0, writes = 0;
  for (int64_t row = 0; row < routes.rows; ++row) {
    const int64_t token = routes.token_of(row);
    if (token < r.first || token >= r.last) continue;
    ++captured;
    for (int i = 0; i < r.slots; ++i) expected[size_t(i * r.tokens() + token - r.first)] = Raster::not_written;
    for (int k = 0; k < routes.top_k; ++k) {
      const size_t e = size_t(row * routes.top_k + k);
      if (routes.index[e] >= uint32_t(routes.slots) || routes.weight[e] == 0) continue;
      expected[size_t(int64_t(routes.index[e]) * r.tokens() + token - r.first)] = Raster::written;
      ++writes;
    }
  }
  CHECK_EQ(r.mark, expected);
  CHECK_CLOSE(r.writes_per_token, double(writes) / double(captured), 1e-15);
}

}  // namespace

SLOTSCOPE_CASE(measured_cells_are_the_writes) {
  for (unsigned seed = 1; seed <= 20; ++seed)
    for (const bool gaps : {false, true}) {
      const HeadData head = head_of({.padding = seed % 2 == 0, .restricted = gaps, .seed = seed});
      for (const auto& [first, last] : {std::pair<int64_t, int64_t>{0, 60}, {7, 33}, {40, 60}}) {
        const Raster r = measured_raster(head, first, last);
        CHECK(r.source == Raster::Source::measured && r.first_slot == 0 && r.slots == 12 && r.memory_slots == 12);
        CHECK(r.first == first && r.last == last);
        compare(t, head, r);
      }
    }
}

SLOTSCOPE_CASE(windows_are_cut_to_the_run_and_the_limit) {
  const HeadData head = head_of({});
  const Raster r = measured_raster(head, 50, 900);
  CHECK(r.first == 50 && r.last == 60);
  const Raster none = measured_raster(head, 60, 70);
  CHECK(none.tokens() == 0 && none.mark.empty() && std::isnan(none.writes_per_token));
  const Raster backwards = measured_raster(head, 30, 10);
  CHECK_EQ(backwards.tokens(), 0);
  const Raster gap = measured_raster(head_of({.restricted = true}), 49, 55);  // nothing captured there
  CHECK(std::isnan(gap.writes_per_token));
  for (const uint8_t mark : gap.mark) CHECK_EQ(int(mark), int(Raster::not_captured));
  CHECK_EQ(dense_raster(8, 0, 1'000'000).tokens(), kMostRasterTokens);
}

SLOTSCOPE_CASE(references_follow_their_rules) {
  const Raster dense = dense_raster(6, 10, 30), ring = fifo_raster(6, 10, 30);
  CHECK(dense.source == Raster::Source::rule && ring.source == Raster::Source::rule);
  CHECK_EQ(dense.writes_per_token, 6.0);
  CHECK_EQ(ring.writes_per_token, 1.0);
  for (int64_t c = 0; c < 20; ++c)
    for (int slot = 0; slot < 6; ++slot) {
      CHECK_EQ(int(dense.at(slot, c)), int(Raster::written));
      CHECK_EQ(int(ring.at(slot, c)), int((10 + c) % 6 == slot ? Raster::written : Raster::not_written));
    }
  CHECK_ERROR(fifo_raster(0, 0, 4), "0 slots");
}

// A memory that grows (slot t is token t): the window's own slots are shown.
SLOTSCOPE_CASE(a_long_memory_shows_what_the_window_writes) {
  HeadData head;
  head.routes.slots = 5000;
  head.routes.top_k = 1;
  head.routes.tokens = head.routes.rows = 5000;
  for (uint32_t i = 0; i < 5000; ++i) head.routes.index.push_back(i), head.routes.weight.push_back(1);
  head.writes = group_writes(head.routes);
  const Raster r = measured_raster(head, 3000, 3200);
  CHECK(r.first_slot == 3000 && r.slots == kMostRasterSlots && r.memory_slots == 5000);
  CHECK_EQ(r.writes_per_token, 1.0);
  for (int64_t c = 0; c < 200; ++c)
    for (int row = 0; row < 200; ++row) CHECK_EQ(int(r.at(row, c)), int(row == c ? Raster::written : Raster::not_written));
  CHECK_EQ(measured_raster(head, 4900, 5000).first_slot, 5000 - kMostRasterSlots);
}
