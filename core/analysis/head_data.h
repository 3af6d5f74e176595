// Everything the views show about one head, computed once in a worker from a trace. Immutable; shared between
// views.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/analysis/allocation.h"
#include "core/analysis/attribution.h"
#include "core/analysis/esl.h"
#include "core/analysis/grid.h"
#include "core/analysis/memory.h"
#include "core/analysis/pyramid.h"
#include "core/trace/trace.h"

namespace slotscope::analysis {

inline constexpr int kMostMatrixReads = 64;

struct HeadData {
  int run = 0, layer = 0, head = 0;  // head that owns slots
  HeadRoutes routes;
  SlotWrites writes;
  EslResult esl;
  HeadAllocation allocation;
  RoutingStatistics statistics;
  // Read softmax of the query heads that read this head's slots, at the captured read tokens. Empty when not
  // captured.
  std::vector<int64_t> read_token;
  std::vector<int> read_heads;      // query heads of this group
  std::vector<double> read_weight;  // [read_token, read_heads, M]
  // Of a matrix state, which has no read softmax: read_token are then the captured tokens from the query on (at most
  // kMostMatrixReads), read_heads its query heads, and read_weight is empty.
  std::shared_ptr<const MatrixReads> matrix;
  std::shared_ptr<const MemoryReads> memories;  // of routed memories (mom), likewise
  // Rows of A differ between slots (Mamba's channels, mom's memories): there is none of the head as a whole.
  bool attribution_by_slot() const { return memories || (matrix && (matrix->per_channel() || matrix->skip_varies())); }
  std::string no_attribution;  // why there is no read attribution; "" where there is

  // A[t, j], j = 0..t, of query head `h` in any family; `channel`: the slot where attribution_by_slot().
  // weight is empty where nothing was captured at `t`.
  Attribution attribution(int64_t t, int h, int channel = 0) const;
  // p over slots at `token` for query head `h` (one of read_heads); empty when not captured there.
  std::vector<double> reads_at(int64_t token, int h) const;
  // The mean of reads_at over read_heads; empty when not captured there.
  std::vector<double> mean_reads_at(int64_t token) const;

  // The picture of `request` with the window widened to whole columns (align, pyramid.h), through a pyramid
  // where that is faster; read_weight as in reduce_reads. Safe from several threads. This is what views
  // should draw.
  SlotGrid grid(const GridRequest& request, Progress* progress = nullptr) const;
  std::shared_ptr<GridCache> grids = std::make_shared<GridCache>();
};

// The read softmax of one query head as slots x tokens: a cell at every captured read token of the window,
// the rest not routed. request.reference is not used. Throws Error when `h` is none of read_heads.
SlotGrid reduce_reads(const HeadData&, int h, const GridRequest& request, Progress* progress = nullptr);

// Reads and analyses one head. Stage "reading routes". Throws Error when the layer has no routes (says why:
// attention, not captured). Null when progress asks to stop. `roles` replaces the run's own roles (brushed
// ones). ESL uses the counters stored in the trace, which cover all tokens; without them the captured tokens
// are counted and esl.tokens is their number. Used, dead and Gini follow ESL; entropy, margin and allocation
// cover captured tokens.
std::shared_ptr<const HeadData> load_head(const trace::Trace&, int run, int layer, int head,
                                          const AllocationOptions& = {}, const EslOptions& = {},
                                          Progress* = nullptr, const std::vector<uint8_t>* roles = nullptr);

// One line per head for navigators, grids and statistics; heads without routes have `why`.
struct HeadSummary {
  int layer = 0, head = 0;
  std::string mixer;
  bool has_routes = false;
  std::string why;  // "attention", "not captured: run again with layer 2"
  EslResult esl;
  HeadAllocation allocation;
  RoutingStatistics statistics;
  double mean_write_strength = 0;  // of s over all writes (r != 0); NaN when there are none or s is unknown
  // Mean survival of the key's tokens at the query, over those that wrote anything; NaN when undefined.
  double key_survival = 0;
  // sum_j A[query, j] over the key's tokens, mean of the head's query heads; NaN when undefined.
  double read_mass_on_key = 0;
};
struct RunSummary {
  int run = 0;
  int layers = 0, heads = 0;           // grid size: all layers, most route heads
  std::vector<HeadSummary> head_list;  // layer-major
  std::vector<int> by_score;           // positions in head_list, best retrieval score first (NaN last)
  // What to select first (design 1.2): with task spans the head with the highest retrieval score and, in it,
  // the retrieval-only slot i and key token j with the strongest surviving read p[t,i] s[j,i]
  // exp(sum_{j<l<=t} f_l[i]) over the read tokens t from the query on (mean of the query heads; without reads
  // p = 1 and t = the query); else highest Gini, longest slot, last token.
  struct First {
    int layer = 0, head = 0, slot = 0;
    int64_t token = 0;
  } first;
};
// Stage "reading routes", detail "layer 2 of 4"; one head in memory at a time. head_list is empty when
// progress asked to stop. `roles` replaces the run's own roles; the key's tokens are then the role-1 tokens
// up to the query. `layers`: only these.
RunSummary summarise(const trace::Trace&, int run, const AllocationOptions& = {}, const EslOptions& = {},
                     Progress* = nullptr, const std::vector<uint8_t>* roles = nullptr,
                     std::span<const int> layers = {});

// The query's reference position: the last prompt token (in a trace that ends before it, the last token there
// is; -1 for none).
int64_t query_token(const trace::RunInfo&);
// The tokens that hold what is asked for, up to the query: those of spans named "value", else of those named "key" (the
// password task, whose key is the answer), else those with role 1; increasing. `roles` replaces all of them.
std::vector<int64_t> key_tokens(const trace::RunInfo&, const std::vector<uint8_t>* roles = nullptr);

// What the key's tokens wrote and what is left of it.
struct KeyWrite {
  int64_t token = 0;
  int slot = 0;
  double strength = 0;  // s
  double left = 0;      // exp(sum_{token<l<=at} f_l[slot]); NaN when unknown
  double read_left = 0;  // the same without gates common to all slots, which a read softmax has in itself
};
// Writes (r != 0) of `tokens` (increasing, <= at), in token and then rank order. One pass over the rows up to
// `at`.
std::vector<KeyWrite> key_writes(const HeadRoutes&, std::span<const int64_t> tokens, int64_t at);

}  // namespace slotscope::analysis
