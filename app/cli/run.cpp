// slotscope-cli run: prompts in, trace out.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "app/cli/commands.h"
#include "core/formats/vocabulary_rows.h"
#include "core/formats/prompt_import.h"
#include "core/score.h"
#include "core/trace/writer.h"

namespace slotscope::cli {
namespace {

namespace fs = std::filesystem;

// A tokenizer that cannot be honoured stops a run from text; a run from ids goes on without token text and says so.
std::shared_ptr<const formats::Tokenizer> load_tokenizer(const formats::Checkpoint& checkpoint, const RunSettings& s,
                                                         std::vector<std::string>& warnings) {
  try {
    return formats::Tokenizer::load(checkpoint.folder());
  } catch (const Error& e) {
    const bool ids = s.ids || s.ids_file ||
                     (s.prompts && formats::PromptFile::open(*s.prompts, *formats::prompt_format_from(s.format))->format() == formats::PromptFormat::ids);
    if (!ids) throw;
    warnings.push_back(std::string("running from token ids without their text: ") + e.what());
    return nullptr;
  }
}

std::string token_range_text(const std::vector<formats::Prompt>& prompts) {
  size_t least = SIZE_MAX, most = 0;
  for (const auto& p : prompts) least = std::min(least, p.ids.size()), most = std::max(most, p.ids.size());
  std::string text = prompts.size() == 1 ? "1 prompt of " : count_text(int64_t(prompts.size())) + " prompts of ";
  text += count_text(int64_t(least));
  if (most != least) text += " to " + count_text(int64_t(most));
  return text + (most == 1 ? " token" : " tokens");
}

std::string estimate_text(const engine::Estimate& e) {
  std::string text = "file about " + bytes_text(e.file_bytes) + " before compression, memory about " + bytes_text(e.memory_bytes);
  if (e.available_bytes > 0) text += " of " + bytes_text(e.available_bytes) + " free";
  if (e.seconds > 0) text += ", about " + seconds_text(e.seconds);
  return text;
}

Json estimate_json(const engine::Estimate& e) {
  return {{"file_bytes", e.file_bytes}, {"memory_bytes", e.memory_bytes}, {"available_bytes", e.available_bytes},
          {"seconds", e.seconds > 0 ? Json(e.seconds) : Json(nullptr)}, {"fits", e.fits}, {"advice", e.advice}};
}

int64_t free_disk(const fs::path& out) {
  std::error_code error;
  fs::path folder = out.parent_path();
  const auto space = fs::space(folder.empty() ? "." : folder, error);
  return error ? -1 : int64_t(std::min<uintmax_t>(space.available, INT64_MAX));
}

// Says what the run will take; refuses what does not fit unless forced.
void check_estimate(const engine::Estimate& e, const RunCommandSettings& s, const Console& console) {
  if (!console.quiet) console.info("estimate: " + estimate_text(e));
  if (!e.fits) {
    const std::string advice = e.advice + (e.advice.empty() ? "" : ". ") + "--force runs all the same";
    if (!s.force)
      throw Error({.item = "memory", .found = "the run needs " + bytes_text(e.memory_bytes),
                   .expected = "at most " + bytes_text(e.available_bytes), .advice = advice});
    console.warning("does not fit by estimate; running because of --force");
  }
  const int64_t free = free_disk(s.out);
  if (free >= 0 && e.file_bytes > free)
    // Compression usually helps by a factor, so a full disk is likely and not certain: a warning, not a refusal.
    console.warning("the file may need " + bytes_text(e.file_bytes) + " before compression, the disk has " + bytes_text(free) +
                    " free: capture fewer fields or layers");
}

struct Totals {
  int64_t prompt = 0, fed = 0, generated = 0;
  double per_second = 0;
};

Totals totals(const engine::RunOutcome& outcome, const std::vector<formats::Prompt>& prompts) {
  Totals t;
  for (size_t i = 0; i < outcome.runs.size(); ++i) {
    t.prompt += int64_t(prompts[i].ids.size());
    t.fed += outcome.runs[i].tokens;
    t.generated += int64_t(outcome.runs[i].output_ids.size());
  }
  t.per_second = outcome.seconds > 0 ? double(t.fed) / outcome.seconds : 0;
  return t;
}

// The score of a run with references that came to its end.
std::optional<double> score_of(const formats::Prompt& prompt, const engine::RunOutcome::PerRun& run) {
  if (prompt.references.empty() || !run.exact) return std::nullopt;
  std::string metric;
  for (const auto& [key, value] : prompt.parameters)
    if (key == "metric") metric = value;
  return reference_score(prompt.references, run.output_text, metric_from(metric));
}

Json outcome_json(const RunCommandSettings& s, const engine::Model& model, const engine::RunOptions& options,
                  const std::vector<formats::Prompt>& prompts, const engine::Estimate& estimate,
                  const engine::RunOutcome& outcome, int64_t file_bytes, const std::vector<std::string>& notes,
                  const std::vector<std::string>& warnings) {
  Json runs = Json::array();
  for (size_t i = 0; i < outcome.runs.size(); ++i) {
    const auto& r = outcome.runs[i];
    const auto& p = prompts[i];
    Json run = {{"run", run_name(i)}, {"name", p.name}, {"prompt_tokens", p.ids.size()}, {"tokens", r.tokens},
                {"output_ids", r.output_ids}};
    put_text(run, "output_text", r.output_text);
    run["expected"] = p.has_answer ? Json(p.answer) : Json(nullptr);
    run["exact"] = r.exact ? Json(*r.exact) : Json(nullptr);
    const auto score = score_of(p, r);
    run["references"] = p.references;
    run["score"] = score ? Json(*score) : Json(nullptr);
    Json spans = Json::array();
    for (const auto& span : p.spans) spans.push_back({{"name", span.name}, {"begin", span.begin}, {"end", span.end}});
    run["spans"] = spans;
    Json parameters = Json::object();
    for (const auto& [key, value] : p.parameters) parameters[key] = value;
    run["parameters"] = parameters;
    runs.push_back(run);
  }
  const Totals t = totals(outcome, prompts);
  return {{"status", status_name(outcome.status)}, {"trace", s.out}, {"file_bytes", file_bytes},
          {"checkpoint", s.folder}, {"family", model.info().family}, {"flavour", model.info().flavour},
          {"device", model.options().device}, {"dtype", model.options().dtype},
          {"router_dtype", model.options().router_dtype}, {"capture", options.plan.fields},
          {"tokens", t.fed}, {"generated", t.generated}, {"seconds", outcome.seconds}, {"tokens_per_second", t.per_second},
          {"ties", outcome.ties}, {"estimate", estimate_json(estimate)}, {"runs", runs}, {"notes", notes},
          {"warnings", warnings}};
}

// What the model said; token ids when there is no tokenizer to give them a text.
std::string generated_text(const engine::RunOutcome::PerRun& run, bool answer) {
  const std::string word = answer ? "answer" : "generated";
  if (!run.output_text.empty() || run.output_ids.empty()) return word + " \"" + printable(run.output_text) + "\"";
  std::string ids;
  for (int32_t id : run.output_ids) ids += " " + std::to_string(id);
  return word + " token ids" + ids;
}

// "layer 1 is attention: no routes" of several layers as one line: "layers 1-3, 5 are attention: no routes".
std::vector<std::string> by_layer(const std::vector<std::string>& notes) {
  std::vector<std::pair<std::string, std::vector<int>>> groups;  // in the order of their first note
  for (const auto& note : notes) {
    int layer = -1, end = 0;
    if (std::sscanf(note.c_str(), "layer %d is %n", &layer, &end) != 1 || end == 0) {
      groups.push_back({note, {}});
      continue;
    }
    const std::string rest = note.substr(size_t(end));
    const auto same = [&](const auto& group) { return !group.second.empty() && group.first == rest; };
    const auto at = std::find_if(groups.begin(), groups.end(), same);
    if (at == groups.end())
      groups.push_back({rest, {layer}});
    else
      at->second.push_back(layer);
  }
  std::vector<std::string> lines;
  for (const auto& [rest, layers] : groups) {
    std::string list;
    for (size_t i = 0; i < layers.size(); ++i) {
      size_t last = i;
      while (last + 1 < layers.size() && layers[last + 1] == layers[last] + 1) ++last;
      list += (list.empty() ? "" : ", ") + std::to_string(layers[i]) + (last > i ? "-" + std::to_string(layers[last]) : "");
      i = last;
    }
    lines.push_back(layers.empty() ? rest : layers.size() == 1 ? "layer " + list + " is " + rest : "layers " + list + " are " + rest);
  }
  return lines;
}

std::string summary(const RunCommandSettings& s, const std::vector<formats::Prompt>& prompts,
                    const engine::RunOutcome& outcome, int64_t file_bytes) {
  const Totals t = totals(outcome, prompts);
  std::string text;
  int64_t known = 0, right = 0, scored = 0;
  double score_sum = 0;
  for (size_t i = 0; i < outcome.runs.size(); ++i) {
    const auto& r = outcome.runs[i];
    if (r.exact) ++known, right += *r.exact;
    if (r.output_ids.empty() && !r.exact) continue;
    text += outcome.runs.size() > 1 ? "run " + run_name(i) + ": " : "";
    text += generated_text(r, prompts[i].has_answer);
    if (const auto score = score_of(prompts[i], r)) {
      ++scored, score_sum += *score;
      text += ", score " + number_text(*score) + (*r.exact ? ", exact" : "") + ": expected \"" + printable(prompts[i].answer) + "\"";
    } else if (r.exact) {
      text += *r.exact ? ", exact" : ", wrong: expected \"" + printable(prompts[i].answer) + "\"";
    }
    text += "\n";
  }
  if (scored > 1) text += "score: " + number_text(score_sum / double(scored)) + " on average over " + std::to_string(scored) + " runs\n";
  if (known > 1) text += "exact: " + std::to_string(right) + " of " + std::to_string(known) + "\n";
  text += count_text(t.fed) + " tokens in " + seconds_text(outcome.seconds) + " (" + count_text(int64_t(t.per_second + 0.5)) +
          " tokens/s)";
  if (outcome.ties > 0) text += ", " + count_text(outcome.ties) + " tied cuts (lower slot chosen)";
  text += "\n" + printable(s.out) + ": " + bytes_text(file_bytes);
  if (outcome.status == trace::Status::cancelled)
    text += ", cancelled: holds what was done" +
            (prompts.size() > 1 ? ", " + std::to_string(outcome.runs.size() - 1) + " of " + std::to_string(prompts.size()) + " runs to their end" : std::string());
  return text + "\n";
}

}  // namespace

const char* status_name(trace::Status status) {
  switch (status) {
    case trace::Status::complete: return "complete";
    case trace::Status::cancelled: return "cancelled";
    case trace::Status::failed: return "failed";
    default: return "partial";
  }
}

int run_run(const RunCommandSettings& s, const Console& console) {
  if (s.folder.empty())
    throw Error({.item = "FOLDER", .found = "none given", .expected = "a checkpoint folder"}, Error::Kind::usage);
  check_settings(s.run);
  if (s.compress != "deflate" && s.compress != "none")
    throw Error({.item = "--compress", .found = "'" + s.compress + "'", .expected = "deflate or none"}, Error::Kind::usage);
  if (s.out.empty())
    throw Error({.item = "--out", .found = "not given", .expected = "the trace file to write"}, Error::Kind::usage);
  // Claims NAME.part and refuses an existing file before a weight is read: a long load that ends in "file exists" wastes the
  // user's time. Nothing of it stays when the run does not begin.
  trace::Hdf5Sink sink(s.out, {.compress = s.compress == "none" ? trace::WriterOptions::Compress::none
                                                                : trace::WriterOptions::Compress::deflate,
                               .force = s.force});

  Progress& progress = cancel_on_signal();
  std::vector<std::string> notes, warnings;
  const auto checkpoint = formats::Checkpoint::open(s.folder, {.ignore_index = s.ignore_index, .weights = s.run.weights});
  const auto info = engine::inspect(*checkpoint, s.run.flavour);
  const auto tokenizer = load_tokenizer(*checkpoint, s.run, warnings);
  const auto prompts = make_prompts(s.run, tokenizer.get(), info.vocab_rows);
  const auto options = run_options(s.run, info, prompts, notes);
  warnings.insert(warnings.end(), info.warnings.begin(), info.warnings.end());
  if (tokenizer)
    if (auto note = formats::vocabulary_note(*tokenizer, info.vocab_rows); !note.empty()) notes.push_back(std::move(note));
  for (auto& text : import_warnings(prompts)) warnings.push_back(std::move(text));
  for (const auto& text : warnings) console.warning(text);
  for (const auto& text : notes) console.note(text);

  std::unique_ptr<engine::Model> model;
  engine::Estimate estimate;
  engine::RunOutcome outcome;
  {
    const ProgressLine line(progress, console);
    model = engine::Model::load(checkpoint, load_options(s.run), progress);
  }
  if (!console.quiet)
    console.info(token_range_text(prompts) + " on " + model->options().device + " in " + model->options().dtype);
  estimate = model->estimate(prompts, options);
  check_estimate(estimate, s, console);
  if (progress.cancel_requested()) {
    console.info("cancelled before anything was written");
    if (console.json) console.out_json({{"status", "cancelled"}, {"trace", nullptr}});
    return kExitCancelled;
  }
  progress.begin_stage("", 0);  // not the end of loading once more
  try {
    const ProgressLine line(progress, console);
    outcome = model->run(prompts, tokenizer.get(), options, sink, progress);
  } catch (const Error&) {
    sink.finish(trace::Status::failed);
    console.info(sink.message());  // where the part that was written is
    throw;
  }

  for (const auto& text : by_layer(outcome.notes)) console.note(text);
  for (const auto* list : {&std::as_const(outcome.warnings), &sink.warnings()})
    for (const auto& text : *list) console.warning(text);
  warnings.insert(warnings.end(), outcome.warnings.begin(), outcome.warnings.end());
  warnings.insert(warnings.end(), sink.warnings().begin(), sink.warnings().end());
  notes.insert(notes.end(), outcome.notes.begin(), outcome.notes.end());
  std::error_code error;
  const auto size = fs::file_size(s.out, error);
  const int64_t file_bytes = error ? 0 : int64_t(size);
  if (console.json)
    console.out_json(outcome_json(s, *model, options, prompts, estimate, outcome, file_bytes, notes, warnings));
  else
    console.out(summary(s, prompts, outcome, file_bytes));
  return outcome.status == trace::Status::cancelled ? kExitCancelled : kExitOk;
}

}  // namespace slotscope::cli
