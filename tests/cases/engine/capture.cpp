// What a plan asks for is what the sink gets: names, shapes, types, heads, tokens, layers, counters, notes.
#include "core/engine/session.h"
#include "tests/cases/engine/helpers.h"
#include "tests/cases/engine/tiny_checkpoint.h"

using namespace slotscope;
using namespace slotscope::testing;

namespace {

std::unique_ptr<engine::Model> default_model(const Context& t, const std::string& dtype = "float32") {
  return load_model(t.data("golden/models/raven_fla_default"), dtype, t.device());
}

const trace::DatasetSpec& dataset(const Ran& run, const std::string& path) {
  const int at = run.sink.find(0, path);
  if (at < 0) throw Error({.item = path, .found = "no such dataset"});
  return run.sink.runs[0].datasets[size_t(at)];
}

int64_t rows(const Ran& run, const std::string& path) {
  return run.sink.data[0][size_t(run.sink.find(0, path))].rows;
}

// Rows `tokens` and columns `heads` of a [T,heads,inner] array.
std::vector<double> cut(const std::vector<double>& all, int64_t heads, int64_t inner,
                        const std::vector<int64_t>& tokens, const std::vector<int64_t>& chosen) {
  std::vector<double> out;
  for (const int64_t t : tokens)
    for (const int64_t h : chosen)
      for (int64_t i = 0; i < inner; ++i) out.push_back(all[size_t((t * heads + h) * inner + i)]);
  return out;
}

}  // namespace

// Shapes, types and axes as in the table of the architecture page, and as many rows as tokens.
SLOTSCOPE_CASE(shapes_of_every_field) {
  const auto model = default_model(t);
  engine::RunOptions options = capture("*", 9);
  options.plan.read_at = "all";
  const auto run = run_ids(*model, some_ids(23, 53), options);
  using trace::ElementType;
  struct Row {
    const char* path;
    ElementType type;
    std::vector<int64_t> shape;
    int64_t rows;
  };
  const std::vector<Row> expected = {
      {"tokens/ids", ElementType::i32, {}, 23},
      {"tokens/position", ElementType::i64, {}, 23},
      {"tokens/roles", ElementType::u8, {}, 23},
      {"tokens/special", ElementType::u8, {}, 23},
      {"tokens/byte_offsets", ElementType::i64, {}, 24},
      {"layers/1/route_index", ElementType::u16, {4, 3}, 23},
      {"layers/1/route_weight", ElementType::f32, {4, 3}, 23},
      {"layers/1/log_decay", ElementType::f32, {4}, 23},
      {"layers/1/write_strength", ElementType::f32, {4, 3}, 23},
      {"layers/1/read_weight", ElementType::f32, {4, 8}, 23},
      {"layers/1/read_token", ElementType::i64, {}, 23},
      {"layers/1/state_k", ElementType::f32, {4, 8, 8}, 1},
      {"layers/1/state_v", ElementType::f32, {4, 8, 8}, 1},
      {"layers/1/state_token", ElementType::i64, {}, 1},
      {"layers/1/hidden", ElementType::f32, {32}, 23},
      {"layers/1/mixer_in", ElementType::f32, {32}, 23},
      {"layers/1/mixer_out", ElementType::f32, {32}, 23},
      {"layers/1/query", ElementType::f32, {4, 8}, 23},
      {"layers/1/key", ElementType::f32, {4, 8}, 23},
      {"layers/1/value", ElementType::f32, {4, 8}, 23},
      {"layers/1/esl", ElementType::u32, {4, 8}, 4},
      {"layers/1/selected", ElementType::u32, {4, 8}, 4},
      {"layers/1/ties", ElementType::u32, {4}, 4},
      {"layers/1/margin", ElementType::f32, {4}, 23},
      {"output/logits", ElementType::f32, {53}, 23},
  };
  for (const Row& row : expected) {
    CHECK_EQ(dataset(*run, row.path).type, row.type);
    CHECK_EQ(dataset(*run, row.path).shape, row.shape);
    CHECK_EQ(rows(*run, row.path), row.rows);
    CHECK(!dataset(*run, row.path).axes.empty() && !dataset(*run, row.path).description.empty());
  }
  CHECK(!run->has("layers/1/query_rot"));  // no RoPE in this model
  CHECK_EQ(run->values("layers/1/state_token"), (std::vector<double>{22}));
  CHECK_EQ(run->sink.done[0], int64_t(23));
  CHECK(run->sink.status == trace::Status::complete);
  CHECK_EQ(run->sink.runs[0].layers.size(), size_t(2));
  CHECK_EQ(run->layer(1).route_kind, std::string("sparse"));
  CHECK_EQ(run->layer(1).slots, int64_t(8));
}

// A float64 run stores float64; --store float16 halves route_weight and nothing else.
SLOTSCOPE_CASE(stored_types) {
  const auto wide = default_model(t, "float64");
  const auto run = run_ids(*wide, some_ids(5, 53), capture("route_weight,hidden"));
  CHECK(dataset(*run, "layers/0/route_weight").type == trace::ElementType::f64);
  CHECK(dataset(*run, "layers/0/hidden").type == trace::ElementType::f64);
  engine::RunOptions options = capture("route_weight,log_decay");
  options.plan.store = "float16";
  const auto half = run_ids(*default_model(t), some_ids(5, 53), options);
  const auto full = run_ids(*default_model(t), some_ids(5, 53), capture("route_weight"));
  CHECK(dataset(*half, "layers/0/route_weight").type == trace::ElementType::f16);
  CHECK(dataset(*half, "layers/0/log_decay").type == trace::ElementType::f32);
  CHECK_CLOSE(worst(half->values("layers/0/route_weight"), full->values("layers/0/route_weight")), 0,
              0x1p-11);
}

// Layers, heads and tokens restrict what is stored, never what is computed; counters keep covering all
// tokens.
SLOTSCOPE_CASE(restrictions) {
  const auto model = default_model(t);
  const auto ids = some_ids(30, 53);
  const char* fields = "route,hidden,log_decay,query,logits,ties,margin";
  const auto all = run_ids(*model, ids, capture(fields, 7));
  engine::RunOptions options = capture(fields, 7);
  options.plan.layers = {1};
  options.plan.heads = {1, 3};
  options.plan.tokens = {{3, 6}, {20, 25}, {29, 40}};
  const auto some = run_ids(*model, ids, options);
  const std::vector<int64_t> tokens = {3, 4, 5, 20, 21, 22, 23, 24, 29}, heads = {1, 3};
  CHECK(!some->has("layers/0/route_index"));
  CHECK_EQ(some->values("layers/1/token"), std::vector<double>(tokens.begin(), tokens.end()));
  CHECK_EQ(some->values("layers/1/route_index"),
           cut(all->values("layers/1/route_index"), 4, 3, tokens, heads));
  CHECK_EQ(some->values("layers/1/log_decay"), cut(all->values("layers/1/log_decay"), 4, 1, tokens, heads));
  CHECK_EQ(some->values("layers/1/query"), cut(all->values("layers/1/query"), 4, 8, tokens, heads));
  CHECK_EQ(some->values("layers/1/margin"), cut(all->values("layers/1/margin"), 4, 1, tokens, heads));
  CHECK_EQ(some->values("layers/1/hidden"), cut(all->values("layers/1/hidden"), 1, 32, tokens, {0}));
  CHECK_EQ(some->values("output/logits"), cut(all->values("output/logits"), 1, 53, tokens, {0}));
  CHECK_EQ(some->values("layers/1/esl"), cut(all->values("layers/1/esl"), 4, 8, {0}, heads));
  CHECK_EQ(some->outcome.ties, all->outcome.ties);
  CHECK_EQ(some->values("tokens/ids").size(), size_t(30));
}

// Counters are what counting the stored routes gives, also with grouped heads.
SLOTSCOPE_CASE(counters_count_the_routes) {
  const auto folder = t.temp();
  TinyCheckpoint::raven({{"num_kv_heads", 2}, {"decay_type", "GLA"}}).write(folder);
  const auto model = load_model(folder, "float32", t.device());
  const auto run =
      run_ids(*model, some_ids(70, 53), capture("route,log_decay,write_strength,read_weight", 16));
  CHECK_EQ(dataset(*run, "layers/0/route_index").shape, (std::vector<int64_t>{2, 3}));
  CHECK_EQ(dataset(*run, "layers/0/log_decay").shape, (std::vector<int64_t>{2, 3}));
  CHECK_EQ(dataset(*run, "layers/0/read_weight").shape, (std::vector<int64_t>{4, 8}));
  const auto index = run->values("layers/0/route_index"), weight = run->values("layers/0/route_weight");
  const auto decay = run->values("layers/0/log_decay"), strength = run->values("layers/0/write_strength");
  std::vector<double> esl(16), selected(16);
  for (size_t at = 0; at < index.size(); ++at) {
    const size_t slot = (at / 3 % 2) * 8 + size_t(index[at]);
    ++selected[slot];
    esl[slot] += weight[at] != 0;
    CHECK_CLOSE(strength[at], 1 - std::exp(decay[at] * weight[at]), 1e-6);
  }
  CHECK_EQ(run->values("layers/0/esl"), esl);
  CHECK_EQ(run->values("layers/0/selected"), selected);
}

// Ranks are in descending selection score, and the margin is the gap to the best slot left out: with K + 1
// the next score appears.
SLOTSCOPE_CASE(rank_order_and_margin) {
  TinyCheckpoint c = TinyCheckpoint::raven({{"num_hidden_layers", 1}, {"router_score", "softmax"}});
  const auto k3 = t.temp(), k4 = t.temp();
  c.write(k3);
  c.config["topk"] = 4;
  c.write(k4);
  const auto ids = some_ids(40, 53);
  const auto three = run_ids(*load_model(k3, "float64", t.device()), ids, capture("route_weight,margin"));
  const auto four = run_ids(*load_model(k4, "float64", t.device()), ids, capture("route_weight"));
  const auto a = three->values("layers/0/route_weight"), b = four->values("layers/0/route_weight"),
             gap = three->values("layers/0/margin");
  CHECK_EQ(gap.size(), size_t(160));
  for (size_t row = 0; row < gap.size(); ++row) {
    CHECK(a[row * 3] >= a[row * 3 + 1] && a[row * 3 + 1] >= a[row * 3 + 2]);
    CHECK_CLOSE(gap[row], b[row * 4 + 2] - b[row * 4 + 3], 1e-12);
  }
}

// Attention layers of a hybrid have no routes: their rule is stored and a note says so (R11).
SLOTSCOPE_CASE(hybrid_layers) {
  const auto model = load_model(t.data("golden/models/raven_fla_hybrid_list"), "float32", t.device());
  const auto run = run_ids(*model, some_ids(12, 53), capture("route,read_weight,query_rot"));
  int attention = 0;
  for (const engine::LayerInfo& layer : model->info().layers) {
    const std::string group = "layers/" + std::to_string(layer.index) + "/";
    CHECK_EQ(run->has(group + "route_index"), layer.mixer == "raven");
    CHECK_EQ(run->layer(layer.index).route_kind, layer.route_kind);
    if (layer.mixer != "attention") continue;
    ++attention;
    CHECK(run->has(group + "query_rot"));
    CHECK_EQ(dataset(*run, group + "read_weight").shape.back(),
             layer.route_kind == "ring" ? layer.slots : int64_t(12));
    const std::string number = "layer " + std::to_string(layer.index);
    CHECK(std::any_of(run->outcome.notes.begin(), run->outcome.notes.end(), [&](const std::string& note) {
      return note.find(number + " is attention") != std::string::npos;
    }));
  }
  CHECK(attention > 0 && attention < int(model->info().layers.size()));
}

// A known field of another family is a note, not an error.
SLOTSCOPE_CASE(fields_of_other_families) {
  const auto run = run_ids(*default_model(t), some_ids(4, 53), capture("gamma,esl"));
  CHECK(!run->has("layers/0/gamma"));
  CHECK(run->has("layers/0/esl"));
  CHECK(std::any_of(run->outcome.notes.begin(), run->outcome.notes.end(),
                    [](const std::string& note) { return note.find("gamma") == 0; }));
  // All that RAM-Net tells of addresses (as in the default capture), and states under the names of all families: no notes.
  CHECK_EQ(run_ids(*default_model(t), some_ids(4, 53), capture("addresses,esl,state_k,slot_value"))->outcome.notes,
           std::vector<std::string>());
}

// Nothing captured: tokens and nothing else, with the same answer.
SLOTSCOPE_CASE(empty_plan) {
  const auto model = default_model(t);
  engine::RunOptions options = capture("");
  options.generate = 3;
  engine::RunOptions full = capture("*");
  full.generate = 3;
  const auto bare = run_ids(*model, some_ids(9, 53), options), rich = run_ids(*model, some_ids(9, 53), full);
  for (const auto& d : bare->sink.runs[0].datasets)
    CHECK(d.path.starts_with("tokens/") || d.path.starts_with("output/"));
  CHECK_EQ(bare->outcome.runs[0].output_ids, rich->outcome.runs[0].output_ids);
}

// --stop-after: that layer is the last one that runs; there are no logits and nothing is generated.
SLOTSCOPE_CASE(stop_after) {
  const auto model = default_model(t);
  const auto whole = run_ids(*model, some_ids(20, 53), capture("hidden,logits"));
  engine::RunOptions options = capture("hidden,logits");
  options.stop_after = 0;
  const auto part = run_ids(*model, some_ids(20, 53), options);
  CHECK_EQ(part->values("layers/0/hidden"), whole->values("layers/0/hidden"));
  CHECK(!part->has("layers/1/hidden"));
  CHECK(!part->has("output/logits"));
}

// Read and state positions: the default is the last prompt token and every answer token, and the end.
SLOTSCOPE_CASE(read_and_state_positions) {
  const auto model = default_model(t);
  engine::RunOptions options = capture("read_weight,state_v", 4);
  options.generate = 4;
  const auto run = run_ids(*model, some_ids(10, 53), options);
  const int64_t fed = run->outcome.runs[0].tokens;
  std::vector<double> reads;
  for (int64_t at = 9; at < fed; ++at) reads.push_back(double(at));
  CHECK_EQ(run->values("layers/0/read_token"), reads);
  CHECK_EQ(run->values("layers/0/state_token"), (std::vector<double>{double(fed - 1)}));
  options.plan.read_at = "2:5,8:9";
  options.plan.state_at = "none";
  const auto other = run_ids(*model, some_ids(10, 53), options);
  CHECK_EQ(other->values("layers/0/read_token"), (std::vector<double>{2, 3, 4, 8}));
  CHECK(!other->has("layers/0/state_v"));
}

// Everything needed to repeat the run is stored with it.
SLOTSCOPE_CASE(run_attributes) {
  engine::RunOptions options = capture("route", 5);
  options.plan.layers = {0};
  const auto run = run_ids(*default_model(t), some_ids(6, 53), options);
  const auto find = [&](const std::string& name) -> std::string {
    for (const auto& [key, value] : run->sink.runs[0].attributes) {
      if (key != name) continue;
      if (const auto* text = std::get_if<std::string>(&value)) return *text;
      if (const auto* number = std::get_if<int64_t>(&value)) return std::to_string(*number);
    }
    return "absent";
  };
  CHECK_EQ(find("segment"), std::string("5"));
  CHECK_EQ(find("capture"), std::string("route_index,route_weight,esl,selected"));
  CHECK_EQ(find("capture_layers"), std::string("0"));
  CHECK_EQ(find("read_at"), std::string("query"));
  CHECK_EQ(run->sink.model.family, std::string("raven"));
  CHECK_EQ(run->sink.model.dtype, std::string("float32"));
  CHECK(!run->sink.model.config_json.empty() && run->sink.model.tensor_digest.size() == 64);
}
