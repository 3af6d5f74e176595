// Tiles of bfloat16 matrices in shared memory and the tensor-core product m16n8k16 (device code only). A tile has rows of
// `width` elements, a multiple of 64; the 16-byte pieces of row r are stored at piece ^ (r & 7), so that eight rows of one
// column of pieces lie in different banks.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace slotscope::kernels {

// 16 bytes from global to shared memory, asynchronously; zeros where `there` is false (from must still be an address).
__device__ inline void copy16(uint32_t address, const void* from, bool there) {
  const int bytes = there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes) : "memory");
}
__device__ inline void copy16(void* to, const void* from, bool there) {
  copy16(uint32_t(__cvta_generic_to_shared(to)), from, there);
}
__device__ inline void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ inline void wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// A place in a tile that stands for one lane's row of an ldmatrix: `row` and `piece` are those of the lane in the operand at
// (0, 0). Another operand is `down` rows and `right` columns (a multiple of 8) away; the swizzle is one exclusive or because
// the lane's own piece is 0 or 1 and `right` is a multiple of 16.
struct TileLane {
  uint32_t base;
  __device__ TileLane(const __nv_bfloat16* tile, int width, int row, int piece)
      : base(uint32_t(__cvta_generic_to_shared(tile)) + uint32_t(row * width * 2 + ((piece ^ (row & 7)) << 4))) {}
  template <int kWidth>
  __device__ uint32_t at(int down, int right) const {
    return (base ^ uint32_t((right / 8 & 7) << 4)) + uint32_t(right / 64 * 128 + down * kWidth * 2);
  }
};
__device__ inline void ldmatrix(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address));
}
__device__ inline void ldmatrix_transposed(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address));
}

// A [16,16] of a tile [row][k].
template <int kWidth>
struct OperandA {
  TileLane lane;
  __device__ OperandA(const __nv_bfloat16* tile, int l) : lane(tile, kWidth, l & 15, l >> 4) {}
  __device__ void load(uint32_t (&r)[4], int row, int k) const { ldmatrix(r, lane.at<kWidth>(row, k)); }
};
// The same of a tile [k][row].
template <int kWidth>
struct OperandATransposed {
  TileLane lane;
  __device__ OperandATransposed(const __nv_bfloat16* tile, int l)
      : lane(tile, kWidth, (l & 7) + ((l >> 4) << 3), (l >> 3) & 1) {}
  __device__ void load(uint32_t (&r)[4], int row, int k) const { ldmatrix_transposed(r, lane.at<kWidth>(k, row)); }
};
// B [16,16] of a tile [n][k]: {r0, r1} are columns n..n+7, {r2, r3} columns n+8..n+15.
template <int kWidth>
struct OperandB {
  TileLane lane;
  __device__ OperandB(const __nv_bfloat16* tile, int l) : lane(tile, kWidth, (l & 7) + ((l >> 4) << 3), (l >> 3) & 1) {}
  __device__ void load(uint32_t (&r)[4], int k, int n) const { ldmatrix(r, lane.at<kWidth>(n, k)); }
};
// The same of a tile [k][n].
template <int kWidth>
struct OperandBTransposed {
  TileLane lane;
  __device__ OperandBTransposed(const __nv_bfloat16* tile, int l)
      : lane(tile, kWidth, (l & 7) + (((l >> 3) & 1) << 3), l >> 4) {}
  __device__ void load(uint32_t (&r)[4], int k, int n) const { ldmatrix_transposed(r, lane.at<kWidth>(k, n)); }
};

// c [16,8] += a [16,16] b [16,8], float32 sums. Thread: rows g and g + 8, columns c2 and c2 + 1 (g = lane / 4, c2 = 2 (lane % 4)).
__device__ inline void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// Two neighbouring columns of an accumulator as a part of an A operand, rounded to nearest.
__device__ inline uint32_t pack(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&both);
}
// Columns beyond the row of a diagonal [16,16] block become 0: chosen, never multiplied, because they may be infinite.
__device__ inline void causal(float (&s)[2][4], int g, int c2) {
#pragma unroll
  for (int n = 0; n < 2; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (n * 8 + c2 + i % 2 > g + i / 2 * 8) s[n][i] = 0;
}

// 2^x by the processor's own instruction: relative error 2^-22, results below 2^-126 are 0.
__device__ inline float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ inline float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ inline float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
__device__ inline float warp_sum(float x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}
__device__ inline float warp_max(float x) {
  for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
  return x;
}
__device__ inline float bf16(uint16_t bits) { return __uint_as_float(uint32_t(bits) << 16); }

}  // namespace slotscope::kernels
