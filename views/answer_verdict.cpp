#include "views/answer_verdict.h"

#include <cmath>

namespace slotscope::views {

AnswerVerdict answerVerdict(const trace::RunInfo& run) {
  if (!run.has_answer || !run.exact) return {};
  if (*run.exact) return {true, true, QStringLiteral("exact")};
  if (!run.score) return {true, false, QStringLiteral("wrong")};
  if (*run.score >= 1) return {true, true, QStringLiteral("found")};
  const auto all = double(run.references.size());
  if (*run.score > 0)
    return {true, false,
            QStringLiteral("%1 of %2").arg(std::lround(*run.score * all)).arg(run.references.size())};
  return {true, false, QStringLiteral("not found")};
}

bool isStrongSpan(const trace::RunInfo& run, const std::string& name) {
  if (name == "answer" || name == "value") return true;
  return name == "key" && !run.span("value");
}

}  // namespace slotscope::views
