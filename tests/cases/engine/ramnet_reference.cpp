// The RAM-Net numbers of reference.json through a real layer: checkpoints whose layer turns token t into exactly the logits,
// gamma and values of the reference. What the run stores, and read attribution from the trace file, against it to 1e-12.
#include "core/analysis/head_data.h"
#include "core/trace/writer.h"
#include "tests/cases/engine/helpers.h"
#include "tests/cases/engine/ramnet_twin.h"

using namespace slotscope;
using namespace slotscope::testing;

namespace {

using nlohmann::json;

json reference(const Context& t) {
  std::ifstream file(t.data("golden/ramnet/reference.json"));
  return json::parse(file).at("memory");
}

// A double as three floats whose sum it is, in columns t, t + 16 and t + 32 of a matrix with 64 columns. The layer's input for
// token t is 1 in these three and in t + 48, and 0 elsewhere, after a norm that divides by an exact 1/4.
void put(TinyTensor& matrix, size_t row, size_t token, double value) {
  for (const size_t part : {0, 16, 32}) {
    const float piece = float(value);
    matrix.values[row * 64 + part + token] = piece;
    value -= double(piece);
  }
}

TinyCheckpoint exact_layer(const json& memory, const json& rules, const json& gamma) {
  const size_t tokens = memory.at("values").size(), U = memory.at("U"), d_p = memory.at("d_p"), d_v = memory.at("d_v");
  json own = {{"order", U}, {"codes_per_factor", d_p}, {"top_k", memory.at("K")}};
  own.update(rules);
  TinyCheckpoint c;
  c.config = {{"model_type", "ramnet"},   {"hidden_size", 64},      {"num_hidden_layers", 1},
              {"num_attention_heads", 1}, {"head_dim", d_v},        {"vocab_size", 16},
              {"intermediate_size", 1},   {"rms_norm_eps", 1e-300}, {"tie_word_embeddings", false},
              {"eos_token_id", nullptr},  {"ramnet", own}};
  const std::string p = "model.layers.0.", a = p + "attn.";
  c.shape("model.embed_tokens.weight", {16, 64});
  for (size_t t = 0; t < 16; ++t)
    for (size_t part = 0; part < 64; part += 16) c.tensors.at("model.embed_tokens.weight").values[t * 64 + part + t] = 1;
  c.shape(a + "r_proj.weight", {int64_t(U * d_p), 64});
  c.shape(a + "w_proj.weight", {int64_t(U * d_p), 64});
  c.shape(a + "v_proj.weight", {int64_t(d_v), 64});
  c.shape(a + "o_proj.weight", {64, int64_t(d_v)});
  const bool gated = own.value("update_rule", "gsu") == "gsu" && !own.value("cumulative", false);
  if (gated) c.shape(a + "gamma_proj.weight", {1, 64}), c.shape(a + "gamma_proj.bias", {1});
  for (size_t t = 0; t < tokens; ++t) {
    for (size_t n = 0; n < U * d_p; ++n) {
      put(c.tensors.at(a + "r_proj.weight"), n, t, memory.at("read_logits")[t][n / d_p][n % d_p]);
      put(c.tensors.at(a + "w_proj.weight"), n, t, memory.at("write_logits")[t][n / d_p][n % d_p]);
    }
    for (size_t n = 0; n < d_v; ++n) put(c.tensors.at(a + "v_proj.weight"), n, t, memory.at("values")[t][n]);
    if (gated) put(c.tensors.at(a + "gamma_proj.weight"), 0, t, gamma[t]);
  }
  for (const char* norm : {"input_layernorm.weight", "post_attention_layernorm.weight"}) {
    c.shape(p + norm, {64});
    for (float& v : c.tensors.at(p + norm).values) v = 0.25;
  }
  for (const auto& [name, shape] : std::map<std::string, std::vector<int64_t>>{{p + "mlp.gate_proj.weight", {1, 64}},
                                                                               {p + "mlp.up_proj.weight", {1, 64}},
                                                                               {p + "mlp.down_proj.weight", {64, 1}},
                                                                               {"model.norm.weight", {64}},
                                                                               {"lm_head.weight", {16, 64}}})
    c.shape(name, shape);
  return c;
}

std::shared_ptr<trace::Trace> run_to_file(Context& t, const TinyCheckpoint& c, const std::vector<int32_t>& ids,
                                          int64_t segment) {
  const auto folder = t.temp();
  c.write(folder);
  const auto model = load_model(folder, "float64", t.device());
  engine::RunOptions options = capture("*", segment);
  options.plan.read_at = "all";
  options.plan.state_at = "";
  for (size_t i = 0; i < ids.size() && i < 6; ++i) options.plan.state_at += (i ? "," : "") + std::to_string(i);
  const auto file = t.temp() / "trace.h5";
  trace::Hdf5Sink sink(file);
  Progress progress;
  model->run({ids_prompt(ids)}, nullptr, options, sink, progress);
  sink.finish(trace::Status::complete);
  return trace::Trace::open(file);
}

std::vector<int32_t> first_ids(size_t n) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < n; ++i) ids.push_back(int32_t(i));
  return ids;
}

std::vector<double> flat(const json& list) {
  std::vector<double> out;
  for (const json& item : list) {
    if (item.is_array()) {
      const auto inner = flat(item);
      out.insert(out.end(), inner.begin(), inner.end());
    } else {
      out.push_back(item.get<double>());
    }
  }
  return out;
}
std::vector<double> flat(const json& steps, const char* key) {
  std::vector<double> out;
  for (const json& step : steps) {
    const auto values = flat(step.at(key));
    out.insert(out.end(), values.begin(), values.end());
  }
  return out;
}

// Rows of A of query head 0, as load_head makes them from the file.
std::vector<std::vector<double>> attribution(Context& t, const trace::Trace& trace, int head = 0, int layer = 0) {
  const auto data = analysis::load_head(trace, 0, layer, head);
  CHECK_EQ(data->no_attribution, std::string());
  std::vector<std::vector<double>> rows;
  for (int64_t now = 0; now < trace.run(0).tokens; ++now) rows.push_back(data->attribution(now, head).weight);
  return rows;
}

double worst_sum(const trace::Trace& trace, const std::vector<std::vector<double>>& a, int head = 0, int layer = 0) {
  const std::string at = "layers/" + std::to_string(layer) + "/";
  const auto value = trace.read_head(0, at + "value", head), out = trace.read_head(0, at + "read_out", head);
  const size_t d_v = value.size() / a.size();
  double most = 0;
  for (size_t t = 0; t < a.size(); ++t)
    for (size_t n = 0; n < d_v; ++n) {
      double sum = 0;
      for (size_t s = 0; s < a[t].size(); ++s) sum += a[t][s] * value[s * d_v + n];
      const double error = std::abs(sum - out[t * d_v + n]);
      if (!(error <= most)) most = error;
    }
  return most;
}

struct Variant {
  const char* run;
  json cape;
  int direction;
};

}  // namespace

SLOTSCOPE_CASE(memory_runs) {
  const json memory = reference(t);
  const size_t T = memory.at("T");
  double most = 0;
  const auto same = [&](const std::vector<double>& found, const std::vector<double>& expected) {
    const double error = worst(found, expected);
    CHECK_CLOSE(error, 0, 1e-12);
    most = std::max(most, error);
  };
  for (const Variant& v :
       {Variant{"nope", json::array({json::array()}), 1}, Variant{"cape_plus", {{0}}, 1}, Variant{"cape_minus", {{0}}, -1}}) {
    const json& expected = memory.at("runs").at(v.run);
    for (const char* readout : {"standard", "mass_aware"})
      for (const std::string update : {"gsu 0", "gsu 1e-6", "pdma"}) {
        json rules = {{"cape_heads", v.cape},
                      {"cape_direction", v.direction},
                      {"readout", readout},
                      {"state_eps", update == "gsu 0" ? 0.0 : 1e-6}};
        if (update == "pdma") rules.update({{"update_rule", "pdma"}, {"pdma_gamma", 0.5}});
        const auto trace = run_to_file(t, exact_layer(memory, rules, memory.at("gamma")), first_ids(T), 4);
        const auto get = [&](const char* field) { return trace->read(0, std::string("layers/0/") + field); };
        CHECK_EQ(get("route_index"), flat(expected.at("write_slots")));
        CHECK_EQ(get("read_index"), flat(expected.at("read_slots")));
        same(get("route_weight"), flat(expected.at("write_weights")));
        same(get("read_route_weight"), flat(expected.at("read_weights")));
        const std::string out = std::string("out_") + readout;
        if (update == "gsu 1e-6") {
          same(get("read_out"), flat(expected.at("gsu_eps1e-6_" + out)));
        } else {
          const json& steps = expected.at(update == "pdma" ? "pdma_gamma0.5_eps1e-6" : "gsu_eps0");
          same(get("read_out"), flat(steps, out.c_str()));
          same(get("mass"), flat(steps, "mass"));
          auto state = flat(steps, "state");
          const auto mass = flat(steps, "mass");
          if (update == "pdma")
            for (size_t n = 0; n < state.size(); ++n) state[n] /= mass[n / 2] + 1e-6;
          same(get("slot_value"), state);
        }
        const auto a = attribution(t, *trace);
        CHECK_CLOSE(worst_sum(*trace, a), 0, 1e-12);
        if (update != "gsu 0") continue;
        const json& rows = expected.at(std::string("induced_attention_") + readout);
        for (size_t now = 0; now < T; ++now) {
          CHECK_EQ(a[now].size(), rows[now].size());
          same(a[now], flat(rows[now]));
        }
      }
  }
  t.note("18 runs, worst " + sci(most));
}

// The layer's gate at the reference's weights: a slot with mass 1 is written with w and must keep rho. One factor of two codes,
// K = 2: logits (0, logit w) give the slots (1 - w, w), and gamma of the first token writes mass without a past.
SLOTSCOPE_CASE(retention_gate) {
  const json memory = reference(t);
  double most = 0;
  size_t rows = 0;
  for (const json& row : memory.at("retention_gate")) {
    const double w = row.at("w"), gamma = row.at("gamma"), rho = row.at("retention");
    if (w == 0 || w == 1) continue;  // no finite logits: the kernels' cases have them
    const double logit = std::log(w) - std::log1p(-w);
    const json one = {{"U", 1},
                      {"d_p", 2},
                      {"K", 2},
                      {"d_v", 1},
                      {"values", {{1}, {1}}},
                      {"read_logits", {{{0, 0}}, {{0, 0}}}},
                      {"write_logits", {{{0, 0}}, {{0, logit}}}}};
    const auto trace = run_to_file(t, exact_layer(one, {{"state_eps", 0.0}}, {0.0, gamma}), first_ids(2), 2);
    const auto mass = trace->read(0, "layers/0/mass");  // after token 0: 1/2 in both; after token 1: rho / 2 + w
    CHECK_EQ(mass.size(), size_t(4));
    const double error = std::abs(mass[3] - (rho / 2 + w));
    CHECK_CLOSE(error, 0, 1e-12);
    most = std::max(most, error);
    ++rows;
  }
  CHECK(rows >= 15);
  t.note(std::to_string(rows) + " gates, worst " + sci(most));
}

// K = M and no forgetting: the mass-aware readout is attention with the address kernel; GSU with gamma -> -inf comes to it.
SLOTSCOPE_CASE(cumulative_limit) {
  json memory = reference(t);
  const json limit = memory.at("cumulative_limit_full_K");
  memory["K"] = 9;
  const size_t T = memory.at("T");
  const auto run = [&](json rules, double gamma) {
    rules["state_eps"] = 0.0;
    return run_to_file(t, exact_layer(memory, rules, std::vector<double>(T, gamma)), first_ids(T), 6);
  };
  std::map<std::string, std::vector<double>> outs;
  for (const char* readout : {"standard", "mass_aware"}) {
    const auto trace = run({{"cumulative", true}, {"readout", readout}}, 0);
    CHECK(!trace->run(0).find("layers/0/gamma"));
    const auto out = trace->read(0, "layers/0/read_out");
    CHECK_CLOSE(worst(out, flat(limit.at("steps"), (std::string("out_") + readout).c_str())), 0, 1e-12);
    CHECK_CLOSE(worst(trace->read(0, "layers/0/mass"), flat(limit.at("steps"), "mass")), 0, 1e-12);
    CHECK_CLOSE(worst(trace->read(0, "layers/0/slot_value"), flat(limit.at("steps"), "state")), 0, 1e-12);
    CHECK_CLOSE(worst_sum(*trace, attribution(t, *trace)), 0, 1e-12);
    outs[readout] = out;
  }
  CHECK_CLOSE(worst(outs["mass_aware"], flat(limit.at("kernel_attention_output"))), 0, 1e-12);
  for (const json& step : limit.at("approach")) {
    const double gap = worst(run(json::object(), step.at("gamma"))->read(0, "layers/0/read_out"), outs["standard"]);
    CHECK_CLOSE(gap, step.at("max_abs_gap_to_limit").get<double>(), 1e-12);
    const double aware =
        worst(run({{"readout", "mass_aware"}}, step.at("gamma"))->read(0, "layers/0/read_out"), outs["mass_aware"]);
    CHECK_CLOSE(aware, 0, std::exp(step.at("gamma").get<double>()));
  }
}
