// Random planar blocks and kernel inputs that are the same on every platform.
#pragma once

#include <cmath>
#include <numbers>
#include <vector>

#include "core/analysis/product_code.h"
#include "core/formats/random.h"

namespace slotscope::testing {

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}
  uint64_t below(uint64_t n) { return random_.below(n); }
  double between(double low, double high) { return low + (high - low) * double(random_.next() >> 11) * 0x1p-53; }
  // U blocks with radii up to `radius` and any angle.
  std::vector<double> vector(int64_t factors, double radius) {
    std::vector<double> out;
    for (int64_t u = 0; u < factors; ++u) {
      const double r = radius * std::sqrt(between(0, 1)), a = between(0, 2 * std::numbers::pi);
      out.push_back(r * std::cos(a));
      out.push_back(r * std::sin(a));
    }
    return out;
  }
  // d in 2 .. codes, U in 1 .. factors, both betas around `beta` and not the same.
  analysis::KernelInput kernel(int64_t codes, int64_t factors, double beta) {
    analysis::KernelInput in;
    in.codes = 2 + int64_t(below(uint64_t(codes) - 1));
    const int64_t u = 1 + int64_t(below(uint64_t(factors)));
    in.q = vector(u, 1);
    in.k = vector(u, 1);
    in.beta_read = beta * between(0.3, 2);
    in.beta_write = beta * between(0.3, 2);
    return in;
  }

 private:
  formats::SplitMix64 random_;
};

}  // namespace slotscope::testing
