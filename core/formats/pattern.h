// What Split, Replace and their like look for: a text, a regular expression, or single characters of a kind.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/formats/aligned_text.h"
#include "core/formats/regex.h"

namespace slotscope::formats {

struct Pattern {
  std::string literal;                 // not empty: this text
  std::shared_ptr<const Regex> regex;  // or this expression
  std::function<bool(uint32_t)> one;   // or each single character for which it is true
};

// {"String": "..."} or {"Regex": "..."}; a plain text is the former.
Pattern read_pattern(const JsonItem& item);

// Finds matches in many texts one after the other; not for two threads at once.
class Finder {
 public:
  Finder(const Pattern& pattern, const Deadline& deadline);
  // Matches in order, as bytes of `text`; valid until the next call.
  const std::vector<Regex::Match>& find(std::string_view text);

 private:
  const Pattern& pattern_;
  std::unique_ptr<Regex::Searcher> searcher_;
  std::vector<Regex::Match> matches_;
};

// What becomes of a match when a text is cut at it (the public library's names).
enum class Behaviour { removed, isolated, merged_with_previous, merged_with_next, contiguous };
Behaviour read_behaviour(const JsonItem& item);

// Cuts a text of `size` bytes at `matches`; `invert`: at what lies between them.
void cut_at(size_t size, const std::vector<Regex::Match>& matches, Behaviour behaviour, bool invert,
            std::vector<AlignedText::Part>& parts);

// Replaces every match by `content`.
void replace_matches(Rewriter& writer, const std::vector<Regex::Match>& matches, std::string_view content);

}  // namespace slotscope::formats
