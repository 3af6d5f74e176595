// Models, added tokens, post-processors and decoders on small vocabularies whose results follow by hand.
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/formats/byte_level.h"
#include "core/formats/tokenizer.h"
#include "core/formats/tokenizer_json.h"
#include "core/formats/utf8.h"
#include "tests/cases/case.h"
#include "tests/cases/formats/files.h"
#include "tests/cases/formats/tokenizer_parts.h"

using namespace slotscope::formats;
using namespace slotscope::testing;
using nlohmann::json;
using Ids = std::vector<int32_t>;
using Texts = std::vector<std::string>;
using Ranges = std::vector<std::pair<int64_t, int64_t>>;

namespace {

std::shared_ptr<const Tokenizer> make(const json& root) { return make_tokenizer(root, "tokenizer.json"); }

json bpe(const Texts& vocabulary, json merges = json::array()) {
  json vocab = json::object();
  for (const auto& text : vocabulary) vocab[text] = vocab.size();
  return {{"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", std::move(merges)}}}};
}

// Merges as pairs (written as braces alone they would be a JSON object).
json pairs_of(const std::vector<std::pair<std::string, std::string>>& pairs) {
  json list = json::array();
  for (const auto& [left, right] : pairs) list.push_back(json::array({left, right}));
  return list;
}

json unigram(const std::vector<std::pair<std::string, double>>& vocabulary) {
  json vocab = json::array();
  for (const auto& [text, score] : vocabulary) vocab.push_back({text, score});
  return {{"model", {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", vocab}}}};
}

json added(const std::string& content, int id, json options = json::object()) {
  json token = {{"id", id}, {"content", content}, {"special", false}, {"normalized", true}};
  token.update(options);
  return token;
}

}  // namespace

// B30: a merge as a pair may hold a space, as text it may not.
SLOTSCOPE_CASE(merges_with_spaces) {
  json root = bpe({"a", "b", "c", "ab", "abc", " ", " b", "a b"});
  root["model"]["merges"] = {"a b", "ab c"};
  const auto text = make(root);
  root["model"]["merges"] = pairs_of({{"a", "b"}, {"ab", "c"}});
  const auto pairs = make(root);
  for (const std::string s : {"ab", "abc", "aabcb", "abab cabc", "cba"})
    CHECK_EQ(text->encode(s).ids, pairs->encode(s).ids);
  CHECK_EQ(text->encode("aabc").ids, (Ids{0, 4}));
  root["model"]["merges"] = pairs_of({{" ", "b"}, {"a", " b"}});
  CHECK_EQ(make(root)->encode("ca b").ids, (Ids{2, 7}));
  root["model"]["merges"] = {"a b c"};
  CHECK_ERROR(make(root), "model.merges[0]", "2 spaces");
}

// Without byte fallback an unknown stretch is one unknown token or one for each character, as fuse_unk says.
SLOTSCOPE_CASE(bpe_unknown) {
  json root = bpe({"<unk>", "a", "b", "ab"}, {"a b"});
  CHECK_ERROR(make(root)->encode("aéb"), "'é' at byte 1", "unk_token");
  root["model"]["unk_token"] = "<unk>";
  const Encoding apart = make(root)->encode("aéxab");
  CHECK_EQ(apart.ids, (Ids{1, 0, 0, 3}));
  CHECK_SAME(apart.offsets, (Ranges{{0, 1}, {1, 2}, {2, 3}, {3, 5}}));
  CHECK_EQ(apart.tokens, (Texts{"a", "<unk>", "<unk>", "ab"}));
  root["model"]["fuse_unk"] = true;
  const Encoding fused = make(root)->encode("aéxab");
  CHECK_EQ(fused.ids, (Ids{1, 0, 3}));
  CHECK_SAME(fused.offsets, (Ranges{{0, 1}, {1, 3}, {3, 5}}));
  CHECK_SAME(fused.byte_offsets, (Ranges{{0, 1}, {1, 4}, {4, 6}}));
}

// Bytes stand for a character that the vocabulary lacks, when all of them are there; each is its own byte.
SLOTSCOPE_CASE(bpe_byte_fallback) {
  json root = bpe({"<unk>", "a", "<0xC3>", "<0xA9>", "<0xE2>", "▁"});
  root["model"]["byte_fallback"] = true;
  root["model"]["unk_token"] = "<unk>";
  root["decoder"] = {{"type", "Sequence"},
                     {"decoders",
                      {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
                       {{"type", "ByteFallback"}},
                       {{"type", "Fuse"}},
                       {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  const auto tokenizer = make(root);
  const Encoding got = tokenizer->encode("aé…");
  CHECK_EQ(got.ids, (Ids{1, 2, 3, 0}));
  CHECK_SAME(got.offsets, (Ranges{{0, 1}, {1, 2}, {1, 2}, {2, 3}}));
  CHECK_SAME(got.byte_offsets, (Ranges{{0, 1}, {1, 2}, {2, 3}, {3, 6}}));
  // B32: raw bytes, never U+FFFD.
  CHECK_EQ(tokenizer->token_bytes(4), std::string("\xE2"));
  CHECK_EQ(tokenizer->decode({1, 2, 3}), std::string("aé"));
  CHECK_EQ(tokenizer->decode({1, 2}), std::string("a\xC3"));
  CHECK_EQ(tokenizer->decode({5, 1, 5, 4}), std::string("a \xE2"));
  CHECK_EQ(tokenizer->token_bytes(5) + tokenizer->token_bytes(1), std::string(" a"));
  CHECK_EQ(tokenizer->kind(), std::string("BPE with byte fallback, 6 entries"));
}

// B32: tokens of a byte-level vocabulary that are parts of a character, a lone byte, a space and a line end.
SLOTSCOPE_CASE(parts_of_characters) {
  Texts bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(byte_level_text(static_cast<unsigned char>(byte)));
  const auto b = [&](int byte) { return bytes[size_t(byte)]; };
  bytes.push_back(b(0xF0) + b(0x9F));
  json root = bpe(bytes, pairs_of({{b(0xF0), b(0x9F)}}));
  root["pre_tokenizer"] = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  root["decoder"] = root["pre_tokenizer"];
  const auto tokenizer = make(root);
  const Encoding got = tokenizer->encode("a😀");
  CHECK_EQ(got.ids, (Ids{'a', 256, 0x98, 0x80}));
  CHECK_SAME(got.byte_offsets, (Ranges{{0, 1}, {1, 3}, {3, 4}, {4, 5}}));
  CHECK_SAME(got.offsets, (Ranges{{0, 1}, {1, 2}, {1, 2}, {1, 2}}));
  CHECK_EQ(tokenizer->token_bytes(256), std::string("\xF0\x9F"));
  CHECK_EQ(tokenizer->decode(got.ids), std::string("a😀"));
  CHECK_EQ(tokenizer->decode({256, 0x98}), std::string("\xF0\x9F\x98"));
  CHECK_EQ(tokenizer->decode({0xC3}), std::string("\xC3"));
  CHECK_EQ(tokenizer->token_text(' ') + tokenizer->token_text('\n'), std::string("ĠĊ"));
  CHECK_EQ(tokenizer->token_bytes(' ') + tokenizer->token_bytes('\n'), std::string(" \n"));
}

SLOTSCOPE_CASE(bpe_prefix_and_suffix) {
  json root = bpe({"a", "##b", "##c</w>", "##bc</w>", "a</w>", "abc</w>"},
                  pairs_of({{"##b", "##c</w>"}, {"a", "##bc</w>"}}));
  root["model"]["continuing_subword_prefix"] = "##";
  root["model"]["end_of_word_suffix"] = "</w>";
  root["pre_tokenizer"] = {{"type", "WhitespaceSplit"}};
  root["decoder"] = {{"type", "BPEDecoder"}, {"suffix", "</w>"}};
  const auto tokenizer = make(root);
  const Encoding got = tokenizer->encode("a abc");
  CHECK_EQ(got.ids, (Ids{4, 5}));
  CHECK_SAME(got.offsets, (Ranges{{0, 1}, {2, 5}}));
  CHECK_EQ(tokenizer->decode(got.ids), std::string("a abc"));
  root["model"]["merges"] = pairs_of({{"##b", "##b"}});
  CHECK_ERROR(make(root), "model.merges[0]", "'##bb' is not in the vocabulary");
}

SLOTSCOPE_CASE(ignore_merges) {
  json root = bpe({"a", "b", "ab", "aba"}, {"a b"});
  CHECK_EQ(make(root)->encode("aba").ids, (Ids{2, 0}));
  root["model"]["ignore_merges"] = true;
  CHECK_EQ(make(root)->encode("aba").ids, (Ids{3}));
}

// The best sum of scores; unknown characters cost the lowest score less ten and are one token together.
SLOTSCOPE_CASE(unigram_viterbi) {
  json root = unigram(
      {{"<unk>", 0}, {"a", 0}, {"b", 0}, {"c", 0}, {"d", 0}, {"cd", 1}, {"ab", 2}, {"abc", 5}, {"abcd", 10}});
  const auto tokenizer = make(root);
  CHECK_EQ(tokenizer->encode("abcdacd").tokens, (Texts{"abcd", "a", "cd"}));
  const Encoding got = tokenizer->encode("abcxéyd");
  CHECK_EQ(got.ids, (Ids{7, 0, 4}));
  CHECK_EQ(got.tokens, (Texts{"abc", "xéy", "d"}));
  CHECK_SAME(got.offsets, (Ranges{{0, 3}, {3, 6}, {6, 7}}));
  root["model"]["unk_id"] = nullptr;
  CHECK_ERROR(make(root)->encode("abx"), "'x' at byte 2");
  root["model"]["unk_id"] = 9;
  CHECK_ERROR(make(root), "model.unk_id", "9", "0 to 8");
  // Two ways of one sum: the one whose last token begins first is found first and stays.
  CHECK_EQ(make(unigram({{"<unk>", -9}, {"a", -1}, {"aa", -2}}))->encode("aaa").tokens, (Texts{"a", "aa"}));
}

SLOTSCOPE_CASE(unigram_byte_fallback) {
  json root = unigram({{"<unk>", 0}, {"a", -1}, {"<0xC3>", 0}, {"<0xA9>", 0}});
  root["model"]["byte_fallback"] = true;
  const Encoding got = make(root)->encode("aéa");
  CHECK_EQ(got.ids, (Ids{1, 2, 3, 1}));
  CHECK_SAME(got.byte_offsets, (Ranges{{0, 1}, {1, 3}, {1, 3}, {3, 4}}));
  CHECK_EQ(make(root)->encode("aéx").ids, (Ids{1, 0}));  // x has no byte: the whole stretch is unknown
}

// Viterbi against the definition: every way to cut short random words.
SLOTSCOPE_CASE(unigram_equals_definition) {
  const std::vector<std::pair<std::string, double>> vocabulary = {
      {"<unk>", -3}, {"a", -1.5},  {"b", -2.25},   {"ab", -2.7}, {"ba", -3.1},
      {"aab", -4.4}, {"bb", -3.9}, {"abab", -5.3}, {"é", -2}};
  const auto tokenizer = make(unigram(vocabulary));
  const auto score = [&](const std::string& piece) {
    for (const auto& [text, s] : vocabulary)
      if (text == piece) return s;
    return -1e9;
  };
  const std::function<double(const std::string&)> best = [&](const std::string& word) {
    if (word.empty()) return 0.0;
    double top = -1e9;
    for (size_t n = 1; n <= std::min<size_t>(word.size(), 4); ++n)
      if (score(word.substr(0, n)) > -1e8)
        top = std::max(top, score(word.substr(0, n)) + best(word.substr(n)));
    return top;
  };
  uint64_t state = 5;
  for (int round = 0; round < 200; ++round) {
    std::string word;
    for (int i = 0; i < round % 12; ++i) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      word += (state >> 33) % 3 == 0 ? "b" : (state >> 33) % 17 == 1 ? "é" : "a";
    }
    double sum = 0;
    std::string joined;
    for (const auto& token : tokenizer->encode(word).tokens) sum += score(token), joined += token;
    CHECK_EQ(joined, word);
    CHECK_CLOSE(sum, best(word), 1e-12);
  }
}

SLOTSCOPE_CASE(word_models) {
  json root = bpe({"[UNK]", "un", "##aff", "##able", "aff"});
  root["model"].erase("merges");
  root["model"].update({{"type", "WordPiece"},
                        {"unk_token", "[UNK]"},
                        {"continuing_subword_prefix", "##"},
                        {"max_input_chars_per_word", 10}});
  root["pre_tokenizer"] = {{"type", "WhitespaceSplit"}};
  const Encoding got = make(root)->encode("unaffable aff unx affaffaffaff");
  CHECK_EQ(got.ids, (Ids{1, 2, 3, 4, 0, 0}));
  CHECK_SAME(got.offsets, (Ranges{{0, 2}, {2, 5}, {5, 9}, {10, 13}, {14, 17}, {18, 30}}));
  root["model"]["type"] = "WordLevel";
  CHECK_EQ(make(root)->encode("un aff other").ids, (Ids{1, 4, 0}));
  CHECK_EQ(make(root)->decode({1, 4}), std::string("un aff"));  // no decoder: a space between tokens
  root["model"]["unk_token"] = "none";
  CHECK_ERROR(make(root)->encode("other"), "unk_token");
}

// lstrip and rstrip take white space along, single_word needs a boundary, the longest of several counts;
// tokens of the normalised text are looked for in it, the others in the text as written.
SLOTSCOPE_CASE(added_tokens) {
  needs_icu(t);
  json root = unigram({{"<unk>", 0}});
  root["normalizer"] = {{"type", "Lowercase"}};
  root["added_tokens"] = {added("<s>", 1, {{"special", true}, {"normalized", false}}),
                          added("Name", 2),
                          added("<m>", 3, {{"lstrip", true}}),
                          added("<n>", 4, {{"rstrip", true}}),
                          added("ony", 5, {{"single_word", true}}),
                          added("<s>x", 6, {{"normalized", false}})};
  const auto tokenizer = make(root);
  const auto tokens = [&](const std::string& text) { return tokenizer->encode(text).tokens; };
  CHECK_EQ(tokens("My NAME<s>"), (Texts{"my ", "name", "<s>"}));
  CHECK_EQ(tokens("A<S>"),
           (Texts{"a<s>"}));  // as written it is another text, normalised it is not looked for
  CHECK_EQ(tokens("<s>x<s>"), (Texts{"<s>x", "<s>"}));
  CHECK_EQ(tokens("a \u2003<m> b"), (Texts{"a", " \u2003<m>", " b"}));
  CHECK_EQ(tokens("a <n>\t\n b"), (Texts{"a ", "<n>\t\n ", "b"}));
  CHECK_EQ(tokens("<n> <m>"), (Texts{"<n> ", "<m>"}));  // white space goes to the first that takes it
  CHECK_EQ(tokens("ony Anthony, ony-on\u0301 ony\u0301"),
           (Texts{"ony", " anthony, ", "ony", "-on\u0301 ony\u0301"}));
  const Encoding got = tokenizer->encode("é <M> NAME");
  CHECK_EQ(got.ids, (Ids{0, 3, 0, 2}));
  CHECK_SAME(got.offsets, (Ranges{{0, 1}, {1, 5}, {5, 6}, {6, 10}}));
  CHECK_EQ(tokenizer->decode({3, 1, 2}, true), std::string("<m> Name"));
  CHECK(tokenizer->is_special(1) && !tokenizer->is_special(2));
  root["normalizer"] = {{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}};
  root["added_tokens"] = {added(" ", 1)};
  CHECK_ERROR(make(root), "added_tokens[0].content", "the normaliser removes");
}

// Ids of added tokens are the stored ones; a note tells where the public library would count differently.
SLOTSCOPE_CASE(ids_with_holes) {
  json root = bpe({"a", "b"});
  root["added_tokens"] = {added("b", 1), added("<x>", 2), added("<y>", 3)};
  CHECK(make(root)->notes().empty());
  root["added_tokens"][2]["id"] = 7;
  const auto tokenizer = make(root);
  CHECK_EQ(tokenizer->encode("<y>").ids, (Ids{7}));
  CHECK_EQ(tokenizer->size(), 8);
  CHECK_EQ(tokenizer->token_text(5), std::string("<unused 5>"));
  CHECK_EQ(tokenizer->notes(),
           (Texts{"added token '<y>' has the id 7 of tokenizer.json; the public library counts it as 3"}));
}

// Offsets lose white space at the edges of a token, but not what was put in front; tokens go around the text.
SLOTSCOPE_CASE(post_processors) {
  json root = bpe({"Ġ", "a", "b", "Ġa", "aĠ", "<s>", "</s>", "ĠĠ", "ĠĠa"}, {"Ġ a", "a Ġ"});
  root["pre_tokenizer"] = {
      {"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", false}};
  root["added_tokens"] = {added("<s>", 5, {{"special", true}, {"normalized", false}}),
                          added("</s>", 6, {{"special", true}, {"normalized", false}, {"lstrip", true}})};
  root["post_processor"] = {{"type", "RobertaProcessing"},
                            {"sep", {"</s>", 6}},
                            {"cls", {"<s>", 5}},
                            {"trim_offsets", true},
                            {"add_prefix_space", true}};
  const Encoding got = make(root)->encode("ab a b");
  CHECK_EQ(got.tokens, (Texts{"<s>", "Ġa", "b", "Ġa", "Ġ", "b", "</s>"}));
  CHECK_SAME(got.offsets, (Ranges{{0, 0}, {0, 1}, {1, 2}, {3, 4}, {5, 5}, {5, 6}, {0, 0}}));
  CHECK_SAME(got.byte_offsets, got.offsets);
  CHECK_SAME(make(root)->encode("ab a", false).offsets, (Ranges{{0, 1}, {1, 2}, {3, 4}}));
  // An added token's own white space is taken out as well.
  const Encoding late = make(root)->encode("a \u3000</s>", false);
  CHECK_SAME(late.offsets, (Ranges{{0, 1}, {3, 7}}));
  CHECK_SAME(late.byte_offsets, (Ranges{{0, 1}, {5, 9}}));
  root["post_processor"]["trim_offsets"] = false;
  CHECK_SAME(make(root)->encode("ab a", false).offsets, (Ranges{{0, 1}, {1, 2}, {2, 4}}));
  root["post_processor"] = {{"type", "Sequence"},
                            {"processors",
                             {{{"type", "ByteLevel"}, {"trim_offsets", true}, {"add_prefix_space", false}},
                              {{"type", "BertProcessing"}, {"sep", {"</s>", 6}}, {"cls", {"<s>", 5}}}}}};
  CHECK_SAME(make(root)->encode("a a").offsets, (Ranges{{0, 0}, {1, 1}, {2, 3}, {0, 0}}));
  root["post_processor"]["processors"][1]["cls"][1] = 99;
  CHECK_ERROR(make(root), "post_processor", "id 99 has no token");
}

SLOTSCOPE_CASE(decoders) {
  json root = bpe({"▁a", "▁b", "<0xE2>", "<0x80>", "<0xA6>", " x ", "é"});
  const auto decoded = [&](json decoder, const Ids& ids) {
    root["decoder"] = std::move(decoder);
    return make(root)->decode(ids);
  };
  const json metaspace = {
      {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "always"}, {"split", true}};
  CHECK_EQ(decoded(metaspace, {0, 1}), std::string("a b"));
  json never = metaspace;
  never["prepend_scheme"] = "never";
  CHECK_EQ(decoded(never, {0, 1}), std::string(" a b"));
  CHECK_EQ(decoded({{"type", "ByteFallback"}}, {2, 3, 4, 0}), std::string("…▁a"));
  CHECK_EQ(decoded({{"type", "ByteFallback"}}, {2, 0}), std::string("\xE2▁a"));
  CHECK_EQ(decoded({{"type", "Strip"}, {"content", " "}, {"start", 9}, {"stop", 1}}, {5, 5}),
           std::string("xx"));
  CHECK_EQ(decoded({{"type", "ByteLevel"}}, {6, 5}), std::string("\xE9 x "));
  CHECK_EQ(decoded({{"type", "Fuse"}}, {0, 99, 1}), std::string("▁a▁b"));
  CHECK_EQ(decoded(nullptr, {0, 1}), std::string("▁a ▁b"));
  if (has_all_tokenizers())
    CHECK_EQ(decoded({{"type", "Replace"}, {"pattern", {{"Regex", "[ab]$"}}}, {"content", "!"}}, {0, 1}),
             std::string("▁!▁!"));
}
