#include "core/formats/vocab_merges.h"

#include <algorithm>

#include "core/error.h"
#include "core/formats/json.h"
#include "core/formats/tokenizer_config.h"
#include "core/formats/tokenizer_json.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr uint64_t kMaxFileBytes = 512ull << 20;

// What transformers' classes differ in; the defaults of their constructors.
struct TokenizerClass {
  const char *name, *model_type;
  const char *unk, *bos, *eos, *pad;  // null: none
  bool nfc, qwen, adds_bos, adds_eos;
};
constexpr const char* kEnd = "<|endoftext|>";
constexpr TokenizerClass kClasses[] = {
    {"GPT2Tokenizer", "gpt2", kEnd, kEnd, kEnd, nullptr, false, false, true, false},
    {"CodeGenTokenizer", "codegen", kEnd, kEnd, kEnd, nullptr, false, false, true, false},
    {"GPTNeoXTokenizer", "gpt_neox", kEnd, kEnd, kEnd, "<|padding|>", true, false, true, true},
    {"Qwen2Tokenizer", "qwen2", kEnd, nullptr, kEnd, kEnd, true, true, false, false},
};

constexpr const char* kQwenPattern =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

const TokenizerClass& class_of(const TokenizerConfig& config, const fs::path& folder) {
  std::string name = config.tokenizer_class, known;
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  for (const auto& c : kClasses) {
    known += (known.empty() ? "" : ", ") + std::string(c.name);
    if (name == c.name) return c;
  }
  if (!config.tokenizer_class.empty()) refuse_tokenizer(config.file, "tokenizer_class", printable(config.tokenizer_class, 60), known);
  std::string model_type = "no tokenizer_class, and no config.json";
  const fs::path model = folder / "config.json";
  std::error_code ignored;
  if (fs::exists(model, ignored)) {
    const json root = parse_json(read_text_file(model, 64u << 20), {.file = model.string(), .nonfinite = true, .refuse_duplicates = false});
    const bool said = root.is_object() && root.contains("model_type") && root["model_type"].is_string();
    for (const auto& c : kClasses)
      if (said && root["model_type"] == c.model_type) return c;
    model_type = "no tokenizer_class, and model_type " + (said ? printable(root["model_type"].get<std::string>(), 40) : "missing");
  }
  throw Error({config.file, "tokenizer_class", model_type, known,
               "vocab.json alone does not say how text is cut: add tokenizer_class, or a tokenizer.json."});
}

json read_vocabulary(const fs::path& path) {
  json vocab = parse_json(read_text_file(path, kMaxFileBytes), {.file = path.string()});
  if (!vocab.is_object()) refuse_tokenizer(path.string(), "", vocab.type_name(), "an object of token: id");
  return vocab;
}

// One pair a line, best first: two tokens of the vocabulary with one space. `#version` in the first line and empty lines count
// for nothing.
json read_merges(const fs::path& path, const json& vocab) {
  std::error_code ignored;
  if (!fs::exists(path, ignored))
    refuse_tokenizer(path.string(), "", "not there", "the merges that belong to vocab.json (or a tokenizer.json)");
  const std::string text = read_text_file(path, kMaxFileBytes);
  require_utf8(text, path.string(), "");
  json merges = json::array();
  size_t line = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view pair = std::string_view(text).substr(at, end - at);
    at = end + 1;
    ++line;
    if (pair.ends_with('\r')) pair.remove_suffix(1);
    if (pair.empty() || (line == 1 && pair.starts_with("#version"))) continue;
    const auto bad = [&](std::string found, std::string expected) {
      refuse_tokenizer(path.string(), "line " + std::to_string(line), std::move(found), std::move(expected));
    };
    const size_t space = pair.find(' ');
    const auto spaces = std::count(pair.begin(), pair.end(), ' ');
    if (spaces != 1 || space == 0 || space + 1 == pair.size())
      bad("'" + printable(pair, 40) + "' has " + std::to_string(spaces) + (spaces == 1 ? " space at its edge" : " spaces"),
          "two tokens with one space between them");
    const std::string left(pair.substr(0, space)), right(pair.substr(space + 1));
    for (const std::string& token : {left, right, left + right})
      if (!vocab.contains(token)) bad("'" + printable(token, 40) + "' is not in vocab.json", "tokens of the vocabulary");
    merges.push_back({left, right});
  }
  return merges;
}

json added_json(const ConfiguredToken& t) {
  return {{"id", t.id},           {"content", t.content},       {"single_word", t.single_word}, {"lstrip", t.lstrip},
          {"rstrip", t.rstrip},   {"normalized", t.normalized}, {"special", t.special}};
}

// The special tokens in effect: the class's defaults where the files say nothing.
std::vector<ConfiguredToken> special_tokens(const TokenizerConfig& config, const TokenizerClass& c) {
  std::vector<ConfiguredToken> tokens = config.special_tokens();
  for (const auto& [key, text] : {std::pair{"unk_token", c.unk}, {"bos_token", c.bos}, {"eos_token", c.eos}, {"pad_token", c.pad}}) {
    if (!text || config.role(key)) continue;
    const std::string content = text;
    if (std::none_of(tokens.begin(), tokens.end(), [&](const auto& t) { return t.content == content; }))
      tokens.push_back({-1, content, false, false, false, false, true});
  }
  return tokens;
}

json added_tokens(const TokenizerConfig& config, const TokenizerClass& c, const json& vocab) {
  std::vector<ConfiguredToken> added = config.added;
  for (ConfiguredToken token : special_tokens(config, c)) {
    const auto same = std::find_if(added.begin(), added.end(), [&](const auto& t) { return t.content == token.content; });
    if (same != added.end()) {
      same->special = true;
      continue;
    }
    const auto at = vocab.find(token.content);
    if (at == vocab.end())
      refuse_tokenizer(config.file, "special token '" + printable(token.content, 40) + "'", "no id",
                       "an entry of vocab.json, added_tokens.json or added_tokens_decoder (or null for a token that is not used)");
    if (!at->is_number_unsigned() || at->get<uint64_t>() > 0x7FFFFFFE)
      refuse_tokenizer(config.file, "special token '" + printable(token.content, 40) + "'", at->dump(), "an id in vocab.json");
    token.id = at->get<int32_t>();
    added.push_back(std::move(token));
  }
  std::stable_sort(added.begin(), added.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  json list = json::array();
  for (const auto& token : added) list.push_back(added_json(token));
  return list;
}

// <bos> and <eos> around the text where the folder asks for them.
json post_processor(const TokenizerConfig& config, const TokenizerClass& c, const json& added) {
  const bool bos = config.flag("add_bos_token", false), eos = config.flag("add_eos_token", false);
  if (bos && !c.adds_bos) config.refuse_unless("add_bos_token", false);
  if (eos && !c.adds_eos) config.refuse_unless("add_eos_token", false);
  json single = json::array(), tokens = json::object();
  const auto add = [&](const char* key, const char* text) {
    const auto role = config.role(key);
    const std::string content = role ? role->content : text;
    for (const json& token : added)
      if (token["content"] == content) {
        single.push_back({{"SpecialToken", {{"id", content}, {"type_id", 0}}}});
        tokens[content] = {{"id", content}, {"ids", {token["id"]}}, {"tokens", {content}}};
        return;
      }
    refuse_tokenizer(config.file, key, "none, but the folder asks to add it", "a token");
  };
  if (bos) add("bos_token", c.bos);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  if (eos) add("eos_token", c.eos);
  if (!bos && !eos) return {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", false}, {"use_regex", true}};
  json pair = json::array({{{"Sequence", {{"id", "A"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "B"}, {"type_id", 1}}}}});
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", tokens}};
}

}  // namespace

json compose_tokenizer_json(const fs::path& folder) {
  const TokenizerConfig config = TokenizerConfig::read(folder);
  const TokenizerClass& c = class_of(config, folder);
  config.refuse_unless("split_special_tokens", false);
  config.refuse_unless("errors", "replace");  // of decoding; bytes are kept as they are here
  const json vocab = read_vocabulary(folder / "vocab.json");
  const json merges = read_merges(folder / "merges.txt", vocab);
  const json added = added_tokens(config, c, vocab);
  json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", config.flag("add_prefix_space", false)}, {"trim_offsets", true},
                     {"use_regex", !c.qwen}};
  json pre = byte_level;
  if (c.qwen) {
    const json split = {{"type", "Split"}, {"pattern", {{"Regex", kQwenPattern}}}, {"behavior", "Isolated"}, {"invert", false}};
    pre = {{"type", "Sequence"}, {"pretokenizers", json::array({split, byte_level})}};
  }
  const json decoder = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  const json model = {{"type", "BPE"}, {"dropout", nullptr}, {"unk_token", nullptr}, {"continuing_subword_prefix", nullptr},
                      {"end_of_word_suffix", nullptr}, {"fuse_unk", false}, {"byte_fallback", false}, {"ignore_merges", false},
                      {"vocab", vocab}, {"merges", merges}};
  return {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}, {"added_tokens", added},
          {"normalizer", c.nfc ? json{{"type", "NFC"}} : json(nullptr)}, {"pre_tokenizer", pre},
          {"post_processor", post_processor(config, c, added)}, {"decoder", decoder}, {"model", model}};
}

std::shared_ptr<const Tokenizer> load_vocab_merges(const fs::path& folder) {
  return make_tokenizer(compose_tokenizer_json(folder), (folder / "vocab.json").string());
}

}  // namespace slotscope::formats
