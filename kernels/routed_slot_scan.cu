#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

#include "kernels/routed_slot_scan.h"

// The plain token-recurrent form: exact, deterministic, fast enough to use; the chunked matrix form replaces
// it for speed (spec: kernels.md). One block owns one (batch, head) pair, so no two blocks touch the same
// slot.
namespace slotscope::kernels {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;

template <class Real>
__device__ Real warp_sum(Real x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}
template <class Real>
__device__ Real warp_max(Real x) {
  for (int step = 16; step > 0; step /= 2) {
    const Real y = __shfl_xor_sync(0xffffffffu, x, step);
    x = x > y ? x : y;
  }
  return x;
}
__device__ float exponential(float x) { return expf(x); }
__device__ double exponential(double x) { return exp(x); }

// z[0..slots) -> softmax, in place, by warp 0. Lane sums are added in a fixed tree.
template <class Real>
__device__ void softmax(Real* z, int slots, int lane) {
  Real top = z[0];
  for (int m = lane; m < slots; m += 32) top = top > z[m] ? top : z[m];
  top = warp_max(top);
  Real sum = 0;
  for (int m = lane; m < slots; m += 32) {
    z[m] = exponential(z[m] - top);
    sum += z[m];
  }
  sum = warp_sum(sum);
  for (int m = lane; m < slots; m += 32) z[m] /= sum;
}

template <class Real>
__device__ void update_slots(const RoutedSlotScanInput<Real>& in, int64_t at, Real* state, const Real* x,
                             int width) {
  for (int i = threadIdx.x; i < in.top_k * width; i += kThreads) {
    const int rank = i / width, column = i % width;
    const int slot = in.index[at * in.top_k + rank];
    if (slot < 0 || slot >= in.slots) continue;
    Real& s = state[int64_t(slot) * width + column];
    s = in.keep[at * in.top_k + rank] * s + in.write[at * in.top_k + rank] * x[column];
  }
}

template <class Real>
__global__ void __launch_bounds__(kThreads)
    scan_kernel(RoutedSlotScanInput<Real> in, RoutedSlotScanOutput<Real> out, bool state_in_shared) {
  extern __shared__ double shared_storage[];
  Real* const z = reinterpret_cast<Real*>(shared_storage);  // [slots]
  Real* const partial = z + in.slots;                       // [kThreads]
  const int64_t pair = blockIdx.x, b = pair / in.heads, head = pair % in.heads;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int query_heads = in.heads * in.group;
  Real* const global_k = out.state_k + pair * in.slots * in.d_k;
  Real* const global_v = out.state_v + pair * in.slots * in.d_v;
  Real *state_k = global_k, *state_v = global_v;
  if (state_in_shared) {
    state_k = partial + kThreads;
    state_v = state_k + in.slots * in.d_k;
    for (int i = threadIdx.x; i < in.slots * in.d_k; i += kThreads) state_k[i] = global_k[i];
    for (int i = threadIdx.x; i < in.slots * in.d_v; i += kThreads) state_v[i] = global_v[i];
  }
  // The value columns are split into `slices` of the slot axis so that every thread has work: d_v columns x
  // slices <= kThreads.
  const int slices = in.d_v >= kThreads ? 1 : kThreads / in.d_v;
  __syncthreads();
  for (int64_t t = 0; t < in.tokens; ++t) {
    const int64_t at = (b * in.tokens + t) * in.heads + head;
    update_slots(in, at, state_k, in.key + at * in.d_k, in.d_k);
    update_slots(in, at, state_v, in.value + at * in.d_v, in.d_v);
    __syncthreads();
    for (int g = 0; g < in.group; ++g) {
      const int64_t query_at = (b * in.tokens + t) * query_heads + head * in.group + g;
      const Real* q = in.query + query_at * in.d_k;
      for (int m = warp; m < in.slots; m += kWarps) {
        Real sum = 0;
        for (int i = lane; i < in.d_k; i += 32) sum += state_k[int64_t(m) * in.d_k + i] * q[i];
        sum = warp_sum(sum);
        if (lane == 0) z[m] = in.scale * sum;
      }
      __syncthreads();
      if (warp == 0) softmax(z, in.slots, lane);
      __syncthreads();
      if (in.read_row && in.read_row[t] >= 0) {
        const int64_t row = (b * in.read_rows + in.read_row[t]) * query_heads + head * in.group + g;
        for (int m = threadIdx.x; m < in.slots; m += kThreads) out.read_weight[row * in.slots + m] = z[m];
      }
      Real* o = out.output + query_at * in.d_v;
      if (slices == 1) {
        for (int i = threadIdx.x; i < in.d_v; i += kThreads) {
          Real sum = 0;
          for (int m = 0; m < in.slots; ++m) sum += z[m] * state_v[int64_t(m) * in.d_v + i];
          o[i] = sum;
        }
      } else {
        const int slice = threadIdx.x / in.d_v, column = threadIdx.x % in.d_v;
        if (slice < slices) {
          Real sum = 0;
          for (int m = slice; m < in.slots; m += slices) sum += z[m] * state_v[int64_t(m) * in.d_v + column];
          partial[slice * in.d_v + column] = sum;
        }
        __syncthreads();
        if (slice == 0) {
          Real sum = 0;
          for (int i = 0; i < slices; ++i) sum += partial[i * in.d_v + column];
          o[column] = sum;
        }
      }
      __syncthreads();
    }
  }
  if (state_in_shared) {
    for (int i = threadIdx.x; i < in.slots * in.d_k; i += kThreads) global_k[i] = state_k[i];
    for (int i = threadIdx.x; i < in.slots * in.d_v; i += kThreads) global_v[i] = state_v[i];
  }
}

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string("routed_slot_scan_cuda: ") + what + ": " +
                             cudaGetErrorString(error));
}

template <class Real>
void launch(const RoutedSlotScanInput<Real>& in, const RoutedSlotScanOutput<Real>& out, void* stream) {
  const int64_t pairs = in.batch * in.heads;
  if (pairs == 0 || in.tokens == 0) return;
  int device = 0, most = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
        "shared memory limit");
  const size_t work = (size_t(in.slots) + kThreads) * sizeof(Real);
  const size_t state = size_t(in.slots) * (size_t(in.d_k) + size_t(in.d_v)) * sizeof(Real);
  const bool in_shared = work + state <= size_t(most);
  const size_t bytes = work + (in_shared ? state : 0);
  if (bytes > size_t(most))
    throw std::runtime_error("routed_slot_scan_cuda: " + std::to_string(in.slots) + " slots need " +
                             std::to_string(bytes) + " bytes of shared memory, the device has " +
                             std::to_string(most));
  if (bytes > 48 * 1024)
    check(cudaFuncSetAttribute(scan_kernel<Real>, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)),
          "shared memory");
  scan_kernel<Real>
      <<<unsigned(pairs), kThreads, bytes, static_cast<cudaStream_t>(stream)>>>(in, out, in_shared);
  check(cudaGetLastError(), "launch");
}

}  // namespace

void routed_slot_scan_cuda(const RoutedSlotScanInput<float>& in, const RoutedSlotScanOutput<float>& out,
                           void* stream) {
  launch(in, out, stream);
}
void routed_slot_scan_cuda(const RoutedSlotScanInput<double>& in, const RoutedSlotScanOutput<double>& out,
                           void* stream) {
  launch(in, out, stream);
}

}  // namespace slotscope::kernels
