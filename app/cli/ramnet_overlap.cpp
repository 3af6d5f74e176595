// slotscope-cli ramnet overlap: how the addresses of a trace's tokens meet, and what the memory makes of it.
#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <memory>

#include "app/cli/help.h"
#include "app/cli/ramnet.h"
#include "app/cli/run_options.h"
#include "core/analysis/overlap_result.h"
#include "core/analysis/trace_access.h"

namespace slotscope::cli {
namespace {

constexpr const char* kFooter = R"(
overlap: sum over slots of r_t(a) w_s(a), the read address of token t and the write address of token s <= t. induced: A[t,s], what
the memory gives of token s's value at token t. With --against also the attention (or A) of another model's trace of the same prompt.
Up to 4096 tokens the file holds the matrices, beyond that their maximum and mean per pixel.

Examples:
  slotscope-cli ramnet overlap trace.h5 --layer 0 --head 0 --out overlap.h5
  slotscope-cli ramnet overlap trace.h5 --layer 2 --head 1 --tokens 0:512 --against teacher.h5 --out overlap.h5 --json
  slotscope-cli ramnet overlap trace.h5 --layer 0 --head 0 --top-k 4 --shift 0 --out without-cape.h5)";

struct OverlapSettings {
  std::string trace, against, out, tokens, kind = "dot";
  int run = 0, layer = 0, head = 0, against_run = 0, top_k = 0, pixels = 1024;
  int against_layer = -1, against_head = -1;
  double temperature = 1;
  std::optional<int> shift;
  bool force = false;
};

[[noreturn]] void refuse(const std::string& option, const std::string& found, const std::string& expected) {
  throw Error({.item = option, .found = found, .expected = expected}, Error::Kind::usage);
}

std::pair<int64_t, int64_t> range_of(const std::string& text) {
  const size_t colon = text.find(':');
  const auto number = [&](std::string_view part, int64_t& value) {
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    return !part.empty() && error == std::errc() && end == part.data() + part.size();
  };
  std::pair<int64_t, int64_t> range;
  if (colon == std::string::npos || !number(std::string_view(text).substr(0, colon), range.first) ||
      !number(std::string_view(text).substr(colon + 1), range.second) || range.first < 0 || range.second <= range.first)
    refuse("--tokens", "'" + text.substr(0, 60) + "'", "FIRST:END such as 0:512, END not included");
  return range;
}

analysis::OverlapKind kind_of(const std::string& name) {
  if (name == "min") return analysis::OverlapKind::min;
  return name == "write" ? analysis::OverlapKind::write : analysis::OverlapKind::dot;
}

analysis::OverlapOptions options_of(const OverlapSettings& s) {
  analysis::OverlapOptions o{.run = s.run, .layer = s.layer, .head = s.head, .kind = kind_of(s.kind), .pixels = s.pixels};
  if (!s.tokens.empty()) o.window = range_of(s.tokens);
  o.dials = {.top_k = s.top_k, .temperature = s.temperature};
  if (s.shift) o.dials.shift = *s.shift;
  return o;
}

void check_place(const trace::Trace& trace, int run, int layer, int head, bool query, const std::string& suffix) {
  const auto refuse_index = [&](const std::string& option, int found, int64_t count, const char* what) {
    refuse(option + suffix, std::to_string(found), count > 0 ? std::string(what) + " 0 to " + std::to_string(count - 1) : std::string("no ") + what);
  };
  if (run >= trace.run_count()) refuse_index("--run", run, trace.run_count(), "runs");
  const auto& layers = trace.run(run).layers;
  const auto at = std::find_if(layers.begin(), layers.end(), [&](const auto& l) { return l.index == layer; });
  if (at == layers.end()) refuse("--layer" + suffix, std::to_string(layer), "a layer of " + trace.path().string());
  const int64_t heads = query ? at->heads : at->route_heads;
  if (head >= heads) refuse_index("--head" + suffix, head, heads, query ? "query heads" : "heads that own slots");
}

Json json_of(const OverlapSettings& s, const analysis::OverlapReport& r) {
  Json rows = Json::array();
  for (const auto& d : r.divergences)
    rows.push_back({{"of", d.of}, {"to", d.to}, {"mean_js", d.rows.mean_js}, {"mean_forward_kl", d.rows.mean_kl}, {"infinite_kl_rows", d.rows.infinite_kl}, {"rows", d.rows.compared},
                    {"missing_mass_rows", d.rows.zero_a + d.rows.zero_b}, {"rows_not_captured", d.rows.missing}, {"rows_undefined", d.rows.undefined}});
  Json j = {{"trace", s.trace}, {"run", s.run}, {"layer", s.layer}, {"head", s.head}, {"kind", s.kind}, {"first_token", r.t0},
            {"last_token", r.t1}, {"tokens", r.tokens}, {"captured_tokens", r.captured}, {"slots", r.slots}, {"top_k", r.top_k},
            {"whole", r.whole}, {"largest_overlap", r.largest_overlap}, {"mean_overlap", r.mean_overlap}, {"mean_overlap_row_sum", r.mean_overlap_sum},
            {"mean_induced_row_sum", r.mean_induced_sum}};
  if (!r.no_induced.empty()) j["no_induced"] = r.no_induced;
  if (!s.against.empty()) j["against"] = {{"trace", s.against}, {"common_tokens", r.common_tokens}};
  j["divergences"] = rows;
  j["out"] = s.out;
  return j;
}

std::string text_of(const OverlapSettings& s, const analysis::OverlapReport& r) {
  std::string text = "layer " + std::to_string(s.layer) + " head " + std::to_string(s.head) + ": " + std::to_string(r.slots) + " slots, Top-" +
                     std::to_string(r.top_k) + ", tokens " + std::to_string(r.t0) + " to " + std::to_string(r.t1 - 1) + " of " +
                     count_text(r.tokens) + "\n";
  text += "largest overlap " + number_text(r.largest_overlap, 6) + ", mean over pairs " + number_text(r.mean_overlap, 6) + "\n";
  if (!r.no_induced.empty()) text += "no induced weights: " + r.no_induced + "\n";
  Table table({"rows of", "beside", ">mean JS (nats)", ">mean forward KL", ">rows", ">missing mass", ">not captured"});
  for (const auto& d : r.divergences)
    table.row({d.of, d.to, number_text(d.rows.mean_js, 6), number_text(d.rows.mean_kl, 6), std::to_string(d.rows.compared),
               std::to_string(d.rows.zero_a + d.rows.zero_b), std::to_string(d.rows.missing)});
  return text + (r.divergences.empty() ? "" : table.text());
}

int run_overlap(const OverlapSettings& s, const Console& console) {
  analysis::OverlapOptions options = options_of(s);
  Progress& progress = cancel_on_signal();
  std::optional<analysis::OverlapReport> report;
  {
    const ProgressLine line(progress, console);
    const auto trace = trace::Trace::open(s.trace);
    check_place(*trace, s.run, s.layer, s.head, false, "");
    if (!s.against.empty()) {
      options.against = trace::Trace::open(s.against);
      options.against_run = s.against_run;
      options.against_layer = s.against_layer < 0 ? s.layer : s.against_layer;
      options.against_head = s.against_head < 0 ? s.head : s.against_head;
      check_place(*options.against, s.against_run, options.against_layer, options.against_head, true, "-b");
    }
    report = analysis::write_overlap(trace, options, s.out, s.force, &progress);
  }
  if (!report) {
    console.error("cancelled: nothing was written");
    return kExitCancelled;
  }
  if (console.json) {
    console.out_json(json_of(s, *report));
  } else {
    console.note("wrote " + s.out);
    console.out(text_of(s, *report));
  }
  return kExitOk;
}

}  // namespace

void add_ramnet_overlap(CLI::App& group, Console& console, Action& chosen) {
  CLI::App* sub = group.add_subcommand("overlap", "How the addresses of a trace's tokens meet, beside the weights they induce");
  sub->footer(kFooter);
  auto s = std::make_shared<OverlapSettings>();
  sub->add_option("trace", s->trace, "The trace, with route and addresses captured (the default)")->required()->option_text("TRACE.h5");
  sub->add_option("--layer", s->layer, "Layer")->required()->check(whole_number(0, 1 << 20))->option_text("N");
  sub->add_option("--head", s->head, "Head that owns slots")->required()->check(whole_number(0, 1 << 16))->option_text("N");
  sub->add_option("--run", s->run, "Run of the trace (default 0)")->check(whole_number(0, 1 << 30))->option_text("N");
  sub->add_option("--tokens", s->tokens, "Rows and columns, END not included (default all)")->option_text("FIRST:END");
  sub->add_option("--kind", s->kind, "dot (default); of routed memories also min and write (of the write strengths)")
      ->check(CLI::IsMember({"dot", "min", "write"}))->option_text("KIND");
  CLI::Option* against = sub->add_option("--against", s->against, "Another trace of the same prompt, as the teacher")->option_text("B.h5");
  sub->add_option("--layer-b", s->against_layer, "Its layer (default --layer)")->needs(against)->check(whole_number(0, 1 << 20))->option_text("N");
  sub->add_option("--head-b", s->against_head, "Its query head (default --head)")->needs(against)->check(whole_number(0, 1 << 16))->option_text("N");
  sub->add_option("--run-b", s->against_run, "Its run (default 0)")->needs(against)->check(whole_number(0, 1 << 30))->option_text("N");
  const char* dials = "What if (the memory is played again from what was captured)";
  sub->add_option("--top-k", s->top_k, "Only the first K ranks of each address")->check(whole_number(1, 1 << 20))->group(dials)->option_text("K");
  sub->add_option("--temperature", s->temperature, "Of both softmaxes; needs every slot captured")->group(dials)->option_text("X");
  sub->add_option("--shift", s->shift, "CAPE: slots per position, 0 for none")->check(CLI::Range(-(1 << 20), 1 << 20))->group(dials)->option_text("N");
  sub->add_option("--out", s->out, "The file of results (HDF5, slotscope-result)")->required()->group("Output")->option_text("FILE.h5");
  sub->add_option("--pixels", s->pixels, "Pixels along each axis beyond 4096 tokens (default 1024)")->check(whole_number(1, 4096))->group("Output")->option_text("N");
  sub->add_flag("--json", console.json, "One JSON document on standard output and nothing else there")->group("Output");
  sub->add_flag("--force", s->force, "Overwrite --out")->group("Output");
  sub->callback([s, &chosen] { chosen = [s](const Console& c) { return run_overlap(*s, c); }; });
}

}  // namespace slotscope::cli
