// Whole = segmented: the same prompt at once, in pieces of several sizes and token by token (spec: bad-inputs
// B44, without padding).
#include "tests/cases/engine/helpers.h"
#include "tests/cases/engine/tiny_checkpoint.h"

using namespace slotscope;
using namespace slotscope::testing;

namespace {

struct Cuts {
  int64_t compared = 0, differing = 0,
          close_calls = 0;  // close_calls: routes that differ where the gap is at most 1e-6
};

void compare_routes(const Ran& whole, const Ran& pieces, const engine::ModelInfo& info, Cuts& cuts) {
  for (const engine::LayerInfo& layer : info.layers) {
    if (layer.mixer != "raven") continue;
    const std::string group = "layers/" + std::to_string(layer.index) + "/";
    const auto a = whole.values(group + "route_index"), b = pieces.values(group + "route_index");
    const auto gap = whole.values(group + "margin");
    if (a.size() != b.size() || gap.size() * size_t(layer.top_k) != a.size()) {
      cuts.differing += 1000;
      return;
    }
    for (size_t row = 0; row < gap.size(); ++row) {
      const auto set = [&](const std::vector<double>& all) {
        std::vector<double> s(all.begin() + int64_t(row) * layer.top_k,
                              all.begin() + int64_t(row + 1) * layer.top_k);
        std::sort(s.begin(), s.end());
        return s;
      };
      ++cuts.compared;
      if (set(a) == set(b)) continue;
      ++(gap[row] > 1e-6 ? cuts.differing : cuts.close_calls);
    }
  }
}

const char* const kFields = "route,margin,logits,hidden,ties";

void check_model(Context& t, const std::string& name, engine::Model& model,
                 const std::vector<int64_t>& lengths, const std::vector<int64_t>& segments) {
  const bool wide = model.options().dtype == "float64";
  Cuts cuts;
  double most = 0;
  for (const int64_t length : lengths) {
    const auto ids = some_ids(length, model.info().vocab_rows, uint64_t(length));
    const auto whole = run_ids(model, ids, capture(kFields, 4096));
    const auto logits = whole->values("output/logits");
    CHECK_EQ(logits.size(), size_t(length * model.info().vocab_rows));
    const double tolerance = wide ? 1e-9 : 1e-5 * std::max(1.0, largest(logits));
    for (const int64_t segment : segments) {
      if (segment >= length) continue;
      const auto pieces = run_ids(model, ids, capture(kFields, segment));
      const double error = worst(logits, pieces->values("output/logits"));
      CHECK_CLOSE(error, 0, tolerance);
      most = std::max(most, error);
      compare_routes(*whole, *pieces, model.info(), cuts);
      for (const engine::LayerInfo& layer : model.info().layers)
        if (layer.mixer == "raven" && cuts.close_calls == 0)
          for (const std::string field : {"esl", "selected", "ties"}) {
            const std::string path = "layers/" + std::to_string(layer.index) + "/" + field;
            CHECK_EQ(whole->values(path), pieces->values(path));
          }
    }
  }
  CHECK_EQ(cuts.differing, int64_t(0));
  CHECK(cuts.close_calls * 2000 <= cuts.compared);
  t.note(name + " " + model.options().dtype + ": worst logit error " + sci(most) + ", " +
         std::to_string(cuts.compared) + " cuts, " + std::to_string(cuts.close_calls) +
         " differ within a gap of 1e-6");
}

const std::vector<int64_t> kLengths = {1, 8, 63, 64, 65, 127, 129, 200};

}  // namespace

SLOTSCOPE_CASE(golden_models) {
  for (const std::string dtype : {"float64", "float32"})
    for (const std::string name :
         {"raven_fla_gate_T80", "raven_fla_gla_softmax_bias_t2r", "raven_fla_hybrid_list"}) {
      const auto model = load_model(t.data("golden/models/" + name), dtype, t.device());
      check_model(t, name, *model, kLengths, {64, 7, 1});
    }
}

// 200 tokens as 64 then 136 is what two segments of 136 cannot give: the state cut makes it.
SLOTSCOPE_CASE(uneven_segments) {
  const auto model = load_model(t.data("golden/models/raven_fla_default"), "float64", t.device());
  const auto ids = some_ids(200, 53);
  engine::RunOptions options = capture("logits,state_k", 4096);
  const auto whole = run_ids(*model, ids, options);
  options.plan.state_at = "63,199";
  const auto pieces = run_ids(*model, ids, options);
  CHECK_CLOSE(worst(whole->values("output/logits"), pieces->values("output/logits")), 0, 1e-9);
  const auto states = pieces->values("layers/1/state_k");
  CHECK_CLOSE(worst(whole->values("layers/1/state_k"),
                    std::vector<double>(states.begin() + int64_t(states.size()) / 2, states.end())),
              0, 1e-9);
}

// Hybrid of every kind of attention layer: window, full, grouped heads, biases, with and without RoPE;
// grouped Raven heads.
SLOTSCOPE_CASE(hybrid_and_grouped_heads) {
  const nlohmann::json attn = {{{"layers", {1}},
                                {"num_heads", 4},
                                {"num_kv_heads", 2},
                                {"qkv_bias", true},
                                {"window_size", 5},
                                {"rope_theta", 500}},
                               {{"layers", {2}}, {"num_heads", 2}}};
  const auto grouped = t.temp(), no_rope = t.temp();
  TinyCheckpoint::raven({{"num_hidden_layers", 4}, {"num_kv_heads", 2}, {"use_rope", true}, {"attn", attn}})
      .write(grouped);
  TinyCheckpoint other = TinyCheckpoint::raven(
      {{"attn", {{"layers", {0}}, {"num_heads", 4}, {"use_rope", false}, {"window_size", 4}}}});
  other.config.erase("use_rope");
  other.config.erase("attnres_block_size");
  other.write(no_rope);
  for (const std::string dtype : {"float64", "float32"}) {
    check_model(t, "grouped hybrid", *load_model(grouped, dtype, t.device()), {1, 5, 6, 65, 129},
                {64, 6, 5, 1});
    check_model(t, "window without RoPE", *load_model(no_rope, dtype, t.device()), {1, 5, 65, 129},
                {64, 4, 1});
  }
}

// The trained model, where decays and gaps are those of real use.
SLOTSCOPE_CASE(bundled_checkpoint) {
  const auto folder = t.resource("checkpoints/raven-passkey");
  const auto model = load_model(folder, "float32", t.device());
  const auto tokenizer = formats::Tokenizer::load(folder);
  formats::PasskeyOptions passkey;
  passkey.length = 400;
  const auto prompt = formats::make_passkey(*tokenizer, passkey);
  engine::RunOptions options = capture(kFields, 4096);
  options.generate = 0;
  const auto whole = run_prompts(*model, {prompt}, options, tokenizer.get());
  const auto logits = whole->values("output/logits");
  Cuts cuts;
  for (const int64_t segment : {256, 63, 1}) {
    options.segment = segment;
    const auto pieces = run_prompts(*model, {prompt}, options, tokenizer.get());
    CHECK_CLOSE(worst(logits, pieces->values("output/logits")), 0, 1e-5 * std::max(1.0, largest(logits)));
    compare_routes(*whole, *pieces, model->info(), cuts);
  }
  CHECK_EQ(cuts.differing, int64_t(0));
  CHECK(cuts.close_calls * 2000 <= cuts.compared);
  t.note(std::to_string(cuts.compared) + " cuts, " + std::to_string(cuts.close_calls) +
         " differ within a gap of 1e-6");
}

// Attention in pieces against attention written out: softmax over exactly the window, the current token
// included (spec: model-zoo 1.6).
SLOTSCOPE_CASE(window_holds_exactly_w_tokens) {
  const int64_t window = 4, tokens = 11;
  const auto folder = t.temp();
  TinyCheckpoint::raven(
      {{"num_hidden_layers", 1},
       {"attn", {{"layers", {0}}, {"num_heads", 4}, {"num_kv_heads", 2}, {"window_size", window}}}})
      .write(folder);
  const auto model = load_model(folder, "float64", t.device());
  engine::RunOptions options = capture("read_weight,query_rot,key_rot", 3);
  options.plan.read_at = "all";
  const auto run = run_ids(*model, some_ids(tokens, 53), options);
  const auto p = run->values("layers/0/read_weight"), q = run->values("layers/0/query_rot"),
             k = run->values("layers/0/key_rot");
  CHECK_EQ(run->layer(0).route_kind, std::string("ring"));
  CHECK_EQ(p.size(), size_t(tokens * 4 * window));
  for (int64_t token = 0; token < tokens; ++token)
    for (int64_t h = 0; h < 4; ++h) {
      std::vector<double> expected(size_t(window), 0.0);
      double sum = 0;
      for (int64_t j = std::max<int64_t>(0, token - window + 1); j <= token; ++j) {
        double dot = 0;
        for (int64_t i = 0; i < 8; ++i)
          dot += q[size_t((token * 4 + h) * 8 + i)] * k[size_t((j * 2 + h / 2) * 8 + i)];
        sum += expected[size_t(j % window)] = std::exp(dot / std::sqrt(8.0));
      }
      for (int64_t m = 0; m < window; ++m)
        CHECK_CLOSE(p[size_t((token * 4 + h) * window + m)], expected[size_t(m)] / sum, 1e-12);
    }
}
