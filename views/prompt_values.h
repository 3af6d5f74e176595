// One number per token for the background of the prompt.
#pragma once

#include <vector>

#include "core/analysis/head_data.h"

namespace slotscope::views {

// Strength of each token's write into `slot` (route weight when strengths are unknown); 0 where it did not
// write. [T]
std::vector<double> writesIntoSlot(const analysis::HeadData& head, int slot);
// Sum of write strengths of each token. [T]
std::vector<double> totalWrites(const analysis::HeadData& head);
// Survival of each token at time t, all tokens in one pass over the writes: the numbers of
// analysis::survival. NaN after t and where nothing was written. Empty when gates are unknown. [T]
std::vector<double> survivalOfAll(const analysis::HeadData& head, int64_t t);
// Read attribution of token t over tokens 0..t, largest over the group's query heads; 0 after t. Empty when
// not captured. [T]
std::vector<double> attributionOf(const analysis::HeadData& head, int64_t t, int slot = 0);

}  // namespace slotscope::views
