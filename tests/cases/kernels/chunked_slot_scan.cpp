// The chunk form against the recurrence in double precision on the same bfloat16 numbers: sizes, gates that decay by
// hundreds of bits, frozen slots, guards around every output, the same bits twice.
#include "kernels/chunked_slot_scan.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#ifdef SLOTSCOPE_HAS_CUDA
#include <cuda_runtime_api.h>
#endif
#include "kernels/routed_slot_scan.h"
#include "tests/cases/case.h"

using namespace slotscope::kernels;

SLOTSCOPE_CASE(which_sizes) {
  CHECK(chunked_slot_scan_supports(1, 8, 256) && chunked_slot_scan_supports(256, 256, 8));
  CHECK(!chunked_slot_scan_supports(257, 64, 64) && !chunked_slot_scan_supports(64, 264, 64));
  CHECK(!chunked_slot_scan_supports(64, 64, 12) && !chunked_slot_scan_supports(0, 64, 64));
}

#ifndef SLOTSCOPE_HAS_CUDA

SLOTSCOPE_CASE(equals_recurrence) {
  t.skip(t.device() == "cpu" ? "needs a GPU: --device cuda" : "this build has no CUDA kernels");
}

#else

namespace {

constexpr size_t kGuard = 64;  // elements before and after each output

uint16_t to_bf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
double from_bf16(uint16_t x) {
  const uint32_t bits = uint32_t(x) << 16;
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}

// Device memory with a copy of host data.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& host) : count_(host.size()) {
    if (cudaMalloc(reinterpret_cast<void**>(&data_), count_ * sizeof(T) + 16) != cudaSuccess) throw std::runtime_error("cudaMalloc");
    cudaMemcpy(data_, host.data(), count_ * sizeof(T), cudaMemcpyHostToDevice);
  }
  ~OnDevice() { cudaFree(data_); }
  OnDevice(const OnDevice&) = delete;
  T* get() { return data_; }
  std::vector<T> host() const {
    std::vector<T> v(count_);
    if (cudaMemcpy(v.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost) != cudaSuccess) throw std::runtime_error("cudaMemcpy");
    return v;
  }

 private:
  T* data_ = nullptr;
  size_t count_;
};

// Values between guards.
std::vector<float> guarded(const std::vector<float>& values) {
  std::vector<float> v(values.size() + 2 * kGuard, NAN);
  std::copy(values.begin(), values.end(), v.begin() + kGuard);
  return v;
}
std::vector<float> inside(slotscope::testing::Context& t, const std::vector<float>& v) {
  for (size_t i = 0; i < kGuard; ++i) CHECK(std::isnan(v[i]) && std::isnan(v[v.size() - 1 - i]));
  return {v.begin() + kGuard, v.end() - kGuard};
}

enum class Gates { usual, erasing, deep, hopeless };
struct Shape {
  int64_t batch, tokens;
  int heads, group, slots, top_k, d_k, d_v;
  Gates gates = Gates::usual;
  bool dense = false;
};

struct Result {
  std::vector<float> state_k, state_v, output, read;
};

struct Problem {
  Shape s;
  std::vector<uint16_t> query, key, value;
  std::vector<int32_t> index, read_row;
  std::vector<float> gate, state_k, state_v;

  explicit Problem(const Shape& shape) : s(shape) {
    std::mt19937 random(unsigned(s.tokens * 31 + s.slots));
    std::normal_distribution<float> normal;
    std::uniform_real_distribution<float> unit;
    const size_t rows = size_t(s.batch * s.tokens * s.heads);
    const auto draw = [&](size_t n, float scale) {
      std::vector<uint16_t> v(n);
      for (auto& x : v) x = to_bf16(scale * normal(random));
      return v;
    };
    query = draw(rows * size_t(s.group * s.d_k), 0.3f);
    key = draw(rows * size_t(s.d_k), 1);
    value = draw(rows * size_t(s.d_v), 1);
    // Slots from the last quarter are never written, so that some stay frozen (not in dense problems).
    std::vector<int32_t> order(size_t(std::max(s.top_k, s.dense ? s.slots : s.slots * 3 / 4)));
    for (size_t i = 0; i < order.size(); ++i) order[i] = int32_t(i);
    for (size_t row = 0; row < rows; ++row) {
      if (!s.dense) std::shuffle(order.begin(), order.end(), random);
      for (int k = 0; k < s.top_k; ++k) {
        index.push_back(order[size_t(k)]);
        float f = -0.2f * unit(random);
        if (s.gates == Gates::erasing && random() % 50 == 0) f = -INFINITY;
        if (s.gates == Gates::deep && random() % 20 == 0) f = -40 - 100 * unit(random);
        if (s.gates == Gates::hopeless) f = -20 * unit(random);
        gate.push_back(f);
      }
      if (!s.dense && row % 7 == 3) index.back() = -1;  // fewer than K slots
    }
    for (size_t i = 0; i < size_t(s.batch * s.heads * s.slots * s.d_k); ++i) state_k.push_back(normal(random));
    for (size_t i = 0; i < size_t(s.batch * s.heads * s.slots * s.d_v); ++i) state_v.push_back(normal(random));
    read_row.assign(size_t(s.tokens), -1);
    read_row.back() = 1;
    read_row[size_t(s.tokens / 2)] = 0;
  }

  int64_t query_heads() const { return int64_t(s.heads) * s.group; }
  size_t outputs() const { return size_t(s.batch * s.tokens * query_heads() * s.d_v); }
  size_t reads() const { return size_t(s.batch * 2 * query_heads() * s.slots); }

  Result on_gpu(slotscope::testing::Context& t) const {
    OnDevice<uint16_t> q(query), k(key), v(value);
    OnDevice<int32_t> i(index), rows(read_row);
    OnDevice<float> f(gate), sk(guarded(state_k)), sv(guarded(state_v)), o(guarded(std::vector<float>(outputs(), NAN))),
        p(guarded(std::vector<float>(reads(), 0)));
    ChunkedSlotScanInput in;
    in.query = q.get(), in.key = k.get(), in.value = v.get(), in.index = s.dense ? nullptr : i.get(), in.gate = f.get();
    in.read_row = rows.get(), in.read_rows = 2;
    in.batch = s.batch, in.tokens = s.tokens, in.heads = s.heads, in.group = s.group, in.slots = s.slots;
    in.top_k = s.top_k, in.d_k = s.d_k, in.d_v = s.d_v, in.scale = 0.7f;
    OnDevice<uint8_t> work(std::vector<uint8_t>(chunked_slot_scan_workspace(in), 0xff));  // NaN everywhere
    chunked_slot_scan_cuda(in, {sk.get() + kGuard, sv.get() + kGuard, o.get() + kGuard, p.get() + kGuard}, work.get(), nullptr);
    const cudaError_t error = cudaDeviceSynchronize();
    if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
    return {inside(t, sk.host()), inside(t, sv.host()), inside(t, o.host()), inside(t, p.host())};
  }

  // The recurrence in double precision.
  struct Exact {
    std::vector<double> state_k, state_v, output, read;
  };
  Exact exact() const {
    const auto wide = [](const std::vector<uint16_t>& v) {
      std::vector<double> w;
      for (const uint16_t x : v) w.push_back(from_bf16(x));
      return w;
    };
    const std::vector<double> q = wide(query), k = wide(key), v = wide(value);
    std::vector<double> keep, write;
    for (const float f : gate) keep.push_back(std::exp(double(f))), write.push_back(1 - std::exp(double(f)));
    Exact e{{state_k.begin(), state_k.end()}, {state_v.begin(), state_v.end()}, std::vector<double>(outputs()),
            std::vector<double>(reads())};
    RoutedSlotScanInput<double> in{q.data(), k.data(), v.data(), index.data(), keep.data(), write.data(), read_row.data(),
                                   s.batch, s.tokens, s.heads, s.group, s.slots, s.top_k, s.d_k, s.d_v, 2, double(0.7f)};
    routed_slot_scan_cpu<double>(in, {e.state_k.data(), e.state_v.data(), e.output.data(), e.read.data()}, 0, s.batch * s.heads);
    return e;
  }
};

// || got - want || / || want ||
double distance(const std::vector<float>& got, const std::vector<double>& want) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) error += (got[i] - want[i]) * (got[i] - want[i]), norm += want[i] * want[i];
  return std::sqrt(error / norm);
}

void compare(slotscope::testing::Context& t, const Shape& shape) {
  const Problem p(shape);
  const Result got = p.on_gpu(t), again = p.on_gpu(t);
  const Problem::Exact want = p.exact();
  const double o = distance(got.output, want.output), k = distance(got.state_k, want.state_k), v = distance(got.state_v, want.state_v);
  double read = 0;
  for (size_t i = 0; i < want.read.size(); ++i) read = std::max(read, std::abs(got.read[i] - want.read[i]));
  t.note(std::to_string(shape.tokens) + " tokens, " + std::to_string(shape.slots) + " slots: output " + std::to_string(o) +
         ", states " + std::to_string(std::max(k, v)) + ", read weight " + std::to_string(read));
  // bfloat16 has 8 bits: products of rounded operands are off by some 2^-9 of what is summed (spec: kernels 7).
  CHECK(o <= 1e-2);
  CHECK(k <= 5e-3 && v <= 5e-3);
  CHECK(read <= 5e-3);
  CHECK(got.output == again.output && got.state_k == again.state_k && got.state_v == again.state_v && got.read == again.read);
  // Slots that nobody writes keep their bits.
  std::vector<bool> written(size_t(shape.batch * shape.heads * shape.slots));
  for (size_t i = 0; i < p.index.size(); ++i) {
    const int64_t row = int64_t(i) / shape.top_k, pair = row / (shape.tokens * shape.heads) * shape.heads + row % shape.heads;
    if (p.index[i] >= 0) written[size_t(pair * shape.slots + p.index[i])] = true;
  }
  int64_t frozen = 0;
  for (size_t slot = 0; slot < written.size(); ++slot) {
    if (written[slot]) continue;
    ++frozen;
    CHECK(std::memcmp(&got.state_k[slot * size_t(shape.d_k)], &p.state_k[slot * size_t(shape.d_k)], size_t(shape.d_k) * 4) == 0);
    CHECK(std::memcmp(&got.state_v[slot * size_t(shape.d_v)], &p.state_v[slot * size_t(shape.d_v)], size_t(shape.d_v) * 4) == 0);
  }
  if (!shape.dense && shape.slots >= 64) CHECK(frozen > 0);
}

void need_gpu(slotscope::testing::Context& t) {
  if (t.device() == "cpu") t.skip("needs a GPU: --device cuda");
}

}  // namespace

SLOTSCOPE_CASE(equals_recurrence) {
  need_gpu(t);
  for (const int64_t tokens : {1, 7, 63, 64, 65, 127, 128, 129, 1000}) compare(t, {1, tokens, 2, 1, 64, 8, 64, 64});
  compare(t, {1, 4097, 1, 1, 64, 4, 32, 32});
  compare(t, {1, 16500, 1, 1, 64, 4, 16, 16});  // more than one round of 16,384 tokens
  compare(t, {2, 200, 2, 2, 200, 32, 96, 128});
  compare(t, {3, 65, 1, 3, 7, 2, 40, 8});
  compare(t, {1, 130, 1, 1, 1, 1, 64, 64});
  compare(t, {1, 257, 1, 1, 256, 32, 256, 256});
  compare(t, {1, 257, 1, 1, 256, 1, 128, 256});
  compare(t, {1, 200, 1, 1, 128, 96, 256, 64});
}

SLOTSCOPE_CASE(dense_gates) {
  need_gpu(t);
  compare(t, {1, 200, 2, 1, 64, 64, 64, 64, Gates::usual, true});
  compare(t, {2, 129, 1, 2, 100, 100, 128, 64, Gates::usual, true});
}

SLOTSCOPE_CASE(gates_of_hundreds_of_bits) {
  need_gpu(t);
  for (const Gates gates : {Gates::erasing, Gates::deep, Gates::hopeless}) {
    compare(t, {1, 300, 2, 1, 64, 8, 64, 64, gates});
    compare(t, {2, 150, 1, 2, 128, 16, 32, 64, gates});
  }
}

#endif
