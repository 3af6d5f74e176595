// Raven configurations: golden folders of both flavours, the detection order, and every trap of section R
// that shapes can show (bad-inputs B23, B24, B26 to B28, R6 to R13; model-zoo 2.1, 2.2, 2.7).
#include "core/formats/raven_config.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "tests/cases/case.h"
#include "tests/cases/formats/files.h"

using namespace slotscope::formats;
using namespace slotscope::testing;
using nlohmann::json;

namespace {

// A golden model with changed config keys and tensors; values are zeros unless `fill` says otherwise.
struct Made {
  json config;
  std::map<std::string, Shape> tensors;
  float fill = 0;

  Made(Context& t, const std::string& golden) {
    const auto checkpoint = Checkpoint::open(t.data("golden/models/" + golden));
    config = *checkpoint->config();
    for (const auto& tensor : checkpoint->tensors())
      tensors[tensor.name] = {tensor.name, tensor.shape, "F32"};
  }
  Made& set(const std::string& key, json value) {
    config[key] = std::move(value);
    return *this;
  }
  Made& without(const std::string& key) {
    config.erase(key);
    return *this;
  }
  Made& drop(const std::string& name) {
    tensors.erase(name);
    return *this;
  }
  Made& shape(const std::string& name, std::vector<int64_t> s, std::string dtype = "F32") {
    tensors[name] = {name, std::move(s), std::move(dtype)};
    return *this;
  }
  // The same for both layers: attn.<name>
  Made& both(const std::string& name, std::vector<int64_t> s, std::string dtype = "F32") {
    for (const char* layer : {"0", "1"})
      shape("model.layers." + std::string(layer) + ".attn." + name, s, dtype);
    return *this;
  }
  Made& drop_both(const std::string& name) {
    for (const char* layer : {"0", "1"}) drop("model.layers." + std::string(layer) + ".attn." + name);
    return *this;
  }
  std::shared_ptr<const Checkpoint> open(Context& t) const {
    const auto folder = t.temp();
    write_file(folder / "config.json", config.dump());
    std::vector<Shape> list;
    for (const auto& [name, s] : tensors) list.push_back(s);
    write_file(folder / "model.safetensors", zeros_file(list, fill));
    return Checkpoint::open(folder);
  }
  RavenConfig read(Context& t, const std::string& flavour = "") const {
    return read_raven_config(*open(t), flavour);
  }
};

bool any_has(const std::vector<std::string>& texts, std::string_view part) {
  for (const auto& text : texts)
    if (text.find(part) != std::string::npos) return true;
  return false;
}

std::string source_of(const RavenConfig& config, const std::string& key) {
  for (const auto& row : config.rows)
    if (row.key == key) return row.value + " from " + row.source;
  return "no row";
}

}  // namespace

// Every golden Raven folder reads with the flavour of the manifest and needs exactly its tensors.
SLOTSCOPE_CASE(golden_folders) {
  std::ifstream in(t.data("golden/models/manifest.json"));
  int read = 0;
  for (const json& row : json::parse(in)) {
    const auto name = row["name"].get<std::string>();
    if (!name.starts_with("raven_")) continue;
    const auto checkpoint = Checkpoint::open(t.data("golden/models/" + name));
    const RavenConfig config = read_raven_config(*checkpoint);
    CHECK_EQ(flavour_name(config.flavour), row["flavour"].get<std::string>());
    CHECK(!config.flavour_matters);
    CHECK_EQ(raven_tensors(config).size(), checkpoint->tensors().size());
    CHECK_EQ(config.hidden_size, 32);
    CHECK_EQ(config.vocab, 53);
    CHECK_EQ(config.slots, 8);
    CHECK_EQ(config.topk, 3);
    CHECK_EQ(config.d_k, 8);
    CHECK_EQ(config.d_v, name == "raven_fla_expandv2" ? 16 : 8);
    CHECK_EQ(config.intermediate, name == "raven_fla_rule_mlp" ? 256 : 48);
    CHECK_EQ(config.tied, name == "raven_fla_tied");
    CHECK_EQ(config.hybrid(), name == "raven_fla_hybrid_list");
    ++read;
  }
  CHECK_EQ(read, 10);
}

SLOTSCOPE_CASE(bundled) {
  const RavenConfig config = read_raven_config(*Checkpoint::open(t.resource("checkpoints/raven-passkey")));
  CHECK_EQ(config.hidden_size, 256);
  CHECK_EQ(config.layers, 4);
  CHECK_EQ(config.heads, 4);
  CHECK_EQ(config.kv_heads, 4);
  CHECK_EQ(config.d_k, 64);
  CHECK_EQ(config.slots, 64);
  CHECK_EQ(config.topk, 8);
  CHECK_EQ(config.vocab, 260);
  CHECK_EQ(config.intermediate, 768);  // 256 ceil(682 / 256)
  CHECK(config.output_gate && !config.tied && !config.hybrid() && !config.use_rope);
  CHECK_EQ(config.flavour_reason, std::string("config.json has attnres_block_size"));
  CHECK_EQ(source_of(config, "num_kv_heads"), std::string("4 from rule: num_heads"));
  CHECK_EQ(source_of(config, "topk"), std::string("8 from config.json"));
  CHECK(any_has(config.notes, "A_log is stored as F32"));  // R13
  CHECK(config.warnings.empty());
}

SLOTSCOPE_CASE(epsilons_of_the_flavours) {  // R1
  const RavenConfig gb = Made(t, "raven_gb_eps").read(t), fla = Made(t, "raven_gb_eps").read(t, "fla");
  CHECK_EQ(gb.norm_eps, 0.01);
  CHECK_EQ(gb.eps_g, 1e-5);
  CHECK_EQ(fla.eps_g, 0.01);
  CHECK_EQ(gb.eps_o, 0.01);
}

// model-zoo 2.7, the whole order.
SLOTSCOPE_CASE(detection_order) {
  const auto plain = [&] {  // no key tells
    Made made(t, "raven_fla_default");
    return made.without("attnres_block_size").without("use_rope");
  };
  const auto expect = [&](const RavenConfig& config, Flavour flavour, const char* reason, bool matters) {
    CHECK_EQ(flavour_name(config.flavour), flavour_name(flavour));
    CHECK(config.flavour_reason.find(reason) != std::string::npos);
    CHECK_EQ(config.flavour_matters, matters);
    CHECK_EQ(any_has(config.warnings, "guessed"), matters);
  };
  expect(plain().read(t, "goombalab"), Flavour::goombalab, "user", false);
  expect(plain().set("use_rope", false).set("use_norm", true).read(t, "goombalab"), Flavour::goombalab,
         "user", false);
  expect(plain().set("use_rope", false).set("use_norm", true).read(t), Flavour::fla, "use_rope", false);
  expect(plain().set("attnres_block_size", nullptr).set("clamp_min", 0).read(t), Flavour::fla,
         "attnres_block_size", false);
  for (const char* key : {"clamp_min", "clamp_max", "use_norm"})
    expect(plain().set(key, nullptr).read(t), Flavour::goombalab, key, false);
  expect(plain().set("exapnd_k", 1).read(t), Flavour::goombalab, "exapnd_k", false);
  expect(plain().read(t), Flavour::fla, "guessed", true);  // no output gate
  Made gated(t, "raven_fla_gate_T80");
  expect(gated.without("attnres_block_size").without("use_rope").read(t), Flavour::fla, "guessed", false);
  Made wide(t, "raven_fla_expandv2");
  expect(wide.without("attnres_block_size").without("use_rope").read(t), Flavour::fla, "value width 64",
         false);
  Made hybrid(t, "raven_fla_hybrid_list");
  hybrid.without("attnres_block_size").without("use_rope");
  expect(hybrid.read(t), Flavour::fla, "guessed", true);
  hybrid.config["attn"] = hybrid.config["attn"][0];
  hybrid.config["attn"]["use_rope"] = false;
  expect(hybrid.read(t), Flavour::goombalab, "attn.use_rope", false);
  CHECK_ERROR(plain().read(t, "gla"), "--flavour", "gla");
}

// B23: which spelling counts, and what the weights say.
SLOTSCOPE_CASE(misspelt_expand) {
  const auto gb = [&] { return Made(t, "raven_gb_default").without("expand_k"); };
  const auto widths = [](Made made, int64_t d_k) {
    made.both("q_proj.weight", {4 * d_k, 32})
        .both("k_proj.weight", {4 * d_k, 32})
        .both("q_norm.weight", {d_k})
        .both("k_norm.weight", {d_k});
    return made;
  };
  RavenConfig config = widths(gb().set("exapnd_k", 2), 16).read(t);
  CHECK_EQ(config.d_k, 16);
  CHECK_EQ(source_of(config, "expand_k"), std::string("2 from exapnd_k"));
  CHECK(any_has(config.notes, "misspelt key exapnd_k"));
  config = widths(gb().set("expand_k", 0.5), 4).read(t);
  CHECK_EQ(config.d_k, 4);
  CHECK(!any_has(config.notes, "exapnd"));
  config = widths(gb().set("exapnd_k", 2).set("expand_k", 0.5), 4).read(t);
  CHECK_EQ(config.d_k, 4);
  CHECK_EQ(source_of(config, "expand_k"), std::string("0.5 from config.json"));
  config = gb().read(t);
  CHECK_EQ(config.d_k, 8);
  CHECK_EQ(source_of(config, "expand_k"), std::string("1 from default"));
  // fla does not know the misspelt key; the weights then decide, with both numbers in the warning.
  config = Made(t, "raven_fla_default").without("expand_k").set("exapnd_k", 2).read(t);
  CHECK_EQ(config.d_k, 8);
  CHECK(any_has(config.warnings, "exapnd_k 2 has no effect"));
  config = widths(Made(t, "raven_fla_default"), 16).read(t);
  CHECK_EQ(config.d_k, 16);
  CHECK(any_has(config.warnings, "q_proj has 64 rows, expand_k 1 gives 32"));
  CHECK_EQ(source_of(config, "d_k"), std::string("16 from weights"));
  // Only q_proj disagrees: that is no model.
  CHECK_ERROR(Made(t, "raven_fla_default").both("q_proj.weight", {64, 32}).read(t), "k_proj.weight",
              "[32, 32]", "[64, 32]");
  CHECK_ERROR(Made(t, "raven_fla_default").both("q_proj.weight", {33, 32}).read(t), "q_proj.weight",
              "[33, 32]", "[32, 32]");
  CHECK_ERROR(Made(t, "raven_fla_default").set("expand_k", "2").read(t), "expand_k", "\"2\"", "a number");
  CHECK_ERROR(Made(t, "raven_fla_default").set("expand_k", -1).read(t), "expand_k", "above 0");
  CHECK_ERROR(Made(t, "raven_fla_default").set("expand_k", 1e30).read(t), "expand_k");
}

// B28: null means the class default.
SLOTSCOPE_CASE(nulls) {
  const RavenConfig config = Made(t, "raven_fla_default")
                                 .set("num_slots", nullptr)
                                 .set("topk", nullptr)
                                 .set("attn", nullptr)
                                 .set("num_kv_heads", nullptr)
                                 .set("hidden_ratio", nullptr)
                                 .set("norm_eps", nullptr)
                                 .read(t);
  CHECK_EQ(config.slots, 8);  // key dim per head
  CHECK_EQ(config.topk, 8);   // 32, lowered (R9)
  CHECK_EQ(config.kv_heads, 4);
  CHECK_EQ(config.norm_eps, 1e-6);
  CHECK(any_has(config.notes, "lowered"));
  CHECK_EQ(gated_mlp_width(1024, 4), 2816);
  CHECK_EQ(gated_mlp_width(2048, 4), 5632);
  CHECK_EQ(gated_mlp_width(64, 4), 256);
}

SLOTSCOPE_CASE(topk_above_slots) {  // R9
  CHECK_ERROR(Made(t, "raven_fla_default").set("topk", 9).read(t), "topk", "9", "1 to 8");
  CHECK_ERROR(Made(t, "raven_gb_default").set("topk", 9).set("num_slots", nullptr).read(t), "topk", "9",
              "1 to 8");
  CHECK_ERROR(Made(t, "raven_fla_default").set("topk", 0).read(t), "topk", "0");
  CHECK_EQ(Made(t, "raven_fla_default").set("topk", 8).read(t).topk, 8);
}

// R6: grouped heads work in fla only; r_proj's rows tell.
SLOTSCOPE_CASE(grouped_heads) {
  const auto grouped = [&](const char* golden, int64_t router_heads) {
    Made made(t, golden);
    made.set("num_kv_heads", 2).both("k_proj.weight", {16, 32}).both("v_proj.weight", {16, 32});
    made.both("r_proj.weight", {router_heads * 8, 32})
        .both("a_proj.weight", {router_heads, 32})
        .both("A_log", {router_heads});
    return made.both("dt_bias", {router_heads});
  };
  const RavenConfig fla = grouped("raven_fla_default", 2).read(t);
  CHECK_EQ(fla.kv_heads, 2);
  CHECK_EQ(fla.d_v, 8);
  CHECK_ERROR(grouped("raven_gb_default", 4).read(t), "num_kv_heads", "2 of 4", "32 rows", "goombalab");
  const RavenConfig told = grouped("raven_gb_default", 2).read(t);
  CHECK(told.flavour == Flavour::fla);
  CHECK(any_has(told.warnings, "r_proj"));
  CHECK_ERROR(grouped("raven_gb_default", 2).read(t, "goombalab"), "num_kv_heads", "choose flavour fla");
  CHECK_ERROR(grouped("raven_fla_default", 4).read(t), "num_kv_heads", "r_proj with 32 rows", "broken");
  CHECK_ERROR(Made(t, "raven_fla_default").set("num_kv_heads", 3).read(t), "num_kv_heads", "3", "divisor");
}

// R7: the width of g_norm tells the code bases apart when expand_v is not 1.
SLOTSCOPE_CASE(norm_width) {
  const auto wide = [&](int64_t norm) {
    Made made(t, "raven_gb_default");
    made.set("expand_v", 2).both("v_proj.weight", {64, 32}).both("o_proj.weight", {32, 64});
    return made.both("g_norm.weight", {norm});
  };
  const RavenConfig told = wide(64).read(t);
  CHECK(told.flavour == Flavour::fla && told.d_v == 16);
  CHECK(any_has(told.warnings, "g_norm"));
  CHECK_ERROR(wide(32).read(t), "g_norm.weight", "value width 64", "hidden size 32");
  CHECK_ERROR(wide(64).read(t, "goombalab"), "g_norm.weight", "choose flavour fla");
  CHECK_ERROR(wide(32).read(t, "fla"), "g_norm.weight", "[32]", "[64]");
  // With the output gate both code bases take it.
  Made gated(t, "raven_gb_gate");
  gated.set("expand_v", 2)
      .both("v_proj.weight", {64, 32})
      .both("o_proj.weight", {32, 64})
      .both("o_norm.weight", {16});
  gated.both("o_gate_proj.weight", {64, 32});
  CHECK(gated.read(t).flavour == Flavour::goombalab);
}

// R8, R10: keys that do nothing are noted, and no tensors are asked for them.
SLOTSCOPE_CASE(ignored_keys) {
  const RavenConfig config =
      Made(t, "raven_gb_default").set("use_short_conv", true).set("conv_size", 4).read(t);
  CHECK(any_has(
      config.notes,
      "keys without effect in this model: clamp_min, clamp_max, use_short_conv, conv_size, use_norm"));
  CHECK(any_has(config.notes, "add_gumbel_noise acts in training only"));
  CHECK_ERROR(Made(t, "raven_gb_default").both("q_conv1d.weight", {32, 1, 4}).read(t), "q_conv1d", "1 others",
              "Short convolutions");
  CHECK(any_has(Made(t, "raven_gb_default").set("use_rope", true).read(t, "goombalab").warnings,
                "use_rope has no effect"));
}

// R11: RoPE in attention layers follows the flavour; routes exist only elsewhere.
SLOTSCOPE_CASE(hybrid_layers) {
  Made made(t, "raven_fla_hybrid_list");
  const RavenConfig list = made.read(t);
  CHECK(!list.is_attention(0) && list.is_attention(1));
  const AttentionConfig attention = *list.attention[1];
  CHECK_EQ(attention.heads, 2);
  CHECK_EQ(attention.kv_heads, 2);
  CHECK_EQ(attention.head_dim, 16);
  CHECK_EQ(attention.window, 4);
  CHECK(attention.qkv_bias && attention.use_rope);
  made.config["attn"] = made.config["attn"][0];
  CHECK_EQ(made.read(t).attention[1]->window, 4);  // dict and list form alike
  made.config["attn"]["use_rope"] = false;
  CHECK(!made.read(t, "goombalab").attention[1]->use_rope);
  const RavenConfig fla = made.read(t, "fla");
  CHECK(fla.attention[1]->use_rope && any_has(fla.warnings, "attn.use_rope false is ignored"));
  made.config["attn"]["window_size"] = nullptr;
  CHECK_EQ(made.read(t).attention[1]->window, 0);
  made.config["attn"]["rope_theta"] = 500;
  CHECK_EQ(made.read(t).attention[1]->rope_theta, 500.0);
  made.config["attn"]["qkv_bias"] = false;
  CHECK_ERROR(made.read(t), "bias", "not part of the model");
  CHECK_ERROR(Made(t, "raven_fla_hybrid_list").read(t, "goombalab"), "attn", "a list", "flavour fla");
  Made missing(t, "raven_fla_hybrid_list");
  CHECK_ERROR(missing.drop("model.layers.1.attn.v_proj.bias").read(t), "model.layers.1.attn.v_proj.bias",
              "missing", "[32]");
}

// B27: tied embeddings in all four forms.
SLOTSCOPE_CASE(tied_embeddings) {
  const RavenConfig a = Made(t, "raven_fla_tied").read(t);
  CHECK(a.tied && any_has(a.notes, "tied"));
  const RavenConfig b = Made(t, "raven_fla_tied")
                            .without("tie_word_embeddings")
                            .set("text_config", {{"tie_word_embeddings", true}})
                            .read(t);
  CHECK(b.tied && any_has(b.notes, "tied") && any_has(b.notes, "text_config"));
  CHECK_ERROR(Made(t, "raven_fla_tied").set("tie_word_embeddings", false).read(t), "lm_head.weight",
              "missing", "tie_word_embeddings is false", "[53, 32]", "never made up");
  CHECK_ERROR(Made(t, "raven_fla_tied").without("tie_word_embeddings").read(t), "lm_head.weight", "missing");
  // d: a stored head besides the flag. Listing warns; comparing the values is part of loading.
  Made made(t, "raven_fla_tied");
  made.shape("lm_head.weight", {53, 32});
  auto checkpoint = made.open(t);
  RavenConfig d = read_raven_config(*checkpoint);
  CHECK(d.tied && any_has(d.warnings, "the embedding is used"));
  check_raven_values(*checkpoint, d);
  CHECK(any_has(d.notes, "equals the embedding"));  // all zeros
  made.shape("lm_head.weight", {53, 32}, "BF16");
  checkpoint = made.open(t);
  d = read_raven_config(*checkpoint);
  check_raven_values(*checkpoint, d);
  CHECK(any_has(d.warnings, "differs from the embedding"));
}

// R10: a selection bias from uninitialised memory.
SLOTSCOPE_CASE(bias_values) {
  Made made(t, "raven_fla_gla_softmax_bias_t2r");
  made.fill = 0.25;
  auto checkpoint = made.open(t);
  RavenConfig config = read_raven_config(*checkpoint);
  check_raven_values(*checkpoint, config);
  CHECK(any_has(config.notes, "from 0.25 to 0.25"));
  made.fill = std::numeric_limits<float>::quiet_NaN();
  checkpoint = made.open(t);
  config = read_raven_config(*checkpoint);
  CHECK_ERROR(check_raven_values(*checkpoint, config), "model.layers.0.attn.r_bias", "NaN at [0, 0]",
              "uninitialised");
}

// B10: FP8 weights are read as they are and named in a warning; with a scale beside them they are refused by name, and so are
// other dtypes that are no reals.
SLOTSCOPE_CASE(float8_weights) {
  const std::string name = "model.layers.0.mlp.up_proj.weight";
  const auto made = [&] { return Made(t, "raven_fla_default").shape(name, {48, 32}, "F8_E4M3"); };
  const auto bare = made().open(t);
  CHECK_EQ(read_raven_config(*bare).layers, 2);
  CHECK(any_has(bare->warnings(), "1 FP8 tensor without a scale ('" + name + "')"));
  for (const std::string scale : {"weight_scale", "weight_scale_inv", "scale_weight", "scale", "weight_scales"}) {
    const auto scaled = made().shape("model.layers.0.mlp.up_proj." + scale, {}).open(t);
    CHECK(!any_has(scaled->warnings(), "FP8"));
    CHECK(any_has(scaled->notes(), "1 FP8 tensor with scales"));
    CHECK_ERROR(read_raven_config(*scaled), name, "F8_E4M3 with the scale", "up_proj." + scale, "bfloat16");
  }
  // Any other tensor that has "scale" in its name does not silence the warning.
  const auto other = made().shape("model.layers.1.mlp.up_proj.weight_scale", {}).open(t);
  CHECK(any_has(other->warnings(), "1 FP8 tensor without a scale"));
  CHECK_ERROR(Made(t, "raven_fla_default").shape(name, {48, 32}, "I16").read(t), name, "dtype I16", "BF16");
}

// R12, R13: names, and stored dtypes of the decay.
SLOTSCOPE_CASE(names_and_dtypes) {
  const RavenConfig rounded = Made(t, "raven_fla_default").both("A_log", {4}, "BF16").read(t);
  CHECK(any_has(rounded.warnings, "A_log is stored as BF16") &&
        any_has(rounded.notes, "dt_bias is stored as F32"));
  CHECK_ERROR(Made(t, "raven_fla_default")
                  .drop("model.embeddings.weight")
                  .shape("model.embed_tokens.weight", {53, 32})
                  .read(t),
              "model.embeddings.weight", "missing", "[53, 32]");
  CHECK_ERROR(Made(t, "raven_fla_default").drop("model.layers.1.attn.A_log").read(t),
              "model.layers.1.attn.A_log", "missing", "[4]");
  CHECK_ERROR(Made(t, "raven_fla_default").shape("model.layers.0.mlp.up_proj.weight", {47, 32}).read(t),
              "up_proj", "[47, 32]", "[48, 32]");
  CHECK_ERROR(Made(t, "raven_fla_default").shape("model.layers.2.attn_norm.weight", {32}).read(t),
              "model.layers.2", "0 to 1");
  CHECK_ERROR(Made(t, "raven_fla_default").shape("model.res_norm.weight", {32}).read(t), "AttnRes");
  CHECK_EQ(Made(t, "raven_fla_default").shape("model.layers.0.attn.rotary.inv_freq", {4}).read(t).layers, 2);
  // A base model: no leading "model." and no head; tied, or refused.
  Made base(t, "raven_fla_tied");
  std::map<std::string, Shape> renamed;
  for (auto [name, s] : base.tensors) {
    s.name = name.substr(6);
    renamed[s.name] = s;
  }
  base.tensors = renamed;
  CHECK_EQ(base.read(t).prefix, std::string());
  CHECK_ERROR(base.set("tie_word_embeddings", false).read(t), "lm_head.weight", "base model");
  // Sizes that only the tensors know.
  const RavenConfig rows =
      Made(t, "raven_fla_default").set("vocab_size", 50).set("intermediate_size", 64).read(t);
  CHECK_EQ(rows.vocab, 53);  // B29
  CHECK(any_has(rows.notes, "vocab_size is 50, the embedding has 53 rows"));
  CHECK_EQ(rows.intermediate, 48);
  CHECK_ERROR(Made(t, "raven_fla_default").shape("lm_head.weight", {50, 32}).read(t), "lm_head.weight",
              "[50, 32]", "[53, 32]");
}

// Options outside the public code are refused by name (model-zoo 1.11, 2.7).
SLOTSCOPE_CASE(unsupported) {
  const auto with = [&](const char* key, json value) {
    return Made(t, "raven_fla_default").set(key, std::move(value)).read(t);
  };
  CHECK_ERROR(with("alpha", 1), "alpha", "config.json");
  CHECK_ERROR(with("router_alpha", 4), "router_alpha");
  CHECK_ERROR(with("attnres_block_size", 4), "attnres_block_size", "4");
  CHECK_ERROR(with("hidden_act", "powlu"), "hidden_act", "powlu");
  CHECK_ERROR(with("feature_map", "elu"), "feature_map", "elu", "swish or relu or t2r");
  CHECK_ERROR(with("decay_type", "HGRN"), "decay_type", "HGRN");
  CHECK_ERROR(with("router_score", "tanh"), "router_score", "tanh");
  CHECK(Made(t, "raven_gb_default").set("router_score", "tanh").read(t).router_score == RouterScore::softmax);
  CHECK_ERROR(with("router_type", "conv"), "router_type", "conv");
  CHECK_ERROR(with("model_type", "mystery"), "model_type", "mystery", "raven");
  CHECK_ERROR(with("hidden_size", "32"), "hidden_size", "\"32\"");
  CHECK_ERROR(with("hidden_size", 32.5), "hidden_size", "32.5");
  CHECK_ERROR(with("num_hidden_layers", 1e15), "num_hidden_layers");
  CHECK_ERROR(with("num_heads", true), "num_heads", "true");
  CHECK_ERROR(with("num_heads", 5), "5");
  CHECK_ERROR(with("norm_eps", -1), "norm_eps");
  CHECK_ERROR(with("hidden_ratio", 1e300), "hidden_ratio");
  CHECK(any_has(with("architectures", {"A", "B"}).notes, "architectures lists 2"));
  const auto folder = t.temp();
  write_file(folder / "config.json", Made(t, "raven_fla_default").config.dump());
  write_file(folder / "model.safetensors", safetensors("{\"__metadata__\":{\"k\":\"v\"}}"));
  CHECK_ERROR(read_raven_config(*Checkpoint::open(folder)), "no weights");  // B06: metadata only
  std::filesystem::remove(folder / "config.json");
  CHECK_ERROR(read_raven_config(*Checkpoint::open(folder)), "config.json", "no readable config.json");
  CHECK_ERROR(Made(t, "raven_fla_default").shape("model.norm.weight", {32}, "I16").read(t),
              "model.norm.weight", "I16");
}

// B24 as far as Raven has it: RoPE settings count only where a layer uses them.
SLOTSCOPE_CASE(rope_settings) {
  const auto roped = [&] { return Made(t, "raven_fla_default").set("use_rope", true); };
  CHECK_EQ(roped().read(t).rope_theta, 10000.0);
  CHECK_EQ(roped().set("rope_theta", 500).read(t).rope_theta, 500.0);
  const RavenConfig moved = roped()
                                .without("rope_theta")
                                .set("rope_parameters", {{"rope_theta", 5e5}, {"rope_type", "default"}})
                                .read(t);
  CHECK_EQ(moved.rope_theta, 5e5);
  CHECK_EQ(source_of(moved, "rope_theta"), std::string("5e+05 from rope_parameters.rope_theta"));
  CHECK_ERROR(roped().set("rope_scaling", {{"type", "linear"}, {"factor", 2}}).read(t), "rope_scaling.type",
              "linear");
  CHECK_ERROR(roped().set("rope_parameters", {{"rope_type", "foo"}}).read(t), "rope_parameters.type", "foo");
  CHECK_EQ(roped().set("rope_scaling", nullptr).read(t).rope_theta, 10000.0);
  CHECK(any_has(Made(t, "raven_fla_default").set("rope_scaling", {{"type", "foo"}}).read(t).notes,
                "rope_scaling has no effect"));
}
