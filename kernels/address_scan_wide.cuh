// The plain form of the RAM-Net scan, for addresses and masses that do not fit in shared memory: one block per (batch, head)
// pair, everything in global memory.
#pragma once

#include "kernels/address_gate.h"
#include "kernels/address_scan.h"
#include "kernels/lane_sum.cuh"

namespace slotscope::kernels {
namespace {

constexpr int kWideThreads = 256;

template <class Real>
__device__ Real block_sum(Real x, Real* work) {
  x = group_sum<32>(x);
  __syncthreads();
  if (threadIdx.x % 32 == 0) work[threadIdx.x / 32] = x;
  __syncthreads();
  Real sum = 0;
  for (int i = 0; i < kWideThreads / 32; ++i) sum += work[i];
  return sum;
}

template <class Real>
struct WideScan {
  const AddressScanInput<Real>& in;
  const AddressScanOutput<Real>& out;
  int64_t pair, batch, head;
  Real *keep, *strength, *work;  // [kWideThreads]
  int* chosen;                   // [kWideThreads]
  int thread = int(threadIdx.x);

  __device__ bool valid(int index) const { return index >= 0 && index < in.slots; }
  __device__ int64_t cell(int index) const { return pair * in.slots + index; }

  __device__ void write(int64_t at) const {
    const Real gamma = in.gamma ? in.gamma[at] : in.gamma_of_all;
    for (int first = 0; first < in.top_k; first += kWideThreads) {
      chosen[thread] = first + thread < in.top_k ? write_mass(at * in.top_k + first + thread, gamma) : -1;
      __syncthreads();
      const int ranks = min(kWideThreads, in.top_k - first);
      for (int64_t i = thread; i < int64_t(ranks) * in.d_v; i += kWideThreads) {
        const int rank = int(i / in.d_v), column = int(i % in.d_v);
        if (chosen[rank] < 0) continue;
        Real& s = out.state[cell(chosen[rank]) * in.d_v + column];
        s = keep[rank] * s + strength[rank] * in.value[at * in.d_v + column];
      }
      __syncthreads();
    }
  }
  __device__ int write_mass(int64_t i, Real gamma) const {
    const int index = in.write_index[i];
    const Real w = in.write_weight[i];
    const bool any = valid(index) && !(w <= 0);
    Real log_gate = 0, given = 0;
    if (any) {
      Real& m = out.mass[cell(index)];
      if (in.update == AddressUpdate::gsu) {
        const Real kept = gsu_retention(w, gamma, in.cumulative) * m, total = kept + w + in.eps;
        m = kept + w, given = w / total, keep[thread] = (kept + in.eps) / total;
        if (out.log_gate) log_gate = gsu_log_keep_per_weight(w, kept, in.eps);
      } else {
        keep[thread] = pdma_retention(w, gamma);
        m = keep[thread] * m + w, given = w;
        if (out.log_gate) log_gate = pdma_log_keep_per_weight(w, gamma);
      }
      if (out.written) out.written[cell(index)] = 1;
    }
    strength[thread] = given;
    if (out.strength) out.strength[i] = given;
    if (out.log_gate) out.log_gate[i] = log_gate;
    return any ? index : -1;
  }

  __device__ void read(int64_t at, int64_t t) const {
    Real sum = 0, reached = 0;
    for (int64_t i = at * in.top_k + thread; i < (at + 1) * in.top_k; i += kWideThreads) {
      const int index = in.read_index[i];
      if (!valid(index)) continue;
      const Real m = out.mass[cell(index)];
      sum += in.read_weight[i] * m;
      if (out.written ? out.written[cell(index)] != 0 : m != 0) reached += in.read_weight[i];
    }
    sum = block_sum(sum, work), reached = block_sum(reached, work);
    if (out.read_mass_written && thread == 0) out.read_mass_written[at] = reached;
    const int row = in.read_row ? in.read_row[t] : -1;
    Real* const to =
        row >= 0 && row < in.read_rows ? out.read_weight + ((batch * in.read_rows + row) * in.heads + head) * in.slots : nullptr;
    if (to)
      for (int m = thread; m < in.slots; m += kWideThreads) to[m] = 0;
    gather(at, sum, to);
  }
  // Narrow values: the ranks of a column are split between the threads that have no column of their own.
  __device__ void gather(int64_t at, Real sum, Real* to) const {
    const int parts = in.d_v < kWideThreads ? kWideThreads / in.d_v : 1, part = parts > 1 ? thread / in.d_v : 0;
    Real* const o = out.output + at * in.d_v;
    Real mine = 0;
    for (int first = 0; first < in.top_k; first += kWideThreads) {
      __syncthreads();
      const int rank = first + thread, index = rank < in.top_k ? in.read_index[at * in.top_k + rank] : -1;
      chosen[thread] = valid(index) ? index : -1;
      keep[thread] = valid(index) ? weight(in.read_weight[at * in.top_k + rank], out.mass[cell(index)], sum) : Real(0);
      if (to && valid(index)) to[index] = keep[thread];
      __syncthreads();
      const int ranks = min(kWideThreads, in.top_k - first);
      for (int column = parts > 1 ? thread % in.d_v : thread; part < parts && column < in.d_v; column += kWideThreads) {
        Real add = 0;
        for (int r = part; r < ranks; r += parts)
          if (chosen[r] >= 0) add += keep[r] * out.state[cell(chosen[r]) * in.d_v + column];
        if (parts > 1)
          mine += add;
        else
          o[column] = first == 0 ? add : o[column] + add;
      }
    }
    if (parts == 1) return;
    __syncthreads();
    work[thread] = mine;
    __syncthreads();
    if (thread >= in.d_v) return;
    Real all = 0;
    for (int i = 0; i < parts; ++i) all += work[i * in.d_v + thread];
    o[thread] = all;
  }
  __device__ Real weight(Real r, Real m, Real sum) const {
    const Real divisor = m + in.eps;
    if (in.readout == AddressReadout::mass_aware) r = r * m;
    if (in.update == AddressUpdate::pdma) r = divisor == 0 ? Real(0) : r / divisor;
    if (in.readout == AddressReadout::mass_aware) r = sum == 0 ? Real(0) : r / sum;
    return r;
  }
};

template <class Real>
__global__ void __launch_bounds__(kWideThreads) wide_kernel(AddressScanInput<Real> in, AddressScanOutput<Real> out) {
  __shared__ Real keep[kWideThreads], strength[kWideThreads], work[kWideThreads];
  __shared__ int chosen[kWideThreads];
  const int64_t pair = blockIdx.x;
  const WideScan<Real> scan{in, out, pair, pair / in.heads, pair % in.heads, keep, strength, work, chosen};
  for (int64_t t = 0; t < in.tokens; ++t) {
    const int64_t at = (scan.batch * in.tokens + t) * in.heads + scan.head;
    scan.write(at);
    scan.read(at, t);
    __syncthreads();
  }
}

}  // namespace
}  // namespace slotscope::kernels
