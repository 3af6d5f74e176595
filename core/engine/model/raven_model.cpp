// Raven as a whole: what the checkpoint panel shows, and the blocks of the model (spec: model-zoo 1.8, 2,
// 17).
#include "core/engine/model/raven.h"
#include "core/engine/model/registry.h"
#include "core/engine/model/softmax_attention.h"

namespace slotscope::engine {
namespace {

std::string attention_note(const formats::AttentionConfig& a) {
  const std::string reach = a.window > 0 ? "window " + std::to_string(a.window) : "full attention";
  return reach + (a.use_rope ? ", RoPE theta " + formats::number_text(a.rope_theta) : ", no RoPE");
}

LayerInfo layer_info(const formats::RavenConfig& c, int i) {
  LayerInfo layer;
  layer.index = i;
  if (const auto& a = c.attention[size_t(i)]) {
    layer.mixer = "attention";
    layer.route_kind = a->window > 0 ? "ring" : "append";
    layer.heads = a->heads;
    layer.route_heads = a->kv_heads;
    layer.slots = a->window;
    layer.top_k = 1;
    layer.d_k = layer.d_v = a->head_dim;
    layer.state_bytes = 2 * a->kv_heads * a->head_dim * 4;
    layer.note = attention_note(*a);
    return layer;
  }
  layer.mixer = "raven";
  layer.route_kind = "sparse";
  layer.heads = c.heads;
  layer.route_heads = c.kv_heads;
  layer.slots = c.slots;
  layer.top_k = c.topk;
  layer.d_k = c.d_k;
  layer.d_v = c.d_v;
  layer.state_bytes = c.kv_heads * c.slots * (c.d_k + c.d_v) * 4;
  if (c.use_rope) layer.note = "RoPE theta " + formats::number_text(c.rope_theta);
  return layer;
}

MemoryCard memory_card(const formats::RavenConfig& c) {
  const bool mamba2 = c.decay_type == formats::DecayType::mamba2;
  MemoryCard card;
  card.router = "top-" + std::to_string(c.topk) + " of " + std::to_string(c.slots) +
                (c.router_score == formats::RouterScore::sigmoid ? ", sigmoid" : ", softmax") +
                (c.router_type == formats::RouterType::mlp ? ", two-layer router" : "") +
                (c.bias_rmm ? ", selection bias" : "");
  card.content = "k, v";
  card.decay = mamba2 ? "scalar per head x route (Mamba2)" : "per slot x route (GLA)";
  card.readout = "softmax over all slots";
  return card;
}

int64_t count_parameters(const formats::RavenConfig& c) {
  int64_t total = 0;
  for (const auto& tensor : formats::raven_tensors(c)) {
    int64_t elements = 1;
    for (const int64_t n : tensor.shape) elements *= n;
    total += elements;
  }
  return total;
}

std::unique_ptr<Mixer> make_attention(const formats::RavenConfig& c, int i, const Weights& w) {
  const formats::AttentionConfig& a = *c.attention[size_t(i)];
  const std::string p = c.layer_prefix(i) + "attn.";
  AttentionWeights weights{w.get(p + "q_proj.weight"), w.get(p + "k_proj.weight"), w.get(p + "v_proj.weight"),
                           w.get(p + "o_proj.weight")};
  weights.q_bias = w.if_present(a.qkv_bias, p + "q_proj.bias");
  weights.k_bias = w.if_present(a.qkv_bias, p + "k_proj.bias");
  weights.v_bias = w.if_present(a.qkv_bias, p + "v_proj.bias");
  return make_softmax_attention(
      {i, c.hidden_size, a.heads, a.kv_heads, a.head_dim, a.window, a.use_rope, a.rope_theta},
      std::move(weights), w.numerics());
}

}  // namespace

ModelInfo describe_raven(const formats::Checkpoint& checkpoint, const std::string& flavour) {
  const formats::RavenConfig c = formats::read_raven_config(checkpoint, flavour);
  ModelInfo info;
  info.model_type = info.family = "raven";
  info.flavour = formats::flavour_name(c.flavour);
  info.flavour_reason = c.flavour_reason;
  info.flavour_matters = c.flavour_matters;
  info.hidden_size = c.hidden_size;
  info.vocab_rows = c.vocab;
  info.parameters = count_parameters(c);
  info.tied = c.tied;
  for (int i = 0; i < int(c.layers); ++i) info.layers.push_back(layer_info(c, i));
  info.card = memory_card(c);
  info.config_json = checkpoint.config_text();
  info.tensor_digest = formats::tensor_digest(checkpoint);
  info.notes = c.notes;
  info.warnings = c.warnings;
  for (const auto& row : c.rows) info.config.push_back({row.key, row.value, row.source});
  return info;
}

std::unique_ptr<CausalLM> build_raven(const formats::Checkpoint& checkpoint, const std::string& flavour,
                                      const Weights& w, ModelInfo& info) {
  formats::RavenConfig c = formats::read_raven_config(checkpoint, flavour);
  formats::check_raven_values(checkpoint, c);
  info.notes = c.notes;
  info.warnings = c.warnings;
  auto model = std::make_unique<CausalLM>();
  model->numerics = w.numerics();
  model->norm_eps = c.norm_eps;
  model->embedding = w.get(c.prefix + "embeddings.weight");
  model->final_norm = w.exact(c.prefix + "norm.weight");
  model->head = c.tied ? model->embedding : w.get("lm_head.weight");
  for (int i = 0; i < int(c.layers); ++i) {
    const std::string p = c.layer_prefix(i);
    Block block;
    block.attn_norm = w.exact(p + "attn_norm.weight");
    block.mlp_norm = w.exact(p + "mlp_norm.weight");
    block.mixer = c.is_attention(i) ? make_attention(c, i, w) : make_raven(c, i, w);
    block.mlp = {w.get(p + "mlp.gate_proj.weight"), w.get(p + "mlp.up_proj.weight"),
                 w.get(p + "mlp.down_proj.weight")};
    model->blocks.push_back(std::move(block));
  }
  return model;
}

}  // namespace slotscope::engine
