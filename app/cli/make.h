// slotscope-cli make: a checkpoint with random weights, of any family that runs and of any size (resources/cli.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/cli/console.h"

namespace CLI {
class App;
}

namespace slotscope::cli {

struct MakeSettings {
  std::string folder, preset, config, model_type, flavour, tokenizer, dtype = "bfloat16";
  std::vector<std::string> set;  // key=value
  uint64_t seed = 0;
  double shard_gb = 5;
  bool no_tokenizer = false, force = false, dry_run = false;
};

void add_make_options(CLI::App& app, MakeSettings& settings);
// Exit 130 when cancelled: nothing is left then.
int run_make(const MakeSettings&, const Console&);

}  // namespace slotscope::cli
