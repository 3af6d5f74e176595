#include "kernels/route_counters.h"

#ifndef SLOTSCOPE_HAS_CUDA
#include <stdexcept>
#endif

namespace slotscope::kernels {

void count_routes_cpu(const RouteCounterInput& in, const RouteCounterOutput& out) {
  for (int64_t row = 0; row < in.rows; ++row) {
    const bool retrieval = in.roles && in.roles[row] == 1;
    for (int head = 0; head < in.heads; ++head) {
      const int64_t at = (row * in.heads + head) * in.top_k;
      const int64_t base = int64_t(head) * in.slots;
      for (int k = 0; k < in.top_k; ++k) {
        const uint32_t slot = in.index[at + k];
        if (slot >= uint32_t(in.slots)) continue;
        const bool written = in.weight[at + k] != 0.0f;
        if (out.selected) ++out.selected[base + slot];
        if (out.esl && written) ++out.esl[base + slot];
        if (out.retrieval && written && retrieval) ++out.retrieval[base + slot];
      }
    }
  }
}

#ifndef SLOTSCOPE_HAS_CUDA
void count_routes_cuda(const RouteCounterInput&, const RouteCounterOutput&, void*) {
  throw std::logic_error("count_routes_cuda: this build has no CUDA kernels");
}

bool cuda_available() { return false; }
#endif

}  // namespace slotscope::kernels
