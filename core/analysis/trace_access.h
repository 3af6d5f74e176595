// What the analyses of a run take from a trace, head by head.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/trace/trace.h"

namespace slotscope::analysis {

// Throws Error when the run or the layer is not in the trace.
const trace::RunInfo& run_info(const trace::Trace&, int run);
const trace::LayerSpec& layer_spec(const trace::Trace&, int run, int layer);
// "" when the layer has stored routes, else "attention", "not captured: run again with layer 2", ...
std::string why_no_routes(const trace::Trace&, int run, const trace::LayerSpec&);
// Place of a head on an axis that holds only the captured ones. `attribute`: captured_heads or
// captured_route_heads. -1: not there.
int64_t head_place(const trace::LayerSpec&, std::string_view attribute, int head);

// Counters of one head over all tokens; empty when not captured or not of M values.
std::vector<uint32_t> head_counters(const trace::Trace&, int run, const trace::LayerSpec&,
                                    std::string_view field, int head);
// Tied cuts of one head over all tokens; -1 when not captured.
int64_t head_ties(const trace::Trace&, int run, const trace::LayerSpec&, int head);
// Gap at the cut per captured token; empty when not captured.
std::vector<double> head_margin(const trace::Trace&, int run, const trace::LayerSpec&, int head);

// Read softmax of the query heads that read a head's slots.
struct HeadReads {
  std::vector<int64_t> token;  // read tokens
  std::vector<int> heads;      // query heads
  std::vector<double> weight;  // [token, heads, M]
};
// The layer's read tokens; empty when reads were not captured.
std::vector<int64_t> read_tokens(const trace::Trace&, int run, const trace::LayerSpec&);
// Rows [first, first + count) of the read tokens; count < 0: all. Empty when not captured.
HeadReads head_reads(const trace::Trace&, int run, const trace::LayerSpec&, int head, int64_t first = 0,
                     int64_t count = -1);

}  // namespace slotscope::analysis
