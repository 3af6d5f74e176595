// Every string of every golden tokenizer against what the public library gives: ids, tokens, offsets in code
// points and decoded text, with and without special tokens.
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/formats/tokenizer.h"
#include "core/formats/utf8.h"
#include "tests/cases/case.h"
#include "tests/cases/formats/files.h"

using namespace slotscope::formats;
using namespace slotscope::testing;
using nlohmann::json;

namespace {

json expected_of(Context& t, const std::string& name) {
  std::ifstream in(t.data("golden/tokenizers/" + name + "/expected.json"));
  return json::parse(in);
}

// What holds for every encoding: lists of one length, ranges inside of the text, byte and code point ranges
// that agree.
void check_ranges(Context& t, const Encoding& got, const std::string& text) {
  CHECK_EQ(got.tokens.size(), got.ids.size());
  CHECK_EQ(got.offsets.size(), got.ids.size());
  CHECK_EQ(got.byte_offsets.size(), got.ids.size());
  const auto characters_before = [&](int64_t byte) {
    int64_t n = 0;
    for (int64_t i = 0; i < byte; ++i) n += !is_utf8_continuation(text[size_t(i)]);
    return n;
  };
  for (size_t i = 0; i < got.ids.size(); ++i) {
    const auto [begin, end] = got.byte_offsets[i];
    CHECK(0 <= begin && begin <= end && end <= int64_t(text.size()));
    if (begin == end) continue;
    CHECK_EQ(characters_before(begin + 1) - 1, got.offsets[i].first);
    CHECK_EQ(characters_before(end), got.offsets[i].second);
  }
}

void check_folder(Context& t, const std::string& name) {
  const auto tokenizer = Tokenizer::load(t.data("golden/tokenizers/" + name));
  const json expected = expected_of(t, name);
  CHECK_EQ(expected.size(), size_t(56));
  for (const json& row : expected) {
    const auto text = row["text"].get<std::string>();
    const Encoding got = tokenizer->encode(text, row["add_special_tokens"].get<bool>());
    CHECK_EQ(got.ids, row["ids"].get<std::vector<int32_t>>());
    CHECK_EQ(got.tokens, row["tokens"].get<std::vector<std::string>>());
    if (got.offsets != row["offsets"].get<std::vector<std::pair<int64_t, int64_t>>>())
      t.fail(name + ": offsets " + json(got.offsets).dump() + " of " + row.dump(), __FILE__, __LINE__);
    CHECK_EQ(tokenizer->decode(got.ids, true), row["decoded"].get<std::string>());
    CHECK_EQ(tokenizer->decode(got.ids, false), row["decoded_with_special"].get<std::string>());
    check_ranges(t, got, text);
    // The bytes of the tokens are the decoded text, less the space that a decoder takes from its front.
    std::string bytes;
    for (const int32_t id : got.ids) bytes += tokenizer->token_bytes(id);
    const auto decoded = row["decoded_with_special"].get<std::string>();
    if (bytes != decoded) CHECK_EQ(bytes, " " + decoded);
  }
}

void needs_icu(Context& t) {
  if (!has_all_tokenizers()) t.skip("this build has no Unicode tables and no regular expressions");
}

}  // namespace

SLOTSCOPE_CASE(byte_level) { check_folder(t, "byte_level"); }
SLOTSCOPE_CASE(llama2_norm) { check_folder(t, "llama2_norm"); }
SLOTSCOPE_CASE(llama2_always) { check_folder(t, "llama2_always"); }
SLOTSCOPE_CASE(llama2_first) { check_folder(t, "llama2_first"); }
SLOTSCOPE_CASE(llama2_never) { check_folder(t, "llama2_never"); }
SLOTSCOPE_CASE(gpt2) { needs_icu(t), check_folder(t, "gpt2"); }
SLOTSCOPE_CASE(gpt2_prefix_space) { needs_icu(t), check_folder(t, "gpt2_prefix_space"); }
SLOTSCOPE_CASE(llama3) { needs_icu(t), check_folder(t, "llama3"); }
SLOTSCOPE_CASE(qwen2) { needs_icu(t), check_folder(t, "qwen2"); }
SLOTSCOPE_CASE(neox) { needs_icu(t), check_folder(t, "neox"); }
SLOTSCOPE_CASE(unigram) { needs_icu(t), check_folder(t, "unigram"); }
