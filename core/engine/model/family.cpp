#include "core/engine/model/family.h"

#include "core/engine/model/softmax_attention.h"
#include "core/error.h"

namespace slotscope::engine {
namespace {

int64_t count_parameters(const std::vector<formats::ExpectedTensor>& tensors) {
  int64_t total = 0;
  for (const auto& tensor : tensors) {
    int64_t elements = 1;
    for (const int64_t n : tensor.shape) elements *= n;
    total += elements;
  }
  return total;
}

LayerShape shape_of(FamilyModel& model, int i) {
  const formats::ModelConfig& c = model.config();
  if (!c.is_attention(i)) return model.mixer_shape(i);
  return attention_shape(attention_options(*c.attention[size_t(i)], c.hidden_size, i));
}

LayerInfo layer_info(const LayerShape& shape, int i) {
  LayerInfo layer;
  layer.index = i;
  layer.mixer = shape.family;
  layer.route_kind = shape.route_kind;
  layer.heads = shape.heads;
  layer.route_heads = shape.route_heads;
  layer.slots = shape.slots;
  layer.top_k = shape.top_k;
  layer.d_k = shape.d_k;
  layer.d_v = shape.d_v;
  layer.state_bytes = 4 * shape.state_elements;
  layer.note = shape.note;
  return layer;
}

Norm load_norm(const formats::ModelConfig& c, const std::string& name, double eps, const Weights& w) {
  return {w.exact(name), w.exact_if(c.layer_norm, formats::bias_of(name)), eps, c.layer_norm};
}

Mlp load_mlp(const formats::ModelConfig& c, const std::string& prefix, const Weights& w) {
  Mlp mlp;
  mlp.tanh = c.gelu_tanh;
  const auto load = [&](const std::string& name, at::Tensor& matrix, at::Tensor& bias) {
    if (name.empty()) return;
    matrix = w.get(prefix + name + ".weight");
    bias = w.if_present(c.mlp_bias, prefix + name + ".bias");
  };
  load(c.names.mlp_gate, mlp.gate, mlp.gate_bias);
  load(c.names.mlp_down, mlp.down, mlp.down_bias);
  if (!c.fused_mlp) {
    load(c.names.mlp_up, mlp.up, mlp.up_bias);
    return mlp;
  }
  const at::Tensor both = mlp.gate;
  mlp.gate = both.slice(0, 0, c.intermediate);
  mlp.up = both.slice(0, c.intermediate);
  return mlp;
}

void take_notes(const formats::ModelConfig& c, ModelInfo& info) {
  info.notes = c.notes;
  info.warnings = c.warnings;
}

}  // namespace

std::vector<formats::ExpectedTensor> FamilyModel::tensors() {
  return formats::model_tensors(
      config(), [this](formats::TensorList& list, int64_t layer) { mixer_tensors(list, layer); });
}

void FamilyModel::check_tensors(const formats::Checkpoint& checkpoint) {
  formats::check_tensors(checkpoint, tensors(), config());
}

void FamilyModel::check_values(const formats::Checkpoint& checkpoint) {
  formats::check_tied_head(checkpoint, config());
}

Norm FamilyModel::final_norm(const Weights& w) {
  const formats::ModelConfig& c = config();
  return load_norm(c, c.prefix + c.names.final_norm, c.norm_eps, w);
}

Block FamilyModel::block(int i, const Weights& w) {
  const formats::ModelConfig& c = config();
  const std::string p = c.layer_prefix(i);
  Block block;
  block.parallel = c.parallel;
  block.mixer_norm = load_norm(c, p + c.names.mixer_norm, c.norm_eps, w);
  if (c.is_attention(i)) {
    const formats::AttentionConfig& a = *c.attention[size_t(i)];
    block.mixer = make_softmax_attention(attention_options(a, c.hidden_size, i),
                                         attention_weights(c.mixer_prefix(i), a, w), w.numerics());
  } else {
    block.mixer = mixer(i, c.mixer_prefix(i), w);
  }
  if (c.intermediate == 0) return block;
  block.mlp_norm = load_norm(c, p + c.names.mlp_norm, c.mlp_norm_eps, w);
  block.mlp = load_mlp(c, p, w);
  return block;
}

ModelInfo describe_model(FamilyModel& model, const std::string& model_type,
                         const formats::Checkpoint& checkpoint) {
  const std::vector<formats::ExpectedTensor> tensors = model.tensors();
  formats::ModelConfig& c = model.config();
  ModelInfo info;
  info.model_type = info.family = model_type;
  info.hidden_size = c.hidden_size;
  info.vocab_rows = c.vocab;
  info.parameters = count_parameters(tensors);
  info.tied = c.tied;
  for (int i = 0; i < int(c.layers); ++i) info.layers.push_back(layer_info(shape_of(model, i), i));
  info.card = model.card();
  for (LayerInfo& layer : info.layers)
    layer.card = layer.mixer == "attention" ? attention_card({layer.slots}) : info.card;  // full attention: no slots
  info.config_json = checkpoint.config_text();
  info.tensor_digest = formats::tensor_digest(checkpoint);
  for (const auto& row : c.rows) info.config.push_back({row.key, row.value, row.source});
  model.describe(info);
  take_notes(c, info);
  return info;
}

std::unique_ptr<CausalLM> build_model(FamilyModel& family, const Weights& w, ModelInfo& info) {
  family.check_values(w.checkpoint());
  const formats::ModelConfig& c = family.config();
  take_notes(c, info);
  auto model = std::make_unique<CausalLM>();
  model->numerics = w.numerics();
  model->embedding = w.get(c.prefix + c.names.embedding);
  model->final_norm = family.final_norm(w);
  model->head = c.tied ? model->embedding : w.get(c.names.head);
  for (int i = 0; i < int(c.layers); ++i) model->blocks.push_back(family.block(i, w));
  return model;
}

void require_flavour(const std::string& flavour, const std::string& only, const std::string& family) {
  if (flavour.empty() || flavour == only) return;
  throw Error({.item = "--flavour",
               .found = "'" + flavour + "' for a model of type " + family,
               .expected = only.empty() ? "no flavour: this family has one code base" : only},
              Error::Kind::usage);
}

}  // namespace slotscope::engine
