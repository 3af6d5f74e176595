// slotscope-cli as its users meet it: started as a process, judged by exit code, standard output and standard error.
// This suite: options, errors, info. Runs are in cli_run.cpp.
#include "core/trace/trace.h"
#include "tests/cases/cli_checks.h"

namespace slotscope::testing {

SLOTSCOPE_CASE(help_and_version_exit_0_on_standard_output) {
  for (const Words& words : {Words{"--help"}, Words{"info", "--help"}, Words{"run", "--help"}, Words{"analyze", "--help"},
                             Words{"verify", "--help"}, Words{"repair", "--help"}, Words{"selftest", "--help"}}) {
    const Child c = run_cli(words);
    EXPECT_CODE(c, 0, words[0]);
    EXPECT_SAYS(c.out, "Usage: slotscope-cli");
    CHECK_EQ(c.err, std::string());
  }
  const Child run = run_cli({"run", "--help"});
  // Every option of the command line semantics, by its exact name.
  EXPECT_SAYS(run.out, "--text ", "--text-file", "--ids ", "--ids-file", "--prompts", "--rows", "--format", "--task", "--length", "--depth", "--seed", "--haystack",
              "--key", "--device", "--dtype", "--capture", "--layers", "--heads", "--tokens", "--stop-after", "--segment",
              "--generate", "--temperature", "--top-p", "--router-dtype", "--store", "--compress", "--read-at", "--state-at",
              "--flavour", "--no-bos", "--max-gpu-mem", "--force", "--out", "--json", "Examples");
  CHECK_EQ(run_cli({"--version"}).out, std::string("slotscope-cli 0.1.0\n"));
}

SLOTSCOPE_CASE(option_errors_exit_2_and_name_the_option) {
  const std::string model = bundled(t), out = (t.temp() / "x.h5").string();
  struct Bad {
    Words words;
    const char* says;
  };
  const std::vector<Bad> list = {
      {{}, "Usage"},
      {{"frobnicate"}, "frobnicate"},
      {{"run"}, "FOLDER"},
      {{"run", model, "--out", out}, "--task"},
      {{"run", model, "--text", "a"}, "--out"},
      {{"run", model, "--text", "a", "--ids", "1", "--out", out}, "exactly one"},
      {{"run", model, "--text", "a", "--out", out, "--frob"}, "--frob"},
      {{"run", model, "--text", "a", "--text", "b", "--out", out}, "--text"},
      {{"run", model, "--task", "zork", "--out", out}, "passkey"},
      {{"run", model, "--task", "passkey", "--length", "0", "--out", out}, "--length"},
      {{"run", model, "--task", "passkey", "--length", "1", "--out", out}, "length"},
      {{"run", model, "--task", "passkey", "--length", "1e3", "--out", out}, "--length"},
      {{"run", model, "--task", "passkey", "--length", "99999999999999999999", "--out", out}, "16777216"},
      {{"run", model, "--task", "passkey", "--depth", "1.5", "--out", out}, "--depth"},
      {{"run", model, "--task", "passkey", "--depth", "nan", "--out", out}, "--depth"},
      {{"run", model, "--task", "passkey", "--seed", "-1", "--out", out}, "--seed"},
      {{"run", model, "--text", "a", "--capture", "zork", "--out", out}, "route_index"},
      {{"run", model, "--text", "a", "--layers", "0,4", "--out", out}, "0 to 3"},
      {{"run", model, "--text", "a", "--layers", "3-1", "--out", out}, "--layers"},
      {{"run", model, "--text", "a", "--heads", "4", "--out", out}, "0 to 3"},
      {{"run", model, "--text", "a", "--tokens", "5:5", "--out", out}, "--tokens"},
      {{"run", model, "--text", "a", "--tokens", "2:3", "--out", out}, "below 2"},
      {{"run", model, "--text", "a", "--read-at", "now", "--out", out}, "--read-at"},
      {{"run", model, "--text", "a", "--state-at", "1,x", "--out", out}, "--state-at"},
      {{"run", model, "--text", "a", "--state-at", "2", "--out", out}, "--state-at"},
      {{"run", model, "--text", "a", "--stop-after", "4", "--out", out}, "--stop-after"},
      {{"run", model, "--text", "a", "--segment", "0", "--out", out}, "--segment"},
      {{"run", model, "--text", "a", "--temperature", "-1", "--out", out}, "--temperature"},
      {{"run", model, "--text", "a", "--top-p", "0.5", "--out", out}, "--temperature"},
      {{"run", model, "--text", "a", "--dtype", "float16", "--out", out}, "bfloat16"},
      {{"run", model, "--text", "a", "--dtype", "bfloat16", "--out", out}, "cuda"},
      {{"run", model, "--text", "a", "--router-dtype", "bf16", "--out", out}, "bfloat16"},
      {{"run", model, "--text", "a", "--device", "tpu", "--out", out}, "cuda:N"},
      {{"run", model, "--text", "a", "--device", "cuda:-1", "--out", out}, "cuda:N"},
      {{"run", model, "--text", "a", "--flavour", "vanilla", "--out", out}, "goombalab"},
      {{"run", model, "--text", "a", "--store", "int8", "--out", out}, "float16"},
      {{"run", model, "--text", "a", "--compress", "zip", "--out", out}, "deflate"},
      {{"run", model, "--ids", "1,,2", "--out", out}, "--ids"},
      {{"run", model, "--ids", "260", "--out", out}, "0 to 259"},
      {{"run", model, "--ids", "-1", "--out", out}, "--ids"},
      {{"run", model, "--text", "", "--no-bos", "--out", out}, "at least one token"},
      {{"info"}, "FOLDER"},
      {{"info", model, "--flavour", "x"}, "goombalab"},
      {{"verify", model}, "--golden"},
      {{"selftest", "--suite", "no_such_suite"}, "no_such_suite"},
      {{"analyze"}, "TRACE"},
      {{"repair", "a.h5"}, "OUT"},
  };
  for (const Bad& bad : list) {
    std::string what;
    for (const auto& word : bad.words) what += word + " ";
    const Child c = run_cli(bad.words);
    EXPECT_CODE(c, 2, what);
    if (!has(c.err, bad.says)) t.fail(what + ": lacks '" + bad.says + "': " + c.err, __FILE__, __LINE__);
    CHECK_EQ(c.out, std::string());
    CHECK(!fs::exists(out));
    CHECK(!fs::exists(out + ".part"));
  }
}

SLOTSCOPE_CASE(json_is_one_document_on_failure_too) {
  const Child usage = run_cli({"run", bundled(t), "--text", "a", "--capture", "zork", "--out", "x.h5", "--json"});
  EXPECT_CODE(usage, 2, "unknown field");
  CHECK_EQ(document(usage)["error"]["kind"].get<std::string>(), std::string("usage"));
  EXPECT_SAYS(document(usage)["error"]["expected"].get<std::string>(), "route_index", "top_logprob", "logits");

  const Child parse = run_cli({"info", "--json", "--nonsense"});
  EXPECT_CODE(parse, 2, "unknown option");
  CHECK(document(parse)["error"]["message"].is_string());

  const Child missing = run_cli({"info", "/no/such/folder", "--json"});
  EXPECT_CODE(missing, 1, "missing folder");
  CHECK_EQ(document(missing)["error"]["kind"].get<std::string>(), std::string("input"));
  EXPECT_SAYS(document(missing)["error"]["message"].get<std::string>(), "/no/such/folder");
}

SLOTSCOPE_CASE(info_tells_what_the_bundled_folder_holds) {
  const Child c = run_cli({"info", bundled(t), "--json", "--tensors"});
  EXPECT_CODE(c, 0, "info --json");
  const json d = document(c);
  CHECK(d["runnable"].get<bool>());
  CHECK_EQ(d["parameters"].get<int64_t>(), int64_t(4072480));  // training.json
  CHECK_EQ(d["family"].get<std::string>(), std::string("raven"));
  CHECK_EQ(d["flavour"].get<std::string>(), std::string("fla"));
  CHECK_EQ(d["layers"].size(), size_t(4));
  for (const auto& layer : d["layers"]) {
    CHECK_EQ(layer["slots"].get<int>(), 64);
    CHECK_EQ(layer["top_k"].get<int>(), 8);
    CHECK_EQ(layer["heads"].get<int>(), 4);
    CHECK_EQ(layer["route_kind"].get<std::string>(), std::string("sparse"));
  }
  CHECK_EQ(d["tensors"].size(), d["tensor_count"].get<size_t>());
  int64_t bytes = 0, elements = 0;
  for (const auto& tensor : d["tensors"]) {
    bytes += tensor["bytes"].get<int64_t>();
    int64_t n = 1;
    for (int64_t axis : tensor["shape"]) n *= axis;
    elements += n;
  }
  CHECK_EQ(bytes, d["bytes"].get<int64_t>());
  CHECK_EQ(elements, int64_t(4072480));
  CHECK(d["tokenizer"].is_string());
  CHECK(!d["memory"]["router"].get<std::string>().empty());
  bool topk = false;
  for (const auto& row : d["config"]) topk |= row["key"] == "topk" && row["value"] == "8" && row["source"] == "config.json";
  CHECK(topk);

  const Child text = run_cli({"info", bundled(t)});
  EXPECT_CODE(text, 0, "info");
  EXPECT_SAYS(text.out, "raven", "4 072 480 parameters", "flavour", "model.safetensors", "tokenizer", "sparse");
  CHECK(!has(text.out, "model.layers.0.attn.q_proj.weight"));
  EXPECT_SAYS(run_cli({"info", bundled(t), "--tensors"}).out, "model.layers.0.attn.q_proj.weight", "[256, 256]");
}

SLOTSCOPE_CASE(info_lists_a_folder_of_an_unknown_family) {
  const fs::path folder = copy_model(t, "raven_fla_default", "\"model_type\": \"raven\"", "\"model_type\": \"frobnet\"");
  const Child c = run_cli({"info", folder.string(), "--json"});
  EXPECT_CODE(c, 0, "unknown family");
  const json d = document(c);
  CHECK(!d["runnable"].get<bool>());
  EXPECT_SAYS(d["why_not_runnable"].get<std::string>(), "frobnet", "raven");
  CHECK(d["tensor_count"].get<int>() > 10);
  const Child text = run_cli({"info", folder.string()});
  EXPECT_CODE(text, 0, "unknown family, text");
  EXPECT_SAYS(text.out, "cannot be run", "frobnet", "model.embeddings.weight");
  const Child run = run_cli({"run", folder.string(), "--ids", "1,2", "--out", (t.temp() / "x.h5").string()});
  EXPECT_CODE(run, 1, "run of an unknown family");
  EXPECT_SAYS(run.err, "frobnet", "raven");
}

SLOTSCOPE_CASE(inputs_that_are_not_there_or_something_else) {
  const fs::path folder = t.temp();
  write_file(folder / "notes.txt", "hello");
  write_file(folder / "bad.json", "[1, 2, \"x\"]");
  write_file(folder / "latin1.txt", "caf\xE9 au lait");
  const std::string out = (folder / "x.h5").string();
  struct Bad {
    Words words;
    const char* says;
  };
  const std::vector<Bad> list = {
      {{"info", "/no/such/folder"}, "/no/such/folder"},
      {{"info", (folder / "notes.txt").string()}, "notes.txt"},
      {{"info", folder.string()}, folder.c_str()},
      {{"run", "/no/such/folder", "--text", "a", "--out", out}, "/no/such/folder"},
      {run_words(t, out, {"--text-file", "/no/such/file"}), "/no/such/file"},
      {run_words(t, out, {"--text-file", folder.string()}), "a folder"},
      {run_words(t, out, {"--text-file", (folder / "latin1.txt").string()}), "latin1.txt"},
      {run_words(t, out, {"--text", "caf\xE9"}), "UTF-8"},
      {run_words(t, out, {"--ids-file", "/no/such/file"}), "/no/such/file"},
      {run_words(t, out, {"--ids-file", (folder / "bad.json").string()}), "bad.json"},
      {run_words(t, out, {"--task", "passkey", "--haystack", "/no/such/file"}), "/no/such/file"},
      {run_words(t, folder, {"--text", "a"}), "a folder"},
      {run_words(t, folder / "none" / "x.h5", {"--text", "a"}), "does not exist"},
      {{"analyze", "/no/such/trace.h5"}, "/no/such/trace.h5"},
      {{"analyze", (folder / "notes.txt").string()}, "notes.txt"},
      {{"repair", "/no/such/trace.h5", out}, "/no/such/trace.h5"},
      {{"verify", bundled(t), "--golden", "/no/such/golden.safetensors"}, "/no/such/golden.safetensors"},
      {{"verify", bundled(t), "--golden", bundled(t) + "/model.safetensors"}, "input_ids"},
      {{"selftest", "--device", "cuda:97"}, "cuda:97"},
  };
  for (const Bad& bad : list) {
    std::string what;
    for (const auto& word : bad.words) what += word + " ";
    const Child c = run_cli(bad.words);
    if (bad.words[0] == "selftest" && has(c.err, "tests/golden")) continue;
    EXPECT_CODE(c, 1, what);
    if (!has(c.err, bad.says)) t.fail(what + ": lacks '" + bad.says + "': " + c.err, __FILE__, __LINE__);
    CHECK(!fs::exists(out));
    CHECK(!fs::exists(out + ".part"));
  }
}

SLOTSCOPE_CASE(text_without_a_tokenizer_points_to_ids) {
  const Child c = run_cli({"run", golden(t, "raven_fla_default"), "--text", "a", "--out", (t.temp() / "x.h5").string()});
  EXPECT_CODE(c, 1, "no tokenizer");
  EXPECT_SAYS(c.err, "tokenizer", "--ids");
}

SLOTSCOPE_CASE(existing_out_is_refused_before_the_model_is_read) {
  const fs::path out = t.temp() / "kept.h5";
  write_file(out, "precious");
  // The folder does not exist: had the program looked at it first, the message would be about the folder.
  const Child c = run_cli({"run", "/no/such/folder", "--ids", "1", "--out", out.string()});
  EXPECT_CODE(c, 1, "existing out");
  EXPECT_SAYS(c.err, "kept.h5", "exists", "--force");
  CHECK_EQ(file_bytes(out), std::string("precious"));

  const Child forced = run_cli({"run", golden(t, "raven_fla_default"), "--ids", "1,2,3", "--out", out.string(), "--force", "-q"});
  EXPECT_CODE(forced, 0, "forced");
  CHECK_EQ(trace::Trace::open(out)->run(0).tokens, int64_t(3));
}

SLOTSCOPE_CASE(device_without_a_gpu_says_what_there_is) {
  ChildOptions none;
  none.env = {"CUDA_VISIBLE_DEVICES="};
  const Child c = run_cli(run_words(t, t.temp() / "x.h5", {"--text", "a", "--device", "cuda"}), none);
  EXPECT_CODE(c, 1, "no GPU");
  EXPECT_SAYS(c.err, "cuda", "cpu");
  const Child seven = run_cli(run_words(t, t.temp() / "x.h5", {"--text", "a", "--device", "cuda:7"}), none);
  EXPECT_CODE(seven, 1, "cuda:7");
  EXPECT_SAYS(seven.err, "cuda:7", "cpu");
  const Child devices = run_cli({"devices", "--json"}, none);
  EXPECT_CODE(devices, 0, "devices");
  const json d = document(devices);
  CHECK_EQ(d["devices"].size(), size_t(1));
  CHECK_EQ(d["devices"][0]["name"].get<std::string>(), std::string("cpu"));
  CHECK(!d["why_no_cuda"].get<std::string>().empty());
  EXPECT_CODE(run_cli({"info", bundled(t)}, none), 0, "files open without a GPU");
}

}  // namespace slotscope::testing
