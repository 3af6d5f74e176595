// Ranked candidates of an address search on the device: one integer order for scores, NaN and ties, and the sorting networks
// over it (spec: ramnet 1.3; kernels 3.1).
#pragma once

#include <cstdint>

namespace slotscope::kernels {
namespace {

__device__ inline uint32_t bits_of(float x) { return __float_as_uint(x); }
__device__ inline uint64_t bits_of(double x) { return uint64_t(__double_as_longlong(x)); }
__device__ inline float from_bits(uint32_t b) { return __uint_as_float(b); }
__device__ inline double from_bits(uint64_t b) { return __longlong_as_double((long long)(b)); }

// Integers in the order of the reals, NaN above all, and nothing at 0.
template <class Real>
__device__ inline auto ordered(Real x) {
  auto b = bits_of(x + Real(0));  // -0 becomes 0
  using Bits = decltype(b);
  constexpr Bits sign = Bits(1) << (sizeof(Bits) * 8 - 1);
  if (x != x) return Bits(~Bits(0));
  return Bits(b & sign ? ~b : b | sign);
}
template <class Bits>
__device__ inline auto unordered(Bits o) {
  constexpr Bits sign = Bits(1) << (sizeof(Bits) * 8 - 1);
  return from_bits(Bits(o == ~Bits(0) ? o >> 1 : o & sign ? o ^ sign : ~o));  // all ones: a NaN
}

// A score and a slot. The greater entry comes first: score descending, NaN first, then slot ascending. An entry that is no
// candidate is less than every candidate.
template <class Real>
struct Entry;

template <>
struct Entry<float> {
  uint64_t key;
  __device__ static Entry none() { return {0}; }
  __device__ static Entry make(float score, int slot) {
    return {uint64_t(ordered(score)) << 32 | uint32_t(~uint32_t(slot))};
  }
  __device__ float score() const { return unordered(uint32_t(key >> 32)); }
  __device__ int slot() const { return int(~uint32_t(key)); }
  __device__ bool operator>(const Entry& o) const { return key > o.key; }
  __device__ Entry from_lane_xor(int mask) const { return {__shfl_xor_sync(0xffffffffu, key, mask)}; }
  __device__ Entry from_lane(int lane) const { return {__shfl_sync(0xffffffffu, key, lane)}; }
};

template <>
struct Entry<double> {
  uint64_t key;
  uint32_t rest;
  __device__ static Entry none() { return {0, 0}; }
  __device__ static Entry make(double score, int slot) { return {ordered(score), ~uint32_t(slot)}; }
  __device__ double score() const { return unordered(key); }
  __device__ int slot() const { return int(~rest); }
  __device__ bool operator>(const Entry& o) const { return key > o.key || (key == o.key && rest > o.rest); }
  __device__ Entry from_lane_xor(int mask) const {
    return {__shfl_xor_sync(0xffffffffu, key, mask), __shfl_xor_sync(0xffffffffu, rest, mask)};
  }
  __device__ Entry from_lane(int lane) const {
    return {__shfl_sync(0xffffffffu, key, lane), __shfl_sync(0xffffffffu, rest, lane)};
  }
};

// kLanes kPer entries in the registers of a group of lanes: entry i is x[i / kLanes] of lane i % kLanes. All groups of a warp
// do the same at the same time.
template <class Real, int kLanes, int kPer>
struct LaneList {
  static constexpr int kSize = kLanes * kPer;
  Entry<Real> x[kPer];

  // One comparison of every pair i, i + stride; the better one to the front where (i & block) is 0, to the back elsewhere.
  __device__ void exchange(int stride, int block, int lane) {
    if (stride >= kLanes) {
#pragma unroll
      for (int e = 0; e < kPer; ++e) {
        const int other = e ^ (stride / kLanes);
        if (other <= e || other >= kPer) continue;
        const bool forward = ((e * kLanes) & block) == 0;
        const Entry<Real> a = x[e], b = x[other];
        if ((b > a) == forward) x[e] = b, x[other] = a;
      }
      return;
    }
#pragma unroll
    for (int e = 0; e < kPer; ++e) {
      const Entry<Real> other = x[e].from_lane_xor(stride);
      const bool forward = ((e * kLanes + lane) & block) == 0, front = (lane & stride) == 0;
      if ((other > x[e]) == (forward == front)) x[e] = other;
    }
  }
  // Sorts what first ascends and then descends, or the other way round.
  __device__ void merge(int lane) {
#pragma unroll
    for (int stride = kSize / 2; stride > 0; stride /= 2) exchange(stride, 0, lane);
  }
  __device__ void sort(int lane) {
#pragma unroll
    for (int block = 2; block <= kSize; block *= 2)
#pragma unroll
      for (int stride = block / 2; stride > 0; stride /= 2) exchange(stride, block, lane);
  }
  // Entry i and entry N-1-i change places.
  __device__ void turn() {
#pragma unroll
    for (int e = 0; e < kPer / 2; ++e) {
      const Entry<Real> a = x[e];
      x[e] = x[kPer - 1 - e], x[kPer - 1 - e] = a;
    }
#pragma unroll
    for (int e = 0; e < kPer; ++e) x[e] = x[e].from_lane_xor(kLanes - 1);
  }
  // Whether no entry of any group of the warp is better than the next one.
  __device__ bool rising(int lane) const {
    bool ok = true;
#pragma unroll
    for (int e = 0; e < kPer; ++e) {
      const Entry<Real> before = x[e].from_lane((int(threadIdx.x) + 31) % 32);
      if (lane > 0 && before > x[e]) ok = false;
      if (e + 1 < kPer) {
        const Entry<Real> last = x[e].from_lane(int(threadIdx.x) % 32 / kLanes * kLanes + kLanes - 1);
        if (lane == 0 && last > x[e + 1 < kPer ? e + 1 : e]) ok = false;
      }
    }
    return __all_sync(0xffffffffu, ok);
  }
};

}  // namespace
}  // namespace slotscope::kernels
