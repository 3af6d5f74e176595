// Building blocks shared by all families (spec: model-zoo 1). Functions take [B,T,...], allocate their result
// and change nothing in place.
#pragma once

#include <ATen/ATen.h>

#include "core/engine/model/numerics.h"

namespace slotscope::engine {

// W x + b for x [..., in], W [out, in]; b may be undefined.
at::Tensor linear_map(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {});
// The same with operands and result in `type`: projections whose result must not be rounded to the compute
// dtype (router logits, decay). The weight keeps the values it has in its own dtype.
at::Tensor linear_in(at::ScalarType type, const at::Tensor& x, const at::Tensor& weight,
                     const at::Tensor& bias = {});

// RMS_eps over the last axis, eps inside the root, statistics in `exact` (spec: model-zoo 1.2). weight may be
// undefined. The result has the dtype of x.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, at::ScalarType exact);
// The same, left in `exact`.
at::Tensor rms_norm_exact(const at::Tensor& x, const at::Tensor& weight, double eps, at::ScalarType exact);

// Half-split rotary embedding of x [B,T,H,d] at positions first .. first+T-1, angles in `exact` in the
// reference's order of operations: a double-precision angle does not match it at long positions (spec:
// model-zoo 1.4).
at::Tensor rope(const at::Tensor& x, int64_t first, double theta, at::ScalarType exact);

// W_down(silu(W_gate x) * (W_up x)) (spec: model-zoo 1.7).
struct GatedMlp {
  at::Tensor gate, up, down;
  at::Tensor operator()(const at::Tensor& x) const;
};

}  // namespace slotscope::engine
