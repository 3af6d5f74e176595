#include "core/analysis/raster.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/error.h"

namespace slotscope::analysis {
namespace {

Raster empty_raster(int slots, int64_t first, int64_t last) {
  Raster r;
  r.memory_slots = slots;
  r.slots = std::clamp(slots, 0, kMostRasterSlots);
  r.first = std::max<int64_t>(first, 0);
  r.last = std::clamp(last, r.first, r.first + kMostRasterTokens);
  r.mark.assign(size_t(r.slots) * size_t(r.tokens()), Raster::not_written);
  return r;
}

// First slot of the window's part of a memory that is too long to draw whole.
int first_written(const SlotWrites& writes, int64_t first, int64_t last) {
  for (int slot = 0; slot < writes.slots; ++slot) {
    const int64_t before = writes.entries_until(slot, first - 1), until = writes.entries_until(slot, last - 1);
    if (until > before) return slot;
  }
  return 0;
}

void mark_gaps(Raster& r, const SlotWrites& writes) {
  std::vector<bool> seen(size_t(r.tokens()), false);
  for (const auto& [begin, end] : writes.captured)
    for (int64_t t = std::max(begin, r.first); t < std::min(end, r.last); ++t) seen[size_t(t - r.first)] = true;
  for (int64_t c = 0; c < r.tokens(); ++c)
    if (!seen[size_t(c)])
      for (int64_t row = 0; row < r.slots; ++row) r.mark[size_t(row * r.tokens() + c)] = Raster::not_captured;
}

}  // namespace

Raster measured_raster(const HeadData& head, int64_t first, int64_t last) {
  Raster r = empty_raster(head.routes.slots, std::min(first, head.routes.tokens), std::min(last, head.routes.tokens));
  r.source = Raster::Source::measured;
  if (r.tokens() == 0 || r.slots == 0) {
    r.writes_per_token = std::numeric_limits<double>::quiet_NaN();
    return r;
  }
  if (r.memory_slots > r.slots)
    r.first_slot = std::min(first_written(head.writes, r.first, r.last), r.memory_slots - r.slots);
  mark_gaps(r, head.writes);
  int64_t captured = 0, writes = 0;
  for (int64_t c = 0; c < r.tokens(); ++c) captured += r.at(0, c) != Raster::not_captured;
  for (int slot = 0; slot < r.memory_slots; ++slot) {
    const int64_t end = head.writes.entries_until(slot, r.last - 1);
    for (int64_t e = head.writes.entries_until(slot, r.first - 1); e < end; ++e, ++writes) {
      const int row = slot - r.first_slot;
      if (row >= 0 && row < r.slots)
        r.mark[size_t(row * r.tokens() + head.writes.token_at(e) - r.first)] = Raster::written;
    }
  }
  r.writes_per_token = captured ? double(writes) / double(captured) : std::numeric_limits<double>::quiet_NaN();
  return r;
}

Raster dense_raster(int slots, int64_t first, int64_t last) {
  Raster r = empty_raster(slots, first, last);
  std::fill(r.mark.begin(), r.mark.end(), uint8_t(Raster::written));
  r.writes_per_token = slots;
  return r;
}

Raster fifo_raster(int slots, int64_t first, int64_t last) {
  if (slots <= 0) throw Error({.item = "ring", .found = std::to_string(slots) + " slots", .expected = "at least 1"});
  Raster r = empty_raster(slots, first, last);
  for (int64_t t = r.first; t < r.last; ++t)
    if (const int64_t slot = t % slots; slot < r.slots) r.mark[size_t(slot * r.tokens() + t - r.first)] = Raster::written;
  r.writes_per_token = 1;
  return r;
}

}  // namespace slotscope::analysis
