// Two runs side by side (design: section 12 "Compare"): which tokens and slots correspond, how much of the key
// each head still holds, and where the answers part. "A" and "B" throughout; positions are tokens of the run
// they are named after.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/analysis/head_data.h"

namespace slotscope::analysis {

// How the tokens of two runs correspond.
struct TokenAlignment {
  // The prompts hold the same ids (and bytes): token t of A is token t of B, behind the prompt too, where the
  // answers may differ.
  bool same_tokens = false;
  // What is to be said about it: "" when same_tokens, else "Different tokens ...: linked by character offset".
  std::string note;
  int64_t tokens_a = 0, tokens_b = 0;
  std::vector<int64_t> to_b, to_a;  // [T of A], [T of B]; -1: nothing corresponds. Empty with same_tokens.

  int64_t b_of(int64_t token) const;  // -1: nothing corresponds
  int64_t a_of(int64_t token) const;
  // The half-open range of B that shows the same text as [first, last) of A; the same range with same_tokens,
  // also where one of the runs has ended. And back.
  std::pair<int64_t, int64_t> b_range(int64_t first, int64_t last) const;
  std::pair<int64_t, int64_t> a_range(int64_t first, int64_t last) const;
};
// With equal prompt ids by position. Otherwise by character offset: a token goes with the token that holds its
// first character; one without characters (<bos>) with one of its kind at the same place, else with what
// follows there. Prompt tokens have the offsets stored in the trace, generated ones those of their decoded
// bytes after the text; a run without text takes the decoded bytes of all its tokens, special ones having none.
// Without either by position, and `note` says so.
TokenAlignment align_tokens(const trace::RunInfo& a, const trace::RunInfo& b);

// Slots of A and B that are read alike. overlap = sum over the read tokens that both runs captured of
// min(p_A[t,i], p_B[t,j]), p being the mean of the head's query heads.
struct RowMatch {
  struct Pair {
    int a = 0, b = 0;
    double overlap = 0;
  };
  std::vector<Pair> pairs;           // largest overlap first
  std::vector<int> only_a, only_b;   // slots without a partner, increasing
  std::vector<int> b_of_a, a_of_b;   // [M of A], [M of B]; -1: no partner
  int64_t read_tokens = 0;           // how many were compared
  std::string why;                   // why nothing could be matched; "" when something could
};
// Greedy: the pair with the largest overlap above 0 first (ties to the lower slot of A, then of B), each slot
// once. At most kMostMatchedSlots slots each. Empty, with why = "cancelled", when progress asks to stop.
constexpr int kMostMatchedSlots = 2048;
RowMatch match_rows(const HeadData& a, const HeadData& b, const TokenAlignment&, Progress* progress = nullptr);

// A - B, cell by cell.
struct DifferenceRequest {
  Quantity quantity = Quantity::write_strength;
  struct Row {
    int a = -1, b = -1;  // slots; -1: none, the other one is shown alone (B with a minus)
  };
  std::vector<Row> rows;        // in display order
  int64_t first = 0, last = 0;  // half-open token range
  int64_t reference_a = 0, reference_b = 0;  // tokens for survival and read attribution
  int max_rows = 2048;
  int64_t tokens_per_column = 1;  // at least; more where the picture would have over 16384 columns
};
// Why the two cannot be subtracted, or "".
std::string why_no_difference(const HeadData& a, const HeadData& b, const TokenAlignment&, const RowMatch&);
// A cell that one of the two did not write counts as 0 there, except survival, which is defined only where
// both have it. Columns show the difference of the largest magnitude, with its sign. Cells are compared in the
// single precision that pictures have: a difference below 2^-23 of the larger of the two is 0. NaN and
// infinities win their column as in reduce(). Requires same tokens. Empty when progress asks to stop.
SlotGrid difference_grid(const HeadData& a, const HeadData& b, const DifferenceRequest&,
                         Progress* progress = nullptr);

// "Is the key still there?": the mean over the key's tokens that wrote anything of
// sum_i s[j,i] exp(sum_{j<l<=t} f_l[i]) / sum_i s[j,i] (raven-analysis "Survival"), from the last of them on.
// At the query this is HeadSummary::key_survival.
struct KeyCurve {
  int64_t first = 0;           // token of left[0]: the last token of the key
  std::vector<double> left;    // at first, first + 1, ..., T - 1; NaN where unknown
  int64_t query = -1;          // -1: the run ends before it
  double at_query = 0;         // NaN when unknown
  std::string why;             // why there is no curve; then left is empty
};
// `roles` as in key_tokens.
KeyCurve key_curve(const HeadData&, const trace::RunInfo&, const std::vector<uint8_t>* roles = nullptr);

// One generated token.
struct AnswerStep {
  int64_t position = 0;
  int32_t id = 0;
  std::string bytes;          // decoded; "" when the trace does not know them (the last one is not fed)
  bool bytes_known = false;
  double p = 0;               // NaN: not among the captured candidates
  std::string expected;       // the answer's bytes in its place; "" where `right` is unknown
  std::optional<bool> right;  // against the expected answer; nothing past its end or where it is scored by search
};
std::vector<AnswerStep> answer_steps(const trace::RunInfo&);
// Step by step: position of A, or of B where A has none left. By step, not by position, when prompts differ.
struct StepDifference {
  int64_t position = 0;
  std::optional<AnswerStep> a, b;
};
std::vector<StepDifference> step_differences(const trace::RunInfo& a, const trace::RunInfo& b);
// The smallest p of the steps; NaN when none is known.
double least_certain(const std::vector<AnswerStep>& steps);

}  // namespace slotscope::analysis
