// slotscope-cli sweep: several models on the same prompts, against length and depth.
#pragma once

#include <string>
#include <vector>

#include "app/cli/console.h"
#include "app/cli/run_options.h"
#include "core/trace/sweep_file.h"

namespace CLI {
class App;
}

namespace slotscope::cli {

struct SweepCommandSettings {
  std::vector<std::string> folders;
  std::string out, task = "passkey", lengths, length_counts = "prompt", depths = "uniform", haystack = "noise";
  int64_t seeds = 25;
  uint64_t seed = 0;
  double threshold = 0, tau = 0;
  bool no_bos = false, force = false, ignore_index = false, csv = false;
  std::string layers;
  double confidence = 0.95;
  int64_t segment = 0;
  double save_every = 10;  // seconds
  double max_gpu_mem = 0;
  RunSettings model;  // model options only
};

void add_sweep_options(CLI::App& app, SweepCommandSettings& settings);
// Exit 0 complete, 130 cancelled (the same command goes on).
int run_sweep(const SweepCommandSettings&, const Console&);
// The table of a file as text, JSON or CSV on standard output.
void print_sweep(const trace::Sweep& sweep, const std::string& file, double confidence, bool csv, const Console&);

}  // namespace slotscope::cli
