#include "core/formats/tokenizer_json.h"

#include <set>

#include "core/error.h"
#include "core/formats/json.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr uint64_t kMaxTokenizerBytes = 512ull << 20;

const json* section(const json& object, const char* key) {
  const auto at = object.find(key);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}

std::string type_of(const json& value) {
  if (!value.is_object()) return value.type_name();
  const json* type = section(value, "type");
  return type && type->is_string() ? printable(type->get<std::string>(), 40) : "no type";
}

}  // namespace

void refuse_tokenizer(const std::string& file, std::string item, std::string found, std::string expected) {
  throw Error({file, std::move(item), std::move(found), std::move(expected),
               "This tokenizer cannot be followed exactly; run the model from token ids instead."});
}

bool has_all_tokenizers() {
#ifdef SLOTSCOPE_TOKENIZERS
  return true;
#else
  return false;
#endif
}

std::shared_ptr<const Tokenizer> Tokenizer::load(const fs::path& folder) {
  std::error_code ignored;
  const fs::path path = folder / "tokenizer.json";
  if (!fs::exists(path, ignored)) {
    for (const char* other : {"tokenizer.model", "vocab.json", "spiece.model"})
      if (fs::exists(folder / other, ignored))
        refuse_tokenizer((folder / other).string(), "", "a tokenizer in this form is not read yet",
                         "tokenizer.json");
    return nullptr;
  }
  const json root = parse_json(read_text_file(path, kMaxTokenizerBytes), {.file = path.string()});
  if (!root.is_object()) refuse_tokenizer(path.string(), "", root.type_name(), "a JSON object");
  return make_tokenizer(root, path.string());
}

std::shared_ptr<const Tokenizer> make_tokenizer(const json& root, const std::string& file) {
  const json* model = section(root, "model");
  if (!model || !model->is_object())
    refuse_tokenizer(file, "model", model ? model->type_name() : "missing", "an object");
  // Old files leave the type out; vocab and merges tell BPE.
  const bool bpe = model->contains("type") ? type_of(*model) == "BPE" : model->contains("merges");
  if (bpe) return make_byte_level_bpe(root, file);
  refuse_tokenizer(file, "model.type", type_of(*model), "BPE (byte-level)");
}

AddedTokens read_added_tokens(const json& root, const std::string& file) {
  AddedTokens tokens;
  const json* list = section(root, "added_tokens");
  if (!list) return tokens;
  if (!list->is_array()) refuse_tokenizer(file, "added_tokens", list->type_name(), "a list");
  std::set<std::string> seen;
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string item = "added_tokens[" + std::to_string(i) + "]";
    const json& entry = (*list)[i];
    if (!entry.is_object()) refuse_tokenizer(file, item, entry.type_name(), "an object");
    const json *id = section(entry, "id"), *content = section(entry, "content");
    if (!id || !id->is_number_unsigned() || id->get<uint64_t>() > 0x7FFFFFFE)
      refuse_tokenizer(file, item + ".id", id ? id->dump() : "missing", "a whole number below 2147483647");
    if (!content || !content->is_string())
      refuse_tokenizer(file, item + ".content", "no text", "the token's text");
    const auto flag = [&](const char* key) {
      const json* v = section(entry, key);
      if (v && !v->is_boolean()) refuse_tokenizer(file, item + "." + key, v->dump(), "true or false");
      return v && v->get<bool>();
    };
    for (const char* key : {"single_word", "lstrip", "rstrip"})
      if (flag(key)) refuse_tokenizer(file, item + "." + key, "true", "false");
    AddedToken token{id->get<int32_t>(), content->get<std::string>(), flag("special"), flag("normalized")};
    if (token.content.empty()) refuse_tokenizer(file, item + ".content", "empty", "the token's text");
    if (!seen.insert(token.content).second)
      refuse_tokenizer(file, item + ".content", "'" + printable(token.content, 40) + "' twice",
                       "each token once");
    tokens.add(std::move(token));
  }
  return tokens;
}

std::vector<int32_t> read_template(const json& root, const std::string& file) {
  const json* processor = section(root, "post_processor");
  if (!processor) return {-1};
  const std::string type = type_of(*processor);
  if (type == "ByteLevel") {
    const json* trim = section(*processor, "trim_offsets");
    if (!trim || !trim->is_boolean() || trim->get<bool>())
      refuse_tokenizer(file, "post_processor.trim_offsets", "true", "false");
    return {-1};
  }
  if (type != "TemplateProcessing")
    refuse_tokenizer(file, "post_processor.type", type,
                     "TemplateProcessing, ByteLevel without trim_offsets, or null");
  const json *single = section(*processor, "single"), *specials = section(*processor, "special_tokens");
  if (!single || !single->is_array())
    refuse_tokenizer(file, "post_processor.single", "no list", "a list of pieces");
  std::vector<int32_t> pieces;
  int texts = 0;
  for (size_t i = 0; i < single->size(); ++i) {
    const std::string item = "post_processor.single[" + std::to_string(i) + "]";
    const json& piece = (*single)[i];
    const bool is_text = piece.is_object() && piece.contains("Sequence");
    const char* kind = is_text ? "Sequence" : "SpecialToken";
    if (!piece.is_object() || !piece.contains(kind) || !piece[kind].is_object() ||
        !piece[kind].contains("id") || !piece[kind]["id"].is_string())
      refuse_tokenizer(file, item, printable(piece.dump(-1, ' ', false, json::error_handler_t::replace), 60),
                       "SpecialToken or Sequence with an id");
    const auto id = piece[kind]["id"].get<std::string>();
    if (is_text) {
      if (id != "A") refuse_tokenizer(file, item, "Sequence " + printable(id, 20), "Sequence A");
      pieces.push_back(-1);
      ++texts;
      continue;
    }
    const json* special = specials && specials->is_object() ? section(*specials, id.c_str()) : nullptr;
    const json* ids = special && special->is_object() ? section(*special, "ids") : nullptr;
    if (!ids || !ids->is_array())
      refuse_tokenizer(file, item, "special token '" + printable(id, 40) + "' has no ids",
                       "an entry of special_tokens");
    for (const json& n : *ids) {
      if (!n.is_number_unsigned() || n.get<uint64_t>() > 0x7FFFFFFE)
        refuse_tokenizer(file, item, n.dump(), "whole numbers below 2147483647");
      pieces.push_back(n.get<int32_t>());
    }
  }
  if (texts != 1)
    refuse_tokenizer(file, "post_processor.single", std::to_string(texts) + " texts",
                     "the text exactly once");
  return pieces;
}

}  // namespace slotscope::formats
