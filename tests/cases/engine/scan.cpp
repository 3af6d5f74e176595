// The numbers of bad-inputs R1, R3, R4 through whole layers of a model made for them, and frozen slots in a
// trained one.
#include <cstring>
#include <map>

#include "tests/cases/engine/helpers.h"
#include "tests/cases/engine/tiny_checkpoint.h"

using namespace slotscope;
using namespace slotscope::testing;

namespace {

double silu(double x) { return x / (1 + std::exp(-x)); }

// x with silu(x) = y, for small y.
double inverse_silu(double y) {
  double x = 2 * y;
  for (int i = 0; i < 100; ++i) {
    const double s = 1 / (1 + std::exp(-x));
    x -= (silu(x) - y) / (s * (1 + x * (1 - s)));
  }
  return x;
}

// One layer, one head, hidden 4; every token is the vector (1,1,1,1) up to the norm's epsilon.
TinyCheckpoint one_head(const nlohmann::json& more) {
  nlohmann::json options = {{"hidden_size", 4},
                            {"num_hidden_layers", 1},
                            {"num_heads", 1},
                            {"vocab_size", 2},
                            {"intermediate_size", 4}};
  options.update(more);
  TinyCheckpoint c = TinyCheckpoint::raven(options);
  c.set("model.embeddings.weight", std::vector<float>(8, 1e3f));
  c.set("model.layers.0.attn_norm.weight", {1, 1, 1, 1});
  return c;
}

// Rows that give `logits` when multiplied with (1,1,1,1).
std::vector<float> rows_for(const std::vector<double>& logits) {
  std::vector<float> rows;
  for (const double x : logits)
    for (int i = 0; i < 4; ++i) rows.push_back(float(x / 4));
  return rows;
}

}  // namespace

// R3: logits [2,1,0,-1], k = 2; R4: decay -0.5.
SLOTSCOPE_CASE(route_and_gate_by_hand) {
  for (const bool bias : {false, true}) {
    TinyCheckpoint c = one_head({{"num_slots", 4}, {"topk", 2}, {"bias_rmm", bias}});
    c.set("model.layers.0.attn.r_proj.weight", rows_for({2, 1, 0, -1}));
    c.set("model.layers.0.attn.a_proj.weight", {0, 0, 0, 0});
    c.set("model.layers.0.attn.A_log", {0});
    c.set("model.layers.0.attn.dt_bias", {float(std::log(std::expm1(0.5)))});
    if (bias) c.set("model.layers.0.attn.r_bias", {0, 0, 1, 0});
    const auto folder = t.temp();
    c.write(folder);
    for (const std::string dtype : {"float32", "float64"}) {
      const auto model = load_model(folder, dtype, t.device());
      const auto run = run_ids(*model, {0}, capture("route*,log_decay,write_strength"));
      const auto weight = run->values("layers/0/route_weight"),
                 strength = run->values("layers/0/write_strength");
      CHECK_EQ(run->values("layers/0/route_index"),
               bias ? (std::vector<double>{2, 0}) : (std::vector<double>{0, 1}));
      CHECK_CLOSE(weight[0], bias ? 0.362110 : 0.546449, 1e-6);
      CHECK_CLOSE(weight[1], bias ? 0.637890 : 0.453551, 1e-6);
      CHECK_CLOSE(run->values("layers/0/log_decay")[0], -0.5, 1e-6);
      if (!bias) {
        CHECK_CLOSE(strength[0], 0.239078, 1e-6);
        CHECK_CLOSE(strength[1], 0.202900, 1e-6);
      }
    }
  }
}

// Softmax scoring: weights are the softmax over all slots, not renormalised over the selected ones.
SLOTSCOPE_CASE(softmax_weights_are_not_renormalised) {
  TinyCheckpoint c = one_head({{"num_slots", 4}, {"topk", 2}, {"router_score", "softmax"}});
  c.set("model.layers.0.attn.r_proj.weight", rows_for({2, 1, 0, -1}));
  const auto folder = t.temp();
  c.write(folder);
  const auto run = run_ids(*load_model(folder, "float64", t.device()), {0}, capture("route_weight"));
  const double sum = std::exp(2) + std::exp(1) + 1 + std::exp(-1);
  CHECK_CLOSE(run->values("layers/0/route_weight")[0], std::exp(2) / sum, 1e-7);
  CHECK_CLOSE(run->values("layers/0/route_weight")[1], std::exp(1) / sum, 1e-7);
}

// R1: the output norm of u = [1,2,-1,0.5]e-3 is 0.294086 with eps 1e-5 (goombalab) and 0.624695 with 1e-6
// (FLA). One slot that is rewritten fully makes o = v, so v is chosen such that silu(silu(v)) = u.
SLOTSCOPE_CASE(output_norm_epsilon_by_hand) {
  TinyCheckpoint c = one_head({{"num_slots", 1}, {"topk", 1}});
  std::vector<double> v;
  for (const double u : {1e-3, 2e-3, -1e-3, 0.5e-3}) v.push_back(inverse_silu(inverse_silu(u)));
  c.set("model.layers.0.attn.v_proj.weight", rows_for(v));
  c.set("model.layers.0.attn.A_log", {5});
  c.set("model.layers.0.attn.dt_bias", {30});
  c.set("model.layers.0.attn.g_norm.weight", {1, 1, 1, 1});
  c.set("model.layers.0.attn.o_proj.weight", {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1});
  const auto folder = t.temp();
  c.write(folder);
  for (const auto& [flavour, expected] : {std::pair{"goombalab", 0.294086}, std::pair{"fla", 0.624695}}) {
    const auto run = run_ids(*load_model(folder, "float64", t.device(), flavour), {0}, capture("mixer_out"));
    CHECK_CLOSE(run->values("layers/0/mixer_out")[0], expected, 1e-5);
  }
}

// Equal router scores: the lower slots win, on every device, and the cut is counted as a tie.
SLOTSCOPE_CASE(ties_go_to_the_lower_slot) {
  TinyCheckpoint c = one_head({{"num_slots", 4}, {"topk", 2}});
  c.set("model.layers.0.attn.r_proj.weight", rows_for({1, 1, 1, 1}));
  const auto folder = t.temp();
  c.write(folder);
  const auto run =
      run_ids(*load_model(folder, "float32", t.device()), {0, 1, 0}, capture("route,ties,margin"));
  CHECK_EQ(run->values("layers/0/route_index"), (std::vector<double>{0, 1, 0, 1, 0, 1}));
  CHECK_EQ(run->values("layers/0/ties"), (std::vector<double>{3}));
  CHECK_EQ(run->values("layers/0/margin"), (std::vector<double>{0, 0, 0}));
  CHECK_EQ(run->outcome.ties, int64_t(3));
  CHECK_EQ(run->values("layers/0/esl"), (std::vector<double>{3, 3, 0, 0}));
}

// Every slot selected: there is no cut, so no tie and no margin.
SLOTSCOPE_CASE(no_cut_when_every_slot_is_selected) {
  TinyCheckpoint c = one_head({{"num_slots", 2}, {"topk", 2}});
  c.set("model.layers.0.attn.r_proj.weight", rows_for({1, 1}));
  const auto folder = t.temp();
  c.write(folder);
  const auto run = run_ids(*load_model(folder, "float32", t.device()), {0}, capture("ties,margin"));
  CHECK_EQ(run->outcome.ties, int64_t(0));
  CHECK(std::isnan(run->values("layers/0/margin")[0]));
}

// R4: a slot that no token of a stretch selects keeps its state bit for bit.
SLOTSCOPE_CASE(frozen_slots_are_bit_identical) {
  for (const std::string dtype : {"float32", "float64"}) {
    const auto model = load_model(t.data("golden/models/raven_fla_gate_T80"), dtype, t.device());
    engine::RunOptions options = capture("route,state_k,state_v", 32);
    options.plan.state_at = "39,44";
    const auto run = run_ids(*model, some_ids(60, model->info().vocab_rows), options);
    int frozen = 0, moved = 0;
    for (const engine::LayerInfo& layer : model->info().layers) {
      const std::string group = "layers/" + std::to_string(layer.index) + "/";
      CHECK_EQ(run->values(group + "state_token"), (std::vector<double>{39, 44}));
      const auto index = run->values(group + "route_index");
      for (const std::string field : {"state_k", "state_v"}) {
        const auto state = run->values(group + field);
        const int64_t width = field == "state_k" ? layer.d_k : layer.d_v,
                      size = layer.route_heads * layer.slots * width;
        for (int64_t h = 0; h < layer.route_heads; ++h)
          for (int64_t m = 0; m < layer.slots; ++m) {
            bool selected = false;
            for (int64_t at = 40; at <= 44; ++at)
              for (int64_t k = 0; k < layer.top_k; ++k)
                selected |= index[size_t((at * layer.route_heads + h) * layer.top_k + k)] == double(m);
            const double* before = &state[size_t((h * layer.slots + m) * width)];
            const bool same = std::memcmp(before, before + size, size_t(width) * sizeof(double)) == 0;
            if (!selected) CHECK(same);
            (selected ? moved : frozen) += selected ? !same : 1;
          }
      }
    }
    CHECK(frozen > 0);
    CHECK(moved > 0);
  }
}

// The read softmax and the states obey o = sum p S^v and sum p = 1; with --read-at all every token has a row.
SLOTSCOPE_CASE(read_weights_sum_to_one) {
  const auto model = load_model(t.data("golden/models/raven_fla_default"), "float64", t.device());
  engine::RunOptions options = capture("read_weight", 7);
  options.plan.read_at = "all";
  const auto run = run_ids(*model, some_ids(23, 53), options);
  const auto p = run->values("layers/1/read_weight");
  CHECK_EQ(p.size(), size_t(23 * 4 * 8));
  CHECK_EQ(run->values("layers/1/read_token").size(), size_t(23));
  for (size_t row = 0; row < p.size() / 8; ++row) {
    double sum = 0;
    for (size_t m = 0; m < 8; ++m) sum += p[row * 8 + m];
    CHECK_CLOSE(sum, 1, 1e-12);
  }
}
