// What the families of the delta rule share (spec: model-zoo 9, 10, 14, 15): S~ = keep S, e = v - S~^T k, S = S~ + beta k e^T.
#pragma once

#include "core/engine/model/matrix_state.h"

namespace slotscope::engine {

// Query and key of `key_heads` heads, each with L2 norm 1, and the value on the state's heads. Strength and decay are left
// to the family.
MatrixStateInput delta_input(const Qkv& qkv, int64_t key_heads, const MatrixSizes& sizes, at::ScalarType exact);
// beta = sigmoid(W x), twice that where negative eigenvalues are allowed. [B,T,heads]
at::Tensor delta_strength(const at::Tensor& x, const at::Tensor& weight, bool negative, at::ScalarType exact);
// One log decay per head: -exp(A_log) softplus(W x + dt_bias). [B,T,heads]
at::Tensor head_log_decay(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& a_log,
                          const at::Tensor& dt_bias, at::ScalarType exact);

}  // namespace slotscope::engine
