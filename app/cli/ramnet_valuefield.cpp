// slotscope-cli ramnet valuefield: what memories of a few keys answer to a plane of queries, as a file and as numbers.
#include <CLI/CLI.hpp>
#include <charconv>
#include <chrono>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>
#include <tuple>

#include "app/cli/help.h"
#include "app/cli/ramnet.h"
#include "app/cli/run_options.h"
#include "core/analysis/value_field_file.h"
#include "core/analysis/value_field_json.h"
#include "core/analysis/value_field_keys.h"
#include "core/analysis/value_field_model.h"
#include "core/formats/json.h"

namespace slotscope::cli {
namespace {

constexpr uint64_t kMostSettings = uint64_t(8) << 20;

std::string footer() {
  std::string text = "\nPresets:\n";
  for (const auto& preset : analysis::field_presets()) text += "  " + std::string(preset.name) + std::string(18 - std::min<size_t>(17, std::string(preset.name).size()), ' ') + preset.title + ". " + preset.tip + "\n";
  text += "\nSets of columns:\n";
  for (const auto& set : analysis::field_column_sets()) text += "  " + std::string(set.name) + std::string(18 - std::min<size_t>(17, std::string(set.name).size()), ' ') + set.tip + "\n";
  return text + R"(
A panel in words: full | ramnet,d=4,K=16,mass-aware,divide,gamma=-2,order=reversed,beta-read=1,beta-write=inf,eps=1e-6,seed=1
(without K: all slots; without gamma: the cumulative mean) | quantised,d=8,bits=4 | quantised,k-means=16,seed=1 | linear,elu |
linear,features=64,seed=1. Betas are in units of the row's beta.

Examples:
  slotscope-cli ramnet valuefield --out field.h5
  slotscope-cli ramnet valuefield --preset paper-smooth --keys 20 --seed 7 --rows 0.5,1,2,4 --out field.h5
  slotscope-cli ramnet valuefield --panel full --panel ramnet,d=8,K=8 --panel ramnet,d=8,K=8,mass-aware --values rgb --out rgb.h5
  slotscope-cli ramnet valuefield --preset figure-1 --out figure-1.h5 && slotscope figure figure-1.h5 --out figure-1.pdf)";
}

struct FieldCommand {
  std::string preset = "paper", settings, layout, values, space, rows, columns, device = "auto", out;
  std::vector<std::string> keys_at, panels;
  std::optional<int> keys, grid;
  std::optional<uint64_t> seed;
  std::optional<double> tau, extent;
  bool divide = false, force = false;
  // Keys of a captured head.
  std::string trace, project = "pca", tokens;
  int run = 0, layer = 0, head = 0;
};

[[noreturn]] void refuse(const std::string& option, const std::string& found, const std::string& expected) {
  throw Error({.item = option, .found = "'" + (found.size() > 60 ? found.substr(0, 57) + "..." : found) + "'", .expected = expected}, Error::Kind::usage);
}

std::vector<double> numbers_of(const std::string& option, const std::string& text, const char* expected) {
  std::vector<double> numbers;
  for (size_t at = 0;;) {
    const size_t comma = std::min(text.find(',', at), text.size());
    double value = 0;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + comma, value);
    if (error != std::errc() || end != text.data() + comma || std::isnan(value)) refuse(option, text, expected);
    numbers.push_back(value);
    if (comma == text.size()) return numbers;
    at = comma + 1;
  }
}

template <class Item>
std::string names(const std::vector<Item>& items) {
  std::string text;
  for (const Item& item : items) text += (text.empty() ? "" : ", ") + std::string(item.name);
  return text;
}

// "A:B" of two whole numbers.
std::pair<int64_t, int64_t> two_of(const std::string& option, const std::string& text, const char* expected) {
  std::pair<int64_t, int64_t> two;
  const size_t colon = text.find(':');
  const auto whole = [&](size_t from, size_t to, int64_t& v) {
    const auto [end, error] = std::from_chars(text.data() + from, text.data() + to, v);
    return error == std::errc() && end == text.data() + to;
  };
  if (colon == std::string::npos || !whole(0, colon, two.first) || !whole(colon + 1, text.size(), two.second)) refuse(option, text, expected);
  return two;
}

// Keys, values and queries of a head of a trace.
analysis::FieldSettings of_trace(const FieldCommand& c, const analysis::FieldSettings& base) {
  if (!c.keys_at.empty() || c.keys || c.seed || !c.layout.empty() || !c.space.empty())
    refuse("--trace", c.trace, "without --key, --keys, --layout, --seed and --space");
  using Kind = analysis::FieldProjection::Kind;
  analysis::FieldProjection p;
  const std::string kind = c.project.substr(0, c.project.find(':'));
  if (kind == "pair" || kind == "blocks" || kind == "pairs-of-two") {
    p.kind = kind == "pair" ? Kind::pair : Kind::blocks;
    p.halves = kind == "blocks";
    std::tie(p.a, p.b) = two_of("--project", c.project.substr(std::min(c.project.size(), kind.size() + 1)), "two numbers behind it, pair:0:1");
  } else if (c.project != "pca") {
    refuse("--project", c.project, "pca, pair:A:B, blocks:A:B or pairs-of-two:A:B");
  }
  if (!c.tokens.empty()) std::tie(p.first, p.last) = two_of("--tokens", c.tokens, "A:B of the captured tokens, B not included");
  p.rgb = base.channels == 3;
  const auto trace = trace::Trace::open(c.trace);
  return analysis::project_head(analysis::load_field_head(*trace, c.run, c.layer, c.head), p, base).settings;
}

// The keys: given one by one, or laid out; nothing given leaves the preset's.
void choose_keys(const FieldCommand& c, analysis::FieldSettings& s) {
  if (!c.keys_at.empty()) {
    if (c.keys || c.seed || !c.layout.empty()) refuse("--key", c.keys_at[0], "either --key, or --keys, --layout and --seed");
    s.keys.clear(), s.queries.clear(), s.origin.clear();
    for (const std::string& text : c.keys_at) {
      const char* expected = s.channels == 3 ? "X,Y,R,G,B" : "X,Y,VALUE";
      const auto v = numbers_of("--key", text, expected);
      if (v.size() != size_t(2 + s.channels)) refuse("--key", text, expected);
      analysis::FieldKey key{.x = v[0], .y = v[1]};
      std::copy(v.begin() + 2, v.end(), key.value.begin());
      s.keys.push_back(key);
    }
    return;
  }
  if (!c.keys && !c.seed && c.layout.empty() && c.values.empty() && c.space.empty()) return;
  analysis::FieldLayout layout;
  layout.count = c.keys.value_or(int(s.keys.size()));
  layout.seed = c.seed.value_or(layout.seed);
  layout.rgb = s.channels == 3;
  using Kind = analysis::FieldLayoutKind;
  layout.kind = c.layout == "random" ? Kind::random : c.layout == "ring" ? Kind::ring : c.layout == "grid" ? Kind::grid : Kind::spread;
  s.keys = analysis::field_keys(s.space, layout);
  s.queries.clear(), s.origin.clear();
}

analysis::FieldSettings settings_of(const FieldCommand& c) {
  analysis::FieldSettings s;
  if (!c.settings.empty()) {
    if (c.settings != "-") {
      s = analysis::parse_field_settings(formats::read_text_file(c.settings, kMostSettings), c.settings);
    } else {
      std::string text(kMostSettings + 1, '\0');
      std::cin.read(text.data(), std::streamsize(text.size()));
      text.resize(size_t(std::cin.gcount()));
      s = analysis::parse_field_settings(text, "standard input");
    }
  } else {
    const auto* preset = analysis::find_field_preset(c.preset);
    if (!preset) refuse("--preset", c.preset, "one of " + names(analysis::field_presets()));
    s = preset->make();
  }
  const analysis::FieldSpace before = s.space;
  if (!c.space.empty()) s.space = c.space == "plane" ? analysis::FieldSpace::plane : analysis::FieldSpace::torus;
  if (!c.values.empty()) s.channels = c.values == "rgb" ? 3 : 1;
  if (c.tau) s.tau = *c.tau;
  if (c.grid) s.grid = *c.grid;
  if (c.extent) s.extent = *c.extent;
  if (!c.rows.empty()) s.rows = numbers_of("--rows", c.rows, "multiples of beta* such as 0.5,1,2");
  const analysis::FieldColumns* made_by = nullptr;  // the set that the columns are, to be made again for another space
  for (const auto& set : analysis::field_column_sets())
    if (set.make(before) == s.columns) made_by = &set;
  if (c.trace.empty()) {
    choose_keys(c, s);
  } else {
    s = of_trace(c, s);
    if (c.tau) s.tau = *c.tau;
    if (c.extent) s.extent = *c.extent;
  }
  if (made_by && s.space != before) s.columns = made_by->make(s.space);
  if (!c.columns.empty()) {
    const auto* set = analysis::find_field_columns(c.columns);
    if (!set) refuse("--columns", c.columns, "one of " + names(analysis::field_column_sets()));
    s.columns = set->make(s.space);
  }
  if (!c.panels.empty()) s.columns.clear();
  for (const std::string& panel : c.panels) s.columns.push_back(analysis::parse_field_panel(panel, s.space));
  if (c.divide)
    for (auto& p : s.columns) p.divide = p.kind == analysis::FieldKind::ramnet && !p.mass_aware;
  return s;
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

void print(const analysis::ValueField& f, const FieldCommand& c, double seconds, const Console& console) {
  const auto& s = f.settings;
  if (console.json) {
    Json j = {{"out", c.out.empty() ? Json(nullptr) : Json(c.out)}, {"space", s.space == analysis::FieldSpace::torus ? "torus" : "plane"},
              {"tau", s.tau}, {"beta_star", f.beta_star}, {"keys", s.keys.size()}, {"grid", s.grid}, {"channels", s.channels}, {"device", f.on_gpu ? "cuda" : "cpu"}, {"seconds", seconds}};
    if (!s.origin.empty()) j["origin"] = s.origin;
    j["rows"] = Json::array();
    for (const double row : s.rows) j["rows"].push_back(std::isfinite(row) ? Json(row) : Json(nullptr));
    j["columns"] = Json::array();
    for (const auto& p : s.columns) j["columns"].push_back(one_line(analysis::field_title(p, s.space)));
    j["panels"] = Json::array();
    for (size_t row = 0; row < s.rows.size(); ++row)
      for (size_t column = 0; column < s.columns.size(); ++column) {
        const auto& panel = f.at(row, column);
        const bool memory = s.columns[column].kind == analysis::FieldKind::ramnet;
        j["panels"].push_back({{"row", row}, {"column", column}, {"rmse", panel.rmse}, {"mean_read_mass", memory ? Json(panel.mean_read_mass) : Json(nullptr)},
                               {"mean_write_mass", memory ? Json(panel.mean_write_mass) : Json(nullptr)}, {"empty_queries", panel.empty_cells}});
      }
    return console.out_json(j);
  }
  std::string text = count_text(int64_t(s.keys.size())) + " keys, tau " + number_text(s.tau) + ", beta* " + number_text(f.beta_star) + ", " + std::to_string(s.grid) + " x " +
                     std::to_string(s.grid) + " queries, " + number_text(seconds, 2) + " s" + (f.on_gpu ? " on the GPU" : "") + "\n" +
                     (s.origin.empty() ? "" : printable(s.origin) + "\n");
  for (size_t row = 0; row < s.rows.size(); ++row)
    for (size_t column = 0; column < s.columns.size(); ++column) {
      const auto& panel = f.at(row, column);
      char line[200];
      std::snprintf(line, sizeof line, "beta/beta* %-6s  RMSE %.6f", number_text(s.rows[row]).c_str(), panel.rmse);
      text += line;
      if (s.columns[column].kind == analysis::FieldKind::ramnet) {
        std::snprintf(line, sizeof line, "  read mass %.4f", panel.mean_read_mass);
        text += line;
      } else {
        text += "                  ";
      }
      text += "  " + printable(one_line(analysis::field_title(s.columns[column], s.space)));
      if (panel.empty_cells > 0) text += "  (" + count_text(panel.empty_cells) + " queries read nothing)";
      text += "\n";
    }
  console.out(text);
}

int run(const FieldCommand& c, const Console& console) {
  const analysis::FieldSettings settings = settings_of(c);
  Progress& progress = cancel_on_signal();
  const auto start = std::chrono::steady_clock::now();
  const auto place = c.device == "cpu"    ? analysis::FieldPlace::cpu
                     : c.device == "cuda" ? analysis::FieldPlace::gpu
                                          : analysis::FieldPlace::automatic;
  const auto field = analysis::value_field(settings, &progress, nullptr, place);
  if (!field) return kExitCancelled;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!c.out.empty()) trace::write_result(c.out, analysis::field_result(*field), c.force);
  print(*field, c, seconds, console);
  if (!c.out.empty() && !console.json) console.note("wrote " + c.out);
  return kExitOk;
}

}  // namespace

void add_ramnet_valuefield(CLI::App& group, Console& console, Action& chosen) {
  CLI::App* sub = group.add_subcommand("valuefield", "Fields of values over a torus or a plane of queries: attention, quantised KV, linear attention, RAM-Net");
  sub->footer(footer());
  sub->get_formatter()->column_width(30);
  auto c = std::make_shared<FieldCommand>();
  sub->add_option("--preset", c->preset, "What to begin with (default paper); what is given beside it replaces its parts")->option_text("NAME");
  sub->add_option("--settings", c->settings, "Settings as JSON instead of a preset: a file, or - for standard input (the parameter `settings` of a result)")->option_text("FILE");
  sub->add_option("--space", c->space, "torus: two angles (U = 2); plane: two coordinates (U = 1)")->check(CLI::IsMember({"torus", "plane"}))->option_text("torus|plane");
  sub->add_option("--keys", c->keys, "Number of keys")->option_text("N")->group("Keys");
  sub->add_option("--layout", c->layout, "Where they lie")->check(CLI::IsMember({"spread", "random", "ring", "grid"}))->option_text("spread|random|ring|grid")->group("Keys");
  sub->add_option("--seed", c->seed, "Of places and values (default 4)")->check(whole_number(0, UINT64_MAX))->option_text("S")->group("Keys");
  sub->add_option("--key", c->keys_at, "One key: X,Y,VALUE (RGB: X,Y,R,G,B), angles in radians or coordinates; repeat it")->option_text("X,Y,V")->expected(1)->take_all()->group("Keys");
  sub->add_option("--values", c->values, "Values are numbers from 0 to 1, or colours")->check(CLI::IsMember({"scalar", "rgb"}))->option_text("scalar|rgb")->group("Keys");
  const char* real = "Keys of a captured head";
  CLI::Option* trace = sub->add_option("--trace", c->trace, "A trace with query, key and value: a head of it brought to a plane; says what that leaves out")->option_text("TRACE.h5")->group(real);
  sub->add_option("--run", c->run, "Which run of it, from 0")->check(CLI::NonNegativeNumber)->option_text("N")->needs(trace)->group(real);
  sub->add_option("--layer", c->layer, "Layer, from 0")->check(CLI::NonNegativeNumber)->option_text("N")->needs(trace)->group(real);
  sub->add_option("--head", c->head, "Query head, from 0")->check(CLI::NonNegativeNumber)->option_text("N")->needs(trace)->group(real);
  sub->add_option("--project", c->project, "pca: two principal axes of the keys (default). pair:A:B: two coordinates. blocks:A:B: two planar blocks that RoPE turns (u, u + d/2), on the torus; pairs-of-two:A:B: blocks (2u, 2u + 1)")->option_text("HOW")->needs(trace)->group(real);
  sub->add_option("--tokens", c->tokens, "Captured tokens that become keys (default 0:64)")->option_text("A:B")->needs(trace)->group(real);
  sub->add_option("--tau", c->tau, "Temperature of full attention; beta* = sqrt(2 / tau)")->option_text("T");
  sub->add_option("--grid", c->grid, "Queries per side (default 128)")->option_text("G");
  sub->add_option("--extent", c->extent, "The plane is [-E, E]^2 (default 1.5)")->option_text("E");
  sub->add_option("--rows", c->rows, "beta / beta* of the rows")->option_text("0.5,1,2");
  sub->add_option("--columns", c->columns, "A set of columns, see below")->option_text("NAME");
  sub->add_option("--panel", c->panels, "A column in words, see below; repeat it")->option_text("KIND,...")->expected(1)->take_all();
  sub->add_option("--device", c->device, "cpu, cuda, or auto (default): cuda for large figures where there is one; numbers differ in their last bits")->check(CLI::IsMember({"auto", "cpu", "cuda"}))->option_text("auto|cpu|cuda");
  sub->add_flag("--divide", c->divide, "Divide standard readouts by the read mass on written slots");
  sub->add_option("--out", c->out, "The result to write (resources/result-format.md). An existing file is refused unless --force")->option_text("FILE.h5")->group("Output");
  sub->add_flag("--force", c->force, "Replace --out")->group("Output");
  sub->add_flag("--json", console.json, "One JSON document on standard output and nothing else there")->group("Output");
  sub->callback([c, &chosen] { chosen = [c](const Console& console) { return run(*c, console); }; });
}

}  // namespace slotscope::cli
