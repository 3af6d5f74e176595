// The overlap of one head of a trace as a file of results, kind "ramnet-overlap" (resources/result-format.md).
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/analysis/overlap.h"

namespace slotscope::analysis {

inline constexpr char kOverlapKind[] = "ramnet-overlap";

// Whole matrices are stored for windows of at most this many tokens, pixels of longer ones.
inline constexpr int64_t kMostWholeTokens = 4096;

struct OverlapOptions {
  int run = 0, layer = 0, head = 0;                     // head that owns slots
  std::optional<std::pair<int64_t, int64_t>> window;    // half-open range of tokens, for t and s; all
  OverlapKind kind = OverlapKind::dot;
  AddressDials dials;
  int pixels = 1024;                                    // of longer windows, along each axis
  std::shared_ptr<const trace::Trace> against;          // its token-to-token weights beside; null: none
  int against_run = 0, against_layer = 0, against_head = 0;  // query head
};

struct DivergenceSummary {
  std::string of;  // "overlap", "induced": the student
  std::string to;  // "induced", "attention": the teacher
  RowDivergences rows;
};
// What the file holds besides the matrices.
struct OverlapReport {
  int64_t t0 = 0, t1 = 0, tokens = 0, captured = 0;
  int slots = 0, top_k = 0;
  bool whole = true;             // matrices, not pixels
  std::string no_induced;        // why there are no induced weights; "" where there are
  int64_t common_tokens = -1;    // with `against`
  double largest_overlap = 0, mean_overlap = 0;   // over the known pairs s <= t of the window
  double mean_overlap_sum = 0, mean_induced_sum = 0;  // of a row; NaN when not known
  std::vector<DivergenceSummary> divergences;
};
// Computes and writes; nothing is left behind when it throws Error (no routes, no read addresses, dials that cannot be answered, a
// window outside the run, other tokens in `against`, the file exists) or is cancelled (nothing returned).
std::optional<OverlapReport> write_overlap(std::shared_ptr<const trace::Trace>, const OverlapOptions&,
                                           const std::filesystem::path& file, bool force, Progress* = nullptr);

}  // namespace slotscope::analysis
