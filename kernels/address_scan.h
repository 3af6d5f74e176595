// RAM-Net's memory, token by token, over sparse addresses (spec: ramnet 1.5 to 1.7; kernels 3.2, 3.3). A head owns M slots, each
// with a mass m and a value s of d_v numbers. Every token writes to the slots of its write address w and then reads those of
// its read address r. Only slots with w > 0 change, all others keep their bits.
//   GSU:  D = rho m, rho = sigma(logit(1-w) - gamma)       m = D + w       s = (D+eps)/(m+eps) s + w/(m+eps) v
//   PDMA: z = (1-w)^gamma z + w                            S = (1-w)^gamma S + w v
//   o = sum over the K read slots, in their order, of p(a) s(a), where p is
//     GSU  standard r                 mass-aware r m / sum_b r_b m_b
//     PDMA standard r / (z + eps)     mass-aware r z / (z + eps) / sum_b r_b z_b          (0 where a divisor is 0)
// Both rules have one form of token-to-token weights, o_t = sum_s A[t,s] v_s + what the first state brings:
//   A[t,s] = sum_a p_t(a) strength_s(a) exp(sum_{j=s+1..t} log_gate_j(a) w_j(a))
#pragma once

#include <cstdint>

namespace slotscope::kernels {

enum class AddressUpdate { gsu, pdma };
enum class AddressReadout { standard, mass_aware };

// All arrays contiguous; Real is the state's type. The slots of one address are distinct; an index outside [0, slots), -1 by
// custom, is no slot. Weights are not negative; a NaN spreads to the slots it is written to and the outputs they are read for.
template <class Real>
struct AddressScanInput {
  const int32_t* write_index = nullptr;  // [batch, tokens, heads, top_k]
  const Real* write_weight = nullptr;    // [batch, tokens, heads, top_k] w in [0, 1]
  const int32_t* read_index = nullptr;   // [batch, tokens, heads, top_k]
  const Real* read_weight = nullptr;     // [batch, tokens, heads, top_k] r
  const Real* value = nullptr;           // [batch, tokens, heads, d_v]
  const Real* gamma = nullptr;           // [batch, tokens, heads] GSU only; null: gamma_of_all. Infinite values are limits
  Real gamma_of_all = 0;                 // PDMA: >= 0
  bool cumulative = false;               // GSU with rho = 1 (PDMA: gamma 0 is that)
  Real eps = 0;                          // >= 0
  AddressUpdate update = AddressUpdate::gsu;
  AddressReadout readout = AddressReadout::standard;
  const int32_t* read_row = nullptr;  // [tokens] row of out.read_weight that gets p of this token, or -1; null: no token
  int64_t batch = 0, tokens = 0;
  int heads = 0, slots = 0, top_k = 0, d_v = 0;
  int64_t read_rows = 0;
};

// The state goes on where the last call left it: any split of the tokens into calls gives the bits of one call. The others
// may be null when they are not wanted, but for output.
template <class Real>
struct AddressScanOutput {
  Real* mass = nullptr;   // [batch, heads, slots] m or z; the first state is the caller's: 0 for GSU, 1/M for PDMA
  Real* state = nullptr;  // [batch, heads, slots, d_v] s or S; 0 at first
  // [batch, heads, slots] 1 where a slot was ever written with w > 0; in and out like the state. Under GSU it says what m > 0
  // says and may be null; under PDMA z and S cannot tell (z may come back to 1/M, v may be 0), so read_mass_written needs it.
  uint8_t* written = nullptr;
  Real* output = nullptr;             // [batch, tokens, heads, d_v] o, after the write of the same token
  Real* strength = nullptr;           // [batch, tokens, heads, top_k] GSU w/(m+eps), PDMA w; 0 where nothing is written
  Real* log_gate = nullptr;           // [batch, tokens, heads, top_k] log(share of s that is kept) / w, free of
                                      // cancellation; -inf where nothing is kept (a first write with eps 0), 0 where w = 0
  Real* read_mass_written = nullptr;  // [batch, tokens, heads] sum of r over slots ever written, this token's included
  Real* read_weight = nullptr;        // [batch, read_rows, heads, slots] p of the tokens of read_row
};

// Reference. (batch, head) pairs [first, last) of batch * heads; pairs share nothing, callers may split them between threads.
// Sums run in the order of the ranks, without contraction. Both functions throw std::invalid_argument, before they touch
// anything, when an array is missing or a size or constant is out of its range.
template <class Real>
void address_scan_cpu(const AddressScanInput<Real>&, const AddressScanOutput<Real>&, int64_t first, int64_t last);
extern template void address_scan_cpu(const AddressScanInput<float>&, const AddressScanOutput<float>&, int64_t, int64_t);
extern template void address_scan_cpu(const AddressScanInput<double>&, const AddressScanOutput<double>&, int64_t, int64_t);

// All pairs, on device pointers, on `stream` (cudaStream_t), asynchronous, deterministic, any sizes; fastest where a column of
// M values and the masses fit in shared memory. Masses, values and weights of a slot come from the reference's operations in
// their order (with products contracted, and exp and log of the device); sums over the ranks of an address run in a fixed tree.
// So outputs are off from the reference by at most (top_k + 6 n) u of the sum of their magnitudes, u half a unit in the last
// place, n the writes that a slot has seen since it was last overwritten: a mass sums up n weights that are not negative.
// A few bytes per slot of device memory are taken and returned in the order of the stream. Throws std::runtime_error with the
// CUDA message when the launch fails, std::logic_error in a build without CUDA.
void address_scan_cuda(const AddressScanInput<float>&, const AddressScanOutput<float>&, void* stream);
void address_scan_cuda(const AddressScanInput<double>&, const AddressScanOutput<double>&, void* stream);

// What both functions check first. Throws std::invalid_argument.
template <class Real>
void check_address_scan(const AddressScanInput<Real>&, const AddressScanOutput<Real>&);
extern template void check_address_scan(const AddressScanInput<float>&, const AddressScanOutput<float>&);
extern template void check_address_scan(const AddressScanInput<double>&, const AddressScanOutput<double>&);

}  // namespace slotscope::kernels
