// How much a slot keeps when a token writes to it: the scalar formulas of RAM-Net's memory, the same on the CPU and on the GPU
// (spec: ramnet 1.5; kernels 3.2).
#pragma once

#include <cmath>

#ifdef __CUDACC__
#define SLOTSCOPE_HOST_DEVICE __host__ __device__
#else
#define SLOTSCOPE_HOST_DEVICE
#endif

namespace slotscope::kernels {

// rho = sigma(logit(1 - w) - gamma), what GSU keeps of a slot's mass. One of two forms by the sign of gamma, so that nothing
// overflows and no digit cancels. gamma -inf: 1 below w = 1; +inf: 0. A weight of 1 (or above it, by rounding) keeps nothing,
// a weight of 0 everything, whatever gamma. `cumulative`: 1 for every weight. NaN in, NaN out.
template <class Real>
SLOTSCOPE_HOST_DEVICE inline Real gsu_retention(Real w, Real gamma, bool cumulative = false) {
  if (cumulative || w <= 0) return 1;
  if (w >= 1) return 0;
  const Real left = 1 - w;
  if (gamma > 0) {
    const Real kept = left * std::exp(-gamma);
    return kept / (kept + w);
  }
  return left / (left + w * std::exp(gamma));
}

// log((kept + eps) / (kept + w + eps)) / w for a slot written with w > 0 whose old mass after decay is `kept`: the log of what
// GSU keeps of the slot's value, per unit of write weight. Below half, by log1p of the share w / (kept + w + eps) that is
// replaced, else by the ratio: in both there is nothing to cancel. -inf when nothing is kept.
template <class Real>
SLOTSCOPE_HOST_DEVICE inline Real gsu_log_keep_per_weight(Real w, Real kept, Real eps) {
  const Real left = kept + eps, total = kept + w + eps, share = w / total;
  if (!(share < Real(0.5))) return std::log(left / total) / w;
  return (share > 0 ? std::log1p(-share) / share : Real(-1)) / total;
}

// (1 - w)^gamma, what PDMA keeps of z and S; 0^0 = 1. gamma >= 0.
template <class Real>
SLOTSCOPE_HOST_DEVICE inline Real pdma_retention(Real w, Real gamma) {
  if (gamma == 0 || w <= 0) return 1;
  if (w >= 1) return 0;
  return gamma == 1 ? 1 - w : std::exp(gamma * std::log1p(-w));
}

// log((1 - w)^gamma) / w for w > 0; -inf at w = 1 unless gamma is 0.
template <class Real>
SLOTSCOPE_HOST_DEVICE inline Real pdma_log_keep_per_weight(Real w, Real gamma) {
  if (gamma == 0) return 0;
  return gamma * (std::log1p(-(w < 1 ? w : Real(1))) / w);
}

}  // namespace slotscope::kernels
