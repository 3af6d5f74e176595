// Sparse addresses of a product code (spec: ramnet 1.2 to 1.4; RAM-Net, product softmax and Top-K). A slot has one code for
// each of U factors; its probability is the product of the factors' softmaxes. The K most probable slots are found without
// looking at all d_p^U of them.
#pragma once

#include <cstdint>

namespace slotscope::kernels {

// The most slots that an address can choose among: indices are int32.
inline constexpr int64_t kMaxAddressSlots = int64_t(1) << 30;
// d_p^U, or 0 where that is beyond kMaxAddressSlots or a size is below 1.
int64_t address_slots(int codes, int factors);

enum class SlotOrder {
  factor0_least,  // slot = sum_u code_u d_p^u (spec: ramnet 1.2, the default)
  factor0_most,   // factor 0 is the most significant digit
};

// One row of logits per (batch, token, head). All arrays contiguous.
template <class Real>
struct AddressDecodeInput {
  const Real* logit = nullptr;  // [batch, tokens, heads, factors, codes]
  int64_t batch = 0, tokens = 0;
  int heads = 0, factors = 0, codes = 0;  // H, U, d_p; address_slots(codes, factors) must not be 0
  int top_k = 0;                          // 1 <= K <= d_p^U
  SlotOrder order = SlotOrder::factor0_least;
  // CAPE (spec: ramnet 1.4): slots of these heads move by `direction` (+1 or -1) per position, modulo d_p^U, after the
  // selection. Position of token t: first_position + t.
  const uint8_t* cape = nullptr;  // [heads] 0 or 1; null: no head
  int direction = 1;
  int64_t first_position = 0;
  bool normalised = false;  // logits are log softmaxes already and are taken as they are
};
template <class Real>
struct AddressDecodeOutput {
  int32_t* slot = nullptr;  // [batch, tokens, heads, K] by descending score, ties by ascending slot (before CAPE)
  Real* weight = nullptr;   // [batch, tokens, heads, K] exp(score): not renormalised
  Real* score = nullptr;    // [batch, tokens, heads, K] sum over u = 0..U-1, in that order, of log softmax; may be null
  Real* lost = nullptr;     // [batch, tokens, heads] probability of the slots left out, 0 where K = d_p^U; may be null
};

// Rows [first, last) of batch * tokens * heads; rows do not depend on each other, callers may split them between threads.
// The scores are exactly those of a full sort of all d_p^U rounded scores; slots too, but for slots whose rounded scores are
// equal while the exact ones are not. A logit that is NaN or +infinity gives NaN weights on distinct slots.
template <class Real>
void select_addresses_cpu(const AddressDecodeInput<Real>&, const AddressDecodeOutput<Real>&, int64_t first, int64_t last);

extern template void select_addresses_cpu(const AddressDecodeInput<float>&, const AddressDecodeOutput<float>&, int64_t,
                                          int64_t);
extern template void select_addresses_cpu(const AddressDecodeInput<double>&, const AddressDecodeOutput<double>&, int64_t,
                                          int64_t);

// All rows, on device pointers (cape too), on `stream` (cudaStream_t), asynchronous, deterministic; any sizes, fastest up to K
// 128. The arithmetic and the order are those of the CPU but for exp and log, which are the device's: a log softmax may be off
// by 2 units in the last place of its logit range (float: nearly never). Given these, the scores are bit for bit those of a
// full sort, in the same total order: score descending, NaN first, then slot ascending. `lost` sums the weights in a fixed
// tree, so it is off by a few units in the last place of 1. Throws std::runtime_error with the CUDA message when the launch
// fails, std::invalid_argument when K is not from 1 to d_p^U, std::logic_error in a build without CUDA.
void select_addresses_cuda(const AddressDecodeInput<float>&, const AddressDecodeOutput<float>&, void* stream);
void select_addresses_cuda(const AddressDecodeInput<double>&, const AddressDecodeOutput<double>&, void* stream);

// log softmax of one group of n logits, x - (max + log(sum exp(x - max))), the sum in order and compensated (Neumaier). The
// arithmetic of the decoder.
template <class Real>
void log_softmax(const Real* logit, int n, Real* log_p);
extern template void log_softmax(const float*, int, float*);
extern template void log_softmax(const double*, int, double*);

}  // namespace slotscope::kernels
