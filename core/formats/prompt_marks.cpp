// Where the answer, its sentence, its key and the question are in a prompt's text (spec: prompts 3.1, 3.5).
#include <algorithm>
#include <set>

#include "core/formats/prompt_import.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {
namespace {

constexpr size_t kMaxOccurrences =
    64;  // of one reference: more would be a word of the language, not a needle
constexpr size_t kMaxMarks = 1024;
constexpr size_t kMaxNeedle = 1000;  // bytes of a sentence around a value
constexpr std::string_view kMagic = "One of the special magic ", kIs = " is: ", kFor = " for ";
constexpr std::string_view kMentioned = " mentioned in the provided text";

bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
         static_cast<unsigned char>(c) >= 0x80;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
  return out;
}

std::vector<size_t> all_places(std::string_view text, std::string_view part, size_t begin, size_t end) {
  std::vector<size_t> places;
  if (part.empty()) return places;
  text = text.substr(0, end);
  for (size_t at = text.find(part, begin); at != std::string_view::npos;
       at = text.find(part, at + part.size()))
    places.push_back(at);
  return places;
}

// Not in the middle of a longer word or number.
bool stands_alone(std::string_view text, size_t at, size_t size) {
  const bool before = at > 0 && is_word(text[at - 1]) && is_word(text[at]);
  const bool after = at + size < text.size() && is_word(text[at + size]) && is_word(text[at + size - 1]);
  return !before && !after;
}

struct Question {
  size_t begin = 0, end = 0;  // equal: none found
  bool ruler = false, single = false;
  std::vector<std::string> keys;
};

// "a", "a, and b", "a, b, and c"
std::vector<std::string> split_keys(std::string_view text) {
  std::vector<std::string> keys;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(", ", at), text.size());
    std::string_view key = text.substr(at, comma - at);
    if (key.starts_with("and ")) key.remove_prefix(4);
    if (!key.empty()) keys.emplace_back(key);
    at = comma + 2;
  }
  return keys;
}

Question ruler_question(std::string_view text, const PromptParts& parts) {
  Question q;
  const std::string_view input = text.substr(0, parts.input_end);
  for (const bool single : {true, false}) {
    const std::string_view start = single ? "What is the special magic " : "What are all the special magic ";
    const size_t at = input.rfind(start);
    if (at == std::string_view::npos || at < parts.input_begin || (q.ruler && at < q.begin)) continue;
    const size_t kind = at + start.size(), key = input.find(kFor, kind), mentioned = input.rfind(kMentioned);
    if (key == std::string_view::npos || mentioned == std::string_view::npos || mentioned < key + kFor.size())
      continue;
    q.ruler = true;
    q.single = single;
    q.begin = at;
    q.end = mentioned + kMentioned.size();
    if (q.end < input.size() && input[q.end] == '?') ++q.end;
    q.keys = split_keys(input.substr(key + kFor.size(), mentioned - key - kFor.size()));
  }
  return q;
}

// Elsewhere the question is the last line, or the last sentence when there is one line and it ends in a
// question mark.
Question last_words(std::string_view text, const PromptParts& parts) {
  Question q;
  size_t end = parts.input_end;
  while (end > parts.input_begin && (text[end - 1] == '\n' || text[end - 1] == '\r' || text[end - 1] == ' '))
    --end;
  if (end == parts.input_begin) return q;
  const size_t line = text.rfind('\n', end - 1);
  if (line != std::string_view::npos && line >= parts.input_begin) {
    q.begin = line + 1, q.end = end;
  } else if (text[end - 1] == '?') {
    size_t at = end - 1;
    while (at > parts.input_begin + 1 &&
           !(text[at - 1] == ' ' && (text[at - 2] == '.' || text[at - 2] == '?' || text[at - 2] == '!')))
      --at;
    if (at > parts.input_begin + 1) q.begin = at, q.end = end;
  }
  return q;
}

bool ends_sentence(std::string_view text, size_t at) {
  if (text[at] == '\n') return true;
  return (text[at] == '.' || text[at] == '?' || text[at] == '!') &&
         (at + 1 == text.size() || text[at + 1] == ' ' || text[at + 1] == '\n' || text[at + 1] == '\r');
}

// The sentence or line around [at, at + size) inside [low, high), without the spaces at its ends.
std::pair<size_t, size_t> sentence(std::string_view text, size_t at, size_t size, size_t low, size_t high) {
  size_t begin = at, end = at + size;
  low = std::max(low, at > kMaxNeedle ? at - kMaxNeedle : 0);
  high = std::min(high, at + size + kMaxNeedle);
  while (begin > low && !ends_sentence(text, begin - 1)) --begin;
  while (begin < at && (text[begin] == ' ' || text[begin] == '\n' || text[begin] == '\r')) ++begin;
  while (end < high && !ends_sentence(text, end)) ++end;
  if (end < high && text[end] != '\n') ++end;
  while (begin < at && is_utf8_continuation(text[begin])) ++begin;
  while (end > at + size && (text[end - 1] == ' ' || text[end - 1] == '\r')) --end;
  return {begin, end};
}

class Marker {
 public:
  Marker(PromptRow& row, const PromptParts& parts) : row_(row), text_(row.text), parts_(parts) {
    question_ = ruler_question(text_, parts);
    if (!question_.ruler && !row.references.empty()) question_ = last_words(text_, parts);
    search_end_ = question_.end > question_.begin ? question_.begin : parts.input_end;
  }

  void run() {
    for (const std::string& reference : row_.references) values(reference);
    if (question_.ruler && question_.single && row_.references.size() == 1) {
      const size_t count = all_places(text_, row_.references[0], parts_.input_begin, parts_.input_end).size();
      if (count != 1)
        warn("the value '" + printable(row_.references[0], 60) + "' stands " + std::to_string(count) +
             " times in the prompt, expected once");
    }
    if (question_.end > question_.begin) add("query", question_.begin, question_.end);
    if (parts_.lead_end > parts_.lead_begin) add("lead-in", parts_.lead_begin, parts_.lead_end);
    std::stable_sort(row_.marks.begin(), row_.marks.end(), [](const auto& a, const auto& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
    });
  }

 private:
  void warn(std::string text) { row_.warnings.push_back(std::move(text)); }

  void add(const char* name, size_t begin, size_t end) {
    if (row_.marks.size() < kMaxMarks && seen_.emplace(name, begin, end).second)
      row_.marks.push_back({name, begin, end});
  }

  void values(const std::string& reference) {
    const std::string word = "'" + printable(reference, 60) + "'";
    std::vector<size_t> places = all_places(text_, reference, parts_.input_begin, search_end_);
    if (places.empty()) {
      places = all_places(lower(text_), lower(reference), parts_.input_begin, search_end_);
      if (places.empty()) {
        // RULER's exactly-once check says it too; one sentence is enough.
        if (!(question_.ruler && question_.single && row_.references.size() == 1))
          warn("the value " + word + " is not in the prompt");
        return;
      }
      warn("the value " + word + " stands in the prompt in other case only");
    }
    const auto alone = [&](size_t at) { return stands_alone(text_, at, reference.size()); };
    if (std::any_of(places.begin(), places.end(), alone))
      places.erase(std::remove_if(places.begin(), places.end(), [&](size_t at) { return !alone(at); }),
                   places.end());
    else
      warn("the value " + word + " stands inside longer words only");
    if (places.size() > kMaxOccurrences) {
      warn("the value " + word + " stands " + std::to_string(places.size()) +
           " times in the prompt; the first " + std::to_string(kMaxOccurrences) + " are marked");
      places.resize(kMaxOccurrences);
    }
    for (const size_t at : places) {
      if (!ruler_needle(at, reference.size())) {
        const auto [begin, end] = sentence(text_, at, reference.size(), parts_.input_begin, search_end_);
        if (end - begin > reference.size()) add("needle", begin, end);
      }
      add("value", at, at + reference.size());
    }
  }

  // "One of the special magic numbers for KEY is: VALUE."
  bool ruler_needle(size_t at, size_t size) {
    if (at < kIs.size() || text_.substr(at - kIs.size(), kIs.size()) != kIs) return false;
    const size_t begin = text_.rfind(kMagic, at);
    if (begin == std::string_view::npos || begin < parts_.input_begin || at - begin > kMaxNeedle)
      return false;
    const size_t key = text_.find(kFor, begin + kMagic.size()), key_end = at - kIs.size();
    if (key == std::string_view::npos || key + kFor.size() >= key_end) return false;
    if (text_.substr(begin, at - begin).find('\n') != std::string_view::npos) return false;
    const std::string name(text_.substr(key + kFor.size(), key_end - key - kFor.size()));
    if (!question_.keys.empty() &&
        std::find(question_.keys.begin(), question_.keys.end(), name) == question_.keys.end())
      warn("the value at byte " + std::to_string(at) + " is stored with '" + printable(name, 60) +
           "', which the question does not ask for");
    const size_t end = at + size < text_.size() && text_[at + size] == '.' ? at + size + 1 : at + size;
    add("needle", begin, end);
    add("key", key + kFor.size(), key_end);
    return true;
  }

  PromptRow& row_;
  std::string_view text_;
  const PromptParts& parts_;
  Question question_;
  size_t search_end_ = 0;
  std::set<std::tuple<std::string, size_t, size_t>> seen_;
};

}  // namespace

void find_marks(PromptRow& row, const PromptParts& parts) { Marker(row, parts).run(); }

}  // namespace slotscope::formats
