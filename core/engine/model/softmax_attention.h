// Softmax attention, full or with a window: hybrid layers now, transformer, Llama and Qwen later (spec:
// model-zoo 1.6, 1.10).
#pragma once

#include <memory>
#include <string>

#include "core/engine/model/mixer.h"
#include "core/engine/model/numerics.h"

namespace slotscope::engine {

struct AttentionOptions {
  int layer = 0;
  int64_t hidden = 0, heads = 0, kv_heads = 0, head_dim = 0;
  int64_t window = 0;  // tokens seen, the current one included; 0: full causal
  bool use_rope = true;
  double rope_theta = 10000;
  double norm_eps = 1e-5;  // of q_norm and k_norm
};
struct AttentionWeights {
  at::Tensor q, k, v, o;              // [H d, D], [H_kv d, D], [H_kv d, D], [D, H d]
  at::Tensor q_bias, k_bias, v_bias;  // undefined: none
  at::Tensor q_norm, k_norm;          // [d], before RoPE; undefined: none
};

// State: keys (after RoPE) and values of the tokens that may still be seen, [B,S,H_kv,d]; with a window the
// last W of them.
std::unique_ptr<Mixer> make_softmax_attention(const AttentionOptions&, AttentionWeights, const Numerics&);

}  // namespace slotscope::engine
