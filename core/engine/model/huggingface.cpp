#include "core/engine/model/huggingface.h"

#include "core/formats/utf8.h"

namespace slotscope::engine {
namespace {

class Llama final : public FamilyModel {
 public:
  explicit Llama(HuggingFaceConfig c) : c_(std::move(c)) {}

  formats::ModelConfig& config() override { return c_; }

  void mixer_tensors(formats::TensorList& list, int64_t) const override {
    add_attention_tensors(list, c_.every, c_.hidden_size);
  }

  LayerShape mixer_shape(int layer) const override { return attention_shape(options(layer)); }

  MemoryCard card() const override { return attention_card(c_.windows); }

  std::unique_ptr<Mixer> mixer(int layer, const std::string& p, const Weights& w) const override {
    return make_softmax_attention(options(layer), attention_weights(p, c_.every, w), w.numerics());
  }

 private:
  AttentionOptions options(int layer) const {
    AttentionOptions o = attention_options(c_.every, c_.hidden_size, layer);
    o.window = c_.windows[size_t(layer)];
    o.rope = c_.rope;
    return o;
  }

  HuggingFaceConfig c_;
};

}  // namespace

Rope rope_of(const formats::RopeSettings& s, int64_t width) {
  Rope rope;
  rope.theta = s.theta;
  rope.width = width;
  rope.factor = s.factor;
  if (s.type == "linear") rope.scaling = Rope::Scaling::linear;
  if (s.type != "llama3") return rope;
  rope.scaling = Rope::Scaling::llama3;
  rope.low = *s.low_freq_factor;
  rope.high = *s.high_freq_factor;
  rope.original = *s.original_positions;
  return rope;
}

LlamaReader::LlamaReader(const formats::Checkpoint& checkpoint, HuggingFaceConfig& c, const HuggingFaceDefaults& d)
    : ModelReader(checkpoint, c), config_(c), defaults_(d) {
  c.names.embedding = "embed_tokens.weight";
  c.names.mixer_norm = "input_layernorm.weight";
  c.names.mixer = "self_attn.";
  c.names.mlp_norm = "post_attention_layernorm.weight";
  read_layers(d.hidden, d.layers, "rms_norm_eps", 1e-6);
  formats::AttentionConfig& a = c.every;
  a.heads = read_heads("num_attention_heads", d.heads);
  const bool absent = !cfg.has("num_key_value_heads") && d.kv_heads;
  a.kv_heads = absent ? *d.kv_heads : read_kv_heads("num_key_value_heads", a.heads);
  if (absent) cfg.set_row("num_key_value_heads", std::to_string(a.kv_heads), "default");
  if (a.heads % a.kv_heads)
    refuse("num_key_value_heads", std::to_string(a.kv_heads), "a divisor of the " + std::to_string(a.heads) + " heads");
  a.head_dim = cfg.get_head_dim(c.hidden_size, a.heads);
  if (a.head_dim % 2 || a.head_dim > (1 << 20))
    refuse("head_dim", std::to_string(a.head_dim), "an even number up to 1048576: RoPE turns pairs of channels");
  const formats::RopeSettings rope = read_scaled_rope(10000);
  c.rope = rope_of(rope);
  a.rope_theta = c.rope.theta;
  const double partial = rope.partial.value_or(cfg.value("partial_rotary_factor") ? cfg.get_positive("partial_rotary_factor", 1) : 1);
  if (partial != 1) refuse("partial_rotary_factor", formats::number_text(partial), "1: this family turns whole heads");
  c.windows.assign(size_t(c.layers), 0);
}

void LlamaReader::read_windows(std::optional<int64_t> window, const std::function<bool(int64_t)>& slides) {
  const nlohmann::json* types = cfg.value("layer_types");
  for (int64_t i = 0; i < config_.layers; ++i)
    if (!types && window && slides(i)) config_.windows[size_t(i)] = *window;
  if (!types) return;
  if (!types->is_array() || int64_t(types->size()) != config_.layers)
    refuse("layer_types", types->is_array() ? std::to_string(types->size()) + " entries" : types->type_name(),
           "a list of num_hidden_layers = " + std::to_string(config_.layers) + " entries");
  int64_t against = 0;
  for (int64_t i = 0; i < config_.layers; ++i) {
    const std::string place = "layer_types[" + std::to_string(i) + "]";
    const nlohmann::json& type = (*types)[size_t(i)];
    const std::string text = type.is_string() ? type.get<std::string>() : type.dump();
    if (text != "full_attention" && text != "sliding_attention")
      refuse(place, formats::printable(text, 40), "full_attention or sliding_attention",
             "Other kinds of layer are not part of this family.");
    const bool sliding = text == "sliding_attention";
    if (sliding && !window) refuse(place, text + " without a sliding_window", "full_attention, or a sliding_window");
    if (sliding) config_.windows[size_t(i)] = *window;
    against += sliding != (window && slides(i));
  }
  cfg.set_row("layer_types", std::to_string(config_.layers) + " entries", "config.json");
  if (against)
    cfg.warn("layer_types counts, which differs from the other keys about sliding layers in " + std::to_string(against) +
             (against == 1 ? " layer" : " layers"));
}

std::unique_ptr<FamilyModel> LlamaReader::model() {
  read_embedding(false, defaults_.vocab);
  cfg.get_choice("hidden_act", "silu", {"silu", "swish"});
  read_plain_mlp(defaults_.intermediate);
  note_ignored({"pretraining_tp"});
  finish();
  return std::make_unique<Llama>(std::move(config_));
}

}  // namespace slotscope::engine
