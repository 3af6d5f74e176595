// The engine as the window calls it: loaded with LibTorch when a checkpoint is first opened, on a worker.
// Looking at a trace never loads it: 500 MB and a second of start less.
#pragma once

#include "core/engine/session.h"

namespace slotscope::app {

struct EngineApi {
  int version;  // engine_api_version of the module; another one is refused
  engine::ModelInfo (*inspect)(const formats::Checkpoint&, const std::string& flavour);
  std::vector<engine::DeviceInfo> (*devices)(std::string* why_no_cuda);
  std::unique_ptr<engine::Model> (*load)(std::shared_ptr<const formats::Checkpoint>,
                                         const engine::LoadOptions&, Progress&);
};

// Raised whenever core/engine/session.h changes.
constexpr int engine_api_version = 1;

}  // namespace slotscope::app

extern "C" const slotscope::app::EngineApi* slotscope_engine_api();
