#include "core/analysis/memory.h"

#include "core/error.h"
#include "tests/cases/analysis/twin.h"
#include "tests/cases/case.h"

using namespace slotscope::analysis;
using slotscope::HeadRoutes;
namespace twin = slotscope::testing::twin;
using twin::same;

namespace {

constexpr double kTolerance = 1e-12;

// p over slots: random, positive, sums to one.
std::vector<double> read_softmax(int slots, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<double> p;
  double sum = 0;
  for (int i = 0; i < slots; ++i) p.push_back(0.01 + double(random() % 1000)), sum += p.back();
  for (double& v : p) v /= sum;
  return p;
}

}  // namespace

// R4: decay -0.5, weights 0.546449 and 0.453551 in slots 0 and 1 of 4.
SLOTSCOPE_CASE(gate_numbers) {
  // R3: sigmoid(2) = 0.880797, sigmoid(1) = 0.731059, divided by their sum + 1e-9.
  const double a = 1 / (1 + std::exp(-2.0)), b = 1 / (1 + std::exp(-1.0));
  HeadRoutes r;
  r.slots = 4;
  r.top_k = 2;
  r.rows = r.tokens = 1;
  r.index = {0, 1};
  r.weight = {a / (a + b + 1e-9), b / (a + b + 1e-9)};
  r.log_decay = {-0.5};
  CHECK_CLOSE(r.weight[0], 0.546449, 5e-7);
  CHECK_CLOSE(r.weight[1], 0.453551, 5e-7);
  const SlotWrites w = group_writes(r);
  CHECK_EQ(w.begin, (std::vector<int64_t>{0, 1, 2, 2, 2}));
  CHECK_CLOSE(w.log_gate[0], -0.273225, 5e-7);
  CHECK_CLOSE(w.log_gate[1], -0.226775, 5e-7);
  CHECK_CLOSE(w.strength[0], 0.239078, 5e-7);
  CHECK_CLOSE(w.strength[1], 0.202900, 5e-7);
  CHECK_EQ(w.log_keep_between(2, -1, 0), 0.0);  // other slots: f = 0 exactly
}

// Six tokens, three slots, top 2, decay a = ln(1/2) = -L for every token, so a weight 1 halves the slot.
// Routes:
//   t  slots   r          f / L        s = 1 - 2^(f/L)
//   0  0 1     1   0.5    -1  -0.5     0.5         1 - 1/sqrt 2
//   1  0 1     1   0      -1  (none)   0.5         (underflowed: selected, not written)
//   2  0 2     1   1      -1  -1       0.5         0.5
//   3  1 2     0.5 1      -0.5 -1      1-1/sqrt 2  0.5
//   4  0 pad   1   1      -1           0.5
//   5  2 0     2   1      -2  -1       0.75        0.5
// Slot 0: f = -1 at 0 1 2 4 5. At t = 5 the shares are 2^-5 2^-4 2^-3 2^-2 2^-1: they sum to 31/32 = 1 -
// 2^-5; tokens held = (31/32)^2 / (341/1024) = 961/341. Slot 2: f = -1 -1 -2 at 2 3 5; shares at 5: 0.5 2^-3,
// 0.5 2^-2, 0.75. Survival of token 2 at t = 5: slot 0 keeps 2^-2 (4, 5), slot 2 keeps 2^-3 (3, 5): (0.5/4 +
// 0.5/8) / 1 = 3/16. Attribution at 5 with p = (1/2, 1/4, 1/4): A[0] = 1/2 2^-5 + 1/4 (1-q) q with q = 1/sqrt
// 2 (slot 1 halved once more by root at 3), A[1] = 1/2 2^-4, A[2] = 1/2 2^-3 + 1/4 2^-4, A[3] = 1/4 (1-q) +
// 1/4 2^-3, A[4] = 1/2 2^-2, A[5] = 1/2 2^-1 + 1/4 3/4. Row sum = 1/2 (1 - 2^-5) + 1/4 (1 - 2^-1) + 1/4 (1 -
// 2^-4).
SLOTSCOPE_CASE(six_tokens_by_hand) {
  const double half = std::log(0.5), q = std::sqrt(0.5);
  HeadRoutes r;
  r.slots = 3;
  r.top_k = 2;
  r.rows = r.tokens = 6;
  r.index = {0, 1, 0, 1, 0, 2, 1, 2, 0, 0xffff, 2, 0};
  r.weight = {1, 0.5, 1, 0, 1, 1, 0.5, 1, 1, 1, 2, 1};
  r.log_decay.assign(6, half);
  const SlotWrites w = group_writes(r);
  CHECK_EQ(w.begin, (std::vector<int64_t>{0, 5, 7, 10}));
  CHECK_EQ(w.token, (std::vector<int64_t>{0, 1, 2, 4, 5, 0, 3, 2, 3, 5}));
  CHECK_EQ(w.rank, (std::vector<int32_t>{0, 0, 0, 0, 1, 1, 0, 1, 1, 0}));

  const std::vector<double> slot0 = retained(w, 0, 5), slot0_at3 = retained(w, 0, 3),
                            slot2 = retained(w, 2, 5);
  for (int i = 0; i < 5; ++i) CHECK_CLOSE(slot0[size_t(i)], std::pow(2, i - 5), 1e-15);
  CHECK_CLOSE(slot0_at3[0], 0.125, 1e-15);  // at t = 3 only tokens 0, 1, 2 have written
  CHECK_CLOSE(slot0_at3[2], 0.5, 1e-15);
  CHECK_EQ(slot0_at3[3], 0.0);
  CHECK_CLOSE(slot2[0], 0.0625, 1e-15);
  CHECK_CLOSE(slot2[1], 0.125, 1e-15);
  CHECK_CLOSE(slot2[2], 0.75, 1e-15);
  CHECK_CLOSE(tokens_held(w, 0, 5), 961.0 / 341, 1e-12);
  CHECK_EQ(tokens_held(w, 2, 1), 0.0);

  CHECK_CLOSE(survival(r, w, 2, 5), 3.0 / 16, 1e-15);
  CHECK_CLOSE(survival(r, w, 2, 2), 1, 1e-15);
  CHECK(std::isnan(survival(r, w, 2, 1)));
  const std::vector<double> curve = survival_curve(r, w, 2, 1, 5);
  CHECK(std::isnan(curve[0]));
  CHECK_CLOSE(curve[1], 1, 1e-15);
  CHECK_CLOSE(curve[2], 0.75, 1e-15);  // token 3 halves slot 2 only
  CHECK_CLOSE(curve[3], 0.5, 1e-15);   // token 4 halves slot 0
  CHECK_CLOSE(curve[4], 3.0 / 16, 1e-15);
  CHECK_EQ(slot_survival_curves(r, w, 1, 1, 5).size(), size_t(1));  // the underflowed selection wrote nothing

  const Attribution a = read_attribution(w, std::vector<double>{0.5, 0.25, 0.25}, 5);
  const std::vector<double> expected{1.0 / 64 + 0.25 * (1 - q) * q, 1.0 / 32, 1.0 / 16 + 1.0 / 64,
                                     0.25 * (1 - q) + 1.0 / 32,     1.0 / 8,  0.25 + 0.1875};
  for (size_t j = 0; j < 6; ++j) CHECK_CLOSE(a.weight[j], expected[j], 1e-15);
  CHECK_CLOSE(a.read_of_nothing, 1 - (31.0 / 64 + 1.0 / 8 + 15.0 / 64), 1e-15);

  CHECK_CLOSE(overlap_min(r, 0, 2), 1, 1e-15);  // slot 0 only
  CHECK_CLOSE(overlap_min(r, 2, 3), 1, 1e-15);  // slot 2 only
  CHECK_CLOSE(overlap_dot(r, 0, 3), 0.25, 1e-15);
  CHECK_CLOSE(write_overlap(r, 3, 5), 0.5, 1e-15);  // slot 2: min(0.5, 0.75)
  CHECK_EQ(overlap_min(r, 0, 4), 1.0);              // padding shares nothing
}

SLOTSCOPE_CASE(twin_of_keeps_and_shares) {
  for (const auto& problem : twin::problems()) {
    const HeadRoutes r = twin::make(problem);
    const twin::Dense d = twin::dense(r);
    const SlotWrites w = group_writes(r);
    for (int i = 0; i < d.slots; ++i) {
      for (int64_t a = -1; a < d.tokens; ++a)
        for (int64_t b = a; b < d.tokens; b += 3)
          if (!same(w.log_keep_between(i, a, b), d.log_keep(i, a, b), kTolerance))
            t.fail("log keep of slot " + std::to_string(i) + " over (" + std::to_string(a) + ", " +
                       std::to_string(b) + "]: " + std::to_string(w.log_keep_between(i, a, b)) + " and " +
                       std::to_string(d.log_keep(i, a, b)),
                   __FILE__, __LINE__);
      for (int64_t at = 0; at < d.tokens; at += 7) {
        const std::vector<double> share = retained(w, i, at);
        size_t e = 0;
        double sum = 0, squares = 0, total_f = 0;
        for (int64_t j = 0; j < d.tokens; ++j) {
          if (d.r[d.at(j, i)] == 0) continue;
          const double expected = j > at ? 0 : d.s[d.at(j, i)] * std::exp(d.log_keep(i, j, at));
          CHECK(same(share.at(e++), expected, kTolerance));
          sum += expected;
          squares += expected * expected;
          if (j <= at) total_f += d.f[d.at(j, i)];
        }
        CHECK_EQ(e, share.size());
        CHECK(same(tokens_held(w, i, at), sum == 0 ? 0 : sum * sum / squares, 1e-9));
        if (!problem.restricted)
          CHECK(same(sum, 1 - std::exp(total_f), problem.stored_strength ? 1e-6 : kTolerance));
      }
    }
  }
}

SLOTSCOPE_CASE(twin_of_survival) {
  for (const auto& problem : twin::problems()) {
    const HeadRoutes r = twin::make(problem);
    const twin::Dense d = twin::dense(r);
    const SlotWrites w = group_writes(r);
    for (int64_t j = 0; j < d.tokens; j += 2) {
      const std::vector<double> curve = survival_curve(r, w, j, 0, d.tokens - 1);
      const auto slots = slot_survival_curves(r, w, j, 3, d.tokens - 1);
      for (int64_t at = 0; at < d.tokens; ++at) {
        double kept = 0, total = 0;
        for (int i = 0; i < d.slots; ++i) {
          if (d.r[d.at(j, i)] == 0)
            continue;  // a slot the token did not write is no part of it, known or not
          kept += d.s[d.at(j, i)] * std::exp(d.log_keep(i, j, at));
          total += d.s[d.at(j, i)];
        }
        const double expected = at < j || total == 0 ? twin::kNaN : kept / total;
        CHECK(same(survival(r, w, j, at), expected, kTolerance));
        CHECK(same(curve[size_t(at)], expected, kTolerance));
        for (const SlotSurvival& s : slots)
          if (at >= 3)
            CHECK(same(s.left[size_t(at - 3)], at < j ? twin::kNaN : std::exp(d.log_keep(s.slot, j, at)),
                       kTolerance));
      }
    }
  }
}

SLOTSCOPE_CASE(twin_of_attribution) {
  for (const auto& problem : twin::problems()) {
    const HeadRoutes r = twin::make(problem);
    const twin::Dense d = twin::dense(r);
    const SlotWrites w = group_writes(r);
    const std::vector<double> p = read_softmax(d.slots, problem.seed);
    for (int64_t at = 0; at < d.tokens; at += 3) {
      const Attribution a = read_attribution(w, p, at);
      CHECK_EQ(a.weight.size(), size_t(at + 1));
      double sum = 0, bound = 0;
      for (int64_t j = 0; j <= at; ++j) {
        double expected = d.known[size_t(j)] ? 0 : twin::kNaN;
        for (int i = 0; i < d.slots; ++i)
          expected += p[size_t(i)] * (d.known[size_t(j)] ? d.s[d.at(j, i)] : twin::kNaN) *
                      std::exp(d.log_keep(i, j, at));
        CHECK(same(a.weight[size_t(j)], expected, kTolerance));
        sum += expected;
      }
      CHECK(same(a.read_of_nothing, 1 - sum, kTolerance));
      // Row sums are sum_i p_i (1 - exp(sum f)).
      for (int i = 0; i < d.slots; ++i) bound += p[size_t(i)] * (1 - std::exp(d.log_keep(i, -1, at)));
      if (!problem.stored_strength) CHECK(same(sum, bound, kTolerance));
    }
  }
}

// o_t = sum_j A[t,j] v_j against the recurrence of the memory itself (model-zoo 2.3 steps 11 and 12) in
// double: keys, queries and values are random, p comes from the softmax over all slots of S^k q.
SLOTSCOPE_CASE(attribution_rebuilds_the_output) {
  constexpr int kWidth = 5;
  double worst = 0;
  for (const auto& problem : twin::problems()) {
    if (problem.restricted || problem.stored_strength) continue;
    const HeadRoutes r = twin::make(problem);
    const twin::Dense d = twin::dense(r);
    const SlotWrites w = group_writes(r);
    std::mt19937 random(problem.seed);
    std::normal_distribution<double> normal;
    std::vector<std::vector<double>> values;
    std::vector<std::vector<double>> state_k(size_t(d.slots), std::vector<double>(kWidth)), state_v = state_k;
    for (int64_t at = 0; at < d.tokens; ++at) {
      std::vector<double> q(kWidth), k(kWidth), v(kWidth), p(size_t(d.slots)), output(kWidth);
      for (int c = 0; c < kWidth; ++c)
        q[size_t(c)] = normal(random), k[size_t(c)] = normal(random), v[size_t(c)] = normal(random);
      values.push_back(v);
      double highest = -1e300, sum = 0;
      for (size_t i = 0; i < size_t(d.slots); ++i) {
        const double keep = std::exp(d.f[d.at(at, int(i))]), s = 1 - keep;
        double logit = 0;
        for (size_t c = 0; c < kWidth; ++c) {
          state_k[i][c] = keep * state_k[i][c] + s * k[c];
          state_v[i][c] = keep * state_v[i][c] + s * v[c];
          logit += state_k[i][c] * q[c];
        }
        p[i] = logit;
        highest = std::max(highest, logit);
      }
      for (double& x : p) x = std::exp(x - highest), sum += x;
      for (double& x : p) x /= sum;
      for (size_t i = 0; i < p.size(); ++i)
        for (size_t c = 0; c < kWidth; ++c) output[c] += p[i] * state_v[i][c];
      const Attribution a = read_attribution(w, p, at);
      for (size_t c = 0; c < kWidth; ++c) {
        double rebuilt = 0;
        for (int64_t j = 0; j <= at; ++j) rebuilt += a.weight[size_t(j)] * values[size_t(j)][c];
        CHECK_CLOSE(rebuilt, output[c], kTolerance);
        worst = std::max(worst, std::abs(rebuilt - output[c]));
      }
    }
  }
  CHECK(worst > 0);  // something was compared
}

// R5: one head, two slots, K = 2, V = 1, top-1 slots 0, 1, 0, gate 0.5 each; outputs 0.311230,
// 0.811230, 1.848973.
SLOTSCOPE_CASE(recurrence_r5) {
  HeadRoutes r;
  r.slots = 2;
  r.top_k = 1;
  r.rows = r.tokens = 3;
  r.index = {0, 1, 0};
  r.weight = {1, 1, 1};
  r.log_decay.assign(3, std::log(0.5));
  const SlotWrites w = group_writes(r);
  const double keys[3][2] = {{1, 0}, {0, 1}, {1, 1}}, values[3] = {1, 2, 4},
               outputs[3] = {0.311230, 0.811230, 1.848973};
  for (int64_t at = 0; at < 3; ++at) {
    double p[2] = {}, sum = 0, output = 0;
    for (int i = 0; i < 2; ++i) {
      const std::vector<double> share = retained(w, i, at);
      for (size_t e = 0; e < share.size(); ++e) {
        const int64_t j = w.token[size_t(w.begin[size_t(i)]) + e];
        p[i] += share[e] * (keys[j][0] * keys[at][0] + keys[j][1] * keys[at][1]);
      }
      sum += std::exp(p[i]);
    }
    const Attribution a =
        read_attribution(w, std::vector<double>{std::exp(p[0]) / sum, std::exp(p[1]) / sum}, at);
    for (size_t j = 0; j < a.weight.size(); ++j) output += a.weight[j] * values[j];
    CHECK_CLOSE(output, outputs[at], 5e-7);
  }
}

SLOTSCOPE_CASE(twin_of_overlaps) {
  for (const auto& problem : twin::problems()) {
    const HeadRoutes r = twin::make(problem);
    const twin::Dense d = twin::dense(r);
    for (int64_t a = 0; a < r.rows; a += 2) {
      for (int64_t b = 0; b < r.rows; b += 3) {
        double least = 0, dot = 0, strength = 0;
        for (int i = 0; i < d.slots; ++i) {
          const size_t x = d.at(r.token_of(a), i), y = d.at(r.token_of(b), i);
          least += std::min(d.r[x], d.r[y]);
          dot += d.r[x] * d.r[y];
          strength += std::min(d.s[x], d.s[y]);
        }
        CHECK_CLOSE(overlap_min(r, a, b), least, kTolerance);
        CHECK_CLOSE(overlap_dot(r, a, b), dot, kTolerance);
        CHECK_CLOSE(write_overlap(r, a, b), strength, kTolerance);
      }
    }
  }
}

// A slot cleared by f = -inf forgets; a NaN gate makes only what crosses it unknown.
SLOTSCOPE_CASE(odd_gates) {
  HeadRoutes r;
  r.slots = 1;
  r.top_k = 1;
  r.rows = r.tokens = 5;
  r.index.assign(5, 0);
  r.weight.assign(5, 1);
  r.log_decay = {-1, -std::numeric_limits<double>::infinity(), -2, twin::kNaN, -3};
  const SlotWrites w = group_writes(r);
  CHECK_EQ(w.log_keep_between(0, -1, 0), -1.0);
  CHECK_EQ(w.log_keep_between(0, 0, 1), -std::numeric_limits<double>::infinity());
  CHECK_EQ(w.log_keep_between(0, 1, 2), -2.0);
  CHECK(std::isnan(w.log_keep_between(0, 0, 3)));
  CHECK_EQ(w.log_keep_between(0, 3, 4), -3.0);
  CHECK_EQ(survival(r, w, 0, 2), 0.0);
  CHECK(std::isnan(survival(r, w, 0, 3)));
  CHECK_CLOSE(retained(w, 0, 4)[4], 1 - std::exp(-3.0), 1e-15);
}

// 100,000 writes of -7.3 each and then tiny ones: the prefix is -730,000, and what is left after it must not
// lose its digits.
SLOTSCOPE_CASE(long_prefixes_keep_their_digits) {
  HeadRoutes r;
  r.slots = 1;
  r.top_k = 1;
  r.rows = r.tokens = 100100;
  r.index.assign(size_t(r.rows), 0);
  r.weight.assign(size_t(r.rows), 1);
  r.log_decay.assign(100000, -7.3);
  r.log_decay.resize(size_t(r.rows), -0.001);
  const SlotWrites w = group_writes(r);
  CHECK_CLOSE(w.log_keep_between(0, 99999, 100099), -0.1, 3e-10);  // two units in the last place of 730,000
  CHECK_CLOSE(w.log_keep.back(), -730000.1, 3e-10);
}

SLOTSCOPE_CASE(without_gates) {
  HeadRoutes r = twin::make({});
  const auto s = twin::dense(r).s;
  r.log_decay.clear();
  const SlotWrites w = group_writes(r);
  CHECK(!w.has_gates);
  CHECK(std::isnan(w.strength[0]) && std::isnan(w.log_keep[0]));
  CHECK(std::isnan(survival(r, w, 0, 5)));
  CHECK(std::isnan(retained(w, int(r.index[0]), 5)[0]));
  CHECK(std::isnan(write_overlap(r, 0, 1)));
  CHECK_CLOSE(overlap_min(r, 3, 3), overlap_min(twin::make({}), 3, 3), 0);
  CHECK(std::isnan(read_attribution(w, read_softmax(r.slots, 1), 5).read_of_nothing));
}

SLOTSCOPE_CASE(nothing_at_all) {
  HeadRoutes r;
  const SlotWrites w = group_writes(r);
  CHECK_EQ(w.begin, (std::vector<int64_t>{0}));
  r.slots = 3;
  r.top_k = 2;
  const SlotWrites empty = group_writes(r);
  CHECK_EQ(empty.begin, (std::vector<int64_t>{0, 0, 0, 0}));
  CHECK_EQ(tokens_held(empty, 1, 0), 0.0);
  CHECK(retained(empty, 2, 10).empty());
  CHECK(survival_curve(r, empty, 0, 5, 4).empty());
  CHECK(std::isnan(survival(r, empty, 0, 0)));
}

SLOTSCOPE_CASE(damaged_routes) {
  HeadRoutes r = twin::make({});
  r.layer = 3;
  r.weight.pop_back();
  CHECK_ERROR(group_writes(r), "layer 3", "route_weight", "239", "240");
  r = twin::make({});
  r.log_decay.push_back(0);
  CHECK_ERROR(group_writes(r), "log_decay");
  r = twin::make({});
  r.tokens = 10;
  CHECK_ERROR(group_writes(r), "rows", "60");
  r = twin::make({.restricted = true});
  r.token[3] = r.token[2];
  CHECK_ERROR(group_writes(r), "token", "increasing");
  r = twin::make({.restricted = true});
  r.token.back() = 1000;
  CHECK_ERROR(group_writes(r), "token", "1000");
  const SlotWrites w = group_writes(twin::make({}));
  CHECK_ERROR(read_attribution(w, std::vector<double>(3), 5), "read weight", "3", "12");
  CHECK_ERROR(read_attribution(w, std::vector<double>(12), 60), "token", "60");
}
