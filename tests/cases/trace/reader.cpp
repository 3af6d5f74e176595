// What Trace gives to the analyses: routes, counters, ranges, restricted tokens.
#include "core/error.h"
#include "core/trace/trace.h"
#include "core/trace/writer.h"
#include "tests/cases/case.h"
#include "tests/cases/trace/made_trace.h"

#include <cmath>
#include <cstring>
#include <filesystem>

namespace fs = std::filesystem;
using namespace slotscope;
using namespace slotscope::testing;
using trace::ElementType;
using trace::Hdf5Sink;
using trace::Status;
using trace::Trace;

namespace {

template <class T>
std::vector<std::byte> bytes(std::vector<T> values) {
  std::vector<std::byte> out(values.size() * sizeof(T));
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

}  // namespace

SLOTSCOPE_CASE(routes_of_one_head) {
  MadeOptions o;
  const fs::path out = t.temp() / "trace.h5";
  const std::vector<trace::RunSpec> runs{made_run(o, 0)};
  Hdf5Sink sink(out);
  sink.begin(made_model(), runs);
  feed(sink, runs, o);
  sink.finish(Status::complete);
  const auto file = Trace::open(out);
  CHECK(file->has_routes(0, 1) && file->has_routes(0, 2) && !file->has_routes(0, 9) && !file->has_routes(1, 0));
  const HeadRoutes r = file->routes(0, 1, 2);
  CHECK_EQ(r.rows, o.tokens);
  CHECK_EQ(r.tokens, o.tokens);
  CHECK_EQ(r.slots, 16);
  CHECK_EQ(r.top_k, 3);
  CHECK(r.token.empty() && r.has_decay() && !r.per_slot_decay && r.has_strength());
  for (int64_t row = 0; row < o.tokens; ++row) {
    const double a = made_value("layers/1/log_decay", ElementType::f32, row, 2);
    CHECK_EQ(r.decay(row, 0), a);
    for (int k = 0; k < 3; ++k) {
      const double w = made_value("layers/1/route_weight", ElementType::f32, row, 2 * 3 + k);
      const size_t i = size_t(row * 3 + k);
      CHECK_EQ(double(r.index[i]), made_value("layers/1/route_index", ElementType::u16, row, 2 * 3 + k));
      CHECK_EQ(r.weight[i], w);
      CHECK_CLOSE(r.strength[i], 1 - std::exp(a * w), 1e-12 * std::max(1.0, std::exp(a * w)));
    }
  }
  const auto esl = file->counters(0, 1, "esl");
  CHECK_EQ(esl.size(), size_t(4));
  for (size_t h = 0; h < esl.size(); ++h)
    for (size_t m = 0; m < 16; ++m)
      CHECK_EQ(double(esl[h][m]), made_value("layers/1/esl", ElementType::u32, 0, int64_t(h * 16 + m)));
  CHECK_EQ(file->counters(0, 1, "ties").size(), size_t(1));
  CHECK(file->counters(0, 1, "selected").empty());
  const HeadRoutes attention = file->routes(0, 2, 0);  // no stored routes: token t is slot t
  CHECK(attention.rows == o.tokens && attention.slots == int(o.tokens) && attention.top_k == 1);
  CHECK(attention.index[17] == 17 && attention.weight_at(17, 0) == 1 && attention.strength_at(17, 0) == 1);
  CHECK_ERROR(file->routes(0, 7, 0), "layer 7");
  CHECK_ERROR(file->routes(0, 0, 4), "head 4", "heads 0 to 3");
  CHECK_ERROR(file->read(0, "layers/0/margin"), "margin", "--capture margin");
  CHECK_ERROR(file->read(0, "tokens/ids", 200, 101), "rows 200 to 301", "0 to 300");
  CHECK_ERROR(file->read(0, "tokens/ids", -1, 1), "rows -1");
  const auto part = file->read_head(0, "layers/0/route_weight", 3, 100, 7);
  CHECK_EQ(part.size(), size_t(21));
  for (size_t i = 0; i < part.size(); ++i)
    CHECK_EQ(part[i],
             made_value("layers/0/route_weight", ElementType::f32, 100 + int64_t(i / 3), 9 + int64_t(i % 3)));
  const auto ids = file->read_int(0, "tokens/ids", 7, 2);
  CHECK_EQ(double(ids[1]), made_value("tokens/ids", ElementType::i32, 8, 0));
}

// --tokens: the layer datasets have their own length and layers/i/token says which tokens; stored strengths
// and per-slot decay are taken as they are.
SLOTSCOPE_CASE(restricted_tokens_and_stored_strength) {
  trace::RunSpec run;
  run.prompt_tokens = 6;
  run.layers = {{.index = 3,
                 .family = "raven",
                 .route_kind = "sparse",
                 .heads = 2,
                 .route_heads = 1,
                 .slots = 70000,
                 .top_k = 2}};
  run.datasets = {{"tokens/ids", ElementType::i32, true, {}, 6, "T", "ids"},
                  {"layers/3/token", ElementType::i64, true, {}, 3, "T_c", "captured tokens"},
                  {"layers/3/route_index", ElementType::u32, true, {1, 2}, 3, "T,H_r,K", "slots"},
                  {"layers/3/route_weight", ElementType::f64, true, {1, 2}, 3, "T,H_r,K", "weights"},
                  {"layers/3/log_decay", ElementType::f64, true, {1, 2}, 3, "T,H_r,K", "decay"},
                  {"layers/3/write_strength", ElementType::f64, true, {1, 2}, 3, "T,H_r,K", "strength"}};
  const fs::path out = t.temp() / "trace.h5";
  Hdf5Sink sink(out);
  sink.begin({}, {run});
  sink.append(0, 0, 6, bytes<int32_t>({5, 6, 7, 8, 9, 10}));
  sink.append(0, 1, 3, bytes<int64_t>({1, 2, 5}));
  sink.append(0, 2, 3, bytes<uint32_t>({69999, 1, 2, 3, 4, 65536}));
  sink.append(0, 3, 3, bytes<double>({0.1, 0.2, 0.3, 0.4, 0.5, 1.0 / 3}));
  sink.append(0, 4, 3, bytes<double>({-1, -2, -3, -4, -5, -6}));
  sink.append(0, 5, 3, bytes<double>({0.01, 0.02, 0.03, 0.04, 0.05, 0.06}));
  sink.tokens_done(0, 6);
  sink.finish(Status::complete);
  const auto r = Trace::open(out)->routes(0, 3, 0);
  CHECK_EQ(r.rows, int64_t(3));
  CHECK_EQ(r.tokens, int64_t(6));
  CHECK_EQ(r.token, (std::vector<int64_t>{1, 2, 5}));
  CHECK_EQ(r.index, (std::vector<uint32_t>{69999, 1, 2, 3, 4, 65536}));
  CHECK(r.per_slot_decay);
  CHECK_EQ(r.decay(2, 1), -6.0);
  CHECK_EQ(r.weight[5], 1.0 / 3);  // float64 stays float64
  CHECK_EQ(r.strength[5], 0.06);
}

SLOTSCOPE_CASE(a_slot_out_of_range_is_no_number_to_plot) {
  trace::RunSpec run;
  run.layers = {{.index = 0,
                 .family = "raven",
                 .route_kind = "sparse",
                 .heads = 1,
                 .route_heads = 1,
                 .slots = 4,
                 .top_k = 1}};
  run.datasets = {{"tokens/ids", ElementType::i32, true, {}, 1, "T", "ids"},
                  {"layers/0/route_index", ElementType::u16, true, {1, 1}, 1, "T,H_r,K", "slots"},
                  {"layers/0/route_weight", ElementType::f32, true, {1, 1}, 1, "T,H_r,K", "weights"}};
  const fs::path out = t.temp() / "trace.h5";
  Hdf5Sink sink(out);
  sink.begin({}, {run});
  sink.append(0, 0, 1, bytes<int32_t>({5}));
  sink.append(0, 1, 1, bytes<uint16_t>({4}));
  sink.append(0, 2, 1, bytes<float>({1}));
  sink.tokens_done(0, 1);
  sink.finish(Status::complete);
  CHECK_ERROR(Trace::open(out)->routes(0, 0, 0), "slot 4", "slots 0 to 3");
}
