// Effective sequence length (Raven Def. 4) with regimes and exponential fit (spec: raven-analysis "ESL
// regimes").
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/routes.h"

namespace slotscope::analysis {

enum class Regime : uint8_t { long_range, intermediate, short_range, uniform, empty };

struct EslFit {
  double c = 0;
  double lambda = 0;   // slots; infinity for flat data
  double r2 = 0;       // 1 - SSE/SST; NaN (null) for flat data
  bool valid = false;  // false: no non-empty slot
};

struct EslResult {
  int64_t tokens = 0;              // T
  std::vector<uint32_t> esl;       // [M] writes with r != 0
  std::vector<uint32_t> selected;  // [M] selections; empty when unknown
  std::vector<int> order;      // slots from highest to lowest ESL, ties to the lower slot, empty ones last
  std::vector<Regime> regime;  // [M], by slot
  double cut_low = 0, cut_high = 0;  // normalised ESL
  int used = 0;                      // slots with ESL > 0
  EslFit fit;
};

struct EslOptions {
  double low = 1.0 / 3,
         high = 2.0 / 3;  // cuts as a share of the range of normalised ESL over non-empty slots
};

// Counts per slot over the captured tokens of one head: writes (r != 0; a NaN weight counts), selections.
// Indices >= slots are padding and count nowhere. The counters stored in a trace cover all tokens and are to
// be preferred.
std::vector<uint32_t> count_writes(const HeadRoutes&);
std::vector<uint32_t> count_selections(const HeadRoutes&);

// `esl` and `selected`: [M] over `tokens` tokens. The cuts are compared in whole writes, so that a slot which
// sits exactly on a cut is not moved by rounding.
EslResult analyse_esl(std::span<const uint32_t> esl, std::span<const uint32_t> selected, int64_t tokens,
                      const EslOptions& options = {});
// Nonlinear least squares of c exp(-i/lambda), i = 0.., started from the log-linear fit. `bars`: sorted,
// non-empty, normalised
// (> 0). Parameters are converged to a relative 1e-12. Bars that are not finite and positive give valid =
// false.
EslFit fit_exponential(std::span<const double> bars);
// Ring of W slots after T tokens: floor((T-1-i)/W)+1 writes in slot i (0 when i >= min(T, W)).
uint32_t ring_esl(int64_t tokens, int64_t window, int64_t slot);

}  // namespace slotscope::analysis
