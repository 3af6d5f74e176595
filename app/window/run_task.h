// One run on the engine's worker, and what it will cost.
#pragma once

#include <QString>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/window/controller.h"
#include "app/window/problem.h"
#include "app/window/run_settings.h"

namespace slotscope::app {

// The loaded model. Touched on the engine's worker alone.
struct EngineState {
  std::shared_ptr<const formats::Checkpoint> checkpoint;
  engine::LoadOptions options;
  std::unique_ptr<engine::Model> model;
};

struct RunResult {
  std::optional<Problem> failure;
  std::optional<engine::RunOutcome> outcome;
  std::shared_ptr<OpenTrace> trace;  // null when nothing readable was left
  std::vector<std::string> notes;
  std::vector<std::string> warnings;  // odd rows of an imported file
  double seconds = 0;
};

// Everything of one run; copied to the worker.
struct RunTask {
  std::shared_ptr<const OpenCheckpoint> checkpoint;
  RunSettings settings;
  std::string file;
  std::shared_ptr<Progress> progress;
  std::shared_ptr<EngineState> state;
  // On the engine's worker. Never throws.
  RunResult operator()() const;
};

struct CostEstimate {
  QString text;
  bool fits = true;
};
// From the loaded model when it is the one asked for (engine worker only).
std::optional<CostEstimate> estimateLoaded(const RunSettings&, const OpenCheckpoint&, const EngineState&);
// From shapes alone: what the routes of this many tokens take.
CostEstimate estimateRough(const RunSettings&, const engine::ModelInfo&, qint64 tokens,
                           double seconds_per_token);

}  // namespace slotscope::app
