#include <ATen/Context.h>

#include <thread>

#include "core/engine/session.h"
#include "kernels/route_counters.h"

namespace slotscope::engine {

std::vector<DeviceInfo> devices(std::string* why_no_cuda) {
  std::vector<DeviceInfo> list = {{"cpu", std::to_string(std::thread::hardware_concurrency()) + " cores", 0, 0}};
  if (why_no_cuda && !at::globalContext().hasCUDA()) *why_no_cuda = "no CUDA device found";
  return list;
}

}  // namespace slotscope::engine
