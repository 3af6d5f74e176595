#include "kernels/chunked_slot_scan.h"

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "kernels/tensor_core.cuh"

// Inside a chunk every gate is split in two factors around one reference per slot, so that one weight matrix W and one
// scaling E serve both passes and the state (spec: kernels 1.1):
//   Phi_t = sum of log2 gates up to t, ref = round(Phi_C / 2), E_t = 2^(Phi_t - ref), W_j = s_j 2^(ref - Phi_j)
//   z = scale E o (Q (2^ref S^k)^T + tril(Q K^T) W)      p = softmax z      P = p o E
//   o = P (2^ref S^v) + tril(P W^T) V                    S <- 2^Phi_C S + 2^(Phi_C - ref) W^T [K | V]
namespace slotscope::kernels {
namespace {

constexpr int kChunk = 128;
constexpr int64_t kSegment = 16384;      // tokens per round: bounds the workspace
constexpr int kSlotTile = 64;            // slots of a block of prepare and states
constexpr float kMostBits = 180, kSpikeBits = 22.5f;  // spec: kernels 1.2
constexpr float kLog2e = 1.4426950408889634f;

// What is passed to the kernels of one segment.
struct Work {
  ChunkedSlotScanInput in;
  ChunkedSlotScanOutput out;
  int64_t first = 0;   // token of the prompt the segment begins with
  int tokens = 0;      // of the segment
  int chunks = 0;
  int padded = 0;      // slots of the padded arrays, a power of two from 64
  int width = 0;       // columns of keys and values, padded alike
  float* scale_e;            // E [pair, chunks, 8 blocks of 16 tokens, padded / 8, 32 lanes, 4]: as accumulators hold it
  __nv_bfloat16* weight;     // W, same shape
  float* end_keep;           // 2^Phi_C        [pair, chunks, padded]
  float* end_scale;          // 2^(Phi_C - ref)
  float* start_scale;        // 2^ref
  __nv_bfloat16* snapshot_k;  // 2^ref S^k [pair, chunks, padded, width]
  __nv_bfloat16* snapshot_v;
  int* recurrent;            // [pair] 1: the chunk form does not hold, take the recurrence
};

// ---- gates to E and W ------------------------------------------------------------------------------------------------
// Log2 gates of a slot over some tokens: their sum without single tokens that erase the slot, and those.
struct Gates {
  float small, spikes, count;
  __device__ void add(float phi) {
    const bool spike = phi < -kSpikeBits;
    small -= spike ? 0 : phi, spikes -= spike ? phi : 0, count += spike ? 1 : 0;
  }
  __device__ void add(const Gates& other) { small += other.small, spikes += other.spikes, count += other.count; }
};

// E and W of one slot along the tokens of a chunk.
struct Scaling {
  float end, ref, phi, e, spike;  // Phi_C, the reference, Phi and E so far, what an erasing token is clamped to
  bool clamp, impossible;
  Scaling() = default;
  // `before`: the chunk's tokens before the first of step(); `all` of them.
  __device__ Scaling(const Gates& before, const Gates& all) {
    // A token that erases the slot may erase it a little less: what was there weighs at most 2^-22.5 of what is written
    // (spec: kernels 1.2).
    clamp = !(all.small + all.spikes <= kMostBits);
    spike = all.count > 0 ? (kMostBits - all.small) / all.count : 0;
    impossible = clamp && !(spike >= kSpikeBits);
    end = -(all.small + (clamp ? all.count * spike : all.spikes));
    ref = rintf(end / 2);
    phi = -(before.small + (clamp ? before.count * spike : before.spikes));
    e = fast_exp2(phi - ref);
  }
  // One token with log gate f: its W; E is in `e`.
  __device__ float step(float f) {
    if (f == 0) return 0;
    const float bits = f * kLog2e;
    phi += clamp && bits < -kSpikeBits ? -spike : bits;
    e = fast_exp2(phi - ref);
    return (1 - expf(f)) * fast_exp2(ref - phi);
  }
};

// Block (chunk, pair, tile of slots).
__global__ void __launch_bounds__(256) prepare(Work w) {
  __shared__ __align__(16) float gate[kChunk][kSlotTile];
  __shared__ Gates part[8][kSlotTile];
  const int chunk = blockIdx.x, pair = blockIdx.y, slot0 = blockIdx.z * kSlotTile;
  const int b = pair / w.in.heads, head = pair % w.in.heads, K = w.in.top_k;
  const int live = min(kChunk, w.tokens - chunk * kChunk);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int i = threadIdx.x; i < kChunk * kSlotTile / 4; i += 256) reinterpret_cast<float4*>(gate)[i] = {0, 0, 0, 0};
  __syncthreads();
  const int64_t row = (int64_t(b) * w.in.tokens + w.first + chunk * kChunk) * w.in.heads + head;
  if (w.in.index) {
    const int64_t step = int64_t(w.in.heads) * K;
    const int32_t* const index = w.in.index + row * K;
    const float* const gates = w.in.gate + row * K;
    for (int rank = lane; rank < K; rank += 32)
#pragma unroll 4
      for (int t = warp; t < live; t += 8) {
        const int slot = index[t * step + rank] - slot0;
        if (slot >= 0 && slot < kSlotTile && slot + slot0 < w.in.slots) gate[t][slot] = gates[t * step + rank];
      }
  } else {
    for (int slot = lane; slot < min(kSlotTile, w.in.slots - slot0); slot += 32)
#pragma unroll 4
      for (int t = warp; t < live; t += 8) gate[t][slot] = w.in.gate[(row + int64_t(t) * w.in.heads) * K + slot0 + slot];
  }
  __syncthreads();
  // Thread: two neighbouring slots, 16 tokens.
  const int slot = threadIdx.x % 32 * 2, eighth = threadIdx.x / 32;
  Gates mine[2] = {};
#pragma unroll
  for (int t = eighth * 16; t < eighth * 16 + 16; ++t) {
    const float2 f = *reinterpret_cast<const float2*>(&gate[t][slot]);
    mine[0].add(f.x * kLog2e), mine[1].add(f.y * kLog2e);
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) part[eighth][slot + i] = mine[i];
  __syncthreads();
  Scaling scaling[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    Gates before = {}, all = {};
    for (int e = 0; e < 8; ++e) {
      if (e == eighth) before = all;
      all.add(part[e][slot + i]);
    }
    scaling[i] = Scaling(before, all);
    if (scaling[i].impossible) w.recurrent[pair] = 1;
    if (eighth == 0) {
      const int64_t at = (int64_t(pair) * w.chunks + chunk) * w.padded + slot0 + slot + i;
      w.end_keep[at] = exp2f(scaling[i].end);
      w.end_scale[at] = exp2f(scaling[i].end - scaling[i].ref);
      w.start_scale[at] = exp2f(scaling[i].ref);
    }
  }
  const int64_t rows0 = (int64_t(pair) * w.chunks + chunk) * kChunk + eighth * 16;
  __nv_bfloat16* const to_weight = w.weight + rows0 * w.padded + slot0 + slot;
  float4* const to_e = reinterpret_cast<float4*>(w.scale_e + rows0 * w.padded) + (slot0 + slot) / 8 * 32 + slot % 8 / 2;
  float2 upper[8];
#pragma unroll
  for (int t = 0; t < 16; ++t) {
    const float2 f = *reinterpret_cast<const float2*>(&gate[eighth * 16 + t][slot]);
    const float weight0 = scaling[0].step(f.x), weight1 = scaling[1].step(f.y);
    *reinterpret_cast<uint32_t*>(to_weight + t * w.padded) = pack(weight0, weight1);
    if (t < 8)
      upper[t] = {scaling[0].e, scaling[1].e};
    else
      to_e[(t - 8) * 4] = {upper[t - 8].x, upper[t - 8].y, scaling[0].e, scaling[1].e};
  }
}

// ---- states ----------------------------------------------------------------------------------------------------------
// Block (tile of 64 slots, tile of 64 columns of keys or values, pair) walks the chunks with its state in registers. Warp:
// 16 slots, 32 columns.
constexpr int kStateColumns = 64, kStateTokens = 128, kStateStages = 4;
constexpr int kStateStage = kStateTokens * (kSlotTile + kStateColumns);  // elements
constexpr size_t kStateRing = size_t(kStateStages) * kStateStage * sizeof(__nv_bfloat16);
__global__ void __launch_bounds__(256) states(Work w) {
  extern __shared__ __align__(128) __nv_bfloat16 ring[];
  const int slot0 = blockIdx.x * kSlotTile, pair = blockIdx.z;
  const int column_tiles = w.width / kStateColumns;
  const bool values = int(blockIdx.y) >= column_tiles;
  const int column0 = (int(blockIdx.y) - (values ? column_tiles : 0)) * kStateColumns;
  const int b = pair / w.in.heads, head = pair % w.in.heads, d = values ? w.in.d_v : w.in.d_k;
  if (w.recurrent[pair]) return;
  const uint16_t* const rows = (values ? w.in.value : w.in.key) +
                               ((int64_t(b) * w.in.tokens + w.first) * w.in.heads + head) * d;
  float* const state = (values ? w.out.state_v : w.out.state_k) + int64_t(pair) * w.in.slots * d;
  __nv_bfloat16* const snapshot =
      (values ? w.snapshot_v : w.snapshot_k) + int64_t(pair) * w.chunks * w.padded * w.width;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, c2 = lane % 4 * 2;
  const int my_slot = slot0 + warp % 4 * 16 + g, my_column = warp / 4 * 32;

  float S[4][4], L[4][4], L_odd[4][4];  // the sums of even and odd steps: two chains of products
#pragma unroll
  for (int n = 0; n < 4; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int slot = my_slot + (i / 2) * 8, column = column0 + my_column + n * 8 + c2 + i % 2;
      S[n][i] = slot < w.in.slots && column < d ? state[int64_t(slot) * d + column] : 0;
    }
  const int stages = w.chunks * (kChunk / kStateTokens);
  // What this thread copies of every stage: one piece of every 32nd row of W and of keys or values.
  const int copy_row = threadIdx.x / 8, copy_piece = threadIdx.x % 8;
  const bool in_width = column0 + copy_piece * 8 < d;
  const __nv_bfloat16* weight_from =
      w.weight + (int64_t(pair) * w.chunks * kChunk + copy_row) * w.padded + slot0 + copy_piece * 8;
  const uint16_t* column_from = rows + int64_t(copy_row) * w.in.heads * d + (in_width ? column0 + copy_piece * 8 : 0);
  const int weight_step = 32 * w.padded, column_step = 32 * w.in.heads * d;
  uint32_t copy_to = uint32_t(__cvta_generic_to_shared(ring + copy_row * 64 + (copy_piece ^ (copy_row & 7)) * 8));
  int copy_stage = 0, copy_left = w.tokens - copy_row;
  const auto load = [&] {
    if (copy_stage < stages) {
      const uint32_t to = copy_to + copy_stage % kStateStages * (kStateStage * 2);
#pragma unroll
      for (int i = 0; i < kStateTokens / 32; ++i) {
        copy16(to + i * 32 * 64 * 2, weight_from + i * weight_step, true);
        const bool there = i * 32 < copy_left && in_width;
        copy16(to + (kStateTokens + i * 32) * 64 * 2, there ? column_from + i * column_step : rows, there);
      }
      weight_from += kStateTokens / 32 * weight_step, column_from += kStateTokens / 32 * column_step;
      ++copy_stage, copy_left -= kStateTokens;
    }
    commit();
  };
  for (int i = 0; i < kStateStages - 1; ++i) load();
  const float* const scales = w.start_scale + int64_t(pair) * w.chunks * w.padded + my_slot;
  const int64_t to_keep = w.end_keep - w.start_scale, to_gain = w.end_scale - w.start_scale;
  float next[6];
  const auto load_scales = [&](int chunk) {
    const float* const at = scales + int64_t(min(chunk, w.chunks - 1)) * w.padded;
    next[0] = at[0], next[1] = at[8], next[2] = at[to_keep], next[3] = at[to_keep + 8];
    next[4] = at[to_gain], next[5] = at[to_gain + 8];
  };
  load_scales(0);
  for (int chunk = 0; chunk < w.chunks; ++chunk) {
    const float start0 = next[0], start1 = next[1], keep0 = next[2], keep1 = next[3], gain0 = next[4], gain1 = next[5];
    load_scales(chunk + 1);
    __nv_bfloat16* const shot = snapshot + (int64_t(chunk) * w.padded + my_slot) * w.width + column0 + my_column + c2;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      *reinterpret_cast<uint32_t*>(shot + n * 8) = pack(start0 * S[n][0], start0 * S[n][1]);
      *reinterpret_cast<uint32_t*>(shot + 8 * w.width + n * 8) = pack(start1 * S[n][2], start1 * S[n][3]);
#pragma unroll
      for (int i = 0; i < 4; ++i) L[n][i] = L_odd[n][i] = 0;
    }
#pragma unroll
    for (int half = 0; half < kChunk / kStateTokens; ++half) {
      const int stage = chunk * (kChunk / kStateTokens) + half;
      wait<kStateStages - 2>();
      __syncthreads();
      load();  // into the stage that everybody has left
      const __nv_bfloat16* const from = ring + stage % kStateStages * kStateStage;
      const OperandATransposed<kSlotTile> weights(from, lane);
      const OperandBTransposed<kStateColumns> columns(from + kStateTokens * kSlotTile, lane);
      uint32_t a[2][4], x[2][4], y[2][4];
      const auto fetch = [&](int k) {
        weights.load(a[k & 1], warp % 4 * 16, k * 16);
        columns.load(x[k & 1], k * 16, my_column);
        columns.load(y[k & 1], k * 16, my_column + 16);
      };
      fetch(0);
#pragma unroll
      for (int k = 0; k < kStateTokens / 16; ++k) {
        if (k + 1 < kStateTokens / 16) fetch(k + 1);
        float (&to)[4][4] = k & 1 ? L_odd : L;
        mma(to[0], a[k & 1], x[k & 1][0], x[k & 1][1]);
        mma(to[1], a[k & 1], x[k & 1][2], x[k & 1][3]);
        mma(to[2], a[k & 1], y[k & 1][0], y[k & 1][1]);
        mma(to[3], a[k & 1], y[k & 1][2], y[k & 1][3]);
      }
    }
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        S[n][i] = fmaf(i < 2 ? keep0 : keep1, S[n][i], (i < 2 ? gain0 : gain1) * (L[n][i] + L_odd[n][i]));
    }
  }
  wait<0>();
#pragma unroll
  for (int n = 0; n < 4; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int slot = my_slot + (i / 2) * 8, column = column0 + my_column + n * 8 + c2 + i % 2;
      if (slot < w.in.slots && column < d) state[int64_t(slot) * d + column] = S[n][i];
    }
}

// ---- outputs ---------------------------------------------------------------------------------------------------------
// Block (chunk, batch x query head): 8 warps of 16 tokens. Every block sees all slots, so the softmax needs no other.
constexpr int kTileSlots = 32;  // slots of one tile of a snapshot
constexpr size_t output_shared(size_t M, size_t D) {
  return (kChunk * D * 2 + kChunk * M + 2 * kTileSlots * D) * sizeof(__nv_bfloat16);
}

// Copies `count` rows of D elements to swizzled shared memory; rows beyond `live` and columns beyond `d` become 0.
template <int D, int kRows>
__device__ void copy_rows(__nv_bfloat16* to, const uint16_t* from, int64_t stride, int live, int d) {
  constexpr int pieces = D / 8, step = 256 / pieces;  // a multiple of 8: the swizzle of a thread is always the same
  const int row = threadIdx.x / pieces, piece = threadIdx.x % pieces;
  const bool in_width = piece * 8 < d;
  __nv_bfloat16* const mine = to + row * D + (piece ^ (row & 7)) * 8;
  const uint16_t* const source = from + row * stride + (in_width ? piece * 8 : 0);
#pragma unroll
  for (int i = 0; i < kRows / step; ++i) {
    const bool there = in_width && row + i * step < live;
    copy16(mine + i * step * D, there ? source + i * step * stride : from, there);
  }
}

__device__ inline void add(float (&s)[2][4], const float (&other)[2][4]) {
#pragma unroll
  for (int n = 0; n < 2; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) s[n][i] += other[n][i];
}

template <int M, int D>
__global__ void __launch_bounds__(256, 1) outputs(Work w) {
  extern __shared__ __align__(128) __nv_bfloat16 shared[];
  __nv_bfloat16* const keys_at = shared;                  // [128, D]
  __nv_bfloat16* const values_at = keys_at + kChunk * D;  // [128, D] first the queries, then tiles
  __nv_bfloat16* const W = values_at + kChunk * D;        // [128, M]
  __nv_bfloat16* const tile = W + kChunk * M;  // 2 x [32, D] of a snapshot
  const int chunk = blockIdx.x, query_heads = w.in.heads * w.in.group;
  const int b = blockIdx.y / query_heads, query_head = blockIdx.y % query_heads, head = query_head / w.in.group;
  const int pair = b * w.in.heads + head;
  if (w.recurrent[pair]) return;
  const int live = min(kChunk, w.tokens - chunk * kChunk);
  const int64_t token0 = int64_t(b) * w.in.tokens + w.first + chunk * kChunk;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, c2 = lane % 4 * 2;
  const int block = warp < 4 ? warp : 11 - warp;  // so that each scheduler has long and short causal rows
  const int row0 = block * 16;
  const int64_t shot = (int64_t(pair) * w.chunks + chunk) * M * D;
  constexpr int tiles = M / kTileSlots;
  // Tiles 0 and 1 of a snapshot, later 6 and 7, have a place of their own, 2 to 5 that of an array that is not there yet or
  // not needed any more. Every load is a group of its own, empty ones too, so that waits can count.
  const auto tile_at = [&](int i, __nv_bfloat16* spare) {
    return i >= 2 && i < 6 ? spare + (i - 2) * kTileSlots * D : tile + i % 2 * kTileSlots * D;
  };
  const auto load_tile = [&](const __nv_bfloat16* snapshot, int i, __nv_bfloat16* spare) {
    if (i < tiles)
      copy_rows<D, kTileSlots>(tile_at(i, spare), reinterpret_cast<const uint16_t*>(snapshot + shot) + i * kTileSlots * D, D,
                               kTileSlots, D);
    commit();
  };
  copy_rows<D, kChunk>(values_at, w.in.query + (token0 * query_heads + query_head) * w.in.d_k,
                       int64_t(query_heads) * w.in.d_k, live, w.in.d_k);
  commit();
  load_tile(w.snapshot_k, 0, values_at);
  load_tile(w.snapshot_k, 1, values_at);
  copy_rows<D, kChunk>(keys_at, w.in.key + (token0 * w.in.heads + head) * w.in.d_k, int64_t(w.in.heads) * w.in.d_k, live,
                       w.in.d_k);
  copy_rows<M, kChunk>(W, reinterpret_cast<const uint16_t*>(w.weight) + (int64_t(pair) * w.chunks + chunk) * kChunk * M, M,
                       kChunk, M);
  commit();
  uint32_t q[D / 16][4];  // the warp's queries stay in registers
  wait<3>();
  __syncthreads();
  {
    const OperandA<D> queries(values_at + row0 * D, lane);
#pragma unroll
    for (int k = 0; k < D / 16; ++k) queries.load(q[k], 0, k * 16);
  }
  __syncthreads();
#pragma unroll
  for (int i = 2; i < 6; ++i) load_tile(w.snapshot_k, i, values_at);
  float z[M / 8][4];
#pragma unroll
  for (int n = 0; n < M / 8; ++n) z[n][0] = z[n][1] = z[n][2] = z[n][3] = 0;
#pragma unroll
  for (int i = 0; i < tiles; ++i) {
    if (i == 0) wait<6>(); else if (i == 1) wait<5>(); else wait<4>();
    __syncthreads();
    if (i == 1 || i == 2) load_tile(w.snapshot_k, i + 5, values_at); else commit();
    const OperandB<D> from(tile_at(i, values_at), lane);
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
      uint32_t x[4], y[4];
      from.load(x, k * 16, 0);
      from.load(y, k * 16, 16);
      mma(z[i * 4], q[k], x[0], x[1]);
      mma(z[i * 4 + 1], q[k], x[2], x[3]);
      mma(z[i * 4 + 2], q[k], y[0], y[1]);
      mma(z[i * 4 + 3], q[k], y[2], y[3]);
    }
  }
  wait<0>();
  __syncthreads();
  copy_rows<D, kChunk>(values_at, w.in.value + (token0 * w.in.heads + head) * w.in.d_v, int64_t(w.in.heads) * w.in.d_v, live,
                       w.in.d_v);
  commit();
  load_tile(w.snapshot_v, 0, keys_at);
  load_tile(w.snapshot_v, 1, keys_at);
#pragma unroll 1
  for (int j = 0; j <= block; ++j) {
    const OperandB<D> keys(keys_at + j * 16 * D, lane);
    const OperandBTransposed<M> weights(W + j * 16 * M, lane);
    float s[2][4] = {}, s_odd[2][4] = {};  // two chains of products: half the latency
#pragma unroll
    for (int k = 0; k < D / 16; k += 2) {
      uint32_t x[4], x_odd[4];
      keys.load(x, k * 16, 0);
      keys.load(x_odd, k * 16 + 16, 0);
      mma(s[0], q[k], x[0], x[1]);
      mma(s[1], q[k], x[2], x[3]);
      mma(s_odd[0], q[k + 1], x_odd[0], x_odd[1]);
      mma(s_odd[1], q[k + 1], x_odd[2], x_odd[3]);
    }
    add(s, s_odd);
    if (j == block) causal(s, g, c2);
    const uint32_t a[4] = {pack(s[0][0], s[0][1]), pack(s[0][2], s[0][3]), pack(s[1][0], s[1][1]), pack(s[1][2], s[1][3])};
#pragma unroll
    for (int n = 0; n < M / 16; ++n) {
      uint32_t x[4];
      weights.load(x, 0, n * 16);
      mma(z[2 * n], a, x[0], x[1]);
      mma(z[2 * n + 1], a, x[2], x[3]);
    }
  }
  __syncthreads();  // nobody needs the keys any more
#pragma unroll
  for (int i = 2; i < 6; ++i) load_tile(w.snapshot_v, i, keys_at);

  // Softmax over the slots, rows g and g + 8 of the warp's 16; z times E times scale, in bits.
  const float4* const e =
      reinterpret_cast<const float4*>(w.scale_e + ((int64_t(pair) * w.chunks + chunk) * kChunk + row0) * M) + lane;
  float top0 = -INFINITY, top1 = -INFINITY;
  const float scale = w.in.scale * kLog2e;
#pragma unroll
  for (int n = 0; n < M / 8; ++n) {
    const float4 x = e[n * 32];
    z[n][0] *= x.x * scale, z[n][1] *= x.y * scale, z[n][2] *= x.z * scale, z[n][3] *= x.w * scale;
  }
  if (w.in.slots < M) {
#pragma unroll
    for (int n = 0; n < M / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (n * 8 + c2 + i % 2 >= w.in.slots) z[n][i] = -INFINITY;
  }
#pragma unroll
  for (int n = 0; n < M / 8; ++n) {
    top0 = fmaxf(top0, fmaxf(z[n][0], z[n][1])), top1 = fmaxf(top1, fmaxf(z[n][2], z[n][3]));
  }
  top0 = quad_max(top0), top1 = quad_max(top1);
  float sum0 = 0, sum1 = 0;
#pragma unroll
  for (int n = 0; n < M / 8; ++n) {
    z[n][0] = fast_exp2(z[n][0] - top0), z[n][1] = fast_exp2(z[n][1] - top0);
    z[n][2] = fast_exp2(z[n][2] - top1), z[n][3] = fast_exp2(z[n][3] - top1);
    sum0 += z[n][0] + z[n][1], sum1 += z[n][2] + z[n][3];
  }
  const float inverse0 = 1 / quad_sum(sum0), inverse1 = 1 / quad_sum(sum1);
  if (w.in.read_row) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int t = chunk * kChunk + row0 + g + half * 8;
      const int row = t < w.tokens ? w.in.read_row[w.first + t] : -1;
      if (row < 0) continue;
      float* const to = w.out.read_weight + ((int64_t(b) * w.in.read_rows + row) * query_heads + query_head) * w.in.slots;
      for (int n = 0; n < M / 8; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          if (n * 8 + c2 + i < w.in.slots)
            to[n * 8 + c2 + i] = z[n][half * 2 + i] * (half ? inverse1 : inverse0);
    }
  }
  uint32_t p[M / 16][4];
#pragma unroll
  for (int n = 0; n < M / 16; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = 2 * n + half;
      const float4 x = e[i * 32];
      p[n][half * 2] = pack(z[i][0] * x.x, z[i][1] * x.y);
      p[n][half * 2 + 1] = pack(z[i][2] * x.z, z[i][3] * x.w);
    }

  float o[D / 8][4];
#pragma unroll
  for (int n = 0; n < D / 8; ++n) o[n][0] = o[n][1] = o[n][2] = o[n][3] = 0;
#pragma unroll
  for (int i = 0; i < tiles; ++i) {
    if (i < 6) wait<5>(); else wait<4>();
    __syncthreads();
    if (i == 1 || i == 2) load_tile(w.snapshot_v, i + 5, keys_at); else commit();
    const OperandBTransposed<D> from(tile_at(i, keys_at), lane);
#pragma unroll
    for (int k = 0; k < 2; ++k)
#pragma unroll
      for (int n = 0; n < D / 16; ++n) {
        uint32_t x[4];
        from.load(x, k * 16, n * 16);
        mma(o[2 * n], p[i * 2 + k], x[0], x[1]);
        mma(o[2 * n + 1], p[i * 2 + k], x[2], x[3]);
      }
  }
#pragma unroll 1
  for (int j = 0; j <= block; ++j) {
    const OperandB<M> weights(W + j * 16 * M, lane);
    const OperandBTransposed<D> rows(values_at + j * 16 * D, lane);
    float s[2][4] = {}, s_odd[2][4] = {};
#pragma unroll
    for (int k = 0; k < M / 16; k += 2) {
      uint32_t x[4], x_odd[4];
      weights.load(x, k * 16, 0);
      weights.load(x_odd, k * 16 + 16, 0);
      mma(s[0], p[k], x[0], x[1]);
      mma(s[1], p[k], x[2], x[3]);
      mma(s_odd[0], p[k + 1], x_odd[0], x_odd[1]);
      mma(s_odd[1], p[k + 1], x_odd[2], x_odd[3]);
    }
    add(s, s_odd);
    if (j == block) causal(s, g, c2);
    const uint32_t a[4] = {pack(s[0][0], s[0][1]), pack(s[0][2], s[0][3]), pack(s[1][0], s[1][1]), pack(s[1][2], s[1][3])};
#pragma unroll
    for (int n = 0; n < D / 16; ++n) {
      uint32_t x[4];
      rows.load(x, 0, n * 16);
      mma(o[2 * n], a, x[0], x[1]);
      mma(o[2 * n + 1], a, x[2], x[3]);
    }
  }
  float* const to = w.out.output + ((token0 + row0 + g) * query_heads + query_head) * w.in.d_v + c2;
  const int64_t eight = 8 * int64_t(query_heads) * w.in.d_v;
#pragma unroll
  for (int n = 0; n < D / 8; ++n) {
    if (n * 8 + c2 >= w.in.d_v) continue;
    if (row0 + g < live) *reinterpret_cast<float2*>(to + n * 8) = {o[n][0] * inverse0, o[n][1] * inverse0};
    if (row0 + g + 8 < live) *reinterpret_cast<float2*>(to + eight + n * 8) = {o[n][2] * inverse1, o[n][3] * inverse1};
  }
}

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
