#include "core/analysis/results.h"

#include "core/error.h"
#include "tests/cases/analysis/made_trace.h"
#include "tests/cases/case.h"

using namespace slotscope::analysis;
using namespace slotscope::testing;
using slotscope::HeadRoutes;

namespace {

// Two layers of one head each; the query is token 19, three answer tokens follow.
MadeRun made() {
  MadeRun run{.tokens = 22, .prompt = 20, .roles = std::vector<uint8_t>(22, 0), .spans = {{"key", 4, 7}}};
  for (const int64_t t : {4, 5, 6, 20, 21}) run.roles[size_t(t)] = 1;
  for (unsigned i = 0; i < 2; ++i) {
    MadeLayer layer;
    layer.heads = {twin::make({.tokens = 22, .slots = 6, .top_k = 2, .decay = 0.3, .seed = 40 + i})};
    layer.read_token = {19, 20, 21};
    for (int row = 0; row < 3; ++row)
      for (const double p : {0.1, 0.2, 0.3, 0.15, 0.05, 0.2}) layer.reads.push_back(p);
    run.layers.push_back(layer);
  }
  return run;
}

}  // namespace

SLOTSCOPE_CASE(report_of_a_run) {
  const MadeRun run = made();
  const auto trace = TraceMaker::make(t.temp() / "run.h5", run);
  const AnalysisReport report = analyse(*trace, 0);
  CHECK(report.tokens == 22 && report.prompt_tokens == 20 && report.query == 19 && report.query_reached);
  CHECK_EQ(report.key_tokens, (std::vector<int64_t>{4, 5, 6}));
  CHECK_EQ(report.retrieval_tokens, int64_t(5));
  CHECK(report.layers == 2 && report.heads.size() == 2 && report.name == "made");
  const double p[] = {0.1, 0.2, 0.3, 0.15, 0.05, 0.2};
  for (size_t layer = 0; layer < 2; ++layer) {
    const HeadReport& h = report.heads[layer];
    const HeadRoutes r = trace->routes(0, int(layer), 0);  // with strengths
    const twin::Dense d = twin::dense(r);
    CHECK(h.slots == 6 && h.top_k == 2 && h.captured_tokens == 22 && h.selections_known);
    CHECK_EQ(r.weight, run.layers[layer].heads[0].weight);
    int64_t underflowed = 0;
    for (const double w : r.weight) underflowed += w == 0;
    CHECK_EQ(h.underflowed, underflowed);
    for (int i = 0; i < 6; ++i) {
      const SlotReport& s = h.slot[size_t(i)];
      double sum = 0, squares = 0, f = 0;
      int64_t first = -1, last = -1;
      for (int64_t j = 0; j < 22; ++j) {
        if (d.r[d.at(j, i)] == 0) continue;
        if (first < 0) first = j;
        last = j;
        const double w = d.s[d.at(j, i)] * std::exp(d.log_keep(i, j, 21));
        sum += w;
        squares += w * w;
        f += d.f[d.at(j, i)];
      }
      CHECK(s.slot == i && s.first_write == first && s.last_write == last);
      CHECK_CLOSE(s.retained, 1 - std::exp(f), 1e-12);
      CHECK_CLOSE(s.tokens_held, sum == 0 ? 0 : sum * sum / squares, 1e-9);
      CHECK_CLOSE(s.normalised_esl, double(s.esl) / 22, 1e-15);
      CHECK_EQ(s.esl, count_writes(r)[size_t(i)]);
      CHECK(s.slot_class == allocate(r, run.roles).slot_class[size_t(i)]);
    }
    CHECK_EQ(h.key.size(), size_t(3));
    double mean = 0, mass = 0;
    for (const KeyTokenReport& k : h.key) {
      CHECK_CLOSE(k.survival, survival(r, group_writes(r), k.token, 19), 1e-13);
      mean += k.survival / 3;
      for (const KeyWrite& w : k.slots) mass += p[w.slot] * w.strength * w.left;
    }
    CHECK_CLOSE(h.summary.key_survival, mean, 1e-13);
    CHECK_EQ(h.reads.size(), size_t(3));
    CHECK_CLOSE(h.reads[0].on_key, mass, 1e-13);
    CHECK_CLOSE(h.summary.read_mass_on_key, mass, 1e-13);
    for (const ReadReport& read : h.reads) {
      double row = 0, retrieval = 0;
      std::vector<double> weights;
      for (int64_t j = 0; j <= read.token; ++j) {
        double a = 0;
        for (int i = 0; i < 6; ++i) a += p[i] * d.s[d.at(j, i)] * std::exp(d.log_keep(i, j, read.token));
        row += a;
        if (run.roles[size_t(j)]) retrieval += a;
        weights.push_back(a);
      }
      CHECK_CLOSE(read.read_of_nothing, 1 - row, 1e-12);
      CHECK_CLOSE(read.on_retrieval, retrieval, 1e-12);
      CHECK_EQ(read.top.size(), size_t(8));
      std::vector<double> sorted = weights;
      std::sort(sorted.rbegin(), sorted.rend());
      for (size_t i = 0; i < read.top.size(); ++i) {
        CHECK_CLOSE(read.top[i].weight, sorted[i], 1e-12);
        CHECK_CLOSE(weights[size_t(read.top[i].token)], read.top[i].weight, 1e-12);
      }
    }
  }
  CHECK_EQ(report.by_score.size(), size_t(2));
  for (const int i : report.retrieval_heads)
    CHECK(report.heads[size_t(i)].summary.allocation.head_score >= 0.1);
}

SLOTSCOPE_CASE(options_and_notes) {
  const auto trace = TraceMaker::make(t.temp() / "run.h5", made());
  AnalyseOptions options{.layers = {1}, .top_tokens = 2, .max_reads = 1};
  AnalysisReport report = analyse(*trace, 0, options);
  CHECK(report.heads.size() == 1 && report.heads[0].summary.layer == 1);
  CHECK(report.heads[0].reads.size() == 1 && report.heads[0].reads[0].token == 19);
  CHECK_EQ(report.heads[0].reads[0].top.size(), size_t(2));
  CHECK_EQ(report.notes, (std::vector<std::string>{"read attribution for 1 of 3 read tokens"}));
  options = {.roles = std::vector<uint8_t>(22, 1)};
  report = analyse(*trace, 0, options);
  CHECK_EQ(report.retrieval_tokens, int64_t(22));
  CHECK_EQ(report.heads[0].summary.allocation.head_score, 1.0);
  options = {.layers = {5}};
  CHECK_ERROR(analyse(*trace, 0, options), "layer 5");
  CHECK_ERROR(analyse(*trace, 2), "run 2");
  slotscope::Progress stop;
  stop.request_cancel();
  CHECK(analyse(*trace, 0, {}, &stop).heads.empty());
}

// A trace that ends before the query knows nothing at the query, but still has ESL and classes.
SLOTSCOPE_CASE(trace_that_ends_early) {
  MadeRun run = made();
  run.prompt = 40;
  const AnalysisReport report = analyse(*TraceMaker::make(t.temp() / "run.h5", run), 0);
  CHECK(!report.query_reached && report.query == 21);
  CHECK(report.heads[0].key.empty() && std::isnan(report.heads[0].summary.key_survival));
  CHECK(std::isnan(report.heads[0].slot[0].tokens_held_at_query));
  CHECK(report.heads[0].summary.esl.used > 0);
  CHECK_EQ(report.notes.size(), size_t(1));
}
