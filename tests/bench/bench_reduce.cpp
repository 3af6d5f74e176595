// How long one frame of the heatmap's reduction takes at 131,072 tokens x 256 slots (target: well under 16
// ms). bench_reduce [TOKENS [SLOTS]]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <numeric>
#include <random>

#include "core/analysis/pyramid.h"

using namespace slotscope;
using namespace slotscope::analysis;
using Clock = std::chrono::steady_clock;

namespace {

double milliseconds(Clock::time_point from) {
  return std::chrono::duration<double, std::milli>(Clock::now() - from).count();
}

HeadRoutes make(int64_t tokens, int slots, int top_k) {
  std::mt19937 random(1);
  HeadRoutes r;
  r.slots = slots;
  r.top_k = top_k;
  r.rows = r.tokens = tokens;
  std::vector<uint32_t> all(static_cast<size_t>(slots));
  std::iota(all.begin(), all.end(), 0u);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int k = 0; k < top_k; ++k) {
      std::swap(all[size_t(k)], all[size_t(k) + random() % size_t(slots - k)]);
      r.index.push_back(all[size_t(k)]);
      r.weight.push_back(1.0 / top_k);
    }
    r.log_decay.push_back(-double(random() % 1000) / 1000);
  }
  return r;
}

// Median and worst of frames while panning and zooming, and the median of the processor time alone (on a busy
// machine the clock measures the others too).
void frames(const char* name, int count, const std::function<void(int)>& frame) {
  std::vector<double> times, processor;
  for (int i = 0; i < count; ++i) {
    const auto start = Clock::now();
    const std::clock_t used = std::clock();
    frame(i);
    processor.push_back(1e3 * double(std::clock() - used) / CLOCKS_PER_SEC);
    times.push_back(milliseconds(start));
  }
  std::sort(times.begin(), times.end());
  std::sort(processor.begin(), processor.end());
  std::printf("  %-44s median %6.2f ms (processor %6.2f), worst %6.2f of %d frames\n", name,
              times[times.size() / 2], processor[processor.size() / 2], times.back(), count);
}

void measure(int64_t tokens, int slots, int top_k) {
  const HeadRoutes routes = make(tokens, slots, top_k);
  auto start = Clock::now();
  const SlotWrites writes = group_writes(routes);
  std::printf("%lld tokens x %d slots, top-%d: group_writes %.0f ms\n", static_cast<long long>(tokens), slots,
              top_k, milliseconds(start));
  start = Clock::now();
  const auto pyramid = Pyramid::build(routes, writes, Quantity::write_strength);
  std::printf("  pyramid built in %.0f ms, %.0f MB\n", milliseconds(start), double(pyramid->bytes()) / 1e6);

  GridRequest request;
  request.rows.resize(size_t(slots));
  std::iota(request.rows.begin(), request.rows.end(), 0);
  request.last = tokens;
  int64_t drawn = 0;  // keeps the work from being optimised away
  const auto window = [&](int i, int64_t width) {
    GridRequest r = request;
    r.first = std::min<int64_t>(int64_t(i) * width / 20, std::max<int64_t>(tokens - width, 0));
    r.last = std::min(tokens, r.first + width);
    return r;
  };
  frames("whole prompt, from the writes", 9,
         [&](int) { drawn += reduce(routes, writes, request).finite_cells; });
  GridCache cache;
  cache.reduce(routes, writes, request);
  frames("whole prompt, cached", 41,
         [&](int) { drawn += cache.reduce(routes, writes, request).finite_cells; });
  for (const int64_t width : {65536, 30000, 8192, 2048, 256}) {
    const std::string name = "panning over " + std::to_string(width) + " tokens";
    frames(name.c_str(), 41,
           [&](int i) { drawn += cache.reduce(routes, writes, window(i, width)).finite_cells; });
  }
  frames("zooming 256 tokens to all", 91, [&](int i) {
    drawn += cache.reduce(routes, writes, window(0, int64_t(256 * std::pow(double(tokens) / 256, i / 90.0))))
                 .finite_cells;
  });
  request.quantity = Quantity::survival_at;
  request.reference = tokens - 1;
  frames("whole prompt, left at the last token", 9,
         [&](int) { drawn += cache.reduce(routes, writes, request).finite_cells; });
  frames("panning over 8192, left at the last token", 41,
         [&](int i) { drawn += cache.reduce(routes, writes, window(i, 8192)).finite_cells; });
  const SlotGrid grid = cache.reduce(routes, writes, request);
  frames("colour range of a whole picture", 9, [&](int) { drawn += colour_range(grid).valid; });
  std::printf("  (%lld cells)\n", static_cast<long long>(drawn));
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t tokens = argc > 1 ? std::atoll(argv[1]) : 131072;
  const int slots = argc > 2 ? std::atoi(argv[2]) : 256;
  for (const int top_k : {8, 32})
    if (tokens > 0 && top_k <= slots) measure(tokens, slots, top_k);
  return 0;
}
