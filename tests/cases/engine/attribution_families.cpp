// Read attribution of every family explains its output: sum_j A[t,j] v_j = o_t, with A from what a run stored in a file and
// o_t as the mixer itself computed it (read_out), in float64.
#include "core/analysis/head_data.h"
#include "core/trace/writer.h"
#include "tests/cases/engine/family_cases.h"
#include "tests/cases/engine/hf_twin.h"

using namespace slotscope;
using namespace slotscope::testing;

namespace {

std::shared_ptr<trace::Trace> run_to_file(Context& t, const std::filesystem::path& folder, std::vector<int32_t> ids,
                                          int64_t segment) {
  auto model = load_model(folder, "float64");
  engine::RunOptions options = capture("attribution,value,memory_value,read_out", segment);
  options.plan.read_at = "all";
  const std::filesystem::path out = t.temp() / (folder.filename().string() + std::to_string(segment) + ".h5");
  trace::Hdf5Sink sink(out);
  Progress progress;
  model->run({ids_prompt(std::move(ids))}, nullptr, options, sink, progress);
  sink.finish(trace::Status::complete);
  return trace::Trace::open(out);
}

std::shared_ptr<trace::Trace> run_golden(Context& t, const std::string& name, int64_t segment) {
  const std::filesystem::path folder = t.data("golden/models/" + name);
  return run_to_file(t, folder, Golden(folder / "golden.safetensors").ids(), segment);
}

struct Found {
  double worst = 0;     // of |sum - o_t|
  double largest = 0;   // of |o_t|
  int64_t heads = 0, rows = 0;
};

// All heads of one layer, all tokens, all value channels.
void explain(Context& t, const trace::Trace& trace, const trace::LayerSpec& layer, Found& found) {
  const trace::RunInfo& info = trace.run(0);
  const std::string at = "layers/" + std::to_string(layer.index) + "/";
  const int64_t group = layer.heads / layer.route_heads, d_v = info.find(at + "value")->shape[2];
  for (int head = 0; head < int(layer.route_heads); ++head) {
    const auto data = analysis::load_head(trace, 0, layer.index, head);
    CHECK_EQ(data->no_attribution, std::string());
    const std::vector<double> value = trace.read_head(0, at + "value", head);
    for (int h = head * int(group); h < (head + 1) * int(group); ++h, ++found.heads) {
      const std::vector<double> out = trace.read_head(0, at + "read_out", h);
      CHECK_EQ(int64_t(out.size()), info.tokens * d_v);
      for (int64_t now = 0; now < info.tokens; ++now) {
        analysis::Attribution a;
        for (int64_t c = 0; c < d_v; ++c) {
          const bool each = data->matrix && (data->matrix->per_channel() || data->matrix->skip_varies());
          if (c == 0 || each) a = data->attribution(now, h, int(c));
          if (int64_t(a.weight.size()) != now + 1) {
            CHECK_EQ(int64_t(a.weight.size()), now + 1);
            return;
          }
          double sum = 0;
          for (int64_t j = 0; j <= now; ++j) sum += a.weight[size_t(j)] * value[size_t(j * d_v + c)];
          const double o = out[size_t(now * d_v + c)], error = std::abs(sum - o);
          if (!(error <= found.worst)) found.worst = error;
          found.largest = std::max(found.largest, std::abs(o));
          ++found.rows;
        }
      }
    }
  }
}

// Routed memories: a token has a value of its own in each memory, o_t = sum_e sum_j A_e[t,j] v_j^e.
void explain_memories(Context& t, const trace::Trace& trace, const trace::LayerSpec& layer, Found& found) {
  const std::string at = "layers/" + std::to_string(layer.index) + "/";
  const auto data = analysis::load_head(trace, 0, layer.index, 0);
  CHECK_EQ(data->no_attribution, std::string());
  CHECK(data->attribution_by_slot() && data->routes.no_survival.find("mom: survival is undefined. The delta rule") == 0);
  const HeadRoutes& r = data->routes;
  const int64_t d_v = trace.run(0).find(at + "memory_value")->shape[3];
  for (int h = 0; h < int(layer.heads); ++h, ++found.heads) {
    const std::vector<double> value = trace.read_head(0, at + "memory_value", h), out = trace.read_head(0, at + "read_out", h);
    for (int64_t now = 0; now < r.tokens; ++now) {
      std::vector<double> sum(size_t(d_v), 0);
      for (int e = 0; e < r.slots; ++e) {
        const analysis::Attribution a = data->attribution(now, h, e);
        CHECK_EQ(int64_t(a.weight.size()), now + 1);
        for (int64_t j = 0; j <= now; ++j)
          for (int k = 0; k < r.top_k; ++k)
            if (int(r.slot_at(j, k)) == e)
              for (int64_t c = 0; c < d_v; ++c) sum[size_t(c)] += a.weight[size_t(j)] * value[size_t((j * r.top_k + k) * d_v + c)];
      }
      for (int64_t c = 0; c < d_v; ++c, ++found.rows) {
        const double o = out[size_t(now * d_v + c)], error = std::abs(sum[size_t(c)] - o);
        if (!(error <= found.worst)) found.worst = error;
        found.largest = std::max(found.largest, std::abs(o));
      }
    }
  }
}

std::vector<std::string> all_cases(const Context& t) {
  std::vector<std::string> names = golden_cases(t);
  for (const FamilyCase& c : family_cases()) names.push_back(c.name);
  return names;
}

}  // namespace

SLOTSCOPE_CASE(attribution_explains_the_output_of_every_family) {
  for (const std::string& name : all_cases(t)) {
    const auto trace = run_golden(t, name, 0);
    Found found;
    for (const trace::LayerSpec& layer : trace->run(0).layers) {
      CHECK(trace->has_routes(0, layer.index));
      layer.family == "mom" ? explain_memories(t, *trace, layer, found) : explain(t, *trace, layer, found);
    }
    CHECK(found.heads > 0 && found.largest > 1e-3);
    CHECK(found.worst <= 1e-9);
    t.note(name + ": " + std::to_string(found.heads) + " heads, " + std::to_string(found.rows) + " sums, |o| up to " +
           sci(found.largest) + ", worst " + sci(found.worst));
  }
}

// In segments of 7 tokens: what is stored does not depend on how the prompt was cut.
SLOTSCOPE_CASE(attribution_explains_the_output_in_segments) {
  for (const char* name : {"mom_default", "raven_fla_default", "raven_fla_hybrid_list", "gsa_conv_T80", "abc_default", "gla_default", "retnet_default",
                           "linear_gqa_elu_normalised", "delta_default", "gdn_default", "kda_default", "mamba2_default",
                           "mamba_default", "fox_default", "transformer_default", "transformer_swa_T80"}) {
    const auto trace = run_golden(t, name, 7);
    Found found;
    for (const trace::LayerSpec& layer : trace->run(0).layers)
      layer.family == "mom" ? explain_memories(t, *trace, layer, found) : explain(t, *trace, layer, found);
    CHECK(found.heads > 0 && found.largest > 1e-3);
    CHECK(found.worst <= 1e-9);
  }
}

// Shared heads: golden cases with half as many heads of key and value (or of query and key), made by cutting rows.
SLOTSCOPE_CASE(attribution_explains_the_output_of_shared_heads) {
  struct Shared {
    std::string from;
    nlohmann::json config;
    std::vector<std::string> halved;  // tensors of every mixer that lose the second half of their rows
  };
  const std::vector<Shared> list = {
      {"gsa_default", {{"num_kv_heads", 2}}, {"k_proj.weight", "v_proj.weight", "f_proj.weight"}},
      {"gla_default", {{"num_kv_heads", 2}}, {"k_proj.weight", "v_proj.weight", "gk_proj.1.weight", "gk_proj.1.bias"}},
      {"retnet_default", {{"num_kv_heads", 2}}, {"k_proj.weight", "v_proj.weight"}},
      {"transformer_default", {{"num_kv_heads", 2}}, {"k_proj.weight", "v_proj.weight"}},
      {"transformer_swa_T80", {{"num_kv_heads", 2}}, {"k_proj.weight", "v_proj.weight"}},
      {"fox_default", {{"num_kv_heads", 2}}, {"k_proj.weight", "v_proj.weight", "k_norm.weight"}},
      {"gdn_default",
       {{"num_heads", 1}, {"num_v_heads", 2}},
       {"q_proj.weight", "k_proj.weight", "q_conv1d.weight", "k_conv1d.weight"}}};
  for (const Shared& shared : list) {
    const std::filesystem::path golden = t.data("golden/models/" + shared.from), folder = t.temp() / shared.from;
    TinyCheckpoint c = TinyCheckpoint::from(golden);
    c.config.update(shared.config);
    for (auto& [name, tensor] : c.tensors)
      for (const std::string& end : shared.halved)
        if (name.ends_with(".attn." + end)) {
          tensor.shape[0] /= 2;
          tensor.values.resize(tensor.values.size() / 2);
        }
    std::filesystem::create_directories(folder);
    c.write(folder);
    const auto trace = run_to_file(t, folder, Golden(golden / "golden.safetensors").ids(), 0);
    Found found;
    for (const trace::LayerSpec& layer : trace->run(0).layers) explain(t, *trace, layer, found);
    CHECK(found.heads > 0 && found.largest > 1e-3);
    CHECK(found.worst <= 1e-9);
    t.note(shared.from + ", shared heads: worst " + sci(found.worst));
  }
}

// The Hugging Face families: grouped heads, heads of their own width, layers that slide, partial rotation.
SLOTSCOPE_CASE(attribution_explains_the_output_of_hugging_face_families) {
  const std::vector<std::pair<std::string, nlohmann::json>> list = {
      {"llama", {{"num_key_value_heads", 2}, {"head_dim", 12}}},
      {"qwen2", {{"use_sliding_window", true}, {"sliding_window", 6}, {"max_window_layers", 1}, {"num_key_value_heads", 1}}},
      {"mistral", {{"num_key_value_heads", 2}, {"sliding_window", 7}}},
      {"gpt_neox", {{"rotary_pct", 0.5}}}};
  for (const auto& [type, options] : list) {
    const std::filesystem::path folder = t.temp() / type;
    made_hf(type, options).write(folder);
    const auto trace = run_to_file(t, folder, some_ids(40, 53), 9);
    Found found;
    for (const trace::LayerSpec& layer : trace->run(0).layers) explain(t, *trace, layer, found);
    CHECK(found.heads > 0 && found.largest > 1e-3);
    CHECK(found.worst <= 1e-9);
    t.note(type + ": worst " + sci(found.worst));
  }
}

// Mamba-2 with a skip per channel: every value channel has a row of its own.
SLOTSCOPE_CASE(attribution_explains_a_skip_per_channel) {
  const std::filesystem::path golden = t.data("golden/models/mamba2_default"), folder = t.temp() / "wide_d";
  TinyCheckpoint c = TinyCheckpoint::from(golden);
  c.config["D_has_hdim"] = true;
  for (auto& [name, tensor] : c.tensors)
    if (name.ends_with("mixer.D")) {
      const int64_t inner = 2 * c.config.at("hidden_size").get<int64_t>();
      tensor.shape = {inner};
      tensor.values.clear();
      for (int64_t i = 0; i < inner; ++i) tensor.values.push_back(0.25f * float(i % 7));
    }
  std::filesystem::create_directories(folder);
  c.write(folder);
  const auto trace = run_to_file(t, folder, Golden(golden / "golden.safetensors").ids(), 0);
  CHECK(analysis::load_head(*trace, 0, 0, 0)->matrix->skip_varies());
  Found found;
  for (const trace::LayerSpec& layer : trace->run(0).layers) explain(t, *trace, layer, found);
  CHECK(found.heads > 0 && found.largest > 1e-3);
  CHECK(found.worst <= 1e-9);
}
