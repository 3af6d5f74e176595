#include "core/formats/tokenizer_config.h"

#include <algorithm>
#include <charconv>

#include "core/error.h"
#include "core/formats/json.h"
#include "core/formats/tokenizer_json.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr uint64_t kMaxConfigBytes = 64ull << 20;  // added_tokens_decoder can hold every token of a large vocabulary
constexpr const char* kRoles[] = {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

std::string shown(const json& value) {
  return printable(value.dump(-1, ' ', false, json::error_handler_t::replace), 60);
}

// The object of a file, or null when there is no such file.
json read_object(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return nullptr;
  json root = parse_json(read_text_file(path, kMaxConfigBytes), {.file = path.string(), .nonfinite = true, .refuse_duplicates = false});
  if (!root.is_object()) refuse_tokenizer(path.string(), "", root.type_name(), "a JSON object");
  return root;
}

bool flag_of(const json& object, const char* key, bool fallback, const std::string& file, const std::string& item) {
  const auto at = object.find(key);
  if (at == object.end() || at->is_null()) return fallback;
  if (!at->is_boolean()) refuse_tokenizer(file, item + key, shown(*at), "true or false");
  return at->get<bool>();
}

// Text, or an object with "content" and flags.
ConfiguredToken token_of(const json& value, const std::string& file, const std::string& item, bool special) {
  ConfiguredToken token;
  if (value.is_string()) {
    token.content = value.get<std::string>();
    token.special = special;
  } else if (value.is_object() && value.contains("content") && value["content"].is_string()) {
    token.content = value["content"].get<std::string>();
    token.lstrip = flag_of(value, "lstrip", false, file, item + ".");
    token.rstrip = flag_of(value, "rstrip", false, file, item + ".");
    token.single_word = flag_of(value, "single_word", false, file, item + ".");
    token.special = special || flag_of(value, "special", false, file, item + ".");
    token.normalized = flag_of(value, "normalized", !token.special, file, item + ".");
  } else {
    refuse_tokenizer(file, item, shown(value), "the token's text, or an object with its content");
  }
  if (token.content.empty()) refuse_tokenizer(file, item, "an empty token", "the token's text");
  return token;
}

int32_t id_of(const json& value, const std::string& file, const std::string& item) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > 0x7FFFFFFE)
    refuse_tokenizer(file, item, shown(value), "a whole number below 2147483647");
  return value.get<int32_t>();
}

std::vector<ConfiguredToken> read_decoder(const json& decoder, const std::string& file) {
  if (!decoder.is_object()) refuse_tokenizer(file, "added_tokens_decoder", decoder.type_name(), "an object");
  std::vector<ConfiguredToken> tokens;
  for (const auto& [key, value] : decoder.items()) {
    const std::string item = "added_tokens_decoder['" + printable(key, 20) + "']";
    uint32_t id = 0;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), id);
    if (key.empty() || parsed.ec != std::errc() || parsed.ptr != key.data() + key.size() || id > 0x7FFFFFFE)
      refuse_tokenizer(file, item, "no id", "a whole number below 2147483647 as text");
    if (!value.is_object()) refuse_tokenizer(file, item, shown(value), "an object with content");
    tokens.push_back(token_of(value, file, item, false));
    tokens.back().id = int32_t(id);
  }
  return tokens;
}

// Each id and each text once, in the order of the ids.
void check_added(std::vector<ConfiguredToken>& tokens, const std::string& file) {
  std::sort(tokens.begin(), tokens.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  std::map<std::string, int32_t> seen;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && tokens[i].id == tokens[i - 1].id)
      refuse_tokenizer(file, "added token id " + std::to_string(tokens[i].id),
                       "both '" + printable(tokens[i - 1].content, 30) + "' and '" + printable(tokens[i].content, 30) + "'",
                       "one token per id");
    const auto [at, fresh] = seen.emplace(tokens[i].content, tokens[i].id);
    if (!fresh)
      refuse_tokenizer(file, "added token '" + printable(tokens[i].content, 40) + "'",
                       "ids " + std::to_string(at->second) + " and " + std::to_string(tokens[i].id), "one id");
  }
}

bool is_python_space(uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

}  // namespace

TokenizerConfig TokenizerConfig::read(const fs::path& folder) {
  TokenizerConfig c;
  c.file = (folder / "tokenizer_config.json").string();
  json root = read_object(c.file);
  c.exists = !root.is_null();
  c.root = c.exists ? std::move(root) : json::object();
  if (const auto at = c.root.find("tokenizer_class"); at != c.root.end() && !at->is_null()) {
    if (!at->is_string()) refuse_tokenizer(c.file, "tokenizer_class", shown(*at), "the name of a class");
    c.tokenizer_class = at->get<std::string>();
  }
  // Newer folders say everything in tokenizer_config.json; the other two files then only repeat it and are not read.
  const auto decoder = c.root.find("added_tokens_decoder");
  const bool complete = decoder != c.root.end() && !decoder->is_null();
  const std::string map_file = (folder / "special_tokens_map.json").string();
  json map = complete ? json(nullptr) : read_object(map_file);
  const auto add_roles = [&](const json& from, const std::string& file) {
    for (const char* key : kRoles)
      if (const auto at = from.find(key); at != from.end())
        c.roles_[key] = at->is_null() ? ConfiguredToken{} : token_of(*at, file, key, true);
    for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
      const auto at = from.find(key);
      if (at == from.end() || at->is_null()) continue;
      if (!at->is_array() && !at->is_object()) refuse_tokenizer(file, key, at->type_name(), "a list of tokens");
      for (const json& value : *at) {
        ConfiguredToken token = token_of(value, file, key, true);
        const auto same = [&](const auto& other) { return other.content == token.content; };
        if (std::none_of(c.additional_.begin(), c.additional_.end(), same)) c.additional_.push_back(std::move(token));
      }
    }
  };
  add_roles(c.root, c.file);
  if (map.is_object()) add_roles(map, map_file);
  if (complete) {
    c.added = read_decoder(*decoder, c.file);
    check_added(c.added, c.file);
    return c;
  }
  const std::string added_file = (folder / "added_tokens.json").string();
  const json added = read_object(added_file);
  if (added.is_null()) return c;
  const std::vector<ConfiguredToken> special = c.special_tokens();
  for (const auto& [content, id] : added.items()) {
    const std::string item = "'" + printable(content, 40) + "'";
    if (content.empty()) refuse_tokenizer(added_file, item, "an empty token", "the token's text");
    ConfiguredToken token{id_of(id, added_file, item), content};  // without lstrip and rstrip, whatever the map says
    for (const auto& other : special) token.special |= other.content == content;
    token.normalized = !token.special;
    c.added.push_back(std::move(token));
  }
  check_added(c.added, added_file);
  return c;
}

std::optional<ConfiguredToken> TokenizerConfig::role(const std::string& key) const {
  const auto at = roles_.find(key);
  return at == roles_.end() ? std::nullopt : at->second;
}

std::vector<ConfiguredToken> TokenizerConfig::special_tokens() const {
  std::vector<ConfiguredToken> tokens;
  const auto add = [&](const ConfiguredToken& token) {
    const auto same = [&](const auto& other) { return other.content == token.content; };
    if (!token.content.empty() && std::none_of(tokens.begin(), tokens.end(), same)) tokens.push_back(token);
  };
  for (const char* key : kRoles)
    if (const auto token = role(key)) add(*token);
  for (const auto& token : additional_) add(token);
  return tokens;
}

bool TokenizerConfig::flag(const char* key, bool fallback) const { return flag_of(root, key, fallback, file, ""); }

void TokenizerConfig::refuse_unless(const char* key, const json& harmless) const {
  const auto at = root.find(key);
  if (at == root.end() || at->is_null() || *at == harmless) return;
  refuse_tokenizer(file, key, shown(*at), shown(harmless) + " or no such key");
}

size_t leading_space(std::string_view text) {
  size_t end = 0;
  while (end < text.size()) {
    size_t at = end;
    if (!is_python_space(next_code_point(text, at))) break;
    end = at;
  }
  return end;
}

size_t trailing_space(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0) {
    size_t at = begin - 1;
    while (at > 0 && is_utf8_continuation(text[at])) --at;
    size_t next = at;
    if (!is_python_space(next_code_point(text, next))) break;
    begin = at;
  }
  return text.size() - begin;
}

}  // namespace slotscope::formats
