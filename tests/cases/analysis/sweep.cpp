// Intervals, per-head numbers and the table of a sweep.
#include "core/analysis/sweep.h"

#include <cmath>
#include <cstring>

#include "core/error.h"
#include "tests/cases/analysis/made_trace.h"
#include "tests/cases/case.h"

namespace slotscope::testing {
namespace {

using trace::SweepValue;

double value(const std::vector<double>& heads, size_t head, SweepValue v) { return heads[head * size_t(trace::kSweepValues) + size_t(v)]; }

// A run of 6 tokens, of which 2 and 5 are retrieval, with one sparse layer of one head: 4 slots, top-1.
trace::MemorySink made_sink() {
  trace::MemorySink sink;
  trace::RunSpec run;
  using trace::ElementType;
  run.datasets = {{.path = "tokens/roles", .type = ElementType::u8},
                  {.path = "layers/0/route_index", .type = ElementType::u16, .shape = {1, 1}},
                  {.path = "layers/0/route_weight", .type = ElementType::f64, .shape = {1, 1}},
                  {.path = "layers/0/write_strength", .type = ElementType::f64, .shape = {1, 1}},
                  {.path = "layers/0/esl", .type = ElementType::u32, .growing = false, .shape = {1, 4}}};
  sink.begin({}, {run});
  sink.append(0, 0, 6, pack<uint8_t>(std::vector<int>{0, 0, 1, 0, 0, 1}));
  sink.append(0, 1, 6, pack<uint16_t>(std::vector<int>{0, 0, 3, 0, 1, 1}));
  sink.append(0, 2, 6, pack<double>(std::vector<double>{1, 1, 1, 1, 1, 1}));
  sink.append(0, 3, 6, pack<double>(std::vector<double>{0.5, 0.5, 0.75, 0.5, 0.5, 0.25}));
  sink.write(0, 4, pack<uint32_t>(std::vector<int>{3, 2, 0, 1}));
  sink.tokens_done(0, 6);
  return sink;
}

trace::SweepModel made_model() {
  trace::SweepModel m{.name = "made", .family = "raven"};
  m.layers = {{.index = 0, .family = "raven", .route_kind = "sparse", .route_heads = 1, .slots = 4, .top_k = 1},
              {.index = 1, .family = "gsa", .route_kind = "dense", .route_heads = 1, .slots = 8, .top_k = 8},
              {.index = 2, .family = "swa", .route_kind = "ring", .route_heads = 1, .slots = 4, .top_k = 1},
              {.index = 3, .family = "llama", .route_kind = "append", .route_heads = 1},
              {.index = 4, .family = "none", .route_kind = "none", .route_heads = 1, .why = "no memory"}};
  return m;
}

trace::Sweep made_sweep() {
  trace::Sweep s;
  s.settings.lengths = {64, 128};
  s.settings.prompts = 4;
  s.models = {made_model(), made_model()};
  s.models[1].name = "other";
  for (size_t m = 0; m < 2; ++m) {
    s.models[m].layers.resize(1);
    s.models[m].layers[0].route_heads = 2;
    for (int64_t length = 0; length < 2; ++length)
      for (int64_t number = 0; number < 4; ++number) {
        trace::SweepRow row{.length = length, .number = number, .digest = std::to_string(length * 4 + number), .answer_tokens = 8};
        row.right = m == 0 && (length == 0 || number == 0) ? 8 : 2;
        row.exact = row.right == 8;
        row.heads.assign(2 * size_t(trace::kSweepValues), 0.125 * double(number));
        row.heads[size_t(trace::kSweepValues) + size_t(SweepValue::head_score)] = number == 3 ? std::nan("") : 0.5;
        s.models[m].rows.push_back(row);
      }
  }
  return s;
}

}  // namespace

// Closed forms: k = 0 gives 1 - (a/2)^(1/n), k = n gives (a/2)^(1/n).
SLOTSCOPE_CASE(sweep_clopper_pearson_intervals) {
  const auto zero = analysis::clopper_pearson(0, 32, 0.99), all = analysis::clopper_pearson(32, 32, 0.99);
  CHECK_CLOSE(zero.low, 0, 0);
  CHECK_CLOSE(zero.high, 1 - std::pow(0.005, 1.0 / 32), 1e-12);
  CHECK_CLOSE(all.low, std::pow(0.005, 1.0 / 32), 1e-12);
  CHECK_CLOSE(all.high, 1, 0);
  // Twin: both ends solve the binomial tail equations, summed here by recurrence and not by logarithms.
  for (const auto& [right, count, confidence] : {std::tuple{17, 32, 0.99}, {12, 25, 0.95}, {1, 25, 0.95}, {24, 25, 0.99}, {3, 400, 0.9}}) {
    const auto i = analysis::clopper_pearson(right, count, confidence);
    const auto at_most = [count = count](int k, double p) {
      double term = std::pow(1 - p, count), sum = term;
      for (int j = 1; j <= k; ++j) term *= double(count - j + 1) / double(j) * p / (1 - p), sum += term;
      return sum;
    };
    CHECK_CLOSE(1 - at_most(right - 1, i.low), (1 - confidence) / 2, 1e-11);
    CHECK_CLOSE(at_most(right, i.high), (1 - confidence) / 2, 1e-11);
    CHECK(i.low < double(right) / count && double(right) / count < i.high);
  }
  const auto none = analysis::clopper_pearson(0, 0, 0.95);
  CHECK(none.low == 0 && none.high == 1);
}

SLOTSCOPE_CASE(sweep_heads_of_every_route_kind) {
  const auto sink = made_sink();
  const auto heads = analysis::sweep_heads(sink, 0, made_model());
  CHECK_EQ(heads.size(), size_t(5 * trace::kSweepValues));
  // Sparse: writes 3, 2, 0, 1 of 6 tokens; the retrieval write of token 2 is alone in slot 3 (0.75), that of token 5 shares slot 1.
  CHECK_CLOSE(value(heads, 0, SweepValue::esl_mean), 0.25, 1e-15);
  CHECK_CLOSE(value(heads, 0, SweepValue::esl_longest), 0.5, 1e-15);
  CHECK_CLOSE(value(heads, 0, SweepValue::esl_shortest), 1.0 / 6, 1e-15);
  CHECK_CLOSE(value(heads, 0, SweepValue::slots_used), 3, 0);
  CHECK_CLOSE(value(heads, 0, SweepValue::esl_gini), (2.0 * (1 * 0 + 2 * 1 + 3 * 2 + 4 * 3) - 5 * 6) / (4 * 6), 1e-15);
  CHECK_CLOSE(value(heads, 0, SweepValue::head_score), 0.75, 1e-15);
  // Dense: every slot by every token, none is retrieval only.
  CHECK_CLOSE(value(heads, 1, SweepValue::esl_mean), 1, 0);
  CHECK_CLOSE(value(heads, 1, SweepValue::esl_shortest), 1, 0);
  CHECK_CLOSE(value(heads, 1, SweepValue::slots_used), 8, 0);
  CHECK_CLOSE(value(heads, 1, SweepValue::head_score), 0, 0);
  // Ring of 4: tokens 0,4 | 1,5 | 2 | 3; token 2 is alone in its slot, token 5 is not.
  CHECK_CLOSE(value(heads, 2, SweepValue::esl_mean), 0.25, 1e-15);
  CHECK_CLOSE(value(heads, 2, SweepValue::esl_longest), 2.0 / 6, 1e-15);
  CHECK_CLOSE(value(heads, 2, SweepValue::head_score), 0.5, 1e-15);
  // Append: one write per slot, each token alone.
  CHECK_CLOSE(value(heads, 3, SweepValue::esl_mean), 1.0 / 6, 1e-15);
  CHECK_CLOSE(value(heads, 3, SweepValue::slots_used), 6, 0);
  CHECK(std::isnan(value(heads, 3, SweepValue::head_score)));  // every token has a slot of its own
  for (int v = 0; v < trace::kSweepValues; ++v) CHECK(std::isnan(value(heads, 4, SweepValue(v))));
}

SLOTSCOPE_CASE(sweep_heads_refuse_fields_that_do_not_cover_the_run) {
  auto sink = made_sink();
  sink.tokens_done(0, 5);
  CHECK_ERROR(analysis::sweep_heads(sink, 0, made_model()), "layers/0/route_index", "expected 5");
}

SLOTSCOPE_CASE(sweep_table_counts_and_means) {
  const auto sweep = made_sweep();
  const auto table = analysis::sweep_table(sweep);
  CHECK_EQ(table.models.size(), size_t(2));
  const auto& cell = table.models[0].lengths[1];
  CHECK_EQ(cell.length, int64_t(128));
  CHECK(cell.prompts == 4 && cell.exact == 1);
  CHECK_CLOSE(cell.accuracy, 0.25, 0);
  CHECK_CLOSE(cell.answer_right, (1 + 3 * 0.25) / 4, 1e-15);
  CHECK_CLOSE(cell.interval.low, analysis::clopper_pearson(1, 4, 0.95).low, 0);
  CHECK_CLOSE(cell.esl_mean, 0.1875, 1e-15);
  // Head 0: mean of 0, 0.125, 0.25, 0.375; head 1: mean of 0.5 three times, the NaN left out.
  CHECK(cell.best_layer == 0 && cell.best_head == 1);
  CHECK_CLOSE(cell.head_score, 0.5, 0);
  CHECK_EQ(cell.retrieval_heads, 2);
  CHECK(!table.models[0].by_rule);
  CHECK(table.models[0].grid.empty());
  CHECK(table.notes.empty());
  CHECK_CLOSE(table.models[1].lengths[0].accuracy, 0, 0);
}

SLOTSCOPE_CASE(sweep_table_by_depth_and_what_is_missing) {
  auto sweep = made_sweep();
  sweep.settings.depths = {0, 1};
  for (auto& row : sweep.models[0].rows) row.depth = row.number % 2;
  sweep.models[1].rows.resize(3);
  sweep.models[1].rows[2].digest = "else";
  const auto table = analysis::sweep_table(sweep);
  CHECK_EQ(table.models[0].grid.size(), size_t(4));
  const auto& cell = table.models[0].grid[3];  // length 128, depth 1: numbers 1 and 3
  CHECK(cell.length == 128 && cell.depth == 1 && cell.prompts == 2 && cell.exact == 0);
  CHECK_EQ(table.models[0].grid[2].exact, int64_t(1));
  CHECK(std::isnan(table.models[1].lengths[1].accuracy));
  CHECK_EQ(table.models[1].lengths[1].prompts, int64_t(0));
  bool some = false, differ = false;
  for (const auto& note : table.notes) {
    some |= note.find("other: 3 of 16") != std::string::npos;
    differ |= note.find("token ids in 1") != std::string::npos;
  }
  CHECK(some);
  CHECK(differ);
}

SLOTSCOPE_CASE(sweep_csv_has_a_line_per_model_and_length) {
  auto sweep = made_sweep();
  sweep.models[1].name = "a, \"b\"";
  const std::string csv = analysis::sweep_csv(sweep, analysis::sweep_table(sweep));
  CHECK(csv.find("\nmade,raven,128,all,4,1,0.25,") != std::string::npos);
  CHECK(csv.find("\n\"a, \"\"b\"\"\",raven,64,all,4,0,0,0,") != std::string::npos);
  CHECK(csv.find("Clopper-Pearson, 0.95") != std::string::npos);
  size_t lines = 0;
  for (size_t at = 0; (at = csv.find('\n', at)) != std::string::npos; ++at) ++lines;
  CHECK_EQ(lines, size_t(8 + 1 + 4));
}

}  // namespace slotscope::testing
