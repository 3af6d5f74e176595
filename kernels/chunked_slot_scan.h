// The routed slot memory in chunks of 128 tokens, on tensor cores (spec: kernels 1.1 to 1.8). The same recurrence as
// routed_slot_scan.h: bfloat16 query, key and value, float32 gates, states and output.
#pragma once

#include <cstddef>
#include <cstdint>

namespace slotscope::kernels {

// All tensors contiguous, on the device. H = group * heads query heads; query head h reads the slots of head h / group.
struct ChunkedSlotScanInput {
  const uint16_t* query = nullptr;  // bfloat16 [batch, tokens, heads * group, d_k]
  const uint16_t* key = nullptr;    // [batch, tokens, heads, d_k]
  const uint16_t* value = nullptr;  // [batch, tokens, heads, d_v]
  // [batch, tokens, heads, top_k], distinct slots of one token; outside [0, slots): no write. Null: dense, top_k = slots and
  // entry m is slot m.
  const int32_t* index = nullptr;
  const float* gate = nullptr;         // [batch, tokens, heads, top_k] f <= 0: keep exp(f), write 1 - exp(f)
  const int32_t* read_row = nullptr;   // [tokens] row of read_weight that gets p of this token, or -1; null: none
  int64_t batch = 0, tokens = 0;
  int heads = 0, group = 1;
  int slots = 0, top_k = 0, d_k = 0, d_v = 0;
  int64_t read_rows = 0;
  float scale = 1;
};
struct ChunkedSlotScanOutput {
  float* state_k = nullptr;      // [batch, heads, slots, d_k] in: state before; out: state after the last token
  float* state_v = nullptr;      // [batch, heads, slots, d_v]
  float* output = nullptr;       // [batch, tokens, heads * group, d_v]
  float* read_weight = nullptr;  // [batch, read_rows, heads * group, slots]; null with read_rows 0
};

// Slots up to 256, widths up to 256 that are multiples of 8.
bool chunked_slot_scan_supports(int slots, int d_k, int d_v);
// The present device has the shared memory that these sizes need (224 KiB for 256 slots of 256 columns). False in builds
// without CUDA.
bool chunked_slot_scan_fits(int slots, int d_k, int d_v);
// Bytes of device memory that `workspace` must have; does not grow with the prompt beyond 16,384 tokens.
size_t chunked_slot_scan_workspace(const ChunkedSlotScanInput&);
// Asynchronous on `stream` (cudaStream_t), deterministic. A slot that no token of the call writes keeps its state bit for
// bit. A slot that decays by more than 2^-180 within a chunk, other than by single tokens that erase it, sends its head to
// the recurrence for up to 16,384 tokens: exact, slow. Throws std::runtime_error with the CUDA message when a launch fails,
// std::logic_error in a build without CUDA, std::invalid_argument for sizes outside
// chunked_slot_scan_supports.
void chunked_slot_scan_cuda(const ChunkedSlotScanInput&, const ChunkedSlotScanOutput&, void* workspace, void* stream);

}  // namespace slotscope::kernels
