// slotscope-cli analyze: the numbers of core/analysis/results.h as a table and as JSON (keys: resources/cli.md).
#include "app/cli/commands.h"
#include "core/analysis/results.h"
#include "core/trace/trace.h"

namespace slotscope::cli {
namespace {

using analysis::AnalysisReport;
using analysis::HeadReport;

const char* regime_name(analysis::Regime r) {
  static constexpr const char* names[] = {"long", "intermediate", "short", "uniform", "empty"};
  return names[size_t(r)];
}
const char* class_name(analysis::SlotClass c) {
  static constexpr const char* names[] = {"retrieval", "shared", "other", "empty"};
  return names[size_t(c)];
}

// One list per quantity, slot i at position i: what numpy and pandas want.
Json slots_json(const HeadReport& h) {
  Json lists = Json::object();
  const auto list = [&](const char* name, auto value) {
    Json& values = lists[name] = Json::array();
    for (const auto& s : h.slot) values.push_back(value(s));
  };
  using Slot = analysis::SlotReport;
  list("esl", [](const Slot& s) { return Json(s.esl); });
  list("selected", [&](const Slot& s) { return h.selections_known ? Json(s.selected) : Json(nullptr); });
  list("normalised_esl", [](const Slot& s) { return Json(s.normalised_esl); });
  list("regime", [](const Slot& s) { return Json(regime_name(s.regime)); });
  list("class", [](const Slot& s) { return Json(class_name(s.slot_class)); });
  list("written", [](const Slot& s) { return Json(s.written); });
  list("written_retrieval", [](const Slot& s) { return Json(s.retrieval); });
  list("specialisation", [](const Slot& s) { return Json(s.specialisation); });
  list("tokens_held", [](const Slot& s) { return Json(s.tokens_held); });
  list("tokens_held_at_query", [](const Slot& s) { return Json(s.tokens_held_at_query); });
  list("retained", [](const Slot& s) { return Json(s.retained); });
  list("first_write", [](const Slot& s) { return s.first_write < 0 ? Json(nullptr) : Json(s.first_write); });
  list("last_write", [](const Slot& s) { return s.last_write < 0 ? Json(nullptr) : Json(s.last_write); });
  return lists;
}

Json esl_json(const analysis::EslResult& e) {
  Json order = Json::array();
  for (int slot : e.order) order.push_back(slot);
  int regimes[5] = {0, 0, 0, 0, 0};
  for (auto r : e.regime) ++regimes[size_t(r)];
  Json fit = nullptr;
  if (e.fit.valid)
    fit = {{"c", e.fit.c}, {"lambda", e.fit.lambda}, {"lambda_infinite", e.fit.lambda > 1e300}, {"r2", e.fit.r2}};
  Json counts = Json::object();
  for (size_t i = 0; i < 5; ++i) counts[regime_name(analysis::Regime(i))] = regimes[i];
  return {{"tokens", e.tokens}, {"used", e.used}, {"cut_low", e.cut_low}, {"cut_high", e.cut_high}, {"fit", fit},
          {"regimes", counts}, {"order", order}};
}

Json statistics_json(const analysis::RoutingStatistics& s) {
  return {{"used", s.used}, {"dead", s.dead}, {"entropy", s.entropy}, {"effective_slots", s.effective_slots},
          {"gini", s.gini}, {"margin_mean", s.margin_mean}, {"margin_min", s.margin_min}, {"tied_share", s.tied_share}};
}

Json allocation_json(const analysis::HeadAllocation& a) {
  Json counts = Json::object();
  for (size_t i = 0; i < 4; ++i) counts[class_name(analysis::SlotClass(i))] = a.counts[i];
  return {{"counts", counts}, {"max_written", a.max_written}, {"score", a.head_score}, {"retrieval_head", a.retrieval_head}};
}

Json key_json(const HeadReport& h) {
  Json list = Json::array();
  for (const auto& k : h.key) {
    Json slots = Json::array();
    for (const auto& w : k.slots)
      slots.push_back({{"slot", w.slot}, {"strength", w.strength}, {"left", w.left}});
    list.push_back({{"token", k.token}, {"written", k.written}, {"survival", k.survival}, {"slots", slots}});
  }
  return list;
}

Json reads_json(const HeadReport& h) {
  Json list = Json::array();
  for (const auto& r : h.reads) {
    Json top = Json::array();
    for (const auto& t : r.top) top.push_back({{"token", t.token}, {"weight", t.weight}});
    list.push_back({{"token", r.token}, {"head", r.head}, {"on_key", r.on_key}, {"on_retrieval", r.on_retrieval},
                    {"read_of_nothing", r.read_of_nothing}, {"top", top}});
  }
  return list;
}

Json head_json(const HeadReport& h) {
  const auto& s = h.summary;
  Json head = {{"layer", s.layer}, {"head", s.head}, {"mixer", s.mixer}, {"has_routes", s.has_routes}};
  head["why"] = s.has_routes ? Json(nullptr) : Json(s.why);
  if (!s.has_routes) return head;
  head["slots"] = h.slots;
  head["top_k"] = h.top_k;
  head["captured_tokens"] = h.captured_tokens;
  head["underflowed"] = h.selections_known ? Json(h.underflowed) : Json(nullptr);
  head["mean_write_strength"] = s.mean_write_strength;
  head["key_survival"] = s.key_survival;
  head["read_mass_on_key"] = s.read_mass_on_key;
  head["esl"] = esl_json(s.esl);
  head["allocation"] = allocation_json(s.allocation);
  head["statistics"] = statistics_json(s.statistics);
  head["slot"] = slots_json(h);
  head["key"] = key_json(h);
  head["reads"] = reads_json(h);
  return head;
}

Json run_json(const AnalysisReport& a, const trace::RunInfo& run) {
  Json heads = Json::array(), by_score = Json::array(), retrieval = Json::array(), spans = Json::array();
  const auto name = [&](int at) {
    const auto& s = a.heads[size_t(at)].summary;
    return Json{{"layer", s.layer}, {"head", s.head}, {"score", s.allocation.head_score}};
  };
  for (const auto& h : a.heads) heads.push_back(head_json(h));
  for (int at : a.by_score)
    if (a.heads[size_t(at)].summary.has_routes) by_score.push_back(name(at));
  for (int at : a.retrieval_heads) retrieval.push_back(name(at));
  for (const auto& s : run.spans) spans.push_back({{"name", s.name}, {"begin", s.begin}, {"end", s.end}});
  Json document = {{"run", a.run}, {"name", a.name}, {"tokens", a.tokens}, {"planned_tokens", a.planned_tokens},
                   {"prompt_tokens", a.prompt_tokens}, {"query", a.query < 0 ? Json(nullptr) : Json(a.query)},
                   {"query_reached", a.query_reached}, {"retrieval_tokens", a.retrieval_tokens},
                   {"key_tokens", a.key_tokens}, {"spans", spans}};
  put_text(document, "output_text", run.output_text);
  document["expected"] = run.has_answer ? Json(run.answer) : Json(nullptr);
  document["exact"] = run.exact ? Json(*run.exact) : Json(nullptr);
  document["references"] = run.references;
  document["score"] = run.score ? Json(*run.score) : Json(nullptr);
  document["layers"] = a.layers;
  document["first"] = {{"layer", a.first.layer}, {"head", a.first.head}, {"slot", a.first.slot}, {"token", a.first.token}};
  document["by_score"] = by_score;
  document["retrieval_heads"] = retrieval;
  document["heads"] = heads;
  document["notes"] = a.notes;
  return document;
}

std::string heads_text(const AnalysisReport& a) {
  Table table({">layer", ">head", ">used", ">dead", ">ESL max", ">lambda", ">R2", ">gini", ">entropy", ">margin", ">retr", ">shared", ">other",
               ">empty", ">score", ">survival", ">read on key", ""});
  for (const auto& h : a.heads) {
    const auto& s = h.summary;
    if (!s.has_routes) {
      table.row({std::to_string(s.layer), std::to_string(s.head), "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", s.why});
      continue;
    }
    const int most = s.esl.order.empty() ? -1 : s.esl.order[0];
    const auto& c = s.allocation.counts;
    const auto& fit = s.esl.fit;
    table.row({std::to_string(s.layer), std::to_string(s.head), std::to_string(s.statistics.used), std::to_string(s.statistics.dead),
               most < 0 ? "-" : std::to_string(s.esl.esl[size_t(most)]), fit.valid ? number_text(fit.lambda, 3) : "-",
               fit.valid ? number_text(fit.r2, 3) : "-", number_text(s.statistics.gini, 3), number_text(s.statistics.entropy, 3),
               number_text(s.statistics.margin_mean, 3), std::to_string(c[0]), std::to_string(c[1]), std::to_string(c[2]),
               std::to_string(c[3]), number_text(s.allocation.head_score, 3), number_text(s.key_survival, 3),
               number_text(s.read_mass_on_key, 3), s.allocation.retrieval_head ? "retrieval head" : ""});
  }
  return table.text("  ");
}

std::string run_text(const AnalysisReport& a, const trace::RunInfo& run, bool several) {
  std::string text = (several ? "run " + std::to_string(a.run) + ": " : "") + printable(a.name) + ", " + count_text(a.tokens) + " tokens";
  if (a.planned_tokens > a.tokens) text += " of " + count_text(a.planned_tokens);
  text += " (prompt " + count_text(a.prompt_tokens) + ")\n";
  if (!run.output_ids.empty()) {
    text += std::string(run.has_answer ? "answer" : "generated") + " \"" + printable(run.output_text) + "\"";
    if (run.score)
      text += ", score " + number_text(*run.score) + (run.exact.value_or(false) ? ", exact" : "") + ": expected \"" + printable(run.answer) + "\"";
    else if (run.exact)
      text += *run.exact ? ", exact" : ", wrong: expected \"" + printable(run.answer) + "\"";
    text += "\n";
  }
  text += heads_text(a);
  for (const auto& note : a.notes) text += "  " + printable(note) + "\n";
  return text;
}

}  // namespace

int run_analyze(const AnalyzeSettings& s, const Console& console) {
  if (!(s.esl_low <= s.esl_high))
    throw Error({.item = "--esl-low", .found = number_text(s.esl_low) + " above --esl-high " + number_text(s.esl_high),
                 .expected = "low cut <= high cut"}, Error::Kind::usage);
  if (trace::file_format(s.trace) == "slotscope-sweep") {
    if (s.csv && console.json) throw Error({.item = "--csv", .found = "given with --json", .expected = "one of the two"}, Error::Kind::usage);
    print_sweep(trace::read_sweep(s.trace), s.trace, s.confidence, s.csv, console);
    return kExitOk;
  }
  if (s.csv)
    throw Error({.file = s.trace, .item = "--csv", .found = "given for a trace", .expected = "the file of a sweep",
                 .advice = "Use --json for a trace"}, Error::Kind::usage);
  Progress& progress = cancel_on_signal();
  const auto trace = trace::Trace::open(s.trace, &progress);
  if (s.run >= trace->run_count())
    throw Error({.file = s.trace, .item = "--run", .found = std::to_string(s.run),
                 .expected = "0 to " + std::to_string(trace->run_count() - 1)}, Error::Kind::usage);
  analysis::AnalyseOptions options;
  options.allocation = {s.threshold, s.tau, s.retrieval_head};
  options.esl = {s.esl_low, s.esl_high};
  const auto& model = trace->model();
  Json runs = Json::array();
  std::string text = printable(s.trace) + ": " + model.family + (model.flavour.empty() ? "" : " (" + model.flavour + ")") + ", " + model.dtype +
                     " on " + model.device + ", " + status_name(trace->status()) + "\n";
  for (int i = s.run < 0 ? 0 : s.run; i < (s.run < 0 ? trace->run_count() : s.run + 1); ++i) {
    AnalysisReport report;
    {
      const ProgressLine line(progress, console);
      report = analysis::analyse(*trace, i, options, &progress);
    }
    if (progress.cancel_requested()) {
      console.info("cancelled");
      if (console.json) console.out_json({{"status", "cancelled"}});
      return kExitCancelled;
    }
    if (console.json) {
      for (const auto& note : report.notes) console.note(note);
      runs.push_back(run_json(report, trace->run(i)));
    } else {
      text += "\n" + run_text(report, trace->run(i), trace->run_count() > 1);
    }
  }
  if (!console.json) {
    console.out(text);
    return kExitOk;
  }
  console.out_json({{"trace", s.trace}, {"status", status_name(trace->status())}, {"created", trace->created()},
                    {"writer_version", trace->writer_version()}, {"family", model.family}, {"flavour", model.flavour},
                    {"dtype", model.dtype}, {"router_dtype", model.router_dtype}, {"device", model.device},
                    {"checkpoint", model.checkpoint}, {"tensor_digest", model.tensor_digest},
                    {"definitions", {{"threshold", s.threshold}, {"tau", s.tau}, {"retrieval_head", s.retrieval_head},
                                     {"esl_low", s.esl_low}, {"esl_high", s.esl_high}}},
                    {"runs", runs}},
                   -1);
  return kExitOk;
}

}  // namespace slotscope::cli
