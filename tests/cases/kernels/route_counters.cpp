#include "kernels/route_counters.h"

#include <random>

#include "tests/cases/case.h"

using namespace slotscope::kernels;

namespace {

struct Problem {
  std::vector<uint32_t> index;
  std::vector<float> weight;
  std::vector<uint8_t> roles;
  RouteCounterInput input(int heads, int top_k, int slots) const {
    return {index.data(), weight.data(), roles.data(), int64_t(roles.size()), heads, top_k, slots};
  }
};

Problem make(int64_t rows, int heads, int top_k, int slots, unsigned seed) {
  std::mt19937 random(seed);
  Problem p;
  for (int64_t row = 0; row < rows; ++row) {
    p.roles.push_back(random() % 3 == 0);
    for (int i = 0; i < heads * top_k; ++i) {
      p.index.push_back(random() % 10 == 0 ? 0xffffu : random() % unsigned(slots));
      p.weight.push_back(random() % 4 == 0 ? 0.0f : 0.25f);
    }
  }
  return p;
}

}  // namespace

// A case small enough to count by hand: underflowed weights count as selected only, padding counts nowhere.
SLOTSCOPE_CASE(by_hand) {
  Problem p;
  p.index = {0, 1, 1, 0xffff, 1, 2};
  p.weight = {0.5f, 0.0f, 0.7f, 0.3f, 0.1f, 0.2f};
  p.roles = {0, 1, 1};
  std::vector<uint32_t> esl(3), selected(3), retrieval(3);
  count_routes_cpu(p.input(1, 2, 3), {esl.data(), selected.data(), retrieval.data()});
  CHECK_EQ(esl, (std::vector<uint32_t>{1, 2, 1}));
  CHECK_EQ(selected, (std::vector<uint32_t>{1, 3, 1}));
  CHECK_EQ(retrieval, (std::vector<uint32_t>{0, 2, 1}));
}

// Counting in blocks adds up to counting at once.
SLOTSCOPE_CASE(blocks_add_up) {
  const Problem p = make(257, 3, 5, 17, 1);
  std::vector<uint32_t> whole(3 * 17), parts(3 * 17);
  count_routes_cpu(p.input(3, 5, 17), {whole.data(), nullptr, nullptr});
  for (int64_t first = 0; first < 257; first += 64) {
    const int64_t rows = std::min<int64_t>(64, 257 - first);
    count_routes_cpu({p.index.data() + first * 15, p.weight.data() + first * 15, nullptr, rows, 3, 5, 17},
                     {parts.data(), nullptr, nullptr});
  }
  CHECK_EQ(whole, parts);
}
