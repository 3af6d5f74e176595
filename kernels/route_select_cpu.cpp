#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "kernels/route_select.h"

namespace slotscope::kernels {
namespace {

// A strict total order of (score, slot), so the selected set and its order are unique.
template <class Real>
struct Before {
  const Real* score;
  bool operator()(int32_t a, int32_t b) const {
    const Real x = score[a], y = score[b];
    if (x > y) return true;
    if (x < y) return false;
    if (x == y) return a < b;
    const bool x_nan = std::isnan(x), y_nan = std::isnan(y);
    return x_nan != y_nan ? x_nan : a < b;
  }
};

}  // namespace

template <class Real>
void select_routes_cpu(const RouteSelectInput<Real>& in, const RouteSelectOutput<Real>& out, int64_t first,
                       int64_t last) {
  std::vector<int32_t> order(static_cast<size_t>(in.slots));
  for (int64_t row = first; row < last; ++row) {
    const Real* score = in.score + row * in.slots;
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + in.top_k, order.end(), Before<Real>{score});
    std::copy_n(order.begin(), in.top_k, out.index + row * in.top_k);
    if (!out.gap) continue;
    if (in.top_k == in.slots) {
      out.gap[row] = std::numeric_limits<Real>::quiet_NaN();
      continue;
    }
    const int32_t next = *std::min_element(order.begin() + in.top_k, order.end(), Before<Real>{score});
    out.gap[row] = score[order[size_t(in.top_k) - 1]] - score[next];
  }
}

template void select_routes_cpu(const RouteSelectInput<float>&, const RouteSelectOutput<float>&, int64_t,
                                int64_t);
template void select_routes_cpu(const RouteSelectInput<double>&, const RouteSelectOutput<double>&, int64_t,
                                int64_t);

#ifndef SLOTSCOPE_HAS_CUDA
void select_routes_cuda(const RouteSelectInput<float>&, const RouteSelectOutput<float>&, void*) {
  throw std::logic_error("select_routes_cuda: this build has no CUDA kernels");
}
void select_routes_cuda(const RouteSelectInput<double>&, const RouteSelectOutput<double>&, void*) {
  throw std::logic_error("select_routes_cuda: this build has no CUDA kernels");
}
#endif

}  // namespace slotscope::kernels
