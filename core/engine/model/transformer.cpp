// The FLA transformer: full attention or a sliding window in every layer (spec: model-zoo 5). Flavour "nope" leaves RoPE
// out, which no public code does: the baseline of the Raven paper is such a model.
#include "core/engine/model/families.h"
#include "core/engine/model/softmax_attention.h"

namespace slotscope::engine {
namespace {

struct TransformerConfig : formats::ModelConfig {
  formats::AttentionConfig every;  // layer
  bool qk_norm = false;
  bool wide_qk_norm = false;  // over the full width, before the head split (FLA in spring 2025)
};

TransformerConfig read(const formats::Checkpoint& checkpoint, bool nope) {
  TransformerConfig c;
  formats::AttentionConfig& a = c.every;
  formats::ModelReader r(checkpoint, c);
  r.read_sizes(2048, 24);
  r.accept_old_norms();
  a.heads = r.read_heads("num_heads", 32);
  a.kv_heads = r.read_kv_heads("num_kv_heads", a.heads);
  if (c.hidden_size % a.heads)
    r.refuse("num_heads", std::to_string(a.heads), "a divisor of hidden_size " + std::to_string(c.hidden_size));
  a.head_dim = c.hidden_size / a.heads;
  // Until 2025-02 the key was attention_bias, which nothing read: there the tensors decide.
  a.qkv_bias = r.cfg.get_bool("qkv_bias", r.cfg.has("attention_bias") && r.tensor(0, "attn.q_proj.bias"));
  a.window = r.cfg.get_optional_int("window_size", std::nullopt, 1, int64_t(1) << 31).value_or(0);
  c.qk_norm = r.cfg.get_bool("qk_norm", false);
  const formats::TensorInfo* norm = r.tensor(0, "attn.q_norm.weight");
  c.wide_qk_norm = c.qk_norm && a.heads > 1 && norm && norm->shape == std::vector<int64_t>{c.hidden_size};
  a.use_rope = !nope;
  a.rope_theta = r.read_hybrid(a.use_rope).theta;
  if (!nope && r.cfg.value("use_rope") && !r.cfg.get_bool("use_rope", true))
    r.cfg.warn("use_rope false has no effect: the code of this family applies RoPE in every layer. --flavour nope leaves it out");
  if (c.hybrid()) r.refuse("attn", "attention layers", "null: every layer of a transformer is attention");
  r.read_embedding();
  r.read_mlp();
  r.note_ignored({"attention_bias"});
  r.finish();
  return c;
}

class Transformer final : public FamilyModel {
 public:
  explicit Transformer(TransformerConfig c) : c_(std::move(c)) {}

  formats::ModelConfig& config() override { return c_; }

  void mixer_tensors(formats::TensorList& list, int64_t) const override {
    const formats::AttentionConfig& a = c_.every;
    add_attention_tensors(list, a, c_.hidden_size);
    if (!c_.qk_norm) return;
    list.add("q_norm.weight", {c_.wide_qk_norm ? a.heads * a.head_dim : a.head_dim}, c_.wide_qk_norm ? "D" : "d");
    list.add("k_norm.weight", {c_.wide_qk_norm ? a.kv_heads * a.head_dim : a.head_dim},
             c_.wide_qk_norm ? "H_kv d" : "d");
  }

  void describe(ModelInfo& info) const override {
    info.flavour = c_.every.use_rope ? "fla" : "nope";
    info.flavour_reason = c_.every.use_rope ? "the code of this family applies RoPE in every layer" : "chosen: no layer applies RoPE";
  }

  LayerShape mixer_shape(int layer) const override { return attention_shape(options(layer)); }

  MemoryCard card() const override {
    return attention_card({c_.every.window});
  }

  std::unique_ptr<Mixer> mixer(int layer, const std::string& p, const Weights& w) const override {
    AttentionWeights weights = attention_weights(p, c_.every, w);
    weights.q_norm = w.exact_if(c_.qk_norm, p + "q_norm.weight");
    weights.k_norm = w.exact_if(c_.qk_norm, p + "k_norm.weight");
    return make_softmax_attention(options(layer), std::move(weights), w.numerics());
  }

 private:
  AttentionOptions options(int layer) const { return attention_options(c_.every, c_.hidden_size, layer); }

  TransformerConfig c_;
};

}  // namespace

std::unique_ptr<FamilyModel> read_transformer(const formats::Checkpoint& checkpoint, const std::string& flavour) {
  if (flavour != "nope") require_flavour(flavour, "fla", "transformer");
  return std::make_unique<Transformer>(read(checkpoint, flavour == "nope"));
}

}  // namespace slotscope::engine
