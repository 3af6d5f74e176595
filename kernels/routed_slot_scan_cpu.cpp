#include "kernels/routed_slot_scan.h"

#include <algorithm>
#include <cmath>
#include <vector>

#ifndef SLOTSCOPE_HAS_CUDA
#include <stdexcept>
#endif

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

// out[m] = scale * (row m of `rows` . x), lane l sums the elements l, l + 16, ...; lanes are then added in
// pairs.
#define SLOTSCOPE_DEFINE_PRIMITIVES(Real)                                                         \
  SLOTSCOPE_CLONES void logits(const Real* rows, const Real* x, int count, int width, Real scale, \
                               Real* out) {                                                       \
    const int whole = width - width % kLanes;                                                     \
    for (int m = 0; m < count; ++m) {                                                             \
      const Real* row = rows + int64_t(m) * width;                                                \
      Real lane[kLanes] = {};                                                                     \
      for (int i = 0; i < whole; i += kLanes)                                                     \
        for (int l = 0; l < kLanes; ++l) lane[l] += row[i + l] * x[i + l];                        \
      for (int i = whole; i < width; ++i) lane[i - whole] += row[i] * x[i];                       \
      for (int step = kLanes / 2; step > 0; step /= 2)                                            \
        for (int l = 0; l < step; ++l) lane[l] += lane[l + step];                                 \
      out[m] = scale * lane[0];                                                                   \
    }                                                                                             \
  }                                                                                               \
  /* out = sum over rows, in slot order, of weight[m] * row m */                                  \
  SLOTSCOPE_CLONES void weighted_sum(const Real* rows, const Real* weight, int count, int width,  \
                                     Real* out) {                                                 \
    for (int i = 0; i < width; ++i) out[i] = 0;                                                   \
    for (int m = 0; m < count; ++m) {                                                             \
      const Real* row = rows + int64_t(m) * width;                                                \
      const Real w = weight[m];                                                                   \
      for (int i = 0; i < width; ++i) out[i] += w * row[i];                                       \
    }                                                                                             \
  }                                                                                               \
  SLOTSCOPE_CLONES void update(Real* row, const Real* x, int width, Real keep, Real write) {      \
    for (int i = 0; i < width; ++i) row[i] = keep * row[i] + write * x[i];                        \
  }
SLOTSCOPE_DEFINE_PRIMITIVES(float)
SLOTSCOPE_DEFINE_PRIMITIVES(double)
#undef SLOTSCOPE_DEFINE_PRIMITIVES

template <class Real>
void softmax(Real* z, int count) {
  Real top = z[0];
  for (int m = 1; m < count; ++m) top = std::max(top, z[m]);
  Real sum = 0;
  for (int m = 0; m < count; ++m) sum += z[m] = std::exp(z[m] - top);
  for (int m = 0; m < count; ++m) z[m] /= sum;
}

}  // namespace

template <class Real>
void routed_slot_scan_cpu(const RoutedSlotScanInput<Real>& in, const RoutedSlotScanOutput<Real>& out,
                          int64_t first, int64_t last) {
  std::vector<Real> z(static_cast<size_t>(in.slots));
  const int query_heads = in.heads * in.group;
  for (int64_t pair = first; pair < last; ++pair) {
    const int64_t b = pair / in.heads, head = pair % in.heads;
    Real* state_k = out.state_k + pair * in.slots * in.d_k;
    Real* state_v = out.state_v + pair * in.slots * in.d_v;
    for (int64_t t = 0; t < in.tokens; ++t) {
      const int64_t at = (b * in.tokens + t) * in.heads + head;
      for (int64_t i = at * in.top_k; i < (at + 1) * in.top_k; ++i) {
        const int32_t slot = in.index[i];
        if (slot < 0 || slot >= in.slots) continue;
        update(state_k + int64_t(slot) * in.d_k, in.key + at * in.d_k, in.d_k, in.keep[i], in.write[i]);
        update(state_v + int64_t(slot) * in.d_v, in.value + at * in.d_v, in.d_v, in.keep[i], in.write[i]);
      }
      for (int g = 0; g < in.group; ++g) {
        const int64_t query_at = (b * in.tokens + t) * query_heads + head * in.group + g;
        logits(state_k, in.query + query_at * in.d_k, in.slots, in.d_k, in.scale, z.data());
        softmax(z.data(), in.slots);
        weighted_sum(state_v, z.data(), in.slots, in.d_v, out.output + query_at * in.d_v);
        if (in.read_row && in.read_row[t] >= 0) {
          const int64_t row = (b * in.read_rows + in.read_row[t]) * query_heads + head * in.group + g;
          std::copy(z.begin(), z.end(), out.read_weight + row * in.slots);
        }
      }
    }
  }
}

template void routed_slot_scan_cpu(const RoutedSlotScanInput<float>&, const RoutedSlotScanOutput<float>&,
                                   int64_t, int64_t);
template void routed_slot_scan_cpu(const RoutedSlotScanInput<double>&, const RoutedSlotScanOutput<double>&,
                                   int64_t, int64_t);

#ifndef SLOTSCOPE_HAS_CUDA
void routed_slot_scan_cuda(const RoutedSlotScanInput<float>&, const RoutedSlotScanOutput<float>&, void*) {
  throw std::logic_error("routed_slot_scan_cuda: this build has no CUDA kernels");
}
void routed_slot_scan_cuda(const RoutedSlotScanInput<double>&, const RoutedSlotScanOutput<double>&, void*) {
  throw std::logic_error("routed_slot_scan_cuda: this build has no CUDA kernels");
}
#endif

}  // namespace slotscope::kernels
