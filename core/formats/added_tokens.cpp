#include "core/formats/added_tokens.h"

#include <algorithm>
#include <set>

#include "core/formats/tokenizer_json.h"
#include "core/formats/unicode.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {
namespace {

constexpr size_t kMaxTokenBytes = 4096;

// The character that ends at `end`.
uint32_t character_before(std::string_view text, size_t end, size_t& begin) {
  begin = end - 1;
  while (begin > 0 && is_utf8_continuation(text[begin])) --begin;
  size_t at = begin;
  return next_code_point(text, at);
}

}  // namespace

void AddedTokens::build(const Normalizers& normalizers, const JsonItem& item) {
  std::vector<std::pair<std::string, int32_t>> entries[2];
  // Of two that are looked for as the same text the special one counts, then the earlier one.
  for (const bool special : {true, false})
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const AddedToken& token = tokens_[i];
      if (token.special != special) continue;
      std::string content = token.content;
      if (token.normalized && !normalizers.empty()) {
        AlignedText text(content);
        const Deadline deadline(content.size());
        for (const auto& step : normalizers) step->apply(text, deadline);
        content = text.text();
        if (content.empty())
          item[i].refuse("content", "'" + printable(token.content, 40) + "', which the normaliser removes",
                         "a token that is left after normalisation, or normalized false");
      }
      entries[token.normalized].emplace_back(std::move(content), int32_t(i));
    }
  for (const bool normalized : {false, true}) tables_[normalized].build(std::move(entries[normalized]));
}

void AddedTokens::find(std::string_view text, bool normalized, std::vector<AlignedText::Part>& parts) const {
  size_t from = 0;  // end of what is in `parts`
  for (size_t at = 0; at < text.size();) {
    size_t length = 0, before = 0;
    int32_t index = 0;
    if (!tables_[normalized].longest(text.substr(at), length, index)) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[size_t(index)];
    size_t begin = at, end = at + length, next = end;
    at = end;  // a match that is discarded below is passed over all the same
    if (token.single_word && ((begin > 0 && unicode::is_word(character_before(text, begin, before))) ||
                              (end < text.size() && unicode::is_word(next_code_point(text, next)))))
      continue;
    while (token.lstrip && begin > from && unicode::is_white_space(character_before(text, begin, before)))
      begin = std::max(before, from);
    for (next = end;
         token.rstrip && next < text.size() && unicode::is_white_space(next_code_point(text, next));)
      end = next;
    // The token before may have taken white space in which this match starts. As in the public library the
    // range is then cut with lstrip, and without it the two overlap.
    if (token.lstrip) {
      begin = std::max(begin, from);
      if (begin >= end) continue;
    }
    if (begin > from) parts.push_back({from, begin});
    parts.push_back({begin, end, token.id});
    from = end;
  }
  if (text.size() > from) parts.push_back({from, text.size()});
}

void AddedTokens::cut(AlignedText& text, bool normalized) const {
  text.split(
      [&](std::string_view part, std::vector<AlignedText::Part>& parts) { find(part, normalized, parts); });
}

AddedTokens read_added_tokens(const nlohmann::json& root, const std::string& file) {
  AddedTokens tokens;
  const auto list = JsonItem(root, file).find("added_tokens");
  if (!list) return tokens;
  std::set<std::string> seen;
  for (size_t i = 0; i < list->list_size(); ++i) {
    const JsonItem entry = (*list)[i];
    AddedToken token;
    token.id = entry.at("id", "a whole number below 2147483647").id();
    token.content = entry.text("content");
    token.special = entry.flag("special", false);
    token.normalized = entry.flag("normalized", !token.special);
    token.single_word = entry.flag("single_word", false);
    token.lstrip = entry.flag("lstrip", false);
    token.rstrip = entry.flag("rstrip", false);
    if (token.content.empty()) entry.refuse("content", "empty", "the token's text");
    if (token.content.size() > kMaxTokenBytes)
      entry.refuse("content", std::to_string(token.content.size()) + " bytes", "at most 4096 bytes");
    if (token.single_word && !has_all_tokenizers())
      entry.refuse("single_word", "true", "false: this program was built without Unicode tables");
    if (!seen.insert(token.content).second)
      entry.refuse("content", "'" + printable(token.content, 40) + "' twice", "each token once");
    tokens.add(std::move(token));
  }
  return tokens;
}

}  // namespace slotscope::formats
