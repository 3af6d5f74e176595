// The matrix state scan against sums written out, for every sharing of heads, decay and rule, and its CUDA twin.
#include <array>
#include <cmath>
#include <random>

#ifdef SLOTSCOPE_HAS_CUDA
#include <cuda_runtime_api.h>

#include "kernels/route_counters.h"
#endif
#include "kernels/matrix_state_scan.h"
#include "tests/cases/case.h"

using namespace slotscope;
using namespace slotscope::kernels;

namespace {

struct Problem {
  int heads = 2, query_heads = 2, key_heads = 2, d_k = 19, d_v = 3;  // 19: no whole number of lanes
  int64_t batch = 2, tokens = 7;
  bool keep = true, per_channel = true, strength = true, delta = true;
  double key_size = 1;  // of the largest element
};

struct Data {
  std::vector<double> query, key, value, keep, strength, state;
};

Data make(const Problem& p) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> uniform(-1, 1);
  const auto fill = [&](int64_t n, bool positive = false) {
    std::vector<double> v;
    for (int64_t i = 0; i < n; ++i) v.push_back(positive ? 0.5 + 0.5 * uniform(random) : uniform(random));
    return v;
  };
  const int64_t rows = p.batch * p.tokens;
  Data d{fill(rows * p.query_heads * p.d_k),
         fill(rows * p.key_heads * p.d_k),
         fill(rows * p.heads * p.d_v),
         fill(rows * p.heads * (p.per_channel ? p.d_k : 1), true),
         fill(rows * p.heads, true),
         fill(p.batch * p.heads * p.d_v * p.d_k)};
  for (double& k : d.key) k *= p.key_size;
  return d;
}

template <class Real>
std::vector<Real> cast(const std::vector<double>& v) {
  return {v.begin(), v.end()};
}

size_t output_size(const Problem& p) {
  return size_t(p.batch * p.tokens * std::max(p.heads, p.query_heads) * p.d_v);
}

template <class Real>
MatrixStateScanInput<Real> input_of(const Problem& p, const Real* query, const Real* key, const Real* value,
                                    const Real* keep, const Real* strength) {
  MatrixStateScanInput<Real> in;
  in.query = query, in.key = key, in.value = value;
  in.keep = p.keep ? keep : nullptr;
  in.strength = p.strength ? strength : nullptr;
  in.keep_per_channel = p.per_channel, in.delta = p.delta;
  in.batch = p.batch, in.tokens = p.tokens;
  in.heads = p.heads, in.query_heads = p.query_heads, in.key_heads = p.key_heads;
  in.d_k = p.d_k, in.d_v = p.d_v, in.scale = Real(0.25);
  return in;
}

template <class Real>
std::pair<std::vector<Real>, std::vector<Real>> scan(const Problem& p, const Data& d) {
  const auto query = cast<Real>(d.query), key = cast<Real>(d.key), value = cast<Real>(d.value), keep = cast<Real>(d.keep),
             strength = cast<Real>(d.strength);
  std::vector<Real> state = cast<Real>(d.state);
  std::vector<Real> output(output_size(p));
  const auto in = input_of<Real>(p, query.data(), key.data(), value.data(), keep.data(), strength.data());
  const MatrixStateScanOutput<Real> out{state.data(), output.data()};
  for (int64_t pair = 0; pair < p.batch * p.heads; ++pair) matrix_state_scan_cpu(in, out, pair, pair + 1);
  return {output, state};
}

// S as [d_k][d_v], the other way round, with every sum written out.
std::pair<std::vector<double>, std::vector<double>> twin(const Problem& p, const Data& d) {
  const int outs = std::max(p.heads, p.query_heads);
  std::vector<double> output(size_t(p.batch * p.tokens * outs * p.d_v)), state(d.state.size());
  for (int64_t b = 0; b < p.batch; ++b)
    for (int h = 0; h < p.heads; ++h) {
      std::vector<std::vector<double>> S(size_t(p.d_k), std::vector<double>(size_t(p.d_v)));
      const size_t base = size_t((b * p.heads + h) * p.d_v * p.d_k);
      for (int c = 0; c < p.d_k; ++c)
        for (int i = 0; i < p.d_v; ++i) S[size_t(c)][size_t(i)] = d.state[base + size_t(i * p.d_k + c)];
      for (int64_t t = 0; t < p.tokens; ++t) {
        const int64_t row = b * p.tokens + t, at = row * p.heads + h;
        const double* k = &d.key[size_t((row * p.key_heads + h * p.key_heads / p.heads) * p.d_k)];
        for (int c = 0; c < p.d_k; ++c)
          for (int i = 0; i < p.d_v; ++i)
            if (p.keep) S[size_t(c)][size_t(i)] *= d.keep[size_t(p.per_channel ? at * p.d_k + c : at)];
        for (int i = 0; i < p.d_v; ++i) {
          double content = d.value[size_t(at * p.d_v + i)];
          if (p.delta)
            for (int c = 0; c < p.d_k; ++c) content -= S[size_t(c)][size_t(i)] * k[c];
          if (p.strength) content *= d.strength[size_t(at)];
          for (int c = 0; c < p.d_k; ++c) S[size_t(c)][size_t(i)] += k[c] * content;
        }
        for (int o = 0; o < outs; ++o) {
          if (o * p.heads / outs != h) continue;
          const double* q = &d.query[size_t((row * p.query_heads + o * p.query_heads / outs) * p.d_k)];
          for (int i = 0; i < p.d_v; ++i) {
            double sum = 0;
            for (int c = 0; c < p.d_k; ++c) sum += S[size_t(c)][size_t(i)] * q[c];
            output[size_t((row * outs + o) * p.d_v + i)] = 0.25 * sum;
          }
        }
      }
      for (int c = 0; c < p.d_k; ++c)
        for (int i = 0; i < p.d_v; ++i) state[base + size_t(i * p.d_k + c)] = S[size_t(c)][size_t(i)];
    }
  return {output, state};
}

template <class A>
double worst(const std::vector<A>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return NAN;
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double error = std::abs(double(a[i]) - b[i]);
    if (!(error <= most)) most = error;
  }
  return most;
}

}  // namespace

SLOTSCOPE_CASE(against_sums_written_out) {
  int tried = 0;
  for (const auto& [heads, queries, keys] :
       {std::array{2, 2, 2}, std::array{2, 6, 2}, std::array{6, 2, 2}, std::array{6, 1, 1}, std::array{4, 4, 1}})
    for (int bits = 0; bits < 16; ++bits) {
      Problem p;
      p.heads = heads, p.query_heads = queries, p.key_heads = keys;
      p.keep = bits & 1, p.per_channel = bits & 2, p.strength = bits & 4, p.delta = bits & 8;
      if (bits & 1) p.d_k = 32, p.d_v = 1;
      const Data d = make(p);
      const auto [output, state] = scan<double>(p, d);
      const auto [expected, expected_state] = twin(p, d);
      // Without decay the delta rule with random keys grows: errors are relative to what is there.
      double scale = 1;
      for (const double x : expected_state) scale = std::max(scale, std::abs(x));
      CHECK_CLOSE(worst(output, expected) / scale, 0, 1e-12);
      CHECK_CLOSE(worst(state, expected_state) / scale, 0, 1e-12);
      const auto [narrow, narrow_state] = scan<float>(p, d);
      CHECK_CLOSE(worst(narrow, expected) / scale, 0, 1e-3);
      CHECK_CLOSE(worst(narrow_state, expected_state) / scale, 0, 1e-3);
      ++tried;
    }
  CHECK_EQ(tried, 80);
}

// Pieces with the carried state give the bits of the whole.
SLOTSCOPE_CASE(pieces_give_the_same_bits) {
  Problem p;
  p.batch = 1, p.tokens = 23;
  const Data d = make(p);
  const auto [output, state] = scan<float>(p, d);
  for (const int64_t piece : {1, 4, 22}) {
    Problem q = p;
    Data part = d;
    std::vector<float> outputs;
    for (int64_t first = 0; first < p.tokens; first += piece) {
      q.tokens = std::min(piece, p.tokens - first);
      const auto cut = [&](const std::vector<double>& all, int64_t line) {
        return std::vector<double>(all.begin() + first * line, all.begin() + (first + q.tokens) * line);
      };
      part.query = cut(d.query, p.query_heads * p.d_k), part.key = cut(d.key, p.key_heads * p.d_k);
      part.value = cut(d.value, p.heads * p.d_v), part.keep = cut(d.keep, p.heads * p.d_k);
      part.strength = cut(d.strength, p.heads);
      const auto [o, s] = scan<float>(q, part);
      outputs.insert(outputs.end(), o.begin(), o.end());
      part.state.assign(s.begin(), s.end());
    }
    CHECK(outputs == output);
    CHECK(std::vector<float>(part.state.begin(), part.state.end()) == state);
  }
}

#ifndef SLOTSCOPE_HAS_CUDA

SLOTSCOPE_CASE(cuda_twin) {
  bool thrown = false;
  try {
    matrix_state_scan_cuda(MatrixStateScanInput<float>{}, {}, nullptr);
  } catch (const std::logic_error& e) {
    thrown = std::string(e.what()).find("no CUDA") != std::string::npos;
  }
  CHECK(thrown);
  t.skip(t.device() == "cpu" ? "needs a GPU" : "this build has no CUDA kernels");
}

#else

namespace {

constexpr size_t kGuard = 67;  // odd: neither arrays nor rows start on a round address

// An array on the device between guard bands of NaN: nothing may be written there, and what is read there spoils the result.
template <class Real>
class Guarded {
 public:
  explicit Guarded(const std::vector<Real>& values) : size_(values.size()) {
    std::vector<Real> all(size_ + 2 * kGuard, Real(NAN));
    std::copy(values.begin(), values.end(), all.begin() + kGuard);
    if (cudaMalloc(reinterpret_cast<void**>(&memory_), all.size() * sizeof(Real)) != cudaSuccess)
      throw std::runtime_error("cudaMalloc");
    if (cudaMemcpy(memory_, all.data(), all.size() * sizeof(Real), cudaMemcpyHostToDevice) != cudaSuccess)
      throw std::runtime_error("cudaMemcpy to the device");
  }
  ~Guarded() { cudaFree(memory_); }
  Guarded(const Guarded&) = delete;
  Real* data() { return memory_ + kGuard; }
  std::vector<Real> fetch(bool& intact) {
    std::vector<Real> all(size_ + 2 * kGuard);
    if (cudaMemcpy(all.data(), memory_, all.size() * sizeof(Real), cudaMemcpyDeviceToHost) != cudaSuccess)
      throw std::runtime_error("cudaMemcpy from the device");
    for (size_t i = 0; i < kGuard; ++i)
      if (!std::isnan(all[i]) || !std::isnan(all[all.size() - 1 - i])) intact = false;
    return {all.begin() + kGuard, all.end() - kGuard};
  }

 private:
  Real* memory_ = nullptr;
  size_t size_;
};

struct OnGpu {
  double output = 0, state = 0, ms = 0;
  bool intact = true, again = true;  // guards untouched; the second run gave the same bits
};

// Runs twice on a stream of its own and compares with the scan on the CPU in the same type, relative to the largest value.
template <class Real>
OnGpu on_gpu(const Problem& p) {
  const Data d = make(p);
  const auto [output, state] = scan<Real>(p, d);
  cudaStream_t stream;
  cudaEvent_t begin, end;
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) throw std::runtime_error("stream");
  cudaEventCreate(&begin), cudaEventCreate(&end);
  OnGpu result;
  std::vector<Real> first;
  for (int run = 0; run < 2; ++run) {
    Guarded<Real> query(cast<Real>(d.query)), key(cast<Real>(d.key)), value(cast<Real>(d.value)),
        keep(cast<Real>(d.keep)), strength(cast<Real>(d.strength)), s(cast<Real>(d.state)),
        o(std::vector<Real>(output.size(), Real(NAN)));
    const auto in = input_of<Real>(p, query.data(), key.data(), value.data(), keep.data(), strength.data());
    cudaDeviceSynchronize();
    cudaEventRecord(begin, stream);
    matrix_state_scan_cuda(in, {s.data(), o.data()}, stream);
    cudaEventRecord(end, stream);
    if (cudaStreamSynchronize(stream) != cudaSuccess) throw std::runtime_error("the kernel failed");
    float ms = 0;
    cudaEventElapsedTime(&ms, begin, end);
    result.ms = ms;
    const auto got = o.fetch(result.intact), got_state = s.fetch(result.intact);
    const auto wide = [](const std::vector<Real>& v) { return std::vector<double>(v.begin(), v.end()); };
    double most = 1;
    for (const Real x : state) most = std::max(most, std::abs(double(x)));
    for (const Real x : output) most = std::max(most, std::abs(double(x)));
    result.output = worst(got, wide(output)) / most;
    result.state = worst(got_state, wide(state)) / most;
    std::vector<Real> all = got;
    all.insert(all.end(), got_state.begin(), got_state.end());
    if (run == 0) first = all;
    result.again = result.again && all == first;
    for (auto* input : {&query, &key, &value, &keep, &strength}) input->fetch(result.intact);
  }
  cudaEventDestroy(begin), cudaEventDestroy(end), cudaStreamDestroy(stream);
  return result;
}

// Every key and keep small enough that no token amplifies what came before: |k|^2 <= 1.
void check_on_gpu(slotscope::testing::Context& t, Problem p, bool tell = false) {
  p.key_size = 1 / std::sqrt(double(p.d_k));
  const OnGpu wide = on_gpu<double>(p), narrow = on_gpu<float>(p);
  CHECK(wide.intact && narrow.intact);
  CHECK(wide.again && narrow.again);
  CHECK_CLOSE(wide.output, 0, 1e-12);
  CHECK_CLOSE(wide.state, 0, 1e-12);
  CHECK_CLOSE(narrow.output, 0, 1e-5);
  CHECK_CLOSE(narrow.state, 0, 1e-5);
  if (!tell) return;
  char text[200];
  std::snprintf(text, sizeof text,
                "%lld tokens, %d heads, d_k %d, d_v %d: float64 off by %.1e, %.2f ms; float32 by %.1e, %.2f ms",
                static_cast<long long>(p.tokens), p.heads, p.d_k, p.d_v, std::max(wide.output, wide.state), wide.ms,
                std::max(narrow.output, narrow.state), narrow.ms);
  t.note(text);
}

}  // namespace

SLOTSCOPE_CASE(cuda_twin) {
  if (t.device() == "cpu") t.skip("needs a GPU");
  if (!cuda_available()) t.skip("no CUDA device answers");
  // Every sharing of heads, decay and rule.
  for (const auto& [heads, queries, keys] :
       {std::array{2, 2, 2}, std::array{2, 6, 2}, std::array{6, 2, 2}, std::array{6, 1, 1}, std::array{4, 4, 1}})
    for (int bits = 0; bits < 16; ++bits) {
      Problem p;
      p.heads = heads, p.query_heads = queries, p.key_heads = keys;
      p.keep = bits & 1, p.per_channel = bits & 2, p.strength = bits & 4, p.delta = bits & 8;
      check_on_gpu(t, p);
    }
  // Every width of the lanes, at its edges, and rows that stay in global memory; tokens around the size of a piece.
  for (const int d_k : {1, 7, 8, 9, 16, 17, 32, 33, 64, 65, 128, 129, 200, 256, 257, 512, 513, 1024, 1025, 2100})
    for (const int64_t tokens : {1, 3, 4, 5, 9}) {
      Problem p;
      p.d_k = d_k, p.tokens = tokens, p.d_v = 5, p.query_heads = 4;
      check_on_gpu(t, p);
    }
  for (const int d_v : {1, 16, 33, 130}) {
    Problem p;
    p.d_v = d_v, p.d_k = 40, p.batch = 3;
    check_on_gpu(t, p);
  }
  // No token: nothing is done.
  matrix_state_scan_cuda(MatrixStateScanInput<float>{}, {}, nullptr);
}

// The lengths of use: heads of the families as they are trained, and mamba's channels that are heads of one value.
SLOTSCOPE_CASE(cuda_long) {
  if (t.device() == "cpu") t.skip("needs a GPU");
  if (!cuda_available()) t.skip("no CUDA device answers");
  Problem p;
  p.batch = 1, p.tokens = 16384, p.heads = p.query_heads = p.key_heads = 2;
  for (const int d : {64, 128, 256}) {
    p.d_k = d, p.d_v = d, p.per_channel = d != 128, p.delta = d != 256;
    if (d == 256) p.tokens = 4096;  // the scan on the CPU takes its time
    check_on_gpu(t, p, true);
  }
  p.tokens = 1024, p.heads = 512, p.query_heads = p.key_heads = 1, p.d_k = 16, p.d_v = 1;
  p.per_channel = true, p.delta = false;
  check_on_gpu(t, p, true);
}

#endif
