// Arrays on the device between guard bands: for cases of CUDA kernels.
#pragma once

#ifdef SLOTSCOPE_HAS_CUDA
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "kernels/route_counters.h"
#include "tests/cases/case.h"

namespace slotscope::testing {

// Nothing may be written into the bands; their bits are NaN for floats and huge for integers, so what is read there spoils the
// result.
template <class T>
class Guarded {
 public:
  explicit Guarded(const std::vector<T>& values) : size_(values.size()) {
    std::vector<unsigned char> all(bytes(), 0xff);
    if (size_) std::memcpy(all.data() + kGuard * sizeof(T), values.data(), size_ * sizeof(T));
    if (cudaMalloc(reinterpret_cast<void**>(&memory_), bytes()) != cudaSuccess) throw std::runtime_error("cudaMalloc");
    if (cudaMemcpy(memory_, all.data(), bytes(), cudaMemcpyHostToDevice) != cudaSuccess)
      throw std::runtime_error("cudaMemcpy to the device");
  }
  ~Guarded() { cudaFree(memory_); }
  Guarded(const Guarded&) = delete;
  T* data() { return memory_ + kGuard; }
  // The values; `intact` is cleared when a guard was touched.
  std::vector<T> fetch(bool& intact) {
    std::vector<unsigned char> all(bytes());
    if (cudaMemcpy(all.data(), memory_, bytes(), cudaMemcpyDeviceToHost) != cudaSuccess)
      throw std::runtime_error("cudaMemcpy from the device");
    for (size_t i = 0; i < kGuard * sizeof(T); ++i)
      if (all[i] != 0xff || all[all.size() - 1 - i] != 0xff) intact = false;
    std::vector<T> values(size_);
    if (size_) std::memcpy(values.data(), all.data() + kGuard * sizeof(T), size_ * sizeof(T));
    return values;
  }

 private:
  static constexpr size_t kGuard = 67;  // odd: neither arrays nor rows start on a round address
  size_t bytes() const { return (size_ + 2 * kGuard) * sizeof(T); }
  T* memory_ = nullptr;
  size_t size_;
};

// Milliseconds of one call on a stream of its own, which it is given. Throws when the kernel fails.
template <class Call>
float milliseconds(Call call) {
  cudaStream_t stream;
  cudaEvent_t begin, end;
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) throw std::runtime_error("stream");
  cudaEventCreate(&begin), cudaEventCreate(&end);
  cudaDeviceSynchronize();
  cudaEventRecord(begin, stream);
  call(stream);
  cudaEventRecord(end, stream);
  if (cudaStreamSynchronize(stream) != cudaSuccess)
    throw std::runtime_error(std::string("the kernel failed: ") + cudaGetErrorString(cudaGetLastError()));
  float ms = 0;
  cudaEventElapsedTime(&ms, begin, end);
  cudaEventDestroy(begin), cudaEventDestroy(end), cudaStreamDestroy(stream);
  return ms;
}

// Skips the case unless a device was asked for; one that was asked for and does not answer is a failure, no skip.
inline bool need_gpu(Context& t) {
  if (t.device() == "cpu") t.skip("needs a GPU: --device cuda");
  const size_t colon = t.device().find(':');
  const int index = colon == std::string::npos ? 0 : std::stoi(t.device().substr(colon + 1));
  if (kernels::cuda_available() && cudaSetDevice(index) == cudaSuccess) return true;
  t.fail("cannot use " + t.device(), __FILE__, __LINE__);
  return false;
}

}  // namespace slotscope::testing
#endif
