#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

#include "kernels/route_counters.h"

namespace slotscope::kernels {
namespace {

// One thread per (row, head, rank). Slots of one head are shared by all rows, so counts are first gathered in shared memory when
// they fit: global atomics on a hot slot would serialise. Integer adds commute, so the result does not depend on the order.
__global__ void count_kernel(RouteCounterInput in, RouteCounterOutput out, int64_t rows_per_block) {
  extern __shared__ uint32_t local[];  // [3][slots]
  const int head = blockIdx.y;
  for (int i = threadIdx.x; i < 3 * in.slots; i += blockDim.x) local[i] = 0;
  __syncthreads();
  const int64_t first = int64_t(blockIdx.x) * rows_per_block;
  const int64_t last = min(in.rows, first + rows_per_block);
  for (int64_t i = first * in.top_k + threadIdx.x; i < last * in.top_k; i += blockDim.x) {
    const int64_t row = i / in.top_k;
    const int64_t at = (row * in.heads + head) * in.top_k + i % in.top_k;
    const uint32_t slot = in.index[at];
    if (slot >= uint32_t(in.slots)) continue;
    const bool written = in.weight[at] != 0.0f;
    atomicAdd(&local[slot], written ? 1u : 0u);
    atomicAdd(&local[in.slots + slot], 1u);
    if (written && in.roles && in.roles[row] == 1) atomicAdd(&local[2 * in.slots + slot], 1u);
  }
  __syncthreads();
  const int64_t base = int64_t(head) * in.slots;
  for (int slot = threadIdx.x; slot < in.slots; slot += blockDim.x) {
    if (out.esl && local[slot]) atomicAdd(&out.esl[base + slot], local[slot]);
    if (out.selected && local[in.slots + slot]) atomicAdd(&out.selected[base + slot], local[in.slots + slot]);
    if (out.retrieval && local[2 * in.slots + slot]) atomicAdd(&out.retrieval[base + slot], local[2 * in.slots + slot]);
  }
}

// For slot counts whose three counters exceed 48 KB of shared memory.
__global__ void count_kernel_global(RouteCounterInput in, RouteCounterOutput out) {
  const int64_t total = in.rows * in.heads * in.top_k;
  for (int64_t at = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; at < total; at += int64_t(gridDim.x) * blockDim.x) {
    const int64_t row = at / (int64_t(in.heads) * in.top_k);
    const int64_t base = at / in.top_k % in.heads * in.slots;
    const uint32_t slot = in.index[at];
    if (slot >= uint32_t(in.slots)) continue;
    const bool written = in.weight[at] != 0.0f;
    if (out.esl && written) atomicAdd(&out.esl[base + slot], 1u);
    if (out.selected) atomicAdd(&out.selected[base + slot], 1u);
    if (out.retrieval && written && in.roles && in.roles[row] == 1) atomicAdd(&out.retrieval[base + slot], 1u);
  }
}

}  // namespace

void count_routes_cuda(const RouteCounterInput& in, const RouteCounterOutput& out, void* stream) {
  if (in.rows <= 0 || in.heads <= 0 || in.top_k <= 0 || in.slots <= 0) return;  // an empty grid is a launch error
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  const size_t shared = size_t(3) * size_t(in.slots) * sizeof(uint32_t);
  if (shared <= 48 * 1024) {
    constexpr int64_t rows_per_block = 256;
    const dim3 grid(unsigned((in.rows + rows_per_block - 1) / rows_per_block), unsigned(in.heads));
    count_kernel<<<grid, 256, shared, cuda_stream>>>(in, out, rows_per_block);
  } else {
    const int64_t blocks = (in.rows * in.heads * in.top_k + 255) / 256;
    count_kernel_global<<<unsigned(blocks < 65535 ? blocks : 65535), 256, 0, cuda_stream>>>(in, out);
  }
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess)
    throw std::runtime_error(std::string("count_routes_cuda: ") + cudaGetErrorString(error));
}

bool cuda_available() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

}  // namespace slotscope::kernels
