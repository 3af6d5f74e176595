// Gated slot attention (spec: model-zoo 3): every slot decays by its own sigmoid gate and takes what the decay leaves.
#include "core/engine/model/dense_slots.h"
#include "core/engine/model/families.h"

namespace slotscope::engine {
namespace {

enum class FeatureMap { swish, relu, t2r };

struct GsaConfig : formats::ModelConfig {
  DenseSlots sizes;
  QkvConfig qkv;
  FeatureMap feature_map = FeatureMap::swish;
  double tau = 8;        // gate_logit_normalizer
  bool affine = true;    // g_norm has a weight

  LayerShape shape() const;
  void tensors(formats::TensorList& list) const;
  MemoryCard card() const;
};

GsaConfig read(const formats::Checkpoint& checkpoint) {
  GsaConfig c;
  DenseSlots& s = c.sizes;
  formats::ModelReader r(checkpoint, c);
  r.read_sizes(2048, 24);
  r.accept_old_norms();
  r.read_hybrid(false);
  s.family = "gsa";
  s.hidden = c.hidden_size;
  s.heads = r.read_heads("num_heads", 4);
  s.kv_heads = r.read_kv_heads("num_kv_heads", s.heads);
  s.d_k = r.read_width({"expand_k", "exapnd_k", 1, "q_proj", "d_k", s.heads, s.heads}, r.mixer_axis("q_proj.weight", 0));
  s.d_v = r.read_width({"expand_v", "exapnd_v", 1, "v_proj", "d_v", s.heads, s.kv_heads},
                       r.mixer_axis("v_proj.weight", 0));
  if (s.heads * s.d_v != c.hidden_size)
    r.refuse("expand_v", "value width " + std::to_string(s.heads * s.d_v),
             "hidden_size " + std::to_string(c.hidden_size) + ": g_norm has that width");
  s.slots = r.read_slots(s.d_k);
  const std::string map = r.cfg.get_choice("feature_map", "swish", {"swish", "relu", "t2r"});
  c.feature_map = map == "swish" ? FeatureMap::swish : map == "relu" ? FeatureMap::relu : FeatureMap::t2r;
  c.tau = r.cfg.get_positive("gate_logit_normalizer", 8);
  c.affine = r.cfg.get_bool("elementwise_affine", true);
  c.qkv = {c.hidden_size, s.heads * s.d_k, s.kv_heads * s.d_k, s.kv_heads * s.d_v};
  c.qkv.read_conv(r, false);
  r.cfg.set_row("g_norm eps", "1e-05", "rule: whatever norm_eps is");
  r.read_embedding();
  r.read_mlp();
  r.note_ignored({"use_output_gate", "use_norm", "clamp_min", "clamp_max"});
  r.finish();
  return c;
}

LayerShape GsaConfig::shape() const { return dense_slots_shape(sizes); }

void GsaConfig::tensors(formats::TensorList& list) const {
  const DenseSlots& s = sizes;
  qkv.tensors(list);
  list.add("f_proj.weight", {s.kv_heads * s.slots, s.hidden}, "H_kv M, D");
  list.add_if(feature_map == FeatureMap::t2r, "feature_map.layer.weight", {s.d_k, s.d_k}, "d_k, d_k");
  list.add_if(affine, "g_norm.weight", {s.hidden}, "D");
  list.add("o_proj.weight", {s.hidden, s.heads * s.d_v}, "D, H d_v");
}

MemoryCard GsaConfig::card() const {
  return {"all " + std::to_string(sizes.slots) + " slots, strength 1 - sigmoid(f)^(1/" + formats::number_text(tau) + ")",
          "k, v", "per slot, sigmoid(f)^(1/" + formats::number_text(tau) + ")", "softmax over all slots",
          {"r_t[i] = 1, s_t[i] = 1 − σ(f_t[i])^{1/τ}",
           "(k_t, v_t)",
           "S_t[i] = σ(f_t[i])^{1/τ} S_{t−1}[i] + s_t[i] (k_t, v_t)",
           "o_t = softmax(q_t K_t^⊤) V_t"}};
}

class Gsa final : public DenseSlotMixer {
 public:
  Gsa(const GsaConfig& c, int layer, const std::string& p, const Weights& w)
      : DenseSlotMixer(c.sizes, layer, w, c.qkv.tail_elements()),
        c_(c),
        qkv_(c.qkv, p, w),
        forget_(w.router(p + "f_proj.weight")),
        feature_(w.if_present(c.feature_map == FeatureMap::t2r, p + "feature_map.layer.weight")),
        g_norm_(w.exact_if(c.affine, p + "g_norm.weight")),
        out_(w.get(p + "o_proj.weight")) {}

  MixerState initial_state(int64_t batch) const override {
    return joined(empty_memory(batch), qkv_.initial_tails(batch, n_), 0);
  }

  at::Tensor forward(const at::Tensor& x, MixerState& state, Observer& observer) const override {
    auto tails = tails_of(state, 2);
    std::vector<at::Tensor> memory = {state.tensors[0], state.tensors[1]};
    const Qkv in = qkv_(x, tails);
    const at::Tensor query = feature_map(split(in.query, s_.heads)), key = feature_map(split(in.key, s_.kv_heads));
    // silu once more where the convolution has its own: that is the definition (spec: model-zoo 3.3 step 2).
    const at::Tensor value = at::silu(split(in.value, s_.kv_heads));
    tell(observer, Field::query, query);
    tell(observer, Field::key, key);
    tell(observer, Field::value, value);
    const at::Tensor log_keep =
        at::log_sigmoid(split(linear_in(n_.exact, x, forget_), s_.kv_heads)) / c_.tau;
    const at::Tensor o =
        write_and_read(query, key, value, log_keep, 1 - at::exp(log_keep), true, memory, observer);
    state = joined(std::move(memory), tails, state.position + x.size(1));
    // eps is 1e-5 whatever norm_eps says, and silu comes before the norm (3.3 step 5).
    const at::Tensor y = rms_norm_exact(at::silu(o.flatten(2)), g_norm_, 1e-5, n_.exact);
    return linear_map(y.to(n_.compute), out_);
  }

 private:
  at::Tensor feature_map(const at::Tensor& z) const {
    if (c_.feature_map == FeatureMap::swish) return at::silu(z);
    return at::relu(feature_.defined() ? linear_map(z, feature_) : z);
  }

  GsaConfig c_;
  QkvProjection qkv_;
  at::Tensor forget_, feature_, g_norm_, out_;
};

}  // namespace

std::unique_ptr<FamilyModel> read_gsa(const formats::Checkpoint& checkpoint, const std::string& flavour) {
  require_flavour(flavour, "fla", "gsa");
  return std::make_unique<FamilyOf<GsaConfig, Gsa>>(read(checkpoint));
}

}  // namespace slotscope::engine
