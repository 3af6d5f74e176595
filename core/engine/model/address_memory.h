// Sparse addresses of a product code and the memory they write and read, as operations on tensors (spec: ramnet 1.2 to 1.7).
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "kernels/address_decode.h"

namespace slotscope::engine {

// How logits become addresses. All heads of a layer share it.
struct AddressCode {
  int factors = 0, codes = 0;  // U, d_p
  int64_t slots = 0;           // M = d_p^U
  int64_t top_k = 0;           // K, 1 to M
  kernels::SlotOrder order = kernels::SlotOrder::factor0_least;
  bool renormalize = false;  // the K weights are divided by their sum
  int direction = 1;         // of CAPE: slots move by +1 or -1 a token
};

struct Addresses {
  at::Tensor index;   // int32 [B,T,H,K] slots, distinct, by descending weight (before CAPE: ties to the lower slot)
  at::Tensor weight;  // [B,T,H,K], dtype of the logits
  at::Tensor lost;    // [B,T,H] probability of the slots left out (before any renormalisation); 0 where K = M
  at::Tensor gap;     // [B,T,H] log weight of rank K minus that of the best left out (nats); NaN where K = M
};
// logits [B,T,H,U d_p], float32 or float64. `cape`: uint8 [H] on the device of the logits, undefined: no head. The weights have
// a gradient where grad mode is on and the logits require one; which slots are chosen has none.
Addresses decode_addresses(const at::Tensor& logits, const AddressCode& code, const at::Tensor& cape, int64_t first_position);

// What a write does and how a read weighs (spec: ramnet 1.5, 1.6).
struct AddressRule {
  bool pdma = false;        // keep (1-w)^gamma of sum and weight; else GSU: a mean whose mass is kept by a gate
  bool cumulative = false;  // GSU: mass is never forgotten (rho = 1)
  bool mass_aware = false;  // reads are weighted by mass and divided by the mass they meet
  double eps = 1e-6;
  double pdma_gamma = 1;
  // The mass of a slot that nothing was written to.
  double initial_mass(int64_t slots) const { return pdma ? 1.0 / double(slots) : 0.0; }
};

// index -1 stands for no slot: nothing is written or read there.
struct AddressMemoryInput {
  at::Tensor value;                      // [B,T,H,d_v]
  at::Tensor write_index, write_weight;  // int32 [B,T,H,K], [B,T,H,K] w in 0..1
  at::Tensor read_index, read_weight;    // the same of reads
  at::Tensor gamma;                      // [B,T,H]; undefined: pdma or cumulative
  at::Tensor mass;                       // [B,H,M] before the segment: m (GSU), z (PDMA)
  at::Tensor slot;                       // [B,H,M,d_v] s (GSU), S (PDMA)
  at::Tensor written;                    // uint8 [B,H,M] 1 where a slot was ever written
  AddressRule rule;
  bool want_writes = false;        // strength and log_decay
  std::vector<int64_t> read_rows;  // tokens of the segment whose read_weight is wanted
};
// Token to token A[t,j] = sum_i p_t[i] strength_j[i] exp(sum of log_decay[i] w[i] over the writes of i after j, up to t), exact
// for any rule and any eps; o_t = sum_j A[t,j] v_j (spec: ramnet 1.7).
struct AddressMemoryOutput {
  at::Tensor output;               // [B,T,H,d_v] dtype of the state
  at::Tensor mass, slot, written;  // after the segment; slots without a write are bit-identical
  at::Tensor read_mass;            // [B,T,H] sum of r over the slots ever written, those of the token included
  at::Tensor strength;             // [B,T,H,K] GSU: eta = w / (m + eps), PDMA: w; undefined unless wanted
  at::Tensor log_decay;            // [B,T,H,K] log of the share of the slot's value that is kept, divided by w: -inf where
                                   // nothing is kept (a first write with eps 0), 0 where w = 0
  at::Tensor read_weight;  // [B,R,H,M] p: r, mass-aware r m / sum r m; PDMA: divided by z + eps; undefined without read_rows
};
// Writes of a token come before its reads. The states are replaced, never written into. Differentiable in value, weights, gamma
// and states where grad mode is on and one of them requires a gradient (address_memory_by_token); else by the kernel
// address_scan.
AddressMemoryOutput address_memory(const AddressMemoryInput&);
// The same one token after another in plain tensor operations: the form that has a gradient.
AddressMemoryOutput address_memory_by_token(const AddressMemoryInput&);

}  // namespace slotscope::engine
