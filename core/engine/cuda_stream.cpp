#include "core/engine/cuda_stream.h"

#if defined(SLOTSCOPE_TORCH_CUDA) && defined(SLOTSCOPE_HAS_CUDA)
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#define SLOTSCOPE_ENGINE_CUDA 1
#endif

namespace slotscope::engine {

#ifdef SLOTSCOPE_ENGINE_CUDA
namespace {

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string reason(cudaError_t error) {
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (driver == 0) return "no NVIDIA driver found";
  if (driver / 1000 < runtime / 1000)
    return "the NVIDIA driver supports CUDA " + version_text(driver) + ", this program needs " +
           version_text(runtime) + ": update the driver, or run on the CPU";
  return std::string("no usable CUDA device: ") + cudaGetErrorString(error);
}

}  // namespace

void* current_cuda_stream(int device) {
  return c10::cuda::getCurrentCUDAStream(c10::DeviceIndex(device)).stream();
}
void synchronise_cuda(int) { c10::cuda::device_synchronize(); }

std::vector<CudaDevice> cuda_devices(std::string* why) {
  std::vector<CudaDevice> list;
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    cudaGetLastError();  // a failed query must not surface in a later launch
    if (why) *why = reason(error == cudaSuccess ? cudaErrorNoDevice : error);
    return list;
  }
  int before = 0;
  cudaGetDevice(&before);
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    size_t free_bytes = 0, total = 0;
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess || cudaSetDevice(i) != cudaSuccess ||
        cudaMemGetInfo(&free_bytes, &total) != cudaSuccess) {
      if (why) *why = "cuda:" + std::to_string(i) + ": " + cudaGetErrorString(cudaGetLastError());
      continue;
    }
    list.push_back({i, properties.name, int64_t(total), int64_t(free_bytes)});
  }
  cudaSetDevice(before);
  return list;
}

#else

void* current_cuda_stream(int) { return nullptr; }
void synchronise_cuda(int) {}
std::vector<CudaDevice> cuda_devices(std::string* why) {
  if (why) *why = "this build has no CUDA kernels";
  return {};
}

#endif

}  // namespace slotscope::engine
