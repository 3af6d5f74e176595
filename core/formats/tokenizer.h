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
  std::vector<std::pair<int64_t, int64_t>> offsets;       // code points of the text, half-open; [0,0) for added special tokens
  std::vector<std::pair<int64_t, int64_t>> byte_offsets;  // the same in bytes
};

class Tokenizer {
 public:
  // tokenizer.json of a folder; null when the folder has no tokenizer file. Throws Error for one that cannot be honoured
  // exactly: never a silent fallback.
  static std::shared_ptr<const Tokenizer> load(const std::filesystem::path& folder);
  virtual ~Tokenizer() = default;

  // `text` must be valid UTF-8 (throws Error with the byte position). add_special: run the post-processor (<bos> ...).
  virtual Encoding encode(std::string_view text, bool add_special = true) const = 0;
  virtual std::string decode(const std::vector<int32_t>& ids, bool skip_special = true) const = 0;  // raw bytes, may be cut UTF-8
  virtual std::string token_text(int32_t id) const = 0;   // the vocabulary's string; "<unused 300>" for ids without one
  virtual std::string token_bytes(int32_t id) const = 0;  // decoded bytes; special tokens: their text
  virtual bool is_special(int32_t id) const = 0;
  virtual int32_t size() const = 0;                        // one more than the largest id
  virtual std::string kind() const = 0;                    // "byte-level BPE, 258 entries"
};

// False in a build with SLOTSCOPE_TOKENIZERS=OFF: only byte-level vocabularies without a regex load there.
bool has_all_tokenizers();

}  // namespace slotscope::formats
