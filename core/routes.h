// Sparse routes of one head that owns slots, as plain arrays: what core/trace reads and core/analysis works on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace slotscope {

// Raven: r[t,i] is the route weight, a[t] (or a[t,i]) the log decay, f = a r the log gate, s = 1 - exp(f) the write
// strength (spec: model-zoo 2.3, raven-analysis "Definitions"). Rows are captured tokens in order; `token` maps a row to its
// position in the prompt and is empty when every token was captured (row = token).
struct HeadRoutes {
  int layer = 0;
  int head = 0;       // a head that owns slots (kv head), 0..H_r-1
  int slots = 0;      // M
  int top_k = 0;      // K
  int64_t rows = 0;   // captured tokens
  int64_t tokens = 0; // T, all tokens fed
  std::vector<int64_t> token;     // [rows] or empty
  std::vector<uint32_t> index;    // [rows, K], rank order = descending selection score
  std::vector<double> weight;     // [rows, K] r
  std::vector<double> log_decay;  // [rows] or [rows, K]: a. Empty when not captured.
  bool per_slot_decay = false;    // log_decay is [rows, K]
  std::vector<double> strength;   // [rows, K] s; from the file when captured, else 1 - exp(a r); empty when neither is known

  int64_t token_of(int64_t row) const { return token.empty() ? row : token[size_t(row)]; }
  double decay(int64_t row, int k) const {
    return log_decay[size_t(per_slot_decay ? row * top_k + k : row)];
  }
  bool has_decay() const { return !log_decay.empty(); }
  bool has_strength() const { return !strength.empty(); }
};

// A named half-open range on the token axis: key, needle, query, answer, ...
struct Span {
  std::string name;
  int64_t begin = 0, end = 0;
  bool operator==(const Span&) const = default;
};

}  // namespace slotscope
