// Finds and loads slotscope-engine.so.
#pragma once

#include "app/engine_module/engine_api.h"

namespace slotscope::app {

// Loads the module at the first call, which takes a second or two: call it on a worker. Looks in
// SLOTSCOPE_ENGINE (a file), beside the program and in ../lib/slotscope. Throws Error (file, what the loader
// said, what to do); safe from several threads.
const EngineApi& engineApi();

}  // namespace slotscope::app
