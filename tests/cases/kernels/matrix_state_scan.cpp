// The matrix state scan against sums written out, for every sharing of heads, decay and rule.
#include <array>
#include <cmath>
#include <random>

#include "kernels/matrix_state_scan.h"
#include "tests/cases/case.h"

using namespace slotscope;
using namespace slotscope::kernels;

namespace {

struct Problem {
  int heads = 2, query_heads = 2, key_heads = 2, d_k = 19, d_v = 3;  // 19: no whole number of lanes
  int64_t batch = 2, tokens = 7;
  bool keep = true, per_channel = true, strength = true, delta = true;
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
  return {fill(rows * p.query_heads * p.d_k),
          fill(rows * p.key_heads * p.d_k),
          fill(rows * p.heads * p.d_v),
          fill(rows * p.heads * (p.per_channel ? p.d_k : 1), true),
          fill(rows * p.heads, true),
          fill(p.batch * p.heads * p.d_v * p.d_k)};
}

template <class Real>
std::pair<std::vector<Real>, std::vector<Real>> scan(const Problem& p, const Data& d) {
  const auto cast = [](const std::vector<double>& v) { return std::vector<Real>(v.begin(), v.end()); };
  const auto query = cast(d.query), key = cast(d.key), value = cast(d.value), keep = cast(d.keep),
             strength = cast(d.strength);
  std::vector<Real> state = cast(d.state);
  std::vector<Real> output(size_t(p.batch * p.tokens * std::max(p.heads, p.query_heads) * p.d_v));
  MatrixStateScanInput<Real> in;
  in.query = query.data(), in.key = key.data(), in.value = value.data();
  in.keep = p.keep ? keep.data() : nullptr;
  in.strength = p.strength ? strength.data() : nullptr;
  in.keep_per_channel = p.per_channel, in.delta = p.delta;
  in.batch = p.batch, in.tokens = p.tokens;
  in.heads = p.heads, in.query_heads = p.query_heads, in.key_heads = p.key_heads;
  in.d_k = p.d_k, in.d_v = p.d_v, in.scale = Real(0.25);
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
