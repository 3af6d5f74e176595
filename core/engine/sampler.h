// Choosing the next token: greedy or sampled, with the candidates that are stored. Plain arrays, on the host.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace slotscope::engine {

struct SamplerOptions {
  double temperature = 0;  // 0: greedy, ties to the lower id
  double top_p = 1;
  int64_t candidates = 4;  // C, at most the vocabulary
};
struct SampledToken {
  int32_t id = -1;
  bool finite = true;               // false: the logits hold NaN or infinity and id is -1
  std::vector<int32_t> top_ids;     // [C], highest log probability first, ties to the lower id
  std::vector<double> top_logprob;  // [C], natural log, of the softmax over all rows at temperature 1
  int64_t passed_over = 0;          // rows left out although they would be among the candidates
  bool best_passed_over = false;    // one of them has the highest logit of all
};
// logits: one row [V]. `known`: per row whether it may be chosen and listed; empty: all may. Of rows that may not
// only the probabilities know (log probabilities are of all rows).
SampledToken sample(const std::vector<double>& logits, const std::vector<bool>& known, const SamplerOptions&,
                    std::mt19937_64& random);

}  // namespace slotscope::engine
