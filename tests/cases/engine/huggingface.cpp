// llama, qwen2, mistral and gpt_neox (spec: model-zoo 16): golden cases; logits, captured fields and generation against the
// same equations written a second time; whole = segmented = token by token.
#include "tests/cases/engine/helpers.h"
#include "tests/cases/engine/hf_twin.h"

using namespace slotscope;
using namespace slotscope::testing;

namespace {

using nlohmann::json;

struct Made {
  std::string name, type;
  json options;
};

const json kLlama3 = {{"rope_type", "llama3"},    {"factor", 8.0},
                      {"low_freq_factor", 1.0},   {"high_freq_factor", 8.0},
                      {"original_max_position_embeddings", 256}};

// Every option that changes numbers, in at least one of them. With 8 channels per head the waves have 6, 63, 628 and 6283
// tokens, so that kLlama3 keeps the first, mixes the second and stretches the others.
const std::vector<Made>& made_models() {
  static const std::vector<Made> list = {
      {"llama", "llama", {}},
      {"llama wide heads, all biases", "llama",
       {{"head_dim", 12}, {"num_key_value_heads", 2}, {"attention_bias", true}, {"mlp_bias", true}, {"rms_norm_eps", 1e-2}}},
      {"llama tied, linear scaling", "llama",
       {{"tie_word_embeddings", true}, {"rope_scaling", {{"type", "linear"}, {"factor", 4.0}}}, {"rope_theta", 500.0}}},
      {"llama3 scaling", "llama", {{"num_key_value_heads", 1}, {"rope_scaling", kLlama3}, {"rope_theta", 10000.0}}},
      {"llama3 scaling, newer keys", "llama",
       {{"rope_parameters", [] { json p = kLlama3; p["rope_theta"] = 9000.0; return p; }()}, {"rope_theta", 10000.0}}},
      {"qwen2", "qwen2", {{"num_key_value_heads", 2}, {"rope_theta", 1e6}}},
      {"qwen2 sliding from layer 1", "qwen2",
       {{"use_sliding_window", true}, {"sliding_window", 6}, {"max_window_layers", 1}, {"num_key_value_heads", 2}}},
      {"qwen2 layer_types", "qwen2",
       {{"layer_types", {"sliding_attention", "full_attention"}}, {"sliding_window", 5}, {"use_sliding_window", true},
        {"max_window_layers", 0}}},
      {"mistral", "mistral", {{"num_key_value_heads", 2}, {"sliding_window", nullptr}, {"head_dim", 6}}},
      {"mistral window", "mistral", {{"num_key_value_heads", 2}, {"sliding_window", 7}, {"rms_norm_eps", 1e-5}}},
      {"mistral layer_types", "mistral", {{"layer_types", {"full_attention", "sliding_attention"}}, {"sliding_window", 3}}},
      {"gpt_neox", "gpt_neox", {}},
      {"gpt_neox sequential, whole heads", "gpt_neox",
       {{"use_parallel_residual", false}, {"rotary_pct", 1.0}, {"layer_norm_eps", 1e-2}}},
      {"gpt_neox newer keys, no biases", "gpt_neox",
       {{"rope_parameters", {{"rope_theta", 700.0}, {"partial_rotary_factor", 0.5}}}, {"attention_bias", false}}},
      {"gpt_neox gelu_new, base, linear", "gpt_neox",
       {{"hidden_act", "gelu_new"}, {"rotary_pct", 0.5}, {"rotary_emb_base", 300.0},
        {"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}}, {"tie_word_embeddings", true}}},
  };
  return list;
}

std::unique_ptr<engine::Model> load(Context& t, const TinyCheckpoint& made, const std::string& dtype) {
  const auto folder = t.temp();
  made.write(folder);
  return load_model(folder, dtype, t.device());
}

double worst_rows(const std::vector<double>& flat, const std::vector<HfTwin::Vec>& rows) {
  std::vector<double> all;
  for (const HfTwin::Vec& row : rows) all.insert(all.end(), row.begin(), row.end());
  return worst(flat, all);
}

// Row `token` of read_weight of every head against the twin's, on the slot axis: position, or position mod window.
double worst_read(const std::vector<double>& flat, size_t row, const HfTwin::Layer& twin, size_t token, size_t heads,
                  size_t slots, bool ring) {
  std::vector<double> expected(heads * slots, 0.0);
  for (size_t h = 0; h < heads; ++h)
    for (size_t i = 0; i < twin.weight[token][h].size(); ++i) {
      const size_t position = twin.oldest[token] + i;
      expected[h * slots + (ring ? position % slots : position)] = twin.weight[token][h][i];
    }
  const auto begin = flat.begin() + std::ptrdiff_t(row * heads * slots);
  return worst({begin, begin + std::ptrdiff_t(heads * slots)}, expected);
}

}  // namespace

// The files come from a float32 run of the public code. What that rounds is as much as what our float32 run differs from our
// float64 run, so the latter cannot be held to less than float32's tolerance; the note has all three.
SLOTSCOPE_CASE(golden) {
  const double gpu = t.device() == "cpu" ? 1 : 2;
  for (const std::string name : {"llama", "qwen2"})
    for (const std::string length : {"60", "160"}) {
      std::vector<double> own;
      for (const auto& [dtype, tolerance] : {std::pair{"float32", 1e-4 * gpu}, std::pair{"float64", 1e-4}}) {
        const auto folder = t.data("golden/hf/" + name);
        const Golden golden(folder / ("expected_" + length + ".safetensors"));
        const auto model = load_model(folder, dtype, t.device());
        CHECK_EQ(model->info().model_type, name);
        const auto run = run_ids(*model, golden.ids(), capture("mixer_in,mixer_out,logits"));
        const double logits = worst(run->values("output/logits"), golden.values("logits"));
        CHECK_CLOSE(logits, 0, tolerance);
        std::string line = "logits " + sci(logits);
        if (own.empty()) own = run->values("output/logits");
        else line += " (float32 to float64 of our own " + sci(worst(own, run->values("output/logits"))) + ")";
        for (const std::string field : {"mixer_in", "mixer_out"}) {
          double most = 0;
          for (const std::string layer : {"0", "1"}) {
            const double error = worst(run->values("layers/" + layer + "/" + field),
                                       golden.values("layers." + layer + "." + field));
            CHECK_CLOSE(error, 0, tolerance);
            most = std::max(most, error);
          }
          line += ", " + field + " " + sci(most);
        }
        t.note(name + " " + length + " " + dtype + ": " + line);
      }
    }
}

SLOTSCOPE_CASE(equals_the_equations_written_out) {
  const auto ids = some_ids(70, 53);
  std::map<std::string, std::vector<double>> logits;
  for (const Made& made : made_models()) {
    const TinyCheckpoint c = made_hf(made.type, made.options);
    HfTwin twin(c);
    twin.feed(ids);
    logits[made.name] = twin.logits;
    const auto run = run_ids(*load(t, c, "float64"), ids, capture("logits", 17));
    const double error = worst(run->values("output/logits"), twin.logits);
    CHECK_CLOSE(error, 0, 1e-9);
    const double single = worst(run_ids(*load(t, c, "float32"), ids, capture("logits"))->values("output/logits"), twin.logits);
    CHECK_CLOSE(single, 0, 1e-4 * (t.device() == "cpu" ? 1 : 2));
    t.note(made.name + ": logits up to " + sci(largest(twin.logits)) + ", worst error float64 " + sci(error) + ", float32 " +
           sci(single));
  }
  // Both sides could leave an option out: each must move the logits.
  const auto moves = [&](const std::string& type, json with, json without) {
    TinyCheckpoint a = made_hf(type, with), b = made_hf(type, with);
    b.config.update(without);
    HfTwin x(a), y(b);
    x.feed(ids);
    y.feed(ids);
    CHECK(worst(x.logits, y.logits) > 1e-3);
  };
  moves("llama", {{"rope_scaling", kLlama3}}, {{"rope_scaling", nullptr}});
  moves("llama", {{"rope_scaling", {{"type", "linear"}, {"factor", 4}}}}, {{"rope_scaling", nullptr}});
  moves("llama", {{"rope_scaling", kLlama3}}, {{"rope_scaling", {{"type", "linear"}, {"factor", 8}}}});
  moves("qwen2", {{"use_sliding_window", true}, {"sliding_window", 6}, {"max_window_layers", 1}}, {{"max_window_layers", 2}});
  moves("mistral", {{"sliding_window", 7}}, {{"sliding_window", 8}});
  moves("gpt_neox", {}, {{"use_parallel_residual", false}});
  moves("gpt_neox", {}, {{"rotary_pct", 0.5}});
  moves("gpt_neox", {{"rotary_pct", 0.5}}, {{"rotary_emb_base", 300}});
  moves("gpt_neox", {{"layer_norm_eps", 1e-2}}, {{"layer_norm_eps", 1e-5}});
}

// gelu_fast and gelu_pytorch_tanh are gelu_new; it differs from the erf form by little, so that is measured closely.
SLOTSCOPE_CASE(forms_of_gelu) {
  const auto ids = some_ids(30, 53);
  std::map<std::string, std::vector<double>> logits;
  for (const std::string act : {"gelu", "gelu_python", "gelu_new", "gelu_fast", "gelu_pytorch_tanh"})
    logits[act] = run_ids(*load(t, made_hf("gpt_neox", {{"hidden_act", act}}), "float64"), ids, capture("logits"))
                      ->values("output/logits");
  CHECK_EQ(logits["gelu"], logits["gelu_python"]);
  CHECK_EQ(logits["gelu_new"], logits["gelu_fast"]);
  CHECK_EQ(logits["gelu_new"], logits["gelu_pytorch_tanh"]);
  CHECK(worst(logits["gelu"], logits["gelu_new"]) > 1e-5);
}

// Query and key before and after RoPE, value, and the attention rows of chosen query tokens.
SLOTSCOPE_CASE(captured_fields) {
  const auto ids = some_ids(40, 53);
  const std::vector<size_t> asked = {0, 5, 6, 39};
  for (const Made& made : made_models()) {
    const TinyCheckpoint c = made_hf(made.type, made.options);
    HfTwin twin(c);
    twin.feed(ids);
    const auto model = load(t, c, "float64");
    engine::RunOptions options = capture("query,key,value,query_rot,key_rot,read_weight", 9);
    options.plan.read_at = "0:1,5:7,39:40";
    const auto run = run_ids(*model, ids, options);
    double most = 0;
    for (size_t i = 0; i < twin.layers.size(); ++i) {
      const HfTwin::Layer& layer = twin.layers[i];
      const std::string group = "layers/" + std::to_string(i) + "/";
      for (const auto& [field, rows] : {std::pair{"query", &layer.query}, std::pair{"key", &layer.key},
                                        std::pair{"value", &layer.value}, std::pair{"query_rot", &layer.query_rot},
                                        std::pair{"key_rot", &layer.key_rot}}) {
        const double error = worst_rows(run->values(group + field), *rows);
        CHECK_CLOSE(error, 0, 1e-10);
        most = std::max(most, error);
      }
      const trace::LayerSpec& spec = run->layer(int(i));
      const bool ring = spec.route_kind == "ring";
      const auto read = run->values(group + "read_weight");
      const size_t slots = ring ? size_t(spec.slots) : ids.size(), heads = size_t(spec.heads);
      CHECK_EQ(run->values(group + "read_token"), std::vector<double>({0, 5, 6, 39}));
      CHECK_EQ(read.size(), asked.size() * heads * slots);
      if (read.size() != asked.size() * heads * slots) continue;
      for (size_t r = 0; r < asked.size(); ++r) {
        const double error = worst_read(read, r, layer, asked[r], heads, slots, ring);
        CHECK_CLOSE(error, 0, 1e-12);
        most = std::max(most, error);
      }
    }
    t.note(made.name + ": worst " + sci(most));
  }
}

SLOTSCOPE_CASE(whole_is_segmented) {
  std::vector<std::pair<std::string, std::filesystem::path>> folders = {{"golden llama", t.data("golden/hf/llama")},
                                                                       {"golden qwen2", t.data("golden/hf/qwen2")}};
  for (const size_t i : {1, 3, 6, 9, 11, 12}) {
    const Made& made = made_models()[i];
    folders.emplace_back(made.name, t.temp());
    made_hf(made.type, made.options).write(folders.back().second);
  }
  for (const auto& [name, folder] : folders)
    for (const std::string dtype : {"float64", "float32"}) {
      const auto model = load_model(folder, dtype, t.device());
      double most = 0;
      for (const int64_t length : {1, 63, 64, 65, 129, 1000}) {
        const auto ids = some_ids(length, model->info().vocab_rows, uint64_t(length));
        const auto logits = run_ids(*model, ids, capture("logits", 4096))->values("output/logits");
        CHECK_EQ(logits.size(), size_t(length * model->info().vocab_rows));
        const double tolerance = dtype == "float64" ? 1e-9 : 1e-5 * std::max(1.0, largest(logits));
        for (const int64_t segment : {64, 7, 1}) {
          if (segment >= length) continue;
          const double error = worst(logits, run_ids(*model, ids, capture("logits", segment))->values("output/logits"));
          CHECK_CLOSE(error, 0, tolerance);
          most = std::max(most, error);
        }
      }
      t.note(name + " " + dtype + ": worst logit error " + sci(most));
    }
}

// Greedy generation is the twin's own likeliest token, fed back.
SLOTSCOPE_CASE(generates) {
  for (const Made& made : made_models()) {
    const TinyCheckpoint c = made_hf(made.type, made.options);
    const auto ids = some_ids(11, 53);
    HfTwin twin(c);
    twin.feed(ids);
    std::vector<int32_t> expected;
    for (int i = 0; i < 20; ++i) {
      expected.push_back(twin.likeliest());
      twin.feed(expected.back());
    }
    engine::RunOptions options = capture("logits");
    options.generate = 20;
    const auto run = run_ids(*load(t, c, "float64"), ids, options);
    CHECK_EQ(run->outcome.runs[0].output_ids, expected);
  }
}

// What each layer says of itself, and the memory table's row.
SLOTSCOPE_CASE(described) {
  const auto info = [&](const std::string& type, const json& options) {
    const auto folder = t.temp();
    made_hf(type, options).write(folder);
    return engine::inspect(*formats::Checkpoint::open(folder));
  };
  const auto qwen = info("qwen2", {{"use_sliding_window", true}, {"sliding_window", 6}, {"max_window_layers", 1},
                                   {"num_key_value_heads", 2}});
  CHECK_EQ(qwen.layers[0].route_kind + " " + qwen.layers[1].route_kind, std::string("append ring"));
  CHECK_EQ(qwen.layers[1].slots, int64_t(6));
  CHECK_EQ(qwen.layers[0].state_bytes, int64_t(4 * 2 * 2 * 8));
  CHECK_EQ(qwen.layers[1].state_bytes, int64_t(4 * 2 * 2 * 8 * 6));
  CHECK(qwen.card.router.find("in sliding layers slot t mod 6") != std::string::npos);
  CHECK_EQ(qwen.layers[0].card.router, std::string("slot t (append)"));
  CHECK_EQ(qwen.layers[1].card.router, std::string("slot t mod 6 (ring)"));
  CHECK_EQ(info("mistral", {{"sliding_window", 7}}).card.router, std::string("slot t mod 7 (ring)"));
  CHECK_EQ(info("llama", {}).card.router, std::string("slot t (append)"));
  CHECK_EQ(info("gpt_neox", {}).layers[0].note, std::string("full attention, RoPE theta 10000 on 2 channels"));
  CHECK_EQ(info("llama", {{"rope_scaling", kLlama3}}).layers[0].note,
           std::string("full attention, RoPE theta 10000, llama3 scaling 8"));
  int64_t parameters = 0;
  const TinyCheckpoint neox = made_hf("gpt_neox");
  for (const auto& [name, tensor] : neox.tensors) parameters += int64_t(tensor.values.size());
  CHECK_EQ(info("gpt_neox", {}).parameters, parameters);
}
