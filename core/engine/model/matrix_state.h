// Matrix-state memories (spec: model-zoo 6 to 12, 15, 17): the scan as an operation on tensors, and what the mixers that
// use it share. A slot is a value channel: one row of d_k numbers.
#pragma once

#include <ATen/ATen.h>

#include "core/engine/model/mixer.h"
#include "core/engine/model/qkv.h"

namespace slotscope::engine {

struct MatrixStateInput {
  at::Tensor query;      // [B,T,Q,d_k]
  at::Tensor key;        // [B,T,K,d_k], K divides R; consecutive state heads share a key
  at::Tensor value;      // [B,T,R,d_v]
  at::Tensor log_decay;  // undefined: none; [B,T,R], or per key channel [B,T,R,d_k]
  at::Tensor strength;   // undefined: 1; [B,T,R]
  bool delta = false;    // content v - S^T k with the decayed state
  double scale = 1;
  at::Tensor state;      // [B,R,d_v,d_k] before the segment
};
struct MatrixStateOutput {
  at::Tensor output;  // [B,T,max(Q,R),d_v], dtype of the state
  at::Tensor state;   // after the segment
};
MatrixStateOutput matrix_state_scan(const MatrixStateInput&);

struct MatrixSizes {
  std::string family;
  int64_t hidden = 0;
  int64_t heads = 0, state_heads = 0;  // H query heads, R heads that keep a state
  int64_t d_k = 0, d_v = 0;
  double scale = 1;
};
// dense; slots are the value channels. A family adds log_decay and write_strength where it has them.
LayerShape matrix_shape(const MatrixSizes&);

// State: the matrix [B,R,d_v,d_k] in the exact dtype, what a family carries beside it, then the tails of convolutions.
class MatrixMixer : public LayerMixer {
 public:
  MatrixMixer(LayerShape shape, int layer, const Numerics& numerics, int64_t tail_elements)
      : LayerMixer(std::move(shape), layer, numerics), tails_(tail_elements) {}
  at::Tensor state_field(const MixerState& state, Field field) const override;
  int64_t state_bytes(int64_t tokens) const override;
  int64_t work_bytes(int64_t tokens, int64_t before) const override;

 protected:
  at::Tensor empty_matrix(int64_t batch) const;
  // Tells query, key, value, log_decay and write_strength as far as they are there, runs the scan, replaces `matrix`. The
  // family tells read_out, which may be more than the scan's output.
  at::Tensor scan(MatrixStateInput in, at::Tensor& matrix, Observer& observer) const;

  // W_out concat_h(RMS_eps(o_h; norm) * silu((W_gate x)_h)) of o [B,T,H,d_v]; without a gate where it is undefined
  // (spec: model-zoo 6.3, 9, 10, 11).
  at::Tensor gated_output(const at::Tensor& x, const at::Tensor& o, const at::Tensor& norm, double eps,
                          const at::Tensor& gate, const at::Tensor& out) const;

  int64_t tails_;
};

}  // namespace slotscope::engine
