// What a RAM-Net folder cannot mean is refused by name before a weight is read; tensors that may be left out; limits that are
// values of their own (spec: ramnet 1.4, 1.5, 1.9).
#include <functional>

#include "tests/cases/engine/helpers.h"
#include "tests/cases/engine/ramnet_twin.h"

using namespace slotscope;
using namespace slotscope::testing;

namespace {

using nlohmann::json;

engine::ModelInfo inspect(Context& t, const TinyCheckpoint& c, const std::string& flavour = "") {
  const auto folder = t.temp();
  c.write(folder);
  return engine::inspect(*formats::Checkpoint::open(folder), flavour);
}
// The config changed, the tensors as they were.
TinyCheckpoint changed(const json& memory, const json& options = json::object()) {
  TinyCheckpoint c = made_ramnet();
  if (!memory.is_null()) c.config["ramnet"].update(memory);
  c.config.update(options);
  return c;
}
TinyCheckpoint without(const std::string& key) {
  TinyCheckpoint c = made_ramnet();
  c.config["ramnet"].erase(key);
  return c;
}
bool any_has(const std::vector<std::string>& list, const std::string& part) {
  return std::any_of(list.begin(), list.end(), [&](const std::string& s) { return s.find(part) != std::string::npos; });
}
std::vector<double> logits(Context& t, const TinyCheckpoint& c, const std::string& dtype = "float64") {
  const auto folder = t.temp();
  c.write(folder);
  return run_ids(*load_model(folder, dtype, t.device()), some_ids(20, 53), capture("logits"))->values("output/logits");
}
void each_layer(const std::function<void(const std::string&)>& change) {
  for (const char* layer : {"model.layers.0.attn.", "model.layers.1.attn."}) change(layer);
}

}  // namespace

SLOTSCOPE_CASE(sizes) {
  CHECK_ERROR(inspect(t, changed({{"codes_per_factor", 1}})), "config.json", "ramnet.codes_per_factor", "2 or more",
              "same slot");
  CHECK_ERROR(inspect(t, changed({{"codes_per_factor", 0}})), "ramnet.codes_per_factor", "0", "from 2");
  CHECK_ERROR(inspect(t, changed({{"order", 0}})), "ramnet.order", "from 1");
  CHECK_ERROR(inspect(t, changed({{"order", 3.5}})), "ramnet.order", "3.5", "a whole number");
  CHECK_ERROR(inspect(t, changed({{"order", "3"}})), "ramnet.order", "a whole number");
  // d_p^U: beyond 2^63, beyond the kernels' slots, beyond what a trace can index.
  CHECK_ERROR(inspect(t, changed({{"order", 24}, {"codes_per_factor", 1 << 24}})), "ramnet.order", "16777216^24 slots",
              "at most 16777216 slots");
  CHECK_ERROR(inspect(t, changed({{"order", 16}, {"codes_per_factor", 4}})), "ramnet.order", "4^16 slots", "at most 16777216");
  CHECK_ERROR(inspect(t, changed({{"order", 13}, {"codes_per_factor", 4}})), "ramnet.order", "4^13 = 67108864 slots",
              "at most 16777216");
  CHECK_ERROR(inspect(t, changed({{"order", 12}, {"codes_per_factor", 4}}, {{"head_dim", 1 << 20}})), "ramnet.order",
              "4^12 slots of 4 heads", "a state of at most 68719476736 numbers");
  CHECK_ERROR(inspect(t, changed({{"top_k", 0}})), "ramnet.top_k", "0", "from 1");
  CHECK_ERROR(inspect(t, changed({{"top_k", -3}})), "ramnet.top_k", "-3");
  CHECK(any_has(inspect(t, changed({{"top_k", 28}})).notes, "ramnet.top_k 28 is more than the 27 slots: nothing is left out"));
  CHECK(!any_has(inspect(t, changed({{"top_k", 27}})).notes, "nothing is left out"));
  CHECK_EQ(logits(t, changed({{"top_k", int64_t(1) << 40}})), logits(t, changed({{"top_k", 27}})));
  for (const char* key : {"order", "codes_per_factor", "top_k"})
    CHECK_ERROR(inspect(t, without(key)), std::string("ramnet.") + key, "missing");
  TinyCheckpoint none = made_ramnet();
  none.config.erase("ramnet");
  CHECK_ERROR(inspect(t, none), "ramnet", "missing", "order, codes_per_factor, top_k");
  none.config["ramnet"] = 5;
  CHECK_ERROR(inspect(t, none), "ramnet", "number", "an object");
  // The tensors are those of another code.
  CHECK_ERROR(inspect(t, changed({{"order", 2}})), "attn.r_proj.weight", "[36, 32]", "[24, 32] (H U d_p, D)");
  CHECK_ERROR(inspect(t, changed({}, {{"head_dim", 7}})), "v_proj.weight", "[24, 32]", "[28, 32] (H d_v, D)");
}

SLOTSCOPE_CASE(rules) {
  CHECK_ERROR(inspect(t, changed({{"update_rule", "ema"}})), "ramnet.update_rule", "\"ema\"", "gsu or pdma");
  CHECK_ERROR(inspect(t, changed({{"readout", "mass"}})), "ramnet.readout", "\"mass\"", "standard or mass_aware");
  CHECK_ERROR(inspect(t, changed({{"slot_order", "kronecker"}})), "ramnet.slot_order",
              "factor0_least_significant or factor0_most_significant");
  CHECK_ERROR(inspect(t, changed({{"renormalize_topk", 1}})), "ramnet.renormalize_topk", "true or false");
  CHECK_ERROR(inspect(t, changed({{"state_eps", -1e-6}})), "ramnet.state_eps", "-1e-06", "0 or more");
  CHECK_ERROR(inspect(t, changed({{"pdma_gamma", -0.5}})), "ramnet.pdma_gamma", "-0.5", "0 or more");
  CHECK_ERROR(inspect(t, changed({{"pdma_gamma", {{"__float__", "Infinity"}}}})), "ramnet.pdma_gamma");
  CHECK_ERROR(inspect(t, changed({{"state_eps", "small"}})), "ramnet.state_eps", "a number");
  CHECK_ERROR(inspect(t, changed({{"update_rule", "pdma"}, {"cumulative", true}})), "ramnet.cumulative", "pdma_gamma 0");
  CHECK_ERROR(inspect(t, changed({{"beta", 2}})), "ramnet.beta", "not a setting of this family", "cape_direction, cape_heads");
  CHECK(any_has(inspect(t, changed({{"pdma_gamma", 2}})).notes, "ramnet.pdma_gamma has no effect with update_rule gsu"));
  CHECK_ERROR(inspect(t, changed({}, {{"hidden_act", "gelu"}})), "hidden_act", "gelu", "silu");
  CHECK_ERROR(inspect(t, changed({}, {{"attn", {{"layers", {0}}, {"num_heads", 4}}}})), "attn",
              "every layer is a RAM-Net layer");
  CHECK_ERROR(inspect(t, changed({}, {{"num_key_value_heads", 2}})), "num_key_value_heads", "2", "4 = num_attention_heads",
              "ramnet.teacher");
  CHECK_EQ(inspect(t, changed({}, {{"num_key_value_heads", 4}})).layers[0].heads, int64_t(4));
  CHECK_ERROR(inspect(t, made_ramnet(), "fla"), "--flavour", "fla", "ramnet");
  CHECK_ERROR(inspect(t, changed({}, {{"quantization_config", {{"quant_method", "gptq"}}}})), "quantization_config", "gptq");
}

SLOTSCOPE_CASE(cape) {
  CHECK_ERROR(inspect(t, changed({{"cape_direction", 0}})), "ramnet.cape_direction", "0", "1 or -1");
  CHECK_ERROR(inspect(t, changed({{"cape_direction", 2}})), "ramnet.cape_direction", "2");
  CHECK_ERROR(inspect(t, changed({{"cape_heads", 1}})), "ramnet.cape_heads", "number", "each of the 2 layers");
  CHECK_ERROR(inspect(t, changed({{"cape_heads", {{0}}}})), "ramnet.cape_heads", "1 lists", "each of the 2 layers");
  CHECK_ERROR(inspect(t, changed({{"cape_heads", {{0}, 1}}})), "ramnet.cape_heads[1]", "number", "a list of heads");
  CHECK_ERROR(inspect(t, changed({{"cape_heads", {{0}, {1, 4}}}})), "ramnet.cape_heads[1][1]", "4", "a head from 0 to 3");
  CHECK_ERROR(inspect(t, changed({{"cape_heads", {{-1}, {1}}}})), "ramnet.cape_heads[0][0]", "-1", "a head from 0 to 3");
  CHECK_ERROR(inspect(t, changed({{"cape_heads", {{1.5}, {1}}}})), "ramnet.cape_heads[0][0]", "1.5");
  CHECK_ERROR(inspect(t, changed({{"cape_heads", {{"1"}, {1}}}})), "ramnet.cape_heads[0][0]");
  CHECK_ERROR(inspect(t, changed({{"cape_heads", {{uint64_t(-1)}, {1}}}})), "ramnet.cape_heads[0][0]", "18446744073709551615");
  CHECK_ERROR(inspect(t, changed({{"cape_heads", {{2, 0, 2}, {1}}}})), "ramnet.cape_heads[0][2]", "head 2 again",
              "each head once");
  CHECK_EQ(inspect(t, without("cape_heads")).layers[0].note, std::string("3 factors of 3 codes, GSU, no CAPE"));
  CHECK_EQ(logits(t, changed({{"cape_heads", {{2, 0}, {1}}}})), logits(t, made_ramnet()));
}

// What is not stored is not there, whatever config.json says of it; what is stored is not left out in silence.
SLOTSCOPE_CASE(tensors_that_may_be_left_out) {
  TinyCheckpoint scales = made_ramnet(), zeros = made_ramnet();
  each_layer([&](const std::string& p) {
    for (const char* name : {"r_log_scale", "w_log_scale"}) {
      scales.tensors.erase(p + name);
      zeros.shape(p + name, {4});
    }
  });
  CHECK_EQ(logits(t, scales), logits(t, zeros));
  scales.config["ramnet"]["log_scale"] = true;
  CHECK(any_has(inspect(t, scales).warnings, "ramnet.log_scale is true, but the weights have none: log scales are 0"));
  CHECK_ERROR(inspect(t, changed({{"log_scale", false}})), "ramnet.log_scale", "false, but the weights have it");
  TinyCheckpoint open = made_ramnet();
  each_layer([&](const std::string& p) {
    open.tensors.erase(p + "g_proj.weight");
    open.tensors.erase(p + "g_proj.bias");
  });
  open.config["ramnet"]["output_gate"] = true;
  CHECK(any_has(inspect(t, open).warnings, "ramnet.output_gate is true, but the weights have none: no gate"));
  CHECK_ERROR(inspect(t, changed({{"output_gate", false}})), "ramnet.output_gate", "false, but the weights have it");
  // In one layer only: something is missing.
  TinyCheckpoint half = made_ramnet();
  half.tensors.erase("model.layers.1.attn.g_proj.weight");
  CHECK_ERROR(inspect(t, half), "model.layers.1.attn.g_proj.weight", "missing");
  TinyCheckpoint no_gamma = made_ramnet();
  no_gamma.tensors.erase("model.layers.0.attn.gamma_proj.weight");
  CHECK_ERROR(inspect(t, no_gamma), "model.layers.0.attn.gamma_proj.weight", "missing");
  each_layer([&](const std::string& p) {
    no_gamma.tensors.erase(p + "gamma_proj.weight");
    no_gamma.tensors.erase(p + "gamma_proj.bias");
  });
  CHECK_ERROR(inspect(t, no_gamma), "gamma_proj.weight", "missing", "[4, 32]");
  // A stored gamma that the rule does not use.
  for (const json& rule : {json{{"cumulative", true}}, json{{"update_rule", "pdma"}}}) {
    TinyCheckpoint extra = changed(rule), bare = no_gamma;
    bare.config["ramnet"].update(rule);
    CHECK(any_has(inspect(t, extra).notes, "gamma_proj is stored and not used"));
    CHECK(!any_has(inspect(t, bare).notes, "gamma_proj"));
    CHECK_EQ(logits(t, extra), logits(t, bare));
  }
  TinyCheckpoint biased = made_ramnet({}, {"bias", "log_scale", "gate"});
  biased.config["attention_bias"] = false;
  CHECK(any_has(inspect(t, biased).warnings, "attention_bias is false, but the weights have biases: they are added"));
  biased.config["attention_bias"] = true;
  CHECK_EQ(inspect(t, biased).warnings, std::vector<std::string>());
  CHECK_ERROR(inspect(t, changed({}, {{"attention_bias", true}})), "r_proj.bias", "missing");
  TinyCheckpoint extra = made_ramnet();
  extra.shape("model.layers.0.attn.surprise.weight", {3});
  CHECK_ERROR(inspect(t, extra), "surprise", "not part of the model");
}

// What every family shares: a base model's names, a tied head, the embedding's rows, refusals of the skeleton.
SLOTSCOPE_CASE(skeleton) {
  const auto expected = logits(t, made_ramnet());
  TinyCheckpoint base = made_ramnet({}, {"log_scale", "gate"}, {{"tie_word_embeddings", true}});
  const auto tied = logits(t, base);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : base.tensors) names.push_back(name);
  for (const auto& name : names) base.rename(name, name.substr(6));
  CHECK_EQ(logits(t, base), tied);
  CHECK(any_has(inspect(t, base).notes, "saved as a base model"));
  CHECK_EQ(inspect(t, changed({}, {{"vocab_size", 64}})).vocab_rows, int64_t(53));
  CHECK_EQ(logits(t, changed({}, {{"dtype", "bfloat16"}, {"rope_theta", 10000}})), expected);
  CHECK(any_has(inspect(t, changed({}, {{"rope_theta", 10000}})).notes, "keys without effect in this model: rope_theta"));
  CHECK_ERROR(inspect(t, changed({}, {{"attnres_block_size", 2}})), "attnres_block_size");
  CHECK_ERROR(inspect(t, changed({}, {{"hidden_size", "32"}})), "hidden_size");
  CHECK_ERROR(inspect(t, changed({}, {{"hidden_size", 48}})), "[53, 32]", "[53, 48]");
  CHECK_ERROR(inspect(t, changed({{"cape_heads", nullptr}}, {{"num_hidden_layers", 3}})), "layers.2.", "missing");
  CHECK_ERROR(inspect(t, changed({{"cape_heads", nullptr}}, {{"num_hidden_layers", 1}})), "layers.1.", "a layer from 0 to 0");
  CHECK_ERROR(inspect(t, changed({}, {{"head_dim", 1 << 21}})), "head_dim", "at most 1048576");
  CHECK_ERROR(inspect(t, changed({}, {{"num_attention_heads", 1 << 20}})), "num_attention_heads");
  CHECK_ERROR(inspect(t, changed({}, {{"rms_norm_eps", 0}})), "rms_norm_eps", "above 0");
  TinyCheckpoint headless = made_ramnet();
  headless.tensors.erase("lm_head.weight");
  CHECK_ERROR(inspect(t, headless), "lm_head.weight", "never made up");
}

// Settings that look wrong and have a meaning: equal logits, infinite gates, saturated addresses.
SLOTSCOPE_CASE(limits) {
  // beta = 0: every slot has probability 1/M, ties go to the lower slots.
  TinyCheckpoint flat = changed({{"cape_heads", {json::array(), json::array()}}});
  each_layer([&](const std::string& p) {
    flat.shape(p + "r_proj.weight", {36, 32});
    flat.shape(p + "w_proj.weight", {36, 32});
  });
  const auto folder = t.temp();
  flat.write(folder);
  const auto run = run_ids(*load_model(folder, "float64", t.device()), some_ids(20, 53), capture("*"));
  const auto slots = run->values("layers/0/route_index"), weights = run->values("layers/0/route_weight");
  for (size_t n = 0; n < slots.size(); ++n) CHECK_EQ(slots[n], double(n % 5));
  CHECK_CLOSE(worst(weights, std::vector<double>(weights.size(), 1.0 / 27)), 0, 1e-15);
  CHECK_EQ(run->values("layers/0/ties"), std::vector<double>(4, 20));
  CHECK_EQ(run->outcome.ties, int64_t(2 * 4 * 20));
  CHECK_EQ(run->values("layers/0/margin"), std::vector<double>(80, 0));
  // gamma = -infinity is the cumulative mean, +infinity keeps only the last write.
  for (const double sign : {-1.0, 1.0}) {
    TinyCheckpoint extreme = made_ramnet();
    each_layer(
        [&](const std::string& p) { extreme.set(p + "gamma_proj.bias", std::vector<float>(4, float(sign * INFINITY))); });
    const auto found = logits(t, extreme);
    CHECK(std::all_of(found.begin(), found.end(), [](double v) { return std::isfinite(v); }));
    if (sign < 0) CHECK_CLOSE(worst(found, logits(t, changed({{"cumulative", true}}))), 0, 1e-12);
    each_layer([&](const std::string& p) { extreme.set(p + "gamma_proj.bias", std::vector<float>(4, float(sign * 400))); });
    CHECK_CLOSE(worst(found, logits(t, extreme)), 0, 1e-12);
  }
  // Saturated addresses: a weight of exactly 1 beside exact zeros.
  TinyCheckpoint sharp = made_ramnet();
  each_layer([&](const std::string& p) {
    sharp.set(p + "w_log_scale", std::vector<float>(4, 9));
    sharp.set(p + "r_log_scale", std::vector<float>(4, 9));
  });
  for (const json& rule : {json::object(), json{{"state_eps", 0.0}}, json{{"readout", "mass_aware"}},
                           json{{"update_rule", "pdma"}, {"pdma_gamma", 0.0}}}) {
    TinyCheckpoint c = sharp;
    c.config["ramnet"].update(rule);
    for (const char* dtype : {"float64", "float32"}) {
      const auto found = logits(t, c, dtype);
      CHECK(!found.empty() && std::all_of(found.begin(), found.end(), [](double v) { return std::isfinite(v); }));
    }
  }
}
