// The slot memory of families that write every slot at every token: gsa and abc (spec: model-zoo 3, 4, 17).
#pragma once

#include "core/engine/model/mixer.h"
#include "core/engine/model/qkv.h"

namespace slotscope::engine {

struct DenseSlots {
  std::string family;
  int64_t hidden = 0, heads = 0, kv_heads = 0, slots = 0, d_k = 0, d_v = 0;
  double scale = 1;
};
LayerShape dense_slots_shape(const DenseSlots&);

// State: (S^k [B,H_r,M,d_k], S^v [B,H_r,M,d_v]), one more tensor [B,H_r,M] where a family carries it, then the tails of the
// convolutions.
class DenseSlotMixer : public LayerMixer {
 public:
  DenseSlotMixer(const DenseSlots& sizes, int layer, const Weights& weights, int64_t tail_elements)
      : LayerMixer(dense_slots_shape(sizes), layer, weights.numerics()), s_(sizes), tails_(tail_elements) {}
  at::Tensor state_field(const MixerState& state, Field field) const override;
  int64_t state_bytes(int64_t tokens) const override;
  int64_t work_bytes(int64_t tokens, int64_t before) const override;

 protected:
  std::vector<at::Tensor> empty_memory(int64_t batch) const;
  // Writes S[m] = exp(log_keep[m]) S[m] + strength[m] (k, v) in every slot and reads through the softmax over them. query
  // [B,T,H,d_k], key and value on H_r heads, the gates [B,T,H_r,M]; replaces the first two tensors of `memory`. `complement`:
  // strength is 1 - exp(log_keep) to the last bit, and not a number of its own. Tells the fields. -> [B,T,H,d_v] in the exact
  // dtype.
  at::Tensor write_and_read(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                            const at::Tensor& log_keep, const at::Tensor& strength,
                            bool complement, std::vector<at::Tensor>& memory, Observer& observer) const;

  DenseSlots s_;
  int64_t tails_;
};

}  // namespace slotscope::engine
