// Every golden Raven case: logits, residual stream, mixer outputs, routes and write strengths (spec:
// model-zoo 19.5).
#include "tests/cases/engine/helpers.h"

using namespace slotscope;
using namespace slotscope::testing;

namespace {

struct Errors {
  double logits = 0, block = 0, mixer = 0, strength = 0, keep = 0;
  int sets = 0;  // rows whose selected set differs from the slots with log_keep != 0
  int64_t ties = 0;
};

// log_keep and write_strength of the golden file are [T,H,M], repeated to the query heads; the trace holds
// [T,H_r,K].
void compare_routes(const Golden& golden, const Ran& run, int layer, Errors& e) {
  const std::string i = std::to_string(layer), group = "layers/" + i + "/";
  const trace::LayerSpec& spec = run.layer(layer);
  const auto keep = golden.values("log_keep." + i), strength = golden.values("write_strength." + i);
  const auto index = run.values(group + "route_index"), weight = run.values(group + "route_weight");
  const auto decay = run.values(group + "log_decay"), written = run.values(group + "write_strength");
  const int64_t tokens = int64_t(keep.size()) / (spec.heads * spec.slots),
                group_size = spec.heads / spec.route_heads;
  const bool per_slot = int64_t(decay.size()) == tokens * spec.route_heads * spec.top_k;
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t h = 0; h < spec.heads; ++h) {
      std::vector<double> ours_keep(size_t(spec.slots), 0.0), ours_strength(size_t(spec.slots), 0.0);
      std::vector<bool> selected(size_t(spec.slots), false);
      const int64_t row = t * spec.route_heads + h / group_size;
      for (int64_t k = 0; k < spec.top_k; ++k) {
        const int64_t at = row * spec.top_k + k;
        const size_t slot = size_t(index[size_t(at)]);
        selected[slot] = true;
        ours_keep[slot] = decay[size_t(per_slot ? at : row)] * weight[size_t(at)];
        ours_strength[slot] = written[size_t(at)];
      }
      for (int64_t m = 0; m < spec.slots; ++m) {
        const size_t at = size_t((t * spec.heads + h) * spec.slots + m);
        if (selected[size_t(m)] != (keep[at] != 0)) ++e.sets;
        e.keep = std::max(e.keep, std::abs(ours_keep[size_t(m)] - keep[at]));
        e.strength = std::max(e.strength, std::abs(ours_strength[size_t(m)] - strength[at]));
      }
    }
}

Errors compare(Context& t, const std::string& name, const std::string& dtype, const std::string& flavour) {
  const Golden golden(t.data("golden/models/" + name) / "golden.safetensors");
  const auto model = load_model(t.data("golden/models/" + name), dtype, t.device(), flavour);
  const auto run =
      run_ids(*model, golden.ids(), capture("route,log_decay,write_strength,hidden,mixer_out,logits,ties"));
  Errors e;
  e.logits = worst(run->values("output/logits"), golden.values(dtype == "float64" ? "logits_f64" : "logits"));
  for (const engine::LayerInfo& layer : model->info().layers) {
    const std::string i = std::to_string(layer.index);
    const double block = worst(run->values("layers/" + i + "/hidden"), golden.values("block_out." + i));
    const double mixer = worst(run->values("layers/" + i + "/mixer_out"), golden.values("mixer_out." + i));
    if (!(block <= e.block)) e.block = block;
    if (!(mixer <= e.mixer)) e.mixer = mixer;
    CHECK_EQ(layer.mixer == "raven", golden.has("log_keep." + i));
    if (golden.has("log_keep." + i)) compare_routes(golden, *run, layer.index, e);
  }
  e.ties = run->outcome.ties;
  t.note(name + " " + dtype + ": logits " + sci(e.logits) + ", block_out " + sci(e.block) + ", mixer_out " +
         sci(e.mixer) + ", write_strength " + sci(e.strength) + ", log_keep " + sci(e.keep));
  return e;
}

std::string manifest_flavour(const Context& t, const std::string& name) {
  std::ifstream file(t.data("golden/models/manifest.json"));
  for (const auto& entry : nlohmann::json::parse(file))
    if (entry.at("name") == name) return entry.at("flavour");
  return "";
}

}  // namespace

SLOTSCOPE_CASE(float64_is_exact) {
  const auto names = golden_cases(t);
  CHECK_EQ(names.size(), size_t(10));
  for (const std::string& name : names) {
    const Errors e = compare(t, name, "float64", manifest_flavour(t, name));
    CHECK_CLOSE(e.logits, 0, 1e-9);
    // The files hold the residual, the mixer outputs and the strengths rounded to float32.
    CHECK_CLOSE(e.block, 0, 1e-5);
    CHECK_CLOSE(e.mixer, 0, 1e-5);
    CHECK_CLOSE(e.strength, 0, 1e-6);
    CHECK_CLOSE(e.keep, 0, 1e-5);
    CHECK_EQ(e.sets, 0);
    CHECK_EQ(e.ties, int64_t(0));
  }
}

SLOTSCOPE_CASE(float32) {
  const double tolerance = t.device() == "cpu" ? 1e-4 : 2e-4;
  for (const std::string& name : golden_cases(t)) {
    const Errors e = compare(t, name, "float32", manifest_flavour(t, name));
    CHECK_CLOSE(e.logits, 0, tolerance);
    CHECK_CLOSE(e.block, 0, tolerance);
    CHECK_CLOSE(e.mixer, 0, tolerance);
    CHECK_CLOSE(e.strength, 0, 1e-6);
    CHECK_EQ(e.sets, 0);
  }
}

// The folder alone tells the flavour of every golden case.
SLOTSCOPE_CASE(flavour_is_detected) {
  for (const std::string& name : golden_cases(t)) {
    const auto info = engine::inspect(*formats::Checkpoint::open(t.data("golden/models/" + name)));
    CHECK_EQ(info.flavour, manifest_flavour(t, name));
  }
}

// raven_gb_eps has norm_eps 1e-2: with the other flavour's rule for g_norm the logits must move, or the test
// above shows nothing (R1).
SLOTSCOPE_CASE(the_fixed_epsilon_matters) {
  const std::string name = "raven_gb_eps";
  const Golden golden(t.data("golden/models/" + name) / "golden.safetensors");
  const auto model = load_model(t.data("golden/models/" + name), "float64", "cpu", "fla");
  const auto run = run_ids(*model, golden.ids(), capture("logits"));
  CHECK(worst(run->values("output/logits"), golden.values("logits_f64")) > 1e-3);
}
