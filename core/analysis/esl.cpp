#include "core/analysis/esl.h"

namespace slotscope::analysis {

uint32_t ring_esl(int64_t tokens, int64_t window, int64_t slot) {
  return slot >= tokens ? 0 : uint32_t((tokens - 1 - slot) / window + 1);
}

}  // namespace slotscope::analysis
