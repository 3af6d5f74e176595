// Byte-level BPE against the public library's results, and what is refused at load (bad-inputs B30, B32).
#include "core/formats/tokenizer.h"

#include <chrono>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"
#include "core/formats/bpe.h"
#include "core/formats/byte_level.h"
#include "tests/cases/case.h"
#include "tests/cases/formats/files.h"

using namespace slotscope::formats;
using namespace slotscope::testing;
using nlohmann::json;

namespace {

json read_json(const std::filesystem::path& path) {
  std::ifstream in(path);
  return json::parse(in);
}

std::shared_ptr<const Tokenizer> load(Context& t, const json& root) {
  const auto folder = t.temp();
  write_file(folder / "tokenizer.json", root.dump());
  return Tokenizer::load(folder);
}

json bundled(Context& t) { return read_json(t.resource("checkpoints/raven-passkey/tokenizer.json")); }

// The golden tokenizer with a changed section.
json changed(Context& t, const std::string& pointer, json value) {
  json root = bundled(t);
  root[json::json_pointer(pointer)] = std::move(value);
  return root;
}

// Merges by definition: again and again the pair with the lowest rank, the leftmost of them.
std::vector<int32_t> merge_slowly(
    const std::map<std::pair<int32_t, int32_t>, std::pair<int32_t, int32_t>>& ranks,
    std::vector<int32_t> ids) {
  for (;;) {
    int best_rank = INT32_MAX;
    size_t best = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i)
      if (const auto at = ranks.find({ids[i], ids[i + 1]}); at != ranks.end() && at->second.first < best_rank)
        best_rank = at->second.first, best = i;
    if (best_rank == INT32_MAX) return ids;
    ids[best] = ranks.at({ids[best], ids[best + 1]}).second;
    ids.erase(ids.begin() + long(best) + 1);
  }
}

// A tokenizer of the 256 bytes and `pairs` merges learned from nothing: random pairs of what exists.
struct MadeBpe {
  json root;
  std::map<std::pair<int32_t, int32_t>, std::pair<int32_t, int32_t>> ranks;
};
MadeBpe make_bpe(Context& t, int pairs, bool as_lists) {
  MadeBpe made;
  made.root = bundled(t);
  std::vector<std::string> tokens(256);
  for (const auto& [text, id] : made.root["model"]["vocab"].items()) tokens[id.get<size_t>()] = text;
  const std::vector<size_t> common = {' ', 'a', 'e', 't', 'h', 'n', 'o'};
  std::map<std::string, int32_t> taken;
  uint64_t state = 7;
  const auto random = [&](size_t below) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return size_t(state >> 33) % below;
  };
  json merges = json::array();
  std::vector<int32_t> pool(common.begin(), common.end());
  while (int(merges.size()) < pairs) {
    const int32_t left = pool[random(pool.size())], right = pool[random(pool.size())];
    const std::string both = tokens[size_t(left)] + tokens[size_t(right)];
    if (taken.contains(both) || both.size() > 24) continue;
    const auto id = int32_t(tokens.size() < 258 ? 258 : tokens.size());
    tokens.resize(size_t(id) + 1);
    tokens[size_t(id)] = both;
    taken[both] = id;
    made.root["model"]["vocab"][both] = id;
    made.ranks[{left, right}] = {int32_t(merges.size()), id};
    merges.push_back(as_lists ? json{tokens[size_t(left)], tokens[size_t(right)]}
                              : json(tokens[size_t(left)] + " " + tokens[size_t(right)]));
    pool.push_back(id);
  }
  made.root["model"]["merges"] = merges;
  return made;
}

}  // namespace

// Every golden string: ids, offsets in code points, decoded text with and without special tokens.
SLOTSCOPE_CASE(golden_byte_level) {
  const auto tokenizer = Tokenizer::load(t.data("golden/tokenizers/byte_level"));
  CHECK(tokenizer != nullptr);
  const json expected = read_json(t.data("golden/tokenizers/byte_level/expected.json"));
  CHECK_EQ(expected.size(), size_t(56));
  for (const json& row : expected) {
    const auto text = row["text"].get<std::string>();
    const Encoding got = tokenizer->encode(text, row["add_special_tokens"].get<bool>());
    CHECK_EQ(got.ids, row["ids"].get<std::vector<int32_t>>());
    const auto offsets = row["offsets"].get<std::vector<std::pair<int64_t, int64_t>>>();
    if (got.offsets != offsets) t.fail("offsets of " + row.dump(), __FILE__, __LINE__);
    CHECK_EQ(got.byte_offsets.size(), got.ids.size());
    CHECK_EQ(tokenizer->decode(got.ids, true), row["decoded"].get<std::string>());
    CHECK_EQ(tokenizer->decode(got.ids, false), row["decoded_with_special"].get<std::string>());
    std::vector<std::string> tokens;
    for (const int32_t id : got.ids) tokens.push_back(tokenizer->token_text(id));
    CHECK_EQ(tokens, row["tokens"].get<std::vector<std::string>>());
    // Byte ranges cover the text exactly, in order.
    int64_t at = 0;
    for (size_t i = 0; i < got.ids.size(); ++i) {
      if (got.byte_offsets[i].first == got.byte_offsets[i].second) continue;
      CHECK_EQ(got.byte_offsets[i].first, at);
      at = got.byte_offsets[i].second;
    }
    CHECK_EQ(at, int64_t(text.size()));
  }
}

SLOTSCOPE_CASE(bundled_tokenizer) {
  const auto tokenizer = Tokenizer::load(t.resource("checkpoints/raven-passkey"));
  CHECK_EQ(tokenizer->kind(), std::string("byte-level BPE, 258 entries"));
  CHECK_EQ(tokenizer->size(), 258);
  CHECK(tokenizer->is_special(256) && tokenizer->is_special(257) && !tokenizer->is_special(65));
  CHECK_EQ(tokenizer->token_text(256), std::string("<bos>"));
  CHECK_EQ(tokenizer->token_text(300), std::string("<unused 300>"));  // B29
  CHECK_EQ(tokenizer->token_text(-1), std::string("<unused -1>"));
  CHECK_EQ(tokenizer->decode({300}), std::string());
  // A special token in the text is that token.
  CHECK_EQ(tokenizer->encode("a<eos>b", false).ids, (std::vector<int32_t>{97, 257, 98}));
  CHECK_EQ(tokenizer->encode("<eos<eos>>", false).ids, (std::vector<int32_t>{60, 101, 111, 115, 257, 62}));
  CHECK_SAME(tokenizer->encode("a<eos>b", false).offsets,
             (std::vector<std::pair<int64_t, int64_t>>{{0, 1}, {1, 6}, {6, 7}}));
}

// B32: parts of a character keep their raw bytes; cut text stays cut, never U+FFFD.
SLOTSCOPE_CASE(parts_of_characters) {
  const auto tokenizer = Tokenizer::load(t.resource("checkpoints/raven-passkey"));
  const Encoding emoji = tokenizer->encode("x😀", false);
  CHECK_EQ(emoji.ids, (std::vector<int32_t>{120, 0xF0, 0x9F, 0x98, 0x80}));
  CHECK_SAME(emoji.offsets[4], (std::pair<int64_t, int64_t>{1, 2}));
  CHECK_SAME(emoji.byte_offsets[4], (std::pair<int64_t, int64_t>{4, 5}));
  CHECK_EQ(tokenizer->token_bytes(0xF0), std::string("\xF0"));
  CHECK_EQ(tokenizer->decode({0xF0, 0x9F}), std::string("\xF0\x9F"));
  CHECK_EQ(tokenizer->decode(emoji.ids), std::string("x😀"));
  for (int byte = 0; byte < 256; ++byte) {
    CHECK_EQ(tokenizer->token_bytes(byte), std::string(1, char(byte)));
    CHECK_EQ(byte_level_bytes(byte_level_text(static_cast<unsigned char>(byte))).value_or("none"),
             std::string(1, char(byte)));
  }
}

SLOTSCOPE_CASE(invalid_utf8) {
  const auto tokenizer = Tokenizer::load(t.resource("checkpoints/raven-passkey"));
  CHECK_ERROR(tokenizer->encode("ab\xff"), "invalid UTF-8 at byte 2");
  CHECK_ERROR(tokenizer->encode("a\xc3"), "byte 1");
  CHECK_ERROR(tokenizer->encode("\xed\xa0\x80"), "byte 0");       // a surrogate
  CHECK_ERROR(tokenizer->encode("\xc0\x80"), "byte 0");           // overlong
  CHECK_ERROR(tokenizer->encode("é\xf4\x90\x80\x80"), "byte 2");  // beyond U+10FFFF
  CHECK_EQ(tokenizer->encode(std::string_view("a\0b", 3), false).ids, (std::vector<int32_t>{97, 0, 98}));
}

// B30: merges as text and as pairs give the same ids; the text form with two spaces is refused.
SLOTSCOPE_CASE(merges_in_both_forms) {
  const auto tiny = [&](json merges) {
    json root = bundled(t);
    root["model"]["vocab"]["ab"] = 258;
    root["model"]["vocab"]["abc"] = 259;
    root["model"]["vocab"][" b"] = 260;
    root["model"]["vocab"][" "] = 261;
    root["model"]["vocab"]["a b"] = 262;
    root["model"]["merges"] = std::move(merges);
    return load(t, root);
  };
  const auto text = tiny({"a b", "ab c"}), pairs = tiny(json::array({{"a", "b"}, {"ab", "c"}}));
  for (const std::string s : {"ab", "abc", "aabcb", "abab cabc"})
    CHECK_EQ(text->encode(s, false).ids, pairs->encode(s, false).ids);
  CHECK_EQ(text->encode("xabcab", false).ids, (std::vector<int32_t>{120, 259, 258}));
  CHECK_SAME(text->encode("xabcab", false).byte_offsets,
             (std::vector<std::pair<int64_t, int64_t>>{{0, 1}, {1, 4}, {4, 6}}));
  CHECK_EQ(text->decode({259, 258}), std::string("abcab"));
  CHECK_EQ(tiny(json::array({{"a", " b"}}))->encode("ab", false).ids, (std::vector<int32_t>{97, 98}));
  CHECK_EQ(tiny({"#version: 0.2", "a b"})->encode("ab", false).ids, std::vector<int32_t>{258});
  CHECK_ERROR(tiny({"a b c"}), "model.merges[0]", "2 spaces");
  CHECK_ERROR(tiny({"ab"}), "model.merges[0]", "0 spaces");
  CHECK_ERROR(tiny({"a q"}), "model.merges[0]", "'aq' is not in the vocabulary");
  CHECK_ERROR(tiny(json::array({{"a", "b", "c"}})), "model.merges[0]");
  CHECK_ERROR(tiny({5}), "model.merges[0]", "5");
}

// The fast merge equals the definition on random vocabularies and texts.
SLOTSCOPE_CASE(merges_equal_definition) {
  for (const bool as_lists : {false, true}) {
    const MadeBpe made = make_bpe(t, 200, as_lists);
    const auto tokenizer = load(t, made.root);
    uint64_t state = 3;
    for (int round = 0; round < 200; ++round) {
      std::string text;
      std::vector<int32_t> bytes;
      for (int i = 0; i < round; ++i) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        text.push_back("  aaeetthhnnoox"[(state >> 33) % 15]);
        bytes.push_back(text.back());
      }
      const Encoding got = tokenizer->encode(text, false);
      CHECK_EQ(got.ids, merge_slowly(made.ranks, bytes));
      CHECK_EQ(tokenizer->decode(got.ids), text);
    }
  }
}

// 131,072 bytes in one word: the merge must not be quadratic.
SLOTSCOPE_CASE(long_text_is_fast) {
  const auto tokenizer = load(t, make_bpe(t, 500, false).root);
  std::string text;
  while (text.size() < 131'072) text += "the hen then ate ten nettles on the heath to no end ";
  text.resize(131'072);
  const auto start = std::chrono::steady_clock::now();
  const Encoding encoding = tokenizer->encode(text, false);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  CHECK(encoding.ids.size() < text.size());
  CHECK_EQ(tokenizer->decode(encoding.ids), text);
  CHECK(seconds < 5);
  t.note("131,072 bytes with 500 merges encoded in " + std::to_string(seconds) + " s");
}

// What cannot be followed exactly is an error at load that names it.
SLOTSCOPE_CASE(refused_by_name) {
  CHECK_ERROR(load(t, changed(t, "/normalizer", {{"type", "BertNormalizer"}})), "normalizer.type",
              "BertNormalizer", "token ids");
  CHECK_ERROR(load(t, changed(t, "/normalizer", {{"type", "Strip"}})), "normalizer.strip_left", "missing");
  CHECK_ERROR(load(t, changed(t, "/pre_tokenizer", {{"type", "UnicodeScripts"}})), "pre_tokenizer.type",
              "UnicodeScripts");
  CHECK_ERROR(load(t, changed(t, "/pre_tokenizer/use_regex", 1)), "pre_tokenizer.use_regex", "1",
              "true or false");
  CHECK_ERROR(load(t, changed(t, "/pre_tokenizer", {{"type", "Metaspace"}})), "pre_tokenizer.replacement");
  CHECK_ERROR(load(t, changed(t, "/pre_tokenizer",
                              {{"type", "Sequence"},
                               {"pretokenizers", {{{"type", "Split"}, {"behavior", "Isolated"}}}}})),
              "pre_tokenizer.pretokenizers[0].pattern", "missing", "String or Regex");
  CHECK_ERROR(load(t, changed(t, "/decoder", {{"type", "CTC"}})), "decoder.type", "CTC");
  CHECK_ERROR(load(t, changed(t, "/model/type", "Unigram")), "model.vocab", "a list of [text, score]");
  CHECK_ERROR(load(t, changed(t, "/model/type", "Other")), "model.type", "Other");
  CHECK_ERROR(load(t, changed(t, "/model/dropout", 0.1)), "model.dropout", "0.1");
  CHECK_ERROR(load(t, changed(t, "/model/unk_token", "<unk>")), "model.unk_token", "<unk>");
  CHECK_ERROR(load(t, changed(t, "/post_processor/type", "Other")), "post_processor.type", "Other");
  CHECK_ERROR(load(t, changed(t, "/post_processor/special_tokens", json::object())),
              "post_processor.single[0]", "<bos>");
  CHECK_ERROR(load(t, changed(t, "/post_processor/single", json::array())), "post_processor.single",
              "exactly once");
  CHECK_ERROR(load(t, changed(t, "/added_tokens/0/lstrip", "yes")), "added_tokens[0].lstrip", "yes");
  CHECK_ERROR(load(t, changed(t, "/added_tokens/1/content", "<bos>")), "added_tokens[1]", "twice");
  CHECK_ERROR(load(t, changed(t, "/added_tokens/0/id", -1)), "added_tokens[0].id");
  CHECK_ERROR(load(t, changed(t, "/added_tokens/0/id", 97)), "id 97", "<bos>");
  CHECK_ERROR(load(t, changed(t, "/model/vocab/q", 97)), "id 97");
  CHECK_ERROR(load(t, changed(t, "/model/vocab/q", 1e30)), "vocab");
  CHECK_ERROR(load(t, changed(t, "/truncation", 5)), "truncation", "5");
  const auto folder = t.temp();
  CHECK(Tokenizer::load(folder) == nullptr);
  write_file(folder / "tokenizer.model", "x");
  CHECK_ERROR(Tokenizer::load(folder), "tokenizer.model");
  write_file(folder / "tokenizer.json", "{\"model\": ");
  CHECK_ERROR(Tokenizer::load(folder), "tokenizer.json", "not valid JSON");
  write_file(folder / "tokenizer.json", "{\"a\":1,\"a\":2}");
  CHECK_ERROR(Tokenizer::load(folder), "'a' appears twice");
  std::string deep(100'000, '[');
  write_file(folder / "tokenizer.json", deep);
  CHECK_ERROR(Tokenizer::load(folder), "nested deeper");
  // A byte without a token is an error when it is met, never dropped in silence.
  json partial = bundled(t);
  partial["model"]["vocab"].erase("q");
  const auto tokenizer = load(t, partial);
  CHECK_EQ(tokenizer->encode("p", false).ids, std::vector<int32_t>{112});
  CHECK_ERROR(tokenizer->encode("pq", false), "0x71", "position 1");
}

// Settings of a run that somebody saved change no ids; they are told.
SLOTSCOPE_CASE(stored_truncation) {
  json root = changed(t, "/truncation", {{"max_length", 2}, {"strategy", "LongestFirst"}, {"stride", 0}});
  root["padding"] = {{"strategy", {{"Fixed", 9}}}, {"pad_id", 0}};
  const auto tokenizer = load(t, root);
  CHECK_EQ(tokenizer->encode("abc").ids, (std::vector<int32_t>{256, 97, 98, 99}));
  CHECK_EQ(tokenizer->notes(),
           (std::vector<std::string>{"truncation stored in tokenizer.json is not applied: texts stay whole",
                                     "padding stored in tokenizer.json is not applied: texts stay whole"}));
  CHECK(load(t, bundled(t))->notes().empty());
}

// Post-processors: none, and one with tokens on both sides.
SLOTSCOPE_CASE(post_processor) {
  CHECK_EQ(load(t, changed(t, "/post_processor", nullptr))->encode("a").ids, std::vector<int32_t>{97});
  json both = bundled(t);
  both["post_processor"]["single"].push_back({{"SpecialToken", {{"id", "<eos>"}, {"type_id", 0}}}});
  both["post_processor"]["special_tokens"]["<eos>"] = {
      {"id", "<eos>"}, {"ids", {257}}, {"tokens", {"<eos>"}}};
  const auto tokenizer = load(t, both);
  CHECK_EQ(tokenizer->encode("a").ids, (std::vector<int32_t>{256, 97, 257}));
  CHECK_SAME(tokenizer->encode("a").offsets,
             (std::vector<std::pair<int64_t, int64_t>>{{0, 0}, {0, 1}, {0, 0}}));
  CHECK_EQ(tokenizer->encode("", true).ids, (std::vector<int32_t>{256, 257}));
}
