// Which slots each token writes: the router raster (spec: raven-analysis, "Figures", 1; Raven Fig. 1).
#pragma once

#include <cstdint>
#include <vector>

#include "core/analysis/head_data.h"

namespace slotscope::analysis {

struct Raster {
  enum class Source { measured, rule };
  enum Mark : uint8_t { not_written = 0, written = 1, not_captured = 2 };

  Source source = Source::rule;
  int first_slot = 0, slots = 0;  // rows: slots [first_slot, first_slot + slots)
  int64_t first = 0, last = 0;    // columns: tokens [first, last)
  int memory_slots = 0;           // M of the whole memory, whatever part is shown
  std::vector<uint8_t> mark;      // [slots, last - first], row-major
  // Mean over the captured tokens of the window of how many of the M slots a token writes (r != 0); NaN when none was
  // captured.
  double writes_per_token = 0;

  int64_t tokens() const { return last - first; }
  uint8_t at(int64_t row, int64_t column) const { return mark[size_t(row * tokens() + column)]; }
};

// Most tokens of one raster: beyond that cells are thinner than a printed dot.
inline constexpr int64_t kMostRasterTokens = 1024;
// Most slots that are drawn one by one; a longer memory shows the part around what the window writes.
inline constexpr int kMostRasterSlots = 1024;

// The head's real routes over [first, last), cut to the run and to kMostRasterTokens. A memory of more than kMostRasterSlots
// slots shows kMostRasterSlots of them from the first one on that the window writes (attention without a window: the
// positions of the window itself).
Raster measured_raster(const HeadData&, int64_t first, int64_t last);
// Reference by rule: every token writes all of `slots` slots (an SSM, GSA, ABC).
Raster dense_raster(int slots, int64_t first, int64_t last);
// Reference by rule: token t writes slot t mod `slots` (a sliding window of that many tokens).
Raster fifo_raster(int slots, int64_t first, int64_t last);

}  // namespace slotscope::analysis
