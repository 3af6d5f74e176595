// vocab.json with merges.txt: made from the golden tokenizer.json files, they give the same numbers; and what is refused.
#include "core/formats/vocab_merges.h"

#include <fstream>

#include "core/error.h"
#include "core/formats/tokenizer_files.h"
#include "tests/cases/case.h"
#include "tests/cases/formats/files.h"

using namespace slotscope::formats;
using namespace slotscope::testing;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

json read_json(const fs::path& path) {
  std::ifstream in(path);
  return json::parse(in);
}

// A golden folder taken apart into the older files.
fs::path taken_apart(Context& t, const std::string& name, json config) {
  const json root = read_json(t.data("golden/tokenizers/" + name + "/tokenizer.json"));
  const fs::path folder = t.temp();
  write_file(folder / "vocab.json", root["model"]["vocab"].dump());
  std::string merges = "#version: 0.2\n";
  for (const json& pair : root["model"]["merges"]) merges += pair[0].get<std::string>() + " " + pair[1].get<std::string>() + "\n";
  write_file(folder / "merges.txt", merges);
  for (const json& token : root["added_tokens"]) {
    json entry = token;
    entry.erase("id");
    config["added_tokens_decoder"][std::to_string(token["id"].get<int>())] = entry;
  }
  // The golden files have no special token by role but those that they add.
  for (const char* role : {"unk_token", "bos_token", "eos_token", "pad_token"})
    if (!config.contains(role)) config[role] = nullptr;
  write_file(folder / "tokenizer_config.json", config.dump());
  return folder;
}

int check_rows(Context& t, const std::string& name, const Tokenizer& tokenizer) {
  const json expected = read_json(t.data("golden/tokenizers/" + name + "/expected.json"));
  for (const json& row : expected) {
    const Encoding got = tokenizer.encode(row["text"].get<std::string>(), row["add_special_tokens"].get<bool>());
    CHECK_EQ(got.ids, row["ids"].get<std::vector<int32_t>>());
    CHECK_EQ(got.tokens, row["tokens"].get<std::vector<std::string>>());
    CHECK(got.offsets == (row["offsets"].get<std::vector<std::pair<int64_t, int64_t>>>()));
    CHECK_EQ(tokenizer.decode(got.ids), row["decoded"].get<std::string>());
  }
  return int(expected.size());
}

// 258 entries: bytes, "ab" and a special token; merges as given.
fs::path small(Context& t, const std::string& merges, json config = {{"tokenizer_class", "GPT2Tokenizer"}}) {
  const fs::path folder = t.temp();
  json vocab = read_json(t.resource("checkpoints/raven-passkey/tokenizer.json"))["model"]["vocab"];
  vocab["ab"] = 256;
  vocab["<|endoftext|>"] = 257;
  write_file(folder / "vocab.json", vocab.dump());
  write_file(folder / "merges.txt", merges);
  if (!config.is_null()) write_file(folder / "tokenizer_config.json", config.dump());
  return folder;
}

}  // namespace

SLOTSCOPE_CASE(golden_taken_apart) {
  if (!has_all_tokenizers()) t.skip("built without ICU");
  int rows = 0;
  for (const char* suffix : {"", "Fast"}) {
    const auto name = [&](const char* base) { return json{{"tokenizer_class", base + std::string(suffix)}}; };
    rows += check_rows(t, "gpt2", *Tokenizer::load(taken_apart(t, "gpt2", name("GPT2Tokenizer"))));
    rows += check_rows(t, "gpt2", *Tokenizer::load(taken_apart(t, "gpt2", name("CodeGenTokenizer"))));
    json prefix = name("GPT2Tokenizer");
    prefix["add_prefix_space"] = true;
    rows += check_rows(t, "gpt2_prefix_space", *Tokenizer::load(taken_apart(t, "gpt2_prefix_space", prefix)));
    rows += check_rows(t, "neox", *Tokenizer::load(taken_apart(t, "neox", name("GPTNeoXTokenizer"))));
    rows += check_rows(t, "qwen2", *Tokenizer::load(taken_apart(t, "qwen2", name("Qwen2Tokenizer"))));
  }
  CHECK_EQ(rows, 560);
}

SLOTSCOPE_CASE(special_tokens) {
  if (!has_all_tokenizers()) t.skip("built without ICU");
  using Ids = std::vector<int32_t>;
  const auto ids = [&](json config, const std::string& text) {
    return Tokenizer::load(small(t, "#version: 0.2\na b\n", std::move(config)))->encode(text).ids;
  };
  CHECK_EQ(ids({{"tokenizer_class", "GPT2Tokenizer"}}, "ab<|endoftext|>"), (Ids{256, 257}));
  CHECK_EQ(ids({{"tokenizer_class", "GPT2Tokenizer"}, {"add_bos_token", true}}, "ab"), (Ids{257, 256}));
  CHECK_EQ(ids({{"tokenizer_class", "GPTNeoXTokenizer"}, {"pad_token", nullptr}, {"add_eos_token", true}}, "ab"), (Ids{256, 257}));
  // Older folders: added_tokens.json, special_tokens_map.json.
  const fs::path old = small(t, "a b\n");
  write_file(old / "added_tokens.json", R"({"<pad>": 258})");
  write_file(old / "special_tokens_map.json", R"({"pad_token": "<pad>"})");
  CHECK_EQ(Tokenizer::load(old)->encode("ab<pad>").ids, (Ids{256, 258}));
  CHECK(Tokenizer::load(old)->is_special(258));
  // Without a class config.json decides.
  const fs::path bare = small(t, "a b\n", nullptr);
  CHECK_ERROR(Tokenizer::load(bare), "tokenizer_class", "no config.json", "GPT2Tokenizer, CodeGenTokenizer, GPTNeoXTokenizer, Qwen2Tokenizer");
  write_file(bare / "config.json", R"({"model_type": "gpt2"})");
  CHECK_EQ(Tokenizer::load(bare)->encode("ab").ids, Ids{256});
  write_file(bare / "config.json", R"({"model_type": "raven"})");
  CHECK_ERROR(Tokenizer::load(bare), "model_type raven");
  CHECK_ERROR(ids({{"tokenizer_class", "RobertaTokenizer"}}, "a"), "tokenizer_class", "RobertaTokenizer", "GPT2Tokenizer");
  CHECK_ERROR(ids({{"tokenizer_class", "Qwen2Tokenizer"}, {"add_bos_token", true}}, "a"), "add_bos_token", "true");
  CHECK_ERROR(ids({{"tokenizer_class", "GPTNeoXTokenizer"}}, "a"), "<|padding|>", "no id");
  CHECK_ERROR(ids({{"tokenizer_class", "GPT2Tokenizer"}, {"errors", "strict"}}, "a"), "errors", "strict");
  CHECK_ERROR(ids({{"tokenizer_class", "GPT2Tokenizer"}, {"add_bos_token", true}, {"bos_token", nullptr}}, "a"), "bos_token");
}

SLOTSCOPE_CASE(merges_lines) {
  const auto compose = [&](const std::string& merges) { return compose_tokenizer_json(small(t, merges)); };
  const json one = json::array({json::array({"a", "b"})});
  CHECK_EQ(compose("#version: 0.2\na b\n")["model"]["merges"].dump(), one.dump());
  CHECK_EQ(compose("a b")["model"]["merges"].dump(), one.dump());
  CHECK_EQ(compose("\n\na b\r\n\n")["model"]["merges"].dump(), one.dump());
  CHECK_EQ(compose("")["model"]["merges"].dump(), std::string("[]"));
  CHECK_ERROR(compose("#version: 0.2\na b\na b c\n"), "merges.txt", "line 3", "'a b c' has 2 spaces");  // B30
  CHECK_ERROR(compose("a b\n\nab\n"), "line 3", "0 spaces");
  CHECK_ERROR(compose(" b\n"), "line 1", "at its edge");
  CHECK_ERROR(compose("a \n"), "line 1", "at its edge");
  CHECK_ERROR(compose("a b\na q\n"), "line 2", "'aq' is not in vocab.json");
  CHECK_ERROR(compose("a b\n#version: 0.2\n"), "line 2", "'#version:' is not in vocab.json");
  CHECK_ERROR(compose("a \xff\n"), "merges.txt", "invalid UTF-8");
  const fs::path folder = small(t, "a b\n");
  fs::remove(folder / "merges.txt");
  CHECK_ERROR(Tokenizer::load(folder), "merges.txt", "not there");
  write_file(folder / "merges.txt", "");
  write_file(folder / "vocab.json", "[1]");
  CHECK_ERROR(Tokenizer::load(folder), "vocab.json", "array");
  write_file(folder / "vocab.json", R"({"<|endoftext|>": 1.5})");
  CHECK_ERROR(Tokenizer::load(folder), "<|endoftext|>", "1.5");
}
