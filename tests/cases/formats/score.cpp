// The scores of RULER and lm-eval: substring of the output in any case, averaged over the references.
#include "core/score.h"

#include <cmath>

#include "tests/cases/case.h"

using namespace slotscope;
using namespace slotscope::testing;

SLOTSCOPE_CASE(reference_scores) {
  CHECK_EQ(reference_score({"8271934"}, " 8271934. The"), 1.0);
  CHECK_EQ(reference_score({"8271934"}, " 827193"), 0.0);
  CHECK_EQ(reference_score({"Silly-Hammer"}, "the SILLY-hammer"), 1.0);
  CHECK_EQ(reference_score({"1", "2", "3", "4"}, "1 and 3"), 0.5);
  CHECK_EQ(reference_score({"1", "2", "3", "4"}, "1 and 3", ScoreMetric::any), 1.0);
  CHECK_EQ(reference_score({"5"}, "1 and 3", ScoreMetric::any), 0.0);
  CHECK_EQ(reference_score({"a\nb"}, "a\tb"), 1.0);  // control characters become newlines first
  CHECK_EQ(reference_score({"x"}, ""), 0.0);
  CHECK(std::isnan(reference_score({}, "x")));
  CHECK_EQ(reference_score({"\xC3\xA9"}, "caf\xC3\xA9"), 1.0);
  for (const ScoreMetric m : {ScoreMetric::all, ScoreMetric::any}) CHECK(metric_from(metric_name(m)) == m);
}
