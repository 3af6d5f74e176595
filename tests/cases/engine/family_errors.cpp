// What a family cannot honour is refused by name before a weight is read; nulls get their defaults; older layouts of its
// tensors give the same numbers (spec: bad-inputs B26-B29; model-zoo 1.9-1.13).
#include "core/formats/config.h"
#include "tests/cases/engine/family_cases.h"
#include "tests/cases/engine/tiny_checkpoint.h"

using namespace slotscope;
using namespace slotscope::testing;

namespace {

// A golden case with changes.
class Made {
 public:
  Made(Context& t, const std::string& name) : t_(t), c_(TinyCheckpoint::from(t.data("golden/models/" + name))) {}
  Made& set(const std::string& key, const nlohmann::json& value) {
    c_.config[key] = value;
    return *this;
  }
  Made& without(const std::string& key) {
    c_.config.erase(key);
    return *this;
  }
  TinyCheckpoint& tensors() { return c_; }
  std::filesystem::path write() const {
    const auto folder = t_.temp();
    c_.write(folder);
    return folder;
  }
  engine::ModelInfo inspect(const std::string& flavour = "") const {
    return engine::inspect(*formats::Checkpoint::open(write()), flavour);
  }
  std::vector<double> logits(const std::vector<int32_t>& ids) const {
    const auto model = load_model(write(), "float64", t_.device());
    return run_ids(*model, ids, capture("logits"))->values("output/logits");
  }

 private:
  Context& t_;
  TinyCheckpoint c_;
};

bool any_has(const std::vector<std::string>& list, const std::string& part) {
  return std::any_of(list.begin(), list.end(),
                     [&](const std::string& s) { return s.find(part) != std::string::npos; });
}

std::string value_of(const engine::ModelInfo& info, const std::string& key) {
  for (const auto& row : info.config)
    if (row.key == key) return row.value;
  return "";
}

// Any tensor of the first layer's mixer that is a matrix.
std::string mixer_matrix(const TinyCheckpoint& c) {
  for (const auto& [name, tensor] : c.tensors)
    if (name.find("layers.0.attn.") != std::string::npos || name.find("layers.0.mixer.") != std::string::npos)
      if (tensor.shape.size() == 2) return name;
  throw std::runtime_error("no matrix");
}

// One golden case of each family.
std::vector<FamilyCase> one_of_each() {
  std::vector<FamilyCase> list;
  std::set<std::string> seen;
  for (const FamilyCase& c : family_cases())
    if (seen.insert(c.model_type).second) list.push_back(c);
  return list;
}

}  // namespace

// B26-B29 for every family: tensors missing, unexpected, misshapen and quantised; sizes that do not fit; AttnRes, powlu.
SLOTSCOPE_CASE(every_family_refuses) {
  for (const FamilyCase& f : one_of_each()) {
    const std::string matrix = mixer_matrix(Made(t, f.name).tensors());
    Made missing(t, f.name);
    missing.tensors().tensors.erase(matrix);
    CHECK_ERROR(missing.inspect(), matrix, "missing", "shape [");
    Made extra(t, f.name);
    extra.tensors().shape("model.layers.0.attn.surprise.weight", {3, 4});
    CHECK_ERROR(extra.inspect(), "surprise", "not part of the model");
    Made wide(t, f.name);
    const auto shape = wide.tensors().tensors.at(matrix).shape;
    wide.tensors().shape(matrix, {shape[0], shape[1] + 1});
    CHECK_ERROR(wide.inspect(), matrix, formats::shape_text(shape),
                formats::shape_text({shape[0], shape[1] + 1}));
    Made flat(t, f.name);
    flat.tensors().shape(matrix, {shape[0] * shape[1]});
    CHECK_ERROR(flat.inspect(), matrix);
    CHECK_ERROR(Made(t, f.name).set("attnres_block_size", 2).inspect(), "attnres_block_size");
    CHECK_ERROR(Made(t, f.name).set("hidden_act", "powlu").inspect(), "hidden_act", "powlu");
    CHECK_ERROR(Made(t, f.name).set("hidden_size", "32").inspect(), "hidden_size");
    CHECK_ERROR(Made(t, f.name).set("hidden_size", 48).inspect(), "");
    CHECK_ERROR(Made(t, f.name).set("num_hidden_layers", 3).inspect(), "layers.2.", "missing");
    CHECK_ERROR(Made(t, f.name).set("num_hidden_layers", 1).inspect(), "layers.1.", "a layer from 0 to 0");
    CHECK_ERROR(Made(t, f.name).inspect("goombalab"), "--flavour", "goombalab", f.model_type);
    Made headless(t, f.name);
    headless.tensors().tensors.erase("lm_head.weight");
    CHECK_ERROR(headless.inspect(), "lm_head.weight", "never made up");
  }
}

// B29, B27: the embedding's rows count; a tied head; a base model's names.
SLOTSCOPE_CASE(every_family_reads) {
  for (const FamilyCase& f : one_of_each()) {
    const auto ids = some_ids(9, 53);
    CHECK(any_has(Made(t, f.name).set("vocab_size", 64).inspect().notes, "the tensor counts"));
    CHECK_EQ(Made(t, f.name).set("vocab_size", 64).inspect().vocab_rows, int64_t(53));
    Made copied(t, f.name), tied(t, f.name);
    const std::string embedding = copied.tensors().tensors.contains("model.embeddings.weight")
                                      ? "model.embeddings.weight"
                                      : "backbone.embeddings.weight";
    copied.tensors().tensors["lm_head.weight"] = copied.tensors().tensors.at(embedding);
    tied.set("tie_word_embeddings", true).tensors().tensors.erase("lm_head.weight");
    const auto expected = copied.logits(ids);
    CHECK_EQ(tied.logits(ids), expected);
    CHECK(tied.inspect().tied);
    TinyCheckpoint& base = tied.tensors();
    std::vector<std::string> names;
    for (const auto& [name, tensor] : base.tensors) names.push_back(name);
    for (const std::string& name : names) base.rename(name, name.substr(name.find('.') + 1));
    CHECK(any_has(tied.inspect().notes, "base model"));
    CHECK_EQ(tied.logits(ids), expected);
    Made other(t, f.name);
    other.set("tie_word_embeddings", true);
    CHECK_EQ(other.logits(ids), expected);
    CHECK(any_has(load_model(other.write())->info().warnings, "differs from the embedding"));
  }
}

// model-zoo 1.12: the MLP with gate and up in one tensor, until 2025-02.
SLOTSCOPE_CASE(fused_mlp_of_older_files) {
  for (const FamilyCase& f : one_of_each()) {
    Made old(t, f.name);
    TinyCheckpoint& c = old.tensors();
    if (!c.tensors.contains("model.layers.0.mlp.up_proj.weight")) continue;  // mamba has none
    const auto ids = some_ids(9, 53);
    const auto expected = old.logits(ids);
    for (const std::string i : {"0", "1"}) {
      const std::string p = "model.layers." + i + ".mlp.";
      TinyTensor& gate = c.tensors.at(p + "gate_proj.weight");
      const TinyTensor up = c.tensors.at(p + "up_proj.weight");
      gate.values.insert(gate.values.end(), up.values.begin(), up.values.end());
      gate.shape[0] *= 2;
      c.tensors.erase(p + "up_proj.weight");
    }
    CHECK(any_has(old.inspect().notes, "gate and up"));
    CHECK_CLOSE(worst(old.logits(ids), expected), 0, 1e-12);
  }
}

// model-zoo 1.12: norms inside attn and mlp (norm_first), the latter with eps 1e-5. With norm_eps 1e-5 that is the same model.
SLOTSCOPE_CASE(norms_of_older_files) {
  for (const char* name : {"gsa_default", "transformer_default"}) {
    Made now(t, name), old(t, name);
    const auto ids = some_ids(9, 53);
    const auto expected = now.set("norm_eps", 1e-5).logits(ids);
    for (const std::string i : {"0", "1"}) {
      const std::string p = "model.layers." + i + ".";
      old.tensors().rename(p + "attn_norm.weight", p + "attn.norm.weight");
      old.tensors().rename(p + "mlp_norm.weight", p + "mlp.norm.weight");
    }
    CHECK(any_has(old.inspect().notes, "norm_first"));
    CHECK_CLOSE(worst(old.set("norm_eps", 1e-5).logits(ids), expected), 0, 1e-12);
    // The MLP's eps does not follow norm_eps there.
    CHECK(worst(old.set("norm_eps", 1e-2).logits(ids), now.set("norm_eps", 1e-2).logits(ids)) > 1e-3);
  }
}

// The families with a matrix state: options, names and older layouts; the numbers of what has no golden case of its own.
SLOTSCOPE_CASE(matrix_families) {
  CHECK_ERROR(Made(t, "gla_default").set("fuse_norm", false).inspect(), "g_norm.weight", "missing");
  CHECK_ERROR(Made(t, "gla_default").set("feature_map", "elu").inspect(), "feature_map", "elu", "sqrelu");
  CHECK_ERROR(Made(t, "gla_default").set("use_short_conv", true).inspect(), "q_conv1d.weight", "missing");
  CHECK_ERROR(Made(t, "retnet_default").set("hidden_act", "gelu").inspect(), "hidden_act", "gelu");
  CHECK_ERROR(Made(t, "linear_elu").set("feature_map", "hedgehog").inspect(), "feature_map_q.layer.weight", "[8, 8]");
  CHECK_ERROR(Made(t, "delta_default").set("qk_norm", "l1").inspect(), "qk_norm", "l1", "sum");
  CHECK_ERROR(Made(t, "delta_default").set("use_beta", false).inspect(), "b_proj", "not part");
  CHECK_ERROR(Made(t, "gdn_default").set("num_v_heads", 3).inspect(), "num_v_heads", "3", "multiple");
  CHECK_ERROR(Made(t, "gdn_default").set("head_dim", 16).inspect(), "q_proj.weight", "[16, 32]", "[32, 32]");
  CHECK_ERROR(Made(t, "gdn_default").set("expand_v", 1e9).inspect(), "expand_v");
  CHECK_ERROR(Made(t, "kda_default").set("lower_bound", 1).inspect(), "lower_bound");
  CHECK_ERROR(Made(t, "mamba2_default").set("head_dim", 24).inspect(), "head_dim", "24", "64");
  CHECK_ERROR(Made(t, "mamba2_default").set("n_groups", 3).inspect(), "n_groups", "3");
  CHECK_ERROR(Made(t, "mamba2_default").set("dt_limit", {1, 0}).inspect(), "dt_limit");
  CHECK_ERROR(Made(t, "mamba2_default").set("dt_limit", "x").inspect(), "dt_limit");
  CHECK_ERROR(Made(t, "mamba_default").set("dt_rank", "some").inspect(), "dt_rank");
  CHECK_ERROR(Made(t, "fox_default").set("attn", {{"layers", {0}}, {"num_heads", 4}}).inspect(), "attn", "hybrid");
  CHECK(any_has(Made(t, "fox_default").set("window_size", 4).inspect().warnings, "window_size has no effect"));
  Made unused(t, "gdn_default");
  unused.tensors().shape("model.layers.0.attn.D", {2});
  CHECK_EQ(unused.inspect().layers.size(), size_t(2));
  // FoX until 2025-04 called the forget gate g_proj.
  Made fox(t, "fox_default");
  const auto ids = some_ids(9, 53);
  const auto expected = fox.logits(ids);
  for (const std::string i : {"0", "1"})
    for (const std::string part : {"weight", "bias"})
      fox.tensors().rename("model.layers." + i + ".attn.f_proj." + part, "model.layers." + i + ".attn.g_proj." + part);
  CHECK_EQ(fox.logits(ids), expected);
  // Hugging Face's names of the same mamba2.
  Made hf(t, "mamba2_default");
  const auto fla = hf.logits(ids);
  hf.without("norm_eps").without("dt_limit").set("layer_norm_epsilon", 1e-5);
  hf.set("time_step_limit", {0.0, {{"__float__", "Infinity"}}});
  CHECK_EQ(hf.logits(ids), fla);
  // A clamp of dt that binds is seen.
  CHECK(worst(Made(t, "mamba2_default").set("dt_limit", {0.0, 0.05}).logits(ids), fla) > 1e-3);
}

// gsa and abc: keys and their misspellings, null slots, widths, and what the mixers do not have.
SLOTSCOPE_CASE(slot_families) {
  CHECK_EQ(value_of(Made(t, "gsa_t2r_nullslots").inspect(), "num_slots"), std::string("8"));
  CHECK_ERROR(Made(t, "gsa_default").set("num_slots", 16).inspect(), "f_proj.weight", "[32, 32]", "[64, 32]");
  CHECK_ERROR(Made(t, "gsa_default").set("feature_map", "elu").inspect(), "feature_map", "elu", "t2r");
  CHECK_ERROR(Made(t, "gsa_default").set("num_kv_heads", 3).inspect(), "num_kv_heads", "3", "divisor");
  CHECK_ERROR(Made(t, "gsa_default").set("use_short_conv", true).inspect(), "q_conv1d", "missing");
  CHECK_ERROR(Made(t, "gsa_conv_T80").set("use_short_conv", false).inspect(), "conv1d", "use_short_conv");
  CHECK_ERROR(Made(t, "gsa_conv_T80").set("conv_size", 3).inspect(), "conv1d.weight", "[32, 1, 4]", "[32, 1, 3]");
  CHECK_ERROR(Made(t, "gsa_default").set("gate_logit_normalizer", 0).inspect(), "gate_logit_normalizer");
  CHECK_ERROR(Made(t, "gsa_hybrid").set("attn", {{"layers", {2}}, {"num_heads", 4}}).inspect(), "attn.layers[0]",
              "2");
  CHECK_ERROR(Made(t, "gsa_hybrid").set("rope_scaling", {{"type", "linear"}, {"factor", 2}}).inspect(),
              "rope_scaling", "linear");
  Made wide(t, "gsa_default");
  for (const std::string i : {"0", "1"}) wide.tensors().shape("model.layers." + i + ".attn.v_proj.weight", {64, 32});
  CHECK_ERROR(wide.inspect(), "expand_v", "64", "hidden_size 32");
  CHECK_ERROR(Made(t, "abc_default").set("clamp_min", 40).inspect(), "clamp_min", "40", "32");
  const auto abc = Made(t, "abc_default").without("expand_k").set("exapnd_k", 0.5).inspect();
  CHECK(any_has(abc.notes, "exapnd_k"));
  CHECK(any_has(Made(t, "abc_default").inspect().notes, "gate_low_rank_dim"));
  // Where config and weights disagree about a width, the weights decide and it is said.
  const auto told = Made(t, "abc_default").set("expand_k", 1).inspect();
  CHECK(any_has(told.warnings, "the weights decide") && told.layers[0].d_k == 4);
  CHECK_EQ(Made(t, "abc_default").set("expand_k", 1).logits(some_ids(5, 53)), Made(t, "abc_default").logits(some_ids(5, 53)));
}

// The transformer: heads, windows, biases and QK norms.
SLOTSCOPE_CASE(transformer_options) {
  CHECK_ERROR(Made(t, "transformer_default").set("num_heads", 5).inspect(), "num_heads", "5", "hidden_size 32");
  CHECK_ERROR(Made(t, "transformer_default").set("num_kv_heads", 2).inspect(), "k_proj.weight", "[32, 32]",
              "[16, 32]");
  CHECK_ERROR(Made(t, "transformer_default").set("qkv_bias", true).inspect(), "q_proj.bias", "missing");
  CHECK_ERROR(Made(t, "transformer_default").set("qk_norm", true).inspect(), "q_norm.weight", "[8]");
  CHECK_ERROR(Made(t, "transformer_default").set("window_size", 0).inspect(), "window_size");
  CHECK_ERROR(Made(t, "transformer_default").set("rope_scaling", {{"rope_type", "yarn"}}).inspect(), "yarn");
  CHECK_ERROR(Made(t, "transformer_default").set("attn", {{"layers", {0}}, {"num_heads", 4}}).inspect(), "attn");
  CHECK_EQ(value_of(Made(t, "transformer_default").set("rope_parameters", {{"rope_theta", 500}}).without("rope_theta").inspect(),
                    "rope_theta"),
           std::string("500"));
}
