// Stable top-k: order, ties, gap, NaN, against a stable sort.
#include "kernels/route_select.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "tests/cases/case.h"

using namespace slotscope::kernels;

SLOTSCOPE_CASE(agrees_with_a_stable_sort) {
  std::mt19937 random(11);
  for (int round = 0; round < 400; ++round) {
    const int slots = 1 + int(random() % 40), top_k = 1 + int(random() % unsigned(slots)), rows = 5;
    std::vector<float> score;
    for (int i = 0; i < rows * slots; ++i) score.push_back(float(random() % 9) / 8);  // many ties
    std::vector<int32_t> index(size_t(rows * top_k), -7);
    std::vector<float> gap(size_t(rows), -7.0f);
    select_routes_cpu<float>({score.data(), rows, slots, top_k}, {index.data(), gap.data()}, 0, rows);
    for (int row = 0; row < rows; ++row) {
      const float* s = &score[size_t(row * slots)];
      std::vector<int32_t> order(static_cast<size_t>(slots));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [s](int a, int b) { return s[a] > s[b]; });
      for (int k = 0; k < top_k; ++k) CHECK_EQ(index[size_t(row * top_k + k)], order[size_t(k)]);
      if (top_k == slots)
        CHECK(std::isnan(gap[size_t(row)]));
      else
        CHECK_EQ(gap[size_t(row)], s[order[size_t(top_k) - 1]] - s[order[size_t(top_k)]]);
    }
  }
}

SLOTSCOPE_CASE(nan_ranks_first_and_nothing_breaks) {
  const std::vector<double> score = {1, NAN, 3, NAN, 2};
  std::vector<int32_t> index(3);
  double gap = 0;
  select_routes_cpu<double>({score.data(), 1, 5, 3}, {index.data(), &gap}, 0, 1);
  CHECK_EQ(index, (std::vector<int32_t>{1, 3, 2}));
  CHECK_EQ(gap, 1.0);
}
