// Routes of one head that owns slots, as plain arrays: what core/trace reads and core/analysis works on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace slotscope {

// Raven: r[t,i] is the route weight, a[t] (or a[t,i]) the log decay, f = a r the log gate, s = 1 - exp(f) the write
// strength (spec: model-zoo 2.3, raven-analysis "Definitions"). Rows are captured tokens in order; `token` maps a row to its
// position in the prompt and is empty when every token was captured (row = token).
//
// Layers whose routes follow from a rule (spec: model-zoo 17) come in the same form. Ring and append: K = 1, r = 1, s = 1.
// Dense: `every_slot`, whose index and weight are implied and take no memory. Read index and weight through slot_at and
// weight_at.
struct HeadRoutes {
  int layer = 0;
  int head = 0;       // a head that owns slots (kv head), 0..H_r-1
  int slots = 0;      // M
  int top_k = 0;      // K
  int64_t rows = 0;   // captured tokens
  int64_t tokens = 0; // T, all tokens fed
  std::vector<int64_t> token;     // [rows] or empty
  bool every_slot = false;        // dense: rank k is slot k with r = 1, K = M; index and weight are empty
  std::vector<uint32_t> index;    // [rows, K], rank order = descending selection score
  std::vector<double> weight;     // [rows, K] r
  std::vector<double> log_decay;  // [rows] or [rows, K]: a. Empty when not captured or when there is no such number.
  bool per_slot_decay = false;    // log_decay is [rows, K]
  std::vector<double> strength;   // [rows, K] s; from the file when captured, else 1 - exp(a r); empty when neither is known
  bool common_strength = false;   // strength is [rows]: the same for every slot of the row
  // Log gates that act on all slots at every token, written or not (FoX), of the tokens common_token (empty: all T). They
  // change what a slot still holds, but a read softmax has them in its weights already. Empty: none.
  std::vector<double> common_decay;
  std::vector<int64_t> common_token;
  // Why there are no strengths although they were captured: too many to hold; "" otherwise.
  std::string no_strength;
  // Why survival is undefined in the words of the family; "" when it is defined (or was just not captured).
  std::string no_survival;
  // Why there are no read weights over slots (matrix states are read by an inner product); "" where there is such a softmax.
  std::string no_reads;
  // Why a head score says nothing (append: every token has a slot of its own); "" where it does.
  std::string no_score;
  // Why there is no cut between selected and other slots, and so no margin and no tie; "" where there is one.
  std::string no_cut;

  int64_t token_of(int64_t row) const { return token.empty() ? row : token[size_t(row)]; }
  double decay(int64_t row, int k) const {
    return log_decay[size_t(per_slot_decay ? row * top_k + k : row)];
  }
  uint32_t slot_at(int64_t row, int k) const { return every_slot ? uint32_t(k) : index[size_t(row * top_k + k)]; }
  double weight_at(int64_t row, int k) const { return every_slot ? 1 : weight[size_t(row * top_k + k)]; }
  double strength_at(int64_t row, int k) const {
    return strength[size_t(common_strength ? row : row * top_k + k)];
  }
  // Every slot of a row is written alike: one number of strength and one of decay for all of them.
  bool alike() const { return every_slot && !per_slot_decay && (strength.empty() || common_strength); }
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
