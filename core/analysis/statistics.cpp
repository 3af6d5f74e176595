// Routing statistics of one head (spec: raven-analysis "Routing statistics").
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/analysis/esl.h"
#include "core/analysis/memory.h"

namespace slotscope::analysis {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Entropy in nats of the mean route, normalised to sum one.
double route_entropy(const HeadRoutes& routes) {
  // Every slot takes the same share.
  if (routes.every_slot) return routes.rows > 0 && routes.slots > 0 ? std::log(double(routes.slots)) : kNaN;
  std::vector<double> mass(size_t(routes.slots), 0);
  for (size_t at = 0; at < routes.index.size(); ++at)
    if (routes.index[at] < uint32_t(routes.slots)) mass[routes.index[at]] += routes.weight[at];
  double total = 0, entropy = 0;
  for (const double m : mass) total += m;
  if (!(total > 0) || !std::isfinite(total)) return kNaN;
  for (const double m : mass)
    if (m > 0) entropy -= m / total * std::log(m / total);
  return entropy;
}

}  // namespace

double gini(std::span<const uint32_t> counts) {
  std::vector<uint32_t> sorted(counts.begin(), counts.end());
  std::sort(sorted.begin(), sorted.end());
  const double n = double(sorted.size());
  double total = 0, weighted = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    total += sorted[i];
    weighted += (2 * double(i + 1) - n - 1) * sorted[i];
  }
  return total == 0 ? kNaN : weighted / (n * total);
}

RoutingStatistics routing_statistics(const HeadRoutes& routes, std::span<const double> margin, int64_t ties,
                                     std::span<const uint32_t> esl) {
  RoutingStatistics out;
  std::vector<uint32_t> counted;
  if (esl.empty()) {
    counted = count_writes(routes);
    esl = counted;
  }
  out.used = int(std::count_if(esl.begin(), esl.end(), [](uint32_t n) { return n > 0; }));
  out.dead = int(esl.size()) - out.used;
  out.gini = gini(esl);
  out.entropy = route_entropy(routes);
  out.effective_slots = std::exp(out.entropy);
  out.margin_mean = out.margin_min = out.tied_share = kNaN;
  if (routes.top_k >= routes.slots) return out;  // K = M: nothing is cut off
  double sum = 0;
  int64_t cuts = 0;
  for (const double m : margin) {
    if (std::isnan(m)) continue;
    sum += m;
    out.margin_min = cuts++ == 0 ? m : std::min(out.margin_min, m);
  }
  if (cuts > 0) out.margin_mean = sum / double(cuts);
  if (ties >= 0 && routes.tokens > 0) out.tied_share = double(ties) / double(routes.tokens);
  return out;
}

}  // namespace slotscope::analysis
