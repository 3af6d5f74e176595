// The one exception type of core. A message names the file, the item, what was found, what was expected and what to do.
#pragma once

#include <exception>
#include <string>

namespace slotscope {

struct ErrorParts {
  std::string file;      // path as the user gave it, or empty
  std::string item;      // tensor, key, field, option ...
  std::string found;     // what is there
  std::string expected;  // what should be there
  std::string advice;    // what to do
};

class Error : public std::exception {
 public:
  // input: bad data or environment (exit 1). usage: bad option or field name (exit 2).
  enum class Kind { input, usage };

  explicit Error(ErrorParts parts, Kind kind = Kind::input);
  const char* what() const noexcept override { return text_.c_str(); }
  const ErrorParts& parts() const { return parts_; }
  Kind kind() const { return kind_; }

 private:
  ErrorParts parts_;
  Kind kind_;
  std::string text_;  // "file: item: found, expected. Advice"
};

}  // namespace slotscope
