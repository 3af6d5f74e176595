// A look into tokenizer.model (a protobuf message) before SentencePiece sees it. SentencePiece trusts its files: a bad table sends
// it outside its memory, a failed check ends the program. Everything that it relies on is checked here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace slotscope::formats {

// The normalisation table of a model: 4 bytes length, a double-array trie of 32-bit units, replacement texts that end with a zero
// byte.
class CharsMap {
 public:
  CharsMap() = default;
  // Throws Error unless no text can lead outside the table: units are followed as the trie's own search does it, from every node
  // by every byte.
  CharsMap(std::string_view blob, const std::string& file);
  bool empty() const { return units_.empty(); }
  // The longest rule at the begin of `text`: its length in bytes (0: none) and the replacement.
  size_t match(std::string_view text, std::string_view& replacement) const;

 private:
  void check(const std::string& file) const;
  size_t base_of(size_t node) const;
  std::string_view text_at(size_t at) const;
  std::vector<uint32_t> units_;
  std::string texts_;
};

struct SentencePieceModel {
  enum Type { normal = 1, unknown, control, user_defined, unused, byte };
  struct Piece {
    std::string_view text;
    float score = 0;
    int type = normal;
  };
  std::vector<Piece> pieces;  // by id
  int model_type = 1;         // 1 Unigram, 2 BPE, 3 word, 4 character
  bool byte_fallback = false;
  int32_t unknown_id = -1;
  // normalizer_spec
  CharsMap charsmap;
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true, suffix = false;
};

// `bytes` must outlive the result. Throws Error naming `file` and what is damaged or not supported: wire format, limits, empty,
// doubled or unreadable pieces, scores that are not finite, byte pieces, normalisation table, denormaliser.
SentencePieceModel read_sentencepiece_model(std::string_view bytes, const std::string& file);

}  // namespace slotscope::formats
