#include "core/formats/tokenizer_model.h"

#include <cstdio>

#include "core/formats/tokenizer_json.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {

void Vocabulary::reserve(size_t n) {
  ids_.reserve(n);
  dense_.resize(n + n / 4 + 1024);
  present_.resize(dense_.size());
}

bool Vocabulary::add(std::string text, int32_t id) {
  if (const std::string* old = text_of(id)) {
    if (*old != text) return false;
  } else {
    ++count_;
    if (size_t(id) < dense_.size())
      dense_[size_t(id)] = text, present_[size_t(id)] = 1;
    else
      others_.emplace(id, text);
  }
  ids_.insert_or_assign(std::move(text), id);
  limit_ = std::max(limit_, id + 1);
  return true;
}

std::string byte_token(unsigned char byte) {
  char text[8];
  std::snprintf(text, sizeof text, "<0x%02X>", byte);
  return text;
}

std::optional<unsigned char> byte_of_token(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  int value = 0;
  for (const char c : text.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return std::nullopt;
    value = value * 16 + digit;
  }
  return static_cast<unsigned char>(value);
}

void read_vocabulary(const JsonItem& item, Vocabulary& vocabulary) {
  const JsonItem list = item.at("vocab", "token: id");
  if (!list.value().is_object()) list.refuse("no object", "token: id");
  vocabulary.reserve(list.value().size());
  for (const auto& [text, id] : list.value().items()) {
    // Made by hand for the path of 128,000 entries to be written only when one is refused.
    if (!id.is_number_integer() || id < 0 || id > 0x7FFFFFFE)
      JsonItem(id, list.file(), list.path() + "['" + printable(text, 40) + "']").id();
    const auto number = id.template get<int32_t>();
    if (!vocabulary.add(text, number)) refuse_two_texts(list, number, *vocabulary.text_of(number), text);
  }
}

std::shared_ptr<const TokenModel> read_model(const JsonItem& item) {
  if (!item.value().is_object()) item.refuse(item.value().type_name(), "an object");
  // Old files leave the type out; vocab and merges tell BPE.
  const std::string type = item.find("type") ? item.type() : item.find("merges") ? "BPE" : "no type";
  if (type == "BPE") return read_bpe(item);
  if (type == "Unigram") return read_unigram(item);
  if (type == "WordPiece") return read_word_piece(item);
  if (type == "WordLevel") return read_word_level(item);
  item.refuse("type", type, "BPE, Unigram, WordPiece or WordLevel");
}

}  // namespace slotscope::formats
