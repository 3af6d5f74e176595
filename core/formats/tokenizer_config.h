// What tokenizer_config.json, special_tokens_map.json and added_tokens.json say about a tokenizer whose vocabulary is in another
// file (tokenizer.model, or vocab.json with merges.txt). Precedence as in transformers' from_pretrained for slow tokenizers.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace slotscope::formats {

// A token that is cut out of the text before the vocabulary sees it.
struct ConfiguredToken {
  int32_t id = -1;  // -1: the vocabulary knows it
  std::string content;
  bool lstrip = false, rstrip = false, single_word = false, normalized = false, special = false;
};

class TokenizerConfig {
 public:
  // Reads what is there of the three files; none is needed. Throws Error naming file and key for a value of the wrong kind.
  static TokenizerConfig read(const std::filesystem::path& folder);

  std::string file;             // of tokenizer_config.json, for messages (also when it is not there)
  bool exists = false;          // tokenizer_config.json
  std::string tokenizer_class;  // "LlamaTokenizer"; empty: not said
  nlohmann::json root;          // tokenizer_config.json, {} without
  // added_tokens_decoder, or else added_tokens.json, by id.
  std::vector<ConfiguredToken> added;

  // bos_token, eos_token, unk_token ...: what the files say; nothing: the key is in none of them. A null gives an empty content.
  std::optional<ConfiguredToken> role(const std::string& key) const;
  // Every special token named in the files, in the order of transformers' all_special_tokens. Ids are -1.
  std::vector<ConfiguredToken> special_tokens() const;

  // true or false; `fallback` when missing or null. Throws Error for any other value.
  bool flag(const char* key, bool fallback) const;
  // Throws Error when the key is there with another value than null or `harmless`: this program would not honour it.
  void refuse_unless(const char* key, const nlohmann::json& harmless) const;

 private:
  std::map<std::string, std::optional<ConfiguredToken>> roles_;
  std::vector<ConfiguredToken> additional_;
};

// Length in bytes of the characters at the begin (end) of valid UTF-8 that Python's str.strip() takes away: what lstrip and
// rstrip of an added token eat.
size_t leading_space(std::string_view text);
size_t trailing_space(std::string_view text);

}  // namespace slotscope::formats
