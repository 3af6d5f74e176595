// The causal language model around the mixers: embedding, pre-norm blocks, final norm, head (spec:
// model-zoo 1.8).
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <vector>

#include "core/engine/model/blocks.h"
#include "core/engine/model/mixer.h"
#include "core/engine/model/numerics.h"

namespace slotscope::engine {

struct Block {
  Norm mixer_norm, mlp_norm;
  std::unique_ptr<Mixer> mixer;
  Mlp mlp;                // undefined: blocks without one (mamba)
  bool parallel = false;  // mixer and MLP read the same residual (gpt_neox)
};

class CausalLM {
 public:
  Numerics numerics;
  at::Tensor embedding;  // [V,D]
  Norm final_norm;
  at::Tensor head;  // [V,D], the embedding itself when tied
  std::vector<Block> blocks;

  int64_t vocab_rows() const { return embedding.size(0); }
  std::vector<MixerState> initial_state(int64_t batch) const;
  // ids int64 [B,T] -> residual stream [B,T,D] after block `last_block` (all of them: blocks.size() - 1).
  // `states` become the states after the segment. Asks `go_on(layer)` before every block; undefined when it
  // says no (states are then useless).
  at::Tensor forward(const at::Tensor& ids, std::vector<MixerState>& states, Observer& observer,
                     int last_block, const std::function<bool(int)>& go_on) const;
  // Final norm and head of x [...,D] -> [...,V] in the exact dtype.
  at::Tensor logits(const at::Tensor& x) const;
  int64_t weight_bytes() const { return weight_bytes_; }
  void set_weight_bytes(int64_t bytes) { weight_bytes_ = bytes; }

 private:
  int64_t weight_bytes_ = 0;
};

}  // namespace slotscope::engine
