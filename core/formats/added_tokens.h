// Tokens that are cut out of the text before anything else sees it: <bos>, <eos> and others (tokenizer.json,
// "added_tokens").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/formats/aligned_text.h"
#include "core/formats/normalizers.h"
#include "core/formats/prefix_table.h"
#include "core/formats/tokenizer_item.h"

namespace slotscope::formats {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool special = false;
  bool normalized = false;   // looked for in the normalised text, else in the text as written
  bool single_word = false;  // only where no word character is next to it
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // takes the white space behind it along
};

// Leftmost match, of several at one place the longest, as in the public library. Tokens with normalized =
// false are found first, the others in what is left between them once it is normalised.
class AddedTokens {
 public:
  const std::vector<AddedToken>& all() const { return tokens_; }
  void add(AddedToken token) { tokens_.push_back(std::move(token)); }
  // To be called once, when all are added. Throws Error through `item` for a token that normalises to
  // nothing.
  void build(const Normalizers& normalizers, const JsonItem& item);

  // Cuts the tokens of one kind out of every text segment.
  void cut(AlignedText& text, bool normalized) const;

 private:
  void find(std::string_view text, bool normalized, std::vector<AlignedText::Part>& parts) const;
  std::vector<AddedToken> tokens_;
  PrefixTable tables_[2];  // [normalized]: content -> index into tokens_
};

AddedTokens read_added_tokens(const nlohmann::json& root, const std::string& file);

}  // namespace slotscope::formats
