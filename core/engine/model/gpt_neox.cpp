// GPT-NeoX: Pythia, RedPajama-INCITE (spec: model-zoo 16.4). One matrix holds query, key and value, interleaved by head;
// RoPE turns the first channels of a head; mixer and MLP may read the same residual.
#include "core/engine/model/families.h"
#include "core/engine/model/huggingface.h"

namespace slotscope::engine {
namespace {

void read_rope(formats::ModelReader& r, HuggingFaceConfig& c) {
  const formats::RopeSettings rope = r.read_scaled_rope(10000, "rotary_emb_base");
  const double share = rope.partial.value_or(r.cfg.get_positive("rotary_pct", 0.25));
  if (rope.partial) r.cfg.set_row("rotary_pct", formats::number_text(share), "partial_rotary_factor");
  const auto width = share <= 1 ? int64_t(double(c.every.head_dim) * share) : 0;
  if (width < 2 || width % 2)
    r.refuse("rotary_pct", formats::number_text(share) + " of the " + std::to_string(c.every.head_dim) + " channels of a head",
             "a share up to 1 that makes an even number: RoPE turns pairs of channels");
  c.rope = rope_of(rope, width == c.every.head_dim ? 0 : width);
  c.every.rope_theta = c.rope.theta;
}

HuggingFaceConfig read(const formats::Checkpoint& checkpoint) {
  HuggingFaceConfig c;
  c.names = {.root = "gpt_neox.", .embedding = "embed_in.weight", .mixer_norm = "input_layernorm.weight",
             .mixer = "attention.", .mlp_norm = "post_attention_layernorm.weight", .mlp_gate = "",
             .mlp_up = "mlp.dense_h_to_4h", .mlp_down = "mlp.dense_4h_to_h", .final_norm = "final_layer_norm.weight",
             .head = "embed_out.weight"};
  c.ignorable = {".attention.bias", ".attention.masked_bias"};
  c.layer_norm = c.mlp_bias = true;
  formats::ModelReader r(checkpoint, c);
  r.read_layers(6144, 44, "layer_norm_eps", 1e-5);
  formats::AttentionConfig& a = c.every;
  a.heads = a.kv_heads = r.read_heads("num_attention_heads", 64);
  if (c.hidden_size % a.heads)
    r.refuse("num_attention_heads", std::to_string(a.heads), "a divisor of hidden_size " + std::to_string(c.hidden_size));
  a.head_dim = c.hidden_size / a.heads;
  a.qkv_bias = a.o_bias = r.cfg.get_bool("attention_bias", true);
  read_rope(r, c);
  c.parallel = r.cfg.get_bool("use_parallel_residual", true);
  const std::string act =
      r.cfg.get_choice("hidden_act", "gelu", {"gelu", "gelu_python", "gelu_new", "gelu_fast", "gelu_pytorch_tanh"});
  c.gelu_tanh = act != "gelu" && act != "gelu_python";
  r.read_embedding(false, 50432);
  r.read_plain_mlp(24576);
  r.note_ignored({});
  r.finish();
  return c;
}

class GptNeox final : public FamilyModel {
 public:
  explicit GptNeox(HuggingFaceConfig c) : c_(std::move(c)) {}

  formats::ModelConfig& config() override { return c_; }

  void mixer_tensors(formats::TensorList& list, int64_t) const override {
    const int64_t D = c_.hidden_size;
    list.add("query_key_value.weight", {3 * D, D}, "3D, D");
    list.add_if(c_.every.qkv_bias, "query_key_value.bias", {3 * D}, "3D");
    list.add("dense.weight", {D, D}, "D, D");
    list.add_if(c_.every.o_bias, "dense.bias", {D}, "D");
  }

  LayerShape mixer_shape(int layer) const override { return attention_shape(options(layer)); }

  MemoryCard card() const override { return attention_card({0}); }

  std::unique_ptr<Mixer> mixer(int layer, const std::string& p, const Weights& w) const override {
    // Rows h 3d .. h 3d + d - 1 are the query of head h, the next d its key, the next d its value.
    const auto part = [&](const std::string& name, int64_t which) {
      return w.part(p + name, [&](const at::Tensor& all) {
                return all.unflatten(0, {c_.every.heads, 3, c_.every.head_dim}).select(1, which);
              }).flatten(0, 1);
    };
    AttentionWeights weights;
    at::Tensor* const matrices[] = {&weights.q, &weights.k, &weights.v};
    at::Tensor* const biases[] = {&weights.q_bias, &weights.k_bias, &weights.v_bias};
    for (int64_t i = 0; i < 3; ++i) {
      *matrices[i] = part("query_key_value.weight", i);
      if (c_.every.qkv_bias) *biases[i] = part("query_key_value.bias", i);
    }
    weights.o = w.get(p + "dense.weight");
    weights.o_bias = w.if_present(c_.every.o_bias, p + "dense.bias");
    return make_softmax_attention(options(layer), std::move(weights), w.numerics());
  }

 private:
  AttentionOptions options(int layer) const {
    AttentionOptions o = attention_options(c_.every, c_.hidden_size, layer);
    o.rope = c_.rope;
    return o;
  }

  HuggingFaceConfig c_;
};

}  // namespace

std::unique_ptr<FamilyModel> read_gpt_neox(const formats::Checkpoint& checkpoint, const std::string& flavour) {
  require_flavour(flavour, "", "gpt_neox");
  return std::make_unique<GptNeox>(read(checkpoint));
}

}  // namespace slotscope::engine
