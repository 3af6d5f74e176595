#include "app/window/run_task.h"

#include <algorithm>
#include <utility>

#include "app/cli/run_options.h"
#include "app/window/engine_loader.h"
#include "core/error.h"
#include "core/fields.h"
#include "core/formats/prompt_import.h"
#include "core/trace/writer.h"
#include "views/format.h"

namespace slotscope::app {

namespace {

// "1, 2 3" and "[1, 2, 3]" both mean the ids 1, 2 and 3.
std::string normalisedIds(const QString& text) {
  std::string ids;
  for (const QChar c : text) {
    const char ch = c.toLatin1();
    if (ch == '[' || ch == ']') continue;
    if (c.isSpace() || ch == ',' || ch == ';') {
      if (!ids.empty() && ids.back() != ',') ids += ',';
    } else {
      ids += c.unicode() < 128 ? std::string(1, ch) : QString(c).toStdString();
    }
  }
  while (!ids.empty() && ids.back() == ',') ids.pop_back();
  return ids;
}

cli::RunSettings commandLineSettings(const RunSettings& s, const OpenCheckpoint& checkpoint) {
  cli::RunSettings c;
  switch (s.mode) {
    case RunSettings::Mode::text:
      c.text = s.text.toStdString();
      break;
    case RunSettings::Mode::ids:
      c.ids = normalisedIds(s.ids);
      break;
    case RunSettings::Mode::task:
      c.task = "passkey";
      break;
    case RunSettings::Mode::file:
      c.prompts = s.prompts.toStdString();
      c.rows = s.rows.trimmed().toStdString();
      break;
  }
  c.length = s.length;
  if (s.depth >= 0) c.depth = s.depth;
  c.seed = s.seed;
  c.haystack = s.haystack.toStdString();
  c.generate = s.generate;
  c.device = s.device.toStdString();
  c.dtype = s.dtype.toStdString();
  c.flavour = checkpoint.flavour;
  c.capture = s.capture.toStdString();
  return c;
}

bool sameOptions(const engine::LoadOptions& a, const engine::LoadOptions& b) {
  return a.device == b.device && a.dtype == b.dtype && a.router_dtype == b.router_dtype &&
         a.flavour == b.flavour && a.tf32 == b.tf32;
}

void runInto(const RunTask& task, RunResult& result) {
  const OpenCheckpoint& checkpoint = *task.checkpoint;
  Progress& progress = *task.progress;
  progress.begin_stage("preparing the prompt", 0);
  const cli::RunSettings settings = commandLineSettings(task.settings, checkpoint);
  cli::check_settings(settings);
  const bool from_ids = task.settings.mode == RunSettings::Mode::ids ||
                        (task.settings.mode == RunSettings::Mode::file &&
                         formats::PromptFile::open(*settings.prompts)->format() == formats::PromptFormat::ids);
  if (!checkpoint.tokenizer && !from_ids)
    throw Error({.file = checkpoint.path.toStdString(),
                 .item = "tokenizer",
                 .found = checkpoint.tokenizer_why.toStdString(),
                 .advice = "Give token ids instead."});
  const auto prompts = cli::make_prompts(settings, checkpoint.tokenizer.get(), checkpoint.info->vocab_rows);
  result.warnings = cli::import_warnings(prompts);
  const auto options = cli::run_options(settings, *checkpoint.info, prompts, result.notes);
  const auto load = cli::load_options(settings);
  EngineState& state = *task.state;
  if (!state.model || state.checkpoint != checkpoint.checkpoint || !sameOptions(state.options, load)) {
    state.model.reset();  // never two models at once
    state.checkpoint = checkpoint.checkpoint;
    state.options = load;
    state.model = engineApi().load(checkpoint.checkpoint, load, progress);
  }
  if (progress.cancel_requested()) return;
  trace::Hdf5Sink sink(task.file, {.force = true});
  try {
    result.outcome = state.model->run(prompts, checkpoint.tokenizer.get(), options, sink, progress);
  } catch (...) {
    // What was written before stays readable.
    sink.finish(trace::Status::failed);
    for (const auto& w : sink.warnings()) result.notes.push_back(w);
    try {
      result.trace = std::make_shared<OpenTrace>();
      result.trace->path = QString::fromStdString(sink.file().string());
      result.trace->trace = trace::Trace::open(sink.file());
    } catch (const std::exception&) {
      result.trace = nullptr;
    }
    throw;
  }
  for (const auto* list : {&std::as_const(result.outcome->warnings), &sink.warnings()})
    for (const auto& w : *list) result.notes.push_back(w);
}

}  // namespace

RunResult RunTask::operator()() const {
  RunResult result;
  const QString doing = settings.jobName() + " of " + checkpoint->path;
  try {
    runInto(*this, result);
    if (result.outcome) {
      auto trace = std::make_shared<OpenTrace>();
      trace->path = QString::fromStdString(file);
      trace->trace = trace::Trace::open(file);
      trace->tokenizer = checkpoint->tokenizer;
      result.trace = std::move(trace);
    }
  } catch (const std::exception& e) {
    if (!progress->cancel_requested()) result.failure = problemFrom(e, doing);
    // A model that failed in the middle (out of memory) is not trusted any more.
    if (dynamic_cast<const Error*>(&e) == nullptr) state->model.reset();
  }
  return result;
}

CostEstimate estimateRough(const RunSettings& settings, const engine::ModelInfo& info, qint64 tokens,
                           double seconds_per_token) {
  double per_token = 0, fixed = 0;
  std::vector<std::string> fields;
  try {
    fields = expand_fields(settings.capture.toStdString());
  } catch (const std::exception& e) {
    return {QString::fromUtf8(e.what()), false};
  }
  const double element = settings.dtype == "float64" ? 8 : 4;
  const auto has = [&](const char* name) {
    return std::find(fields.begin(), fields.end(), name) != fields.end();
  };
  for (const auto& layer : info.layers) {
    const double k = double(layer.top_k), h = double(layer.route_heads);
    if (layer.route_kind == "sparse") {
      const bool addresses = layer.mixer == "ramnet";
      if (has("route_index")) per_token += h * k * (addresses ? 4 : 2);
      if (has("route_weight")) per_token += h * k * element;
      if (has("write_strength")) per_token += h * k * element;
      if (has("log_decay")) per_token += h * (addresses ? k : 1) * element;
      if (addresses && has("read_index")) per_token += h * k * 4;
      if (addresses && has("read_route_weight")) per_token += h * k * element;
      if (addresses && has("slot_value")) fixed += double(layer.heads * layer.slots * layer.d_v) * element;
      if (has("margin")) per_token += h * element;
      if (has("read_weight")) fixed += 11 * double(layer.heads * layer.slots) * element;
      if (has("state_k")) fixed += double(layer.route_heads * layer.slots * layer.d_k) * element;
      if (has("state_v")) fixed += double(layer.route_heads * layer.slots * layer.d_v) * element;
    }
    for (const char* wide : {"hidden", "mixer_in", "mixer_out"})
      if (has(wide)) per_token += double(info.hidden_size) * element;
  }
  if (has("logits")) per_token += double(info.vocab_rows) * element;
  CostEstimate cost;
  cost.text = "about " + views::bytes(qint64(per_token * double(tokens) + fixed));
  if (seconds_per_token * double(tokens) >= 0.05)
    cost.text += ", " + views::seconds(seconds_per_token * double(tokens));
  return cost;
}

std::optional<CostEstimate> estimateLoaded(const RunSettings& settings, const OpenCheckpoint& checkpoint,
                                           const EngineState& state) {
  try {
    const cli::RunSettings c = commandLineSettings(settings, checkpoint);
    if (!state.model || state.checkpoint != checkpoint.checkpoint ||
        !sameOptions(state.options, cli::load_options(c)))
      return std::nullopt;
    // Sizes depend on how many tokens there are, not on which.
    std::vector<formats::Prompt> prompts;
    if (settings.mode == RunSettings::Mode::task) {
      formats::Prompt p;
      p.ids.assign(size_t(std::max<qint64>(1, settings.length)), 0);
      p.has_answer = true;
      p.answer_ids.assign(8, 0);
      prompts.push_back(std::move(p));
    } else {
      // Rows of a file are read and tokenized when they are run, not while they are chosen.
      if (settings.mode == RunSettings::Mode::file) return std::nullopt;
      if (settings.mode == RunSettings::Mode::text && (settings.text.isEmpty() || !checkpoint.tokenizer))
        return std::nullopt;
      prompts = cli::make_prompts(c, checkpoint.tokenizer.get(), checkpoint.info->vocab_rows);
    }
    std::vector<std::string> notes;
    const auto options = cli::run_options(c, *checkpoint.info, prompts, notes);
    const engine::Estimate e = state.model->estimate(prompts, options);
    if (!e.fits)
      return CostEstimate{QString("needs %1, %2 free: %3")
                              .arg(views::bytes(e.memory_bytes), views::bytes(e.available_bytes),
                                   QString::fromStdString(e.advice)),
                          false};
    CostEstimate cost{"about " + views::bytes(e.file_bytes), true};
    if (e.seconds >= 0.05) cost.text += ", " + views::seconds(e.seconds);
    return cost;
  } catch (const std::exception& e) {
    return CostEstimate{QString::fromUtf8(e.what()), false};
  }
}

}  // namespace slotscope::app
