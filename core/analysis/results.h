// Everything `slotscope-cli analyze` reports about one run, as plain structs. Names are those of the field;
// nulls are NaN. Definitions: raven-analysis.
#pragma once

#include <string>
#include <vector>

#include "core/analysis/head_data.h"

namespace slotscope::analysis {

struct AnalyseOptions {
  AllocationOptions allocation;
  EslOptions esl;
  std::vector<uint8_t> roles;  // replaces the run's own roles; empty: those of the trace
  std::vector<int> layers;     // empty: all
  int top_tokens = 8;          // most read tokens named per read
  int max_reads = 16;  // read tokens attributed per head, the query first, then by position from the query on
};

// One slot of one head. Held and retained are at the end of the run and at the query.
struct SlotReport {
  int slot = 0;
  uint32_t esl = 0;           // writes with r != 0
  uint32_t selected = 0;      // selections; = esl when unknown (see HeadReport::selections_known)
  double normalised_esl = 0;  // esl / tokens
  Regime regime = Regime::empty;
  SlotClass slot_class = SlotClass::empty;
  int64_t written = 0;    // n: routed tokens (threshold applied)
  int64_t retrieval = 0;  // n_R
  double specialisation = 0;
  double tokens_held = 0;  // (sum w)^2 / sum w^2 at the last token
  double tokens_held_at_query = 0;
  double retained = 0;                        // sum w at the last token = 1 - exp(sum f)
  int64_t first_write = -1, last_write = -1;  // tokens; -1: never
};

// A key token's writes and what is left of them at the query.
struct KeyTokenReport {
  int64_t token = 0;
  double written = 0;   // sum_i s[token,i]
  double survival = 0;  // at the query
  std::vector<KeyWrite> slots;
};

struct ReadTokenWeight {
  int64_t token = 0;
  double weight = 0;  // A[t, token]
};
// Read attribution of one query head at one read token.
struct ReadReport {
  int64_t token = 0;
  int head = 0;                      // query head
  double on_key = 0;                 // sum of A over the key's tokens
  double on_retrieval = 0;           // sum of A over tokens with role 1
  double read_of_nothing = 0;        // 1 - sum_j A
  std::vector<ReadTokenWeight> top;  // largest magnitude first
};

struct HeadReport {
  HeadSummary summary;  // layer, head, mixer, why, ESL with fit, allocation, statistics, mean write strength,
                        // key_survival, read_mass_on_key: the same numbers as in the window
  int slots = 0, top_k = 0;
  int64_t captured_tokens = 0;  // rows; fewer than the run's tokens with --tokens
  bool selections_known = false;
  int64_t underflowed = 0;       // selections whose weight is 0: sum of selected - esl; 0 when unknown
  std::vector<SlotReport> slot;  // [M]
  std::vector<KeyTokenReport> key;
  std::vector<ReadReport> reads;
};

struct AnalysisReport {
  int run = 0;
  std::string name;
  int64_t tokens = 0, planned_tokens = 0, prompt_tokens = 0;
  int64_t query = -1;            // reference token; -1: none
  bool query_reached = false;    // false: the trace ends before the query
  int64_t retrieval_tokens = 0;  // tokens with role 1 among those fed
  std::vector<int64_t> key_tokens;
  AllocationOptions allocation;
  EslOptions esl;
  int layers = 0;
  std::vector<HeadReport> heads;     // layer-major; those without routes say why
  std::vector<int> by_score;         // positions in heads, best retrieval score first (NaN last)
  std::vector<int> retrieval_heads;  // positions in heads with score >= allocation.retrieval_head, best first
  RunSummary::First first;           // what the window selects first
  std::vector<std::string>
      notes;  // "attribution for the first 16 of 300 read tokens", "ends before the query"
};

// Stage "reading routes", detail "layer 2 of 4". heads is empty when progress asked to stop. Throws Error for
// a run or layer that is not in the trace and for damaged data.
AnalysisReport analyse(const trace::Trace&, int run, const AnalyseOptions& options = {},
                       Progress* progress = nullptr);

}  // namespace slotscope::analysis
