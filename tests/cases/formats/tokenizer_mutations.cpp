// Damaged tokenizer.json: every value of small files that use every section is replaced by values of other
// types, removed or doubled. Each is refused with an Error or gives a tokenizer that works; none crashes or
// hangs.
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/formats/tokenizer_json.h"
#include "core/formats/utf8.h"
#include "tests/cases/case.h"
#include "tests/cases/formats/tokenizer_parts.h"

using namespace slotscope::formats;
using namespace slotscope::testing;
using nlohmann::json;

namespace {

const std::vector<json>& substitutes() {
  static const std::vector<json> all = {nullptr,
                                        5,
                                        -1,
                                        0,
                                        1e300,
                                        0.5,
                                        true,
                                        false,
                                        "",
                                        "x",
                                        "▁",
                                        "Sequence",
                                        "ByteLevel",
                                        "é\u0301",
                                        json::array(),
                                        json::array({1}),
                                        json::array({"a", "b"}),
                                        json::object(),
                                        {{"type", "NFC"}},
                                        {{"String", "a"}},
                                        18446744073709551615ull,
                                        2147483647,
                                        json::parse(R"("\ud83d\ude00")"),
                                        "(a+)+$",
                                        std::string("a\0b", 3)};
  return all;
}

// All places of a document.
void collect(const json& value, const json::json_pointer& at, std::vector<json::json_pointer>& out) {
  if (!at.empty()) out.push_back(at);
  if (value.is_object())
    for (const auto& [key, part] : value.items()) collect(part, at / key, out);
  if (value.is_array())
    for (size_t i = 0; i < value.size(); ++i) collect(value[i], at / i, out);
}

struct Counts {
  int accepted = 0, refused = 0;
};

void try_it(Context& t, const json& root, Counts& counts) {
  const std::string text = "<s>  Ab ﬁé 12 a\u0301, <m>ab\n\0x😀 ▁";
  try {
    const auto tokenizer = make_tokenizer(root, "tokenizer.json");
    ++counts.accepted;
    for (const bool special : {true, false}) {
      const Encoding got = tokenizer->encode(text, special);
      CHECK_EQ(got.tokens.size(), got.ids.size());
      CHECK_EQ(got.offsets.size(), got.ids.size());
      for (const auto& [begin, end] : got.byte_offsets)
        CHECK(0 <= begin && begin <= end && end <= int64_t(text.size()));
      for (const int32_t id : got.ids) {
        CHECK(id >= 0 && id < tokenizer->size());
        CHECK(first_invalid_utf8(tokenizer->token_text(id)) == kValidUtf8);
      }
      tokenizer->decode(got.ids, special);
    }
    tokenizer->decode({0, 5, 2, -7, 1 << 30, 3, 1}, false);
    tokenizer->token_bytes(3);
  } catch (const slotscope::Error& e) {
    ++counts.refused;
    CHECK(std::string(e.what()).size() < 600);
  }
}

void mutate(Context& t, const json& root) {
  Counts counts;
  try_it(t, root, counts);
  CHECK_EQ(counts.accepted, 1);
  CHECK_EQ(counts.refused, 0);
  std::vector<json::json_pointer> places;
  collect(root, json::json_pointer(), places);
  for (const auto& place : places) {
    for (const json& value : substitutes()) {
      json changed = root;
      changed[place] = value;
      try_it(t, changed, counts);
    }
    json& parent = const_cast<json&>(root[place.parent_pointer()]);
    json changed = root;
    json& holder = changed[place.parent_pointer()];
    if (parent.is_object()) {
      holder.erase(place.back());
    } else {
      holder.push_back(holder[std::stoul(place.back())]);
      try_it(t, changed, counts);
      holder.erase(std::stoul(place.back()));
    }
    try_it(t, changed, counts);
  }
  CHECK(counts.accepted > 50 && counts.refused > 50);
  t.note(std::to_string(counts.accepted) + " accepted, " + std::to_string(counts.refused) + " refused");
}

const char* const kByteLevel = R"({"version": "1.0",
  "added_tokens": [{"id": 7, "content": "<s>", "single_word": false, "lstrip": true, "rstrip": true, "normalized": false, "special": true},
                   {"id": 8, "content": "<m>", "normalized": true, "special": false}],
  "normalizer": {"type": "Sequence", "normalizers": [{"type": "Replace", "pattern": {"String": "q"}, "content": "a"},
    {"type": "Strip", "strip_left": false, "strip_right": true}, {"type": "Prepend", "prepend": "a"}, {"type": "Nmt"}]},
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"String": "b"}, "behavior": "MergedWithNext", "invert": false},
    {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": false}]},
  "post_processor": {"type": "Sequence", "processors": [
    {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true},
    {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
     "special_tokens": {"<s>": {"id": "<s>", "ids": [7], "tokens": ["<s>"]}}}]},
  "decoder": {"type": "ByteLevel"},
  "model": {"type": "BPE", "dropout": null, "unk_token": "?", "fuse_unk": true, "byte_fallback": false, "ignore_merges": false,
    "vocab": {"?": 0, "a": 1, "b": 2, "Ġ": 3, "ab": 4, "Ġa": 5, "Ã": 6}, "merges": ["a b", ["Ġ", "a"]]}})";

const char* const kSentence = R"({"truncation": null,
  "added_tokens": [{"id": 0, "content": "<unk>", "special": true}, {"id": 6, "content": "<m>", "single_word": true}],
  "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}, {"type": "StripAccents"},
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]},
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Punctuation"},
    {"type": "Digits", "individual_digits": true},
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": true}]},
  "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"Regex": "x"}, "content": " "}, {"type": "ByteFallback"},
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}, {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 1}]},
  "post_processor": {"type": "RobertaProcessing", "sep": ["<m>", 6], "cls": ["<unk>", 0], "trim_offsets": true, "add_prefix_space": false},
  "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": true,
    "vocab": [["<unk>", 0], ["▁", -2.5], ["a", -3], ["▁ab", -4.5], ["<0xF0>", -9], ["f", -5]]}})";

}  // namespace

SLOTSCOPE_CASE(byte_level_file) { mutate(t, json::parse(kByteLevel)); }

SLOTSCOPE_CASE(sentence_file) {
  needs_icu(t);
  mutate(t, json::parse(kSentence));
}

// Anything at all may be given as a document.
SLOTSCOPE_CASE(other_documents) {
  for (const json& value : substitutes()) CHECK_ERROR(make_tokenizer(value, "f"), "f");
  CHECK_ERROR(make_tokenizer(json::object(), "f"), "model", "missing");
  json root = json::parse(kByteLevel);
  for (const auto& [section, list] :
       {std::pair("decoder", "decoders"), std::pair("post_processor", "processors")}) {
    json deep = {{"type", "ByteLevel"}};
    for (int i = 0; i < 90; ++i) deep = {{"type", "Sequence"}, {list, json::array({deep})}};
    json changed = root;
    changed[section] = deep;
    CHECK_ERROR(make_tokenizer(changed, "f"), section, "deeper");
  }
  // The largest id that there can be, and one beyond.
  root["model"]["vocab"]["zz"] = 2147483646;
  CHECK_EQ(make_tokenizer(root, "f")->size(), 2147483647);
  CHECK_EQ(make_tokenizer(root, "f")->token_text(2147483646), std::string("zz"));
  root["model"]["vocab"]["zz"] = 2147483647;
  CHECK_ERROR(make_tokenizer(root, "f"), "model.vocab['zz']", "below 2147483647");
}
