// slotscope-cli ramnet: RAM-Net's theory, value fields and address overlap as commands (resources/cli.md).
#pragma once

#include <functional>

#include "app/cli/console.h"

namespace CLI {
class App;
}

namespace slotscope::cli {

// What the chosen command does, once the options are parsed. Returns an exit code, throws Error.
using Action = std::function<int(const Console&)>;

// Adds the group `ramnet` with its commands; `chosen` becomes the action of the one that was given.
void add_ramnet(CLI::App& app, Console& console, Action& chosen);

// Each adds its command to the group and, in the command's callback, sets `chosen`. Its settings live in the action.
void add_ramnet_theory(CLI::App& group, Console& console, Action& chosen);
void add_ramnet_overlap(CLI::App& group, Console& console, Action& chosen);
void add_ramnet_valuefield(CLI::App& group, Console& console, Action& chosen);

}  // namespace slotscope::cli
