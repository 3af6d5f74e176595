// Random address scans of any shape, for the cases of the CPU scan and of its CUDA twin.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/address_scan.h"

namespace slotscope::testing {

struct AddressProblem {
  int64_t batch = 2, tokens = 30;
  int heads = 2, slots = 13, top_k = 4, d_v = 3;
  kernels::AddressUpdate update = kernels::AddressUpdate::gsu;
  kernels::AddressReadout readout = kernels::AddressReadout::standard;
  double eps = 0, gamma_of_all = 0;
  bool gamma_per_token = true, cumulative = false;
  bool odd_weights = true;  // some weights 0, 1 and tiny, some indices that are no slot, some gamma infinite
  bool fresh = true;        // the first state is that of a new memory, else any
  int row_step = 3;         // p is wanted of every third token; 0: of none
  unsigned seed = 1;
  std::string text() const {
    return std::to_string(batch) + " x " + std::to_string(tokens) + " x " + std::to_string(heads) + ", M " +
           std::to_string(slots) + ", K " + std::to_string(top_k) + ", d_v " + std::to_string(d_v) +
           (update == kernels::AddressUpdate::gsu ? " gsu" : " pdma") +
           (readout == kernels::AddressReadout::standard ? " standard" : " mass-aware") + " eps " + std::to_string(eps);
  }
  size_t pairs() const { return size_t(batch * heads); }
  size_t lines() const { return size_t(batch * tokens * heads); }
};

// Inputs of a scan and all that it writes.
template <class Real>
struct AddressArrays {
  std::vector<int32_t> write_index, read_index, read_row;
  std::vector<Real> write_weight, read_weight, value, gamma;
  std::vector<Real> mass, state, output, strength, log_gate, reached, p;
  std::vector<uint8_t> written;
  int64_t rows = 0;

  kernels::AddressScanInput<Real> input(const AddressProblem& q) const {
    kernels::AddressScanInput<Real> in;
    in.write_index = write_index.data(), in.write_weight = write_weight.data();
    in.read_index = read_index.data(), in.read_weight = read_weight.data();
    in.value = value.data(), in.read_row = rows > 0 ? read_row.data() : nullptr, in.read_rows = rows;
    in.gamma = q.gamma_per_token ? gamma.data() : nullptr;
    in.gamma_of_all = Real(q.gamma_of_all), in.cumulative = q.cumulative, in.eps = Real(q.eps);
    in.update = q.update, in.readout = q.readout;
    in.batch = q.batch, in.tokens = q.tokens, in.heads = q.heads;
    in.slots = q.slots, in.top_k = q.top_k, in.d_v = q.d_v;
    return in;
  }
  kernels::AddressScanOutput<Real> result() {
    return {mass.data(),     state.data(),    written.data(), output.data(),
            strength.data(), log_gate.data(), reached.data(), p.data()};
  }
  // The same numbers in another type.
  template <class Other>
  AddressArrays<Other> as() const {
    const auto cast = [](const std::vector<Real>& v) { return std::vector<Other>(v.begin(), v.end()); };
    return {write_index, read_index, read_row, cast(write_weight), cast(read_weight), cast(value),
            cast(gamma), cast(mass), cast(state), cast(output), cast(strength), cast(log_gate),
            cast(reached), cast(p), written, rows};
  }
};

// Weights are of type float, so that they are the same numbers in both types.
inline AddressArrays<double> make_address_problem(const AddressProblem& q) {
  std::mt19937_64 random(q.seed);
  const auto unit = [&] { return double(float(random() >> 40) / float(1 << 24)); };
  AddressArrays<double> a;
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<int32_t> all(static_cast<size_t>(q.slots));
  std::iota(all.begin(), all.end(), 0);
  const auto address = [&](std::vector<int32_t>& index, std::vector<double>& weight) {
    double left = 1;
    for (int k = 0; k < q.top_k; ++k) {
      int32_t slot = -1;
      if (k < q.slots) {  // the first of a shuffle
        std::swap(all[size_t(k)], all[size_t(k) + random() % size_t(q.slots - k)]);
        slot = all[size_t(k)];
      }
      double w = double(float(left * unit() * 0.8));
      left -= w;
      const unsigned odd = q.odd_weights ? unsigned(random() % 24) : 99;
      if (odd == 0) w = 0;
      if (odd == 1 && k == 0) w = 1, left = 0;
      if (odd == 2) w = double(float(w * 1e-9));
      if (odd == 3) slot = random() % 2 ? -1 : q.slots;
      index.push_back(slot), weight.push_back(w);
    }
  };
  for (size_t line = 0; line < q.lines(); ++line) {
    address(a.write_index, a.write_weight);
    address(a.read_index, a.read_weight);
    for (int i = 0; i < q.d_v; ++i) a.value.push_back(double(float(2 * unit() - 1)));
    double gamma = double(float(8 * unit() - 4));
    if (q.odd_weights && random() % 16 == 0) gamma = random() % 2 ? infinity : -infinity;
    a.gamma.push_back(gamma);
  }
  const size_t M = size_t(q.slots), cells = q.pairs() * M;
  const bool gsu = q.update == kernels::AddressUpdate::gsu;
  a.mass.assign(cells, gsu ? 0.0 : 1.0 / q.slots);
  a.state.assign(cells * size_t(q.d_v), 0.0);
  a.written.assign(cells, 0);
  if (!q.fresh)
    for (size_t i = 0; i < cells; ++i) {
      if (random() % 3 == 0) continue;
      a.written[i] = 1, a.mass[i] = double(float(0.1 + unit()));
      for (size_t c = 0; c < size_t(q.d_v); ++c) a.state[i * size_t(q.d_v) + c] = double(float(2 * unit() - 1));
    }
  for (int64_t t = 0; t < q.tokens; ++t) a.read_row.push_back(q.row_step && t % q.row_step == 0 ? int32_t(a.rows++) : -1);
  a.output.assign(q.lines() * size_t(q.d_v), NAN);
  a.strength.assign(q.lines() * size_t(q.top_k), NAN);
  a.log_gate.assign(q.lines() * size_t(q.top_k), NAN);
  a.reached.assign(q.lines(), NAN);
  a.p.assign(size_t(q.batch * a.rows * q.heads) * M, NAN);
  return a;
}

template <class Real>
AddressArrays<Real> scanned_on_cpu(const AddressProblem& q, AddressArrays<Real> a) {
  const auto in = a.input(q);
  const auto out = a.result();
  for (size_t pair = 0; pair < q.pairs(); ++pair) address_scan_cpu(in, out, int64_t(pair), int64_t(pair) + 1);
  return a;
}

// The largest difference, relative to `scale` or the value, whichever is more; equal infinities do not differ.
template <class A, class B>
double address_error(const std::vector<A>& got, const std::vector<B>& expected, double scale) {
  if (got.size() != expected.size()) return NAN;
  double most = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double x = double(got[i]), y = double(expected[i]);
    const double error = x == y ? 0 : std::abs(x - y) / std::max(scale, std::abs(y));
    if (!(error <= most)) most = error;
  }
  return most;
}

}  // namespace slotscope::testing
