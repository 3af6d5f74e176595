// Everything the views show about one head, computed once in a worker from a trace. Immutable; shared between views.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/analysis/allocation.h"
#include "core/analysis/esl.h"
#include "core/analysis/grid.h"
#include "core/analysis/memory.h"
#include "core/trace/trace.h"

namespace slotscope::analysis {

struct HeadData {
  int run = 0, layer = 0, head = 0;       // head that owns slots
  HeadRoutes routes;
  SlotWrites writes;
  EslResult esl;
  HeadAllocation allocation;
  RoutingStatistics statistics;
  // Read softmax of the query heads that read this head's slots, at the captured read tokens. Empty when not captured.
  std::vector<int64_t> read_token;
  std::vector<int> read_heads;             // query heads of this group
  std::vector<double> read_weight;         // [read_token, read_heads, M]
  // p over slots at `token` for query head `h` (one of read_heads); empty when not captured there.
  std::vector<double> reads_at(int64_t token, int h) const;
};

// Reads and analyses one head. Throws Error when the layer has no routes (says why: attention, not captured).
std::shared_ptr<const HeadData> load_head(const trace::Trace&, int run, int layer, int head,
                                          const AllocationOptions& = {}, const EslOptions& = {}, Progress* = nullptr);

// One line per head for navigators, grids and statistics; heads without routes have `why`.
struct HeadSummary {
  int layer = 0, head = 0;
  std::string mixer;
  bool has_routes = false;
  std::string why;                         // "attention", "not captured: run again with layer 2"
  EslResult esl;
  HeadAllocation allocation;
  RoutingStatistics statistics;
  double mean_write_strength = 0;
  double key_survival = 0;                 // mean survival of the key's tokens at the query; NaN when undefined
  double read_mass_on_key = 0;             // attribution to the key at the query; NaN when undefined
};
struct RunSummary {
  int run = 0;
  int layers = 0, heads = 0;               // grid size: all layers, most route heads
  std::vector<HeadSummary> head_list;      // layer-major
  std::vector<int> by_score;               // positions in head_list, best retrieval score first (NaN last)
  // What to select first (design 1.2): with task spans the head with the highest retrieval score and, in it, the
  // retrieval-only slot and key token with the strongest surviving read; else highest Gini, longest slot, last token.
  struct First { int layer = 0, head = 0, slot = 0; int64_t token = 0; } first;
};
RunSummary summarise(const trace::Trace&, int run, const AllocationOptions& = {}, const EslOptions& = {},
                     Progress* = nullptr);

// The query's reference position: the last prompt token.
int64_t query_token(const trace::RunInfo&);

}  // namespace slotscope::analysis
