// Models that nobody trained: which tensors a config.json asks for, and their random weights. No LibTorch type here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/session.h"
#include "core/formats/checkpoint_writer.h"
#include "core/formats/random_weights.h"

namespace slotscope::engine {

struct NewModel {
  ModelInfo info;                                // as inspect() of the written folder
  std::vector<formats::ExpectedTensor> tensors;  // in the order of the model
  std::vector<formats::DType> dtypes;            // of each, as stored
  uint64_t bytes = 0;                            // of all
  formats::RandomModel random;
};

// What a model with this config.json has, by its family's own rules; `folder` stands in messages. Any model_type that runs.
// Throws Error as inspect(), and for sizes that no file holds.
NewModel plan_model(const std::string& config_text, const std::filesystem::path& folder, const std::string& flavour, formats::DType dtype);

// Writes `model` with random weights (formats/random_weights.h): config.json, weights, `texts` and `copies` beside them. The same
// arguments give the same bytes. Errors, progress and cancel as formats::write_checkpoint.
formats::WrittenCheckpoint write_random_model(const std::filesystem::path& folder, const NewModel& model, uint64_t seed,
                                              std::vector<std::pair<std::string, std::string>> texts,
                                              std::vector<std::filesystem::path> copies, const formats::CheckpointWriteOptions& options,
                                              Progress& progress);

// The model_types that run, in the order of the registry.
std::vector<std::string> model_types();

}  // namespace slotscope::engine
