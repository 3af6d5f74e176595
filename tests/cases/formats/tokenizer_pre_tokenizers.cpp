// Pre-tokenizers: where the text is cut, and which bytes of the original the pieces stand for.
#include "core/error.h"
#include "tests/cases/case.h"
#include "tests/cases/formats/tokenizer_parts.h"

using namespace slotscope::formats;
using namespace slotscope::testing;
using nlohmann::json;
using Texts = std::vector<std::string>;

namespace {

json split_text(const char* text, const char* behaviour, bool invert = false) {
  return {{"type", "Split"}, {"pattern", {{"String", text}}}, {"behavior", behaviour}, {"invert", invert}};
}
json metaspace(const char* scheme, bool split = true) {
  return {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", scheme}, {"split", split}};
}

}  // namespace

// The five behaviours on the example that the public library's documentation gives, and the same turned
// round.
SLOTSCOPE_CASE(behaviours) {
  const std::string text = "the-final--countdown";
  CHECK_EQ(texts_of(cut(split_text("-", "Removed"), text)), (Texts{"the", "final", "countdown"}));
  CHECK_EQ(texts_of(cut(split_text("-", "Isolated"), text)),
           (Texts{"the", "-", "final", "-", "-", "countdown"}));
  CHECK_EQ(texts_of(cut(split_text("-", "MergedWithPrevious"), text)),
           (Texts{"the-", "final-", "-", "countdown"}));
  CHECK_EQ(texts_of(cut(split_text("-", "MergedWithNext"), text)),
           (Texts{"the", "-final", "-", "-countdown"}));
  CHECK_EQ(texts_of(cut(split_text("-", "Contiguous"), text)),
           (Texts{"the", "-", "final", "--", "countdown"}));
  CHECK_EQ(texts_of(cut(split_text("-", "Removed", true), text)), (Texts{"-", "-", "-"}));
  CHECK_EQ(texts_of(cut(split_text("-", "MergedWithPrevious"), "--a-")), (Texts{"-", "-", "a-"}));
  CHECK_EQ(texts_of(cut(split_text("-", "MergedWithNext"), "-a--")), (Texts{"-a", "-", "-"}));
  CHECK_EQ(texts_of(cut(split_text("-", "Contiguous"), "--")), (Texts{"--"}));
  CHECK_EQ(texts_of(cut(split_text("ab", "Isolated"), "ababa")), (Texts{"ab", "ab", "a"}));
  CHECK_EQ(texts_of(cut(split_text("-", "Removed"), "---")), Texts{});
  CHECK((cut(split_text("-", "Removed"), "é-日") == std::vector<Piece>{{"é", 0, 2}, {"日", 3, 6}}));
  CHECK_ERROR(cut(split_text("-", "Isolate"), "a"), "pre_tokenizer.behavior", "'Isolate'", "MergedWithNext");
}

SLOTSCOPE_CASE(metaspace_schemes) {
  CHECK((cut(metaspace("always"), "Hey  you") ==
         std::vector<Piece>{{"▁Hey", 0, 3}, {"▁", 3, 4}, {"▁you", 4, 8}}));
  CHECK_EQ(texts_of(cut(metaspace("always"), " a")), (Texts{"▁a"}));
  CHECK_EQ(texts_of(cut(metaspace("always"), "▁a")), (Texts{"▁a"}));
  CHECK_EQ(texts_of(cut(metaspace("never"), "a b")), (Texts{"a", "▁b"}));
  CHECK_EQ(texts_of(cut(metaspace("first", false), "a b")), (Texts{"▁a▁b"}));
  // The older key, and both in one file.
  const json old = {{"type", "Metaspace"}, {"replacement", "_"}, {"add_prefix_space", true}};
  CHECK_EQ(texts_of(cut(old, "a b")), (Texts{"_a", "_b"}));
  json both = metaspace("first");
  both["add_prefix_space"] = false;
  CHECK_ERROR(cut(both, "a"), "pre_tokenizer.prepend_scheme", "first", "never");
  both["prepend_scheme"] = "never";
  CHECK_EQ(texts_of(cut(both, "a")), (Texts{"a"}));
  both["replacement"] = "__";
  CHECK_ERROR(cut(both, "a"), "pre_tokenizer.replacement", "exactly one character");
  // "first" is the start of the original text: a later step sees no start again.
  const json sequence = {{"type", "Sequence"},
                         {"pretokenizers", {split_text("-", "Removed"), metaspace("first")}}};
  CHECK_EQ(texts_of(cut(sequence, "a-b")), (Texts{"▁a", "b"}));
}

SLOTSCOPE_CASE(byte_level_prefix) {
  const json section = {
      {"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", false}};
  CHECK((cut(section, "é") == std::vector<Piece>{{"ĠÃ©", 0, 2}}));
  CHECK((cut(section, " a\n") == std::vector<Piece>{{"ĠaĊ", 0, 3}}));
}

SLOTSCOPE_CASE(characters_of_a_kind) {
  CHECK((cut({{"type", "WhitespaceSplit"}}, " a\u3000b\n") == std::vector<Piece>{{"a", 1, 2}, {"b", 5, 6}}));
  CHECK_EQ(texts_of(cut({{"type", "CharDelimiterSplit"}, {"delimiter", "é"}}, "aébéé")), (Texts{"a", "b"}));
  needs_icu(t);
  const auto digits = [](bool each) { return json{{"type", "Digits"}, {"individual_digits", each}}; };
  CHECK_EQ(texts_of(cut(digits(true), "a12٣b")), (Texts{"a", "1", "2", "٣", "b"}));
  CHECK_EQ(texts_of(cut(digits(false), "a12½b")), (Texts{"a", "12½", "b"}));
  CHECK_EQ(texts_of(cut({{"type", "Punctuation"}}, "Hi, $you…“x”")),
           (Texts{"Hi", ",", " ", "$", "you", "…", "“", "x", "”"}));
  CHECK_EQ(texts_of(cut({{"type", "Punctuation"}, {"behavior", "Removed"}}, "a,b")), (Texts{"a", "b"}));
  CHECK_EQ(texts_of(cut({{"type", "Whitespace"}}, "Hey, you_1!? né\u0301")),
           (Texts{"Hey", ",", "you_1", "!?", "né\u0301"}));
}
