// The matrix state of linear-attention families, token by token (spec: model-zoo 6 to 12, 15): a head keeps one row of d_k
// numbers per value channel i, its slots (section 17).
//   row_i = keep * row_i                       keep one number per head or per key channel
//   e     = strength * (v_i - row_i.k)         with the delta rule, else strength * v_i
//   row_i = row_i + e k                        o_i = scale row_i.q
#pragma once

#include <cstdint>

namespace slotscope::kernels {

// All tensors contiguous; Real is the state's type. Key head of a state head h: h / (heads / key_heads). Outputs stand on
// max(query_heads, heads) heads o: state head o / (out / heads), query head o / (out / query_heads).
template <class Real>
struct MatrixStateScanInput {
  const Real* query = nullptr;     // [batch, tokens, query_heads, d_k]
  const Real* key = nullptr;       // [batch, tokens, key_heads, d_k]
  const Real* value = nullptr;     // [batch, tokens, heads, d_v]
  const Real* keep = nullptr;      // [batch, tokens, heads] or, per channel, [batch, tokens, heads, d_k]; null: 1
  const Real* strength = nullptr;  // [batch, tokens, heads]; null: 1
  bool keep_per_channel = false;
  bool delta = false;
  int64_t batch = 0, tokens = 0;
  int heads = 0, query_heads = 0, key_heads = 0;  // one of heads, query_heads divides the other; key_heads divides heads
  int d_k = 0, d_v = 0;
  Real scale = 1;
};
template <class Real>
struct MatrixStateScanOutput {
  Real* state = nullptr;   // [batch, heads, d_v, d_k] in: state before; out: state after the last token
  Real* output = nullptr;  // [batch, tokens, max(query_heads, heads), d_v]
};

// Reference. (batch, head) pairs [first, last) of batch * heads; pairs share nothing, callers may split them between
// threads. The order of every sum is fixed (16 lanes, no contraction), so results are the same on every x86-64 processor.
template <class Real>
void matrix_state_scan_cpu(const MatrixStateScanInput<Real>&, const MatrixStateScanOutput<Real>&, int64_t first,
                           int64_t last);
extern template void matrix_state_scan_cpu(const MatrixStateScanInput<float>&, const MatrixStateScanOutput<float>&,
                                           int64_t, int64_t);
extern template void matrix_state_scan_cpu(const MatrixStateScanInput<double>&,
                                           const MatrixStateScanOutput<double>&, int64_t, int64_t);

// All rows, on device pointers, on `stream` (cudaStream_t), asynchronous, deterministic; any d_k, fastest up to 1024 (wider
// rows stay in global memory). Every sum of d_k products is off by at most (d_k + 2) u of the sum of their magnitudes, u
// half a unit in the last place; with keeps at most 1 and, under the delta rule, strength |k|^2 at most 2, a token does
// not amplify what tokens before it were off by. Throws std::runtime_error with the CUDA message when the launch fails,
// std::logic_error in a build without CUDA.
void matrix_state_scan_cuda(const MatrixStateScanInput<float>&, const MatrixStateScanOutput<float>&, void* stream);
void matrix_state_scan_cuda(const MatrixStateScanInput<double>&, const MatrixStateScanOutput<double>&, void* stream);

}  // namespace slotscope::kernels
