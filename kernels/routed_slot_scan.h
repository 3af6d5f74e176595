// The routed slot memory, token by token: update the selected slots, then read all of them (spec:
// model-zoo 2.3 steps 11 and 12).
//   S^k[m] = keep[m] S^k[m] + write[m] k      S^v[m] = keep[m] S^v[m] + write[m] v      (selected m only;
//   others untouched) z[m] = scale S^k[m].q    p = softmax over all M of z    o = sum_m p[m] S^v[m]
#pragma once

#include <cstdint>

namespace slotscope::kernels {

// All tensors contiguous; Real is the state's type (float, or double in float64 runs). H = G * heads query
// heads; query head h reads the slots of head h / G (spec: model-zoo 1.5).
template <class Real>
struct RoutedSlotScanInput {
  const Real* query = nullptr;  // [batch, tokens, heads * group, d_k]
  const Real* key = nullptr;    // [batch, tokens, heads, d_k]
  const Real* value = nullptr;  // [batch, tokens, heads, d_v]
  const int32_t* index =
      nullptr;  // [batch, tokens, heads, top_k], distinct slots of one token; outside [0, slots): no write
  const Real* keep = nullptr;   // [batch, tokens, heads, top_k] exp(f)
  const Real* write = nullptr;  // [batch, tokens, heads, top_k] s = 1 - exp(f)
  const int32_t* read_row =
      nullptr;  // [tokens] row of read_weight that gets p of this token, or -1; null: none
  int64_t batch = 0, tokens = 0;
  int heads = 0;  // H_r: heads that own slots
  int group = 1;  // G
  int slots = 0, top_k = 0, d_k = 0, d_v = 0;
  int64_t read_rows = 0;
  Real scale = 1;
};
template <class Real>
struct RoutedSlotScanOutput {
  Real* state_k = nullptr;  // [batch, heads, slots, d_k] in: state before; out: state after the last token
  Real* state_v = nullptr;  // [batch, heads, slots, d_v]
  Real* output = nullptr;   // [batch, tokens, heads * group, d_v]
  Real* read_weight = nullptr;  // [batch, read_rows, heads * group, slots]; null with read_rows 0
};

// Reference. (batch, head) pairs [first, last) of batch * heads; pairs share nothing, callers may split them
// between threads. The order of every sum is fixed (16 lanes, no contraction), so results are the same on
// every x86-64 processor.
template <class Real>
void routed_slot_scan_cpu(const RoutedSlotScanInput<Real>&, const RoutedSlotScanOutput<Real>&, int64_t first,
                          int64_t last);
extern template void routed_slot_scan_cpu(const RoutedSlotScanInput<float>&,
                                          const RoutedSlotScanOutput<float>&, int64_t, int64_t);
extern template void routed_slot_scan_cpu(const RoutedSlotScanInput<double>&,
                                          const RoutedSlotScanOutput<double>&, int64_t, int64_t);

// All pairs, on device pointers, on `stream` (cudaStream_t), asynchronous, deterministic. Throws
// std::runtime_error with the CUDA message when the launch fails, std::logic_error in a build without CUDA.
void routed_slot_scan_cuda(const RoutedSlotScanInput<float>&, const RoutedSlotScanOutput<float>&,
                           void* stream);
void routed_slot_scan_cuda(const RoutedSlotScanInput<double>&, const RoutedSlotScanOutput<double>&,
                           void* stream);

}  // namespace slotscope::kernels
