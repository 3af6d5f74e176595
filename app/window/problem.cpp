#include "app/window/problem.h"

#include <new>

#include "core/error.h"

namespace slotscope::app {

Problem problemFrom(const std::exception& error, const QString& doing) {
  Problem problem;
  if (dynamic_cast<const std::bad_alloc*>(&error)) {
    problem.summary =
        doing + ": not enough memory. Close other programs, or use a shorter prompt or fewer fields.";
    problem.details = problem.summary;
    return problem;
  }
  problem.summary = QString::fromUtf8(error.what());
  problem.details = doing.isEmpty() ? QString() : doing + "\n\n";
  if (const auto* known = dynamic_cast<const Error*>(&error)) {
    const auto line = [&](const char* name, const std::string& value) {
      if (!value.empty())
        problem.details += QString("%1: %2\n").arg(QString::fromLatin1(name), QString::fromStdString(value));
    };
    line("File", known->parts().file);
    line("Item", known->parts().item);
    line("Found", known->parts().found);
    line("Expected", known->parts().expected);
    line("What to do", known->parts().advice);
  } else {
    problem.details += problem.summary;
    problem.summary = doing.isEmpty() ? problem.summary : doing + ": " + problem.summary;
  }
  return problem;
}

Problem warning(const QString& summary, const QString& key) {
  Problem problem;
  problem.level = Problem::Level::warning;
  problem.summary = summary;
  problem.details = summary;
  problem.key = key;
  return problem;
}

}  // namespace slotscope::app
