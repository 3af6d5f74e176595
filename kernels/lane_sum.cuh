// Sums over the lanes of a warp, in an order that does not depend on anything.
#pragma once

namespace slotscope::kernels {
namespace {

// The same sum in every lane of a group, added in a fixed tree.
template <int kLanes, class Real>
__device__ Real group_sum(Real x) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step, kLanes);
  return x;
}

}  // namespace
}  // namespace slotscope::kernels
