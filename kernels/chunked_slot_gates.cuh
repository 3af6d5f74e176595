// Chunked slot scan, first kernel: gates to the scaling E and the weights W.
#pragma once

#include "kernels/chunked_slot_work.cuh"

namespace slotscope::kernels {
namespace {

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

}  // namespace
}  // namespace slotscope::kernels
