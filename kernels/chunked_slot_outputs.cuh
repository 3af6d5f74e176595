// Chunked slot scan, third kernel: what every token reads.
#pragma once

#include "kernels/chunked_slot_work.cuh"

namespace slotscope::kernels {
namespace {

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

}  // namespace
}  // namespace slotscope::kernels
