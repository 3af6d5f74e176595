// Mistral (spec: model-zoo 16.3): LLaMA without biases, whose layers all slide (v0.1) or are all full (later ones).
#include "core/engine/model/families.h"
#include "core/engine/model/huggingface.h"

namespace slotscope::engine {

std::unique_ptr<FamilyModel> read_mistral(const formats::Checkpoint& checkpoint, const std::string& flavour) {
  require_flavour(flavour, "", "mistral");
  HuggingFaceConfig c;
  LlamaReader r(checkpoint, c,
                {.vocab = 32000, .hidden = 4096, .layers = 32, .heads = 32, .intermediate = 14336, .kv_heads = 8});
  r.read_windows(r.cfg.get_optional_int("sliding_window", 4096, 1, int64_t(1) << 31), [](int64_t) { return true; });
  return r.model();
}

}  // namespace slotscope::engine
