// What the Hugging Face families share (spec: model-zoo 16): names, keys and RoPE, and the whole model of llama, qwen2 and
// mistral, which differ in their defaults, biases and windows.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/engine/model/family.h"
#include "core/engine/model/softmax_attention.h"
#include "core/formats/skeleton.h"

namespace slotscope::engine {

struct HuggingFaceConfig : formats::ModelConfig {
  formats::AttentionConfig every;  // layer; its window is that of the layers that slide
  std::vector<int64_t> windows;    // [layers], 0: full
  Rope rope;
};

struct HuggingFaceDefaults {
  int64_t vocab, hidden, layers, heads, intermediate;
  std::optional<int64_t> kv_heads = std::nullopt;  // nothing: as many as heads
};

// Rope of the settings in a checkpoint; `width`: rotated channels, 0 for all.
Rope rope_of(const formats::RopeSettings& settings, int64_t width = 0);

// Reads the keys of llama in its order; a family sets its biases and windows before model().
class LlamaReader : public formats::ModelReader {
 public:
  // Sizes, heads and RoPE into `config`, which must outlive the reader.
  LlamaReader(const formats::Checkpoint& checkpoint, HuggingFaceConfig& config, const HuggingFaceDefaults& defaults);
  // layer_types where config.json has it, else the layers that `slides` says. `window` nothing: no layer may slide.
  void read_windows(std::optional<int64_t> window, const std::function<bool(int64_t layer)>& slides);
  // The remaining keys; the model takes the config.
  std::unique_ptr<FamilyModel> model();

 private:
  HuggingFaceConfig& config_;
  HuggingFaceDefaults defaults_;
};

}  // namespace slotscope::engine
