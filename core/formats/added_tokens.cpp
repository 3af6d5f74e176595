#include "core/formats/added_tokens.h"

namespace slotscope::formats {

void AddedTokens::add(AddedToken token) {
  first_byte_[token.normalized][static_cast<unsigned char>(token.content[0])] = true;
  tokens_.push_back(std::move(token));
}

void AddedTokens::split_stage(std::string_view text, size_t begin, size_t end, bool normalized,
                              std::vector<Part>& out) const {
  const std::string_view range = text.substr(0, end);
  size_t from = begin;
  for (size_t at = begin; at < end;) {
    const AddedToken* best = nullptr;
    if (first_byte_[normalized][static_cast<unsigned char>(text[at])])
      for (size_t i = 0; i < tokens_.size(); ++i)
        if (tokens_[i].normalized == normalized && range.substr(at).starts_with(tokens_[i].content) &&
            (!best || tokens_[i].content.size() > best->content.size()))
          best = &tokens_[i];
    if (!best) {
      ++at;
      continue;
    }
    if (at > from) out.push_back({from, at, nullptr});
    out.push_back({at, at + best->content.size(), best});
    from = at += best->content.size();
  }
  if (end > from) out.push_back({from, end, nullptr});
}

std::vector<AddedTokens::Part> AddedTokens::split(std::string_view text) const {
  std::vector<Part> first, parts;
  split_stage(text, 0, text.size(), false, first);
  for (const Part& part : first) {
    if (part.token)
      parts.push_back(part);
    else
      split_stage(text, part.begin, part.end, true, parts);
  }
  return parts;
}

}  // namespace slotscope::formats
