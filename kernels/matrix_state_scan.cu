#include <cuda_runtime.h>

#include <climits>
#include <stdexcept>
#include <string>

#include "kernels/matrix_state_scan.h"

// Rows of a state never meet: a group of lanes owns one row (batch, head, value channel) for all tokens and keeps it in
// registers, lane l the elements l, l + lanes, ... Vectors of the next few tokens are loaded at once, so that the scan
// waits for memory once per piece and not once per token. Lanes exchange sums by shuffles only: there is no shared memory
// and no barrier.
namespace slotscope::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kWidest = 1024;  // elements of a row that fit in the registers of a warp

// The same sum in every lane of a group, added in a fixed tree.
template <int kLanes, class Real>
__device__ Real group_sum(Real x) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step, kLanes);
  return x;
}

// Where a group stands. Groups behind the last row take part in the shuffles, but read and write nothing.
struct Place {
  bool active;
  int64_t batch, head, key_head, channel;

  template <class Real>
  __device__ Place(const MatrixStateScanInput<Real>& in, int64_t row) {
    active = row < in.batch * in.heads * in.d_v;
    channel = active ? row % in.d_v : 0;
    const int64_t pair = active ? row / in.d_v : 0;
    batch = pair / in.heads;
    head = pair % in.heads;
    key_head = head / (in.heads / in.key_heads);
  }
};

// What one token brings to a row.
template <class Real, int kElements>
struct Token {
  Real key[kElements], keep[kElements], query[kElements];
  Real value, strength;
};

template <int kLanes, int kElements, class Real>
__device__ void load_vector(Real (&to)[kElements], const Real* from, int width, int lane, Real outside) {
#pragma unroll
  for (int e = 0; e < kElements; ++e) {
    const int i = lane + e * kLanes;
    to[e] = i < width ? from[i] : outside;
  }
}

template <int kLanes, int kElements, class Real>
__device__ void load_token(Token<Real, kElements>& token, const MatrixStateScanInput<Real>& in, const Place& p,
                           int64_t t, int64_t first_query, int width, int lane) {
  const int64_t line = p.batch * in.tokens + t, at = line * in.heads + p.head;
  load_vector<kLanes>(token.key, in.key + (line * in.key_heads + p.key_head) * in.d_k, width, lane, Real(0));
  load_vector<kLanes>(token.query, in.query + (line * in.query_heads + first_query) * in.d_k, width, lane, Real(0));
  if (in.keep && in.keep_per_channel) {
    load_vector<kLanes>(token.keep, in.keep + at * in.d_k, width, lane, Real(1));
  } else {
    const Real keep = in.keep && p.active ? in.keep[at] : Real(1);
#pragma unroll
    for (int e = 0; e < kElements; ++e) token.keep[e] = keep;
  }
  token.value = p.active ? in.value[at * in.d_v + p.channel] : Real(0);
  token.strength = in.strength && p.active ? in.strength[at] : Real(1);
}

template <int kLanes, int kElements, class Real>
__device__ Real dot(const Real (&a)[kElements], const Real (&b)[kElements]) {
  Real sum = 0;
#pragma unroll
  for (int e = 0; e < kElements; ++e) sum += a[e] * b[e];
  return group_sum<kLanes>(sum);
}

template <class Real, int kLanes, int kElements, int kPiece>
__global__ void __launch_bounds__(kThreads)
    scan_kernel(MatrixStateScanInput<Real> in, MatrixStateScanOutput<Real> out, int out_heads) {
  const int lane = int(threadIdx.x) % kLanes;
  const int64_t row = int64_t(blockIdx.x) * (kThreads / kLanes) + threadIdx.x / kLanes;
  const Place p(in, row);
  const int width = p.active ? in.d_k : 0, outputs = out_heads / in.heads, share = out_heads / in.query_heads;
  Real* const state_row = out.state + (p.active ? row : 0) * in.d_k;
  Real state[kElements];
  load_vector<kLanes>(state, state_row, width, lane, Real(0));
  for (int64_t begin = 0; begin < in.tokens; begin += kPiece) {
    Token<Real, kElements> piece[kPiece];
#pragma unroll
    for (int j = 0; j < kPiece; ++j)
      if (begin + j < in.tokens)
        load_token<kLanes>(piece[j], in, p, begin + j, p.head * outputs / share, width, lane);
#pragma unroll
    for (int j = 0; j < kPiece; ++j) {
      if (begin + j >= in.tokens) break;  // the same for every thread of the grid
      const Token<Real, kElements>& token = piece[j];
#pragma unroll
      for (int e = 0; e < kElements; ++e) state[e] *= token.keep[e];
      Real content = token.value;
      if (in.delta) content -= dot<kLanes>(state, token.key);
      content *= token.strength;
#pragma unroll
      for (int e = 0; e < kElements; ++e) state[e] += content * token.key[e];
      const int64_t line = p.batch * in.tokens + begin + j;
      Real* const output = out.output + (line * out_heads + p.head * outputs) * in.d_v + p.channel;
      for (int g = 0; g < outputs; ++g) {
        Real sum;
        if (g == 0) {
          sum = dot<kLanes>(state, token.query);
        } else {  // query heads that read the same state
          Real query[kElements];
          const int64_t head = (p.head * outputs + g) / share;
          load_vector<kLanes>(query, in.query + (line * in.query_heads + head) * in.d_k, width, lane, Real(0));
          sum = dot<kLanes>(state, query);
        }
        if (lane == 0 && p.active) output[int64_t(g) * in.d_v] = in.scale * sum;
      }
    }
  }
#pragma unroll
  for (int e = 0; e < kElements; ++e)
    if (lane + e * kLanes < width) state_row[lane + e * kLanes] = state[e];
}

// Rows wider than the registers: they stay in global memory, where a lane touches its own elements only.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    wide_scan_kernel(MatrixStateScanInput<Real> in, MatrixStateScanOutput<Real> out, int out_heads) {
  const int lane = int(threadIdx.x) % 32;
  const int64_t row = int64_t(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
  const Place p(in, row);
  if (!p.active) return;  // whole warps
  const int outputs = out_heads / in.heads, share = out_heads / in.query_heads;
  Real* const state = out.state + row * in.d_k;
  for (int64_t t = 0; t < in.tokens; ++t) {
    const int64_t line = p.batch * in.tokens + t, at = line * in.heads + p.head;
    const Real* key = in.key + (line * in.key_heads + p.key_head) * in.d_k;
    const Real one = in.keep && !in.keep_per_channel ? in.keep[at] : Real(1);
    Real sum = 0;
    for (int i = lane; i < in.d_k; i += 32) {
      state[i] *= in.keep && in.keep_per_channel ? in.keep[at * in.d_k + i] : one;
      sum += state[i] * key[i];
    }
    Real content = in.value[at * in.d_v + p.channel];
    if (in.delta) content -= group_sum<32>(sum);
    if (in.strength) content *= in.strength[at];
    for (int i = lane; i < in.d_k; i += 32) state[i] += content * key[i];
    for (int g = 0; g < outputs; ++g) {
      const int64_t o = p.head * outputs + g;
      const Real* query = in.query + (line * in.query_heads + o / share) * in.d_k;
      sum = 0;
      for (int i = lane; i < in.d_k; i += 32) sum += state[i] * query[i];
      sum = group_sum<32>(sum);
      if (lane == 0) out.output[(line * out_heads + o) * in.d_v + p.channel] = in.scale * sum;
    }
  }
}

unsigned blocks_for(int64_t rows, int lanes) {
  const int64_t groups = kThreads / lanes, blocks = (rows + groups - 1) / groups;
  if (blocks > INT_MAX)
    throw std::runtime_error("matrix_state_scan_cuda: " + std::to_string(rows) + " rows of state are too many for one launch");
  return unsigned(blocks);
}

// Tokens loaded at once, so that their vectors stay in registers.
template <class Real, int kLanes, int kElements>
void launch_rows(const MatrixStateScanInput<Real>& in, const MatrixStateScanOutput<Real>& out, int out_heads,
                 cudaStream_t stream) {
  constexpr int kBytes = kElements * int(sizeof(Real)), kPiece = kBytes <= 32 ? 4 : kBytes <= 64 ? 2 : 1;
  const unsigned blocks = blocks_for(in.batch * in.heads * in.d_v, kLanes);
  scan_kernel<Real, kLanes, kElements, kPiece><<<blocks, kThreads, 0, stream>>>(in, out, out_heads);
}

template <class Real>
void launch(const MatrixStateScanInput<Real>& in, const MatrixStateScanOutput<Real>& out, void* given) {
  const int64_t rows = in.batch * in.heads * in.d_v;
  if (rows == 0 || in.tokens == 0) return;
  const auto stream = static_cast<cudaStream_t>(given);
  const int out_heads = in.query_heads > in.heads ? in.query_heads : in.heads;
  if (in.d_k <= 8)
    launch_rows<Real, 8, 1>(in, out, out_heads, stream);
  else if (in.d_k <= 16)
    launch_rows<Real, 8, 2>(in, out, out_heads, stream);
  else if (in.d_k <= 32)
    launch_rows<Real, 8, 4>(in, out, out_heads, stream);
  else if (in.d_k <= 64)
    launch_rows<Real, 8, 8>(in, out, out_heads, stream);
  else if (in.d_k <= 128)
    launch_rows<Real, 16, 8>(in, out, out_heads, stream);
  else if (in.d_k <= 256)
    launch_rows<Real, 32, 8>(in, out, out_heads, stream);
  else if (in.d_k <= 512)
    launch_rows<Real, 32, 16>(in, out, out_heads, stream);
  else if (in.d_k <= kWidest)
    launch_rows<Real, 32, kWidest / 32>(in, out, out_heads, stream);
  else
    wide_scan_kernel<Real><<<blocks_for(rows, 32), kThreads, 0, stream>>>(in, out, out_heads);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess)
    throw std::runtime_error(std::string("matrix_state_scan_cuda: launch: ") + cudaGetErrorString(error));
}

}  // namespace

void matrix_state_scan_cuda(const MatrixStateScanInput<float>& in, const MatrixStateScanOutput<float>& out,
                            void* stream) {
  launch(in, out, stream);
}
void matrix_state_scan_cuda(const MatrixStateScanInput<double>& in, const MatrixStateScanOutput<double>& out,
                            void* stream) {
  launch(in, out, stream);
}

}  // namespace slotscope::kernels
