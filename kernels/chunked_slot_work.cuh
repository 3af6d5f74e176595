// What the kernels of the chunked slot scan share: sizes, and the arrays of one segment.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/chunked_slot_scan.h"
#include "kernels/tensor_core.cuh"

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

}  // namespace
}  // namespace slotscope::kernels
