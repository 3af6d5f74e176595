// What llama, qwen2, mistral and gpt_neox cannot honour is refused by name before a weight is read; older files and odd but
// sound settings open (spec: bad-inputs B24, B26-B29; model-zoo 16). The transformer without RoPE.
#include "core/formats/config.h"
#include "tests/cases/engine/helpers.h"
#include "tests/cases/engine/hf_twin.h"

using namespace slotscope;
using namespace slotscope::testing;

namespace {

using nlohmann::json;

const std::vector<std::string> kTypes = {"llama", "qwen2", "mistral", "gpt_neox"};

engine::ModelInfo inspect(Context& t, const TinyCheckpoint& c, const std::string& flavour = "") {
  const auto folder = t.temp();
  c.write(folder);
  return engine::inspect(*formats::Checkpoint::open(folder), flavour);
}
engine::ModelInfo inspect(Context& t, const std::string& type, const json& options) {
  return inspect(t, made_hf(type, options));
}
// The config changed, the tensors as they were.
TinyCheckpoint changed(const std::string& type, const json& options, const json& made = {}) {
  TinyCheckpoint c = made_hf(type, made);
  if (!options.is_null()) c.config.update(options);
  return c;
}
std::vector<double> logits(Context& t, const TinyCheckpoint& c, const std::string& flavour = "") {
  const auto folder = t.temp();
  c.write(folder);
  const auto model = load_model(folder, "float64", t.device(), flavour);
  return run_ids(*model, some_ids(9, 53), capture("logits"))->values("output/logits");
}
bool any_has(const std::vector<std::string>& list, const std::string& part) {
  return std::any_of(list.begin(), list.end(), [&](const std::string& s) { return s.find(part) != std::string::npos; });
}
std::string root(const std::string& type) { return type == "gpt_neox" ? "gpt_neox." : "model."; }
std::string head(const std::string& type) { return type == "gpt_neox" ? "embed_out.weight" : "lm_head.weight"; }
std::string embedding(const std::string& type) {
  return root(type) + (type == "gpt_neox" ? "embed_in.weight" : "embed_tokens.weight");
}
std::string matrix(const std::string& type) {
  return root(type) + (type == "gpt_neox" ? "layers.0.attention.query_key_value.weight" : "layers.0.self_attn.k_proj.weight");
}

}  // namespace

// Tensors missing, unexpected, misshapen; sizes that do not fit; quantised checkpoints; other code bases.
SLOTSCOPE_CASE(every_family_refuses) {
  for (const std::string& type : kTypes) {
    TinyCheckpoint missing = made_hf(type), extra = made_hf(type), wide = made_hf(type), headless = made_hf(type);
    missing.tensors.erase(matrix(type));
    CHECK_ERROR(inspect(t, missing), matrix(type), "missing", "shape [");
    extra.shape(root(type) + "layers.0.surprise.weight", {3, 4});
    CHECK_ERROR(inspect(t, extra), "surprise", "not part of the model");
    const auto shape = wide.tensors.at(matrix(type)).shape;
    wide.shape(matrix(type), {shape[0], shape[1] + 1});
    CHECK_ERROR(inspect(t, wide), matrix(type), formats::shape_text(shape), formats::shape_text({shape[0], shape[1] + 1}));
    headless.tensors.erase(head(type));
    CHECK_ERROR(inspect(t, headless), head(type), "never made up");
    CHECK_ERROR(inspect(t, changed(type, {{"attnres_block_size", 2}})), "attnres_block_size");
    CHECK_ERROR(inspect(t, changed(type, {{"hidden_act", "relu"}})), "hidden_act", "relu");
    CHECK_ERROR(inspect(t, changed(type, {{"hidden_size", "32"}})), "hidden_size");
    CHECK_ERROR(inspect(t, changed(type, {{"hidden_size", 64}})), "[53, 32]", "[53, 64]");
    CHECK_ERROR(inspect(t, changed(type, {{"num_hidden_layers", 3}})), "layers.2.", "missing");
    CHECK_ERROR(inspect(t, changed(type, {{"num_hidden_layers", 1}})), "layers.1.", "a layer from 0 to 0");
    CHECK_ERROR(inspect(t, changed(type, {{"num_attention_heads", 5}})), "5");
    CHECK_ERROR(inspect(t, changed(type, {{"num_attention_heads", 0}})), "num_attention_heads", "0");
    CHECK_ERROR(inspect(t, changed(type, {{"num_attention_heads", true}})), "num_attention_heads", "true");
    CHECK_ERROR(inspect(t, made_hf(type), "fla"), "--flavour", "fla", type);
    CHECK_ERROR(inspect(t, changed(type, {{"quantization_config", {{"quant_method", "gptq"}, {"bits", 4}}}})),
                "quantization_config", "gptq", "unquantised");
    CHECK_ERROR(inspect(t, changed(type, {{"quantization_config", json::array()}})), "quantization_config");
    CHECK_ERROR(inspect(t, changed(type, {{"compression_config", {{"format", "x"}}}})), "compression_config");
    CHECK_EQ(inspect(t, changed(type, {{"quantization_config", nullptr}})).model_type, type);
  }
}

// Kinds of RoPE that are not implemented, and settings that do not make sense, in either place of the config.
SLOTSCOPE_CASE(rope_settings) {
  for (const std::string& type : kTypes)
    for (const std::string place : {"rope_scaling", "rope_parameters"}) {
      const auto with = [&](const json& settings) { return inspect(t, changed(type, {{place, settings}})); };
      CHECK_ERROR(with({{"rope_type", "dynamic"}, {"factor", 2}}), place, "dynamic", "length of the prompt");
      CHECK_ERROR(with({{"type", "yarn"}, {"factor", 2}}), place, "yarn", "beta_fast");
      CHECK_ERROR(with({{"rope_type", "longrope"}, {"factor", 2}}), place, "longrope", "long_factor");
      CHECK_ERROR(with({{"type", "mrope"}}), place, "mrope", "mrope_section");
      CHECK_ERROR(with({{"rope_type", "spiral"}}), place, "spiral", "default, linear or llama3");
      CHECK_ERROR(with({{"rope_type", 3}}), place, "3");
      CHECK_ERROR(with({{"rope_type", "linear"}}), place, "factor", "missing", "linear");
      CHECK_ERROR(with({{"rope_type", "linear"}, {"factor", 0}}), place, "factor", "0");
      CHECK_ERROR(with({{"rope_type", "linear"}, {"factor", "2"}}), place, "factor");
      json llama3 = {{"rope_type", "llama3"},  {"factor", 8}, {"low_freq_factor", 1},
                     {"high_freq_factor", 4}, {"original_max_position_embeddings", 8192}};
      CHECK_EQ(with(llama3).model_type, type);
      for (const char* key : {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
        json part = llama3;
        part.erase(key);
        CHECK_ERROR(with(part), place, key, "missing", "llama3");
        part[key] = -1;
        CHECK_ERROR(with(part), place, key, "-1");
      }
      llama3["high_freq_factor"] = 1;
      CHECK_ERROR(with(llama3), "high_freq_factor", "low_freq_factor");
      CHECK_ERROR(with({{"full_attention", {{"rope_theta", 1e6}}}}), place, "full_attention");
      CHECK(any_has(with({{"rope_type", "linear"}, {"factor", 0.5}}).warnings, "below 1"));
    }
  CHECK_ERROR(inspect(t, changed("llama", {{"rope_theta", 0}})), "rope_theta", "0");
  CHECK_ERROR(inspect(t, changed("llama", {{"partial_rotary_factor", 0.5}})), "partial_rotary_factor", "0.5");
  CHECK_ERROR(inspect(t, changed("gpt_neox", {{"rotary_pct", 1.5}})), "rotary_pct", "1.5");
  CHECK_ERROR(inspect(t, changed("gpt_neox", {{"rotary_pct", 0.1}})), "rotary_pct", "0.1", "even");
  CHECK_ERROR(inspect(t, changed("gpt_neox", {{"rotary_pct", 0.4}})), "rotary_pct", "even");
  CHECK_ERROR(inspect(t, changed("gpt_neox", {{"rotary_emb_base", "x"}})), "rotary_emb_base");
  const auto both = inspect(t, changed("llama", {{"rope_theta", 500}, {"rope_parameters", {{"rope_theta", 700}}}}));
  CHECK(any_has(both.warnings, "rope_parameters counts"));
  CHECK(both.layers[0].note.find("theta 700") != std::string::npos);
}

// B26: heads of their own width; heads that do not divide.
SLOTSCOPE_CASE(head_width) {
  CHECK_EQ(inspect(t, "mistral", {{"head_dim", 12}}).layers[0].d_k, int64_t(12));
  CHECK_EQ(inspect(t, "llama", {{"head_dim", 6}, {"num_attention_heads", 5}}).layers[0].heads, int64_t(5));
  CHECK_EQ(inspect(t, "llama", {}).layers[0].d_k, int64_t(8));
  TinyCheckpoint null = changed("llama", {{"head_dim", nullptr}, {"num_key_value_heads", nullptr}});
  CHECK_EQ(inspect(t, null).layers[0].route_heads, int64_t(4));
  CHECK_ERROR(inspect(t, changed("llama", {{"num_attention_heads", 5}, {"num_key_value_heads", 5}})), "head_dim", "32", "5");
  CHECK_ERROR(inspect(t, changed("llama", {{"head_dim", 16}})), "q_proj.weight", "[32, 32]", "[64, 32]");
  CHECK_ERROR(inspect(t, changed("llama", {{"head_dim", 7}})), "head_dim", "7", "even");
  CHECK_ERROR(inspect(t, changed("llama", {{"head_dim", int64_t(1) << 39}})), "head_dim");
  CHECK_ERROR(inspect(t, changed("llama", {{"num_key_value_heads", 3}})), "num_key_value_heads", "3", "divisor");
  TinyCheckpoint absent = made_hf("mistral");
  absent.config.erase("num_key_value_heads");
  CHECK_ERROR(inspect(t, absent), "num_key_value_heads", "8", "4 heads");
}

// Biases that the config does not ask for, or asks for in vain.
SLOTSCOPE_CASE(biases) {
  CHECK_ERROR(inspect(t, changed("llama", {{"attention_bias", true}})), "q_proj.bias", "missing");
  CHECK_ERROR(inspect(t, changed("llama", {{"attention_bias", false}}, {{"attention_bias", true}})), "bias", "not part");
  CHECK_ERROR(inspect(t, changed("llama", {{"mlp_bias", true}})), "gate_proj.bias", "missing");
  CHECK_ERROR(inspect(t, changed("qwen2", {}, {{"attention_bias", true}})), "o_proj.bias", "not part");
  CHECK_ERROR(inspect(t, changed("gpt_neox", {{"attention_bias", false}})), "bias", "not part");
  TinyCheckpoint no_bias = made_hf("qwen2");
  no_bias.tensors.erase("model.layers.1.self_attn.v_proj.bias");
  CHECK_ERROR(inspect(t, no_bias), "layers.1.self_attn.v_proj.bias", "missing");
}

// Lists of layers, and windows.
SLOTSCOPE_CASE(layer_types) {
  const json two = {"full_attention", "sliding_attention"};
  for (const std::string type : {"qwen2", "mistral"}) {
    const auto with = [&](const json& types, const json& window) {
      return inspect(t, changed(type, {{"layer_types", types}, {"sliding_window", window}}));
    };
    CHECK_EQ(with(two, 4).layers[1].slots, int64_t(4));
    CHECK(any_has(with(two, 4).warnings, "layer_types counts"));
    CHECK_ERROR(with(two, nullptr), "layer_types[1]", "sliding_window");
    CHECK_ERROR(with({"full_attention"}, 4), "layer_types", "1 entries", "2");
    CHECK_ERROR(with({"full_attention", "chunked_attention"}, 4), "layer_types[1]", "chunked_attention");
    CHECK_ERROR(with({"full_attention", 3}, 4), "layer_types[1]", "3");
    CHECK_ERROR(with("full_attention", 4), "layer_types", "string");
    CHECK_ERROR(with({"full_attention", "full_attention"}, 0), "sliding_window", "0");
    CHECK_ERROR(with({"full_attention", "full_attention"}, "all"), "sliding_window", "all");
  }
  CHECK_ERROR(inspect(t, changed("llama", {{"layer_types", two}})), "layer_types[1]", "sliding_window");
  CHECK_EQ(inspect(t, changed("llama", {{"layer_types", {"full_attention", "full_attention"}}})).layers[1].route_kind,
           std::string("append"));
}

// B27, B29: tied heads, a stored head that differs, embeddings with other rows than vocab_size; base models.
SLOTSCOPE_CASE(heads_and_rows) {
  for (const std::string& type : kTypes) {
    TinyCheckpoint copied = made_hf(type), tied = changed(type, {{"tie_word_embeddings", true}});
    copied.tensors[head(type)] = copied.tensors.at(embedding(type));
    const auto expected = logits(t, copied);
    const auto folder = t.temp();
    tied.write(folder);  // with a stored head that differs
    CHECK(any_has(load_model(folder)->info().warnings, "differs from the embedding"));
    CHECK_EQ(logits(t, tied), expected);
    tied.tensors.erase(head(type));
    CHECK_EQ(logits(t, tied), expected);
    TinyCheckpoint nested = made_hf(type);
    nested.tensors.erase(head(type));
    nested.config.erase("tie_word_embeddings");
    CHECK_ERROR(inspect(t, nested), head(type), "missing");  // absent: false in these classes
    nested.config["text_config"] = {{"tie_word_embeddings", true}};
    CHECK_EQ(logits(t, nested), expected);
    CHECK_EQ(inspect(t, changed(type, {{"vocab_size", 64}})).vocab_rows, int64_t(53));
    CHECK(any_has(inspect(t, changed(type, {{"vocab_size", 64}})).notes, "the tensor counts"));
    CHECK(any_has(inspect(t, changed(type, {{"intermediate_size", 50}})).notes, "the tensor counts"));
    std::vector<std::string> names;
    for (const auto& [name, tensor] : tied.tensors) names.push_back(name);
    for (const std::string& name : names) tied.rename(name, name.substr(name.find('.') + 1));
    CHECK(any_has(inspect(t, tied).notes, "base model"));
    CHECK_EQ(logits(t, tied), expected);
    const auto outside = t.temp();
    made_hf(type).write(outside);
    CHECK_ERROR(run_ids(*load_model(outside), {3, 53}, capture("logits")), "id 53", "0 to 52");
  }
}

// Buffers that older code stored are not used, and that is said.
SLOTSCOPE_CASE(buffers_of_older_files) {
  TinyCheckpoint llama = made_hf("llama"), neox = made_hf("gpt_neox");
  const auto expected_llama = logits(t, llama), expected_neox = logits(t, neox);
  for (const std::string i : {"0", "1"}) {
    llama.shape("model.layers." + i + ".self_attn.rotary_emb.inv_freq", {4});
    neox.shape("gpt_neox.layers." + i + ".attention.rotary_emb.inv_freq", {1});
    neox.shape("gpt_neox.layers." + i + ".attention.bias", {1, 1, 16, 16});
    neox.shape("gpt_neox.layers." + i + ".attention.masked_bias", {});
  }
  CHECK_EQ(logits(t, llama), expected_llama);
  CHECK_EQ(logits(t, neox), expected_neox);
  CHECK(any_has(inspect(t, llama).notes, "not used: self_attn.rotary_emb.inv_freq of 2 layers"));
  for (const std::string name : {"attention.bias", "attention.masked_bias", "attention.rotary_emb.inv_freq"})
    CHECK(any_has(inspect(t, neox).notes, "not used: " + name + " of 2 layers"));
  // A bias that llama does not have is no buffer.
  llama.shape("model.layers.0.self_attn.attention.bias", {1});
  CHECK_ERROR(inspect(t, llama), "attention.bias", "not part");
}

// The Raven paper's baseline without positions: chosen by flavour, equal to attention whose RoPE turns nothing. A theta of
// 1e300 makes every frequency but the first vanish, and the first belongs to channels 0 and d/2: zero these and nothing turns.
SLOTSCOPE_CASE(transformer_without_rope) {
  const auto golden = t.data("golden/models/transformer_default");
  TinyCheckpoint c = TinyCheckpoint::from(golden);
  const auto plain = logits(t, c), nope = logits(t, c, "nope");
  CHECK(worst(plain, nope) > 1e-3);
  CHECK_EQ(logits(t, c, "fla"), plain);
  CHECK_EQ(inspect(t, c, "nope").flavour, std::string("nope"));
  CHECK(inspect(t, c, "nope").layers[0].note.find("no RoPE") != std::string::npos);
  CHECK_ERROR(inspect(t, c, "goombalab"), "--flavour", "goombalab", "transformer");
  const int64_t heads = c.config["num_heads"], width = c.config["hidden_size"].get<int64_t>() / heads;
  for (const std::string i : {"0", "1"})
    for (int64_t h = 0; h < heads; ++h)
      for (const int64_t channel : {int64_t(0), width / 2}) {
        TinyTensor& q = c.tensors.at("model.layers." + i + ".attn.q_proj.weight");
        const auto row = q.values.begin() + (h * width + channel) * q.shape[1];
        std::fill(row, row + q.shape[1], 0.0f);
      }
  const auto expected = logits(t, c, "nope");
  CHECK(worst(logits(t, c), expected) > 1e-3);
  c.config["rope_theta"] = 1e300;
  CHECK_CLOSE(worst(logits(t, c), expected), 0, 1e-12);
  // Scaled RoPE does not matter where there is none; use_rope in the config does not count, and that is said.
  c.config["rope_scaling"] = {{"type", "yarn"}};
  CHECK_EQ(logits(t, c, "nope"), expected);
  CHECK_ERROR(inspect(t, c), "yarn");
  c.config.erase("rope_scaling");
  c.config["use_rope"] = false;
  CHECK(any_has(inspect(t, c).warnings, "--flavour nope"));
  CHECK(!any_has(inspect(t, c, "nope").warnings, "use_rope"));
}
