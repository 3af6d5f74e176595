// The routed slot memory as an operation on tensors (spec: model-zoo 2.3 steps 9 to 12). Shared by every
// family whose slots are rows of (S^k, S^v) written by a sparse route and read through a softmax over all
// slots.
#pragma once

#include <ATen/ATen.h>

#include <vector>

namespace slotscope::engine {

struct Selection {
  at::Tensor index;  // int32 [..., K], rank order
  at::Tensor gap;    // [...], score of rank K minus the best left out; NaN when K = M
};
// Stable top-k of scores [..., M] (selection bias added): score descending, ties to the lower slot.
Selection select_slots(const at::Tensor& score, int64_t top_k);

struct SlotMemoryInput {
  at::Tensor query;        // [B,T,H,d_k]
  at::Tensor key;          // [B,T,H_r,d_k]
  at::Tensor value;        // [B,T,H_r,d_v]
  at::Tensor index;        // int32 [B,T,H_r,K]; undefined: dense, every slot is written and K = M
  at::Tensor keep, write;  // [B,T,H_r,K] exp(f) and 1 - exp(f), dtype of the states
  at::Tensor log_keep;     // f of the same shape where write = 1 - exp(f): long bfloat16 prompts on CUDA then go in chunks
  at::Tensor state_k;      // [B,H_r,M,d_k] before the segment
  at::Tensor state_v;      // [B,H_r,M,d_v]
  double scale = 1;
  std::vector<int64_t> read_rows;  // tokens of the segment whose read softmax is wanted
};
struct SlotMemoryOutput {
  at::Tensor output;            // [B,T,H,d_v], dtype of the states
  at::Tensor state_k, state_v;  // after the segment; slots that were not selected are bit-identical
  at::Tensor read_weight;       // [B,R,H,M], undefined without read_rows
};
SlotMemoryOutput routed_slot_memory(const SlotMemoryInput&);

}  // namespace slotscope::engine
