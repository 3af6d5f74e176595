// Brute-force twins: dense [T, M] arrays written naively from the definitions of raven-analysis, and random
// routes to try them on.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "core/routes.h"

namespace slotscope::testing::twin {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Options {
  int64_t tokens = 60;
  int slots = 12, top_k = 4;
  bool per_slot = false;    // log decay per slot
  bool padding = false;     // some entries select no slot
  bool restricted = false;  // only some token ranges captured
  bool stored_strength = false;
  double decay = 1;  // scale of the log decay
  unsigned seed = 1;
};

// Routes with hot and cold slots, some weights underflowed to 0 and some so small that s = 0 although r != 0.
inline HeadRoutes make(const Options& o) {
  std::mt19937 random(o.seed);
  std::uniform_real_distribution<double> unit(0, 1);
  HeadRoutes r;
  r.slots = o.slots;
  r.top_k = o.top_k;
  r.tokens = o.tokens;
  r.per_slot_decay = o.per_slot;
  for (int64_t t = 0; t < o.tokens; ++t) {
    if (o.restricted && !((t >= 5 && t < 20) || (t >= 21 && t < 48))) continue;
    if (o.restricted) r.token.push_back(t);
    ++r.rows;
    std::vector<std::pair<double, int>> score;
    for (int i = 0; i < o.slots; ++i) score.emplace_back(-unit(random) * (i % 3 == 0 ? 2.0 : 1.0), i);
    std::sort(score.begin(), score.end());
    double sum = 0;
    std::vector<double> weight;
    for (int k = 0; k < o.top_k; ++k) weight.push_back(unit(random)), sum += weight.back();
    const double a = -o.decay * unit(random) * 3;
    for (int k = 0; k < o.top_k; ++k) {
      const int kind = int(random() % 12);
      r.index.push_back(o.padding && kind == 0 ? 0xffffu : uint32_t(score[size_t(k)].second));
      r.weight.push_back(kind == 1 ? 0.0 : kind == 2 ? 1e-30 : weight[size_t(k)] / sum);
      if (o.per_slot) r.log_decay.push_back(-o.decay * unit(random) * 2);
    }
    if (!o.per_slot) r.log_decay.push_back(a);
  }
  if (o.stored_strength)
    for (int64_t row = 0; row < r.rows; ++row)
      for (int k = 0; k < r.top_k; ++k)
        r.strength.push_back(
            double(float(1 - std::exp(r.decay(row, k) * r.weight[size_t(row * r.top_k + k)]))));
  return r;
}

// r, f, s scattered to all slots and tokens, exactly 0 elsewhere; known[t]: captured.
struct Dense {
  int64_t tokens = 0;
  int slots = 0;
  std::vector<double> r, f, s;
  std::vector<bool> known;
  size_t at(int64_t t, int i) const { return size_t(t * slots + i); }

  // sum of f over a < l <= b, NaN across tokens that were not captured
  double log_keep(int i, int64_t a, int64_t b) const {
    double sum = 0;
    for (int64_t l = a + 1; l <= b; ++l) sum += known[size_t(l)] ? f[at(l, i)] : kNaN;
    return sum;
  }
};

inline Dense dense(const HeadRoutes& routes) {
  Dense d;
  d.tokens = routes.tokens;
  d.slots = routes.slots;
  d.r.assign(size_t(d.tokens * d.slots), 0);
  d.f = d.s = d.r;
  d.known.assign(size_t(d.tokens), false);
  for (int64_t row = 0; row < routes.rows; ++row) {
    const int64_t t = routes.token.empty() ? row : routes.token[size_t(row)];
    d.known[size_t(t)] = true;
    for (int k = 0; k < routes.top_k; ++k) {
      const size_t from = size_t(row * routes.top_k + k);
      const uint32_t slot = routes.index[from];
      if (slot >= uint32_t(routes.slots)) continue;
      const size_t to = d.at(t, int(slot));
      d.r[to] = routes.weight[from];
      d.f[to] = routes.weight[from] * routes.log_decay[routes.per_slot_decay ? from : size_t(row)];
      d.s[to] = routes.strength.empty() ? 1 - std::exp(d.f[to]) : routes.strength[from];
    }
  }
  return d;
}

// |a - b| <= tol (absolute), or both NaN.
inline bool same(double a, double b, double tol) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::abs(a - b) <= tol;
}

inline std::vector<uint8_t> roles(int64_t tokens, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> out;
  for (int64_t t = 0; t < tokens; ++t) out.push_back(random() % 4 == 0);
  return out;
}

// The option sets every twin is run on.
inline std::vector<Options> problems() {
  return {{},
          {.tokens = 1, .slots = 5, .top_k = 2},
          {.tokens = 7, .slots = 1, .top_k = 1},
          {.tokens = 33, .slots = 6, .top_k = 6},
          {.tokens = 40, .slots = 9, .top_k = 3, .per_slot = true, .padding = true, .seed = 2},
          {.tokens = 50, .slots = 8, .top_k = 3, .restricted = true, .seed = 3},
          {.tokens = 50, .slots = 70, .top_k = 5, .padding = true, .restricted = true, .seed = 4},
          {.tokens = 90, .slots = 16, .top_k = 8, .stored_strength = true, .decay = 15, .seed = 5},
          {.tokens = 64, .slots = 4, .top_k = 2, .per_slot = true, .decay = 40, .seed = 6}};
}

}  // namespace slotscope::testing::twin
