// The forgetting transformer, FoX (spec: model-zoo 13): full attention whose logits decay by a gate per head and token.
#include "core/engine/model/families.h"
#include "core/engine/model/softmax_attention.h"

namespace slotscope::engine {
namespace {

struct FoxConfig : formats::ModelConfig {
  formats::AttentionConfig every;  // layer
  bool qk_norm = false, output_gate = false;
  std::string forget = "f_proj";  // g_proj until 2025-04
};

FoxConfig read(const formats::Checkpoint& checkpoint) {
  FoxConfig c;
  formats::AttentionConfig& a = c.every;
  formats::ModelReader r(checkpoint, c);
  r.read_sizes(2048, 24);
  if (r.cfg.value("attn")) r.refuse("attn", "given", "null: this family has no hybrid layers");
  a.heads = r.read_heads("num_heads", 32);
  a.kv_heads = r.read_kv_heads("num_kv_heads", a.heads);
  if (c.hidden_size % a.heads)
    r.refuse("num_heads", std::to_string(a.heads), "a divisor of hidden_size " + std::to_string(c.hidden_size));
  a.head_dim = c.hidden_size / a.heads;
  a.qkv_bias = r.cfg.get_bool("qkv_bias", false);
  a.use_rope = false;
  c.qk_norm = r.cfg.get_bool("qk_norm", false);
  c.output_gate = r.cfg.get_bool("use_output_gate", false);
  if (r.tensor(0, "attn.g_proj.bias") && !r.tensor(0, "attn.f_proj.weight")) {
    c.forget = "g_proj";
    r.cfg.note("older layout: the forget gate is stored as g_proj");
  }
  if (r.cfg.value("window_size"))
    r.cfg.warn("window_size has no effect in this model: its code never passes it on, so attention is full");
  r.read_embedding();
  r.read_mlp();
  r.finish();
  return c;
}

class Fox final : public FamilyModel {
 public:
  explicit Fox(FoxConfig c) : c_(std::move(c)) {}

  formats::ModelConfig& config() override { return c_; }

  void mixer_tensors(formats::TensorList& list, int64_t) const override {
    const formats::AttentionConfig& a = c_.every;
    add_attention_tensors(list, a, c_.hidden_size);
    list.add(c_.forget + ".weight", {a.heads, c_.hidden_size}, "H, D");
    list.add(c_.forget + ".bias", {a.heads}, "H");
    list.add_if(c_.output_gate, "g_proj.weight", {c_.hidden_size, c_.hidden_size}, "D, D");
    list.add_if(c_.qk_norm, "q_norm.weight", {a.heads * a.head_dim}, "D");
    list.add_if(c_.qk_norm, "k_norm.weight", {a.kv_heads * a.head_dim}, "H_kv d");
  }

  LayerShape mixer_shape(int layer) const override { return attention_shape(options(layer)); }

  MemoryCard card() const override {
    return {"slot t (append)", "k, v", "sigmoid forget gate per head, on all slots", "softmax over positions, decay as log bias",
            {"r_t = e_t, one new slot",
             "(k_t, v_t)",
             "exp(Σ_{j<l≤t} log f_l) on every slot j, f_t = σ(W_f x_t + b)",
             "o_t = softmax(q_t K_t^⊤ / √d + Σ log f) V_t"}};
  }

  std::unique_ptr<Mixer> mixer(int layer, const std::string& p, const Weights& w) const override {
    AttentionWeights weights = attention_weights(p, c_.every, w);
    weights.grouped_norm = true;
    weights.q_norm = w.exact_if(c_.qk_norm, p + "q_norm.weight");
    weights.k_norm = w.exact_if(c_.qk_norm, p + "k_norm.weight");
    weights.forget = w.router(p + c_.forget + ".weight");
    weights.forget_bias = w.exact(p + c_.forget + ".bias");
    weights.gate = w.if_present(c_.output_gate, p + "g_proj.weight");
    return make_softmax_attention(options(layer), std::move(weights), w.numerics());
  }

 private:
  AttentionOptions options(int layer) const {
    AttentionOptions o = attention_options(c_.every, c_.hidden_size, layer);
    o.forget = true;
    o.family = "forgetting_attention";
    return o;
  }

  FoxConfig c_;
};

}  // namespace

std::unique_ptr<FamilyModel> read_forgetting_transformer(const formats::Checkpoint& checkpoint,
                                                         const std::string& flavour) {
  require_flavour(flavour, "fla", "forgetting_transformer");
  return std::make_unique<Fox>(read(checkpoint));
}

}  // namespace slotscope::engine
