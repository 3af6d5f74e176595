// The engine's public face: inspect a checkpoint, load it on a device, run prompts with capture. No LibTorch type here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/formats/checkpoint.h"
#include "core/formats/prompt.h"
#include "core/formats/tokenizer.h"
#include "core/progress.h"
#include "core/trace/sink.h"

namespace slotscope::engine {

struct DeviceInfo {
  std::string name;         // "cpu", "cuda:0"
  std::string description;  // "NVIDIA H200, 139 GB", "2 cores"
  int64_t total_bytes = 0, free_bytes = 0;
};
// CPU first, then every usable CUDA device. `why_no_cuda` (may be null) gets the reason when there is none: build without
// CUDA, no driver, driver too old (both versions), no device. Never throws.
std::vector<DeviceInfo> devices(std::string* why_no_cuda = nullptr);

// One row of the memory table (spec: model-zoo 17), in words and as formulas: S is the memory, r the route, x_t the layer's
// input; "_x" and "_{xy}" are indices, "^x" exponents.
struct MemoryCard {
  std::string router, content, decay, readout;
  struct Formulas {
    std::string router, content, decay, readout;
  } formulas = {};
};

struct LayerInfo {
  int index = 0;
  std::string mixer;       // "raven", "attention"
  std::string route_kind;  // sparse, dense, ring, append
  int64_t heads = 0, route_heads = 0, slots = 0, top_k = 0, d_k = 0, d_v = 0;
  int64_t state_bytes = 0;            // float32 state of one prompt; attention: per token
  std::string note;                   // "window 4, RoPE theta 10000"
  MemoryCard card;                    // of this layer: attention layers of hybrids have their own
};

// What config.json and the tensor names and shapes say; no weight is read.
struct ModelInfo {
  std::string model_type, family, flavour, flavour_reason;
  bool flavour_matters = false;  // guessed, and the other flavour would give other numbers
  int64_t hidden_size = 0, vocab_rows = 0, parameters = 0;
  bool tied = false;
  std::vector<LayerInfo> layers;
  MemoryCard card;  // of the family's mixer
  std::string config_json;
  std::string tensor_digest;           // SHA-256 of the sorted lines "name dtype shape"
  std::vector<std::string> notes;      // facts worth a line
  std::vector<std::string> warnings;   // things that may be wrong
  struct ConfigRow { std::string key, value, source; };  // source: "config.json", "default", "exapnd_k", ...
  std::vector<ConfigRow> config;       // effective values
};
// flavour: "" detect, "fla", "goombalab", "nope" (a transformer without RoPE). Throws Error for unknown model_type, unsupported options (by name), missing or
// misshapen tensors (name, found and expected shape).
ModelInfo inspect(const formats::Checkpoint& checkpoint, const std::string& flavour = "");

struct LoadOptions {
  std::string device = "cpu";            // cpu, cuda, cuda:N
  std::string dtype = "float32";         // float32, bfloat16, float64
  std::string router_dtype = "float32";  // float32 or bf16 (reference behaviour); only with dtype bfloat16
  std::string flavour;                   // "", fla, goombalab, nope
  bool tf32 = false;
};

// What to capture (spec: architecture "Capture and command line semantics").
struct CapturePlan {
  std::vector<std::string> fields;   // names from core/fields.h
  std::vector<int> layers;           // empty: all
  std::vector<int> heads;            // empty: all; query heads and route heads by their own index
  std::vector<std::pair<int64_t, int64_t>> tokens;  // half-open, empty: all
  std::string read_at = "query";     // query | all | A:B[,C:D]
  std::string state_at = "end";      // end | none | A,B: token positions
  std::string store = "float32";     // float16 halves route_weight only
};

struct RunOptions {
  CapturePlan plan;
  int64_t segment = 0;      // tokens per segment; 0: chosen so that a cancel takes under a second
  int stop_after = -1;      // last layer to run (included); -1: all, to the logits
  int64_t generate = -1;    // -1: what the prompt's task takes, or answer tokens + 1 with a known answer, else 0
  double temperature = 0;   // 0: greedy
  double top_p = 1;
  uint64_t seed = 0;        // of sampling
  int64_t candidates = 4;   // C of output/top_ids
  bool unused_rows = false; // rows without a token may be chosen and listed too (only matters with a tokenizer)
  double max_gpu_mem = 0;   // GiB; 0: what is free
};

struct Estimate {
  int64_t file_bytes = 0;     // before compression
  int64_t memory_bytes = 0;   // on the run's device, weights included
  int64_t available_bytes = 0;
  double seconds = 0;         // rough; 0: unknown
  bool fits = true;
  std::string advice;         // when it does not fit: a setting that does
};

struct RunOutcome {
  trace::Status status = trace::Status::complete;
  struct PerRun {
    int64_t tokens = 0;                 // fed
    std::vector<int32_t> output_ids;
    std::string output_text;
    std::optional<bool> exact;          // known answer only
  };
  std::vector<PerRun> runs;
  int64_t ties = 0;                     // tied cuts over all layers, heads, tokens
  double seconds = 0;
  std::vector<std::string> warnings;    // numbers that cannot be trusted: "values that are not finite ... from token 6 on"
  std::vector<std::string> notes;       // "layer 1 is attention: no routes", ...
};

class Model {
 public:
  // Stage "loading weights". Throws Error (device missing names which exist; too little memory names a setting that fits).
  static std::unique_ptr<Model> load(std::shared_ptr<const formats::Checkpoint> checkpoint, const LoadOptions& options,
                                     Progress& progress);
  virtual ~Model() = default;
  virtual const ModelInfo& info() const = 0;
  virtual const LoadOptions& options() const = 0;
  virtual Estimate estimate(const std::vector<formats::Prompt>& prompts, const RunOptions& options) const = 0;
  // Runs every prompt (runs 0000, 0001, ...) through the layers in segments with carried state; `tokenizer` may be null (token
  // ids only). Stages "running", "generating", "writing". A cancel ends within one layer of one segment and returns cancelled
  // with a readable sink. Errors: sink.finish(failed), then Error.
  virtual RunOutcome run(const std::vector<formats::Prompt>& prompts, const formats::Tokenizer* tokenizer,
                         const RunOptions& options, trace::Sink& sink, Progress& progress) = 0;
};

}  // namespace slotscope::engine
