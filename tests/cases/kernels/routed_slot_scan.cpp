// The routed slot memory: numbers by hand, brute force, pieces, threads, and the CUDA twin.
#include "kernels/routed_slot_scan.h"

#include <cmath>
#include <cstring>
#include <random>

#ifdef SLOTSCOPE_HAS_CUDA
#include <cuda_runtime_api.h>

#include "kernels/route_counters.h"
#endif
#include "tests/cases/case.h"

using namespace slotscope::kernels;

namespace {

template <class Real>
struct Problem {
  RoutedSlotScanInput<Real> in;
  std::vector<Real> query, key, value, keep, write, state_k, state_v;
  std::vector<int32_t> index, read_row;
};

struct Sizes {
  int64_t batch = 1, tokens = 1;
  int heads = 1, group = 1, slots = 1, top_k = 1, d_k = 1, d_v = 1;
};

template <class Real>
void connect(Problem<Real>& p) {
  p.in.query = p.query.data();
  p.in.key = p.key.data();
  p.in.value = p.value.data();
  p.in.index = p.index.data();
  p.in.keep = p.keep.data();
  p.in.write = p.write.data();
  p.in.read_row = p.read_row.data();
}

template <class Real>
Problem<Real> random_problem(const Sizes& s, unsigned seed) {
  Problem<Real> p;
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  const auto draw = [&](int64_t n) {
    std::vector<Real> v;
    for (int64_t i = 0; i < n; ++i) v.push_back(Real(normal(random)));
    return v;
  };
  p.in.batch = s.batch;
  p.in.tokens = s.tokens;
  p.in.heads = s.heads;
  p.in.group = s.group;
  p.in.slots = s.slots;
  p.in.top_k = s.top_k;
  p.in.d_k = s.d_k;
  p.in.d_v = s.d_v;
  p.in.scale = Real(0.7);
  const int64_t rows = s.batch * s.tokens * s.heads;
  p.query = draw(rows * s.group * s.d_k);
  p.key = draw(rows * s.d_k);
  p.value = draw(rows * s.d_v);
  p.state_k = draw(s.batch * s.heads * s.slots * s.d_k);
  p.state_v = draw(s.batch * s.heads * s.slots * s.d_v);
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<int32_t> slots(static_cast<size_t>(s.slots));
    for (int i = 0; i < s.slots; ++i) slots[size_t(i)] = i;
    std::shuffle(slots.begin(), slots.end(), random);
    for (int k = 0; k < s.top_k; ++k) {
      const Real keep = Real(std::exp(-std::abs(normal(random)) * (random() % 7 == 0 ? 60 : 1)));
      p.index.push_back(random() % 11 == 0 ? -1 : slots[size_t(k)]);
      p.keep.push_back(keep);
      p.write.push_back(1 - keep);
    }
  }
  for (int64_t t = 0; t < s.tokens; ++t) p.read_row.push_back(t % 3 == 1 ? int32_t(p.in.read_rows++) : -1);
  connect(p);
  return p;
}

template <class Real>
struct Result {
  std::vector<Real> state_k, state_v, output, read;
};

template <class Real>
Result<Real> scan(const Problem<Real>& p) {
  const int64_t query_heads = p.in.heads * p.in.group;
  Result<Real> r{
      p.state_k, p.state_v,
      std::vector<Real>(size_t(p.in.batch * p.in.tokens * query_heads * p.in.d_v), Real(NAN)),
      std::vector<Real>(size_t(p.in.batch * p.in.read_rows * query_heads * p.in.slots), Real(NAN))};
  routed_slot_scan_cpu(p.in, {r.state_k.data(), r.state_v.data(), r.output.data(), r.read.data()}, 0,
                       p.in.batch * p.in.heads);
  return r;
}

// Straight from the equations, in long double, with dense keep = 1 and write = 0 for slots that were not
// selected.
template <class Real>
Result<long double> brute_force(const Problem<Real>& p) {
  const auto& in = p.in;
  const int64_t query_heads = in.heads * in.group;
  Result<long double> r{{p.state_k.begin(), p.state_k.end()},
                        {p.state_v.begin(), p.state_v.end()},
                        std::vector<long double>(size_t(in.batch * in.tokens * query_heads * in.d_v)),
                        std::vector<long double>(size_t(in.batch * in.read_rows * query_heads * in.slots))};
  for (int64_t b = 0; b < in.batch; ++b)
    for (int64_t t = 0; t < in.tokens; ++t)
      for (int64_t h = 0; h < query_heads; ++h) {
        const int64_t j = h / in.group, row = (b * in.tokens + t) * in.heads + j;
        long double* sk = &r.state_k[size_t((b * in.heads + j) * in.slots * in.d_k)];
        long double* sv = &r.state_v[size_t((b * in.heads + j) * in.slots * in.d_v)];
        if (h % in.group == 0)
          for (int m = 0; m < in.slots; ++m) {
            long double keep = 1, write = 0;
            for (int k = 0; k < in.top_k; ++k)
              if (p.index[size_t(row * in.top_k + k)] == m)
                keep = p.keep[size_t(row * in.top_k + k)], write = p.write[size_t(row * in.top_k + k)];
            for (int i = 0; i < in.d_k; ++i)
              sk[m * in.d_k + i] = keep * sk[m * in.d_k + i] + write * p.key[size_t(row * in.d_k + i)];
            for (int i = 0; i < in.d_v; ++i)
              sv[m * in.d_v + i] = keep * sv[m * in.d_v + i] + write * p.value[size_t(row * in.d_v + i)];
          }
        const int64_t q = ((b * in.tokens + t) * query_heads + h);
        std::vector<long double> z(static_cast<size_t>(in.slots));
        long double sum = 0;
        for (int m = 0; m < in.slots; ++m) {
          for (int i = 0; i < in.d_k; ++i)
            z[size_t(m)] += in.scale * sk[m * in.d_k + i] * p.query[size_t(q * in.d_k + i)];
          sum += z[size_t(m)] = std::exp(z[size_t(m)]);
        }
        for (int m = 0; m < in.slots; ++m) {
          for (int i = 0; i < in.d_v; ++i)
            r.output[size_t(q * in.d_v + i)] += z[size_t(m)] / sum * sv[m * in.d_v + i];
          if (p.read_row[size_t(t)] >= 0)
            r.read[size_t(((b * in.read_rows + p.read_row[size_t(t)]) * query_heads + h) * in.slots + m)] =
                z[size_t(m)] / sum;
        }
      }
  return r;
}

template <class A, class B>
double worst(const std::vector<A>& a, const std::vector<B>& b) {
  double most = a.size() == b.size() ? 0 : NAN;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const double error = std::abs(double(a[i]) - double(b[i])) / std::max(1.0, std::abs(double(b[i])));
    if (!(error <= most)) most = error;
    if (std::isnan(error)) return NAN;
  }
  return most;
}

const Sizes kSizes[] = {
    {1, 1, 1, 1, 1, 1, 1, 1},    {2, 9, 3, 2, 7, 3, 5, 17},      {1, 65, 2, 1, 64, 8, 64, 64},
    {3, 33, 1, 4, 8, 8, 16, 32}, {1, 20, 2, 1, 200, 5, 48, 130},
};

template <class Real>
bool same_bits(const std::vector<Real>& a, const std::vector<Real>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(Real)) == 0;
}

}  // namespace

// bad-inputs R5: one head, 2 slots, top-1 slots 0,1,0, gate 0.5, never-written slots read with value 0.
SLOTSCOPE_CASE(r5_by_hand) {
  Problem<double> p;
  p.query = p.key = {1, 0, 0, 1, 1, 1};
  p.value = {1, 2, 4};
  p.index = {0, 1, 0};
  p.keep = p.write = {0.5, 0.5, 0.5};
  p.read_row = {-1, -1, -1};
  p.state_k = {0, 0, 0, 0};
  p.state_v = {0, 0};
  p.in.batch = 1;
  p.in.tokens = 3;
  p.in.heads = 1;
  p.in.slots = p.in.d_k = 2;
  p.in.top_k = p.in.d_v = 1;
  connect(p);
  const auto r = scan(p);
  CHECK_CLOSE(r.output[0], 0.311230, 1e-6);
  CHECK_CLOSE(r.output[1], 0.811230, 1e-6);
  CHECK_CLOSE(r.output[2], 1.848973, 1e-6);
}

SLOTSCOPE_CASE(brute_force_twin) {
  for (const Sizes& s : kSizes) {
    const auto wide = random_problem<double>(s, 3);
    const auto narrow = random_problem<float>(s, 4);
    const auto r = scan(wide);
    const auto expected = brute_force(wide);
    CHECK_CLOSE(worst(r.output, expected.output), 0, 1e-12);
    CHECK_CLOSE(worst(r.state_k, expected.state_k), 0, 1e-12);
    CHECK_CLOSE(worst(r.state_v, expected.state_v), 0, 1e-12);
    CHECK_CLOSE(worst(r.read, expected.read), 0, 1e-12);
    const auto f = scan(narrow);
    const auto expected_narrow = brute_force(narrow);
    // Logits reach 100 here, so one rounding of a logit is 1e-5 of its exponential.
    CHECK_CLOSE(worst(f.output, expected_narrow.output), 0, 1e-4);
    CHECK_CLOSE(worst(f.state_k, expected_narrow.state_k), 0, 2e-6);
    CHECK_CLOSE(worst(f.state_v, expected_narrow.state_v), 0, 2e-6);
  }
}

// Scanning in pieces with the carried state, or pair by pair, gives the same bits as at once.
SLOTSCOPE_CASE(pieces_give_the_same_bits) {
  const Sizes s{1, 65, 3, 2, 16, 4, 24, 40};
  auto p = random_problem<float>(s, 5);
  std::fill(p.read_row.begin(), p.read_row.end(), -1);
  const auto whole = scan(p);
  for (const int64_t piece : {1, 7, 64}) {
    Result<float> r{p.state_k, p.state_v, std::vector<float>(whole.output.size(), NAN), {}};
    for (int64_t first = 0; first < s.tokens; first += piece) {
      auto in = p.in;
      in.tokens = std::min(piece, s.tokens - first);
      in.query += first * s.heads * s.group * s.d_k;
      in.key += first * s.heads * s.d_k;
      in.value += first * s.heads * s.d_v;
      in.index += first * s.heads * s.top_k;
      in.keep += first * s.heads * s.top_k;
      in.write += first * s.heads * s.top_k;
      for (int64_t pair = 2; pair >= 0; --pair)
        routed_slot_scan_cpu(in,
                             {r.state_k.data(), r.state_v.data(),
                              r.output.data() + first * s.heads * s.group * s.d_v, nullptr},
                             pair, pair + 1);
    }
    CHECK(same_bits(r.output, whole.output));
    CHECK(same_bits(r.state_k, whole.state_k));
    CHECK(same_bits(r.state_v, whole.state_v));
  }
}

// A slot that is never selected keeps its bits, NaN patterns included.
SLOTSCOPE_CASE(frozen_slots_keep_their_bits) {
  const Sizes s{1, 40, 1, 1, 6, 2, 5, 5};
  auto p = random_problem<float>(s, 6);
  for (auto& slot : p.index)
    if (slot == 3) slot = -1;
  std::memset(&p.state_v[3 * 5], 0x7f, 5 * sizeof(float));
  const auto r = scan(p);
  CHECK(std::memcmp(&r.state_k[3 * 5], &p.state_k[3 * 5], 5 * sizeof(float)) == 0);
  CHECK(std::memcmp(&r.state_v[3 * 5], &p.state_v[3 * 5], 5 * sizeof(float)) == 0);
  CHECK(std::memcmp(r.state_v.data(), p.state_v.data(), 5 * sizeof(float)) != 0);
}

#ifdef SLOTSCOPE_HAS_CUDA
namespace {

template <class Item>
struct OnDevice {
  explicit OnDevice(const std::vector<Item>& host) : count(host.size()) {
    if (cudaMalloc(reinterpret_cast<void**>(&data), std::max<size_t>(1, count) * sizeof(Item)) != cudaSuccess)
      throw std::runtime_error("cudaMalloc");
    cudaMemcpy(data, host.data(), count * sizeof(Item), cudaMemcpyHostToDevice);
  }
  ~OnDevice() { cudaFree(data); }
  OnDevice(const OnDevice&) = delete;
  std::vector<Item> host() const {
    std::vector<Item> values(count);
    if (cudaMemcpy(values.data(), data, count * sizeof(Item), cudaMemcpyDeviceToHost) != cudaSuccess)
      throw std::runtime_error("cudaMemcpy");
    return values;
  }
  Item* data = nullptr;
  size_t count;
};

template <class Real>
void compare_with_cuda(slotscope::testing::Context& t, const Sizes& s, double tolerance,
                       double state_tolerance) {
  const auto p = random_problem<Real>(s, 7);
  const auto expected = scan(p);
  const OnDevice<Real> query(p.query), key(p.key), value(p.value), keep(p.keep), write(p.write);
  const OnDevice<int32_t> index(p.index), read_row(p.read_row);
  const OnDevice<Real> state_k(p.state_k), state_v(p.state_v);
  const OnDevice<Real> output(std::vector<Real>(expected.output.size(), Real(NAN))),
      read(std::vector<Real>(expected.read.size(), Real(NAN)));
  auto in = p.in;
  in.query = query.data;
  in.key = key.data;
  in.value = value.data;
  in.index = index.data;
  in.keep = keep.data;
  in.write = write.data;
  in.read_row = read_row.data;
  routed_slot_scan_cuda(in, {state_k.data, state_v.data, output.data, read.data}, nullptr);
  const double o = worst(output.host(), expected.output), k = worst(state_k.host(), expected.state_k);
  const double v = worst(state_v.host(), expected.state_v), w = worst(read.host(), expected.read);
  t.note(std::to_string(s.tokens) + " tokens, " + std::to_string(s.slots) + " slots, " +
         std::to_string(sizeof(Real)) + " bytes: o " + std::to_string(o) + ", S^k " + std::to_string(k));
  CHECK_CLOSE(o, 0, tolerance);
  CHECK_CLOSE(w, 0, tolerance);
  CHECK_CLOSE(k, 0, state_tolerance);
  CHECK_CLOSE(v, 0, state_tolerance);
}

}  // namespace
#endif

SLOTSCOPE_CASE(cuda_twin) {
  if (t.device() == "cpu") t.skip("needs a GPU");
#ifdef SLOTSCOPE_HAS_CUDA
  if (!cuda_available()) t.skip("no CUDA device answers");
  for (const Sizes& s : kSizes) {
    compare_with_cuda<double>(t, s, 1e-12, 1e-12);
    compare_with_cuda<float>(t, s, 1e-4, 2e-6);
  }
  // A state that does not fit in shared memory.
  compare_with_cuda<float>(t, {1, 30, 2, 2, 256, 32, 256, 256}, 1e-4, 2e-6);
  compare_with_cuda<float>(t, {1, 5, 1, 1, 64, 8, 64, 600}, 1e-4, 2e-6);
#else
  t.skip("this build has no CUDA kernels");
#endif
}
