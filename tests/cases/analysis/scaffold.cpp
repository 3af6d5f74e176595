#include "core/analysis/esl.h"

#include "tests/cases/case.h"

SLOTSCOPE_CASE(ring) {
  CHECK_EQ(slotscope::analysis::ring_esl(10, 4, 0), 3u);
  CHECK_EQ(slotscope::analysis::ring_esl(10, 4, 3), 2u);
  CHECK_EQ(slotscope::analysis::ring_esl(2, 4, 3), 0u);
}
