// Qwen2 and Qwen2.5 (spec: model-zoo 16.2): LLaMA with biases on query, key and value, and layers that may slide.
#include "core/engine/model/families.h"
#include "core/engine/model/huggingface.h"

namespace slotscope::engine {

std::unique_ptr<FamilyModel> read_qwen2(const formats::Checkpoint& checkpoint, const std::string& flavour) {
  require_flavour(flavour, "", "qwen2");
  HuggingFaceConfig c;
  LlamaReader r(checkpoint, c,
                {.vocab = 151936, .hidden = 4096, .layers = 32, .heads = 32, .intermediate = 22016, .kv_heads = 32});
  c.every.qkv_bias = true;
  const bool slides = r.cfg.get_bool("use_sliding_window", false);
  const int64_t first = r.cfg.get_int("max_window_layers", 28, 0);
  r.read_windows(r.cfg.get_optional_int("sliding_window", 4096, 1, int64_t(1) << 31),
                 [=](int64_t layer) { return slides && layer >= first; });
  return r.model();
}

}  // namespace slotscope::engine
