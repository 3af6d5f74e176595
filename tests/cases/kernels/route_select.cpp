// Stable top-k: order, ties, gap, NaN, against a stable sort.
#include "kernels/route_select.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "tests/cases/case.h"
#include "tests/cases/kernels/guarded.h"

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

// The CUDA twin: the same slots in the same order and the same gap, with ties, NaN, infinities and signed zeros.
SLOTSCOPE_CASE(cuda_equals_cpu) {
#ifdef SLOTSCOPE_HAS_CUDA
  if (!slotscope::testing::need_gpu(t)) return;
  std::mt19937 random(17);
  const auto compare = [&](auto one, int slots, int top_k, int64_t rows, bool odd) {
    using Real = decltype(one);
    std::vector<Real> score;
    const Real special[] = {Real(NAN), -Real(NAN), Real(INFINITY), -Real(INFINITY), Real(0), -Real(0), Real(1e-40)};
    for (int64_t i = 0; i < rows * slots; ++i)
      score.push_back(odd && random() % 5 == 0 ? special[random() % 7] : Real(random() % (odd ? 9 : 1u << 30)) / 8);
    std::vector<int32_t> index(size_t(rows * top_k));
    std::vector<Real> gap(static_cast<size_t>(rows));
    select_routes_cpu<Real>({score.data(), rows, slots, top_k}, {index.data(), gap.data()}, 0, rows);
    slotscope::testing::Guarded<Real> on_score(score), on_gap(std::vector<Real>(size_t(rows), Real(-7)));
    slotscope::testing::Guarded<int32_t> on_index(std::vector<int32_t>(size_t(rows * top_k), -7));
    const float ms = slotscope::testing::milliseconds([&](cudaStream_t stream) {
      select_routes_cuda(RouteSelectInput<Real>{on_score.data(), rows, slots, top_k},
                         RouteSelectOutput<Real>{on_index.data(), on_gap.data()}, stream);
    });
    bool intact = true;
    CHECK(on_index.fetch(intact) == index);
    const std::vector<Real> got = on_gap.fetch(intact);
    on_score.fetch(intact);
    CHECK(intact);
    for (size_t i = 0; i < gap.size(); ++i) CHECK(got[i] == gap[i] || (std::isnan(got[i]) && std::isnan(gap[i])));
    return ms;
  };
  for (int round = 0; round < 60; ++round) {
    const int slots = round < 5 ? 1 << (2 * round) : round == 5 ? kMostSelectSlots : 1 + int(random() % 600);
    const int top_k = round % 7 == 0 ? slots : 1 + int(random() % unsigned(slots));
    compare(1.0f, slots, top_k, 33, round % 2 == 0);
    compare(1.0, slots, top_k, 33, round % 2 == 0);
  }
  compare(1.0f, 256, 32, 65536, false);
  t.note("32 of 256 slots, 65,536 rows: " + std::to_string(compare(1.0f, 256, 32, 65536, false)) + " ms");
#else
  t.skip(t.device() == "cpu" ? "needs a GPU: --device cuda" : "this build has no CUDA kernels");
#endif
}
