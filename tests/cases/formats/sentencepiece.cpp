// tokenizer.model: what the public tools say (tests/data/sentencepiece/make.py), what is honoured of tokenizer_config.json, and
// damaged files.
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "core/error.h"
#include "core/formats/sentencepiece_model.h"
#include "core/formats/tokenizer.h"
#include "core/formats/tokenizer_files.h"
#include "core/formats/utf8.h"
#include "tests/cases/case.h"
#include "tests/cases/formats/files.h"

using namespace slotscope::formats;
using namespace slotscope::testing;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

void need_sentencepiece(Context& t) {
  if (!has_all_tokenizers()) t.skip("built without SentencePiece");
}

std::string model_bytes(Context& t, const char* name) {
  std::ifstream in(t.data("data/sentencepiece") / name / "tokenizer.model", std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

json expected(Context& t) {
  std::ifstream in(t.data("data/sentencepiece/expected.json"));
  return json::parse(in);
}

fs::path folder_of(Context& t, const std::string& model, const json& config = nullptr) {
  const fs::path folder = t.temp();
  write_file(folder / "tokenizer.model", model);
  if (!config.is_null()) write_file(folder / "tokenizer_config.json", config.dump());
  return folder;
}

std::vector<std::string> texts_of(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  std::vector<std::string> texts;
  for (const int32_t id : ids) texts.push_back(tokenizer.token_text(id));
  return texts;
}

// A protobuf field: length-delimited, or a number.
std::string varint(uint64_t n) {
  std::string out;
  for (; n >= 0x80; n >>= 7) out.push_back(char(n | 0x80));
  out.push_back(char(n));
  return out;
}
std::string field(int number, const std::string& bytes) { return varint(uint64_t(number) << 3 | 2) + varint(bytes.size()) + bytes; }
std::string field(int number, uint64_t n) { return varint(uint64_t(number) << 3) + varint(n); }
std::string piece(const std::string& text, float score, int type = 1) {
  std::string raw(4, '\0');
  std::memcpy(raw.data(), &score, 4);
  return field(1, field(1, text) + varint(2 << 3 | 5) + raw + field(3, uint64_t(type)));
}
std::string tiny(const std::string& more = "", int model_type = 2) {
  return piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3) + piece("\u2581", -1) + piece("a", -2) + piece("b", -3) +
         piece("ab", -0.5f) + field(2, field(3, uint64_t(model_type))) + field(3, field(1, std::string("identity"))) + more;
}

}  // namespace

SLOTSCOPE_CASE(public_tools_agree) {
  need_sentencepiece(t);
  int rows = 0, with_spans = 0;
  const json wanted = expected(t);
  for (const auto& [name, modes] : wanted.items()) {
    for (const bool legacy : {true, false}) {
      const auto tokenizer = Tokenizer::load(folder_of(t, model_bytes(t, name.c_str()), {{"tokenizer_class", "LlamaTokenizer"}, {"legacy", legacy}}));
      for (const json& row : modes[legacy ? "legacy" : "new"]) {
        const auto text = row["text"].get<std::string>();
        const std::string what = name + (legacy ? "" : " not legacy") + ": " + row.dump();
        const Encoding got = tokenizer->encode(text, false);
        if (got.ids != row["ids"].get<std::vector<int32_t>>()) t.fail("ids of " + what + ": " + to_text(got.ids), __FILE__, __LINE__);
        if (tokenizer->decode(got.ids) != row["decoded"].get<std::string>())
          t.fail("decoded of " + what + ": " + tokenizer->decode(got.ids), __FILE__, __LINE__);
        auto pieces = row["pieces"].get<std::vector<std::string>>();
        CHECK_EQ(got.tokens, pieces);
        // The text of an unknown piece is the vocabulary's, not the text's.
        for (size_t i = 0; i < std::min(pieces.size(), got.ids.size()); ++i)
          if (got.ids[i] == 0) pieces[i] = "<unk>";
        CHECK_EQ(texts_of(*tokenizer, got.ids), pieces);
        if (row.contains("spans")) {
          const auto spans = row["spans"].get<std::vector<std::pair<int64_t, int64_t>>>();
          if (got.byte_offsets != spans) {
            std::string list;
            for (const auto& [a, b] : got.byte_offsets) list += " " + std::to_string(a) + "-" + std::to_string(b);
            t.fail("spans of " + what + ":" + list, __FILE__, __LINE__);
          }
          ++with_spans;
        }
        ++rows;
      }
    }
    const auto tokenizer = Tokenizer::load(folder_of(t, model_bytes(t, name.c_str())));
    for (const json& row : modes["decode"])
      CHECK_EQ(tokenizer->decode(row["ids"].get<std::vector<int32_t>>()), row["decoded"].get<std::string>());
  }
  CHECK_EQ(rows, 212);
  CHECK_EQ(with_spans, 106);
}

SLOTSCOPE_CASE(spans_offsets_bytes) {
  need_sentencepiece(t);
  const auto tokenizer = Tokenizer::load(folder_of(t, model_bytes(t, "bpe")));
  CHECK_EQ(tokenizer->kind(), std::string("SentencePiece BPE with byte fallback, 600 entries"));
  CHECK(tokenizer->notes().size() == 1 && tokenizer->notes()[0].find("tokenizer_config.json is missing") == 0);
  CHECK_EQ(tokenizer->size(), 600);
  // <s>, the space put before, 4 bytes of one character, a line end (which the tools cannot be asked about).
  const Encoding got = tokenizer->encode("😀\n", true);
  CHECK_EQ(texts_of(*tokenizer, got.ids),
           (std::vector<std::string>{"<s>", "\u2581", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>", "<0x0A>"}));
  CHECK(got.byte_offsets == (std::vector<std::pair<int64_t, int64_t>>{{0, 0}, {0, 0}, {0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}}));
  CHECK(got.offsets == (std::vector<std::pair<int64_t, int64_t>>{{0, 0}, {0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}, {1, 2}}));
  CHECK_EQ(tokenizer->decode(got.ids), std::string("😀\n"));
  CHECK_EQ(tokenizer->decode(got.ids, false), std::string("<s>😀\n"));
  // Cut characters stay cut (B32).
  CHECK_EQ(tokenizer->decode({got.ids[2], got.ids[3]}), std::string("\xF0\x9F"));
  CHECK_EQ(tokenizer->token_bytes(got.ids[2]), std::string("\xF0"));
  CHECK_EQ(tokenizer->token_bytes(got.ids[1]), std::string(" "));
  CHECK_EQ(tokenizer->token_bytes(1), std::string("<s>"));
  CHECK(tokenizer->is_special(0) && tokenizer->is_special(1) && tokenizer->is_special(2) && !tokenizer->is_special(3));
  CHECK_EQ(tokenizer->token_text(600), std::string("<unused 600>"));
  CHECK_EQ(tokenizer->token_bytes(-1), std::string());
  CHECK_EQ(tokenizer->decode({-1, 600, 2147483647}), std::string());
  CHECK_ERROR(tokenizer->encode("ab\xff"), "invalid UTF-8 at byte 2");
  // A zero byte is a character like others.
  CHECK_EQ(tokenizer->decode(tokenizer->encode(std::string_view("a\0b", 3)).ids), std::string("a\0b", 3));
  for (int byte = 0; byte < 256; ++byte) CHECK_EQ(tokenizer->token_bytes(3 + byte), std::string(1, char(byte)));
}

// Whatever the text: every byte of it is in exactly one span in order (nothing is dropped by this model), and it comes back.
SLOTSCOPE_CASE(any_text_comes_back) {
  need_sentencepiece(t);
  std::mt19937_64 random(5);
  const std::vector<std::string> parts = {"a", "the ", " ", "  ", "\n", "\t", "é", "\u0301", "😀", "\u2581", "<s>", "<0x41>", "\u2029", "王", "</s", "king"};
  for (const bool legacy : {true, false}) {
    const auto tokenizer = Tokenizer::load(folder_of(t, model_bytes(t, "bpe"), {{"legacy", legacy}, {"add_bos_token", false}}));
    for (int round = 0; round < 300; ++round) {
      std::string text;
      for (int i = 0; i < round % 40; ++i) text += parts[random() % parts.size()];
      const Encoding got = tokenizer->encode(text);
      int64_t at = 0;
      std::string back;
      for (size_t i = 0; i < got.ids.size(); ++i) {
        const auto [begin, end] = got.byte_offsets[i];
        CHECK(begin == at && end >= begin);
        at = end;
        back += text.substr(size_t(begin), size_t(end - begin));
      }
      // Without legacy a space before a special token at the very begin is dropped by the rule of LlamaTokenizer; it has no bytes.
      CHECK_EQ(at, int64_t(text.size()));
      CHECK_EQ(back, text);
      std::string spaces;  // U+2581 in a text cannot be told from a space in a piece
      for (size_t i = 0; i < text.size();) {
        const bool mark = text.compare(i, 3, "\u2581") == 0;
        spaces += mark ? ' ' : text[i];
        i += mark ? 3 : 1;
      }
      CHECK_EQ(tokenizer->decode(got.ids, false), spaces);
    }
  }
}

SLOTSCOPE_CASE(special_tokens_of_the_folder) {
  need_sentencepiece(t);
  const std::string model = model_bytes(t, "bpe");
  const auto ids = [&](const json& config, const std::string& text, bool special = true) {
    return Tokenizer::load(folder_of(t, model, config))->encode(text, special).ids;
  };
  const int32_t a = ids({{"add_bos_token", false}}, "a").at(0);
  using Ids = std::vector<int32_t>;
  CHECK_EQ(ids(nullptr, "a"), (Ids{1, a}));
  CHECK_EQ(ids({{"tokenizer_class", "LlamaTokenizerFast"}}, "a"), (Ids{1, a}));
  CHECK_EQ(ids({{"add_eos_token", true}}, "a"), (Ids{1, a, 2}));
  CHECK_EQ(ids({{"add_bos_token", false}, {"add_eos_token", true}}, ""), Ids{2});
  CHECK_EQ(ids({{"add_eos_token", true}}, "a", false), Ids{a});
  CHECK_EQ(ids({{"bos_token", "</s>"}}, "a"), (Ids{2, a}));
  CHECK_EQ(ids({{"bos_token", {{"__type", "AddedToken"}, {"content", "</s>"}, {"lstrip", false}}}}, "a"), (Ids{2, a}));
  // Tokens behind the vocabulary, as Phi-3 has them: rstrip eats white space of every kind.
  const json added = {{"add_bos_token", false},
                      {"added_tokens_decoder", {{"600", {{"content", "<|end|>"}, {"rstrip", true}, {"special", true}}},
                                                {"605", {{"content", "<|x|>"}, {"lstrip", true}, {"special", false}}}}}};
  const auto tokenizer = Tokenizer::load(folder_of(t, model, added));
  CHECK_EQ(tokenizer->size(), 606);
  CHECK_EQ(tokenizer->token_text(603), std::string("<unused 603>"));  // a hole
  CHECK_EQ(tokenizer->encode("a<|end|> \n\u00a0").ids, (Ids{a, 600}));
  CHECK_EQ(tokenizer->encode("a \t<|x|>").ids, (Ids{a, 605}));
  CHECK(tokenizer->encode("a \t<|x|>").byte_offsets == (std::vector<std::pair<int64_t, int64_t>>{{0, 1}, {3, 8}}));
  CHECK(tokenizer->is_special(600) && !tokenizer->is_special(605));
  CHECK_EQ(tokenizer->decode({a, 600, 605, a}), std::string("a<|x|>a"));
  CHECK_EQ(tokenizer->decode({a, 600, 605, a}, false), std::string("a<|end|><|x|>a"));

  const fs::path old = folder_of(t, model);
  write_file(old / "added_tokens.json", R"({"[PAD]": 600, "word": 601})");
  write_file(old / "special_tokens_map.json", R"({"pad_token": "[PAD]", "eos_token": {"content": "</s>"}})");
  const auto from_old = Tokenizer::load(old);
  CHECK_EQ(from_old->encode("[PAD]word", false).ids, (Ids{600, 601}));
  CHECK(from_old->is_special(600) && !from_old->is_special(601));

  const auto refused = [&](const json& config) { return Tokenizer::load(folder_of(t, model, config)); };
  CHECK_ERROR(refused({{"tokenizer_class", "T5Tokenizer"}}), "tokenizer_config.json", "tokenizer_class", "T5Tokenizer", "LlamaTokenizer");
  CHECK_ERROR(refused({{"tokenizer_class", 5}}), "tokenizer_class", "5");
  CHECK_ERROR(refused({{"add_bos_token", "yes"}}), "add_bos_token", "true or false");
  CHECK_ERROR(refused({{"sp_model_kwargs", {{"enable_sampling", true}}}}), "sp_model_kwargs", "enable_sampling");
  CHECK_ERROR(refused({{"split_special_tokens", true}}), "split_special_tokens");
  CHECK_ERROR(refused({{"pad_token", "[PAD]"}}), "[PAD]", "no id", "added_tokens_decoder");
  CHECK_ERROR(refused({{"bos_token", nullptr}}), "bos_token", "add_bos_token");
  CHECK_ERROR(refused({{"added_tokens_decoder", {{"5", {{"content", "x"}}}}}}), "'x'", "id 5", "<0x02>");
  CHECK_ERROR(refused({{"added_tokens_decoder", {{"600", {{"content", "</s>"}}}}}}), "'</s>'", "600", "2");
  CHECK_ERROR(refused({{"added_tokens_decoder", {{"600", {{"content", "x"}, {"single_word", true}}}}}}), "single_word");
  CHECK_ERROR(refused({{"added_tokens_decoder", {{"-1", {{"content", "x"}}}}}}), "added_tokens_decoder['-1']");
  CHECK_ERROR(refused({{"added_tokens_decoder", {{"4294967296", {{"content", "x"}}}}}}), "added_tokens_decoder['4294967296']");
  CHECK_ERROR(refused(json::array()), "tokenizer_config.json", "a JSON object");
}

SLOTSCOPE_CASE(which_file_is_read) {
  const fs::path folder = folder_of(t, model_bytes(t, "bpe"));
  CHECK_EQ(find_tokenizer(folder).used.filename().string(), std::string("tokenizer.model"));
  CHECK_EQ(find_tokenizer(folder).note(), std::string());
  write_file(folder / "spiece.model", "x");
  write_file(folder / "vocab.json", "{}");
  CHECK_EQ(find_tokenizer(folder).note(), std::string("tokenizer.model is read; spiece.model, vocab.json beside it are not"));
  fs::copy_file(t.resource("checkpoints/raven-passkey/tokenizer.json"), folder / "tokenizer.json");
  CHECK_EQ(find_tokenizer(folder).used.filename().string(), std::string("tokenizer.json"));
  CHECK_EQ(Tokenizer::load(folder)->encode("a").ids, (std::vector<int32_t>{256, 97}));
  const fs::path named = t.temp();
  write_file(named / "my.model", model_bytes(t, "bpe"));
  write_file(named / "tokenizer_config.json", R"({"vocab_file": "/somewhere/else/my.model"})");
  CHECK_EQ(find_tokenizer(named).used.filename().string(), std::string("my.model"));
  CHECK(find_tokenizer(t.temp()).used.empty() && Tokenizer::load(t.temp()) == nullptr);
  if (!has_all_tokenizers()) {
    CHECK_ERROR(Tokenizer::load(named), "my.model", "SLOTSCOPE_TOKENIZERS=OFF", "token ids");
    return;
  }
  CHECK_EQ(Tokenizer::load(named)->size(), 600);
}

// Small models made by hand: kinds of pieces, and everything in a file that SentencePiece would trust.
SLOTSCOPE_CASE(damaged_models) {
  need_sentencepiece(t);
  const auto load = [&](const std::string& bytes) { return Tokenizer::load(folder_of(t, bytes)); };
  CHECK_EQ(load(tiny())->encode("ab b", false).ids, (std::vector<int32_t>{3, 6, 3, 5}));
  CHECK_EQ(load(tiny("", 1))->encode("ab b", false).ids, (std::vector<int32_t>{3, 6, 3, 5}));
  // Unused pieces are taken apart again; user-defined ones are always found; words and characters as models.
  CHECK_EQ(load(tiny(piece("abb", -0.1f, 5)))->encode("abb", false).ids, (std::vector<int32_t>{3, 6, 5}));
  CHECK_EQ(load(tiny(piece("ba", -0.1f, 4)))->encode("ab", false).ids, (std::vector<int32_t>{3, 6}));
  CHECK_EQ(load(tiny(piece("ba", -0.1f, 4)))->encode("aba", false).ids, (std::vector<int32_t>{3, 4, 7}));
  CHECK_EQ(load(tiny("", 4))->encode("ab", false).ids, (std::vector<int32_t>{3, 4, 5}));
  CHECK_EQ(load(tiny(piece("\u2581" "ab", -1), 3))->encode("ab a", false).ids, (std::vector<int32_t>{7, 0}));

  CHECK_ERROR(load(""), "tokenizer.model", "no pieces");
  CHECK_ERROR(load("version https://git-lfs.github.com/spec/v1\n"), "tokenizer.model", "not a SentencePiece model");
  CHECK_ERROR(load(tiny(piece("", 0))), "piece 7", "no text");
  CHECK_ERROR(load(tiny(piece("a", 0))), "piece 7", "'a' as in piece 4");
  CHECK_ERROR(load(tiny(piece("c", std::numeric_limits<float>::quiet_NaN()))), "piece 7", "score nan");
  CHECK_ERROR(load(tiny(piece("c", -std::numeric_limits<float>::infinity()))), "piece 7", "score -inf");
  CHECK_ERROR(load(tiny(piece("c", 0, 7))), "piece 7", "type");
  CHECK_ERROR(load(tiny(piece("\xff", 0))), "piece 7", "UTF-8");
  CHECK_ERROR(load(tiny(piece(std::string("c\0", 2), 0))), "piece 7", "zero byte");
  CHECK_ERROR(load(tiny(piece(std::string(5000, 'c'), 0))), "piece 7", "5,000 bytes");
  CHECK_ERROR(load(tiny(piece("<unk2>", 0, 2))), "second unknown piece");
  CHECK_ERROR(load(tiny(piece("<0x00>", 0, 6))), "1 byte pieces", "none without byte_fallback");
  CHECK_ERROR(load(tiny(field(2, field(35, 1)))), "0 byte pieces", "256");
  CHECK_ERROR(load(tiny(field(2, field(3, 9)))), "model_type", "9");
  CHECK_ERROR(load(tiny(field(5, field(2, std::string("x"))))), "denormalizer_spec");
  CHECK_ERROR(load(tiny("\x0b")), "wire type 3");
  CHECK_ERROR(load(tiny(std::string("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))), "field 1 needs");
  CHECK_ERROR(load(piece("a", 0)), "no unknown piece");
  std::string chain;
  for (int i = 1; i <= 70; ++i) chain += piece(std::string(size_t(i), '~'), 0, 4);
  CHECK_ERROR(load(tiny(chain)), "more than 64");

  const auto with_map = [&](const std::string& map) { return load(tiny(field(3, field(2, map)))); };
  std::vector<uint32_t> units(512, 1u << 31);  // units that no byte leads to
  const auto map = [&](const std::string& texts) {
    std::string out("\0\x08\0\0", 4);
    return out + std::string(reinterpret_cast<const char*>(units.data()), units.size() * 4) + texts;
  };
  const auto unit = [](uint32_t offset, uint32_t label, bool value) { return offset << 10 | label | uint32_t(value) << 8; };
  // 'a' -> "bb": the root's children are at 256 + byte, the value of 'a' at the base of its own block.
  units[0] = unit(256, 0, false);
  units[256 ^ 'a'] = unit(256 ^ 'a' ^ 1, 'a', true);
  units[1] = 1u << 31 | 0;
  CHECK_EQ(with_map(map(std::string("bb\0", 3)))->encode("a", false).ids, (std::vector<int32_t>{3, 5, 5}));
  CHECK(with_map(map(std::string("bb\0", 3)))->encode("a", false).byte_offsets ==
        (std::vector<std::pair<int64_t, int64_t>>{{0, 0}, {0, 1}, {0, 1}}));
  CHECK_ERROR(with_map(map("bb")), "precompiled_charsmap", "without an end");
  CHECK_ERROR(with_map(map(std::string("\xff\0", 2))), "precompiled_charsmap", "no short text");
  units[1] = 1u << 31 | 77;
  CHECK_ERROR(with_map(map(std::string("bb\0", 3))), "precompiled_charsmap", "a text at byte 77 of 3");
  units[1] = 1u << 31 | 0;
  units[256 ^ 'a'] = unit(1 << 20, 'a', true);
  CHECK_ERROR(with_map(map(std::string("bb\0", 3))), "precompiled_charsmap", "points outside");
  units[256 ^ 'a'] = unit('a', 'a', false);  // base 256 again: 'a' follows itself for ever
  CHECK_ERROR(with_map(map(std::string("bb\0", 3))), "precompiled_charsmap", "a circle");
  CHECK_ERROR(with_map("abc"), "precompiled_charsmap", "too short");
  CHECK_ERROR(with_map(std::string("\xff\xff\xff\x7f", 4) + "abc"), "precompiled_charsmap");
}

// Every cut and many changed bytes: an Error or a tokenizer that works, never anything else (run under the sanitizers).
SLOTSCOPE_CASE(cuts_and_mutations) {
  need_sentencepiece(t);
  const fs::path folder = t.temp();
  int loaded = 0, refused = 0;
  const auto attempt = [&](const std::string& bytes) {
    write_file(folder / "tokenizer.model", bytes);
    try {
      const auto tokenizer = Tokenizer::load(folder);
      const Encoding got = tokenizer->encode("The ﬁne\u3000king's  crown, é 😀 <s> 12", true);
      tokenizer->decode(got.ids, false);
      for (const auto& [begin, end] : got.byte_offsets) CHECK(begin >= 0 && begin <= end);
      ++loaded;
    } catch (const slotscope::Error&) {
      ++refused;
    }
  };
  std::mt19937_64 random(11);
  for (const char* name : {"bpe", "unigram"}) {
    const std::string model = model_bytes(t, name);
    for (size_t cut = 0; cut < model.size(); cut += 97) attempt(model.substr(0, cut));
    for (int round = 0; round < 400; ++round) {
      std::string changed = model;
      // Half of the changes hit the last part: trainer_spec, normalizer_spec and its table.
      for (int n = 1 + int(random() % 3); n > 0; --n) {
        const size_t at = random() % 2 ? random() % changed.size() : changed.size() - 1 - random() % std::min<size_t>(changed.size(), 3000);
        changed[at] = char(random());
      }
      attempt(changed);
    }
  }
  t.note(std::to_string(loaded) + " loaded, " + std::to_string(refused) + " refused");
  CHECK(loaded > 100 && refused > 100);
}
