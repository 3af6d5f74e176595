#include "app/cli/sweep.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>

#include "app/cli/commands.h"
#include "core/analysis/sweep.h"
#include "core/fields.h"
#include "core/formats/json.h"
#include "core/formats/sha256.h"
#include "core/sweep/sweep.h"

namespace slotscope::cli {
namespace {

constexpr int64_t kMostTokens = int64_t(1) << 24, kMostCells = 10'000;
constexpr uint64_t kMostHaystackBytes = uint64_t(1) << 30;

[[noreturn]] void usage(const char* item, const std::string& found, const std::string& expected) {
  throw Error({.item = item, .found = found, .expected = expected}, Error::Kind::usage);
}

// Numbers separated by commas, made ascending; a repeated one is refused.
template <class T>
std::vector<T> number_list(const char* option, const std::string& text, T low, T high, const std::string& expected) {
  std::vector<T> list;
  for (size_t at = 0;;) {
    const size_t comma = std::min(text.find(',', at), text.size());
    T value{};
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + comma, value);
    if (error != std::errc() || end != text.data() + comma || !(value >= low && value <= high))
      usage(option, "'" + text.substr(at, comma - at) + "' in '" + text + "'", expected);
    list.push_back(value + T(0));  // -0 is 0
    if (comma == text.size()) break;
    at = comma + 1;
  }
  std::sort(list.begin(), list.end());
  if (std::adjacent_find(list.begin(), list.end()) != list.end()) usage(option, "a number given twice in '" + text + "'", expected);
  if (list.size() > size_t(kMostCells)) usage(option, std::to_string(list.size()) + " numbers", "at most " + std::to_string(kMostCells));
  return list;
}

trace::SweepSettings settings_of(const SweepCommandSettings& s) {
  trace::SweepSettings out;
  out.task = s.task;
  out.lengths = number_list<int64_t>("--lengths", s.lengths, 1, kMostTokens, "numbers of tokens such as 256,512,1024");
  out.length_counts = s.length_counts;
  if (s.depths != "uniform") out.depths = number_list<double>("--depths", s.depths, 0, 1, "uniform, or places from 0 to 1 such as 0,0.25,0.5");
  out.prompts = s.seeds;
  out.seed = s.seed;
  out.haystack = s.haystack;
  if (s.haystack != "noise" && s.haystack != "shakespeare" && s.haystack != "mixed")
    out.haystack_digest = formats::sha256_hex(formats::read_text_file(s.haystack, kMostHaystackBytes));
  out.bos = !s.no_bos;
  if (!s.layers.empty()) {
    parse_index_list(s.layers, "--layers", -1);
    out.layers = s.layers;
  }
  out.threshold = s.threshold;
  out.tau = s.tau;
  return out;
}

std::string percent(double share) { return std::isnan(share) ? "-" : number_text(std::round(share * 1000) / 10, 4); }

std::string head_text(const analysis::SweepCell& c) {
  return c.best_layer < 0 ? "-" : "L" + std::to_string(c.best_layer) + "H" + std::to_string(c.best_head);
}

Json cell_json(const analysis::SweepCell& c) {
  Json cell = {{"length", c.length}, {"depth", c.depth < 0 ? Json(nullptr) : Json(c.depth)}, {"prompts", c.prompts}, {"exact", c.exact},
               {"accuracy", c.accuracy}, {"low", c.interval.low}, {"high", c.interval.high}, {"answer_right", c.answer_right},
               {"esl_mean", c.esl_mean}, {"esl_longest", c.esl_longest}, {"esl_shortest", c.esl_shortest}, {"esl_gini", c.esl_gini},
               {"slots_used", c.slots_used}};
  cell["best_head"] = c.best_layer < 0 ? Json(nullptr)
                                       : Json{{"layer", c.best_layer}, {"head", c.best_head}, {"score", c.head_score}};
  cell["retrieval_heads"] = c.retrieval_heads;
  return cell;
}

Json settings_json(const trace::SweepSettings& s) {
  return {{"task", s.task}, {"lengths", s.lengths}, {"length_counts", s.length_counts},
          {"depths", s.depths.empty() ? Json("uniform") : Json(s.depths)}, {"prompts", s.prompts}, {"seed", s.seed},
          {"haystack", s.haystack}, {"bos", s.bos}, {"device", s.device}, {"dtype", s.dtype}, {"router_dtype", s.router_dtype},
          {"layers", s.layers.empty() ? Json(nullptr) : Json(s.layers)}, {"threshold", s.threshold}, {"tau", s.tau}};
}

Json sweep_json(const trace::Sweep& sweep, const analysis::SweepTable& table, const std::string& file) {
  Json models = Json::array();
  for (size_t i = 0; i < table.models.size(); ++i) {
    const auto& m = table.models[i];
    Json lengths = Json::array(), grid = Json::array();
    for (const auto& cell : m.lengths) lengths.push_back(cell_json(cell));
    for (const auto& cell : m.grid) grid.push_back(cell_json(cell));
    models.push_back({{"name", m.name}, {"family", m.family}, {"checkpoint", sweep.models[i].checkpoint}, {"by_rule", m.by_rule},
                      {"prompts", sweep.models[i].rows.size()}, {"lengths", lengths}, {"grid", grid}, {"why", m.why}});
  }
  return {{"sweep", file}, {"status", status_name(sweep.status)}, {"created", sweep.created}, {"settings", settings_json(sweep.settings)},
          {"interval", {{"method", "Clopper-Pearson"}, {"confidence", table.confidence}}}, {"models", models}, {"notes", table.notes}};
}

// One row per model, one column per length, a block per quantity: the paper's Table 2.
std::string blocks_text(const trace::Sweep& sweep, const analysis::SweepTable& table) {
  const auto block = [&](const std::string& title, auto cell_text) {
    std::vector<std::string> columns = {"model", "family"};
    for (const int64_t length : sweep.settings.lengths) columns.push_back(">" + count_text(length));
    Table t(columns);
    for (const auto& m : table.models) {
      std::vector<std::string> cells = {m.name, m.family};
      for (const auto& c : m.lengths) cells.push_back(c.prompts == 0 ? "-" : cell_text(m, c));
      t.row(cells);
    }
    return title + "\n" + t.text("  ") + "\n";
  };
  using Cell = analysis::SweepCell;
  using Model = analysis::SweepModelTable;
  std::string text = block("Exact match, % [" + number_text(100 * table.confidence) + " % Clopper-Pearson interval] of prompts",
                           [](const Model&, const Cell& c) {
                             return percent(c.accuracy) + " [" + percent(c.interval.low) + ", " + percent(c.interval.high) + "] of " +
                                    std::to_string(c.prompts);
                           });
  text += block("ESL / tokens: mean of all slots (shortest to longest slot in use)", [](const Model&, const Cell& c) {
    return number_text(c.esl_mean, 3) + " (" + number_text(c.esl_shortest, 3) + " to " + number_text(c.esl_longest, 3) + ")";
  });
  text += block("Gini of ESL over slots", [](const Model&, const Cell& c) { return number_text(c.esl_gini, 3); });
  text += block("Best head by retrieval score (heads at 0.1 or more)", [](const Model& m, const Cell& c) {
    if (m.by_rule && c.best_layer >= 0) return number_text(c.head_score, 3) + " by rule";
    return head_text(c) + " " + number_text(c.head_score, 3) + " (" + std::to_string(c.retrieval_heads) + ")";
  });
  return text;
}

std::string grid_text(const trace::Sweep& sweep, const analysis::SweepTable& table) {
  std::string text;
  const auto& s = sweep.settings;
  for (const auto& m : table.models) {
    if (m.grid.empty()) continue;
    std::vector<std::string> columns = {">depth"};
    for (const int64_t length : s.lengths) columns.push_back(">" + count_text(length));
    Table t(columns);
    for (size_t d = 0; d < s.depths.size(); ++d) {
      std::vector<std::string> cells = {number_text(s.depths[d])};
      for (size_t l = 0; l < s.lengths.size(); ++l) cells.push_back(percent(m.grid[l * s.depths.size() + d].accuracy));
      t.row(cells);
    }
    text += "Exact match by depth, %: " + printable(m.name) + "\n" + t.text("  ") + "\n";
  }
  return text;
}

}  // namespace

void add_sweep_options(CLI::App& app, SweepCommandSettings& s) {
  app.add_option("FOLDER", s.folders, "Checkpoint folders: the models to compare");
  const char* prompts = "Prompts";
  app.add_option("--task", s.task, "passkey (default): a password hidden in a haystack, asked for at the end")->group(prompts)->option_text("passkey");
  app.add_option("--lengths", s.lengths, "Lengths in tokens")->required()->group(prompts)->option_text("256,512,...");
  app.add_option("--length-counts", s.length_counts, "What a length counts: the prompt with <bos> (default), or in total, with the answer and <eos>")
      ->group(prompts)->option_text("prompt|total");
  app.add_option("--depths", s.depths, "Places of the needle, 0 start to 1 end; uniform (default): drawn for each prompt")
      ->group(prompts)->option_text("uniform|0,0.5,...");
  app.add_option("--seeds,--prompts", s.seeds, "Prompts per length and depth (default 25)")
      ->check(whole_number(1, 1'000'000))->group(prompts)->option_text("N");
  app.add_option("--seed", s.seed, "Of the sweep: another one draws other prompts (default 0)")
      ->check(whole_number(0, UINT64_MAX))->group(prompts)->option_text("S");
  app.add_option("--haystack", s.haystack, "noise (default): the grass is green ...; shakespeare: passages of a built-in excerpt; mixed: "
                 "noise and shakespeare in turns; or a UTF-8 text file to take passages of")
      ->group(prompts)->option_text("noise|shakespeare|mixed|FILE");
  app.add_flag("--no-bos", s.no_bos, "Leave out what the tokenizer's post-processor adds (<bos>)")->group(prompts);
  const char* output = "Output";
  app.add_option("--out", s.out, "The sweep's file; one that is there is continued")->required()->group(output)->option_text("SWEEP.h5");
  app.add_flag("--force", s.force, "Start again: replace what --out holds")->group(output);
  app.add_option("--save-every", s.save_every, "Renew the file after this many seconds (default 10; 0: after every prompt)")
      ->check(real_number(0, 1e6))->group(output)->option_text("S");
  app.add_flag("--csv", s.csv, "The table as CSV on standard output")->group(output);
  app.add_option("--confidence", s.confidence, "Of the Clopper-Pearson intervals in the table (default 0.95)")
      ->check(real_number(0.5, 0.9999))->group(output)->option_text("X");
  add_model_options(app, s.model);
  app.add_flag("--ignore-index", s.ignore_index, "Read all *.safetensors, not what the index file lists")->group("Model");
  app.add_option("--segment", s.segment, "Tokens per segment; the numbers do not change")
      ->check(whole_number(1, uint64_t(kMostTokens)))->group("Model")->option_text("N");
  app.add_option("--max-gpu-mem", s.max_gpu_mem, "Use at most this much GPU memory, GiB")
      ->check(real_number(0, 1e6))->group("Model")->option_text("G");
  const char* heads = "ESL and head scores";
  app.add_option("--layers", s.layers, "Layers to measure (default: all), from 0")->check(not_empty())->group(heads)->option_text("0,2-3");
  app.add_option("--threshold", s.threshold, "Least write strength that counts as routed (default 0)")
      ->check(real_number(0, 1))->group(heads)->option_text("S");
  app.add_option("--tau", s.tau, "A slot is retrieval only when the share of retrieval tokens is at least 1 - tau (default 0: strict)")
      ->check(real_number(0, 1))->group(heads)->option_text("X");
}

void print_sweep(const trace::Sweep& sweep, const std::string& file, double confidence, bool csv, const Console& console) {
  const auto table = analysis::sweep_table(sweep, confidence, {.threshold = sweep.settings.threshold, .tau = sweep.settings.tau});
  if (console.json) {
    console.out_json(sweep_json(sweep, table, file));
    return;
  }
  if (csv) {
    console.out(analysis::sweep_csv(sweep, table));
    return;
  }
  const auto& s = sweep.settings;
  std::string text = printable(file) + ": " + s.task + ", " + std::to_string(s.prompts) + " prompts per length" +
                     (s.depths.empty() ? "" : " and depth") + ", lengths count " +
                     (s.length_counts == "total" ? "prompt, answer and <eos>" : "the prompt") + ", haystack " + printable(s.haystack) +
                     ", " + s.dtype + " on " + s.device + ", " + status_name(sweep.status) + "\n\n" + blocks_text(sweep, table) +
                     grid_text(sweep, table);
  for (const auto& m : table.models) {
    if (m.by_rule) text += printable(m.name) + ": its layers write by rule, so ESL and scores follow from the family and say nothing about its reads\n";
    for (const auto& why : m.why) text += printable(m.name) + ": " + printable(why) + "\n";
  }
  for (const auto& note : table.notes) text += printable(note) + "\n";
  console.out(text);
}

int run_sweep(const SweepCommandSettings& s, const Console& console) {
  if (s.folders.empty()) usage("FOLDER", "none given", "one or more checkpoint folders");
  if (s.task != "passkey") usage("--task", "'" + s.task + "'", "passkey");
  if (s.csv && console.json) usage("--csv", "given with --json", "one of the two");
  check_model_settings(s.model);
  sweep::Request request{.folders = s.folders, .settings = settings_of(s), .out = s.out, .load = load_options(s.model),
                         .weights = s.model.weights, .ignore_index = s.ignore_index, .segment = s.segment,
                         .max_gpu_mem = s.max_gpu_mem, .force = s.force, .save_seconds = s.save_every};
  Progress& progress = cancel_on_signal();
  sweep::Outcome outcome;
  {
    const ProgressLine line(progress, console);
    outcome = sweep::run(request, progress);
  }
  for (const auto& text : outcome.warnings) console.warning(text);
  for (const auto& text : outcome.notes) console.note(text);
  if (!console.quiet)
    console.info(std::to_string(outcome.kept) + " of " + std::to_string(outcome.total) + " prompts were done before, " +
                 std::to_string(outcome.run) + " run now in " + seconds_text(outcome.seconds));
  print_sweep(outcome.sweep, s.out, s.confidence, s.csv, console);
  if (!outcome.cancelled) return kExitOk;
  console.info("cancelled: " + std::to_string(outcome.kept + outcome.run) + " of " + std::to_string(outcome.total) +
               " prompts kept; the same command goes on");
  return kExitCancelled;
}

}  // namespace slotscope::cli
