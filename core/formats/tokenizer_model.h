// The "model" section of tokenizer.json: how a word becomes tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/formats/tokenizer_item.h"

namespace slotscope::formats {

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

// Texts and ids, in both directions.
class Vocabulary {
 public:
  // False when the id already has another text.
  bool add(std::string text, int32_t id);
  int32_t id_of(std::string_view text) const {  // -1 when there is none
    const auto at = ids_.find(text);
    return at == ids_.end() ? -1 : at->second;
  }
  const std::string* text_of(int32_t id) const {
    if (size_t(uint32_t(id)) < dense_.size()) return present_[size_t(id)] ? &dense_[size_t(id)] : nullptr;
    const auto at = others_.find(id);
    return at == others_.end() ? nullptr : &at->second;
  }
  // Makes room for n texts; to be called before the first.
  void reserve(size_t n);
  size_t size() const { return count_; }
  int32_t limit() const { return limit_; }  // one more than the largest id

 private:
  std::unordered_map<std::string, int32_t, TextHash, std::equal_to<>> ids_;
  std::vector<std::string> dense_;  // by id: ids are small numbers nearly always
  std::vector<char> present_;
  std::unordered_map<int32_t, std::string> others_;  // ids far beyond the number of texts
  size_t count_ = 0;
  int32_t limit_ = 0;
};

struct ModelToken {
  int32_t id;
  uint32_t begin, end;  // bytes of the word
  bool as_written;      // its text is the word's, not the vocabulary's (an unknown stretch of Unigram)
};

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  static constexpr size_t kDone = size_t(-1);
  // What can be used again from word to word of one encode call.
  struct Scratch {
    virtual ~Scratch() = default;
  };
  virtual std::unique_ptr<Scratch> scratch() const = 0;
  // Appends the tokens of one word (not empty, valid UTF-8). Returns kDone, or the byte of a character that
  // no token stands for.
  virtual size_t tokenize(std::string_view word, Scratch& scratch, std::vector<ModelToken>& out) const = 0;
  virtual std::string kind() const = 0;  // "BPE"
  const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  Vocabulary vocabulary_;
};

// Throws Error (naming the item) for a type or option that cannot be followed.
std::shared_ptr<const TokenModel> read_model(const JsonItem& item);
std::shared_ptr<const TokenModel> read_bpe(const JsonItem& item);
std::shared_ptr<const TokenModel> read_unigram(const JsonItem& item);
std::shared_ptr<const TokenModel> read_word_piece(const JsonItem& item);
std::shared_ptr<const TokenModel> read_word_level(const JsonItem& item);

// "vocab" as an object of text: id.
void read_vocabulary(const JsonItem& item, Vocabulary& vocabulary);
// "<0xE2>" for byte E2.
std::string byte_token(unsigned char byte);
// The byte of such a token's text, or nothing.
std::optional<unsigned char> byte_of_token(std::string_view text);

}  // namespace slotscope::formats
