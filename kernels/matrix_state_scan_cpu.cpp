#include <algorithm>
#include <stdexcept>

#include "kernels/matrix_state_scan.h"

// One body compiled for several instruction sets. Lanes are fixed and products are never contracted to FMA
// (see the -ffp-contract=off of this file), so every variant gives the same bits.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define SLOTSCOPE_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define SLOTSCOPE_CLONES
#endif

namespace slotscope::kernels {
namespace {

constexpr int kLanes = 16;

#define SLOTSCOPE_DEFINE_PRIMITIVES(Real)                                                  \
  /* lane l sums the elements l, l + 16, ...; lanes are then added in pairs */             \
  SLOTSCOPE_CLONES Real dot(const Real* a, const Real* b, int width) {                     \
    const int whole = width - width % kLanes;                                              \
    Real lane[kLanes] = {};                                                                \
    for (int i = 0; i < whole; i += kLanes)                                                \
      for (int l = 0; l < kLanes; ++l) lane[l] += a[i + l] * b[i + l];                     \
    for (int i = whole; i < width; ++i) lane[i - whole] += a[i] * b[i];                    \
    for (int step = kLanes / 2; step > 0; step /= 2)                                       \
      for (int l = 0; l < step; ++l) lane[l] += lane[l + step];                            \
    return lane[0];                                                                        \
  }                                                                                        \
  SLOTSCOPE_CLONES void decay(Real* row, const Real* keep, int width) {                    \
    for (int i = 0; i < width; ++i) row[i] *= keep[i];                                     \
  }                                                                                        \
  SLOTSCOPE_CLONES void decay(Real* row, Real keep, int width) {                           \
    for (int i = 0; i < width; ++i) row[i] *= keep;                                        \
  }                                                                                        \
  SLOTSCOPE_CLONES void add(Real* row, const Real* key, Real content, int width) {         \
    for (int i = 0; i < width; ++i) row[i] += content * key[i];                            \
  }
SLOTSCOPE_DEFINE_PRIMITIVES(float)
SLOTSCOPE_DEFINE_PRIMITIVES(double)
#undef SLOTSCOPE_DEFINE_PRIMITIVES

}  // namespace

template <class Real>
void matrix_state_scan_cpu(const MatrixStateScanInput<Real>& in, const MatrixStateScanOutput<Real>& out,
                           int64_t first, int64_t last) {
  const int out_heads = std::max(in.query_heads, in.heads), group = out_heads / in.heads;
  for (int64_t pair = first; pair < last; ++pair) {
    const int64_t b = pair / in.heads, head = pair % in.heads;
    Real* state = out.state + pair * in.d_v * in.d_k;
    for (int64_t t = 0; t < in.tokens; ++t) {
      const int64_t row = b * in.tokens + t, at = row * in.heads + head;
      const Real* key = in.key + (row * in.key_heads + head / (in.heads / in.key_heads)) * in.d_k;
      const Real* value = in.value + at * in.d_v;
      const Real strength = in.strength ? in.strength[at] : Real(1);
      for (int i = 0; i < in.d_v; ++i) {
        Real* slot = state + int64_t(i) * in.d_k;
        if (in.keep && in.keep_per_channel) decay(slot, in.keep + at * in.d_k, in.d_k);
        if (in.keep && !in.keep_per_channel) decay(slot, in.keep[at], in.d_k);
        add(slot, key, strength * (in.delta ? value[i] - dot(slot, key, in.d_k) : value[i]), in.d_k);
      }
      for (int64_t o = head * group; o < (head + 1) * group; ++o) {
        const Real* query = in.query + (row * in.query_heads + o / (out_heads / in.query_heads)) * in.d_k;
        Real* output = out.output + (row * out_heads + o) * in.d_v;
        for (int i = 0; i < in.d_v; ++i) output[i] = in.scale * dot(state + int64_t(i) * in.d_k, query, in.d_k);
      }
    }
  }
}

template void matrix_state_scan_cpu(const MatrixStateScanInput<float>&, const MatrixStateScanOutput<float>&, int64_t,
                                    int64_t);
template void matrix_state_scan_cpu(const MatrixStateScanInput<double>&, const MatrixStateScanOutput<double>&,
                                    int64_t, int64_t);

#ifndef SLOTSCOPE_HAS_CUDA
void matrix_state_scan_cuda(const MatrixStateScanInput<float>&, const MatrixStateScanOutput<float>&, void*) {
  throw std::logic_error("matrix_state_scan_cuda: this build has no CUDA kernels");
}
void matrix_state_scan_cuda(const MatrixStateScanInput<double>&, const MatrixStateScanOutput<double>&, void*) {
  throw std::logic_error("matrix_state_scan_cuda: this build has no CUDA kernels");
}
#endif

}  // namespace slotscope::kernels
