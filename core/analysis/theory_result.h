// The numbers of the theory lab as a result file of kind "ramnet-theory" (resources/result-format.md).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/analysis/kernel_sweep.h"
#include "core/trace/result_file.h"

namespace slotscope::analysis {

inline constexpr const char* kTheoryKind = "ramnet-theory";

struct TheoryResultOptions {
  std::vector<double> multiples;  // of both betas; at least one
  int64_t pairs = 500;
  PairKind kind = PairKind::random_angles;
  uint64_t seed = 0;
};

// Parameters: what was asked for. Datasets: q, k; every number of the pair; sweep over beta (axis beta_multiple); cloud of pairs (axis
// pair). Throws Error as kernel_numbers and sweep_beta do.
trace::Result theory_result(const KernelInput& input, const TheoryResultOptions& options);

struct StoredTheory {
  KernelInput input;
  TheoryResultOptions options;
};
// What a file of this kind was asked for; everything in it can be computed from that. Throws Error for other kinds and for
// contradictions.
StoredTheory stored_theory(const trace::Result& result);

// Of pair_kind_name. Throws Error with the names.
PairKind pair_kind(std::string_view name);

}  // namespace slotscope::analysis
