// slotscope-cli run --prompts: rows of a file become runs of one trace, read back through the trace and through h5py.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "core/error.h"
#include "core/formats/prompt.h"
#include "core/formats/prompt_import.h"
#include "core/trace/trace.h"
#include "tests/cases/cli_checks.h"

namespace slotscope::testing {
namespace {

using namespace std::chrono_literals;

std::string lm_eval_file(Context& t) { return t.data("data/prompts/niah_single_1.jsonl").string(); }

std::vector<json> lines_of(const fs::path& path) {
  std::ifstream in(path);
  std::vector<json> rows;
  for (std::string line; std::getline(in, line);) rows.push_back(json::parse(line));
  return rows;
}

std::string text_of(const trace::RunInfo& run, const std::string& span) {
  std::string text;
  if (const Span* s = run.span(span))
    for (int64_t at = s->begin; at < s->end; ++at) text += run.token_bytes(at);
  return text;
}

std::string attribute(const trace::RunInfo& run, const std::string& name) {
  for (const auto& [key, value] : run.attributes)
    if (key == name && std::holds_alternative<std::string>(value)) return std::get<std::string>(value);
  return "(none)";
}

// Password prompts as rows that anybody could have written; the bundled model answers them.
std::vector<formats::Prompt> write_passwords(Context& t, const fs::path& file, int count, int64_t length) {
  const auto tokenizer = formats::Tokenizer::load(bundled(t));
  std::vector<formats::Prompt> prompts;
  std::string lines;
  for (int i = 0; i < count; ++i) {
    prompts.push_back(formats::make_passkey(*tokenizer, {.length = length, .seed = uint64_t(i)}));
    lines += json{{"prompt", prompts.back().text}, {"answer", prompts.back().answer}}.dump() + "\n";
  }
  write_file(file, lines);
  return prompts;
}

}  // namespace

SLOTSCOPE_CASE(rows_become_runs_with_their_text_spans_and_answer) {
  const fs::path out = t.temp() / "n.h5";
  const Child c = run_cli(run_words(t, out, {"--prompts", lm_eval_file(t), "--generate", "4", "--json"}));
  EXPECT_CODE(c, 0, "three rows");
  const json d = document(c);
  const auto rows = lines_of(lm_eval_file(t));
  const auto trace = trace::Trace::open(out);
  CHECK_EQ(trace->run_count(), 3);
  CHECK_EQ(d["runs"].size(), size_t(3));
  EXPECT_SAYS(c.err, "3 prompts of 796 to 802 tokens");
  for (int i = 0; i < 3; ++i) {
    const auto& run = trace->run(i);
    const json& row = rows[size_t(i)];
    const std::string value = row["outputs"][0], lead = row["gen_prefix"], text = row["input"].get<std::string>() + " " + lead;
    CHECK_EQ(run.text, text);
    CHECK_EQ(run.prompt_tokens, int64_t(text.size()) + 1);
    CHECK_EQ(run.answer, value);
    CHECK_EQ(run.references, std::vector<std::string>{value});
    CHECK_EQ(run.name, "niah_single_1.jsonl · " + std::to_string(i));
    CHECK_EQ(attribute(run, "row"), std::to_string(i));
    CHECK_EQ(attribute(run, "prompt_format"), std::string("lm-eval"));
    CHECK_EQ(text_of(run, "value"), value);
    CHECK_EQ(text_of(run, "lead-in"), lead);
    CHECK(has(text_of(run, "needle"), " is: " + value + "."));
    CHECK(has(text_of(run, "query"), text_of(run, "key")));
    std::string retrieval;
    for (int64_t at = 0; at < run.prompt_tokens; ++at)
      if (run.roles[size_t(at)] == 1) retrieval += run.token_bytes(at);
    CHECK_EQ(retrieval, value);
    // The answer's place: a space, then the value's seven digits.
    CHECK_EQ(int(run.roles[size_t(run.prompt_tokens)]), 0);
    CHECK_EQ(int(run.roles[size_t(run.prompt_tokens) + 1]), 1);
    const json& said = d["runs"][size_t(i)];
    CHECK_EQ(said["parameters"]["row"].get<std::string>(), std::to_string(i));
    CHECK_EQ(said["score"].get<double>(), 0.0);  // a model that never saw such a task
    CHECK_EQ(said["expected"].get<std::string>(), value);
    CHECK_EQ(said["output_ids"].size(), size_t(4));
    CHECK(run.score && *run.score == 0);
  }
  // The same through h5py, with no help from us.
  if (std::system("/usr/bin/python3 -c 'import h5py' >/dev/null 2>&1") != 0) return t.note("no h5py here");
  const fs::path script = t.temp() / "read.py";
  write_file(script,
             "import h5py, json, sys\n"
             "f = h5py.File(sys.argv[1], 'r')\n"
             "out = []\n"
             "for name in sorted(f['runs']):\n"
             "    r = f['runs'][name]\n"
             "    o, b = r['tokens/byte_offsets'][:], r['tokens/bytes'][:].tobytes()\n"
             "    spans = {n.decode(): b[o[begin]:o[end]].decode() for n, begin, end in r['prompt/spans'][:]}\n"
             "    out.append({'text': r['prompt/text'].asstr()[()], 'answer': r['prompt/answer'].asstr()[()],\n"
             "                'value': spans['value'], 'references': json.loads(r.attrs['references'])})\n"
             "json.dump(out, open(sys.argv[2], 'w'))\n");
  const fs::path said = script.parent_path() / "said.json";
  CHECK_EQ(std::system(("/usr/bin/python3 '" + script.string() + "' '" + out.string() + "' '" + said.string() + "'").c_str()), 0);
  const json python = json::parse(file_bytes(said));
  CHECK_EQ(python.size(), size_t(3));
  for (size_t i = 0; i < python.size(); ++i) {
    CHECK_EQ(python[i]["text"].get<std::string>(), rows[i]["input"].get<std::string>() + " " + rows[i]["gen_prefix"].get<std::string>());
    CHECK_EQ(python[i]["answer"].get<std::string>(), rows[i]["outputs"][0].get<std::string>());
    CHECK_EQ(python[i]["value"].get<std::string>(), rows[i]["outputs"][0].get<std::string>());
    CHECK(python[i]["references"] == rows[i]["outputs"]);
  }
}

SLOTSCOPE_CASE(imported_answers_are_scored) {
  const fs::path folder = t.temp();
  const auto prompts = write_passwords(t, folder / "p.jsonl", 4, 256);
  const Child c = run_cli(run_words(t, folder / "p.h5", {"--prompts", (folder / "p.jsonl").string(), "--rows", "2,0", "--json"}));
  EXPECT_CODE(c, 0, "two rows");
  const json d = document(c);
  CHECK_EQ(d["runs"].size(), size_t(2));
  const auto trace = trace::Trace::open(folder / "p.h5");
  for (int i = 0; i < 2; ++i) {
    const auto& made = prompts[i == 0 ? 2 : 0];
    const auto& run = trace->run(i);
    CHECK_EQ(std::vector<int32_t>(run.ids.begin(), run.ids.begin() + run.prompt_tokens), made.ids);
    // Same roles as the task's own prompt: the password in the needle is what is asked for.
    CHECK_EQ(std::vector<uint8_t>(run.roles.begin(), run.roles.begin() + run.prompt_tokens), made.roles);
    CHECK_EQ(text_of(run, "value"), made.answer);
    CHECK(text_of(run, "needle").ends_with("The password is " + made.answer + "."));
    CHECK_EQ(run.output_text, made.answer);
    CHECK(run.exact.value_or(false));
    CHECK(run.score && *run.score == 1);
    CHECK_EQ(d["runs"][size_t(i)]["score"].get<double>(), 1.0);
    CHECK_EQ(d["runs"][size_t(i)]["parameters"]["row"].get<std::string>(), std::string(i == 0 ? "2" : "0"));
  }
  const Child text = run_cli(run_words(t, folder / "q.h5", {"--prompts", (folder / "p.jsonl").string(), "--rows", "0:2"}));
  EXPECT_SAYS(text.out, "run 0000: answer \"", "score 1, exact: expected \"", "score: 1 on average over 2 runs", "exact: 2 of 2");
  const Child analysed = run_cli({"analyze", (folder / "q.h5").string(), "--run", "1", "--json"});
  EXPECT_CODE(analysed, 0, "analyze");
  const json a = document(analysed);
  CHECK_EQ(a["runs"].size(), size_t(1));
  CHECK_EQ(a["runs"][0]["score"].get<double>(), 1.0);
  CHECK_EQ(a["runs"][0]["references"][0].get<std::string>(), prompts[1].answer);
  CHECK_EQ(a["runs"][0]["key_tokens"].size(), prompts[1].answer.size());  // the value's tokens
}

SLOTSCOPE_CASE(odd_rows_warn_and_broken_ones_are_named) {
  const fs::path folder = t.temp();
  write_file(folder / "odd.jsonl", "{\"prompt\":\"The code is 1.\\nWhich?\",\"answer\":\"2\"}\n{\"prompt\":7}\n");
  const std::string file = (folder / "odd.jsonl").string();
  const Child odd = run_cli(run_words(t, folder / "a.h5", {"--prompts", file, "--rows", "0", "--json"}));
  EXPECT_CODE(odd, 0, "a value that is absent");
  EXPECT_SAYS(odd.err, "warning: run 0000 (row 0): the value '2' is not in the prompt");
  EXPECT_SAYS(document(odd)["warnings"].dump(), "the value '2' is not in the prompt");
  const Child broken = run_cli(run_words(t, folder / "b.h5", {"--prompts", file}));
  EXPECT_CODE(broken, 1, "a broken row");
  EXPECT_SAYS(broken.err, "odd.jsonl", "line 2", "prompt", "expected text");
  CHECK(!fs::exists(folder / "b.h5") && !fs::exists(folder / "b.h5.part"));
  for (const auto& [words, says] : std::vector<std::pair<Words, const char*>>{
           {{"--prompts", file, "--rows", "2"}, "0 to 1"}, {{"--prompts", file, "--rows", "1:1"}, "--rows"},
           {{"--prompts", file, "--format", "csv"}, "lm-eval"}, {{"--prompts", file, "--text", "x"}, "exactly one"},
           {{"--text", "x", "--rows", "1"}, "--prompts"}}) {
    const Child c = run_cli(run_words(t, folder / "c.h5", words));
    EXPECT_CODE(c, 2, says);
    EXPECT_SAYS(c.err, says);
  }
  std::string many;
  for (int i = 0; i < 1001; ++i) many += "{\"prompt\":\"" + std::to_string(i) + "\"}\n";
  write_file(folder / "many.jsonl", many);
  const Child all = run_cli(run_words(t, folder / "d.h5", {"--prompts", (folder / "many.jsonl").string()}));
  EXPECT_CODE(all, 2, "1001 runs unasked");
  EXPECT_SAYS(all.err, "--rows", "1001 rows");
  EXPECT_CODE(run_cli(run_words(t, folder / "d.h5", {"--prompts", (folder / "many.jsonl").string(), "--rows", "1000"})), 0, "one of them");
  CHECK_EQ(trace::Trace::open(folder / "d.h5")->run(0).text, std::string("1000"));
}

SLOTSCOPE_CASE(rows_of_token_ids_need_no_tokenizer) {
  const fs::path folder = t.temp();
  write_file(folder / "mqar.jsonl",
             "{\"inputs\":[2,8,4,7,0,0,4,0],\"labels\":[-100,-100,-100,-100,-100,-100,7,-100]}\n[1,2,3]\n");
  const Child c = run_cli({"run", golden(t, "raven_fla_default"), "--prompts", (folder / "mqar.jsonl").string(), "--capture", "route",
                           "--out", (folder / "x.h5").string(), "--json"});
  EXPECT_CODE(c, 0, "ids");
  const auto trace = trace::Trace::open(folder / "x.h5");
  CHECK_EQ(trace->run_count(), 2);
  CHECK_EQ(trace->run(0).ids, (std::vector<int32_t>{2, 8, 4, 7, 0, 0, 4, 0}));
  CHECK_EQ(trace->run(0).roles, (std::vector<uint8_t>{0, 0, 0, 1, 0, 0, 0, 0}));
  CHECK_EQ(trace->run(0).span("query")->begin, int64_t(6));
  CHECK_EQ(trace->run(1).ids, (std::vector<int32_t>{1, 2, 3}));
  write_file(folder / "text.jsonl", "{\"prompt\":\"x\"}\n");
  const Child text = run_cli({"run", golden(t, "raven_fla_default"), "--prompts", (folder / "text.jsonl").string(), "--out",
                              (folder / "y.h5").string()});
  EXPECT_CODE(text, 1, "text without a tokenizer");
  EXPECT_SAYS(text.err, "--prompts", "the folder has no tokenizer");
}

SLOTSCOPE_CASE(cancel_keeps_the_runs_that_ended) {
  const fs::path folder = t.temp(), out = folder / "c.h5";
  write_passwords(t, folder / "p.jsonl", 40, 2048);
  ChildOptions o;
  o.running = [&out](int pid, const std::atomic<bool>& ended) {
    // Until the file that is being written shows a first run that came to its end.
    for (bool first = false; !first && !ended;) {
      std::this_thread::sleep_for(100ms);
      try {
        first = trace::Trace::open(out.string() + ".part")->run(0).exact.has_value();
      } catch (const Error&) {
        // Not there yet, or between two writes.
      }
    }
    if (!ended) ::kill(pid, SIGINT);
  };
  const Child c = run_cli(run_words(t, out, {"--prompts", (folder / "p.jsonl").string(), "--json"}), o);
  EXPECT_CODE(c, 130, "SIGINT");
  const auto trace = trace::Trace::open(out);
  CHECK_EQ(trace->status(), trace::Status::cancelled);
  CHECK_EQ(trace->run_count(), 40);
  int whole = 0;
  for (int i = 0; i < trace->run_count(); ++i) {
    const auto& run = trace->run(i);
    if (!run.exact) continue;
    ++whole;
    CHECK(run.score.has_value());
    CHECK_EQ(run.tokens, run.prompt_tokens + int64_t(run.output_ids.size()) - 1);
  }
  t.note("cancelled after " + std::to_string(whole) + " runs");
  CHECK(whole >= 1 && whole < 40);
  CHECK(trace->run(39).tokens == 0 && !trace->run(39).score);
}

}  // namespace slotscope::testing
