#include "core/formats/pattern.h"

#include <algorithm>

#include "core/formats/utf8.h"

namespace slotscope::formats {

Pattern read_pattern(const JsonItem& item) {
  Pattern pattern;
  if (item.value().is_string()) {
    pattern.literal = item.text();
  } else if (const auto text = item.find("String")) {
    pattern.literal = text->text();
  } else {
    const JsonItem regex = item.at("Regex", "String or Regex");
    pattern.regex = Regex::compile(regex.text(), regex);
    return pattern;
  }
  if (pattern.literal.empty()) item.refuse("an empty text", "a text to look for");
  return pattern;
}

Finder::Finder(const Pattern& pattern, const Deadline& deadline) : pattern_(pattern) {
  if (pattern.regex) searcher_ = std::make_unique<Regex::Searcher>(*pattern.regex, deadline);
}

const std::vector<Regex::Match>& Finder::find(std::string_view text) {
  matches_.clear();
  if (searcher_) {
    searcher_->find(text, matches_);
  } else if (pattern_.one) {
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      if (pattern_.one(next_code_point(text, at))) matches_.push_back({begin, at});
    }
  } else {
    for (size_t at = 0; (at = text.find(pattern_.literal, at)) != std::string_view::npos;
         at += pattern_.literal.size())
      matches_.push_back({at, at + pattern_.literal.size()});
  }
  return matches_;
}

Behaviour read_behaviour(const JsonItem& item) {
  const std::string name = item.text();
  if (name == "Removed") return Behaviour::removed;
  if (name == "Isolated") return Behaviour::isolated;
  if (name == "MergedWithPrevious") return Behaviour::merged_with_previous;
  if (name == "MergedWithNext") return Behaviour::merged_with_next;
  if (name == "Contiguous") return Behaviour::contiguous;
  item.refuse("'" + printable(name, 30) + "'",
              "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

namespace {

struct Stretch {
  size_t begin, end;
  bool match;
};

// The text as matches and what lies between them.
std::vector<Stretch> stretches(size_t size, const std::vector<Regex::Match>& matches, bool invert) {
  std::vector<Stretch> all;
  size_t from = 0;
  for (const auto& m : matches) {
    if (m.begin > from) all.push_back({from, m.begin, invert});
    all.push_back({m.begin, m.end, !invert});
    from = m.end;
  }
  if (from < size) all.push_back({from, size, invert});
  return all;
}

}  // namespace

void cut_at(size_t size, const std::vector<Regex::Match>& matches, Behaviour behaviour, bool invert,
            std::vector<AlignedText::Part>& parts) {
  const auto all = stretches(size, matches, invert);
  bool previous = false;  // the neighbour was a match
  if (behaviour == Behaviour::merged_with_next) {
    const size_t first = parts.size();
    for (auto s = all.rbegin(); s != all.rend(); ++s) {
      if (s->match && !previous && parts.size() > first)
        parts.back().begin = s->begin;
      else
        parts.push_back({s->begin, s->end});
      previous = s->match;
    }
    std::reverse(parts.begin() + long(first), parts.end());
    return;
  }
  for (const Stretch& s : all) {
    const bool join = behaviour == Behaviour::contiguous             ? s.match == previous
                      : behaviour == Behaviour::merged_with_previous ? s.match && !previous
                                                                     : false;
    if (join && !parts.empty())
      parts.back().end = s.end;
    else if (!(behaviour == Behaviour::removed && s.match))
      parts.push_back({s.begin, s.end});
    previous = s.match;
  }
}

void replace_matches(Rewriter& writer, const std::vector<Regex::Match>& matches, std::string_view content) {
  for (const auto& m : matches) {
    writer.keep(m.begin);
    writer.skip(m.end);
    writer.insert(content);
  }
  writer.keep(writer.old().size());
}

}  // namespace slotscope::formats
