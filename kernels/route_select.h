// Stable top-k of router scores (spec: architecture "Numerics"): score descending, ties to the lower slot,
// gap at the cut.
#pragma once

#include <cstdint>

namespace slotscope::kernels {

// Contiguous scores [rows, slots], selection bias already added. 1 <= top_k <= slots.
template <class Real>
struct RouteSelectInput {
  const Real* score = nullptr;
  int64_t rows = 0;
  int slots = 0;  // M
  int top_k = 0;  // K
};
// index [rows, top_k]: rank order. gap [rows] (may be null): score of rank K minus the best score left out,
// so 0 is a tied cut; NaN when top_k == slots (there is no cut). A NaN score ranks before every number, as in
// a descending sort.
template <class Real>
struct RouteSelectOutput {
  int32_t* index = nullptr;
  Real* gap = nullptr;
};

// Rows [first, last). The rows do not depend on each other: callers may split them between threads.
template <class Real>
void select_routes_cpu(const RouteSelectInput<Real>&, const RouteSelectOutput<Real>&, int64_t first,
                       int64_t last);

extern template void select_routes_cpu(const RouteSelectInput<float>&, const RouteSelectOutput<float>&,
                                       int64_t, int64_t);
extern template void select_routes_cpu(const RouteSelectInput<double>&, const RouteSelectOutput<double>&,
                                       int64_t, int64_t);

// The most slots that the CUDA selection takes.
inline constexpr int kMostSelectSlots = 1024;
// All rows, on device pointers, on `stream` (cudaStream_t), asynchronous: the same index and gap as the CPU's, bit for bit.
// slots at most kMostSelectSlots. Throws std::runtime_error with the CUDA message when the launch fails, std::logic_error in a
// build without CUDA.
void select_routes_cuda(const RouteSelectInput<float>&, const RouteSelectOutput<float>&, void* stream);
void select_routes_cuda(const RouteSelectInput<double>&, const RouteSelectOutput<double>&, void* stream);

}  // namespace slotscope::kernels
