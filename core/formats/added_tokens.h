// Tokens that are cut out of the text before anything else sees it: <bos>, <eos> and others (tokenizer.json,
// "added_tokens").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace slotscope::formats {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool special = false;
  bool normalized = false;
};

// Leftmost match, of several at one place the longest. Tokens with normalized = false are found first, the
// others in what is left between them, as in the public library (its normalizer is null here).
class AddedTokens {
 public:
  void add(AddedToken token);
  const std::vector<AddedToken>& all() const { return tokens_; }

  struct Part {
    size_t begin, end;
    const AddedToken* token;  // null: ordinary text
  };
  std::vector<Part> split(std::string_view text) const;

 private:
  void split_stage(std::string_view text, size_t begin, size_t end, bool normalized,
                   std::vector<Part>& out) const;
  std::vector<AddedToken> tokens_;
  bool first_byte_[2][256] = {};  // per stage: some token starts with this byte
};

}  // namespace slotscope::formats
