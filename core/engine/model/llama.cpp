// LLaMA (spec: model-zoo 16.1): softmax attention with RoPE in every layer, full.
#include "core/engine/model/families.h"
#include "core/engine/model/huggingface.h"

namespace slotscope::engine {

std::unique_ptr<FamilyModel> read_llama(const formats::Checkpoint& checkpoint, const std::string& flavour) {
  require_flavour(flavour, "", "llama");
  HuggingFaceConfig c;
  LlamaReader r(checkpoint, c, {.vocab = 32000, .hidden = 4096, .layers = 32, .heads = 32, .intermediate = 11008});
  c.every.qkv_bias = c.every.o_bias = r.cfg.get_bool("attention_bias", false);
  c.mlp_bias = r.cfg.get_bool("mlp_bias", false);
  r.read_windows(std::nullopt, [](int64_t) { return false; });
  return r.model();
}

}  // namespace slotscope::engine
