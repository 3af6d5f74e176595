// How long a checkpoint folder takes until all its tensors are listed: bench_list PATH... [--repeat N]. Opens each path N times
// (default 5), asks for every name, shape and size, and prints the median and the worst time, the median of the processor time
// (which other programs do not lengthen much) and the process's peak memory.
// Folders of many tensors: tests/fixtures/make_checkpoints.py --many 100000 OUT makes OUT/{safetensors,shards,bin,legacy}.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/formats/checkpoint.h"

namespace {

double processor_ms() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return double(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e3 + double(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e3;
}

double median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> paths;
  int repeat = 5;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--repeat" && i + 1 < argc)
      repeat = std::max(1, std::atoi(argv[++i]));
    else
      paths.emplace_back(argv[i]);
  }
  if (paths.empty()) {
    std::fprintf(stderr, "usage: bench_list PATH... [--repeat N]\n");
    return 2;
  }
  std::printf("%10s %10s %10s %13s %8s  path\n", "tensors", "median ms", "worst ms", "processor ms", "peak MB");
  for (const std::string& path : paths) try {
      std::vector<double> times, processor;
      size_t tensors = 0;
      for (int i = 0; i < repeat; ++i) {
        const auto start = std::chrono::steady_clock::now();
        const double used = processor_ms();
        const auto checkpoint = slotscope::formats::Checkpoint::open(path);
        uint64_t bytes = 0;
        for (const auto& tensor : checkpoint->tensors()) bytes += tensor.bytes + tensor.name.size() + tensor.shape.size();
        times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
        processor.push_back(processor_ms() - used);
        tensors = checkpoint->tensors().size();
        if (bytes == 0) std::fprintf(stderr, "%s: no bytes\n", path.c_str());
      }
      rusage peak{};
      ::getrusage(RUSAGE_SELF, &peak);
      std::printf("%10zu %10.0f %10.0f %13.0f %8.0f  %s\n", tensors, median(times), *std::max_element(times.begin(), times.end()),
                  median(processor), double(peak.ru_maxrss) / 1000, path.c_str());
    } catch (const slotscope::Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
      return 1;
    }
  return 0;
}
