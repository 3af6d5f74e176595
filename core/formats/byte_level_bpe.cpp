// Byte-level BPE (tokenizer.json) without a pre-tokenizer regex: every stretch between added tokens is one
// word.
#include <algorithm>
#include <array>
#include <unordered_map>

#include "core/error.h"
#include "core/formats/bpe.h"
#include "core/formats/byte_level.h"
#include "core/formats/json.h"
#include "core/formats/tokenizer_json.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {
namespace {

using nlohmann::json;

class ByteLevelBpe : public Tokenizer {
 public:
  std::string file;
  AddedTokens added;
  std::vector<int32_t> around;       // post-processor: ids, -1 = the text
  std::array<int32_t, 256> byte_id;  // -1: no token for this byte
  MergeTable merges;
  bool ignore_merges = false;
  struct Entry {
    std::string text, bytes;
    bool special = false;
  };
  std::unordered_map<int32_t, Entry> entries;
  std::unordered_map<std::string, int32_t> ids;  // vocabulary text -> id
  int32_t limit = 0;                             // one more than the largest id

  Encoding encode(std::string_view text, bool add_special) const override {
    require_utf8(text, "", "text");
    Encoding result;
    for (const int32_t piece : add_special ? around : std::vector<int32_t>{-1}) {
      if (piece >= 0) {
        push(result, {piece, 0, 0});
        continue;
      }
      for (const auto& part : added.split(text)) {
        if (part.token)
          push(result, {part.token->id, int64_t(part.begin), int64_t(part.end)});
        else
          encode_word(text, part.begin, part.end, result);
      }
    }
    fill_char_offsets(text, result);
    return result;
  }

  std::string decode(const std::vector<int32_t>& tokens, bool skip_special) const override {
    std::string bytes;
    for (const int32_t id : tokens)
      if (!(skip_special && is_special(id))) bytes += token_bytes(id);
    return bytes;
  }
  std::string token_text(int32_t id) const override {
    const auto at = entries.find(id);
    return at == entries.end() ? "<unused " + std::to_string(id) + ">" : at->second.text;
  }
  // An id without an entry stands for nothing; the public library leaves it out as well.
  std::string token_bytes(int32_t id) const override {
    const auto at = entries.find(id);
    return at == entries.end() ? std::string() : at->second.bytes;
  }
  bool is_special(int32_t id) const override {
    const auto at = entries.find(id);
    return at != entries.end() && at->second.special;
  }
  int32_t size() const override { return limit; }
  std::string kind() const override { return "byte-level BPE, " + thousands(entries.size()) + " entries"; }

 private:
  static void push(Encoding& result, Piece piece) {
    result.ids.push_back(piece.id);
    result.byte_offsets.emplace_back(piece.begin, piece.end);
  }

  void encode_word(std::string_view text, size_t begin, size_t end, Encoding& result) const {
    std::vector<Piece> pieces;
    if (ignore_merges) {
      std::string word;
      for (size_t i = begin; i < end; ++i)
        append_utf8(word, byte_level_alphabet()[static_cast<unsigned char>(text[i])]);
      if (const auto at = ids.find(word); at != ids.end())
        return push(result, {at->second, int64_t(begin), int64_t(end)});
    }
    pieces.reserve(end - begin);
    for (size_t i = begin; i < end; ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      if (byte_id[byte] < 0) {
        char found[60];
        std::snprintf(found, sizeof found, "byte 0x%02x at position %zu has no token", byte, i);
        throw Error({file, "model.vocab", found, "a vocabulary with all 256 bytes",
                     "Leave this character out of the text."});
      }
      pieces.push_back({byte_id[byte], int64_t(i), int64_t(i + 1)});
    }
    merge_pieces(merges, pieces);
    for (const Piece& piece : pieces) push(result, piece);
  }

  // A token that covers a part of a character has that character's range: first character touched to last
  // one.
  static void fill_char_offsets(std::string_view text, Encoding& result) {
    std::vector<int64_t> character(text.size() + 1);  // of each byte
    int64_t count = -1;
    for (size_t i = 0; i < text.size(); ++i) character[i] = count += !is_utf8_continuation(text[i]);
    result.offsets.reserve(result.ids.size());
    for (const auto& [begin, end] : result.byte_offsets) {
      if (begin == end)
        result.offsets.emplace_back(0, 0);
      else
        result.offsets.emplace_back(character[size_t(begin)], character[size_t(end - 1)] + 1);
    }
  }
};

// Everything beside the vocabulary that would change ids or text, and what is honoured of it.
void check_sections(const json& root, const std::string& file) {
  const auto given = [&](const json& object, const char* key) {
    return object.contains(key) && !object[key].is_null();
  };
  for (const char* key : {"truncation", "padding", "normalizer"})
    if (given(root, key)) {
      const json& v = root[key];
      const std::string type =
          v.is_object() && v.contains("type") && v["type"].is_string() ? v["type"].get<std::string>() : "set";
      refuse_tokenizer(file, key, printable(type, 40), "null");
    }
  for (const char* key : {"pre_tokenizer", "decoder"}) {
    const json part = root.contains(key) ? root[key] : json();
    const std::string type = part.is_object() && part.contains("type") && part["type"].is_string()
                                 ? printable(part["type"].get<std::string>(), 40)
                                 : std::string(part.type_name());
    if (type != "ByteLevel") refuse_tokenizer(file, std::string(key) + ".type", type, "ByteLevel");
  }
  const json& pre = root["pre_tokenizer"];
  const auto flag = [&](const char* key, bool fallback) {
    if (!given(pre, key)) return fallback;
    if (!pre[key].is_boolean())
      refuse_tokenizer(file, std::string("pre_tokenizer.") + key, pre[key].dump(), "true or false");
    return pre[key].get<bool>();
  };
  if (flag("use_regex", true))
    refuse_tokenizer(file, "pre_tokenizer.use_regex", "true (a regex over Unicode classes)", "false");
  if (flag("add_prefix_space", true))
    refuse_tokenizer(file, "pre_tokenizer.add_prefix_space", "true", "false");
  const json& model = root["model"];
  if (given(model, "dropout") && !(model["dropout"].is_number() && model["dropout"].get<double>() == 0))
    refuse_tokenizer(file, "model.dropout", model["dropout"].dump(), "null: encoding must not be random");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (given(model, key) && model[key] != "")
      refuse_tokenizer(file, std::string("model.") + key, model[key].dump(), "null");
}

void read_vocabulary(const json& model, ByteLevelBpe& tokenizer) {
  const std::string& file = tokenizer.file;
  if (!model.contains("vocab") || !model["vocab"].is_object())
    refuse_tokenizer(file, "model.vocab", "no object", "token: id");
  const auto insert = [&](int32_t id, ByteLevelBpe::Entry entry) {
    const auto [at, fresh] = tokenizer.entries.emplace(id, entry);
    if (!fresh && at->second.text != entry.text)
      refuse_tokenizer(
          file, "id " + std::to_string(id),
          "both '" + printable(at->second.text, 30) + "' and '" + printable(entry.text, 30) + "'",
          "one token per id");
    at->second = std::move(entry);
    tokenizer.limit = std::max(tokenizer.limit, id + 1);
  };
  for (const auto& [text, id] : model["vocab"].items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > 0x7FFFFFFE)
      refuse_tokenizer(file, "model.vocab['" + printable(text, 40) + "']", id.dump(),
                       "a whole number below 2147483647");
    insert(id.get<int32_t>(), {text, byte_level_bytes(text).value_or(text), false});
    tokenizer.ids.emplace(text, id.get<int32_t>());
  }
  for (const AddedToken& token : tokenizer.added.all()) {
    const auto at = tokenizer.ids.find(token.content);
    if (at != tokenizer.ids.end() && at->second != token.id)
      refuse_tokenizer(
          file, "added token '" + printable(token.content, 40) + "'",
          "id " + std::to_string(token.id) + " and id " + std::to_string(at->second) + " in the vocabulary",
          "one id");
    insert(token.id, {token.content, token.content, token.special});
  }
  for (int byte = 0; byte < 256; ++byte) {
    const auto at = tokenizer.ids.find(byte_level_text(static_cast<unsigned char>(byte)));
    tokenizer.byte_id[size_t(byte)] = at == tokenizer.ids.end() ? -1 : at->second;
  }
  for (const int32_t id : tokenizer.around)
    if (id >= 0 && !tokenizer.entries.contains(id))
      refuse_tokenizer(file, "post_processor", "id " + std::to_string(id) + " has no token",
                       "an id of the vocabulary");
}

// Both written forms: "a b" and ["a", "b"] (bad-inputs B30).
void read_merges(const json& model, ByteLevelBpe& tokenizer) {
  const std::string& file = tokenizer.file;
  if (!model.contains("merges") || model["merges"].is_null()) return;
  const json& list = model["merges"];
  if (!list.is_array()) refuse_tokenizer(file, "model.merges", list.type_name(), "a list");
  int32_t rank = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string item = "model.merges[" + std::to_string(i) + "]";
    std::string left, right;
    if (list[i].is_string()) {
      const auto text = list[i].get<std::string>();
      if (text.starts_with("#version")) continue;
      const auto space = text.find(' ');
      if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
        refuse_tokenizer(file, item,
                         "'" + printable(text, 40) + "' has " +
                             std::to_string(std::count(text.begin(), text.end(), ' ')) + " spaces",
                         "two tokens with one space");
      left = text.substr(0, space), right = text.substr(space + 1);
    } else if (list[i].is_array() && list[i].size() == 2 && list[i][0].is_string() &&
               list[i][1].is_string()) {
      left = list[i][0].get<std::string>(), right = list[i][1].get<std::string>();
    } else {
      refuse_tokenizer(file, item,
                       printable(list[i].dump(-1, ' ', false, json::error_handler_t::replace), 40),
                       "\"left right\" or [\"left\", \"right\"]");
    }
    int32_t id[3];
    const std::string* texts[] = {&left, &right};
    const std::string both = left + right;
    for (int k = 0; k < 3; ++k) {
      const std::string& text = k < 2 ? *texts[k] : both;
      const auto at = tokenizer.ids.find(text);
      if (at == tokenizer.ids.end())
        refuse_tokenizer(file, item, "'" + printable(text, 40) + "' is not in the vocabulary",
                         "tokens of the vocabulary");
      id[k] = at->second;
    }
    tokenizer.merges.add(id[0], id[1], rank++, id[2]);
  }
}

}  // namespace

std::shared_ptr<const Tokenizer> make_byte_level_bpe(const json& root, const std::string& file) {
  check_sections(root, file);
  auto tokenizer = std::make_shared<ByteLevelBpe>();
  tokenizer->file = file;
  tokenizer->added = read_added_tokens(root, file);
  tokenizer->around = read_template(root, file);
  const json& model = root["model"];
  tokenizer->ignore_merges = model.contains("ignore_merges") && model["ignore_merges"].is_boolean() &&
                             model["ignore_merges"].get<bool>();
  read_vocabulary(model, *tokenizer);
  read_merges(model, *tokenizer);
  return tokenizer;
}

}  // namespace slotscope::formats
