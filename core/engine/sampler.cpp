#include "core/engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace slotscope::engine {

SampledToken sample(const std::vector<double>& logits, const std::vector<bool>& known, const SamplerOptions& options,
                    std::mt19937_64& random) {
  SampledToken token;
  std::vector<int32_t> order, hidden;
  for (size_t i = 0; i < logits.size(); ++i)
    (known.empty() || (i < known.size() && known[i]) ? order : hidden).push_back(int32_t(i));
  const auto count = int64_t(order.size());
  if (count < 1 || !std::all_of(logits.begin(), logits.end(), [](double x) { return std::isfinite(x); })) {
    token.finite = false;
    return token;
  }
  const auto before = [&](int32_t a, int32_t b) {
    return logits[size_t(a)] != logits[size_t(b)] ? logits[size_t(a)] > logits[size_t(b)] : a < b;
  };
  const bool sampled = options.temperature > 0;
  const int64_t listed = std::clamp<int64_t>(options.candidates, 1, count);
  if (sampled)
    std::sort(order.begin(), order.end(), before);
  else
    std::partial_sort(order.begin(), order.begin() + listed, order.end(), before);

  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double x : logits) sum += std::exp(x - top);
  for (int64_t i = 0; i < std::min(listed, options.candidates); ++i) {
    token.top_ids.push_back(order[size_t(i)]);
    token.top_logprob.push_back(logits[size_t(order[size_t(i)])] - top - std::log(sum));
  }
  const int32_t last_listed = order[size_t(std::min(listed, std::max<int64_t>(options.candidates, 1)) - 1)];
  for (const int32_t id : hidden) {
    token.passed_over += before(id, last_listed);
    token.best_passed_over = token.best_passed_over || before(id, order.front());
  }
  token.id = order.front();
  if (!sampled) return token;

  // Nucleus: the fewest best ids whose probability reaches top_p. The first one always stays.
  std::vector<double> weight;
  for (const int32_t id : order)
    weight.push_back(std::exp((logits[size_t(id)] - logits[size_t(order.front())]) / options.temperature));
  const double total = std::accumulate(weight.begin(), weight.end(), 0.0);
  double kept = 0;
  size_t last = 0;
  while (last < weight.size() && (last == 0 || kept < options.top_p * total)) kept += weight[last++];
  double at = double(random() >> 11) * 0x1p-53 * kept;
  size_t chosen = 0;
  while (chosen + 1 < last && at >= weight[chosen]) at -= weight[chosen++];
  token.id = order[chosen];
  return token;
}

}  // namespace slotscope::engine
