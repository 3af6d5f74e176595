// Which dtype each quantity of a run is computed in (spec: architecture "Numerics").
#pragma once

#include <ATen/ATen.h>

namespace slotscope::engine {

struct Numerics {
  at::Device device = at::kCPU;
  at::ScalarType compute = at::kFloat;  // weights, projections, residual
  at::ScalarType exact = at::kFloat;    // decay, exp, states, both softmaxes, norm statistics, RoPE angles:
                                      // float64 in float64 runs, else float32
  at::ScalarType router =
      at::kFloat;  // router logits, scores, selection, route weights; bfloat16 only with --router-dtype bf16

  at::TensorOptions options(at::ScalarType type) const {
    return at::TensorOptions().dtype(type).device(device);
  }
};

}  // namespace slotscope::engine
