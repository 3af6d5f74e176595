// Softmax attention, full or with a window: hybrid layers, transformer, FoX and the Hugging Face families (spec: model-zoo
// 1.6, 1.10, 13, 16).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/engine/model/blocks.h"
#include "core/engine/model/mixer.h"
#include "core/engine/model/numerics.h"
#include "core/engine/model/weights.h"
#include "core/engine/session.h"
#include "core/formats/config.h"

namespace slotscope::engine {

struct AttentionOptions {
  int layer = 0;
  int64_t hidden = 0, heads = 0, kv_heads = 0, head_dim = 0;
  int64_t window = 0;  // tokens seen, the current one included; 0: full causal
  bool use_rope = true;
  Rope rope;
  double norm_eps = 1e-5;  // of q_norm and k_norm
  bool forget = false;     // FoX: logit(t,s) += sum of the log forget gates of s+1..t
  std::string family = "attention";
};
struct AttentionWeights {
  at::Tensor q, k, v, o;                      // [H d, D], [H_kv d, D], [H_kv d, D], [D, H d]
  at::Tensor q_bias, k_bias, v_bias, o_bias;  // undefined: none
  at::Tensor q_norm, k_norm;  // before RoPE; [d] of each head, or over the full width (older layout); undefined: none
  bool grouped_norm = false;  // the full-width weight norms each head by itself (FoX)
  at::Tensor forget, forget_bias;  // [H,D], [H]
  at::Tensor gate;                 // [H d,D]: sigmoid output gate of FoX; undefined: none
};

LayerShape attention_shape(const AttentionOptions&);
// The row of the memory table for layers of `windows` [layers], 0 being full (spec: model-zoo 17).
MemoryCard attention_card(const std::vector<int64_t>& windows);

// State: keys (after RoPE) and values of the tokens that may still be seen, [B,S,H_kv,d], with a window the last W of them;
// with forget gates their running sum of logs [B,S,H] in float64 as well.
std::unique_ptr<Mixer> make_softmax_attention(const AttentionOptions&, AttentionWeights, const Numerics&);

// q_proj, k_proj, v_proj and o_proj below `prefix`, with the biases that `config` says.
AttentionOptions attention_options(const formats::AttentionConfig& config, int64_t hidden, int layer);
AttentionWeights attention_weights(const std::string& prefix, const formats::AttentionConfig& config,
                                   const Weights& weights);

}  // namespace slotscope::engine
