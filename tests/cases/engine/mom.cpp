// Mixture of memories: its routes, that a memory moves only with its own tokens, its options, and what is refused (spec:
// model-zoo 14, 17).
#include "tests/cases/engine/helpers.h"
#include "tests/cases/engine/tiny_checkpoint.h"

using namespace slotscope;
using namespace slotscope::testing;

namespace {

TinyCheckpoint made(Context& t, const std::string& name = "mom_default") {
  return TinyCheckpoint::from(t.data("golden/models/" + name));
}

std::vector<double> logits(Context& t, const TinyCheckpoint& c, const std::vector<int32_t>& ids) {
  const auto folder = t.temp();
  c.write(folder);
  const auto model = load_model(folder, "float64", t.device());
  return run_ids(*model, ids, capture("logits"))->values("output/logits");
}

engine::ModelInfo inspect(Context& t, const TinyCheckpoint& c) {
  const auto folder = t.temp();
  c.write(folder);
  return engine::inspect(*formats::Checkpoint::open(folder));
}

TinyCheckpoint with(TinyCheckpoint c, const std::string& key, const nlohmann::json& value) {
  c.config[key] = value;
  return c;
}

constexpr int64_t kMemories = 4, kTopK = 2, kShared = 4;

}  // namespace

// The routes from the mixer's own input and the router's weights, written out; the shared memory last.
SLOTSCOPE_CASE(routes) {
  const auto model = load_model(t.data("golden/models/mom_default"), "float64", t.device());
  const auto ids = some_ids(40, 53);
  const auto run = run_ids(*model, ids, capture("route,margin,ties,mixer_in", 7));
  const TinyCheckpoint weights = made(t);
  for (const std::string layer : {"0", "1"}) {
    const std::string p = "layers/" + layer + "/";
    const auto x = run->values(p + "mixer_in"), index = run->values(p + "route_index"),
               weight = run->values(p + "route_weight"), margin = run->values(p + "margin");
    const auto& gate = weights.tensors.at("model.layers." + layer + ".attn.gate.weight").values;
    CHECK_EQ(index.size(), ids.size() * (kTopK + 1));
    std::vector<double> writes(kMemories + 1, 0.0);
    for (size_t at = 0; at < ids.size(); ++at) {
      std::vector<std::pair<double, int>> score;
      double sum = 0;
      for (int e = 0; e < kMemories; ++e) {
        double dot = 0;
        for (size_t i = 0; i < 32; ++i) dot += double(gate[size_t(e) * 32 + i]) * x[at * 32 + i];
        score.push_back({-std::exp(dot), e});
        sum += std::exp(dot);
      }
      std::sort(score.begin(), score.end());
      const double kept = score[0].first + score[1].first;
      for (size_t k = 0; k < kTopK; ++k) {
        CHECK_EQ(index[at * 3 + k], double(score[k].second));
        CHECK_CLOSE(weight[at * 3 + k], score[k].first / kept, 1e-10);
        ++writes[size_t(score[k].second)];
      }
      CHECK_EQ(index[at * 3 + 2], double(kShared));
      CHECK_EQ(weight[at * 3 + 2], 1.0);
      CHECK_CLOSE(margin[at], (score[2].first - score[1].first) / sum, 1e-10);
      ++writes[kShared];
    }
    CHECK_EQ(run->values(p + "esl"), writes);
    CHECK_EQ(run->values(p + "ties"), std::vector<double>{0});
  }
  CHECK_EQ(run->layer(0).route_kind, std::string("sparse"));
  CHECK_EQ(run->layer(0).route_heads, int64_t(1));
  CHECK_EQ(run->layer(0).slots, int64_t(5));
}

// A memory that a token is not sent to keeps its state bit for bit; one that it is sent to moves.
SLOTSCOPE_CASE(only_routed_memories_move) {
  for (const std::string dtype : {"float64", "float32"}) {
    const auto model = load_model(t.data("golden/models/mom_default"), dtype, t.device());
    engine::RunOptions options = capture("route,state,write_strength", 5);
    options.plan.state_at = "0";
    for (int at = 1; at < 30; ++at) options.plan.state_at += "," + std::to_string(at);
    const auto run = run_ids(*model, some_ids(30, 53), options);
    const auto state = run->values("layers/1/state"), index = run->values("layers/1/route_index"),
               strength = run->values("layers/1/write_strength");
    const size_t size = 2 * 8 * 8, all = 5 * size;
    CHECK_EQ(state.size(), 30 * all);
    int moved = 0, kept = 0;
    for (size_t at = 1; at < 30; ++at)
      for (size_t e = 0; e < 5; ++e) {
        const bool routed = std::find(&index[at * 3], &index[at * 3] + 3, double(e)) != &index[at * 3] + 3;
        const double *now = &state[at * all + e * size], *before = now - all;
        const bool same = std::equal(now, now + size, before);
        CHECK_EQ(same, !routed);
        ++(same ? kept : moved);
      }
    CHECK(moved >= 87 && kept >= 40);
    for (const double s : strength) CHECK(s > 0 && s < 1);
  }
}

// One set of projections for all memories is the model whose memories have equal ones.
SLOTSCOPE_CASE(single_projections) {
  const auto ids = some_ids(40, 53);
  for (const bool shared : {true, false}) {
    TinyCheckpoint each = made(t), single = made(t);
    for (const std::string layer : {"0", "1"})
      for (const std::string stream : {"k", "v", "b", "a"}) {
        const std::string p = "model.layers." + layer + ".attn.";
        for (int e = 0; e < kMemories; ++e) {
          const std::string name = p + stream + "_proj." + std::to_string(e) + ".weight";
          each.tensors.at(name).values = each.tensors.at(p + "shared_" + stream + ".weight").values;
          single.tensors.erase(name);
        }
        if (!shared) each.tensors.erase(p + "shared_" + stream + ".weight");
      }
    each.config["shared_mem"] = single.config["shared_mem"] = shared;
    single.config["single_kv_proj"] = true;
    CHECK_EQ(logits(t, single, ids), logits(t, each, ids));
  }
}

// Every memory selected: no cut, and the weights are the softmax itself.
SLOTSCOPE_CASE(all_memories) {
  const auto folder = t.temp();
  with(made(t, "mom_noshared"), "topk", 4).write(folder);
  const auto model = load_model(folder, "float64", t.device());
  const auto run = run_ids(*model, some_ids(9, 53), capture("route,margin"));
  const auto weight = run->values("layers/0/route_weight");
  for (size_t at = 0; at < 9; ++at) {
    double sum = 0;
    for (size_t e = 0; e < 4; ++e) sum += weight[at * 4 + e];
    CHECK_CLOSE(sum, 1, 1e-12);
    CHECK(std::isnan(run->values("layers/0/margin")[at]));
  }
}

SLOTSCOPE_CASE(refused) {
  const nlohmann::json hybrid = {{"layers", {1}}, {"num_heads", 2}};
  CHECK_ERROR(inspect(t, with(made(t), "attn", hybrid)), "attn", "hybrid", "null");
  CHECK_ERROR(inspect(t, with(made(t), "use_short_conv", false)), "use_short_conv");
  CHECK_ERROR(inspect(t, with(made(t), "mom_backend", "mamba2")), "mom_backend", "mamba2", "gated_deltanet");
  CHECK_ERROR(inspect(t, with(made(t), "topk", 5)), "topk", "5", "4");
  CHECK_ERROR(inspect(t, with(made(t), "topk", 0)), "topk");
  CHECK_ERROR(inspect(t, with(made(t), "num_memories", 0)), "num_memories");
  CHECK_ERROR(inspect(t, with(made(t), "num_memories", 5)), "gate.weight", "[4, 32]", "[5, 32]");
  CHECK_ERROR(inspect(t, with(made(t), "num_memories", 3)), "gate.weight", "[4, 32]", "[3, 32]");
  CHECK_ERROR(inspect(t, with(made(t), "shared_mem", false)), "shared_", "not part");
  CHECK_ERROR(inspect(t, with(made(t, "mom_noshared"), "shared_mem", true)), "shared_k.weight", "missing");
  CHECK_ERROR(inspect(t, with(made(t), "single_kv_proj", true)), "_proj.0.weight", "not part");
  CHECK_ERROR(inspect(t, with(made(t), "head_dim", 16)), "q_proj.weight", "[16, 32]", "[32, 32]");
  CHECK_ERROR(inspect(t, with(made(t), "expand_v", 1e9)), "expand_v");
}
