// An opened checkpoint as the window keeps it.
#pragma once

#include <QString>
#include <memory>
#include <string>

#include "core/engine/session.h"
#include "core/formats/checkpoint.h"
#include "core/formats/checkpoint_summary.h"
#include "core/formats/tokenizer.h"

namespace slotscope::app {

// info is null when it cannot be run; `why` says so and the file is shown all the same.
struct OpenCheckpoint {
  QString path, name;
  std::shared_ptr<const formats::Checkpoint> checkpoint;
  formats::CheckpointSummary summary;
  formats::OpenOptions options;  // as it was opened
  std::shared_ptr<const engine::ModelInfo> info;
  QString why;
  std::shared_ptr<const formats::Tokenizer> tokenizer;
  QString tokenizer_why;
  std::string flavour;  // as asked for; "" detect
};

}  // namespace slotscope::app
