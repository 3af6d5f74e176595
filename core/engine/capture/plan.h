// A CapturePlan resolved for one prompt: every dataset of the run with its shape, and where each field goes
// (spec: architecture "Trace file", "Capture and command line semantics").
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/capture/field.h"
#include "core/engine/model/mixer.h"
#include "core/engine/session.h"

namespace slotscope::engine {

using Ranges = std::vector<std::pair<int64_t, int64_t>>;  // half-open, ascending; empty: everything

// Datasets of one layer: position in RunSpec::datasets, or -1.
struct LayerCapture {
  std::array<int, kFieldCount> dataset;
  int token = -1, read_token = -1, state_token = -1;
  bool all_heads = true;  // else the two lists below, by index, possibly empty
  std::vector<int64_t> heads, route_heads;
  LayerCapture() { dataset.fill(-1); }
  int of(Field field) const { return dataset[size_t(field)]; }
};

struct RunCapture {
  trace::RunSpec spec;
  std::vector<LayerCapture> layers;  // one per layer of the model
  int ids = -1, position = -1, roles = -1, special = -1, bytes = -1, byte_offsets = -1;
  int output_ids = -1, output_text = -1, top_ids = -1, top_logprob = -1, top_bytes = -1, logits = -1, logits_token = -1;
  Ranges tokens;            // --tokens
  bool read_query = false;  // the last prompt token and every answer token
  bool read_all = false;
  Ranges read_at;
  bool state_end = false;
  std::vector<int64_t> state_at;  // ascending
  int64_t planned = 0;            // T if generation runs to its limit
  trace::ElementType real = trace::ElementType::f32;
};

struct ModelShape {
  std::vector<LayerShape> layers;
  int64_t vocab = 0;
  bool float64 = false;
};

// generate: tokens to generate at most. Notes (fields that a layer does not have, positions beyond the end)
// are appended without repeats. Throws Error(usage) for layers, heads, read_at or state_at that do not exist.
RunCapture plan_run(const ModelShape& model, const formats::Prompt& prompt, const RunOptions& options,
                    int64_t generate, std::vector<std::string>& notes);
// Bytes of the run's datasets when every expected row comes, before compression.
int64_t planned_bytes(const trace::RunSpec& spec);

}  // namespace slotscope::engine
