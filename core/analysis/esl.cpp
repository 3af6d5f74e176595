#include "core/analysis/esl.h"

#include <algorithm>
#include <numeric>

#include "core/analysis/memory.h"

namespace slotscope::analysis {

uint32_t ring_esl(int64_t tokens, int64_t window, int64_t slot) {
  if (slot < 0 || window <= 0 || slot >= window || slot >= tokens) return 0;
  return uint32_t((tokens - 1 - slot) / window + 1);
}

namespace {

template <class Counts>
std::vector<uint32_t> count(const HeadRoutes& routes, Counts counts) {
  check_routes(routes);
  if (routes.every_slot) return std::vector<uint32_t>(size_t(routes.slots), uint32_t(routes.rows));
  std::vector<uint32_t> out(size_t(routes.slots), 0);
  for (size_t at = 0; at < routes.index.size(); ++at)
    if (routes.index[at] < uint32_t(routes.slots) && counts(at)) ++out[routes.index[at]];
  return out;
}

}  // namespace

std::vector<uint32_t> count_writes(const HeadRoutes& routes) {
  return count(routes, [&](size_t at) { return routes.weight[at] != 0; });
}

std::vector<uint32_t> count_selections(const HeadRoutes& routes) {
  return count(routes, [](size_t) { return true; });
}

EslResult analyse_esl(std::span<const uint32_t> esl, std::span<const uint32_t> selected, int64_t tokens,
                      const EslOptions& options) {
  EslResult out;
  out.tokens = tokens;
  out.esl.assign(esl.begin(), esl.end());
  out.selected.assign(selected.begin(), selected.end());
  out.order.resize(esl.size());
  std::iota(out.order.begin(), out.order.end(), 0);
  std::stable_sort(out.order.begin(), out.order.end(),
                   [&](int a, int b) { return esl[size_t(a)] > esl[size_t(b)]; });
  out.regime.assign(esl.size(), Regime::empty);
  out.used = int(std::count_if(esl.begin(), esl.end(), [](uint32_t n) { return n > 0; }));
  if (out.used == 0) return out;

  const double total = double(std::max<int64_t>(tokens, 1));
  const double highest = esl[size_t(out.order.front())];
  const double lowest = esl[size_t(out.order[size_t(out.used - 1)])];
  // In whole writes rather than normalised: (max - min) / 3 is then exact whenever it is a whole number.
  const double low = lowest + (highest - lowest) * options.low;
  const double high = lowest + (highest - lowest) * options.high;
  out.cut_low = low / total;
  out.cut_high = high / total;
  std::vector<double> bars;
  for (int i = 0; i < out.used; ++i) {
    const int slot = out.order[size_t(i)];
    const double n = esl[size_t(slot)];
    bars.push_back(n / total);
    Regime& regime = out.regime[size_t(slot)];
    if (highest == lowest)
      regime = Regime::uniform;
    else if (n >= high)
      regime = Regime::long_range;
    else if (n < low)
      regime = Regime::short_range;
    else
      regime = Regime::intermediate;
  }
  out.fit = fit_exponential(bars);
  return out;
}

}  // namespace slotscope::analysis
