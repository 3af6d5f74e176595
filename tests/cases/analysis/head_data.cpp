#include "core/analysis/head_data.h"

#include <numeric>

#include "core/error.h"
#include "tests/cases/analysis/made_trace.h"
#include "tests/cases/case.h"

using namespace slotscope::analysis;
using namespace slotscope::testing;
using slotscope::HeadRoutes;
using slotscope::Span;

namespace {

std::vector<double> softmax_rows(int64_t rows, int slots, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<double> out;
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (int i = 0; i < slots; ++i) out.push_back(1 + double(random() % 1000)), sum += out.back();
    for (int i = 0; i < slots; ++i) out[out.size() - 1 - size_t(i)] /= sum;
  }
  return out;
}

// Three layers: two route heads read by four query heads, an attention layer, and a layer that was not
// captured.
MadeRun grouped() {
  MadeRun run{.tokens = 60,
              .prompt = 55,
              .roles = std::vector<uint8_t>(60, 0),
              .spans = {{"key", 20, 24}, {"answer", 55, 60}}};
  for (const int64_t t : {20, 21, 22, 23, 55, 56, 57, 58}) run.roles[size_t(t)] = 1;
  MadeLayer raven;
  for (unsigned head = 0; head < 2; ++head) raven.heads.push_back(twin::make({.seed = 30 + head}));
  raven.query_heads = 4;
  raven.read_token = {54, 55, 56};
  raven.reads = softmax_rows(3 * 4, 12, 5);
  raven.ties = {6, 30};
  for (int i = 0; i < 60 * 2; ++i) raven.margin.push_back(i % 2 ? 0.25 : double(1 + i / 2));
  run.layers = {raven,
                {.family = "attention", .route_kind = "append", .slots = 60},
                {.family = "raven", .route_kind = "sparse", .slots = 12, .top_k = 4}};
  return run;
}

}  // namespace

SLOTSCOPE_CASE(one_head_from_a_trace) {
  const MadeRun run = grouped();
  const auto trace = TraceMaker::make(t.temp() / "run.h5", run);
  const HeadRoutes& routes = run.layers[0].heads[1];
  slotscope::Progress progress;
  const auto data = load_head(*trace, 0, 0, 1, {}, {}, &progress);
  CHECK(data->run == 0 && data->layer == 0 && data->head == 1);
  CHECK_EQ(data->routes.index, routes.index);
  CHECK_EQ(data->routes.weight, routes.weight);
  CHECK_EQ(data->routes.log_decay, routes.log_decay);
  CHECK_EQ(data->esl.esl, count_writes(routes));
  CHECK_EQ(data->esl.selected, count_selections(routes));
  CHECK_EQ(data->esl.tokens, int64_t(60));
  CHECK_EQ(data->writes.begin, group_writes(routes).begin);
  CHECK_EQ(data->allocation.written, allocate(routes, run.roles).written);
  CHECK_EQ(data->allocation.retrieval, allocate(routes, run.roles).retrieval);
  CHECK_CLOSE(data->statistics.tied_share, 0.5, 1e-15);  // 30 of 60 cuts
  CHECK_CLOSE(data->statistics.margin_mean, 0.25, 1e-15);
  CHECK_EQ(load_head(*trace, 0, 0, 0)->statistics.margin_min, 1.0);
  CHECK_CLOSE(load_head(*trace, 0, 0, 0)->statistics.margin_mean, 30.5, 1e-12);
  // Head 1 is read by query heads 2 and 3.
  CHECK_EQ(data->read_heads, (std::vector<int>{2, 3}));
  CHECK_EQ(data->read_token, (std::vector<int64_t>{54, 55, 56}));
  const auto& reads = run.layers[0].reads;
  for (size_t row = 0; row < 3; ++row)
    for (int h = 2; h < 4; ++h) {
      const std::vector<double> p = data->reads_at(54 + int64_t(row), h);
      CHECK_EQ(p.size(), size_t(12));
      CHECK(std::equal(p.begin(), p.end(), reads.begin() + int64_t((row * 4 + size_t(h)) * 12)));
    }
  CHECK(data->reads_at(53, 2).empty() && data->reads_at(54, 0).empty());
  CHECK_CLOSE(data->mean_reads_at(55)[7], (reads[(4 + 2) * 12 + 7] + reads[(4 + 3) * 12 + 7]) / 2, 1e-15);
  CHECK(data->mean_reads_at(1).empty());
  CHECK_EQ(progress.snapshot().stage, std::string("reading routes"));
  // Roles of the user replace those of the run.
  std::vector<uint8_t> brushed(60, 1);
  const auto own = load_head(*trace, 0, 0, 1, {}, {}, nullptr, &brushed);
  CHECK_EQ(own->allocation.retrieval, own->allocation.written);
  slotscope::Progress stop;
  stop.request_cancel();
  CHECK(load_head(*trace, 0, 0, 1, {}, {}, &stop) == nullptr);
}

SLOTSCOPE_CASE(what_cannot_be_read) {
  const auto trace = TraceMaker::make(t.temp() / "run.h5", grouped());
  // Attention stores no routes: its rule gives them.
  const auto attention = load_head(*trace, 0, 1, 1);
  CHECK(attention->routes.slots == 60 && attention->routes.top_k == 1 && attention->routes.rows == 60);
  CHECK_EQ(attention->esl.esl, std::vector<uint32_t>(60, 1));
  CHECK_EQ(attention->writes.log_keep_between(20, 20, 59), 0.0);
  CHECK_ERROR(load_head(*trace, 0, 2, 0), "layer 2", "captured");
  CHECK_ERROR(load_head(*trace, 0, 7, 0), "layer 7");
  CHECK_ERROR(load_head(*trace, 3, 0, 0), "run 3");
  CHECK_ERROR(load_head(*trace, 0, 0, 2), "head 2");
  CHECK_ERROR(load_head(*trace, 0, 0, -1), "head -1");
}

SLOTSCOPE_CASE(summary_of_a_run) {
  const MadeRun run = grouped();
  const auto trace = TraceMaker::make(t.temp() / "run.h5", run);
  slotscope::Progress progress;
  const RunSummary s = summarise(*trace, 0, {}, {}, &progress);
  CHECK(s.layers == 3 && s.heads == 2);
  CHECK_EQ(s.head_list.size(), size_t(6));
  CHECK_EQ(progress.snapshot().stage, std::string("reading routes"));
  CHECK_EQ(progress.snapshot().detail, std::string("layer 3 of 3"));
  CHECK_EQ(progress.snapshot().done, int64_t(3));
  for (int i = 0; i < 6; ++i)
    CHECK(s.head_list[size_t(i)].layer == i / 2 && s.head_list[size_t(i)].head == i % 2);
  CHECK_EQ(s.head_list[5].why, std::string("not captured: run again with layer 2"));
  // Attention: every token has a slot of its own, written once, for ever.
  CHECK(s.head_list[2].has_routes && std::isnan(s.head_list[2].allocation.head_score));
  CHECK_EQ(s.head_list[2].key_survival, 1.0);
  CHECK_EQ(s.head_list[2].mean_write_strength, 1.0);
  CHECK_EQ(s.head_list[2].allocation.counts[0], 8);  // roles: 4 tokens of the key and 4 of the answer
  for (size_t head = 0; head < 2; ++head) {
    const HeadSummary& h = s.head_list[head];
    const HeadRoutes& r = run.layers[0].heads[head];
    const twin::Dense d = twin::dense(r);
    CHECK(h.has_routes && h.why.empty() && h.mixer == "raven");
    CHECK_EQ(h.esl.esl, count_writes(r));
    CHECK_CLOSE(h.allocation.head_score, allocate(r, run.roles).head_score, 1e-15);
    double strength = 0, writes = 0, survival_sum = 0, mass = 0;
    for (size_t i = 0; i < d.r.size(); ++i) strength += d.s[i], writes += d.r[i] != 0;
    CHECK_CLOSE(h.mean_write_strength, strength / writes, 1e-13);
    for (int64_t j = 20; j < 24; ++j) {
      double kept = 0, total = 0;
      for (int i = 0; i < 12; ++i) {
        const double left = d.s[d.at(j, i)] * std::exp(d.log_keep(i, j, 54));
        kept += left;
        total += d.s[d.at(j, i)];
        for (size_t q = 2 * head; q < 2 * head + 2; ++q)
          mass += run.layers[0].reads[q * 12 + size_t(i)] * left / 2;
      }
      survival_sum += kept / total / 4;
    }
    CHECK_CLOSE(h.key_survival, survival_sum, 1e-12);
    CHECK_CLOSE(h.read_mass_on_key, mass, 1e-12);
  }
  CHECK(s.head_list[size_t(s.by_score[0])].allocation.head_score >=
        s.head_list[size_t(s.by_score[1])].allocation.head_score);
  for (size_t i = 2; i < 6; ++i) CHECK(std::isnan(s.head_list[size_t(s.by_score[i])].allocation.head_score));
  slotscope::Progress stop;
  stop.request_cancel();
  CHECK(summarise(*trace, 0, {}, {}, &stop).head_list.empty());
  CHECK_ERROR(summarise(*trace, 1), "run 1");
}

// First selection by hand: two heads, three slots, top 1, a = -1 always. Head 1 has the higher score. Key =
// tokens 1, 2, 3.
//   head 0: token 1, 2, 3 -> slots 0, 0, 1; others -> 0 and 1: nothing is retrieval only, score 0.
//   head 1: key -> slots 1, 2, 2, others -> 0. Slots 1 and 2 are retrieval only. Weights 1, 2, 1: s = 0.632,
//   0.865, 0.632. Left at the query (token 4): slot 1 all; slot 2: token 2 is multiplied by e^-1 at token 3:
//   0.318, token 3 0.632.
// Without reads slot 1 token 1 and slot 2 token 3 tie at 0.632: the first wins. With p = 0.2 and 0.7: slot 2,
// token 3.
SLOTSCOPE_CASE(first_selection_by_hand) {
  const auto head = [](std::vector<uint32_t> index, std::vector<double> weight) {
    HeadRoutes r;
    r.slots = 3;
    r.top_k = 1;
    r.rows = r.tokens = 6;
    r.index = std::move(index);
    r.weight = std::move(weight);
    r.log_decay.assign(6, -1);
    return r;
  };
  MadeRun run{.tokens = 6, .prompt = 5, .roles = {0, 1, 1, 1, 0, 0}, .spans = {{"key", 1, 4}}};
  MadeLayer layer;
  layer.heads = {head({0, 0, 0, 1, 1, 0}, {1, 1, 1, 1, 1, 1}), head({0, 1, 2, 2, 0, 0}, {1, 1, 2, 1, 1, 1})};
  run.layers = {layer};
  RunSummary s = summarise(*TraceMaker::make(t.temp() / "a.h5", run), 0);
  CHECK_EQ(s.head_list[0].allocation.head_score, 0.0);
  CHECK_EQ(s.head_list[1].allocation.head_score, 1.0);
  CHECK(s.first.layer == 0 && s.first.head == 1 && s.first.slot == 1 && s.first.token == 1);
  const double e = std::exp(-1.0);
  CHECK_CLOSE(s.head_list[1].key_survival, (1 + e + 1) / 3, 1e-14);
  CHECK(std::isnan(s.head_list[1].read_mass_on_key));

  run.layers[0].read_token = {4};
  run.layers[0].reads = {0.3, 0.3, 0.4, 0.1, 0.2, 0.7};
  s = summarise(*TraceMaker::make(t.temp() / "b.h5", run), 0);
  CHECK(s.first.head == 1 && s.first.slot == 2 && s.first.token == 3);
  CHECK_CLOSE(s.head_list[1].read_mass_on_key, 0.2 * (1 - e) + 0.7 * ((1 - e * e) * e + 1 - e), 1e-14);

  // Reads at an answer token only: they choose, but are no read at the query.
  run.layers[0].read_token = {5};
  s = summarise(*TraceMaker::make(t.temp() / "c.h5", run), 0);
  CHECK(s.first.slot == 2 && s.first.token == 3 && std::isnan(s.head_list[1].read_mass_on_key));

  // Reads at the query and at the answer: the strongest of both counts. At token 5 slot 1 is read with 0.9:
  // 0.9 x 0.632 = 0.569 beats 0.7 x 0.632 = 0.442 at the query.
  run.layers[0].read_token = {4, 5};
  run.layers[0].reads = {0.3, 0.3, 0.4, 0.1, 0.2, 0.7, 0.3, 0.3, 0.4, 0.05, 0.9, 0.05};
  s = summarise(*TraceMaker::make(t.temp() / "c2.h5", run), 0);
  CHECK(s.first.head == 1 && s.first.slot == 1 && s.first.token == 1);
  CHECK_CLOSE(s.head_list[1].read_mass_on_key, 0.2 * (1 - e) + 0.7 * ((1 - e * e) * e + 1 - e), 1e-14);
  // The answer token 5 itself writes into slot 1: what is left there is multiplied by e^-1, 0.209, and slot 2
  // wins.
  MadeRun overwritten = run;
  overwritten.layers[0].heads[1].index[5] = 1;
  overwritten.roles[5] = 1;
  s = summarise(*TraceMaker::make(t.temp() / "c3.h5", overwritten), 0);
  CHECK(s.first.head == 1 && s.first.slot == 2 && s.first.token == 3);

  // No spans, no roles: the most uneven head (head 1: 3 1 2, head 0: 4 2 0), its longest slot, the last
  // token.
  run.spans.clear();
  run.roles.assign(6, 0);
  s = summarise(*TraceMaker::make(t.temp() / "d.h5", run), 0);
  CHECK(s.first.head == 0 && s.first.slot == 0 && s.first.token == 5);
  CHECK(std::isnan(s.head_list[0].key_survival) && std::isnan(s.head_list[0].allocation.head_score));
  // Roles given by the user bring it back.
  const std::vector<uint8_t> roles{0, 1, 1, 1, 0, 0};
  s = summarise(*TraceMaker::make(t.temp() / "e.h5", run), 0, {}, {}, nullptr, &roles);
  CHECK(s.first.head == 1 && s.first.slot == 1 && s.first.token == 1);  // the reads of c2
}

SLOTSCOPE_CASE(key_and_query) {
  slotscope::trace::RunInfo run;
  CHECK_EQ(query_token(run), int64_t(-1));
  run.tokens = 10;
  run.prompt_tokens = 8;
  run.roles = {0, 0, 1, 1, 0, 0, 0, 0, 1, 1};
  CHECK_EQ(query_token(run), int64_t(7));
  CHECK_EQ(key_tokens(run), (std::vector<int64_t>{2, 3}));  // roles after the query are the answer
  run.spans = {{"needle", 1, 6}, {"key", 5, 7}, {"key", 3, 6}};
  CHECK_EQ(key_tokens(run), (std::vector<int64_t>{3, 4, 5, 6}));
  run.spans.push_back({"value", 4, 5});  // imported prompts: the value is asked for, the key is what it is asked by
  run.spans.push_back({"value", 6, 8});
  CHECK_EQ(key_tokens(run), (std::vector<int64_t>{4, 6, 7}));
  run.spans.resize(3);
  run.spans.push_back({"value", 9, 10});  // behind the query
  CHECK_EQ(key_tokens(run), (std::vector<int64_t>{3, 4, 5, 6}));
  const std::vector<uint8_t> brushed{1};
  CHECK_EQ(key_tokens(run, &brushed), (std::vector<int64_t>{0}));
  run.prompt_tokens = 50;  // a partial trace
  CHECK_EQ(query_token(run), int64_t(9));
}

// What the key left agrees with the lookups in the regrouped writes, gaps in the capture included.
SLOTSCOPE_CASE(twin_of_key_writes) {
  for (const auto& problem : twin::problems()) {
    const HeadRoutes r = twin::make(problem);
    const twin::Dense d = twin::dense(r);
    std::vector<int64_t> tokens;
    for (int64_t j = 0; j < d.tokens; j += 3) tokens.push_back(j);
    const int64_t at = d.tokens * 3 / 4;
    while (!tokens.empty() && tokens.back() > at) tokens.pop_back();
    const auto writes = key_writes(r, tokens, at);
    size_t expected = 0, w = 0;
    for (const int64_t j : tokens)
      for (int i = 0; i < d.slots; ++i) expected += d.r[d.at(j, i)] != 0;
    CHECK_EQ(writes.size(), expected);
    for (const KeyWrite& write : writes) {
      CHECK(w == 0 || writes[w - 1].token <= write.token);
      ++w;
      CHECK(d.r[d.at(write.token, write.slot)] != 0);
      CHECK_EQ(write.strength, d.s[d.at(write.token, write.slot)]);
      CHECK(twin::same(write.left, std::exp(d.log_keep(write.slot, write.token, at)), 1e-12));
    }
  }
  CHECK(key_writes(twin::make({}), {}, 5).empty());
}

// --tokens and --heads: what was not captured is not guessed.
SLOTSCOPE_CASE(restricted_capture) {
  MadeRun run{.tokens = 50, .prompt = 45, .roles = std::vector<uint8_t>(50, 0), .spans = {{"key", 6, 8}}};
  MadeLayer layer;
  for (unsigned head = 0; head < 3; ++head)
    layer.heads.push_back(
        twin::make({.tokens = 50, .slots = 8, .top_k = 3, .restricted = true, .seed = head}));
  layer.captured_heads = {0, 2};
  layer.read_token = {44};
  layer.reads = softmax_rows(2, 8, 1);
  layer.counters = false;
  run.layers = {layer};
  const auto trace = TraceMaker::make(t.temp() / "run.h5", run);
  const RunSummary s = summarise(*trace, 0);
  CHECK_EQ(s.head_list.size(), size_t(3));
  CHECK(s.head_list[0].has_routes && !s.head_list[1].has_routes && s.head_list[2].has_routes);
  CHECK_EQ(s.head_list[1].why, std::string("not captured: run again with head 1"));
  CHECK_EQ(s.head_list[2].esl.esl, count_writes(layer.heads[2]));
  CHECK_EQ(s.head_list[2].esl.tokens, int64_t(42));  // counted over the captured tokens
  CHECK(s.head_list[2].allocation.partial);
  CHECK(std::isnan(s.head_list[2].key_survival));  // token 20 lies between key and query and was not captured
  CHECK(std::isnan(s.head_list[2].read_mass_on_key));
  const auto data = load_head(*trace, 0, 0, 2);
  CHECK_EQ(data->read_heads, (std::vector<int>{2}));
  CHECK(std::equal(data->read_weight.begin(), data->read_weight.end(), layer.reads.begin() + 8));
  CHECK_ERROR(load_head(*trace, 0, 0, 1), "head 1", "not captured");
}

SLOTSCOPE_CASE(reads_as_a_grid) {
  const MadeRun run = grouped();
  const auto trace = TraceMaker::make(t.temp() / "run.h5", run);
  const auto data = load_head(*trace, 0, 0, 0);
  std::vector<int> rows(12);
  std::iota(rows.begin(), rows.end(), 0);
  GridRequest q{.quantity = Quantity::read_weight, .rows = rows, .first = 50, .last = 60};
  const SlotGrid grid = reduce_reads(*data, 1, q);
  CHECK(grid.rows == 12 && grid.columns == 10 && grid.finite_cells == 36);
  for (int i = 0; i < 12; ++i)
    for (int c = 0; c < 10; ++c) {
      const size_t at = size_t(i * 10 + c);
      CHECK_EQ(grid.state[at] == Cell::finite, c >= 4 && c < 7);
      if (c >= 4 && c < 7)
        CHECK_CLOSE(grid.value[at], run.layers[0].reads[size_t(((c - 4) * 4 + 1) * 12 + i)], 1e-8);
    }
  CHECK_EQ(grid.reduction, std::string("3 read tokens, 10 of 60 tokens drawn, no reduction"));
  CHECK_ERROR(reduce_reads(*data, 3, q), "query head 3");
  q.quantity = Quantity::write_strength;
  CHECK_EQ(data->grid(q).finite_cells, reduce(data->routes, data->writes, q).finite_cells);
  q.quantity = Quantity::read_weight;
  CHECK_EQ(data->grid(q).finite_cells, int64_t(36));
}
