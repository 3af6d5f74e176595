// The few CUDA calls of the engine, so that only one file needs c10/cuda headers and builds without them stay
// simple.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace slotscope::engine {

// The stream that LibTorch's operations on this device use now (cudaStream_t). Null in a build without CUDA.
void* current_cuda_stream(int device);
// Waits for everything queued on the device; asynchronous errors surface here. Nothing in a build without
// CUDA.
void synchronise_cuda(int device);

struct CudaDevice {
  int index = 0;
  std::string name;
  int64_t total_bytes = 0, free_bytes = 0;
};
// Usable devices. `why` (may be null) gets the reason when there is none. Never throws, needs no driver.
std::vector<CudaDevice> cuda_devices(std::string* why);

}  // namespace slotscope::engine
