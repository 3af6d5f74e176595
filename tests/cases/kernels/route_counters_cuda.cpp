// The CUDA kernel against its CPU twin: equal counts, to the last one, and nothing written outside the
// outputs.
#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#ifdef SLOTSCOPE_HAS_CUDA
#include <cuda_runtime.h>
#endif

#include "kernels/route_counters.h"
#include "tests/cases/case.h"

using namespace slotscope::kernels;

#ifndef SLOTSCOPE_HAS_CUDA

SLOTSCOPE_CASE(equals_cpu) {
  t.skip(t.device() == "cpu" ? "needs a GPU: --device cuda" : "this build has no CUDA kernels");
}

// Without kernels the entry point says so instead of doing nothing.
SLOTSCOPE_CASE(absent_in_this_build) {
  CHECK(!cuda_available());
  bool thrown = false;
  try {
    count_routes_cuda({}, {}, nullptr);
  } catch (const std::exception& e) {
    thrown = std::string(e.what()).find("no CUDA") != std::string::npos;
  }
  CHECK(thrown);
}

#else

namespace {

constexpr size_t kGuard = 37;  // odd, so that outputs are not aligned
constexpr uint32_t kPattern = 0xabadcafe;

struct Shape {
  int64_t rows;
  int heads, top_k, slots;
};

// Device memory of one array with a guard band on both sides.
template <class T>
class Guarded {
 public:
  explicit Guarded(const std::vector<T>& values) : size_(values.size()) {
    std::vector<T> all(size_ + 2 * kGuard, T(kPattern));
    std::copy(values.begin(), values.end(), all.begin() + kGuard);
    failed_ = cudaMalloc(&memory_, all.size() * sizeof(T)) != cudaSuccess ||
              cudaMemcpy(memory_, all.data(), all.size() * sizeof(T), cudaMemcpyHostToDevice) != cudaSuccess;
  }
  ~Guarded() { cudaFree(memory_); }
  Guarded(const Guarded&) = delete;
  T* data() { return memory_ + kGuard; }
  bool failed() const { return failed_; }
  // The values; `intact` is cleared when a guard was touched.
  std::vector<T> fetch(bool& intact) {
    std::vector<T> all(size_ + 2 * kGuard);
    if (cudaMemcpy(all.data(), memory_, all.size() * sizeof(T), cudaMemcpyDeviceToHost) != cudaSuccess)
      intact = false;
    for (size_t i = 0; i < kGuard; ++i)
      if (all[i] != T(kPattern) || all[all.size() - 1 - i] != T(kPattern)) intact = false;
    return {all.begin() + kGuard, all.end() - kGuard};
  }

 private:
  T* memory_ = nullptr;
  size_t size_;
  bool failed_ = true;
};

struct Problem {
  Shape shape;
  std::vector<uint32_t> index;
  std::vector<float> weight;
  std::vector<uint8_t> roles;
  std::vector<uint32_t> before;  // counts that are already there: the kernel adds
};

Problem make(const Shape& shape, unsigned seed) {
  std::mt19937 random(seed);
  Problem p{.shape = shape};
  const float odd[] = {0.0f, -0.0f, std::numeric_limits<float>::quiet_NaN(),
                       std::numeric_limits<float>::denorm_min()};
  for (int64_t row = 0; row < shape.rows; ++row) {
    p.roles.push_back(uint8_t(random() % 3));  // 2 is neither role and counts as other
    for (int i = 0; i < shape.heads * shape.top_k; ++i) {
      const unsigned kind = random() % 16;
      // A hot slot, padding just past the end and far past it, the last slot, and slots at random.
      p.index.push_back(kind < 4    ? 0u
                        : kind == 4 ? unsigned(shape.slots)
                        : kind == 5 ? 0xffffffffu
                        : kind == 6 ? unsigned(shape.slots) - 1
                                    : random() % unsigned(shape.slots));
      p.weight.push_back(random() % 4 == 0 ? odd[random() % 4] : 0.25f);
    }
  }
  for (int64_t i = 0; i < int64_t(shape.heads) * shape.slots; ++i) p.before.push_back(random() % 5);
  return p;
}

// Selects the device; skips when none was asked for. One that was asked for and does not answer is a failure,
// no skip.
bool need_gpu(slotscope::testing::Context& t) {
  if (t.device() == "cpu") t.skip("needs a GPU: --device cuda");
  const size_t colon = t.device().find(':');
  const int index = colon == std::string::npos ? 0 : std::stoi(t.device().substr(colon + 1));
  if (cuda_available() && cudaSetDevice(index) == cudaSuccess) return true;
  t.fail("cannot use " + t.device(), __FILE__, __LINE__);
  return false;
}

void compare(slotscope::testing::Context& t, const Problem& p, bool with_roles, unsigned outputs,
             cudaStream_t stream) {
  const std::string what = std::to_string(p.shape.rows) + " x " + std::to_string(p.shape.heads) + " x " +
                           std::to_string(p.shape.top_k) + ", " + std::to_string(p.shape.slots) + " slots";
  std::vector<uint32_t> expected[3] = {p.before, p.before, p.before};
  const auto wanted = [&](unsigned i) { return (outputs >> i & 1) != 0; };
  RouteCounterInput in{p.index.data(), p.weight.data(), with_roles ? p.roles.data() : nullptr,
                       p.shape.rows,   p.shape.heads,   p.shape.top_k,
                       p.shape.slots};
  count_routes_cpu(in, {wanted(0) ? expected[0].data() : nullptr, wanted(1) ? expected[1].data() : nullptr,
                        wanted(2) ? expected[2].data() : nullptr});
  Guarded<uint32_t> index(p.index), out0(p.before), out1(p.before), out2(p.before);
  Guarded<float> weight(p.weight);
  Guarded<uint8_t> roles(p.roles);
  if (index.failed() || weight.failed() || roles.failed() || out0.failed() || out1.failed() || out2.failed())
    return t.fail(what + ": no device memory", __FILE__, __LINE__);
  in.index = index.data();
  in.weight = weight.data();
  in.roles = with_roles ? roles.data() : nullptr;
  count_routes_cuda(in,
                    {wanted(0) ? out0.data() : nullptr, wanted(1) ? out1.data() : nullptr,
                     wanted(2) ? out2.data() : nullptr},
                    stream);
  if (cudaStreamSynchronize(stream) != cudaSuccess)
    return t.fail(what + ": " + cudaGetErrorString(cudaGetLastError()), __FILE__, __LINE__);
  bool intact = true;
  const std::vector<uint32_t> got[3] = {out0.fetch(intact), out1.fetch(intact), out2.fetch(intact)};
  index.fetch(intact), weight.fetch(intact), roles.fetch(intact);
  for (int i = 0; i < 3; ++i)
    if (got[i] != expected[i])
      t.fail(what + ": output " + std::to_string(i) + " differs from the CPU", __FILE__, __LINE__);
  if (!intact) t.fail(what + ": wrote outside its outputs", __FILE__, __LINE__);
}

}  // namespace

SLOTSCOPE_CASE(equals_cpu) {
  if (!need_gpu(t)) return;
  cudaStream_t stream;
  if (cudaStreamCreate(&stream) != cudaSuccess) return t.fail("cudaStreamCreate", __FILE__, __LINE__);
  // Odd sizes around the block of 256 rows and threads; 4,096 slots are the last that fit in shared memory.
  const Shape shapes[] = {{1, 1, 1, 1},      {1, 3, 2, 5},       {255, 1, 7, 17},   {256, 4, 8, 64},
                          {257, 3, 5, 33},   {1000, 7, 3, 63},   {513, 2, 32, 256}, {300, 3, 9, 4095},
                          {300, 2, 8, 4096}, {300, 3, 5, 4097},  {77, 5, 3, 70001}, {4099, 1, 1, 5000},
                          {1, 1, 1, 65536},  {20000, 4, 32, 256}};
  unsigned seed = 1;
  for (const Shape& shape : shapes) {
    const Problem p = make(shape, seed++);
    for (const bool roles : {true, false}) compare(t, p, roles, 7, stream);
    for (unsigned outputs = 0; outputs < 7; ++outputs) compare(t, p, true, outputs, nullptr);
  }
  cudaStreamDestroy(stream);
}

// Nothing to count is no launch error.
SLOTSCOPE_CASE(nothing_to_count) {
  if (!need_gpu(t)) return;
  for (const Shape& shape : {Shape{0, 2, 3, 4}, Shape{5, 0, 3, 4}, Shape{5, 2, 0, 4}, Shape{5, 2, 3, 0}}) {
    RouteCounterInput in;
    Guarded<uint32_t> index(std::vector<uint32_t>(30, 0));
    Guarded<float> weight(std::vector<float>(30, 1.0f));
    in.index = index.data();
    in.weight = weight.data();
    in.rows = shape.rows, in.heads = shape.heads, in.top_k = shape.top_k, in.slots = shape.slots;
    count_routes_cuda(in, {}, nullptr);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
  }
}

// Blocks of tokens, as segments deliver them, add up on the device too.
SLOTSCOPE_CASE(blocks_add_up) {
  if (!need_gpu(t)) return;
  for (const int slots : {65, 5001}) {
    const Problem p = make({1031, 3, 4, slots}, 99);
    std::vector<uint32_t> expected = p.before;
    count_routes_cpu({p.index.data(), p.weight.data(), nullptr, 1031, 3, 4, slots},
                     {expected.data(), nullptr, nullptr});
    Guarded<uint32_t> index(p.index), out(p.before);
    Guarded<float> weight(p.weight);
    for (int64_t first = 0; first < 1031; first += 130) {
      const int64_t rows = std::min<int64_t>(130, 1031 - first);
      count_routes_cuda({index.data() + first * 12, weight.data() + first * 12, nullptr, rows, 3, 4, slots},
                        {out.data(), nullptr, nullptr}, nullptr);
    }
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    bool intact = true;
    CHECK(out.fetch(intact) == expected);
    CHECK(intact);
  }
}

#endif
