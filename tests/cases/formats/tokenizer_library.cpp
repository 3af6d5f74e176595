// Corners of the public library that no golden folder has: which characters its regular expressions and Unicode tables
// know, and what adjacent added tokens do with the white space between them. Expected ids and ranges are what version
// 0.23.3 of it gives for the gpt2 vocabulary with the sections below.
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/formats/tokenizer_json.h"
#include "tests/cases/case.h"

using namespace slotscope::formats;
using namespace slotscope::testing;
using nlohmann::json;

namespace {

using Ids = std::vector<int32_t>;
using Offsets = std::vector<std::pair<int64_t, int64_t>>;

json gpt2(Context& t) {
  std::ifstream in(t.data("golden/tokenizers/gpt2/tokenizer.json"));
  return json::parse(in);
}
const json kBytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};

void check(Context& t, const json& root, const std::string& text, const Ids& ids, const Offsets& offsets) {
  const Encoding got = make_tokenizer(root, "tokenizer.json")->encode(text);
  CHECK_EQ(got.ids, ids);
  if (got.offsets != offsets) t.fail("offsets " + json(got.offsets).dump() + " of " + text, __FILE__, __LINE__);
}

json removing(Context& t, const json& pre_tokenizer) {
  json root = gpt2(t);
  root["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {pre_tokenizer, kBytes}}};
  return root;
}
json pattern(const char* regex) {
  return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Removed"}, {"invert", false}};
}
json added(int id, const char* content, bool lstrip, bool rstrip) {
  return {{"id", id}, {"content", content}, {"lstrip", lstrip}, {"rstrip", rstrip}, {"single_word", false},
          {"normalized", false}, {"special", false}};
}

}  // namespace

SLOTSCOPE_CASE(regex_classes) {
  if (!has_all_tokenizers()) t.skip("built without ICU");
  // \w has the superscripts and fractions of Latin-1, letters in circles and Roman numerals, but no other number.
  check(t, removing(t, pattern("\\w")), "a½²Ⅷⓐ①-", {158, 239, 254, 12}, {{5, 6}, {5, 6}, {5, 6}, {6, 7}});
  check(t, removing(t, pattern("[[:punct:]]")), "a$-€©1", {64, 16}, {{0, 1}, {5, 6}});
  check(t, removing(t, pattern("\\p{Punct}")), "a$-€©1", {64, 3, 158, 224, 105, 126, 102, 16},
        {{0, 1}, {1, 2}, {3, 4}, {3, 4}, {3, 4}, {4, 5}, {4, 5}, {5, 6}});
}

SLOTSCOPE_CASE(age_of_its_tables) {
  if (!has_all_tokenizers()) t.skip("built without ICU");
  // Punctuation as of Unicode 8: U+2E43 came later, U+166D and U+111C9 are something else today.
  check(t, removing(t, {{"type", "Punctuation"}, {"behavior", "Removed"}}), "a\u166d\u2e43\U000111c9-b",
        {64, 158, 117, 225, 65}, {{0, 1}, {2, 3}, {2, 3}, {2, 3}, {5, 6}});
  json root = gpt2(t);
  root["pre_tokenizer"] = kBytes;
  root["normalizer"] = {{"type", "NFKC"}};  // Unicode 11: U+32FF came in 12.1, U+32FE is compatible with a kana
  check(t, root, "\u32ff\u32fe", {159, 233, 123, 159, 225, 110}, {{0, 1}, {0, 1}, {0, 1}, {1, 2}, {1, 2}, {1, 2}});
  root["normalizer"] = {{"type", "StripAccents"}};  // marks of Unicode 9
  check(t, root, "a\u1cf2\u07fd\u0301", {64, 155, 121}, {{0, 1}, {2, 3}, {2, 3}});
}

// rstrip takes the white space in which the next added token starts: the two overlap, but for lstrip, which cuts the second.
SLOTSCOPE_CASE(white_space_between_added_tokens) {
  if (!has_all_tokenizers()) t.skip("built without ICU");
  const auto with = [&](bool lstrip, bool rstrip) {
    json root = gpt2(t);
    root["pre_tokenizer"] = kBytes;
    root["added_tokens"].push_back(added(701, "<x>", false, true));
    root["added_tokens"].push_back(added(702, " b", lstrip, rstrip));
    root["added_tokens"].push_back(added(703, "\n\n", lstrip, rstrip));
    return root;
  };
  check(t, with(false, false), "a<x>  b c", {64, 701, 702, 277}, {{0, 1}, {1, 6}, {5, 7}, {7, 9}});
  check(t, with(false, false), "a<x>\n\n\nz", {64, 701, 703, 198, 89}, {{0, 1}, {1, 7}, {4, 6}, {6, 7}, {7, 8}});
  check(t, with(false, true), "a<x>  b c", {64, 701, 702, 66}, {{0, 1}, {1, 6}, {5, 8}, {8, 9}});
  check(t, with(false, true), "a<x>\n\n\n\n\n", {64, 701, 703, 703}, {{0, 1}, {1, 9}, {4, 9}, {6, 9}});
  check(t, with(true, false), "a<x>  b c", {64, 701, 702, 277}, {{0, 1}, {1, 6}, {6, 7}, {7, 9}});
  // Nothing is left of the second: the public library panics here, we drop it.
  check(t, with(true, false), "a<x>\n\nz", {64, 701, 89}, {{0, 1}, {1, 6}, {6, 7}});
}
