// Whether a run answered right, in one word.
#pragma once

#include <QString>

#include "core/trace/trace.h"

namespace slotscope::views {

// Imported prompts are scored by their references: "exact" (the answer and nothing else), "found", "2 of 4",
// "not found". The password task knows "exact" and "wrong". Nothing is known before the run has come to its
// end, or without an expected answer.
struct AnswerVerdict {
  bool known = false, good = false;
  QString word;
};
AnswerVerdict answerVerdict(const trace::RunInfo& run);

// Spans that hold what is asked for: drawn in the retrieval colour. The answer, the values, and the key where
// there is no value (the password task, whose key is the answer).
bool isStrongSpan(const trace::RunInfo& run, const std::string& name);

}  // namespace slotscope::views
