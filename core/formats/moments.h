// Count, mean and sum of squared deviations of a stream of finite doubles, block by block. The same numbers on every machine:
// blocks are cut and joined by position alone.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace slotscope::formats {

// A sum that carries its rounding along (Neumaier 1974).
class ExactingSum {
 public:
  void add(double x) {
    const double sum = sum_ + x;
    rest_ += std::abs(sum_) >= std::abs(x) ? (sum_ - sum) + x : (x - sum) + sum_;
    sum_ = sum;
  }
  double value() const { return sum_ + rest_; }

 private:
  double sum_ = 0, rest_ = 0;
};

struct Moments {
  double n = 0, mean = 0, m2 = 0;  // m2: sum of (x - mean)^2
};

// Both halves of Chan, Golub and LeVeque's rule (1983).
inline Moments joined(const Moments& a, const Moments& b) {
  if (a.n == 0) return b;
  if (b.n == 0) return a;
  const double n = a.n + b.n, delta = b.mean - a.mean;
  return {n, a.mean + delta * (b.n / n), a.m2 + b.m2 + delta * delta * (a.n * (b.n / n))};
}

// Two passes over values that are still in the cache, the second corrected for the rounding of the mean.
inline Moments block_moments(std::span<const double> values) {
  if (values.empty()) return {};
  const auto n = double(values.size());
  const auto sum = [&](auto term) {
    std::array<double, 4> lanes{};  // a fixed order, four chains of additions that do not wait for each other
    size_t i = 0;
    for (; i + 4 <= values.size(); i += 4)
      for (size_t lane = 0; lane < 4; ++lane) lanes[lane] += term(values[i + lane]);
    for (; i < values.size(); ++i) lanes[i % 4] += term(values[i]);
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
  };
  const double rough = sum([](double x) { return x; }) / n;
  const double left = sum([&](double x) { return x - rough; });
  const double squares = sum([&](double x) { return (x - rough) * (x - rough); });
  const double m2 = squares - left * left / n;
  return {n, rough + left / n, m2 > 0 ? m2 : 0};
}

// Joins blocks as a balanced tree, so that rounding grows with the logarithm of their number.
class MomentTree {
 public:
  void add(Moments block) {
    uint64_t level = 0;
    for (; !tree_.empty() && tree_.back().first == level; ++level) {
      block = joined(tree_.back().second, block);
      tree_.pop_back();
    }
    tree_.emplace_back(level, block);
  }
  Moments total() const {
    Moments sum;
    for (auto at = tree_.rbegin(); at != tree_.rend(); ++at) sum = joined(at->second, sum);
    return sum;
  }

 private:
  std::vector<std::pair<uint64_t, Moments>> tree_;  // levels descending
};

}  // namespace slotscope::formats
