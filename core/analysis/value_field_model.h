// Value fields of a real model: keys, values and queries of one captured head, brought to the plane or the torus of the lab, with
// words and numbers for what that leaves out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/analysis/value_field.h"
#include "core/trace/trace.h"

namespace slotscope::analysis {

inline constexpr int64_t kMostFieldWidth = 512;  // d_k and d_v of a head that is projected

// What a head computed at the captured tokens.
struct FieldHead {
  int64_t rows = 0, width = 0, value_width = 0;  // tokens, d_k, d_v
  std::vector<double> query, key;                // [rows, width], after RoPE where there is one and it was captured
  std::vector<double> value;                     // [rows, value_width]
  std::vector<int64_t> token;                    // [rows]
  double tau = 1;                                // 1 / scale: sqrt(d_k) in attention
  bool rotated = false;                          // RoPE is in queries and keys
  std::string name;                              // "layer 3 head 0 (key head 0)"
};
// Query head `head` of a layer and the head whose keys it reads. Throws Error: not captured (says with which --capture), damaged
// sizes, a head that is not there.
FieldHead load_field_head(const trace::Trace&, int run, int layer, int head, Progress* progress = nullptr);

struct FieldProjection {
  enum class Kind {
    pca,     // plane: the two principal axes of the keys; scores keep their differences between keys
    pair,    // plane: two coordinates of q and k as they are
    blocks,  // torus: two planar blocks (coordinates u and u + d/2 with RoPE's halves, 2u and 2u + 1 else)
  };
  Kind kind = Kind::pca;
  int64_t a = 0, b = 1;     // the coordinates, or the blocks
  bool halves = true;       // blocks are the planes that RoPE turns (Hugging Face order)
  int64_t first = 0, last = 0;  // rows that become keys, half-open; last 0: the first 64
  bool rgb = false;             // three principal components of the values as colours; else the first, scaled to 0..1
};
struct ProjectedHead {
  FieldSettings settings;     // keys, queries, origin, space, tau, extent, query_radius; rows and columns are those of `base`
  double key_variance = 0;    // share of the keys' variance that the plane holds, centred
  double query_energy = 0;    // share of the queries' squared length
  double score_variance = 0;  // 1 - residual/total of the variance of q.k over keys, summed over queries; may be below 0
  double value_variance = 0;  // share of the values' variance in the shown components
  std::string left_out;       // a paragraph that says so: settings.origin
};
// Throws Error (usage): coordinates, blocks or rows that are not there; more than kMostFieldKeys keys.
ProjectedHead project_head(const FieldHead&, const FieldProjection&, const FieldSettings& base);

// Eigenvalues (falling) and unit eigenvectors [n, n] by rows of a symmetric matrix [n, n]: cyclic Jacobi rotations.
struct Eigen {
  std::vector<double> value, vector;
};
Eigen symmetric_eigen(std::vector<double> matrix, size_t n);

}  // namespace slotscope::analysis
