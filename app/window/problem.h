// What went wrong or needs saying, for a banner: never a modal box (design: section 13).
#pragma once

#include <QString>
#include <exception>
#include <functional>

namespace slotscope::app {

struct Problem {
  enum class Level { error, warning };
  Level level = Level::error;
  QString summary;  // one or two sentences: file, item, found, expected, what to do
  QString details;  // everything known, for Details and Copy
  QString key;      // a later problem with the same key replaces this one; "" never
  QString action;   // label of one more button, or empty
  std::function<void()> on_action;
};

// Summary and details of slotscope::Error; the plain text of any other exception. `doing` says what was going
// on: "Opening /path/model".
Problem problemFrom(const std::exception& error, const QString& doing);
Problem warning(const QString& summary, const QString& key = {});

}  // namespace slotscope::app
