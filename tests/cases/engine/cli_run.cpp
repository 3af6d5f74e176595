// slotscope-cli run, verify, analyze and repair as processes (spec: architecture "Capture and command line semantics").
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "core/formats/checkpoint.h"
#include "core/trace/trace.h"
#include "tests/cases/cli_checks.h"

namespace slotscope::testing {
namespace {

using namespace std::chrono_literals;

// A long run in `out`, interrupted once its file has grown by `growth` bytes of rows: by one SIGINT, or by one after the other
// until it ends (signals that come together count as one).
Child long_run(Context& t, const fs::path& out, bool again, uintmax_t growth) {
  ChildOptions o;
  o.running = [&out, again, growth](int pid, const std::atomic<bool>& ended) {
    // What is as long as the prompt is written first; the file grows beyond that when rows come.
    uintmax_t first = 0;
    while (!ended) {
      std::error_code error;
      const auto size = fs::file_size(out.string() + ".part", error);
      if (!error && first == 0 && size > 300'000) first = size;
      if (!error && first > 0 && size > first + growth) break;
      std::this_thread::sleep_for(10ms);
    }
    do {
      if (!ended) ::kill(pid, SIGINT);
      std::this_thread::sleep_for(2ms);
    } while (again && !ended);
  };
  return run_cli(run_words(t, out, {"--task", "passkey", "--length", "65536", "--json"}), o);
}

// The text of a golden file's header and its data, to change one number in it.
struct GoldenFile {
  std::string bytes;
  size_t data = 0;
  json header;
  explicit GoldenFile(const fs::path& path) : bytes(file_bytes(path)) {
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), 8);
    data = 8 + length;
    header = json::parse(bytes.substr(8, length));
  }
  float& f32(const std::string& name, size_t index) {
    return *reinterpret_cast<float*>(bytes.data() + data + header[name]["data_offsets"][0].get<size_t>() + 4 * index);
  }
};

}  // namespace

SLOTSCOPE_CASE(run_answers_a_password_prompt_and_writes_its_trace) {
  const fs::path out = t.temp() / "p.h5";
  const Child c = run_cli(run_words(t, out, {"--task", "passkey", "--length", "256", "--seed", "0", "--json"}));
  EXPECT_CODE(c, 0, "run");
  const json d = document(c);
  CHECK_EQ(d["status"].get<std::string>(), std::string("complete"));
  CHECK_EQ(d["trace"].get<std::string>(), out.string());
  CHECK_EQ(d["file_bytes"].get<uintmax_t>(), fs::file_size(out));
  CHECK(d["seconds"].get<double>() > 0);
  CHECK(d["estimate"]["file_bytes"].get<int64_t>() > 0);
  const json& run = d["runs"][0];
  CHECK_EQ(run["prompt_tokens"].get<int>(), 256);
  CHECK(run["exact"].get<bool>());
  const std::string answer = run["expected"];
  CHECK(answer.size() >= 6 && answer.size() <= 10);
  CHECK_EQ(run["output_text"].get<std::string>(), answer);
  // Generated: the answer and <eos>; fed: the prompt and all of it but the last sampled token.
  CHECK_EQ(run["output_ids"].size(), answer.size() + 1);
  CHECK_EQ(run["output_ids"].back().get<int>(), 257);
  CHECK_EQ(run["tokens"].get<size_t>(), 256 + answer.size());

  const auto trace = trace::Trace::open(out);
  CHECK_EQ(trace->status(), trace::Status::complete);
  const auto& r = trace->run(0);
  CHECK_EQ(r.tokens, int64_t(256 + answer.size()));
  CHECK_EQ(r.prompt_tokens, int64_t(256));
  CHECK_EQ(r.exact.value_or(false), true);
  CHECK_EQ(r.answer, answer);
  const Span* key = r.span("key");
  CHECK(key != nullptr);
  if (key) {
    std::string text;
    for (int64_t at = key->begin; at < key->end; ++at) text += r.token_bytes(at);
    CHECK_EQ(text, answer);
  }
  for (int layer = 0; layer < 4; ++layer) {
    const std::string base = "layers/" + std::to_string(layer) + "/";
    for (const char* field : {"route_index", "route_weight", "log_decay", "write_strength", "read_weight", "esl", "selected",
                              "ties", "margin"})
      if (!r.find(base + field)) t.fail("no " + base + field, __FILE__, __LINE__);
    for (const char* field : {"hidden", "state_k", "query"})
      if (r.find(base + field)) t.fail("captured unasked: " + base + field, __FILE__, __LINE__);
  }
  CHECK(r.candidates == 4 && r.top_ids.size() == 4 * (answer.size() + 1));
  // Greedy: the best candidate of step g is the g-th character of the answer, as text and without the tokenizer.
  CHECK_EQ(r.top_bytes.size(), r.top_ids.size());
  for (size_t g = 0; g < answer.size() && 4 * g < r.top_bytes.size(); ++g)
    CHECK_EQ(r.top_bytes[4 * g], std::string(1, answer[g]));
  CHECK(r.top_bytes.size() > 4 * answer.size() && r.top_bytes[4 * answer.size()] == "<eos>");
  // The estimate is about the same bytes, before compression: never less than half of what came, never ten times it.
  CHECK(d["estimate"]["file_bytes"].get<double>() > 0.5 * double(fs::file_size(out)));
  CHECK(d["estimate"]["file_bytes"].get<double>() < 10 * double(fs::file_size(out)));
}

SLOTSCOPE_CASE(run_text_summary_and_progress_on_the_right_stream) {
  const fs::path out = t.temp() / "p.h5";
  const Child c = run_cli(run_words(t, out, {"--task", "passkey", "--length", "256", "--key", "Zk7Qw2xP"}));
  EXPECT_CODE(c, 0, "run");
  EXPECT_SAYS(c.out, "Zk7Qw2xP", "tokens/s", "p.h5");
  EXPECT_SAYS(c.err, "estimate:", "1 prompt of 256 tokens on cpu in float32");
  CHECK(!has(c.out, "estimate"));
  CHECK(!has(c.err, "\r"));  // no terminal: plain lines
  const Child quiet = run_cli(run_words(t, t.temp() / "q.h5", {"--ids", "1,2,3", "-q"}));
  EXPECT_CODE(quiet, 0, "quiet");
  CHECK_EQ(quiet.err, std::string());
}

SLOTSCOPE_CASE(prompts_are_taken_byte_for_byte) {
  const fs::path folder = t.temp();
  const std::string bytes("  a\0b\r\n\xC3\xA9\n\n", 11);
  write_file(folder / "text.txt", bytes);
  std::vector<int32_t> ids = {256};
  for (unsigned char b : bytes) ids.push_back(b);
  const Child c = run_cli(run_words(t, folder / "a.h5", {"--text-file", (folder / "text.txt").string()}));
  EXPECT_CODE(c, 0, "text file with NUL, CR and trailing newlines");
  const auto trace = trace::Trace::open(folder / "a.h5");
  CHECK_EQ(trace->run(0).ids, ids);
  // The text dataset is a string and ends at a NUL for some readers; the bytes of the tokens are exact.
  CHECK_EQ(std::string(trace->run(0).bytes.begin(), trace->run(0).bytes.end()), "<bos>" + bytes);

  ChildOptions piped;
  piped.stdin_text = bytes;
  EXPECT_CODE(run_cli(run_words(t, folder / "b.h5", {"--text-file", "-"}), piped), 0, "standard input");
  CHECK_EQ(trace::Trace::open(folder / "b.h5")->run(0).ids, ids);

  EXPECT_CODE(run_cli(run_words(t, folder / "c.h5", {"--text=-x {} [1,2] %%", "--no-bos"})), 0, "odd characters");
  std::vector<int32_t> odd;
  for (unsigned char b : std::string("-x {} [1,2] %%")) odd.push_back(b);
  CHECK_EQ(trace::Trace::open(folder / "c.h5")->run(0).ids, odd);

  EXPECT_CODE(run_cli(run_words(t, folder / "d.h5", {"--text=", "--generate", "1"})), 0, "empty text has <bos>");
  CHECK_EQ(trace::Trace::open(folder / "d.h5")->run(0).ids, (std::vector<int32_t>{256}));
}

SLOTSCOPE_CASE(ids_file_of_arrays_makes_runs) {
  const fs::path folder = t.temp();
  write_file(folder / "two.json", "[[1, 2, 3], [4, 5, 6, 7]]\n");
  const Child c = run_cli({"run", golden(t, "raven_fla_default"), "--ids-file", (folder / "two.json").string(), "--capture",
                           "route,logits", "--out", (folder / "x.h5").string(), "--json"});
  EXPECT_CODE(c, 0, "two prompts");
  const json d = document(c);
  CHECK_EQ(d["runs"].size(), size_t(2));
  CHECK_EQ(d["runs"][1]["run"].get<std::string>(), std::string("0001"));
  CHECK_EQ(d["tokens"].get<int>(), 7);
  CHECK(d["runs"][0]["exact"].is_null());
  const auto trace = trace::Trace::open(folder / "x.h5");
  CHECK_EQ(trace->run_count(), 2);
  CHECK_EQ(trace->run(0).ids, (std::vector<int32_t>{1, 2, 3}));
  CHECK_EQ(trace->run(1).ids, (std::vector<int32_t>{4, 5, 6, 7}));
  // The second prompt starts from an empty memory: alone it gives the same logits.
  write_file(folder / "one.json", "[4, 5, 6, 7]");
  const Child alone = run_cli({"run", golden(t, "raven_fla_default"), "--ids-file", (folder / "one.json").string(), "--capture",
                               "route,logits", "--out", (folder / "y.h5").string()});
  EXPECT_CODE(alone, 0, "one prompt");
  const auto a = trace->read(1, "output/logits"), b = trace::Trace::open(folder / "y.h5")->read(0, "output/logits");
  CHECK_EQ(a.size(), b.size());
  double worst = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  CHECK_CLOSE(worst, 0, 1e-5);
}

SLOTSCOPE_CASE(capture_is_restricted_as_asked) {
  const fs::path out = t.temp() / "x.h5";
  const Child c = run_cli(run_words(t, out, {"--text", "The grass is green.", "--layers", "1,3", "--heads", "2", "--tokens",
                                             "2:5,18:99", "--capture", "route,hid*", "--json"}));
  EXPECT_CODE(c, 0, "restricted");
  EXPECT_SAYS(c.err, "note", "--tokens", "18:20");
  const auto trace = trace::Trace::open(out);
  const auto& r = trace->run(0);
  CHECK(!r.find("layers/0/route_index") && !r.find("layers/2/hidden"));
  for (const char* layer : {"layers/1/", "layers/3/"}) {
    const auto* hidden = r.find(std::string(layer) + "hidden");
    CHECK(hidden != nullptr);
    if (hidden) CHECK_EQ(hidden->shape[0], int64_t(5));
    CHECK_EQ(trace->read_int(0, std::string(layer) + "token"), (std::vector<int64_t>{2, 3, 4, 18, 19}));
  }
  CHECK_EQ(r.tokens, int64_t(20));
}

SLOTSCOPE_CASE(attention_layers_get_a_note_and_no_error) {
  const fs::path out = t.temp() / "x.h5";
  const Child c = run_cli({"run", golden(t, "raven_fla_hybrid_list"), "--ids", "1,2,3,4", "--out", out.string(), "--json"});
  EXPECT_CODE(c, 0, "hybrid");
  bool noted = false;
  const json d = document(c);
  for (const auto& note : d["notes"]) noted |= has(note, "layer 1") && has(note, "attention");
  CHECK(noted);
}

SLOTSCOPE_CASE(heads_that_one_layer_does_not_have) {
  // Layer 0 has 4 heads, the attention of layer 1 has 2: head 3 is captured where it is.
  const fs::path out = t.temp() / "x.h5";
  EXPECT_CODE(run_cli({"run", golden(t, "raven_fla_hybrid_list"), "--ids", "1,2,3", "--heads", "3", "--out", out.string()}), 0, "head 3");
  const auto trace = trace::Trace::open(out);
  const auto* routes = trace->run(0).find("layers/0/route_index");
  CHECK(routes != nullptr);
  if (routes) CHECK_EQ(routes->shape, (std::vector<int64_t>{3, 1, 3}));
  EXPECT_CODE(run_cli({"analyze", out.string()}), 0, "analyze");
}

SLOTSCOPE_CASE(notes_of_several_layers_are_one_line) {
  const Child c = run_cli(run_words(t, t.temp() / "x.h5", {"--text", "a", "--capture", "route,query_rot"}));
  EXPECT_CODE(c, 0, "a field that no layer has");
  EXPECT_SAYS(c.err, "note: layers 0-3 are raven: no query_rot");
  // Without a tokenizer there is no text to show: the ids are.
  const Child ids = run_cli({"run", golden(t, "raven_fla_default"), "--ids", "1,2", "--generate", "2", "--out",
                             (t.temp() / "y.h5").string()});
  EXPECT_CODE(ids, 0, "generation without a tokenizer");
  EXPECT_SAYS(ids.out, "generated token ids ");
}

SLOTSCOPE_CASE(stop_after_runs_no_further_and_answers_nothing) {
  const fs::path out = t.temp() / "x.h5";
  const Child c = run_cli(run_words(t, out, {"--task", "passkey", "--length", "256", "--stop-after", "1", "--capture",
                                             "route,hidden", "--json"}));
  EXPECT_CODE(c, 0, "stop after layer 1");
  CHECK(document(c)["runs"][0]["output_ids"].empty());
  const auto trace = trace::Trace::open(out);
  CHECK(trace->run(0).find("layers/1/hidden") != nullptr);
  CHECK(trace->run(0).find("layers/2/hidden") == nullptr);
}

SLOTSCOPE_CASE(options_that_would_do_nothing_are_refused) {
  const fs::path out = t.temp() / "x.h5";
  const std::vector<std::vector<std::string>> useless{{"--length", "50"}, {"--depth", "0.5"}, {"--key", "abc"},
                                                      {"--haystack", "noise"}, {"--layers", ""}, {"--heads", ""},
                                                      {"--tokens", ""}};
  for (const auto& option : useless) {
    const Child c = run_cli(run_words(t, out, {"--ids", "256,72", option[0], option[1], "--json"}));
    EXPECT_CODE(c, 2, option[0]);
    EXPECT_SAYS(document(c)["error"]["message"].get<std::string>(), option[0].c_str());
    CHECK(!fs::exists(out));
  }
  EXPECT_CODE(run_cli(run_words(t, out, {"--task", "passkey", "--key", "", "--json"})), 2, "empty key");
  CHECK(!fs::exists(out));
}

SLOTSCOPE_CASE(streams_that_are_closed_or_full) {
  const fs::path folder = t.temp();
  const auto complete = [&](const char* name) {
    const auto trace = trace::Trace::open(folder / name);
    return trace->status() == trace::Status::complete && trace->run(0).tokens == 3;
  };
  const auto words = [&](const char* name) { return run_words(t, folder / name, {"--ids", "1,2,3"}); };
  ChildOptions o;
  o.close_stdin = true;
  EXPECT_CODE(run_cli(words("stdin.h5"), o), 0, "closed standard input");
  CHECK(complete("stdin.h5"));
  // With every standard stream closed the trace would become descriptor 0, 1 or 2 and receive the messages.
  o.close_stdout = o.close_stderr = true;
  EXPECT_CODE(run_cli(words("all.h5"), o), 0, "all closed");
  CHECK(complete("all.h5"));
  // A reader that goes away must not end a run that is writing; the summary's loss shows in the exit code.
  ChildOptions gone;
  gone.reader_goes_away = true;
  const Child c = run_cli(words("gone.h5"), gone);
  EXPECT_CODE(c, 1, "broken pipe");
  CHECK_EQ(c.signal, 0);
  CHECK(complete("gone.h5"));
  ChildOptions full;
  full.stdout_file = "/dev/full";
  const Child f = run_cli({"info", bundled(t), "--json"}, full);
  EXPECT_CODE(f, 1, "full disk");
  EXPECT_SAYS(f.err, "standard output", "No space left");
}

SLOTSCOPE_CASE(first_interrupt_cancels_and_leaves_a_readable_trace) {
  const fs::path out = t.temp() / "x.h5";
  const Child c = long_run(t, out, false, 500'000);
  EXPECT_CODE(c, 130, "SIGINT");
  CHECK_EQ(document(c)["status"].get<std::string>(), std::string("cancelled"));
  const auto trace = trace::Trace::open(out);
  CHECK_EQ(trace->status(), trace::Status::cancelled);
  const auto& r = trace->run(0);
  CHECK(r.tokens > 0 && r.tokens < 65536);
  CHECK_EQ(int64_t(r.ids.size()), r.tokens);
  t.note("cancelled at token " + std::to_string(r.tokens));
}

SLOTSCOPE_CASE(second_interrupt_ends_at_once_and_repair_keeps_what_is_there) {
  const fs::path out = t.temp() / "x.h5", clean = out.parent_path() / "clean.h5";
  const Child c = long_run(t, out, true, 15'000'000);
  CHECK_EQ(c.signal, SIGINT);
  CHECK(!fs::exists(out));
  CHECK(fs::exists(out.string() + ".part"));
  const Child repair = run_cli({"repair", out.string() + ".part", clean.string(), "--json"});
  EXPECT_CODE(repair, 0, "repair");
  const auto trace = trace::Trace::open(clean);
  const int64_t tokens = trace->run(0).tokens;
  CHECK_EQ(document(repair)["tokens"].get<int64_t>(), tokens);
  CHECK(tokens > 0 && tokens < 65536);
  t.note("kept " + std::to_string(tokens) + " tokens");
  // What was kept is whole: every row of every head has top_k slots below M.
  const auto routes = trace->routes(0, 3, 0);
  CHECK_EQ(routes.rows, tokens);
  for (uint32_t slot : routes.index) CHECK(slot < 64);
  EXPECT_CODE(run_cli({"repair", out.string() + ".part", clean.string()}), 1, "existing OUT");
}

SLOTSCOPE_CASE(analyze_reports_the_heads_of_a_trace) {
  const fs::path out = t.temp() / "p.h5";
  EXPECT_CODE(run_cli(run_words(t, out, {"--task", "passkey", "--length", "256", "--seed", "0", "-q"})), 0, "run");
  const Child c = run_cli({"analyze", out.string(), "--json"});
  EXPECT_CODE(c, 0, "analyze --json");
  const json d = document(c);
  CHECK_EQ(d["status"].get<std::string>(), std::string("complete"));
  const json& run = d["runs"][0];
  CHECK_EQ(run["query"].get<int>(), 255);
  CHECK(run["exact"].get<bool>());
  CHECK_EQ(run["heads"].size(), size_t(16));
  const int64_t tokens = run["tokens"];
  const auto trace = trace::Trace::open(out);
  for (const auto& head : run["heads"]) {
    const int layer = head["layer"], index = head["head"];
    const std::vector<uint32_t> esl = head["slot"]["esl"];
    CHECK_EQ(esl, trace->counters(0, layer, "esl")[size_t(index)]);
    // Every token writes top-8: the writes of all slots sum to 8 T unless weights underflowed.
    int64_t sum = 0, classes = 0;
    for (uint32_t n : esl) sum += n;
    CHECK_EQ(sum + head["underflowed"].get<int64_t>(), 8 * tokens);
    for (const auto& [name, n] : head["allocation"]["counts"].items()) classes += n.get<int64_t>();
    CHECK_EQ(classes, int64_t(64));
    CHECK_EQ(head["statistics"]["used"].get<int>() + head["statistics"]["dead"].get<int>(), 64);
    // The same order as sorting the counts, ties to the lower slot.
    const std::vector<int> order = head["esl"]["order"];
    for (size_t i = 1; i < order.size(); ++i)
      CHECK(esl[size_t(order[i - 1])] > esl[size_t(order[i])] ||
            (esl[size_t(order[i - 1])] == esl[size_t(order[i])] && order[i - 1] < order[i]));
  }
  // Best score first, the head that the window selects first among the retrieval heads.
  const json& best = run["by_score"];
  for (size_t i = 1; i < best.size(); ++i)
    CHECK(best[i]["score"].is_null() || best[i - 1]["score"].get<double>() >= best[i]["score"].get<double>());
  CHECK_EQ(best[0]["layer"], run["first"]["layer"]);
  CHECK_EQ(best[0]["head"], run["first"]["head"]);
  const Child text = run_cli({"analyze", out.string()});
  EXPECT_CODE(text, 0, "analyze");
  EXPECT_SAYS(text.out, "retrieval head", "lambda", "exact");
  EXPECT_CODE(run_cli({"analyze", out.string(), "--run", "1"}), 2, "no run 1");
  EXPECT_CODE(run_cli({"analyze", out.string(), "--esl-low", "0.9", "--esl-high", "0.1"}), 2, "cuts");
}

SLOTSCOPE_CASE(verify_passes_on_golden_cases_and_reports_the_worst_error) {
  for (const char* name : {"raven_fla_default", "raven_fla_hybrid_list", "raven_gb_gate", "raven_fla_gla_softmax_bias_t2r"})
    for (const char* dtype : {"float32", "float64"}) {
      const std::string folder = golden(t, name);
      const Child c = run_cli({"verify", folder, "--golden", folder + "/golden.safetensors", "--dtype", dtype, "--json"});
      EXPECT_CODE(c, 0, std::string(name) + " " + dtype);
      const json d = document(c);
      CHECK(d["pass"].get<bool>());
      double worst = -1;
      size_t compared = 0;
      for (const auto& tensor : d["tensors"]) {
        compared += tensor["compared"].get<bool>();
        if (tensor["name"] == "logits_f64") worst = tensor["max_error"];
      }
      CHECK_EQ(compared, d["tensors"].size());
      CHECK(compared >= 7);
      CHECK(!d["selected_sets"].empty());
      const double limit = std::strcmp(dtype, "float64") == 0 ? 1e-9 : 1e-4;
      CHECK(worst >= 0 && worst <= limit);
      t.note(std::string(name) + " " + dtype + ": logits_f64 off by " + to_text(worst));
    }
}

SLOTSCOPE_CASE(verify_fails_on_one_wrong_number_and_says_where) {
  const std::string folder = golden(t, "raven_fla_default");
  const fs::path place = t.temp() / "golden.safetensors";
  GoldenFile hidden(folder + "/golden.safetensors");
  hidden.f32("block_out.1", 7 * 32 + 5) += 3e-4f;
  write_file(place, hidden.bytes);
  const Child c = run_cli({"verify", folder, "--golden", place.string(), "--json"});
  EXPECT_CODE(c, 1, "changed block_out.1");
  const json d = document(c);
  CHECK(!d["pass"].get<bool>());
  for (const auto& tensor : d["tensors"]) {
    const bool changed = tensor["name"] == "block_out.1";
    CHECK_EQ(tensor["pass"].get<bool>(), !changed);
    if (!changed) continue;
    CHECK_EQ(tensor["place"].get<std::vector<int>>(), (std::vector<int>{7, 5}));
    CHECK_CLOSE(tensor["max_error"].get<double>(), 3e-4, 5e-5);
  }
  const Child text = run_cli({"verify", folder, "--golden", place.string()});
  EXPECT_CODE(text, 1, "changed block_out.1, text");
  EXPECT_SAYS(text.out, "block_out.1", "FAIL", "token 7, element 5");
  EXPECT_CODE(run_cli({"verify", folder, "--golden", place.string(), "--tolerance", "1e-3"}), 0, "own tolerance");

  GoldenFile nan(folder + "/golden.safetensors");
  nan.f32("logits", 3) = std::numeric_limits<float>::quiet_NaN();
  write_file(place, nan.bytes);
  EXPECT_CODE(run_cli({"verify", folder, "--golden", place.string()}), 1, "NaN never passes");

  // A slot that the model selects and the file says it does not: strength and keep are within tolerance, the set is not.
  GoldenFile sets(folder + "/golden.safetensors");
  size_t at = 0;
  float smallest = 0;
  for (size_t i = 0; i < 23 * 4 * 8; ++i) {
    const float keep = sets.f32("log_keep.0", i);
    if (keep != 0 && (smallest == 0 || keep > smallest)) smallest = keep, at = i;
  }
  sets.f32("log_keep.0", at) = 0;
  write_file(place, sets.bytes);
  const Child s = run_cli({"verify", folder, "--golden", place.string(), "--json", "--tolerance", "1"});
  EXPECT_CODE(s, 1, "selected set");
  CHECK_EQ(document(s)["selected_sets"][0]["different"].get<int>(), 1);
  EXPECT_SAYS(document(s)["selected_sets"][0]["first_difference"].get<std::string>(),
              ("token " + std::to_string(at / 32) + ", head " + std::to_string(at / 8 % 4)).c_str());
}

}  // namespace slotscope::testing
