#include "core/formats/aligned_text.h"

#include "core/error.h"
#include "core/formats/byte_level.h"
#include "core/formats/json.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {

AlignedText::AlignedText(std::string_view original) : limit_(original.size() * 64 + (1 << 20)) {
  if (original.size() > kMaxBytes)
    throw Error({"", "text", thousands(original.size()) + " bytes",
                 "at most " + thousands(kMaxBytes) + " bytes", "Tokenize the text in parts."});
  text_ = original;
  spans_.resize(text_.size());
  for (size_t i = 0; i < text_.size(); ++i) spans_[i] = {uint32_t(i), uint32_t(i + 1)};
  if (!text_.empty()) segments_.push_back({0, text_.size(), 0, -1});
}

void Rewriter::put(std::string_view text, Span span) {
  if (text.size() > limit_ - text_.size())
    throw Error({"", "text",
                 "the tokenizer's normaliser makes more than " + thousands(limit_) + " bytes of it",
                 "at most 64 times the text", "Check the normalizer section of tokenizer.json."});
  text_.append(text);
  out_.insert(out_.end(), text.size(), span);
}

void Rewriter::keep(size_t end) {
  if (end <= at_) return;
  if (end - at_ > limit_ - text_.size()) put(old_.substr(at_, end - at_), {});  // says what is wrong
  text_.append(old_.substr(at_, end - at_));
  out_.insert(out_.end(), spans_ + at_, spans_ + end);
  at_ = end;
}

Span Rewriter::before() const {
  if (at_ == 0) return {origin_, origin_};
  size_t begin = at_ - 1;
  while (begin > 0 && is_utf8_continuation(old_[begin])) --begin;
  return of_character(begin, at_);
}

void Rewriter::change(Change step) {
  std::string character;
  append_utf8(character, step.code_point);
  if (step.changes > 0 || at_ >= old_.size()) return put(character, before());
  const size_t next = std::min(old_.size(), at_ + size_t(utf8_length(static_cast<unsigned char>(old_[at_]))));
  if (step.changes == 0 && old_.substr(at_, next - at_) == character) return keep(next);
  put(character, of_character(at_, next));
  at_ = next;
  for (int64_t i = step.changes; i < 0 && at_ < old_.size(); ++i)
    at_ = std::min(old_.size(), at_ + size_t(utf8_length(static_cast<unsigned char>(old_[at_]))));
}

void Rewriter::prepend(std::string_view text) {
  if (at_ >= old_.size()) return;
  const size_t next = std::min(old_.size(), at_ + size_t(utf8_length(static_cast<unsigned char>(old_[at_]))));
  put(text, of_character(at_, next));
}

void Rewriter::to_byte_level() {
  // Each byte becomes one or two bytes.
  static const auto texts = [] {
    std::array<std::string, 256> all;
    for (size_t byte = 0; byte < 256; ++byte) all[byte] = byte_level_text(static_cast<unsigned char>(byte));
    return all;
  }();
  if (2 * old_.size() > limit_ - text_.size())
    put(std::string(2 * old_.size(), ' '), {});  // says what is wrong
  for (size_t i = 0; i < old_.size(); ++i) {
    const std::string& text = texts[static_cast<unsigned char>(old_[i])];
    text_.push_back(text[0]);
    out_.push_back(spans_[i]);
    if (text.size() == 1) continue;
    text_.push_back(text[1]);
    out_.push_back(spans_[i]);
  }
  at_ = old_.size();
}

}  // namespace slotscope::formats
