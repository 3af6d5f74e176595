#include "kernels/address_scan.h"

#include <cuda_runtime.h>

#include <climits>
#include <stdexcept>
#include <string>

#include "kernels/address_scan_tiles.cuh"
#include "kernels/address_scan_wide.cuh"

namespace slotscope::kernels {
namespace {

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string("address_scan_cuda: ") + what + ": " + cudaGetErrorString(error));
}

// Blocks enough for the device, then as long pieces as fit; values in global memory when no column fits, and no plan (piece 0)
// when not even the masses do.
template <class Real, int kLanes>
Plan plan_for(const AddressScanInput<Real>& in) {
  int device = 0, most = 0, processors = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "shared memory limit");
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "number of processors");
  constexpr int kColumns = 32 / kLanes;  // of a warp
  const auto slices = [&](int warps) { return (in.d_v + warps * kColumns - 1) / (warps * kColumns); };
  int wide = kMostWarps;
  while (wide > 1 && (2 * in.batch * in.heads * slices(wide) < processors || slices(wide / 2) == 1)) wide /= 2;
  for (const bool shared_state : {true, false})
    for (const int least : {16, kBatch})
      for (int warps = wide; warps >= 1; warps /= 2)
        for (int piece = 32; piece >= least; piece /= 2) {
          const int columns = warps * kColumns;
          const size_t reals = size_t(shared_state ? columns + 1 : 1) * size_t(column_stride(in.slots));
          const size_t bytes = 3 * Tile<Real>::bytes(piece, in.top_k, columns) + reals * sizeof(Real) + size_t(in.slots);
          if (bytes <= size_t(most)) return {piece, warps, slices(warps), shared_state, bytes};
        }
  return {};
}

template <class Real, int kLanes, bool kShared>
void launch_plan(const AddressScanInput<Real>& in, const AddressScanOutput<Real>& out, Real* mass, uint8_t* written,
                 const Plan& plan, cudaStream_t stream) {
  if (plan.bytes > 48 * 1024)
    check(cudaFuncSetAttribute(scan_kernel<Real, kLanes, kShared>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               int(plan.bytes)),
          "shared memory");
  const unsigned blocks = unsigned(in.batch * in.heads * plan.slices);
  scan_kernel<Real, kLanes, kShared>
      <<<blocks, 32 * (plan.warps + 1), plan.bytes, stream>>>(in, out, mass, written, plan);
  check(cudaGetLastError(), "launch");
}

// Blocks of one pair all start from the masses before the first token: when there are several, the masses after the last one
// stand beside them until every block is done.
template <class Real, int kLanes>
void launch_lanes(const AddressScanInput<Real>& in, const AddressScanOutput<Real>& out, cudaStream_t stream) {
  const int64_t pairs = in.batch * in.heads;
  const Plan plan = plan_for<Real, kLanes>(in);
  if (pairs * (plan.slices + 1) > INT_MAX)
    throw std::runtime_error("address_scan_cuda: " + std::to_string(pairs) + " memories are too many for one launch");
  if (plan.piece == 0) {
    wide_kernel<Real><<<unsigned(pairs), kWideThreads, 0, stream>>>(in, out);
    return check(cudaGetLastError(), "launch");
  }
  const auto launch_with = [&](Real* mass, uint8_t* written) {
    if (plan.shared_state)
      launch_plan<Real, kLanes, true>(in, out, mass, written, plan, stream);
    else
      launch_plan<Real, kLanes, false>(in, out, mass, written, plan, stream);
  };
  if (plan.slices == 1) return launch_with(out.mass, out.written);
  const size_t cells = size_t(pairs) * size_t(in.slots), flags = out.written ? cells : 0;
  void* after = nullptr;
  check(cudaMallocAsync(&after, cells * sizeof(Real) + flags, stream), "memory for masses");
  Real* const mass = static_cast<Real*>(after);
  uint8_t* const written = out.written ? static_cast<uint8_t*>(after) + cells * sizeof(Real) : nullptr;
  try {
    launch_with(mass, written);
    check(cudaMemcpyAsync(out.mass, mass, cells * sizeof(Real), cudaMemcpyDeviceToDevice, stream), "masses");
    if (written) check(cudaMemcpyAsync(out.written, written, flags, cudaMemcpyDeviceToDevice, stream), "written slots");
  } catch (...) {
    cudaFreeAsync(after, stream);
    throw;
  }
  check(cudaFreeAsync(after, stream), "memory for masses");
}

template <class Real>
void launch(const AddressScanInput<Real>& in, const AddressScanOutput<Real>& out, void* given) {
  check_address_scan(in, out);
  if (in.batch == 0 || in.heads == 0 || in.tokens == 0) return;
  const auto stream = static_cast<cudaStream_t>(given);
  if (in.top_k <= 8)
    launch_lanes<Real, 8>(in, out, stream);
  else if (in.top_k <= 16)
    launch_lanes<Real, 16>(in, out, stream);
  else
    launch_lanes<Real, 32>(in, out, stream);
}

}  // namespace

void address_scan_cuda(const AddressScanInput<float>& in, const AddressScanOutput<float>& out, void* stream) {
  launch(in, out, stream);
}
void address_scan_cuda(const AddressScanInput<double>& in, const AddressScanOutput<double>& out, void* stream) {
  launch(in, out, stream);
}

}  // namespace slotscope::kernels
