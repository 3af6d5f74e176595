// Every golden case of the families beside Raven: logits, residual stream, mixer outputs, dense gates; whole = segmented =
// token by token; what each layer says of itself (spec: model-zoo 17, 19.5).
#include "tests/cases/engine/family_cases.h"
#include "tests/cases/engine/tiny_checkpoint.h"

using namespace slotscope;
using namespace slotscope::testing;

namespace {

struct Errors {
  double logits = 0, block = 0, mixer = 0, strength = 0, keep = 0;
};

void raise(double& most, double error) {
  if (!(error <= most)) most = error;  // NaN sticks
}

// Dense gates of the golden file are [T,H,M], repeated to the query heads; the trace holds [T,H_r,M].
double worst_gate(const Golden& golden, const std::string& name, const Ran& run, const std::string& path, int layer) {
  const trace::LayerSpec& spec = run.layer(layer);
  const auto expected = golden.values(name), ours = run.values(path);
  const int64_t group = spec.heads / spec.route_heads;
  if (expected.size() != ours.size() * size_t(group)) return NAN;
  double most = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const int64_t m = int64_t(i) % spec.slots, h = int64_t(i) / spec.slots % spec.heads,
                  t = int64_t(i) / (spec.slots * spec.heads);
    raise(most, std::abs(ours[size_t((t * spec.route_heads + h / group) * spec.slots + m)] - expected[i]));
  }
  return most;
}

Errors compare(Context& t, const std::string& name, const std::string& dtype) {
  const Golden golden(t.data("golden/models/" + name) / "golden.safetensors");
  const auto model = load_model(t.data("golden/models/" + name), dtype, t.device());
  const auto run = run_ids(*model, golden.ids(), capture("log_decay,write_strength,hidden,mixer_out,logits"));
  Errors e;
  e.logits = worst(run->values("output/logits"), golden.values(dtype == "float64" ? "logits_f64" : "logits"));
  for (const engine::LayerInfo& layer : model->info().layers) {
    const std::string i = std::to_string(layer.index), group = "layers/" + i + "/";
    raise(e.block, worst(run->values(group + "hidden"), golden.values("block_out." + i)));
    raise(e.mixer, worst(run->values(group + "mixer_out"), golden.values("mixer_out." + i)));
    if (!golden.has("log_keep." + i)) continue;
    raise(e.keep, worst_gate(golden, "log_keep." + i, *run, group + "log_decay", layer.index));
    raise(e.strength, worst_gate(golden, "write_strength." + i, *run, group + "write_strength", layer.index));
  }
  t.note(name + " " + dtype + ": logits " + sci(e.logits) + ", block_out " + sci(e.block) + ", mixer_out " +
         sci(e.mixer) + (e.keep > 0 ? ", write_strength " + sci(e.strength) + ", log_keep " + sci(e.keep) : ""));
  return e;
}

}  // namespace

SLOTSCOPE_CASE(golden_float64) {
  for (const FamilyCase& c : family_cases()) {
    const Errors e = compare(t, c.name, "float64");
    CHECK_CLOSE(e.logits, 0, 1e-9);
    // The files hold these rounded to float32.
    CHECK_CLOSE(e.block, 0, 1e-5);
    CHECK_CLOSE(e.mixer, 0, 1e-5);
    CHECK_CLOSE(e.strength, 0, 1e-6);
    CHECK_CLOSE(e.keep, 0, 1e-5);
  }
}

SLOTSCOPE_CASE(golden_float32) {
  const double tolerance = t.device() == "cpu" ? 1e-4 : 2e-4;
  for (const FamilyCase& c : family_cases()) {
    const Errors e = compare(t, c.name, "float32");
    CHECK_CLOSE(e.logits, 0, tolerance);
    CHECK_CLOSE(e.block, 0, tolerance);
    CHECK_CLOSE(e.mixer, 0, tolerance);
    CHECK_CLOSE(e.strength, 0, 1e-6);
    CHECK_CLOSE(e.keep, 0, 1e-4);
  }
}

// No case of the manifest is forgotten, and each says of its mixers what the table of the families says.
SLOTSCOPE_CASE(every_case_is_there) {
  std::ifstream file(t.data("golden/models/manifest.json"));
  std::set<std::string> known, done;
  for (const auto& entry : nlohmann::json::parse(file)) known.insert(entry.at("name").get<std::string>());
  for (const FamilyCase& c : family_cases()) done.insert(c.name);
  for (const std::string& name : known)
    if (!name.starts_with("raven_")) CHECK(done.contains(name));
  for (const FamilyCase& c : family_cases()) {
    CHECK(known.contains(c.name));
    const auto info = engine::inspect(*formats::Checkpoint::open(t.data("golden/models/" + c.name)));
    CHECK_EQ(info.model_type, c.model_type);
    CHECK_EQ(info.layers[0].mixer, c.mixer);
    CHECK_EQ(info.layers[0].route_kind, c.route_kind);
    CHECK_EQ(info.layers[0].slots, c.slots);
    CHECK_EQ(info.layers[0].state_bytes, c.state_elements * 4);
    CHECK(!info.card.router.empty() && !info.card.content.empty() && !info.card.decay.empty() &&
          !info.card.readout.empty());
  }
}

namespace {

// Whole, in pieces and token by token: logits and every stored field.
void check_segments(Context& t, const std::string& name, engine::Model& model) {
  const bool wide = model.options().dtype == "float64";
  double most = 0;
  for (const int64_t length : {1, 63, 64, 65, 129}) {
    const auto ids = some_ids(length, model.info().vocab_rows, uint64_t(length));
    const std::string fields = "logits,state_k,state_v,state,write_strength,log_decay,route,margin";
    const auto whole = run_ids(model, ids, capture(fields, 4096));
    const auto logits = whole->values("output/logits");
    CHECK_EQ(logits.size(), size_t(length * model.info().vocab_rows));
    const double scale = wide ? 1e-9 : 1e-5 * std::max(1.0, largest(logits));
    for (const int64_t segment : {64, 7, 1}) {
      if (segment >= length) continue;
      const auto pieces = run_ids(model, ids, capture(fields, segment));
      const double error = worst(logits, pieces->values("output/logits"));
      CHECK_CLOSE(error, 0, scale);
      raise(most, error);
      for (const trace::DatasetSpec& d : whole->sink.runs[0].datasets)
        if (d.path.starts_with("layers/") && d.type != trace::ElementType::i64)
          CHECK_CLOSE(worst(finite(whole->values(d.path)), finite(pieces->values(d.path))), 0,
                      scale * std::max(1.0, largest(finite(whole->values(d.path)))));
    }
  }
  t.note(name + " " + model.options().dtype + ": worst logit error " + sci(most));
}

void check_long(Context& t, const std::string& name, engine::Model& model) {
  const auto ids = some_ids(1000, model.info().vocab_rows, 1000);
  const auto logits = run_ids(model, ids, capture("logits", 4096))->values("output/logits");
  CHECK_EQ(logits.size(), size_t(1000 * model.info().vocab_rows));
  const double scale = model.options().dtype == "float64" ? 1e-9 : 1e-5 * std::max(1.0, largest(logits));
  double most = 0;
  for (const int64_t segment : {129, 1}) {
    const double error = worst(logits, run_ids(model, ids, capture("logits", segment))->values("output/logits"));
    CHECK_CLOSE(error, 0, scale);
    raise(most, error);
  }
  t.note(name + " " + model.options().dtype + ", 1000 tokens: worst logit error " + sci(most));
}

// The case with its second layer replaced by attention: a window of 5, two key heads of four, biases.
TinyCheckpoint hybrid_of(Context& t, const std::string& name) {
  TinyCheckpoint c = TinyCheckpoint::from(t.data("golden/models/" + name));
  const std::string p = "model.layers.1.attn.";
  std::erase_if(c.tensors, [&](const auto& item) { return item.first.starts_with(p); });
  const int64_t d = c.config.at("hidden_size"), kv = d / 2;
  c.config["attn"] = {{"layers", {1}}, {"num_heads", 4}, {"num_kv_heads", 2}, {"qkv_bias", true}, {"window_size", 5},
                      {"rope_theta", 500}};
  std::mt19937_64 random(11);
  std::normal_distribution<double> normal;
  for (const auto& [stream, rows] : {std::pair{"q", d}, std::pair{"k", kv}, std::pair{"v", kv}, std::pair{"o", d}}) {
    c.shape(p + stream + "_proj.weight", {rows, d});
    if (stream[0] != 'o') c.shape(p + stream + "_proj.bias", {rows});
  }
  for (auto& [tensor, value] : c.tensors)
    if (tensor.starts_with(p))
      for (float& x : value.values) x = float(normal(random) * (value.shape.size() == 2 ? 1.2 / std::sqrt(double(d)) : 0.3));
  return c;
}

}  // namespace

SLOTSCOPE_CASE(whole_is_segmented) {
  for (const std::string dtype : {"float64", "float32"}) {
    std::set<std::string> seen;
    for (const FamilyCase& c : family_cases()) {
      const auto model = load_model(t.data("golden/models/" + c.name), dtype, t.device());
      check_segments(t, c.name, *model);
      if (!seen.insert(c.model_type).second && c.route_kind != "ring") continue;
      check_long(t, c.name, *model);
    }
  }
}

// Every family that allows hybrids, its memory in front of attention with a window.
SLOTSCOPE_CASE(hybrids_are_segmented) {
  for (const std::string dtype : {"float64", "float32"})
    for (const char* name : {"raven_fla_default", "gsa_default", "abc_default", "gla_default", "retnet_default",
                             "linear_elementwise_product", "delta_default", "gdn_default", "kda_default"}) {
      const auto folder = t.temp();
      hybrid_of(t, name).write(folder);
      const auto model = load_model(folder, dtype, t.device());
      CHECK_EQ(model->info().layers[1].route_kind, std::string("ring"));
      CHECK(model->info().layers[0].mixer != "attention");
      check_segments(t, std::string("hybrid of ") + name, *model);
      check_long(t, std::string("hybrid of ") + name, *model);
    }
}
