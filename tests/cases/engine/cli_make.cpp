// slotscope-cli make: what it writes, what it says, what it refuses.
#include <signal.h>

#include <chrono>
#include <thread>

#include "core/engine/session.h"
#include "core/error.h"
#include "core/formats/checkpoint.h"
#include "tests/cases/cli_checks.h"

namespace slotscope::testing {

SLOTSCOPE_CASE(made_models_run_from_the_command_line) {
  const fs::path base = t.temp();
  for (const char* preset : {"ramnet-tiny", "raven-tiny"}) {
    const std::string folder = (base / preset).string(), out = (base / (std::string(preset) + ".h5")).string();
    const Child made = run_cli({"make", folder, "--preset", preset, "--json"});
    EXPECT_CODE(made, 0, preset);
    const json d = document(made);
    CHECK(d["written"] == true && d["seed"] == 0 && d["dtype"] == "bfloat16");
    CHECK_EQ(d["files"], json({"model.safetensors", "config.json", "tokenizer.json"}));
    const json info = document(run_cli({"info", folder, "--json"}));
    CHECK_EQ(info["parameters"], d["parameters"]);
    CHECK_EQ(fs::file_size(base / preset / "model.safetensors") > d["bytes"].get<uint64_t>(), true);
    const Child run = run_cli({"run", folder, "--task", "passkey", "--length", "200", "--out", out, "--json"});
    EXPECT_CODE(run, 0, preset);
    EXPECT_CODE(run_cli({"analyze", out}), 0, preset);
    const Child text = run_cli({"run", folder, "--text", "Hello", "--generate", "5", "--out", out, "--force"});
    EXPECT_CODE(text, 0, preset);
  }
}

SLOTSCOPE_CASE(settings_reach_config_json) {
  const fs::path base = t.temp(), folder = base / "m";
  EXPECT_CODE(run_cli({"make", folder.string(), "--preset", "ramnet-340m", "--set", "hidden_size=64", "--set", "num_hidden_layers=3", "--set",
                       "num_attention_heads=4", "--set", "head_dim=null", "--set", "intermediate_size=32", "--set", "ramnet.readout=mass_aware",
                       "--set", "vocab_size=300", "--dtype", "float32", "--seed", "18446744073709551615"}),
              0, "make");
  const json config = json::parse(file_bytes(folder / "config.json"));
  CHECK_EQ(config["ramnet"]["readout"], json("mass_aware"));
  CHECK_EQ(config["ramnet"]["cape_heads"], json::parse("[[0,1,2,3],[0,1,2,3],[0,1,2,3]]"));  // the pattern follows the new shape
  CHECK_EQ(config["torch_dtype"], json("float32"));
  CHECK(config["eos_token_id"] == 257 && config["vocab_size"] == 300);
  const auto checkpoint = formats::Checkpoint::open(folder);
  CHECK_EQ(checkpoint->find("model.embed_tokens.weight")->shape, (std::vector<int64_t>{300, 64}));
  CHECK(checkpoint->find("model.embed_tokens.weight")->dtype == formats::DType::f32);
  // A folder's config and tokenizer; other keys as they were.
  const fs::path twin = base / "twin";
  EXPECT_CODE(run_cli({"make", twin.string(), "--config", bundled(t), "--tokenizer", bundled(t), "--set", "num_hidden_layers=1", "--dtype", "float16"}), 0, "twin");
  CHECK(file_bytes(twin / "tokenizer.json") == file_bytes(fs::path(bundled(t)) / "tokenizer.json"));
  const json made = json::parse(file_bytes(twin / "config.json")), from = json::parse(file_bytes(fs::path(bundled(t)) / "config.json"));
  CHECK(made["num_slots"] == from["num_slots"] && made["num_hidden_layers"] == 1 && made["dtype"] == "float16");
  EXPECT_CODE(run_cli({"run", twin.string(), "--text", "x", "--out", (base / "t.h5").string()}), 0, "twin");
  // Without a tokenizer: token ids only.
  const fs::path bare = base / "bare";
  EXPECT_CODE(run_cli({"make", bare.string(), "--preset", "raven-tiny", "--no-tokenizer", "--set", "vocab_size=50"}), 0, "bare");
  CHECK(!fs::exists(bare / "tokenizer.json"));
  EXPECT_CODE(run_cli({"run", bare.string(), "--ids", "1,2,3", "--out", (base / "b.h5").string()}), 0, "bare");
}

SLOTSCOPE_CASE(dry_run_writes_nothing) {
  const fs::path folder = t.temp() / "m";
  const Child json_run = run_cli({"make", folder.string(), "--preset", "ramnet-340m", "--dry-run", "--json"});
  EXPECT_CODE(json_run, 0, "dry run");
  const json d = document(json_run);
  CHECK(d["written"] == false && d["files"].empty());
  CHECK_EQ(d["parameters"].get<int64_t>(), int64_t(341'156'112));
  CHECK_EQ(d["tensors"][0]["name"], json("model.embed_tokens.weight"));
  CHECK_EQ(d["tensors"][0]["shape"], json({32000, 1024}));
  const Child text = run_cli({"make", folder.string(), "--preset", "raven-424m", "--dry-run"});
  EXPECT_SAYS(text.out, "would be written", "424 316 096 parameters", "model.layers.23.attn.A_log", "F32", "uniform 0 to 2.77", "normal 0 +- 0.03125");
  CHECK(!fs::exists(folder));
}

SLOTSCOPE_CASE(make_refuses_with_reasons) {
  const fs::path base = t.temp(), folder = base / "m", kept = base / "kept";
  fs::create_directories(kept);
  write_file(kept / "thesis.tex", "years");
  struct Bad {
    Words words;
    int code;
    std::vector<const char*> says;
  };
  const std::string place = folder.string();
  const std::vector<Bad> list = {
      {{}, 2, {"--model-type", "ramnet", "--preset"}},
      {{"--preset", "zork"}, 2, {"zork", "ramnet-340m"}},
      {{"--preset", "raven-tiny", "--config", bundled(t)}, 2, {"--preset", "one of the two"}},
      {{"--model-type", "zork"}, 1, {"zork", "gsa"}},
      {{"--preset", "raven-tiny", "--set", "zork"}, 2, {"--set", "KEY=VALUE"}},
      {{"--preset", "raven-tiny", "--set", "=1"}, 2, {"--set"}},
      {{"--preset", "raven-tiny", "--set", "a..b=1"}, 2, {"--set"}},
      {{"--preset", "raven-tiny", "--set", "hidden_size.x=1"}, 2, {"hidden_size"}},
      {{"--preset", "raven-tiny", "--set", "attn=[1"}, 2, {"JSON"}},
      {{"--preset", "raven-tiny", "--set", "hidden_size=0"}, 1, {"hidden_size", "0"}},
      {{"--preset", "raven-tiny", "--set", "hidden_size=99999999999999999999"}, 1, {"hidden_size"}},
      {{"--preset", "raven-tiny", "--set", "num_heads=3"}, 1, {"num_heads"}},
      {{"--preset", "raven-tiny", "--set", "vocab_size=100"}, 2, {"vocab_size", "258", "--no-tokenizer"}},
      {{"--preset", "raven-tiny", "--set", "vocab_size=-1"}, 1, {"vocab_size"}},
      {{"--preset", "raven-tiny", "--dtype", "int8"}, 2, {"--dtype", "bfloat16"}},
      {{"--preset", "raven-tiny", "--seed", "-1"}, 2, {"--seed"}},
      {{"--preset", "raven-tiny", "--tokenizer", base.string()}, 1, {"--tokenizer", "no tokenizer files"}},
      {{"--preset", "raven-tiny", "--tokenizer", bundled(t), "--no-tokenizer"}, 2, {"one of the two"}},
      {{"--preset", "ramnet-tiny", "--set", "ramnet.order=30"}, 1, {"ramnet.order"}},
      {{"--preset", "ramnet-tiny", "--set", "ramnet.codes_per_factor=1"}, 1, {"one code"}},
      {{"--preset", "ramnet-tiny", "--set", "ramnet=5"}, 1, {"ramnet", "an object"}},
      {{"--preset", "ramnet-tiny", "--set", "ramnet.cape_heads=[[9]]"}, 1, {"cape_heads"}},
      {{"--preset", "raven-424m", "--set", "vocab_size=2000000000", "--set", "hidden_size=1048576"}, 1, {"no space", "free"}},
      {{"--config", (base / "none.json").string()}, 1, {"none.json"}},
  };
  for (const Bad& bad : list) {
    Words words = {"make", place};
    words.insert(words.end(), bad.words.begin(), bad.words.end());
    std::string all;
    for (const auto& word : words) all += word + " ";
    const Child c = run_cli(words);
    EXPECT_CODE(c, bad.code, all);
    for (const char* word : bad.says)
      if (!has(c.err, word)) t.fail(all + "lacks '" + word + "': " + c.err, __FILE__, __LINE__);
    CHECK(!fs::exists(folder) && !fs::exists(place + ".part"));
  }
  const Child exists = run_cli({"make", kept.string(), "--preset", "raven-tiny"});
  EXPECT_CODE(exists, 1, "existing folder");
  EXPECT_SAYS(exists.err, "exists already", "--force");
  const Child forced = run_cli({"make", kept.string(), "--preset", "raven-tiny", "--force"});
  EXPECT_CODE(forced, 1, "a folder with other files");
  EXPECT_SAYS(forced.err, "thesis.tex", "--force would delete it");
  CHECK_EQ(file_bytes(kept / "thesis.tex"), std::string("years"));
}

SLOTSCOPE_CASE(make_cancelled_leaves_nothing) {
  const fs::path base = t.temp(), folder = base / "m";
  ChildOptions options;
  options.running = [&](int pid, const std::atomic<bool>& ended) {
    while (!ended && !fs::exists(folder.string() + ".part/model.safetensors")) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (!ended) ::kill(pid, SIGINT);
  };
  const Child c = run_cli({"make", folder.string(), "--preset", "raven-424m", "--set", "num_hidden_layers=8", "--json"}, options);
  EXPECT_CODE(c, 130, "cancel");
  CHECK_EQ(document(c)["status"], json("cancelled"));
  CHECK(!fs::exists(folder) && !fs::exists(folder.string() + ".part"));
}

}  // namespace slotscope::testing
