// slotscope-cli tokenize and detokenize as processes, over the public library's results.
#include "tests/cases/cli_checks.h"

using namespace slotscope::testing;

namespace {

fs::path tokenizer_folder(Context& t, const std::string& name) { return t.data("golden/tokenizers/" + name); }

json golden_rows(Context& t, const std::string& name) { return json::parse(file_bytes(tokenizer_folder(t, name) / "expected.json")); }

bool any_tokenizer(Context& t) {
  // The build says so itself: gpt2 needs Unicode tables.
  const Child child = run_cli({"tokenize", tokenizer_folder(t, "gpt2").string(), "--text=a", "--json"});
  return child.code == 0;
}

void check_row(Context& t, const std::string& name, const json& row, const Child& child) {
  const std::string what = name + ": " + row.dump();
  EXPECT_CODE(child, 0, what);
  const json got = document(child);
  for (const char* key : {"ids", "tokens", "offsets", "decoded"})
    if (got.value(key, json()) != row[key]) t.fail(std::string(key) + " of " + what + ": " + got.dump(), __FILE__, __LINE__);
  if (got.contains("decoded_bytes_hex")) t.fail("decoded is valid UTF-8 in " + what, __FILE__, __LINE__);
}

}  // namespace

// Every string of three folders through the program; the others as library cases (formats/tokenizer_golden).
SLOTSCOPE_CASE(golden_through_the_program) {
  std::vector<std::string> names = {"byte_level"};
  if (any_tokenizer(t)) names.insert(names.end(), {"qwen2", "llama2_first"});
  int rows = 0;
  for (const std::string& name : names) {
    const std::string folder = tokenizer_folder(t, name).string();
    const fs::path file = t.temp() / "text.txt";
    for (const json& row : golden_rows(t, name)) {
      const auto text = row["text"].get<std::string>();
      Words words = {"tokenize", folder, "--json"};
      if (!row["add_special_tokens"].get<bool>()) words.push_back("--no-special");
      // Both ways in; a zero byte cannot be an argument.
      if (rows++ % 2 || has(text, std::string(1, '\0'))) {
        write_file(file, text);
        words.insert(words.end(), {"--text-file", file.string()});
      } else {
        words.push_back("--text=" + text);
      }
      check_row(t, name, row, run_cli(words));
    }
  }
  CHECK_EQ(rows, int(names.size()) * 56);
}

SLOTSCOPE_CASE(there_and_back) {
  const fs::path folder = t.temp();  // tokenizer files only: no config, no weights
  fs::copy_file(t.resource("checkpoints/raven-passkey/tokenizer.json"), folder / "tokenizer.json");
  const Child there = run_cli({"tokenize", folder.string(), "--text=a<eos>😀", "--json"});
  EXPECT_CODE(there, 0, "tokenize");
  const json got = document(there);
  CHECK_EQ(got["ids"].dump(), std::string("[256,97,257,240,159,152,128]"));
  CHECK_EQ(got["decoded"].get<std::string>(), std::string("a😀"));
  CHECK_EQ(got["offsets"].dump(), std::string("[[0,0],[0,1],[1,6],[6,7],[6,7],[6,7],[6,7]]"));
  CHECK_EQ(got["byte_offsets"].dump(), std::string("[[0,0],[0,1],[1,6],[6,7],[7,8],[8,9],[9,10]]"));
  CHECK_EQ(document(run_cli({"tokenize", folder.string(), "--text=a<eos>", "--json", "--no-special"}))["ids"].dump(),
           std::string("[97,257]"));
  CHECK_EQ(document(run_cli({"tokenize", folder.string(), "--text=", "--json"}))["ids"].dump(), std::string("[256]"));
  CHECK_EQ(document(run_cli({"tokenize", folder.string(), "--text-file", "-", "--json"}, {.stdin_text = "hi\n"}))["ids"].dump(),
           std::string("[256,104,105,10]"));

  const json back = document(run_cli({"detokenize", folder.string(), "--ids", "256,97,257,240,159,152,128", "--json"}));
  CHECK_EQ(back["decoded"].get<std::string>(), std::string("a😀"));
  CHECK_EQ(back["tokens"][0].get<std::string>(), std::string("<bos>"));
  CHECK_EQ(document(run_cli({"detokenize", folder.string(), "--ids", "256,97,257", "--json", "--keep-special"}))["decoded"].get<std::string>(),
           std::string("<bos>a<eos>"));
  // A cut character: the document stays valid UTF-8 and says the bytes (B32); an id without a token stands for nothing (B29).
  const json cut = document(run_cli({"detokenize", folder.string(), "--ids", "97,240,159,300", "--json"}));
  CHECK_EQ(cut["decoded_bytes_hex"].get<std::string>(), std::string("61f09f"));
  CHECK_EQ(cut["tokens"][3].get<std::string>(), std::string("<unused 300>"));
  write_file(folder / "many.json", "[[97],[98,99]]");
  const json many = document(run_cli({"detokenize", folder.string(), "--ids-file", (folder / "many.json").string(), "--json"}));
  CHECK_EQ(many["prompts"][1]["decoded"].get<std::string>(), std::string("bc"));

  // For people: characters and, for parts of them, hex with the whole character.
  const Child table = run_cli({"tokenize", folder.string(), "--text=é\n", "-q"});
  EXPECT_SAYS(table.out, "<bos>", "C3 of 'é'", "A9 of 'é'", "'\\x0a'", "4 tokens", "decoded  'é\\x0a'");
  EXPECT_SAYS(run_cli({"detokenize", folder.string(), "--ids", "97,240"}).out, "F0", "decoded  61 F0");
}

SLOTSCOPE_CASE(sentencepiece_folder) {
  const std::string folder = t.data("data/sentencepiece/bpe").string();
  if (!any_tokenizer(t)) {
    const Child refused = run_cli({"tokenize", folder, "--text=a"});
    EXPECT_CODE(refused, 1, "without SentencePiece");
    return;
  }
  const json rows = json::parse(file_bytes(t.data("data/sentencepiece/expected.json")))["bpe"]["legacy"];
  for (size_t i = 0; i < rows.size(); i += 5) {
    const json got = document(run_cli({"tokenize", folder, "--text=" + rows[i]["text"].get<std::string>(), "--no-special", "--json"}));
    CHECK_EQ(got["ids"].dump(), rows[i]["ids"].dump());
    CHECK_EQ(got["decoded"].get<std::string>(), rows[i]["decoded"].get<std::string>());
    CHECK_EQ(got["byte_offsets"].dump(), rows[i]["spans"].dump());
  }
  const Child child = run_cli({"tokenize", folder, "--text=king"});
  EXPECT_SAYS(child.err, "note:", "LlamaTokenizer");
  EXPECT_SAYS(child.out, "SentencePiece BPE with byte fallback, 600 entries", "<s>");
}

SLOTSCOPE_CASE(refusals) {
  const std::string folder = tokenizer_folder(t, "byte_level").string();
  EXPECT_CODE(run_cli({"tokenize", folder}), 2, "no text");
  EXPECT_CODE(run_cli({"tokenize", folder, "--text=a", "--text-file", "b"}), 2, "two texts");
  EXPECT_CODE(run_cli({"detokenize", folder}), 2, "no ids");
  EXPECT_CODE(run_cli({"detokenize", folder, "--ids", "1,x"}), 2, "bad ids");
  EXPECT_CODE(run_cli({"detokenize", folder, "--ids=-1"}), 2, "negative id");
  const Child empty = run_cli({"tokenize", t.temp().string(), "--text=a", "--json"});
  EXPECT_CODE(empty, 1, "no tokenizer");
  CHECK(has(document(empty)["error"]["expected"].get<std::string>(), "tokenizer.json"));
  EXPECT_CODE(run_cli({"tokenize", folder + "/nowhere", "--text=a"}), 1, "no folder");
  const Child bytes = run_cli({"tokenize", folder, "--text=a\xff", "--json"});
  EXPECT_CODE(bytes, 1, "invalid UTF-8");
  CHECK(has(document(bytes)["error"]["found"].get<std::string>(), "byte 1"));
  const fs::path broken = t.temp();
  write_file(broken / "tokenizer.json", "{");
  EXPECT_CODE(run_cli({"tokenize", broken.string(), "--text=a"}), 1, "broken tokenizer.json");
}
