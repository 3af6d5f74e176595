// slotscope-cli sweep as a process: numbers, resuming, refusals.
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

#include "core/analysis/sweep.h"
#include "core/error.h"
#include "core/sweep/sweep.h"
#include "core/trace/sweep_file.h"
#include "tests/cases/cli_checks.h"

namespace slotscope::testing {
namespace {

using namespace std::chrono_literals;
using trace::SweepValue;

Words sweep_words(std::vector<std::string> folders, const fs::path& out, Words more) {
  Words words = {"sweep"};
  words.insert(words.end(), folders.begin(), folders.end());
  words.insert(words.end(), {"--out", out.string()});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// The bundled checkpoint under another name.
fs::path copy_of_bundled(Context& t, const std::string& name) {
  const fs::path folder = t.temp() / name;
  fs::create_directories(folder);
  for (const char* file : {"config.json", "model.safetensors", "tokenizer.json"})
    fs::copy_file(fs::path(bundled(t)) / file, folder / file);
  fs::permissions(folder / "model.safetensors", fs::perms::owner_write, fs::perm_options::add);
  fs::permissions(folder / "config.json", fs::perms::owner_write, fs::perm_options::add);
  return folder;
}

std::map<std::string, std::string> digests(const trace::SweepModel& model) {
  std::map<std::string, std::string> out;
  for (const auto& r : model.rows)
    out[std::to_string(r.length) + "." + std::to_string(r.depth) + "." + std::to_string(r.number)] = r.digest;
  return out;
}

const Words kShort = {"--lengths", "160,224", "--seeds", "2", "--length-counts", "total", "--haystack", "mixed"};

}  // namespace

SLOTSCOPE_CASE(sweep_gives_the_numbers_of_run_and_analyze) {
  const fs::path out = t.temp() / "s.h5", twin = copy_of_bundled(t, "twin");
  Words more = kShort;
  more.push_back("--json");
  const Child c = run_cli(sweep_words({bundled(t), twin.string()}, out, more));
  EXPECT_CODE(c, 0, "sweep");
  const json d = document(c);
  CHECK_EQ(d["status"].get<std::string>(), std::string("complete"));
  CHECK_EQ(d["models"].size(), size_t(2));
  CHECK_EQ(d["models"][1]["name"].get<std::string>(), std::string("twin"));
  CHECK(d["notes"].empty());

  const auto sweep = trace::read_sweep(out);
  const auto& model = sweep.models.at(0);
  CHECK_EQ(model.rows.size(), size_t(4));
  // The same prompts for both, and, being the same weights, the same numbers.
  CHECK(digests(model) == digests(sweep.models.at(1)));
  CHECK_EQ(digests(model).size(), size_t(4));
  for (size_t i = 0; i < 4; ++i) {
    const auto &a = model.rows[i], &b = sweep.models[1].rows.at(i);
    CHECK_EQ(a.output_ids, b.output_ids);
    CHECK_EQ(a.prompt_tokens + a.answer_tokens, sweep.settings.lengths[size_t(a.length)]);
    CHECK_EQ(a.exact, a.output == a.answer && a.output_ids.back() == 257);
    CHECK_EQ(a.haystack, std::string(a.number == 0 ? "noise" : "shakespeare"));
    for (size_t v = 0; v < a.heads.size(); ++v) CHECK(a.heads[v] == b.heads.at(v) || (std::isnan(a.heads[v]) && std::isnan(b.heads[v])));
  }
  int64_t right = 0;
  for (const auto& row : model.rows) right += row.length == 1 && row.exact;
  CHECK_EQ(d["models"][0]["lengths"][1]["exact"].get<int64_t>(), right);

  // One prompt by `run` and `analyze`: another way through the file of a trace.
  const auto& row = model.rows[3];
  const fs::path trace_file = t.temp() / "p.h5";
  const Child run = run_cli(run_words(t, trace_file, {"--task", "passkey", "--length", std::to_string(row.prompt_tokens), "--seed",
                                                      std::to_string(row.seed), "--haystack", row.haystack, "--unused-rows", "--json"}));
  EXPECT_CODE(run, 0, "run");
  CHECK_EQ(document(run)["runs"][0]["output_text"].get<std::string>(), row.output);
  CHECK_EQ(document(run)["runs"][0]["exact"].get<bool>(), row.exact);
  const Child analyze = run_cli({"analyze", trace_file.string(), "--json"});
  EXPECT_CODE(analyze, 0, "analyze");
  const json heads = document(analyze)["runs"][0]["heads"];
  CHECK_EQ(heads.size(), model.heads().size());
  for (size_t h = 0; h < heads.size(); ++h) {
    const auto value = [&](SweepValue v) { return row.heads[h * size_t(trace::kSweepValues) + size_t(v)]; };
    CHECK_CLOSE(value(SweepValue::esl_gini), heads[h]["statistics"]["gini"].get<double>(), 1e-12);
    CHECK_CLOSE(value(SweepValue::slots_used), heads[h]["statistics"]["used"].get<double>(), 0);
    CHECK_CLOSE(value(SweepValue::head_score), heads[h]["allocation"]["score"].get<double>(), 1e-12);
    double most = 0, sum = 0;
    for (const auto& n : heads[h]["slot"]["normalised_esl"]) most = std::max(most, n.get<double>()), sum += n.get<double>();
    CHECK_CLOSE(value(SweepValue::esl_longest), most, 1e-12);
    CHECK_CLOSE(value(SweepValue::esl_mean), sum / double(heads[h]["slot"]["normalised_esl"].size()), 1e-12);
  }
  // The table of the file, as text and as CSV.
  const Child text = run_cli({"analyze", out.string()});
  EXPECT_CODE(text, 0, "table");
  EXPECT_SAYS(text.out, "Exact match, %", "Clopper-Pearson", "raven-passkey", "twin", "complete");
  const Child csv = run_cli({"analyze", out.string(), "--csv"});
  EXPECT_CODE(csv, 0, "csv");
  EXPECT_SAYS(csv.out, "\nraven-passkey,raven,160,all,2,");
}

SLOTSCOPE_CASE(sweep_goes_on_after_a_kill_and_after_ctrl_c) {
  const fs::path out = t.temp() / "s.h5", whole = t.temp() / "whole.h5";
  const Words more = {"--lengths", "160", "--seeds", "8", "--save-every", "0", "--json"};
  const auto stop_with = [&](int signal, size_t least) {
    ChildOptions o;
    o.running = [&out, signal, least](int pid, const std::atomic<bool>& ended) {
      while (!ended) {
        size_t rows = 0;
        try {
          for (const auto& model : trace::read_sweep(out).models) rows += model.rows.size();
        } catch (const Error&) {  // not there yet
        }
        if (rows >= least) break;
        std::this_thread::sleep_for(2ms);
      }
      if (!ended) ::kill(pid, signal);
    };
    return run_cli(sweep_words({bundled(t)}, out, more), o);
  };
  const Child killed = stop_with(SIGKILL, 2);
  CHECK_EQ(killed.signal, SIGKILL);
  const auto after_kill = trace::read_sweep(out);
  CHECK_EQ(after_kill.status, trace::Status::partial);
  const size_t first = after_kill.models.at(0).rows.size();
  CHECK(first >= 2 && first < 8);
  const Child cancelled = stop_with(SIGINT, first + 2);
  EXPECT_CODE(cancelled, 130, "cancelled");
  EXPECT_SAYS(cancelled.err, "the same command goes on");
  CHECK_EQ(document(cancelled)["status"].get<std::string>(), std::string("cancelled"));
  const auto after_cancel = trace::read_sweep(out);
  const size_t second = after_cancel.models.at(0).rows.size();
  CHECK(second >= first + 2 && second < 8);
  // Finished prompts are not run again: their rows, times included, are those of the first call.
  for (size_t i = 0; i < first; ++i) {
    CHECK_CLOSE(after_cancel.models[0].rows[i].seconds, after_kill.models[0].rows[i].seconds, 0);
    CHECK_EQ(after_cancel.models[0].rows[i].digest, after_kill.models[0].rows[i].digest);
  }
  const Child rest = run_cli(sweep_words({bundled(t)}, out, more));
  EXPECT_CODE(rest, 0, "rest");
  EXPECT_SAYS(rest.err, (std::to_string(second) + " of 8 prompts were done before, " + std::to_string(8 - second) + " run now").c_str());
  // Together they are what one call gives.
  EXPECT_CODE(run_cli(sweep_words({bundled(t)}, whole, more)), 0, "whole");
  const auto a = trace::read_sweep(out), b = trace::read_sweep(whole);
  CHECK(digests(a.models.at(0)) == digests(b.models.at(0)));
  CHECK_EQ(a.status, trace::Status::complete);
  CHECK_EQ(analysis::sweep_csv(a, analysis::sweep_table(a)), analysis::sweep_csv(b, analysis::sweep_table(b)));
  for (size_t i = 0; i < 8; ++i) CHECK_EQ(a.models[0].rows.at(i).output, b.models[0].rows.at(i).output);
}

SLOTSCOPE_CASE(sweep_refuses_what_differs_from_its_file) {
  const fs::path out = t.temp() / "s.h5", model = copy_of_bundled(t, "model");
  const Words base = {"--lengths", "160", "--seeds", "1", "--json"};
  EXPECT_CODE(run_cli(sweep_words({model.string()}, out, base)), 0, "first");
  const std::string before = file_bytes(out);
  const auto refused = [&](Words more, const char* item) {
    const Child c = run_cli(sweep_words({model.string()}, out, more));
    EXPECT_CODE(c, 2, item);
    CHECK_EQ(document(c)["error"]["item"].get<std::string>(), std::string(item));
    CHECK(file_bytes(out) == before);
  };
  refused({"--lengths", "160,192", "--seeds", "1", "--json"}, "--lengths");
  refused({"--lengths", "160", "--seeds", "2", "--json"}, "--seeds");
  refused({"--lengths", "160", "--seeds", "1", "--seed", "1", "--json"}, "--seed");
  refused({"--lengths", "160", "--seeds", "1", "--depths", "0.5", "--json"}, "--depths");
  refused({"--lengths", "160", "--seeds", "1", "--dtype", "float64", "--json"}, "--dtype");
  refused({"--lengths", "160", "--seeds", "1", "--haystack", "mixed", "--json"}, "--haystack");
  refused({"--lengths", "160", "--seeds", "1", "--layers", "0", "--json"}, "--layers");

  // Another checkpoint under the same name: one weight has changed.
  std::string weights = file_bytes(model / "model.safetensors");
  uint64_t header = 0;
  std::memcpy(&header, weights.data(), 8);
  weights[8 + header + 1] ^= 1;
  write_file(model / "model.safetensors", weights);
  const Child other = run_cli(sweep_words({model.string()}, out, base));
  EXPECT_CODE(other, 1, "other weights");
  EXPECT_SAYS(other.err, "model model", "content of its weights");
  // Another folder joins.
  const Child joined = run_cli(sweep_words({copy_of_bundled(t, "second").string()}, out, base));
  EXPECT_CODE(joined, 0, "joined");
  CHECK_EQ(trace::read_sweep(out).models.size(), size_t(2));
  EXPECT_CODE(run_cli(sweep_words({model.string()}, out, {"--lengths", "160", "--seeds", "1", "--force", "--json"})), 0, "force");
  CHECK_EQ(trace::read_sweep(out).models.size(), size_t(1));
}

SLOTSCOPE_CASE(sweep_bad_input_is_named_before_a_weight_is_read) {
  const fs::path folder = t.temp(), out = folder / "s.h5";
  const auto fails = [&](const Child& c, int code, std::initializer_list<const char*> words) {
    EXPECT_CODE(c, code, "bad input");
    expect_says(t, c.err, words, __LINE__);
    CHECK(!fs::exists(out));
    CHECK(!fs::exists(out.string() + ".part"));
    CHECK(!fs::exists(out.string() + ".lock"));
  };
  const std::string model = bundled(t);
  fails(run_cli(sweep_words({model}, out, {"--lengths", "160,abc"})), 2, {"--lengths", "abc"});
  fails(run_cli(sweep_words({model}, out, {"--lengths", "160,160"})), 2, {"--lengths", "twice"});
  fails(run_cli(sweep_words({model}, out, {"--lengths", "99999999999"})), 2, {"--lengths"});
  fails(run_cli(sweep_words({model}, out, {"--lengths", "160", "--depths", "0,1.5"})), 2, {"--depths", "1.5"});
  fails(run_cli(sweep_words({model}, out, {"--lengths", "160", "--depths", "nan"})), 2, {"--depths"});
  fails(run_cli(sweep_words({model}, out, {"--lengths", "160", "--task", "niah"})), 2, {"--task", "niah"});
  fails(run_cli(sweep_words({model}, out, {"--lengths", "160", "--seeds", "0"})), 2, {"--seeds"});
  fails(run_cli(sweep_words({model}, out, {"--lengths", "160", "--haystack", (folder / "none.txt").string()})), 1, {"none.txt"});
  fails(run_cli(sweep_words({model, model + "/"}, out, {"--lengths", "160"})), 2, {"given twice"});
  fails(run_cli(sweep_words({model, (folder / "none").string()}, out, {"--lengths", "160"})), 1, {"none"});
  fails(run_cli(sweep_words({model}, out, {"--lengths", "160", "--layers", "9"})), 2, {"--layers", "9"});
  fails(run_cli(sweep_words({}, out, {"--lengths", "160"})), 2, {"FOLDER"});
  fails(run_cli(sweep_words({model}, folder / "no" / "s.h5", {"--lengths", "160"})), 1, {"does not exist"});
  const fs::path text = folder / "text.h5";
  write_file(text, "not HDF5");
  const Child c = run_cli(sweep_words({model}, text, {"--lengths", "160"}));
  EXPECT_CODE(c, 1, "a text file");
  EXPECT_SAYS(c.err, "not an HDF5 file");
  CHECK_EQ(file_bytes(text), std::string("not HDF5"));
}

// The reference checkpoints beside the specification, in SLOTSCOPE_CHECKPOINTS: 100 prompts each, against training.json, which has 32
// prompts per length (about two minutes).
SLOTSCOPE_CASE(sweep_reference_checkpoints_answer_as_when_they_were_trained) {
  const char* place = std::getenv("SLOTSCOPE_CHECKPOINTS");
  if (!place) t.skip("SLOTSCOPE_CHECKPOINTS does not name the folder of raven-passkey, gsa-passkey, swa-passkey and llama-passkey");
  const fs::path out = t.temp() / "s.h5";
  const std::vector<std::string> names = {"raven-passkey", "gsa-passkey", "swa-passkey", "llama-passkey"};
  std::vector<std::string> folders;
  for (const auto& name : names) folders.push_back((fs::path(place) / name).string());
  ChildOptions o;
  o.seconds = 1800;
  const Child c = run_cli(sweep_words(folders, out, {"--task", "passkey", "--lengths", "256,512,1024,2048", "--seeds", "25", "--length-counts",
                                                     "total", "--depths", "uniform", "--haystack", "mixed", "-q"}), o);
  EXPECT_CODE(c, 0, "sweep");
  const auto sweep = trace::read_sweep(out);
  const auto table = analysis::sweep_table(sweep);
  CHECK(table.notes.empty());  // all prompts, the same for every model
  CHECK_EQ(table.models.size(), size_t(4));
  for (size_t m = 0; m < table.models.size(); ++m) {
    const json training = json::parse(file_bytes(fs::path(folders[m]) / "training.json"));
    for (const auto& cell : table.models[m].lengths) {
      const double then = training["accuracy"][std::to_string(cell.length)];
      const auto interval = analysis::clopper_pearson(std::lround(then * 32), 32, 0.99);
      CHECK_EQ(cell.prompts, int64_t(25));
      t.note(names[m] + " at " + std::to_string(cell.length) + ": " + std::to_string(cell.accuracy) + ", training.json " + std::to_string(then) +
             " [" + std::to_string(interval.low) + ", " + std::to_string(interval.high) + "]");
      CHECK(cell.accuracy >= interval.low && cell.accuracy <= interval.high);
    }
  }
}

SLOTSCOPE_CASE(sweep_too_short_lengths_keep_what_was_done) {
  const fs::path out = t.temp() / "s.h5";
  const Child c = run_cli(sweep_words({bundled(t)}, out, {"--lengths", "20,160", "--seeds", "1"}));
  EXPECT_CODE(c, 2, "too short");
  EXPECT_SAYS(c.err, "--length", "at least");
}

}  // namespace slotscope::testing
