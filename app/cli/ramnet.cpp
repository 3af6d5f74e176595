#include "app/cli/ramnet.h"

#include <CLI/CLI.hpp>

#include "app/cli/help.h"

namespace slotscope::cli {

void add_ramnet(CLI::App& app, Console& console, Action& chosen) {
  CLI::App* group = app.add_subcommand("ramnet", "Soft addresses: theory, value fields, overlap of RAM-Net");
  group->require_subcommand(1);
  group->get_formatter()->column_width(30);
  add_ramnet_theory(*group, console, chosen);
  add_ramnet_overlap(*group, console, chosen);
  add_ramnet_valuefield(*group, console, chosen);
}

}  // namespace slotscope::cli
