// Read attribution of matrix states against an independent program: the state itself, token by token.
#include "core/analysis/attribution.h"

#include <random>

#include "core/analysis/head_data.h"
#include "core/error.h"
#include "tests/cases/analysis/made_trace.h"
#include "tests/cases/case.h"

using namespace slotscope::analysis;
using namespace slotscope::testing;

namespace {

struct Problem {
  const char* name;
  bool delta = false, head_decay = false, key_decay = false, strength = false, normalised = false, skip = false,
       channels = false, skip_varies = false;
  int64_t tokens = 30, d_k = 5, d_v = 4, heads = 2;
};

std::vector<Problem> problems() {
  return {{.name = "linear"},
          {.name = "normalised", .normalised = true},
          {.name = "retention", .head_decay = true},
          {.name = "gated", .key_decay = true},
          {.name = "delta", .delta = true, .strength = true},
          {.name = "gated delta", .delta = true, .head_decay = true, .strength = true},
          {.name = "kda", .delta = true, .key_decay = true, .strength = true, .heads = 1},
          {.name = "mamba2", .head_decay = true, .strength = true, .skip = true},
          {.name = "mamba2 wide D", .head_decay = true, .strength = true, .skip = true, .skip_varies = true},
          {.name = "mamba", .skip = true, .channels = true, .skip_varies = true, .heads = 1},
          {.name = "one token", .delta = true, .strength = true, .tokens = 1}};
}

struct Made {
  MatrixReads reads;
  std::vector<double> value;  // [T, d_v]
  std::vector<double> out;    // [T, heads, d_v] by the recurrence
};

Made make(const Problem& p, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> unit(0, 1);
  Made made;
  MatrixReads& m = made.reads;
  m.delta = p.delta, m.normalised = p.normalised, m.key_decay = p.key_decay;
  m.scale = p.channels ? 1 : 0.4;
  m.d_k = p.d_k, m.rows = m.tokens = p.tokens;
  const auto draw = [&](std::vector<double>& into, int64_t n, double factor, double shift) {
    for (int64_t i = 0; i < n; ++i) into.push_back(factor * normal(random) + shift);
  };
  draw(m.key, p.tokens * p.d_k, p.normalised ? 0.1 : 0.5, p.normalised ? 1 : 0);
  draw(m.query, p.tokens * p.heads * p.d_k, p.normalised ? 0.1 : 1, p.normalised ? 1 : 0);
  draw(made.value, p.tokens * p.d_v, 1, 0);
  for (int h = 0; h < int(p.heads); ++h) m.heads.push_back(4 + h);
  for (int64_t i = 0; i < p.tokens * (p.key_decay ? p.d_k : p.head_decay ? 1 : 0); ++i) m.log_decay.push_back(-unit(random) / 2);
  for (int64_t i = 0; i < (p.strength ? p.tokens : 0); ++i) m.strength.push_back(2 * unit(random));
  for (int64_t i = 0; i < (p.skip ? p.d_v : 0); ++i) m.skip.push_back(p.skip_varies || i == 0 ? normal(random) : m.skip[0]);
  if (p.channels) {
    m.channels = p.d_v;
    for (int64_t i = 0; i < p.d_v * p.d_k; ++i) m.rate.push_back(-3 * unit(random));
    for (int64_t i = 0; i < p.tokens * p.d_v; ++i) m.step.push_back(unit(random) / 3);
  }

  // The state, slot by slot: s[c] is row c of S^T.
  std::vector<std::vector<double>> s(size_t(p.d_v), std::vector<double>(size_t(p.d_k), 0));
  std::vector<double> z(size_t(p.d_k), 0);
  for (int64_t t = 0; t < p.tokens; ++t) {
    const double* k = m.key.data() + t * p.d_k;
    for (int64_t n = 0; n < p.d_k; ++n) z[size_t(n)] += k[n];
    for (int64_t c = 0; c < p.d_v; ++c) {
      auto& row = s[size_t(c)];
      const double beta = p.channels ? m.step[size_t(t * p.d_v + c)] : p.strength ? m.strength[size_t(t)] : 1;
      double held = 0;
      for (int64_t n = 0; n < p.d_k; ++n) {
        const double g = p.channels     ? beta * m.rate[size_t(c * p.d_k + n)]
                         : p.key_decay  ? m.log_decay[size_t(t * p.d_k + n)]
                         : p.head_decay ? m.log_decay[size_t(t)]
                                        : 0;
        row[size_t(n)] *= std::exp(g);
        held += row[size_t(n)] * k[n];
      }
      const double v = made.value[size_t(t * p.d_v + c)];
      for (int64_t n = 0; n < p.d_k; ++n) row[size_t(n)] += beta * (p.delta ? v - held : v) * k[n];
    }
    for (int64_t h = 0; h < p.heads; ++h) {
      const double* q = m.query.data() + (t * p.heads + h) * p.d_k;
      double norm = 0;
      for (int64_t n = 0; n < p.d_k; ++n) norm += q[n] * z[size_t(n)];
      for (int64_t c = 0; c < p.d_v; ++c) {
        double o = 0;
        for (int64_t n = 0; n < p.d_k; ++n) o += m.scale * s[size_t(c)][size_t(n)] * q[n];
        if (p.normalised) o /= m.scale * norm + 1e-10;
        if (p.skip) o += m.skip[size_t(c)] * made.value[size_t(t * p.d_v + c)];
        made.out.push_back(o);
      }
    }
  }
  return made;
}

}  // namespace

SLOTSCOPE_CASE(attribution_times_values_is_the_output) {
  for (const Problem& p : problems()) {
    const Made made = make(p, 7);
    double worst = 0;
    for (int64_t at = 0; at < p.tokens; ++at)
      for (int64_t h = 0; h < p.heads; ++h)
        for (int64_t c = 0; c < p.d_v; ++c) {
          const Attribution a = read_attribution(made.reads, int(4 + h), at, int(c));
          CHECK_EQ(a.weight.size(), size_t(at + 1));
          CHECK(std::isnan(a.read_of_nothing));
          double sum = 0;
          for (int64_t j = 0; j <= at; ++j) sum += a.weight[size_t(j)] * made.value[size_t(j * p.d_v + c)];
          const double error = std::abs(sum - made.out[size_t((at * p.heads + h) * p.d_v + c)]);
          if (!(error <= worst)) worst = error;
        }
    CHECK(worst <= 1e-11);
    t.note(std::string(p.name) + ": worst " + std::to_string(worst * 1e15) + "e-15");
  }
}

SLOTSCOPE_CASE(attribution_across_gaps_is_unknown) {
  for (const Problem& p : problems()) {
    if (p.tokens < 20) continue;
    const Made whole = make(p, 9);
    // Tokens 0..9 and 12..29 captured: the rows of 10 and 11 are taken out.
    MatrixReads cut = whole.reads;
    cut.rows = p.tokens - 2;
    for (int64_t i = 0; i < p.tokens; ++i)
      if (i != 10 && i != 11) cut.token.push_back(i);
    const auto remove = [&](std::vector<double>& list, int64_t width) {
      if (!list.empty()) list.erase(list.begin() + 10 * width, list.begin() + 12 * width);
    };
    remove(cut.key, p.d_k), remove(cut.query, p.heads * p.d_k), remove(cut.strength, 1), remove(cut.step, p.d_v);
    remove(cut.log_decay, p.key_decay ? p.d_k : 1);
    const Attribution a = read_attribution(cut, 4, 25), b = read_attribution(whole.reads, 4, 25);
    for (size_t j = 0; j <= 25; ++j) {
      if (j < 12 || p.normalised) CHECK(std::isnan(a.weight[j]));
      else CHECK_EQ(a.weight[j], b.weight[j]);
    }
    CHECK_ERROR(read_attribution(cut, 4, 10), "token 10", "not captured");
    CHECK_ERROR(read_attribution(cut, 9, 5), "query head 9");
    if (p.channels || p.skip_varies) CHECK_ERROR(read_attribution(cut, 4, 5, 4), "value channel 4", "0 to 3");
  }
}

// From a file: two state heads read by four query heads, with key_rot before key, and what is missing said by name.
SLOTSCOPE_CASE(attribution_from_a_trace) {
  const Problem p{.name = "gated delta", .delta = true, .head_decay = true, .strength = true};
  const Made one = make(p, 1), two = make(p, 2);
  const auto joined = [&](auto member, int64_t width) {
    std::vector<double> out;
    for (int64_t row = 0; row < p.tokens; ++row)
      for (const Made* made : {&one, &two}) {
        const std::vector<double>& list = member(*made);
        out.insert(out.end(), list.begin() + row * width, list.begin() + (row + 1) * width);
      }
    return out;
  };
  MadeLayer layer{.family = "gated_deltanet", .route_kind = "dense", .query_heads = 4, .slots = p.d_v, .top_k = p.d_v};
  layer.attributes = {{"slot", std::string("value channel")}, {"delta", int64_t(1)}, {"scale", 0.4},
                      {"decay", std::string("head")}, {"readout", std::string("inner product with the query")}};
  layer.fields = {
      {"key_rot", "T,H_r,d_k", {2, 5}, joined([](const Made& m) { return m.reads.key; }, 5)},
      {"key", "T,H_r,d_k", {2, 5}, std::vector<double>(size_t(2 * 5 * p.tokens), 9)},
      {"query_rot", "T,H,d_k", {4, 5}, joined([](const Made& m) { return m.reads.query; }, 10)},
      {"log_decay", "T,H_r", {2}, joined([](const Made& m) { return m.reads.log_decay; }, 1)},
      {"write_strength", "T,H_r", {2}, joined([](const Made& m) { return m.reads.strength; }, 1)}};
  MadeRun run{.tokens = p.tokens, .prompt = 28, .roles = std::vector<uint8_t>(30, 0), .layers = {layer}};
  const auto trace = TraceMaker::make(t.temp() / "run.h5", run);
  const auto data = load_head(*trace, 0, 0, 1);
  CHECK_EQ(data->read_heads, (std::vector<int>{2, 3}));
  CHECK_EQ(data->read_token, (std::vector<int64_t>{27, 28, 29}));
  CHECK(data->no_attribution.empty() && data->reads_at(27, 2).empty());
  for (const int h : {0, 1})
    CHECK_EQ(data->attribution(19, 2 + h).weight, read_attribution(two.reads, 4 + h, 19).weight);
  CHECK(data->attribution(19, 1).weight.empty());
  run.layers[0].fields.erase(run.layers[0].fields.begin() + 3);  // the decay
  const auto partial = TraceMaker::make(t.temp() / "partial.h5", run);
  CHECK(load_head(*partial, 0, 0, 0)->no_attribution.find("needs log_decay") != std::string::npos);
  run.layers[0].fields.pop_back();
  const auto none = TraceMaker::make(t.temp() / "none.h5", run);
  CHECK(load_head(*none, 0, 0, 0)->no_attribution.find("gated_deltanet: read attribution needs ") == 0);
  run.layers[0].attributes.pop_back();  // as an earlier version wrote it
  const auto old = TraceMaker::make(t.temp() / "old.h5", run);
  CHECK(load_head(*old, 0, 0, 0)->no_attribution.find("earlier version") != std::string::npos);
}
