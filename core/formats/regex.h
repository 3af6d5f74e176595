// Regular expressions of tokenizer.json. They are written for Oniguruma (the public library's engine) and run
// by ICU: a pattern is translated where the two differ in meaning and refused at load where it cannot be.
// Every search has a limit of stack and time, so that a hostile pattern or text ends with an Error.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/formats/tokenizer_item.h"

namespace slotscope::formats {

// How long the searches of one encode or decode may compute: 0.5 s and 10 s for each MiB of text, of the
// thread's own time, so that a busy machine changes nothing. Ordinary patterns need far less than a second
// for a MiB.
class Deadline {
 public:
  explicit Deadline(size_t bytes) : Deadline(std::chrono::milliseconds(500 + int64_t(bytes) * 10 / 1024)) {}
  explicit Deadline(std::chrono::milliseconds from_now);
  bool passed() const;  // for the thread that made it

 private:
  std::chrono::nanoseconds end_;
};

// The same pattern for ICU. Throws Error through `item` for what has no equal there.
std::string translate_regex(const std::string& pattern, const JsonItem& item);

class Regex {
 public:
  // Throws Error (naming `item`) for a pattern that cannot be run as the public library runs it.
  static std::shared_ptr<const Regex> compile(const std::string& pattern, const JsonItem& item);
  ~Regex();

  struct Match {
    size_t begin, end;  // bytes
  };
  // Searches many texts one after the other; not for two threads at once.
  class Searcher {
   public:
    Searcher(const Regex& regex, const Deadline& deadline);
    ~Searcher();
    // All matches in order, as the public library lists them: no empty match right behind another match.
    // `text` is valid UTF-8. Throws Error when the limit of stack or time is reached.
    void find(std::string_view text, std::vector<Match>& matches);

   private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
  };

 private:
  Regex();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slotscope::formats
