// Building blocks shared by all families (spec: model-zoo 1). Functions take [B,T,...], allocate their result
// and change nothing in place.
#pragma once

#include <ATen/ATen.h>

#include <string>

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
// x / sqrt(sum x^2 + 1e-6) over the last axis, in `exact`: L2N of model-zoo 1.2.
at::Tensor l2_norm_exact(const at::Tensor& x, at::ScalarType exact);

// The output of most mixers: W_out concat_h(RMS_eps(o_h; norm) * gate_h) of o [B,T,H,d_v]; gate [B,T,H d_v] as it multiplies,
// undefined: none. The result has the dtype of W_out.
at::Tensor head_output(const at::Tensor& o, const at::Tensor& norm, double eps, const at::Tensor& gate,
                       const at::Tensor& out, at::ScalarType exact);
// Feature maps that configs name: relu, swish or silu, sigmoid, sqrelu, gelu (erf form; gelu_tanh), logsigmoid; "": none.
at::Tensor feature_map(const std::string& name, const at::Tensor& z);

// The norms of a block: RMS, or LN_eps with bias (gpt_neox).
struct Norm {
  at::Tensor weight, bias;
  double eps = 1e-6;
  bool layer_norm = false;
  // The result has the dtype of x.
  at::Tensor operator()(const at::Tensor& x, at::ScalarType exact) const;
};

// Half-split rotary embedding (spec: model-zoo 1.4, 16.1, 16.4).
struct Rope {
  double theta = 10000;
  int64_t width = 0;  // channels that are rotated, from the first; 0: the whole head
  enum class Scaling { none, linear, llama3 } scaling = Scaling::none;
  double factor = 1, low = 1, high = 4, original = 8192;
};
// x [B,T,H,d] at positions first .. first+T-1, angles in `exact` in the reference's order of operations: a
// double-precision angle does not match it at long positions.
at::Tensor rotate(const at::Tensor& x, int64_t first, const Rope& rope, at::ScalarType exact);

// Depthwise causal convolution along time, then silu (spec: model-zoo 1.3): y_t[c] = sum_i w[c,i] x_{t-(K-1)+i}[c].
struct ShortConv {
  at::Tensor weight;  // [C,1,K], exact; undefined: no convolution
  at::Tensor bias;    // [C], may be undefined
  bool silu = true;

  bool defined() const { return weight.defined(); }
  int64_t tail() const { return weight.size(2) - 1; }
  // x [B,T,C] with the K-1 inputs before it in `history` [B,K-1,C], which becomes those of the next segment. The result has
  // the dtype of x.
  at::Tensor operator()(const at::Tensor& x, at::Tensor& history) const;
};

// W_down(silu(W_gate x) * (W_up x)) (spec: model-zoo 1.7); without a gate W_down gelu(W_up x) (16.4).
struct Mlp {
  at::Tensor gate, up, down;
  at::Tensor gate_bias, up_bias, down_bias;  // may be undefined
  bool tanh = false;                         // gelu in its tanh form, not erf
  bool defined() const { return down.defined(); }
  int64_t width() const { return down.defined() ? down.size(1) : 0; }
  at::Tensor operator()(const at::Tensor& x) const;
};

}  // namespace slotscope::engine
