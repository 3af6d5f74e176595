// Gated linear attention (spec: model-zoo 6): a matrix state whose key channels decay by their own gates.
#include <cmath>

#include "core/engine/model/families.h"
#include "core/engine/model/matrix_state.h"

namespace slotscope::engine {
namespace {

constexpr double kTau = 16;       // of the gate; no config has it
constexpr int64_t kLowRank = 16;  // of the gate's projection

struct GlaConfig : formats::ModelConfig {
  MatrixSizes sizes;
  QkvConfig qkv;
  std::string feature_map;  // empty: none
  bool output_gate = true, affine = true;
  std::optional<double> clamp_min;
  std::string norm;  // name of the output norm's weight

  LayerShape shape() const;
  void tensors(formats::TensorList& list) const;
  MemoryCard card() const;
};

GlaConfig read(const formats::Checkpoint& checkpoint) {
  GlaConfig c;
  MatrixSizes& s = c.sizes;
  formats::ModelReader r(checkpoint, c);
  r.read_sizes(2048, 24);
  r.read_hybrid(false);
  s.family = "gla";
  s.hidden = c.hidden_size;
  s.heads = r.read_heads("num_heads", 4);
  s.state_heads = r.read_kv_heads("num_kv_heads", s.heads);
  s.d_k = r.read_width({"expand_k", nullptr, 0.5, "q_proj", "d_k", s.heads, s.heads}, r.mixer_axis("q_proj.weight", 0));
  s.d_v = r.read_width({"expand_v", nullptr, 1, "v_proj", "d_v", s.heads, s.state_heads},
                       r.mixer_axis("v_proj.weight", 0));
  s.scale = 1 / std::sqrt(double(s.d_k));
  if (r.cfg.value("feature_map"))
    c.feature_map = r.cfg.get_choice("feature_map", "", {"relu", "swish", "silu", "sigmoid", "sqrelu", "gelu", "logsigmoid"});
  if (c.feature_map == "gelu") c.feature_map = "gelu_tanh";
  c.output_gate = r.cfg.get_bool("use_output_gate", true);
  c.affine = r.cfg.get_bool("elementwise_affine", true);
  if (r.cfg.value("clamp_min")) c.clamp_min = r.cfg.get_double("clamp_min", 0);
  c.norm = gated_norm_name(r, c.output_gate);
  c.qkv = {c.hidden_size, s.heads * s.d_k, s.state_heads * s.d_k, s.state_heads * s.d_v};
  c.qkv.read_conv(r, false);
  r.read_embedding();
  r.read_mlp();
  r.note_ignored({"use_gk", "use_gv"});
  r.finish();
  return c;
}

LayerShape GlaConfig::shape() const {
  LayerShape shape = matrix_shape(sizes);
  shape.decay = Columns::key;
  shape.fields.push_back(Field::log_decay);
  shape.attributes.emplace_back("write_strength", 1.0);
  return shape;
}

void GlaConfig::tensors(formats::TensorList& list) const {
  const MatrixSizes& s = sizes;
  qkv.tensors(list);
  list.add("gk_proj.0.weight", {kLowRank, s.hidden}, "16, D");
  list.add("gk_proj.1.weight", {s.state_heads * s.d_k, kLowRank}, "H_kv d_k, 16");
  list.add("gk_proj.1.bias", {s.state_heads * s.d_k}, "H_kv d_k");
  list.add_if(output_gate, "g_proj.weight", {s.heads * s.d_v, s.hidden}, "H d_v, D");
  list.add_if(affine, norm, {s.d_v}, "d_v");
  list.add("o_proj.weight", {s.hidden, s.heads * s.d_v}, "D, H d_v");
}

MemoryCard GlaConfig::card() const {
  return {"all value channels", "v_i k", "per key channel, sigmoid(g)^(1/16)", "inner product with q",
          {"r_t[i] = 1", "v_t[i] k_t", "S_t = S_{t−1} diag(exp g_t) + v_t k_t^⊤", "o_t = S_t q_t / √d"}};
}

class Gla final : public MatrixMixer {
 public:
  Gla(const GlaConfig& c, int layer, const std::string& p, const Weights& w)
      : MatrixMixer(c.shape(), layer, w.numerics(), c.qkv.tail_elements()),
        c_(c),
        qkv_(c.qkv, p, w),
        decay_in_(w.router(p + "gk_proj.0.weight")),
        decay_out_(w.router(p + "gk_proj.1.weight")),
        decay_bias_(w.exact(p + "gk_proj.1.bias")),
        gate_(w.if_present(c.output_gate, p + "g_proj.weight")),
        norm_(w.exact_if(c.affine, p + c.norm)),
        out_(w.get(p + "o_proj.weight")) {}

  MixerState initial_state(int64_t batch) const override {
    return joined({empty_matrix(batch)}, qkv_.initial_tails(batch, n_), 0);
  }

  at::Tensor forward(const at::Tensor& x, MixerState& state, Observer& observer) const override {
    const MatrixSizes& s = c_.sizes;
    auto tails = tails_of(state, 1);
    at::Tensor matrix = state.tensors[0];
    const Qkv qkv = qkv_(x, tails);
    MatrixStateInput in;
    in.query = feature_map(c_.feature_map, split(qkv.query, s.heads));
    in.key = feature_map(c_.feature_map, split(qkv.key, s.state_heads));
    in.value = split(qkv.value, s.state_heads);
    const at::Tensor lambda = linear_in(n_.exact, linear_in(n_.exact, x, decay_in_), decay_out_, decay_bias_);
    in.log_decay = at::log_sigmoid(split(lambda, s.state_heads)) / kTau;
    if (c_.clamp_min) in.log_decay = in.log_decay.clamp_min(*c_.clamp_min);
    in.scale = s.scale;
    const at::Tensor o = scan(in, matrix, observer);
    tell(observer, Field::read_out, o);
    state = joined({matrix}, tails, state.position + x.size(1));
    return gated_output(x, o, norm_, c_.norm_eps, gate_, out_);
  }

 private:
  GlaConfig c_;
  QkvProjection qkv_;
  at::Tensor decay_in_, decay_out_, decay_bias_, gate_, norm_, out_;
};

}  // namespace

std::unique_ptr<FamilyModel> read_gla(const formats::Checkpoint& checkpoint, const std::string& flavour) {
  require_flavour(flavour, "fla", "gla");
  return std::make_unique<FamilyOf<GlaConfig, Gla>>(read(checkpoint));
}

}  // namespace slotscope::engine
