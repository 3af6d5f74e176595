// Tokenizers of Hugging Face folders. A text is tokenized with byte-exact spans so that token strip and roles are right.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace slotscope::formats {

struct Encoding {
  std::vector<int32_t> ids;
  std::vector<std::string> tokens;                        // the vocabulary's strings; unknown and added tokens: as in the text
  std::vector<std::pair<int64_t, int64_t>> offsets;       // code points of the text, half-open; [0,0) for added special tokens
  std::vector<std::pair<int64_t, int64_t>> byte_offsets;  // the same in bytes
};

class Tokenizer {
 public:
  // The first tokenizer of a folder (core/formats/tokenizer_files.h says in which order); null when it has none. Throws Error for
  // one that cannot be honoured exactly: never a silent fallback.
  static std::shared_ptr<const Tokenizer> load(const std::filesystem::path& folder);
  virtual ~Tokenizer() = default;

  // `text` must be valid UTF-8 (throws Error with the byte position). add_special: run the post-processor (<bos> ...).
  virtual Encoding encode(std::string_view text, bool add_special = true) const = 0;
  virtual std::string decode(const std::vector<int32_t>& ids, bool skip_special = true) const = 0;  // raw bytes, may be cut UTF-8
  virtual std::string token_text(int32_t id) const = 0;   // the vocabulary's string; "<unused 300>" for ids without one
  // The bytes that a token stands for inside a text, never U+FFFD: a part of a character is its raw bytes; added tokens are
  // their text. decode(ids, false) is these bytes one after the other, less what a decoder takes from the front of the
  // whole text (the space that SentencePiece puts there); only added tokens with letters like é in a byte-level
  // vocabulary, and tokenizers without a decoder (spaces between tokens), decode differently in the public library.
  virtual std::string token_bytes(int32_t id) const = 0;
  virtual bool is_special(int32_t id) const = 0;
  virtual int32_t size() const = 0;                        // one more than the largest id
  virtual std::string kind() const = 0;                    // "byte-level BPE, 258 entries"
  virtual std::vector<std::string> notes() const { return {}; }  // what a user should know: settings left out of account
};

// False in a build with SLOTSCOPE_TOKENIZERS=OFF: tokenizers that need Unicode tables, regular expressions or
// SentencePiece are refused there.
bool has_all_tokenizers();

}  // namespace slotscope::formats
