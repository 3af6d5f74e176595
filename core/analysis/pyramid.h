// Factor-2 pyramid over tokens, so that a picture of any zoom of a long prompt is made from about as many
// numbers as it has cells. Exact: extremes and counts equal those of reduce(), means differ only by the order
// of summation.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "core/analysis/grid.h"

namespace slotscope::analysis {

// Of one head and one of write_strength, route_weight, log_gate. Level 0 pools kBase tokens per block.
// Immutable once built.
class Pyramid {
 public:
  static constexpr int kBaseLog2 =
      4;  // finer zooms read the writes themselves: at most max_columns x 8 tokens

  static bool supports(Quantity q) {
    return q == Quantity::write_strength || q == Quantity::route_weight || q == Quantity::log_gate;
  }
  // Null when progress asks to stop. Linear in the writes; bytes() is about 40 x M x T / 16.
  static std::shared_ptr<const Pyramid> build(const HeadRoutes&, const SlotWrites&, Quantity,
                                              Progress* progress = nullptr);

  // As reduce() on align(request): request.quantity is the pyramid's own, tokens_per_column a power of two.
  SlotGrid reduce(const GridRequest& request, Progress* progress = nullptr) const;
  // Whether `request`, aligned, is coarse enough for level 0.
  bool serves(const GridRequest& request) const;
  size_t bytes() const;

 private:
  // [M, blocks] each. Block b of level n holds tokens b << (n + 4) onwards.
  struct Level {
    int64_t blocks = 0;
    std::vector<float> high, low;  // of finite cells
    std::vector<double> sum;
    std::vector<uint32_t> count;  // finite cells
  };
  struct Special {
    int64_t token;
    Cell cell;
  };
  void fill(const SlotWrites&);
  bool add_levels(Progress* progress);

  Quantity quantity_ = Quantity::write_strength;
  int slots_ = 0;
  int64_t tokens_ = 0;
  std::string missing_;
  std::vector<Level> levels_;
  std::vector<std::vector<Special>>
      specials_;  // [M] cells that are not finite, in token order: normally none
};

// The window widened so that columns are powers of two tokens wide and start at multiples of their width:
// panning then moves whole columns and a picture does not flicker. At least half of max_columns are used, so
// give twice the width of the plot.
GridRequest align(GridRequest request, int64_t tokens);

// Keeps a head's pyramids; safe to use from several threads. Made for HeadData::grid.
class GridCache {
 public:
  // Reduces align(request), through a pyramid where that is faster (built on first use).
  SlotGrid reduce(const HeadRoutes&, const SlotWrites&, const GridRequest&, Progress* progress = nullptr);

 private:
  std::mutex mutex_;
  std::array<std::shared_ptr<const Pyramid>, 3> pyramids_;
};

}  // namespace slotscope::analysis
