#include "kernels/chunked_slot_scan.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "kernels/chunked_slot_gates.cuh"
#include "kernels/chunked_slot_outputs.cuh"
#include "kernels/chunked_slot_states.cuh"

// Inside a chunk every gate is split in two factors around one reference per slot, so that one weight matrix W and one
// scaling E serve both passes and the state (spec: kernels 1.1):
//   Phi_t = sum of log2 gates up to t, ref = round(Phi_C / 2), E_t = 2^(Phi_t - ref), W_j = s_j 2^(ref - Phi_j)
//   z = scale E o (Q (2^ref S^k)^T + tril(Q K^T) W)      p = softmax z      P = p o E
//   o = P (2^ref S^v) + tril(P W^T) V                    S <- 2^Phi_C S + 2^(Phi_C - ref) W^T [K | V]
namespace slotscope::kernels {
namespace {

// ---- recurrence, for heads whose gates are beyond the chunk form --------------------------------------------------------
__global__ void __launch_bounds__(256) recurrence(Work w) {
  __shared__ float z[256], scratch[8];
  const int pair = blockIdx.x, b = pair / w.in.heads, head = pair % w.in.heads, query_heads = w.in.heads * w.in.group;
  if (!w.recurrent[pair]) return;
  const int M = w.in.slots, K = w.in.top_k, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float* const Sk = w.out.state_k + int64_t(pair) * M * w.in.d_k;
  float* const Sv = w.out.state_v + int64_t(pair) * M * w.in.d_v;
  for (int t = 0; t < w.tokens; ++t) {
    const int64_t token = int64_t(b) * w.in.tokens + w.first + t, at = token * w.in.heads + head;
    for (int rank = warp; rank < K; rank += 8) {
      const int slot = w.in.index ? w.in.index[at * K + rank] : rank;
      if (slot < 0 || slot >= M) continue;
      const float f = w.in.gate[at * K + rank], keep = expf(f), write = 1 - keep;
      for (int i = lane; i < w.in.d_k; i += 32)
        Sk[slot * w.in.d_k + i] = keep * Sk[slot * w.in.d_k + i] + write * bf16(w.in.key[at * w.in.d_k + i]);
      for (int i = lane; i < w.in.d_v; i += 32)
        Sv[slot * w.in.d_v + i] = keep * Sv[slot * w.in.d_v + i] + write * bf16(w.in.value[at * w.in.d_v + i]);
    }
    __syncthreads();
    for (int group = 0; group < w.in.group; ++group) {
      const int query_head = head * w.in.group + group;
      const uint16_t* const q = w.in.query + (token * query_heads + query_head) * w.in.d_k;
      for (int m = warp; m < M; m += 8) {
        float sum = 0;
        for (int i = lane; i < w.in.d_k; i += 32) sum += Sk[m * w.in.d_k + i] * bf16(q[i]);
        sum = warp_sum(sum);
        if (lane == 0) z[m] = w.in.scale * sum;
      }
      __syncthreads();
      const float mine = int(threadIdx.x) < M ? z[threadIdx.x] : -INFINITY;
      float top = warp_max(mine);
      if (lane == 0) scratch[warp] = top;
      __syncthreads();
      for (int i = 0; i < 8; ++i) top = fmaxf(top, scratch[i]);
      const float p = expf(mine - top);
      __syncthreads();
      float sum = warp_sum(p);
      if (lane == 0) scratch[warp] = sum;
      __syncthreads();
      sum = 0;
      for (int i = 0; i < 8; ++i) sum += scratch[i];
      if (int(threadIdx.x) < M) z[threadIdx.x] = p / sum;
      __syncthreads();
      const int row = w.in.read_row ? w.in.read_row[w.first + t] : -1;
      if (row >= 0 && int(threadIdx.x) < M)
        w.out.read_weight[((int64_t(b) * w.in.read_rows + row) * query_heads + query_head) * M + threadIdx.x] = z[threadIdx.x];
      for (int i = threadIdx.x; i < w.in.d_v; i += 256) {
        float o = 0;
        for (int m = 0; m < M; ++m) o += z[m] * Sv[m * w.in.d_v + i];
        w.out.output[(token * query_heads + query_head) * w.in.d_v + i] = o;
      }
      __syncthreads();
    }
  }
}

// ---- host --------------------------------------------------------------------------------------------------------------
int padded_size(int n) { return n <= 64 ? 64 : n <= 128 ? 128 : 256; }

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string("chunked_slot_scan_cuda: ") + what + ": " + cudaGetErrorString(error));
}

// Places the arrays of one segment in the workspace, or counts their bytes (workspace null).
size_t place(Work& w, void* workspace) {
  char* base = static_cast<char*>(workspace);
  size_t used = 0;
  const auto take = [&](auto*& pointer, size_t count) {
    pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(base + used);
    used += (count * sizeof(*pointer) + 255) / 256 * 256;
  };
  const size_t pairs = size_t(w.in.batch) * size_t(w.in.heads), chunks = size_t(w.chunks), M = size_t(w.padded);
  take(w.scale_e, pairs * chunks * kChunk * M);
  take(w.weight, pairs * chunks * kChunk * M);
  take(w.end_keep, pairs * chunks * M);
  take(w.end_scale, pairs * chunks * M);
  take(w.start_scale, pairs * chunks * M);
  take(w.snapshot_k, pairs * chunks * M * size_t(w.width));
  take(w.snapshot_v, pairs * chunks * M * size_t(w.width));
  take(w.recurrent, pairs);
  return used;
}

Work segment(const ChunkedSlotScanInput& in, const ChunkedSlotScanOutput& out, int64_t first) {
  Work w{};
  w.in = in, w.out = out, w.first = first;
  w.tokens = int(std::min(kSegment, in.tokens - first));
  w.chunks = (w.tokens + kChunk - 1) / kChunk;
  w.padded = padded_size(in.slots);
  w.width = padded_size(std::max(in.d_k, in.d_v));
  return w;
}

template <int M, int D>
void launch_outputs(const Work& w, cudaStream_t stream) {
  constexpr size_t bytes = output_shared(M, D);
  if (bytes > 48 * 1024)
    check(cudaFuncSetAttribute(outputs<M, D>, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)), "shared memory");
  outputs<M, D><<<dim3(unsigned(w.chunks), unsigned(w.in.batch * w.in.heads * w.in.group)), 256, bytes, stream>>>(w);
}
template <int M>
void launch_outputs(const Work& w, cudaStream_t stream) {
  if (w.width == 64) return launch_outputs<M, 64>(w, stream);
  if (w.width == 128) return launch_outputs<M, 128>(w, stream);
  launch_outputs<M, 256>(w, stream);
}

void run_segment(const Work& w, cudaStream_t stream) {
  const unsigned pairs = unsigned(w.in.batch * w.in.heads), slot_tiles = unsigned(w.padded / kSlotTile);
  check(cudaMemsetAsync(w.recurrent, 0, pairs * sizeof(int), stream), "memset");
  prepare<<<dim3(unsigned(w.chunks), pairs, slot_tiles), 256, 0, stream>>>(w);
  check(cudaGetLastError(), "prepare");
  check(cudaFuncSetAttribute(states, cudaFuncAttributeMaxDynamicSharedMemorySize, int(kStateRing)), "shared memory");
  states<<<dim3(slot_tiles, unsigned(2 * w.width / kStateColumns), pairs), 256, kStateRing, stream>>>(w);
  check(cudaGetLastError(), "states");
  if (w.padded == 64)
    launch_outputs<64>(w, stream);
  else if (w.padded == 128)
    launch_outputs<128>(w, stream);
  else
    launch_outputs<256>(w, stream);
  check(cudaGetLastError(), "outputs");
  recurrence<<<pairs, 256, 0, stream>>>(w);
  check(cudaGetLastError(), "recurrence");
}

}  // namespace

bool chunked_slot_scan_fits(int slots, int d_k, int d_v) {
  int device = 0, most = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "shared memory limit");
  const size_t M = size_t(padded_size(slots)), D = size_t(padded_size(std::max(d_k, d_v)));
  return std::max(output_shared(M, D), kStateRing) <= size_t(most);
}

size_t chunked_slot_scan_workspace(const ChunkedSlotScanInput& in) {
  if (in.tokens == 0) return 0;
  Work w = segment(in, {}, 0);
  return place(w, nullptr);
}

void chunked_slot_scan_cuda(const ChunkedSlotScanInput& in, const ChunkedSlotScanOutput& out, void* workspace, void* stream) {
  if (!chunked_slot_scan_supports(in.slots, in.d_k, in.d_v))
    throw std::invalid_argument("chunked_slot_scan_cuda: " + std::to_string(in.slots) + " slots of " +
                                std::to_string(in.d_k) + " and " + std::to_string(in.d_v) + " columns");
  if (in.batch == 0 || in.heads == 0) return;
  for (int64_t first = 0; first < in.tokens; first += kSegment) {
    Work w = segment(in, out, first);
    place(w, workspace);
    run_segment(w, static_cast<cudaStream_t>(stream));
  }
}

}  // namespace slotscope::kernels
