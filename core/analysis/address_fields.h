// What the address views draw of one head's sparse addresses: accesses per slot and token, factor marginals, mass per slot.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/analysis/addresses.h"
#include "core/analysis/grid.h"

namespace slotscope::analysis {

// Slots x tokens: the largest write and read weight of each pixel; 0: none there. Tokens that were not captured: `missing`.
struct AccessGrid {
  int rows = 0, columns = 0;
  int64_t first_slot = 0, last_slot = 0, first_token = 0, last_token = 0;
  int64_t slots_per_row = 1, tokens_per_column = 1;
  std::vector<float> read, write;  // [rows, columns], row-major
  std::vector<uint8_t> missing;    // [columns] 1: no token of the column was captured
  double max_read = 0, max_write = 0;
};
// Slots [first, last) and tokens [first, last), half-open, cut to what is there; at most max_rows x max_columns pixels. `decoded`:
// CAPE undone, slots as the logits chose them. A weight that is not finite counts as the largest. Empty (rows = 0) when progress
// asks to stop.
AccessGrid access_grid(const Addresses&, std::pair<int64_t, int64_t> slots, std::pair<int64_t, int64_t> tokens, int max_rows,
                       int max_columns, bool decoded, Progress* = nullptr);

// Most codes of all factors together that marginals are made of.
inline constexpr int64_t kMostCodes = 4096;
// p_u(j) of the kept mass: sum of the weights of an address's slots whose factor u has code j, CAPE undone. What Top-K left out
// is not in it, so a factor's codes sum to the kept mass. [U * d_p], row u * d_p + j. Throws Error when slots have no codes, or more than kMostCodes.
std::vector<double> factor_marginals(const Addresses&, int64_t row, bool write);
// The same over tokens [first, last) as a grid of U * d_p rows; a column shows the mean of its captured tokens. Empty when
// progress asks to stop.
SlotGrid marginal_grid(const Addresses&, bool write, int64_t first, int64_t last, int max_columns, Progress* = nullptr);
// Sum of the weights of a row's address: 1 minus what Top-K left out (renormalised: 1).
double kept_mass(const Addresses&, int64_t row, bool write);

// Mass of every slot after a token.
struct SlotMass {
  std::vector<double> mass;  // [M]; empty: not known, see why
  int64_t token = -1;        // after which: the one asked for, or the last state token before it
  bool replayed = false;     // from w and gamma; else as stored
  std::string why;
};
// As stored at `token` when it was captured there, else replayed, else as stored at the last state token before it.
SlotMass slot_mass(const trace::Trace&, int run, const Addresses&, int64_t token);

}  // namespace slotscope::analysis
