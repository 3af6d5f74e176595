// ESL, selection and role counters of sparse routes (Raven Def. 4; spec: raven-analysis "Effective sequence length").
#pragma once

#include <cstdint>

namespace slotscope::kernels {

// One block of tokens of one layer. Index and weight are contiguous [rows, heads, top_k]; an index >= slots means "no slot"
// (padding) and is passed over.
struct RouteCounterInput {
  const uint32_t* index = nullptr;
  const float* weight = nullptr;
  const uint8_t* roles = nullptr;  // [rows] 0 other, 1 retrieval; null: all other
  int64_t rows = 0;
  int heads = 0;                   // H_r
  int top_k = 0;                   // K
  int slots = 0;                   // M
};
// Added to, never cleared; contiguous [heads, slots]. Any of them may be null.
struct RouteCounterOutput {
  uint32_t* esl = nullptr;         // writes with r != 0
  uint32_t* selected = nullptr;    // selections
  uint32_t* retrieval = nullptr;   // writes with r != 0 of tokens with role retrieval
};

// Reference, on host pointers.
void count_routes_cpu(const RouteCounterInput&, const RouteCounterOutput&);
// Device pointers; runs on `stream` (cudaStream_t), asynchronous, deterministic (integer atomics). Throws std::runtime_error with
// the CUDA message when the launch fails; std::logic_error in a build without CUDA.
void count_routes_cuda(const RouteCounterInput&, const RouteCounterOutput&, void* stream);
// True when this build has CUDA kernels and a device answers.
bool cuda_available();

}  // namespace slotscope::kernels
