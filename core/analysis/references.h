// Measured references of the ESL view: sorted normalised ESL of a dense and of a ring layer of real runs (spec: raven-analysis,
// "ESL regimes": theory until measured runs replace it).
#pragma once

#include <string>
#include <vector>

#include "core/analysis/esl.h"
#include "core/trace/trace.h"

namespace slotscope::analysis {

struct EslReference {
  bool ring = false;  // a sliding window; else dense (SSM and the like)
  int run = 0, layer = 0, head = 0;
  std::string model;   // last part of the checkpoint's path ("swa-passkey"), else the family
  EslResult esl;  // over the tokens that were really fed; every slot uniform where all counts are equal
};

// The first head of the first ring layer and of the first dense layer of a run, as far as it has them (of at most
// 65,536 slots). Counts follow from the
// layer's rule and the tokens of the run: nothing is read from the file. Throws Error for a run that is not there.
std::vector<EslReference> esl_references(const trace::Trace& trace, int run);

}  // namespace slotscope::analysis
