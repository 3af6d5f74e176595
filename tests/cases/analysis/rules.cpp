// Layers that store a rule instead of routes: the same numbers as routes written out in full, and the definitions of
// model-zoo 17 for each kind.
#include <limits>
#include <random>

#include "core/analysis/esl.h"
#include "core/analysis/head_data.h"
#include "core/analysis/references.h"
#include "core/error.h"
#include "core/trace/layer_rule.h"
#include "tests/cases/analysis/made_trace.h"
#include "tests/cases/case.h"

using namespace slotscope::analysis;
using namespace slotscope::testing;
using slotscope::HeadRoutes;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct DenseOptions {
  int64_t tokens = 40;
  int slots = 7;
  bool slot_strength = true, slot_decay = true, decay = true, restricted = false;
  unsigned seed = 1;
};

// A dense layer by its rule, and the same with index, weight, strength and decay of every slot written out.
std::pair<HeadRoutes, HeadRoutes> dense_pair(const DenseOptions& o) {
  std::mt19937 random(o.seed);
  std::uniform_real_distribution<double> unit(0, 1);
  HeadRoutes rule;
  rule.slots = rule.top_k = o.slots;
  rule.tokens = o.tokens;
  rule.every_slot = true;
  rule.common_strength = !o.slot_strength;
  rule.per_slot_decay = o.decay && o.slot_decay;
  for (int64_t t = 0; t < o.tokens; ++t) {
    if (o.restricted && t % 13 == 5) continue;
    if (o.restricted) rule.token.push_back(t);
    ++rule.rows;
    for (int i = 0; i < (o.slot_strength ? o.slots : 1); ++i) rule.strength.push_back(unit(random));
    for (int i = 0; o.decay && i < (o.slot_decay ? o.slots : 1); ++i)
      rule.log_decay.push_back(t == 0 && o.seed == 4 ? -kInfinity : -unit(random) / 3);
  }
  HeadRoutes full = rule;
  full.every_slot = full.common_strength = full.per_slot_decay = false;
  full.strength.clear(), full.log_decay.clear();
  full.per_slot_decay = o.decay;
  for (int64_t row = 0; row < rule.rows; ++row)
    for (int i = 0; i < o.slots; ++i) {
      full.index.push_back(uint32_t(i));
      full.weight.push_back(1);
      full.strength.push_back(rule.strength_at(row, i));
      if (o.decay) full.log_decay.push_back(rule.decay(row, i));
    }
  return {rule, full};
}

std::vector<DenseOptions> dense_problems() {
  return {{},
          {.slot_strength = false, .slot_decay = false, .seed = 2},
          {.slot_strength = true, .slot_decay = false, .seed = 3},
          {.slot_strength = false, .slot_decay = true, .seed = 4},
          {.slot_strength = false, .decay = false, .seed = 5},
          {.tokens = 60, .slots = 5, .restricted = true, .seed = 6},
          {.tokens = 60, .slots = 5, .slot_strength = false, .slot_decay = false, .restricted = true, .seed = 7},
          {.tokens = 1, .slots = 1, .seed = 8}};
}

bool same_lists(const std::vector<double>& a, const std::vector<double>& b, double tol) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!twin::same(a[i], b[i], tol)) return false;
  return true;
}

}  // namespace

SLOTSCOPE_CASE(dense_rules_give_the_numbers_of_full_routes) {
  for (const DenseOptions& o : dense_problems()) {
    const auto [rule, full] = dense_pair(o);
    const auto roles = twin::roles(o.tokens, o.seed);
    CHECK_EQ(count_writes(rule), count_writes(full));
    CHECK_EQ(count_selections(rule), count_selections(full));
    for (const double threshold : {0.0, 0.4}) {
      const HeadAllocation a = allocate(rule, roles, {.threshold = threshold}),
                           b = allocate(full, roles, {.threshold = threshold});
      CHECK_EQ(a.written, b.written);
      CHECK_EQ(a.retrieval, b.retrieval);
      CHECK_EQ(a.order, b.order);
      CHECK(same_lists(a.specialisation, b.specialisation, 1e-15));
      CHECK(twin::same(a.head_score, b.head_score, 1e-15));
    }
    const RoutingStatistics x = routing_statistics(rule, {}, -1), y = routing_statistics(full, {}, -1);
    CHECK(twin::same(x.entropy, y.entropy, 1e-12) && x.used == y.used && twin::same(x.gini, y.gini, 0));
    const SlotWrites u = group_writes(rule), v = group_writes(full);
    CHECK_EQ(u.count(), v.count());
    CHECK(u.captured == v.captured);
    std::vector<double> p(size_t(o.slots));
    for (size_t i = 0; i < p.size(); ++i) p[i] = 1.0 / double(i + 2);
    for (int64_t now = 0; now < o.tokens; now += 3) {
      for (int i = 0; i < o.slots; ++i) {
        CHECK_EQ(u.entries_until(i, now) - u.first(i), v.entries_until(i, now) - v.first(i));
        CHECK(same_lists(retained(u, i, now), retained(v, i, now), 1e-14));
        CHECK(twin::same(tokens_held(u, i, now), tokens_held(v, i, now), 1e-12));
        for (int64_t b = now; b < o.tokens; b += 5)
          CHECK(twin::same(u.log_keep_between(i, now, b), v.log_keep_between(i, now, b), 1e-13));
      }
      CHECK(same_lists(survival_curve(rule, u, now, 0, o.tokens - 1), survival_curve(full, v, now, 0, o.tokens - 1), 1e-14));
      const Attribution a = read_attribution(u, p, now), b = read_attribution(v, p, now);
      CHECK(same_lists(a.weight, b.weight, 1e-14) && twin::same(a.read_of_nothing, b.read_of_nothing, 1e-13));
      const std::vector<int64_t> key{now / 2, now};
      const auto ka = key_writes(rule, key, o.tokens - 1), kb = key_writes(full, key, o.tokens - 1);
      CHECK_EQ(ka.size(), kb.size());
      for (size_t i = 0; i < ka.size(); ++i)
        CHECK(ka[i].slot == kb[i].slot && ka[i].token == kb[i].token && twin::same(ka[i].left, kb[i].left, 1e-14) &&
              twin::same(ka[i].strength, kb[i].strength, 0));
    }
    if (rule.rows > 4) {
      CHECK(twin::same(overlap_min(rule, 1, 4), overlap_min(full, 1, 4), 0) && overlap_min(rule, 1, 4) == o.slots);
      CHECK(twin::same(write_overlap(rule, 1, 4), write_overlap(full, 1, 4), 1e-15));
    }
    CHECK(overlap_constant(rule).find("write overlap") != std::string::npos && overlap_constant(full).empty());
  }
}

SLOTSCOPE_CASE(dense_rules_give_the_pictures_of_full_routes) {
  for (const DenseOptions& o : dense_problems()) {
    const auto [rule, full] = dense_pair(o);
    const SlotWrites u = group_writes(rule), v = group_writes(full);
    for (const Quantity q : {Quantity::write_strength, Quantity::route_weight, Quantity::log_gate, Quantity::survival_at,
                             Quantity::survival_of, Quantity::read_attribution})
      for (const Pooling pooling : {Pooling::maximum, Pooling::mean})
        for (const int columns : {1000, 6}) {
          GridRequest request{.quantity = q, .pooling = pooling, .first = 0, .last = o.tokens};
          for (int i = o.slots - 1; i >= -1; --i) request.rows.push_back(i);  // -1: a row without a slot
          request.max_columns = columns;
          request.max_rows = columns == 6 ? 3 : 100;
          request.reference = o.tokens / 2;
          request.read_weight.assign(size_t(o.slots), 0.25);
          request.read_weight.back() = 0.5;
          const SlotGrid a = reduce(rule, u, request), b = reduce(full, v, request);
          CHECK_EQ(a.reduction, b.reduction);
          CHECK(a.state == b.state && a.finite_cells == b.finite_cells && a.nan_cells == b.nan_cells);
          CHECK(a.inf_cells == b.inf_cells && a.unknown_cells == b.unknown_cells);
          CHECK(twin::same(a.min, b.min, 1e-7) && twin::same(a.max, b.max, 1e-7));
          for (size_t i = 0; i < a.value.size(); ++i) CHECK(twin::same(a.value[i], b.value[i], 1e-6));
        }
  }
}

namespace {

MadeRun one_layer(MadeLayer layer, int64_t tokens) {
  std::vector<uint8_t> roles(size_t(tokens), 0);
  if (tokens > 4) roles[3] = roles[4] = 1;
  return {.tokens = tokens,
          .prompt = tokens,
          .roles = roles,
          .spans = {{"key", 3, 5}},
          .layers = {std::move(layer)}};
}

}  // namespace

// Token t writes slot t mod W and clears it: what it held before is gone, the others keep everything.
SLOTSCOPE_CASE(ring_by_its_rule) {
  const int64_t tokens = 37, window = 8;
  const auto trace = TraceMaker::make(
      t.temp() / "ring.h5", one_layer({.family = "attention", .route_kind = "ring", .slots = window, .top_k = 1}, tokens));
  const auto data = load_head(*trace, 0, 0, 1);
  CHECK(data->routes.slots == window && data->routes.rows == tokens && data->routes.no_survival.empty());
  for (int i = 0; i < window; ++i) CHECK_EQ(data->esl.esl[size_t(i)], ring_esl(tokens, window, i));
  for (int64_t j = 0; j < tokens; ++j)
    for (int64_t at = j; at < tokens; ++at)
      CHECK_EQ(survival(data->routes, data->writes, j, at), at < j + window ? 1.0 : 0.0);
  for (int i = 0; i < window; ++i) CHECK_EQ(tokens_held(data->writes, i, tokens - 1), 1.0);
  // A read of the ring goes to the token that is in the slot: position, not slot.
  std::vector<double> p(size_t(window), 0);
  p[20 % 8] = 0.75, p[17 % 8] = 0.25;
  const Attribution a = read_attribution(data->writes, p, 20);
  CHECK(a.weight[20] == 0.75 && a.weight[17] == 0.25 && a.weight[9] == 0 && a.weight[12] == 0);
  CHECK_CLOSE(a.read_of_nothing, 0.0, 1e-15);
  CHECK(std::isnan(data->statistics.margin_mean) && !data->routes.no_cut.empty());
}

// What the ESL view draws beside a head: the ring and the dense layer of a real run.
SLOTSCOPE_CASE(references_from_a_run) {
  MadeRun run = one_layer({.family = "attention", .route_kind = "ring", .slots = 8, .top_k = 1}, 37);
  run.layers.push_back({.family = "gsa", .route_kind = "dense", .slots = 5, .top_k = 5});
  const auto trace = TraceMaker::make(t.temp() / "both.h5", run);
  const auto list = esl_references(*trace, 0);
  CHECK_EQ(list.size(), size_t(2));
  CHECK(!list[0].ring && list[0].layer == 1 && list[0].model == "gsa");
  CHECK_EQ(list[0].esl.esl, std::vector<uint32_t>(5, 37));
  CHECK(list[1].ring && list[1].layer == 0 && list[1].esl.tokens == 37);
  for (int i = 0; i < 8; ++i) CHECK_EQ(list[1].esl.esl[size_t(i)], ring_esl(37, 8, i));
  CHECK_EQ(list[1].esl.order.front(), 0);
  CHECK_ERROR(esl_references(*trace, 4), "run 4");
}

// FoX: an appended slot is kept by the forget gates of all later tokens, its own apart; a read weight has them in itself.
SLOTSCOPE_CASE(forget_gates_act_on_every_slot) {
  const int64_t tokens = 25;
  MadeLayer layer{.family = "forgetting_attention", .route_kind = "append", .slots = tokens, .top_k = 1};
  MadeField gates{"log_decay", "T,H", {2}, {}};
  std::vector<double> gate;
  for (int64_t i = 0; i < tokens; ++i) {
    gate.push_back(-0.01 * double(i % 7 + 1));
    gates.values.insert(gates.values.end(), {gate.back() * 3, gate.back()});  // head 1 is looked at
  }
  layer.fields = {gates};
  layer.read_token = {};
  const auto trace = TraceMaker::make(t.temp() / "fox.h5", one_layer(layer, tokens));
  const auto data = load_head(*trace, 0, 0, 1);
  for (int64_t j = 0; j < tokens; ++j)
    for (int64_t at = j; at < tokens; ++at) {
      double sum = 0;
      for (int64_t l = j + 1; l <= at; ++l) sum += gate[size_t(l)];
      CHECK_CLOSE(survival(data->routes, data->writes, j, at), std::exp(sum), 1e-14);
      CHECK_CLOSE(retained(data->writes, int(j), at)[0], std::exp(sum), 1e-14);
      CHECK_EQ(data->writes.log_read_keep_between(int(j), j, at), 0.0);
    }
  std::vector<double> p(size_t(tokens), 0);
  p[4] = 0.3, p[9] = 0.7;
  const Attribution a = read_attribution(data->writes, p, 20);
  CHECK(a.weight[4] == 0.3 && a.weight[9] == 0.7);
  const auto writes = key_writes(data->routes, std::vector<int64_t>{3}, 24);
  double sum = 0;
  for (int64_t l = 4; l <= 24; ++l) sum += gate[size_t(l)];
  CHECK(writes.size() == 1 && writes[0].slot == 3 && writes[0].read_left == 1);
  CHECK_CLOSE(writes[0].left, std::exp(sum), 1e-14);
  // Two query heads per slot head, each with a gate of its own: no survival, but reads are as they are.
  layer.query_heads = 4;
  layer.fields[0].row = {4};
  layer.fields[0].values.assign(size_t(4 * tokens), -0.1);
  const auto grouped = TraceMaker::make(t.temp() / "fox2.h5", one_layer(layer, tokens));
  const auto two = load_head(*grouped, 0, 0, 0);
  CHECK(two->routes.no_survival.find("2 query heads") != std::string::npos);
  CHECK(std::isnan(survival(two->routes, two->writes, 3, 9)));
  CHECK_EQ(read_attribution(two->writes, p, 20).weight[9], 0.7);
}

// What a matrix state stores and what follows: ESL T everywhere, a common decay, and sentences for what is undefined.
SLOTSCOPE_CASE(matrix_states_by_their_rule) {
  const int64_t tokens = 12, slots = 300;
  const auto make = [&](const char* name, slotscope::trace::Attributes more, std::vector<MadeField> fields) {
    MadeLayer layer{.family = name, .route_kind = "dense", .slots = slots, .top_k = slots};
    layer.attributes = {{"slot", std::string("value channel")}, {"readout", std::string("inner product")}};
    layer.attributes.insert(layer.attributes.end(), more.begin(), more.end());
    layer.fields = std::move(fields);
    return TraceMaker::make(t.temp() / (std::string(name) + ".h5"), one_layer(layer, tokens));
  };
  const auto column = [&](const char* name, double value, int64_t width = 1) {
    return MadeField{name, width == 1 ? "T,H_r" : "T,H_r,d_k", width == 1 ? std::vector<int64_t>{2} : std::vector<int64_t>{2, width},
                     std::vector<double>(size_t(2 * width * tokens), value)};
  };
  const auto mamba2 = make("mamba2", {}, {column("log_decay", -0.5), column("write_strength", 0.2)});
  const auto data = load_head(*mamba2, 0, 0, 1);
  CHECK(data->routes.alike() && data->writes.shared && data->writes.token.size() == size_t(tokens));
  CHECK_EQ(data->esl.esl, std::vector<uint32_t>(size_t(slots), uint32_t(tokens)));
  CHECK_CLOSE(survival(data->routes, data->writes, 2, 6), std::exp(-2.0), 1e-14);  // a mean of 300 slots
  CHECK_EQ(data->routes.strength_at(3, 17), 0.2);
  CHECK_EQ(data->allocation.counts[1], int(slots));  // roles: key tokens beside others in every slot
  CHECK(!data->routes.no_reads.empty() && data->no_attribution.find("--capture attribution") != std::string::npos);
  const auto linear = make("linear_attn", {{"keep", 1.0}, {"write_strength", 1.0}}, {});
  const auto kept = load_head(*linear, 0, 0, 0);
  CHECK_EQ(survival(kept->routes, kept->writes, 0, tokens - 1), 1.0);
  CHECK_EQ(kept->routes.strength_at(0, 0), 1.0);
  const auto gla = make("gla", {{"write_strength", 1.0}}, {column("log_decay", -0.5, 4)});
  const auto undefined = load_head(*gla, 0, 0, 0);
  CHECK(undefined->routes.no_survival.find("gla: survival is undefined. Every key channel") == 0);
  CHECK(std::isnan(survival(undefined->routes, undefined->writes, 2, 6)));
  GridRequest request{.quantity = Quantity::survival_at, .rows = {0}, .first = 0, .last = tokens};
  CHECK_EQ(reduce(undefined->routes, undefined->writes, request).reduction, undefined->routes.no_survival);
  const auto delta = make("gated_deltanet", {{"delta", int64_t(1)}}, {column("log_decay", -0.5), column("write_strength", 0.5)});
  CHECK(load_head(*delta, 0, 0, 0)->routes.no_survival.find("delta rule") != std::string::npos);
  CHECK_ERROR(make("mamba2", {}, {column("write_strength", 0.5, 3)})->routes(0, 0, 0), "write_strength", "T,H_r,M");
}

// 100,000 tokens x 256 value channels are 100,000 entries, not 25.6 million.
SLOTSCOPE_CASE(long_matrix_states_stay_small) {
  HeadRoutes r;
  r.slots = r.top_k = 256;
  r.rows = r.tokens = 100'000;
  r.every_slot = r.common_strength = true;
  for (int64_t i = 0; i < r.rows; ++i) r.strength.push_back(0.5), r.log_decay.push_back(-1e-4 * double(i % 10));
  const SlotWrites w = group_writes(r);
  CHECK(w.shared && w.token.size() == 100'000 && w.log_keep.size() == 100'000 && w.begin.size() == 2);
  CHECK_EQ(w.count(), int64_t(25'600'000));
  CHECK_CLOSE(w.log_keep_between(255, 9, 19), -45e-4, 1e-12);
  GridRequest request{.quantity = Quantity::survival_at, .first = 0, .last = r.tokens, .reference = r.tokens - 1};
  for (int i = 0; i < 256; ++i) request.rows.push_back(i);
  const SlotGrid grid = GridCache().reduce(r, w, request);
  CHECK(grid.rows == 256 && grid.finite_cells == 25'600'000 && grid.max == 1);
  CHECK_EQ(grid.value[size_t(grid.columns) - 1], grid.value.back());
  CHECK_EQ(allocate(r, std::vector<uint8_t>(100'000, 0)).counts[2], 256);
  // Attention of as many tokens: a slot for each, one write in each, and no pyramid of 100,000 x 6,250 blocks.
  HeadRoutes a;
  a.slots = 100'000, a.top_k = 1, a.rows = a.tokens = 100'000;
  for (uint32_t i = 0; i < 100'000; ++i) a.index.push_back(i);
  a.weight.assign(100'000, 1), a.strength = a.weight, a.log_decay.assign(100'000, 0);
  const SlotWrites v = group_writes(a);
  request.rows.clear();
  for (int i = 0; i < a.slots; ++i) request.rows.push_back(i);
  request.quantity = Quantity::write_strength;
  const SlotGrid diagonal = GridCache().reduce(a, v, request);
  CHECK(diagonal.finite_cells == 100'000 && diagonal.rows <= 2048 && diagonal.columns <= 2048);
  CHECK(diagonal.state[0] == Cell::finite && diagonal.state.back() == Cell::finite);
}

// 4096 channels x 10,000 tokens of strengths would take 330 MB a head: the routes are there, the strengths say why not.
SLOTSCOPE_CASE(too_many_strengths_are_left_out_with_advice) {
  const int64_t tokens = 3, slots = slotscope::trace::kMostCells / 2;
  MadeLayer layer{.family = "mamba", .route_kind = "dense", .slots = slots, .top_k = slots};
  layer.attributes = {{"slot", std::string("value channel")}, {"decay", std::string("channel and state")}};
  const auto whole = TraceMaker::make(t.temp() / "wide.h5", one_layer(layer, tokens));
  const HeadRoutes routes = whole->routes(0, 0, 0);
  CHECK(!routes.has_strength() && routes.slots == slots && routes.index.empty());
  CHECK_EQ(count_writes(routes).size(), size_t(slots));
}
