// The desktop program's command line. Decided before any application object exists: figures and pictures need
// no display.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace slotscope::app {

// slotscope figure TRACE.h5 ...
struct FigureCommand {
  std::string trace, kind, out;
  int run = 0;
  std::optional<int> layer, head, slot;                   // not given: what the window would select
  std::optional<std::pair<long long, long long>> tokens;  // half-open
  std::optional<long long> token;
  std::string compare;  // B of --kind compare
  int run_b = 0;
  std::optional<int> layer_b, head_b;  // not given: the best head of B
  std::string compare_layout = "stacked", ranges;
  std::vector<std::string> beside;  // traces
  std::string quantity, map, theme = "light";
  std::optional<std::pair<int, int>> size;  // logical pixels at 96 dpi
  double dpi = 300;
  bool count_from_one = false, csv = false, force = false, no_caption = false, selection = false;
};

struct Launch {
  std::vector<std::string> paths;  // folders, .safetensors, .h5
  std::string theme;               // "", light, dark, system
  // Pictures: opens, waits until nothing runs, saves a grab, ends.
  std::string compare;  // a second trace to compare with the first
  std::string screenshot, view, compare_layout;
  std::pair<int, int> size{1280, 800};
  std::optional<FigureCommand> figure;
  std::optional<int> exit_code;  // set: print nothing more and end with it
};

// Prints help, version and usage errors itself (then exit_code is set: 0 or 2).
Launch parseCommandLine(int argc, char** argv);
// Chooses the offscreen platform when there is no display and none is needed. Returns false, having said so,
// when a window was asked for and there is no display.
bool choosePlatform(const Launch& launch);
// "1280x800". Throws std::runtime_error naming what is wrong.
std::pair<int, int> parseSize(const std::string& text);

// Exit code 0, 1 (input) or 2 (usage). Needs an application object.
int runFigure(const FigureCommand& command);
int runWindow(const Launch& launch);

}  // namespace slotscope::app
