// The numbers of a sweep: what one prompt gives per head, and accuracy, ESL and head scores of each model against length and depth
// (spec: raven-analysis, figure 6; Raven Fig. 4 and Table 2).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/analysis/allocation.h"
#include "core/trace/sweep_file.h"

namespace slotscope::analysis {

// [heads of the model, kSweepValues] of run `run` of the sink, which needs tokens/roles and, of layers with sparse routes,
// route_index, route_weight, esl and write_strength. Layers that write by rule (dense: every slot; ring: slot t mod W; append: slot
// t; r = 1) need nothing. NaN where a quantity is undefined: no strength was captured, nothing retrieved was written, or the layer
// has `why`.
std::vector<double> sweep_heads(const trace::MemorySink& sink, int run, const trace::SweepModel& model,
                                const AllocationOptions& options = {});

// Two-sided Clopper-Pearson (exact binomial) interval of `right` out of `count` at `confidence` (0..1). count = 0: 0 to 1.
struct Interval {
  double low = 0, high = 1;
};
Interval clopper_pearson(int64_t right, int64_t count, double confidence);

// Mean over prompts, NaN ones left out; NaN when there is none.
struct SweepCell {
  int64_t length = 0;        // tokens
  double depth = -1;         // of the grid; -1: all depths
  int64_t prompts = 0, exact = 0;
  double accuracy = 0;       // exact / prompts; NaN without prompts
  Interval interval;         // Clopper-Pearson at the table's confidence
  double answer_right = 0;   // mean share of the answer that was right before the first wrong token
  // Means over prompts and heads.
  double esl_mean = 0, esl_longest = 0, esl_shortest = 0, esl_gini = 0, slots_used = 0;
  // The head whose score is highest on average over the prompts.
  double head_score = 0;
  int best_layer = -1, best_head = -1;
  int retrieval_heads = 0;   // heads whose mean score is at least AllocationOptions::retrieval_head
};

struct SweepModelTable {
  std::string name, family;
  bool by_rule = false;            // every measured layer writes by rule: ESL and score follow from the family alone
  std::vector<SweepCell> lengths;  // one per length, all depths together
  std::vector<SweepCell> grid;     // length-major, one per length and depth; empty when depths are uniform
  std::vector<std::string> why;    // "layer 3 is mom: ...": layers without numbers
};

struct SweepTable {
  double confidence = 0.95;
  std::vector<SweepModelTable> models;
  std::vector<std::string> notes;  // "prompts differ between models at length 512: other tokenizers", "37 of 100 prompts done"
};

// The same prompts are expected of all models; a note says where they are not (digests differ, or prompts are missing).
SweepTable sweep_table(const trace::Sweep& sweep, double confidence = 0.95, const AllocationOptions& options = {});

// One line per model, length and depth ("all" without a grid, and for the sum over it), with a header.
std::string sweep_csv(const trace::Sweep& sweep, const SweepTable& table);

}  // namespace slotscope::analysis
