// RetNet (spec: model-zoo 11): a matrix state with one fixed decay per query head.
#include <cmath>

#include "core/engine/model/families.h"
#include "core/engine/model/matrix_state.h"

namespace slotscope::engine {
namespace {

struct RetNetConfig : formats::ModelConfig {
  MatrixSizes sizes;  // every query head has a decay, and so a state, of its own
  QkvConfig qkv;
  int64_t kv_heads = 0;
  std::string feature_map;  // empty: none
  bool output_gate = true, affine = true;
  std::string norm;

  LayerShape shape() const;
  void tensors(formats::TensorList& list) const;
  MemoryCard card() const;
};

RetNetConfig read(const formats::Checkpoint& checkpoint) {
  RetNetConfig c;
  MatrixSizes& s = c.sizes;
  formats::ModelReader r(checkpoint, c);
  r.read_sizes(2048, 24);
  r.read_hybrid(true);
  s.family = "retnet";
  s.hidden = c.hidden_size;
  s.heads = s.state_heads = r.read_heads("num_heads", 8);
  c.kv_heads = r.read_kv_heads("num_kv_heads", s.heads);
  s.d_k = r.read_width({"expand_k", nullptr, 1, "q_proj", "d_k", s.heads, s.heads}, r.mixer_axis("q_proj.weight", 0));
  s.d_v = r.read_width({"expand_v", nullptr, 2, "v_proj", "d_v", s.heads, c.kv_heads}, r.mixer_axis("v_proj.weight", 0));
  s.scale = 1 / std::sqrt(double(s.d_k));
  if (r.cfg.value("feature_map"))
    c.feature_map = r.cfg.get_choice("feature_map", "", {"relu", "silu", "swish", "gelu"});
  c.output_gate = r.cfg.get_bool("use_output_gate", true);
  c.affine = r.cfg.get_bool("elementwise_affine", true);
  c.norm = gated_norm_name(r, c.output_gate);
  c.qkv = {c.hidden_size, s.heads * s.d_k, c.kv_heads * s.d_k, c.kv_heads * s.d_v};
  r.read_embedding();
  r.read_mlp(2);
  r.note_ignored({"use_short_conv", "conv_size"});
  r.finish();
  return c;
}

LayerShape RetNetConfig::shape() const {
  LayerShape shape = matrix_shape(sizes);
  shape.fields.insert(shape.fields.end(), {Field::query_rot, Field::key_rot, Field::log_decay});
  shape.note += ", RoPE theta 10000";
  shape.attributes.emplace_back("write_strength", 1.0);
  shape.attributes.emplace_back("keep", std::string("1 - 2^(-5-h) of head h"));
  return shape;
}

void RetNetConfig::tensors(formats::TensorList& list) const {
  const MatrixSizes& s = sizes;
  qkv.tensors(list);
  list.add_if(output_gate, "g_proj.weight", {s.heads * s.d_v, s.hidden}, "H d_v, D");
  list.add_if(affine, norm, {s.d_v}, "d_v");
  list.add("o_proj.weight", {s.hidden, s.heads * s.d_v}, "D, H d_v");
}

MemoryCard RetNetConfig::card() const {
  return {"all value channels", "v_i k", "fixed per head, 1 - 2^(-5-h)", "inner product with q",
          {"r_t[i] = 1", "v_t[i] k_t", "S_t = γ_h S_{t−1} + v_t k_t^⊤, γ_h = 1 − 2^{−5−h}", "o_t = S_t q_t / √d"}};
}

class RetNet final : public MatrixMixer {
 public:
  RetNet(const RetNetConfig& c, int layer, const std::string& p, const Weights& w)
      : MatrixMixer(c.shape(), layer, w.numerics(), 0),
        c_(c),
        qkv_(c.qkv, p, w),
        gate_(w.if_present(c.output_gate, p + "g_proj.weight")),
        norm_(w.exact_if(c.affine, p + c.norm)),
        out_(w.get(p + "o_proj.weight")) {
    const at::Tensor h = at::arange(c.sizes.heads, n_.options(n_.exact));
    log_gamma_ = at::log1p(-at::pow(2.0, -5 - h));
  }

  MixerState initial_state(int64_t batch) const override { return {{empty_matrix(batch)}, 0}; }

  at::Tensor forward(const at::Tensor& x, MixerState& state, Observer& observer) const override {
    const MatrixSizes& s = c_.sizes;
    std::vector<at::Tensor> tails;
    at::Tensor matrix = state.tensors[0];
    const Qkv qkv = qkv_(x, tails);
    MatrixStateInput in;
    in.query = feature_map(c_.feature_map, split(qkv.query, s.heads));
    in.key = feature_map(c_.feature_map, split(qkv.key, c_.kv_heads));
    tell(observer, Field::query, in.query);
    tell(observer, Field::key, repeat_heads(in.key, s.heads));
    in.query = rotate(in.query, state.position, Rope{}, n_.exact);
    in.key = rotate(in.key, state.position, Rope{}, n_.exact);
    in.value = repeat_heads(split(qkv.value, c_.kv_heads), s.heads);
    in.log_decay = log_gamma_.expand({x.size(0), x.size(1), s.heads});
    in.scale = s.scale;
    const at::Tensor o = scan(in, matrix, observer);
    tell(observer, Field::read_out, o);
    state = {{matrix}, state.position + x.size(1)};
    return gated_output(x, o, norm_, c_.norm_eps, gate_, out_);
  }

 private:
  RetNetConfig c_;
  QkvProjection qkv_;
  at::Tensor gate_, norm_, out_, log_gamma_;
};

}  // namespace

std::unique_ptr<FamilyModel> read_retnet(const formats::Checkpoint& checkpoint, const std::string& flavour) {
  require_flavour(flavour, "fla", "retnet");
  return std::make_unique<FamilyOf<RetNetConfig, RetNet>>(read(checkpoint));
}

}  // namespace slotscope::engine
