// Chunked slot scan, second kernel: the states along the chunks, with a snapshot before each.
#pragma once

#include "kernels/chunked_slot_work.cuh"

namespace slotscope::kernels {
namespace {

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

}  // namespace
}  // namespace slotscope::kernels
