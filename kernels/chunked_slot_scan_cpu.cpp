#include <stdexcept>

#include "kernels/chunked_slot_scan.h"

// The reference of this operation is routed_slot_scan_cpu: here are only its sizes, and what a build without CUDA says.
namespace slotscope::kernels {

bool chunked_slot_scan_supports(int slots, int d_k, int d_v) {
  const auto width = [](int d) { return d >= 8 && d <= 256 && d % 8 == 0; };
  return slots >= 1 && slots <= 256 && width(d_k) && width(d_v);
}

#ifndef SLOTSCOPE_HAS_CUDA
bool chunked_slot_scan_fits(int, int, int) { return false; }

size_t chunked_slot_scan_workspace(const ChunkedSlotScanInput&) { return 0; }

void chunked_slot_scan_cuda(const ChunkedSlotScanInput&, const ChunkedSlotScanOutput&, void*, void*) {
  throw std::logic_error("chunked_slot_scan_cuda: this build has no CUDA kernels");
}
#endif

}  // namespace slotscope::kernels
