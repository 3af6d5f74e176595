#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "kernels/route_select.h"

// One warp per row: the scores stay in registers, the best one is found K times (and once more for the gap). Lane l holds slots
// l, l + 32, ...; every comparison is the total order of the CPU's selection, so the order of the search does not matter.
namespace slotscope::kernels {
namespace {

constexpr int kWarps = 8;

// Unsigned keys that order as the scores do: NaN first (all NaN alike, as in the CPU's order), then descending; -0 equals 0.
__device__ uint32_t key_of(float x) {
  if (x != x) return 0xffffffffu;
  const uint32_t bits = __float_as_uint(x + 0.0f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ uint64_t key_of(double x) {
  if (x != x) return ~uint64_t(0);
  const uint64_t bits = uint64_t(__double_as_longlong(x + 0.0));
  return bits >> 63 ? ~bits : bits | uint64_t(1) << 63;
}

constexpr unsigned kAll = 0xffffffffu;
__device__ uint32_t warp_max(uint32_t x) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(kAll, x);
#else
  for (int step = 16; step > 0; step /= 2) x = max(x, __shfl_xor_sync(kAll, x, step));
  return x;
#endif
}
__device__ uint64_t warp_max(uint64_t x) {
  const uint32_t high = warp_max(uint32_t(x >> 32));
  const uint32_t low = warp_max(uint32_t(x >> 32) == high ? uint32_t(x) : 0u);
  return uint64_t(high) << 32 | low;
}

template <class Real, int kEach>
__global__ void __launch_bounds__(kWarps * 32) select_kernel(RouteSelectInput<Real> in, RouteSelectOutput<Real> out) {
  using Key = std::conditional_t<sizeof(Real) == 4, uint32_t, uint64_t>;
  const int64_t row = int64_t(blockIdx.x) * kWarps + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (row >= in.rows) return;
  const Real* const score = in.score + row * in.slots;
  Key key[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) key[i] = i * 32 + lane < in.slots ? key_of(score[i * 32 + lane]) : 0;  // 0: below every score
  uint32_t taken = 0;  // bit i: slot i * 32 + lane is selected or does not exist
#pragma unroll
  for (int i = 0; i < kEach; ++i)
    if (i * 32 + lane >= in.slots) taken |= 1u << i;
  Real last = 0;
  const int searches = in.top_k + (out.gap && in.top_k < in.slots ? 1 : 0);
  for (int rank = 0; rank < searches; ++rank) {
    Key best = 0;
    int at = -1;  // the lane's own best: the lowest of its equal slots
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      if (!(taken >> i & 1) && (at < 0 || key[i] > best)) best = key[i], at = i;
    const Key top = warp_max(at >= 0 ? best : Key(0));
    // Among lanes with that key the lowest slot. No score has key 0, so lanes without a slot do not answer.
    const uint32_t mine = at >= 0 && best == top ? uint32_t(at * 32 + lane) : 0xffffffffu;
    const uint32_t slot = ~warp_max(~mine);
    if (mine == slot) taken |= 1u << at;
    if (rank < in.top_k) {
      if (lane == 0) out.index[row * in.top_k + rank] = int32_t(slot);
      if (rank == in.top_k - 1) last = score[slot];
    } else if (lane == 0) {
      out.gap[row] = last - score[slot];
    }
  }
  if (out.gap && in.top_k == in.slots && lane == 0) out.gap[row] = Real(NAN);
}

template <class Real, int kEach>
void launch(const RouteSelectInput<Real>& in, const RouteSelectOutput<Real>& out, cudaStream_t stream) {
  select_kernel<Real, kEach><<<unsigned((in.rows + kWarps - 1) / kWarps), kWarps * 32, 0, stream>>>(in, out);
}

template <class Real>
void select(const RouteSelectInput<Real>& in, const RouteSelectOutput<Real>& out, void* stream) {
  if (in.slots < 1 || in.slots > kMostSelectSlots || in.top_k < 1 || in.top_k > in.slots)
    throw std::runtime_error("select_routes_cuda: " + std::to_string(in.top_k) + " of " + std::to_string(in.slots) + " slots");
  if (in.rows == 0) return;
  const auto s = static_cast<cudaStream_t>(stream);
  const int each = (in.slots + 31) / 32;
  if (each <= 2)
    launch<Real, 2>(in, out, s);
  else if (each <= 4)
    launch<Real, 4>(in, out, s);
  else if (each <= 8)
    launch<Real, 8>(in, out, s);
  else if (each <= 16)
    launch<Real, 16>(in, out, s);
  else
    launch<Real, 32>(in, out, s);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) throw std::runtime_error(std::string("select_routes_cuda: ") + cudaGetErrorString(error));
}

}  // namespace

void select_routes_cuda(const RouteSelectInput<float>& in, const RouteSelectOutput<float>& out, void* stream) {
  select(in, out, stream);
}
void select_routes_cuda(const RouteSelectInput<double>& in, const RouteSelectOutput<double>& out, void* stream) {
  select(in, out, stream);
}

}  // namespace slotscope::kernels
