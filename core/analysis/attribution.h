// Read attribution of memories that are read by an inner product (spec: raven-analysis, "Read attribution"): matrix states,
// with delta rules, and Mamba. Those read through a softmax over slots: read_attribution in memory.h.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/analysis/memory.h"
#include "core/trace/trace.h"

namespace slotscope::analysis {

// One head that keeps a matrix state S [d_k, d_v], S_t = diag(exp g_t) S_{t-1} + beta_t k_t content_t^T, read as scale S^T q;
// content is v, with `delta` v - (diag(exp g_t) S_{t-1})^T k. Rows are captured tokens, as in HeadRoutes.
struct MatrixReads {
  bool delta = false;
  bool normalised = false;  // the weights of a row are divided by their sum + 1e-10 (linear_attn, norm_feature_map)
  bool key_decay = false;   // log_decay is [rows, d_k]
  double scale = 1;
  int64_t d_k = 0, rows = 0, tokens = 0;
  std::vector<int64_t> token;     // [rows] or empty: all tokens
  bool own_tokens = false;        // `token` is all that this memory saw: nothing lies between its rows
  std::vector<double> key;        // [rows, d_k] as it enters the memory (after RoPE)
  std::vector<double> log_decay;  // g: [rows], [rows, d_k] or empty: 0
  std::vector<double> strength;   // beta: [rows], or empty: 1
  std::vector<int> heads;         // query heads that read this head
  std::vector<double> query;      // [rows, heads, d_k]
  std::vector<double> skip;       // [d_v] factor of the token's own value that is added to what is read; empty: none
  // Mamba: every channel is a memory of its own, with its own rates and write strengths. Empty: other families.
  std::vector<double> rate;           // [channels, d_k]: log decay of channel c = dt_c rate[c]
  std::vector<double> step;           // [rows, channels] dt
  int64_t channels = 0;

  bool per_channel() const { return channels > 0; }
  // Whether the skip differs between value channels, so that a row belongs to one of them.
  bool skip_varies() const;
};

// A[t, j], j = 0..t, of one query head: sum_j A[t,j] v_j = o_t exactly, o_t being what is read before any norm or gate.
// Signed: there is no bound of the row's sum and no "read of nothing" (NaN). One backward pass, O(t d_k). `channel`: the value
// channel where rows differ between them (Mamba, a skip per channel), else without effect. Tokens from which the way to t was
// not captured get NaN. Throws Error for a head that is none of `heads`, a token that was not captured and a channel that is
// not there.
Attribution read_attribution(const MatrixReads&, int query_head, int64_t t, int channel = 0);

// Routed memories (mom): a matrix state for each query head and memory, over the tokens that were sent there. o_t = sum over
// memories e and tokens j of A_e[t,j] v_j^e, where v_j^e is the token's value in that memory.
struct MemoryReads {
  int memories = 0;
  std::vector<int> heads;
  std::vector<MatrixReads> part;             // [heads, memories]
  std::vector<std::vector<double>> weight;   // [memories][row of the part] route weight
};

// A_e[t, j], j = 0..t, of memory `e`; 0 for tokens that it did not see. Throws as above.
Attribution read_attribution(const MemoryReads&, int query_head, int64_t t, int e);
// Null when they cannot be made; `why` says what is missing. `routes` are those of the layer.
std::shared_ptr<const MemoryReads> load_memory_reads(const trace::Trace&, int run, const trace::LayerSpec&,
                                                     const HeadRoutes& routes, std::string& why);

// The reads of one head of a matrix-state layer. Null when they cannot be made; `why` then says what is missing and how to
// capture it. Throws Error for damage.
std::shared_ptr<const MatrixReads> load_matrix_reads(const trace::Trace&, int run, const trace::LayerSpec&, int head,
                                                     std::string& why, Progress* progress = nullptr);

}  // namespace slotscope::analysis
