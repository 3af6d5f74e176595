#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

#include "core/engine/cuda_stream.h"
#include "core/engine/loaded_model.h"
#include "core/engine/session.h"

namespace slotscope::engine {
namespace {

// A number of /proc/meminfo in bytes, or 0.
int64_t meminfo(const std::string& key) {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  int64_t kib = 0;
  while (file >> name >> kib && std::getline(file, unit))
    if (name == key + ":") return kib * 1024;
  return 0;
}

// The number in a control group file, or -1 ("max", no file).
int64_t group_number(const char* path) {
  std::ifstream file(path);
  int64_t value = -1;
  return file >> value ? value : -1;
}

}  // namespace

int64_t free_host_bytes() {
  int64_t room = meminfo("MemAvailable");
  const int64_t limit = group_number("/sys/fs/cgroup/memory.max"),
                used = group_number("/sys/fs/cgroup/memory.current");
  if (limit >= 0 && used >= 0) {
    const int64_t left = std::max<int64_t>(0, limit - used);
    room = room > 0 ? std::min(room, left) : left;
  }
  return room;
}

int64_t free_device_bytes(const at::Device& device) {
  for (const CudaDevice& d : cuda_devices(nullptr))
    if (d.index == device.index()) return d.free_bytes;
  return 0;
}

std::vector<DeviceInfo> devices(std::string* why_no_cuda) {
  std::vector<DeviceInfo> list = {{"cpu", std::to_string(std::thread::hardware_concurrency()) + " cores",
                                   meminfo("MemTotal"), free_host_bytes()}};
  for (const CudaDevice& d : cuda_devices(why_no_cuda)) {
    char text[32];
    std::snprintf(text, sizeof text, ", %.0f GB", double(d.total_bytes) / 1e9);
    list.push_back({"cuda:" + std::to_string(d.index), d.name + text, d.total_bytes, d.free_bytes});
  }
  return list;
}

}  // namespace slotscope::engine
