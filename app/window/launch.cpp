#include "app/window/launch.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <QByteArray>
#include <charconv>
#include <cstdio>
#include <stdexcept>

namespace slotscope::app {

namespace {

constexpr const char* main_footer = R"(
Examples:
  slotscope                                  the bundled checkpoint, its password prompt already run
  slotscope path/to/checkpoint               a Hugging Face folder; run prompts from the Run panel
  slotscope run.h5                           a trace, without its model
  slotscope figure run.h5 --kind esl --layer 3 --head 0 --out esl.pdf

Traces are made in the window or by slotscope-cli run. Only the window itself needs a display.)";

constexpr const char* figure_footer = R"(
Layer, head and tokens that are not given are those the window would show first: the head with the highest retrieval score.
The format follows the name: .png (see --dpi), .svg and .pdf (text stays text). An existing file is only replaced with --force.

Examples:
  slotscope figure run.h5 --kind heatmap --out heatmap.png
  slotscope figure run.h5 --kind heatmap --layer 3 --head 0 --tokens 128:192 --quantity survival --map viridis --out zoom.svg
  slotscope figure raven.h5 --kind raster --beside gsa.h5 --beside swa.h5 --out routers.svg
  slotscope figure run.h5 --kind allocation --size 900x600 --csv --out allocation.pdf
  slotscope figure raven.h5 --kind compare --compare gsa.h5 --out compare.pdf
  slotscope figure sweep.h5 --out accuracy.pdf
  slotscope figure field.h5 --out value-fields.pdf
  slotscope figure theory.h5 --out theory.pdf

Exit codes: 0 done, 1 the trace or the output is at fault, 2 an option is.)";

CLI::Validator sizeCheck() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        try {
          parseSize(text);
          return {};
        } catch (const std::exception& e) {
          return e.what();
        }
      },
      "WxH");
}

bool parseWhole(std::string_view text, long long& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

std::string parseRange(const std::string& text, std::pair<long long, long long>& range) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos || !parseWhole(std::string_view(text).substr(0, colon), range.first) ||
      !parseWhole(std::string_view(text).substr(colon + 1), range.second) || range.first < 0 ||
      range.second <= range.first)
    return "'" + text + "' is not a token range A:B with 0 <= A < B (B is not included)";
  return {};
}

}  // namespace

std::pair<int, int> parseSize(const std::string& text) {
  const size_t x = text.find_first_of("xX");
  long long w = 0, h = 0;
  if (x == std::string::npos || !parseWhole(std::string_view(text).substr(0, x), w) ||
      !parseWhole(std::string_view(text).substr(x + 1), h) || w < 16 || h < 16 || w > 100'000 || h > 100'000)
    throw std::runtime_error("'" + text + "' is not a size such as 640x400 (16 to 100000 each)");
  return {int(w), int(h)};
}

Launch parseCommandLine(int argc, char** argv) {
  Launch launch;
  CLI::App app{"Slotscope: see what the memory of a sequence model did.", "slotscope"};
  app.set_version_flag("--version", "slotscope " SLOTSCOPE_VERSION);
  app.footer(main_footer);
  app.add_option("paths", launch.paths, "Checkpoint folders, weights files (.safetensors, .bin, .pt, .pth) or traces (.h5) to open")
      ->type_name("FOLDER|TRACE.h5");
  app.add_option("--theme", launch.theme, "Colours of the window")
      ->check(CLI::IsMember({"light", "dark", "system"}));
  app.add_option("--compare", launch.compare, "A second trace: compares it with the first (the last of the paths)")
      ->type_name("B.h5");
  std::string size;
  // Hidden: pictures for tests and documents.
  app.add_option("--screenshot", launch.screenshot)->group("");
  app.add_option("--size", size)->check(sizeCheck())->group("");
  app.add_option("--view", launch.view)->group("");
  app.add_option("--compare-layout", launch.compare_layout)->check(CLI::IsMember({"stacked", "side-by-side", "overlay", "difference"}))->group("");

  FigureCommand figure;
  CLI::App* sub =
      app.add_subcommand("figure", "Make a figure of a trace, the same as in the window, of a sweep or of a computed result; needs no display");
  sub->footer(figure_footer);
  std::string tokens, figure_size;
  sub->add_option("trace", figure.trace, "The trace, or the file of a sweep or of a result (slotscope-cli ramnet ...)")->required()->type_name("TRACE.h5");
  sub->add_option("--kind", figure.kind, "Which figure of a trace (the file of a sweep or of a result has one)")
      ->check(CLI::IsMember({"heatmap", "esl", "esl-grid", "allocation", "raster", "overlap", "addresses", "compare", "sweep", "value-field", "theory"}));
  sub->add_option("--out", figure.out, "File to write: .png, .svg or .pdf")->required()->type_name("FILE");
  sub->add_option("--run", figure.run, "Which run of the trace, from 0")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  sub->add_option("--layer", figure.layer, "Layer, from 0")->check(CLI::NonNegativeNumber);
  sub->add_option("--head", figure.head, "Head that owns slots, from 0")->check(CLI::NonNegativeNumber);
  sub->add_option("--slot", figure.slot, "Selected slot (marked with --selection)")
      ->check(CLI::NonNegativeNumber);
  sub->add_option("--token", figure.token, "Selected token: reference of survival and reads")
      ->check(CLI::NonNegativeNumber);
  sub->add_option("--tokens", tokens, "Token range A:B on the axis, B not included (heatmap, raster, overlap, addresses)")
      ->type_name("A:B");
  sub->add_option("--beside", figure.beside,
                  "Another trace whose router stands beside this one (raster; its own best head; may be repeated)")
      ->type_name("TRACE.h5")
      ->expected(1)
      ->take_all();
  sub->add_option("--quantity", figure.quantity,
                  "What the heatmap shows: write-strength, route-weight, log-gate, survival, survival-of, "
                  "read-weight, read-attribution; of --kind overlap: overlap, induced, against, difference; of --kind addresses: access, factors, digits, mass");
  const char* comparison = "Comparison (--kind compare; overlap)";
  sub->add_option("--compare", figure.compare, "The second trace, B; A is the first")->type_name("B.h5")->group(comparison);
  sub->add_option("--run-b", figure.run_b, "Which run of B, from 0")->check(CLI::NonNegativeNumber)->group(comparison);
  sub->add_option("--layer-b", figure.layer_b, "Layer of B (default: of its best head)")->check(CLI::NonNegativeNumber)->group(comparison);
  sub->add_option("--head-b", figure.head_b, "Head of B (default: its best)")->check(CLI::NonNegativeNumber)->group(comparison);
  sub->add_option("--layout", figure.compare_layout, "How A and B are drawn")
      ->check(CLI::IsMember({"stacked", "side-by-side", "overlay", "difference"}))
      ->capture_default_str()
      ->group(comparison);
  sub->add_option("--ranges", figure.ranges, "Colour ranges (default: shared within one family)")
      ->check(CLI::IsMember({"separate", "shared"}))
      ->group(comparison);
  sub->add_option("--map", figure.map, "Colour map: cividis, viridis, magma, batlow, grey");
  sub->add_option("--theme", figure.theme, "Colours of the figure")
      ->check(CLI::IsMember({"light", "dark"}))
      ->capture_default_str();
  sub->add_option(
         "--size", figure_size,
         "Width and height in pixels at 96 dpi, 640x400 for 17 x 10.6 cm; default: the figure's own size")
      ->check(sizeCheck());
  sub->add_option("--dpi", figure.dpi, "Resolution of PNG files")
      ->check(CLI::Range(10.0, 2400.0))
      ->capture_default_str();
  sub->add_flag("--count-from-one", figure.count_from_one,
                "Axis titles count layers and heads from 1, as printed in the paper");
  sub->add_flag("--selection", figure.selection, "Keep the marks of the selected slot and token");
  sub->add_flag("--no-caption", figure.no_caption, "Leave out the line with model, prompt and settings");
  sub->add_flag("--csv", figure.csv, "Also write the figure's data as CSV beside it");
  sub->add_flag("--force", figure.force, "Replace existing files");
  try {
    app.parse(argc, argv);
    if (!size.empty()) launch.size = parseSize(size);
    if (sub->parsed()) {
      if (!figure_size.empty()) figure.size = parseSize(figure_size);
      if (!tokens.empty()) {
        std::pair<long long, long long> range;
        if (const std::string wrong = parseRange(tokens, range); !wrong.empty())
          throw CLI::ValidationError("--tokens", wrong);
        figure.tokens = range;
      }
      launch.figure = figure;
    }
  } catch (const CLI::ParseError& e) {
    launch.exit_code = app.exit(e) == 0 ? 0 : 2;
  }
  return launch;
}

bool choosePlatform(const Launch& launch) {
  const bool display =
      !qEnvironmentVariableIsEmpty("DISPLAY") || !qEnvironmentVariableIsEmpty("WAYLAND_DISPLAY");
  if (qEnvironmentVariableIsSet("QT_QPA_PLATFORM")) return true;
  const bool needs_display = !launch.figure && launch.screenshot.empty();
  if (!needs_display) {
    // The same letters whether or not somebody is logged in.
    qputenv("QT_QPA_PLATFORM", "offscreen");
    // Qt's own fallback, named here so that it says nothing about it on every start.
    if (!qEnvironmentVariableIsSet("XDG_RUNTIME_DIR"))
      qputenv("XDG_RUNTIME_DIR", QByteArray("/tmp/runtime-") + QByteArray::number(qulonglong(getuid())));
    return true;
  }
  if (display) return true;
  std::fprintf(stderr,
               "slotscope: no display (neither DISPLAY nor WAYLAND_DISPLAY is set), so no window can open.\n"
               "Figures need none: slotscope figure --help. Runs need none: slotscope-cli run --help.\n");
  return false;
}

}  // namespace slotscope::app
