// The same values in other folder layouts give the same logits: original state-spaces folders, Hugging Face names, and older
// files told by their tensors (spec: model-zoo 1.12, 7.5, 8).
#include "tests/cases/engine/helpers.h"
#include "tests/cases/engine/tiny_checkpoint.h"

using namespace slotscope;
using namespace slotscope::testing;

namespace {

TinyCheckpoint golden(Context& t, const std::string& name) {
  return TinyCheckpoint::from(t.data("golden/models/" + name));
}

engine::ModelInfo inspect(Context& t, const TinyCheckpoint& c) {
  const auto folder = t.temp();
  c.write(folder);
  return engine::inspect(*formats::Checkpoint::open(folder));
}

std::vector<double> logits(Context& t, const TinyCheckpoint& c) {
  const auto folder = t.temp();
  c.write(folder);
  const auto model = load_model(folder, "float64", t.device());
  return run_ids(*model, some_ids(40, 53), capture("logits"))->values("output/logits");
}

TinyCheckpoint with(TinyCheckpoint c, const std::string& key, const nlohmann::json& value) {
  c.config[key] = value;
  return c;
}

bool any_has(const std::vector<std::string>& list, const std::string& part) {
  return std::any_of(list.begin(), list.end(),
                     [&](const std::string& s) { return s.find(part) != std::string::npos; });
}

// The folder as the original code saves it: its keys, its name of the embedding, its padding of the vocabulary.
TinyCheckpoint original(const TinyCheckpoint& fla, const nlohmann::json& ssm) {
  TinyCheckpoint c = fla;
  c.config = {{"d_model", fla.config.at("hidden_size")},
              {"n_layer", fla.config.at("num_hidden_layers")},
              {"d_intermediate", 0},
              {"vocab_size", 52},
              {"pad_vocab_size_multiple", 53},
              {"ssm_cfg", ssm},
              {"attn_layer_idx", nlohmann::json::array()},
              {"rms_norm", true},
              {"residual_in_fp32", true},
              {"fused_add_norm", true},
              {"tie_embeddings", false}};
  c.rename("backbone.embeddings.weight", "backbone.embedding.weight");
  return c;
}

// Rows (or, of a vector, elements) in runs of `run`, each run twice in a row.
void repeat_runs(TinyTensor& tensor, int64_t run) {
  const int64_t row = int64_t(tensor.values.size()) / tensor.shape[0], block = run * row;
  std::vector<float> values;
  for (int64_t at = 0; at < int64_t(tensor.values.size()); at += block)
    for (int copy = 0; copy < 2; ++copy)
      values.insert(values.end(), tensor.values.begin() + at, tensor.values.begin() + at + block);
  tensor.values = std::move(values);
  tensor.shape[0] *= 2;
}

}  // namespace

SLOTSCOPE_CASE(state_spaces_mamba) {
  const TinyCheckpoint fla = golden(t, "mamba_default");
  const nlohmann::json& k = fla.config;
  const nlohmann::json ssm = {{"d_state", k.at("state_size")}, {"d_conv", k.at("conv_kernel")}, {"expand", k.at("expand")}};
  const TinyCheckpoint c = original(fla, ssm);
  const auto info = inspect(t, c);
  CHECK_EQ(info.model_type, std::string("mamba"));
  CHECK(any_has(info.notes, "state-spaces"));
  CHECK_EQ(info.vocab_rows, int64_t(53));
  CHECK(!any_has(info.notes, "the tensor counts"));
  CHECK_EQ(logits(t, c), logits(t, fla));
  // The flag's default is true there, and the head need not be stored.
  TinyCheckpoint tied = c, expected = fla;
  tied.config.erase("tie_embeddings");
  tied.tensors.erase("lm_head.weight");
  expected.tensors["lm_head.weight"] = fla.tensors.at("backbone.embeddings.weight");
  CHECK(inspect(t, tied).tied);
  CHECK_EQ(logits(t, tied), logits(t, expected));
}

SLOTSCOPE_CASE(state_spaces_mamba2) {
  for (const char* name : {"mamba2_default", "mamba2_norm_before_gate"}) {
    const TinyCheckpoint fla = golden(t, name);
    const nlohmann::json& k = fla.config;
    nlohmann::json ssm = {{"layer", "Mamba2"},
                          {"d_state", k.at("state_size")},
                          {"headdim", k.at("head_dim")},
                          {"d_conv", k.at("conv_kernel")},
                          {"expand", k.at("expand")},
                          {"ngroups", k.at("n_groups")},
                          {"norm_before_gate", k.at("norm_before_gate")},
                          {"bias", k.at("use_bias")}};
    const TinyCheckpoint c = original(fla, ssm);
    CHECK_EQ(inspect(t, c).model_type, std::string("mamba2"));
    CHECK_EQ(logits(t, c), logits(t, fla));
  }
}

SLOTSCOPE_CASE(state_spaces_refused) {
  const TinyCheckpoint fla = golden(t, "mamba2_default");
  const TinyCheckpoint c = original(fla, {{"layer", "Mamba2"}});
  CHECK_ERROR(inspect(t, c), "in_proj.weight");  // the defaults of that code are not the sizes of this model
  CHECK_ERROR(inspect(t, with(c, "ssm_cfg", {{"layer", "Mamba3"}})), "ssm_cfg.layer", "Mamba3", "Mamba2");
  CHECK_ERROR(inspect(t, with(c, "ssm_cfg", "Mamba2")), "ssm_cfg", "object");
  CHECK_ERROR(inspect(t, with(c, "ssm_cfg", {{"layer", 2}})), "ssm_cfg.layer");
  CHECK_ERROR(inspect(t, with(c, "ssm_cfg", {{"layer", "Mamba2"}, {"d_ssm", 32}})), "ssm_cfg.d_ssm", "32");
  CHECK_ERROR(inspect(t, with(c, "rms_norm", false)), "rms_norm", "false");
  CHECK_ERROR(inspect(t, with(c, "attn_layer_idx", {1})), "attn_layer_idx", "no attention");
  CHECK_ERROR(inspect(t, with(c, "d_intermediate", 64)), "d_intermediate", "64");
  CHECK_ERROR(inspect(t, with(c, "d_model", "wide")), "hidden_size", "wide");
  CHECK_ERROR(inspect(t, with(c, "pad_vocab_size_multiple", 0)), "pad_vocab_size_multiple", "0");
  CHECK_ERROR(inspect(t, with(c, "vocab_size", -1)), "vocab_size", "-1");
  // Without these keys it is a folder of no known type.
  TinyCheckpoint none = c;
  none.config.erase("n_layer");
  CHECK_ERROR(inspect(t, none), "model_type", "missing", "mamba2");
}

// Hugging Face's mamba: layer_norm_epsilon, time_step_rank, an explicit width, tied unless it says otherwise.
SLOTSCOPE_CASE(hugging_face_mamba) {
  const TinyCheckpoint fla = golden(t, "mamba_default");
  TinyCheckpoint hf = fla;
  hf.config.erase("norm_eps");
  hf.config.erase("dt_rank");
  hf.config["layer_norm_epsilon"] = 1e-5;
  hf.config["time_step_rank"] = fla.tensors.at("backbone.layers.0.mixer.dt_proj.weight").shape[1];
  hf.config["intermediate_size"] = fla.tensors.at("backbone.layers.0.mixer.D").shape[0];
  CHECK_EQ(logits(t, hf), logits(t, fla));
  TinyCheckpoint tied = hf, expected = fla;
  tied.config.erase("tie_word_embeddings");
  tied.tensors.erase("lm_head.weight");
  expected.tensors["lm_head.weight"] = fla.tensors.at("backbone.embeddings.weight");
  CHECK_EQ(logits(t, tied), logits(t, expected));
}

// kda until 2026-04 with more value heads than heads: decay and strength are stored per head and shared by its value heads.
SLOTSCOPE_CASE(kda_gates_of_older_files) {
  TinyCheckpoint old = golden(t, "kda_default");
  const int64_t d_v = old.tensors.at("model.layers.0.attn.o_norm.weight").shape[0], d_k = old.config.at("head_dim");
  old.config["num_v_heads"] = 4;
  for (const std::string layer : {"0", "1"}) {
    const std::string p = "model.layers." + layer + ".attn.";
    for (const char* name : {"v_proj.weight", "v_conv1d.weight", "g_proj.1.weight", "g_proj.1.bias"})
      repeat_runs(old.tensors.at(p + name), d_v);
    // What the copies of a head hold must differ, or the order of heads would not matter.
    TinyTensor& v = old.tensors.at(p + "v_proj.weight");
    for (size_t i = 0; i < v.values.size(); ++i) v.values[i] *= 1 + 0.3f * std::sin(float(i));
    TinyTensor& o = old.tensors.at(p + "o_proj.weight");  // [D, H_v d_v]: columns
    std::vector<float> values;
    for (int64_t row = 0; row < o.shape[0]; ++row)
      for (int copy = 0; copy < 2; ++copy)
        values.insert(values.end(), o.values.begin() + row * o.shape[1], o.values.begin() + (row + 1) * o.shape[1]);
    o.values = std::move(values);
    o.shape[1] *= 2;
  }
  TinyCheckpoint now = old;
  for (const std::string layer : {"0", "1"}) {
    const std::string p = "model.layers." + layer + ".attn.";
    for (const auto& [name, run] : {std::pair{"f_proj.1.weight", d_k}, std::pair{"b_proj.weight", int64_t(1)},
                                    std::pair{"A_log", int64_t(1)}, std::pair{"dt_bias", d_k}})
      repeat_runs(now.tensors.at(p + name), run);
  }
  CHECK(any_has(inspect(t, old).notes, "per key head"));
  CHECK(!any_has(inspect(t, now).notes, "per key head"));
  CHECK_CLOSE(worst(logits(t, old), logits(t, now)), 0, 1e-12);
}
