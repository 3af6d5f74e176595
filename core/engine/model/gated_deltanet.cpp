// Gated DeltaNet (spec: model-zoo 9): the delta rule on a state that decays first, by one gate per head.
#include <cmath>

#include "core/engine/model/families.h"
#include "core/engine/model/matrix_state.h"

namespace slotscope::engine {
namespace {

struct GatedDeltaNetConfig : formats::ModelConfig {
  MatrixSizes sizes;        // on the value heads
  int64_t key_heads = 0;    // of query and key; consecutive value heads share one
  QkvConfig qkv;
  bool gate = true, negative = false;
};

GatedDeltaNetConfig read(const formats::Checkpoint& checkpoint) {
  GatedDeltaNetConfig c;
  MatrixSizes& s = c.sizes;
  formats::ModelReader r(checkpoint, c);
  r.read_sizes(2048, 21);
  r.accept_old_norms();
  r.read_hybrid(false);
  s.family = "gated_deltanet";
  s.hidden = c.hidden_size;
  c.key_heads = r.read_heads("num_heads", 6);
  s.heads = s.state_heads = r.read_value_heads(c.key_heads);
  s.d_k = r.cfg.get_int("head_dim", 256, 1, 1 << 20);
  s.d_v = r.read_expanded("expand_v", 2, s.d_k);
  s.scale = 1 / std::sqrt(double(s.d_k));
  c.gate = r.cfg.get_bool("use_gate", true);
  c.negative = r.cfg.get_bool("allow_neg_eigval", false);
  c.qkv = {c.hidden_size, c.key_heads * s.d_k, c.key_heads * s.d_k, s.heads * s.d_v};
  c.qkv.read_conv(r, true);
  c.ignorable.push_back(".attn.D");  // until 2025-03, unused
  r.read_embedding();
  r.read_mlp();
  r.finish();
  return c;
}

LayerShape shape_of(const GatedDeltaNetConfig& c) {
  LayerShape shape = matrix_shape(c.sizes);
  shape.fields.insert(shape.fields.end(), {Field::log_decay, Field::write_strength});
  shape.note += ", gated delta rule";
  shape.attributes.emplace_back("keep", std::string("exp(log_decay) (I - strength k k^T) on the key axis"));
  return shape;
}

class GatedDeltaNet final : public MatrixMixer {
 public:
  GatedDeltaNet(const GatedDeltaNetConfig& c, int layer, const std::string& p, const Weights& w)
      : MatrixMixer(shape_of(c), layer, w.numerics(), c.qkv.tail_elements()),
        c_(c),
        qkv_(c.qkv, p, w),
        decay_(w.router(p + "a_proj.weight")),
        beta_(w.router(p + "b_proj.weight")),
        a_log_(w.exact(p + "A_log")),
        dt_bias_(w.exact(p + "dt_bias")),
        gate_(w.if_present(c.gate, p + "g_proj.weight")),
        norm_(w.exact(p + "o_norm.weight")),
        out_(w.get(p + "o_proj.weight")) {}

  MixerState initial_state(int64_t batch) const override {
    return joined({empty_matrix(batch)}, qkv_.initial_tails(batch, n_), 0);
  }

  at::Tensor forward(const at::Tensor& x, MixerState& state, Observer& observer) const override {
    const MatrixSizes& s = c_.sizes;
    auto tails = tails_of(state, 1);
    at::Tensor matrix = state.tensors[0];
    Qkv qkv = qkv_(x, tails);
    if (!qkv_.conv()) qkv = {at::silu(qkv.query), at::silu(qkv.key), at::silu(qkv.value)};
    MatrixStateInput in;
    in.query = l2_norm_exact(split(qkv.query, c_.key_heads), n_.exact);
    in.key = l2_norm_exact(split(qkv.key, c_.key_heads), n_.exact);
    in.value = split(qkv.value, s.heads);
    in.strength = at::sigmoid(linear_in(n_.exact, x, beta_)) * (c_.negative ? 2 : 1);
    in.log_decay = -at::exp(a_log_) * at::softplus(linear_in(n_.exact, x, decay_) + dt_bias_);
    in.delta = true;
    in.scale = s.scale;
    const at::Tensor o = scan(in, matrix, observer);
    state = joined({matrix}, tails, state.position + x.size(1));
    return gated_output(x, o, norm_, c_.norm_eps, gate_, out_);
  }

 private:
  GatedDeltaNetConfig c_;
  QkvProjection qkv_;
  at::Tensor decay_, beta_, a_log_, dt_bias_, gate_, norm_, out_;
};

class GatedDeltaNetModel final : public FamilyModel {
 public:
  explicit GatedDeltaNetModel(GatedDeltaNetConfig c) : c_(std::move(c)) {}

  formats::ModelConfig& config() override { return c_; }
  void mixer_tensors(formats::TensorList& list, int64_t) const override {
    const MatrixSizes& s = c_.sizes;
    c_.qkv.tensors(list);
    list.add("a_proj.weight", {s.heads, s.hidden}, "H_v, D");
    list.add("b_proj.weight", {s.heads, s.hidden}, "H_v, D");
    list.add("A_log", {s.heads}, "H_v");
    list.add("dt_bias", {s.heads}, "H_v");
    list.add_if(c_.gate, "g_proj.weight", {s.heads * s.d_v, s.hidden}, "H_v d_v, D");
    list.add("o_norm.weight", {s.d_v}, "d_v");
    list.add("o_proj.weight", {s.hidden, s.heads * s.d_v}, "D, H_v d_v");
  }
  LayerShape mixer_shape(int) const override { return shape_of(c_); }
  MemoryCard card() const override {
    return {"all value channels, strength beta", "(v - S^T k)_i k", "scalar per head", "inner product with q"};
  }
  std::unique_ptr<Mixer> mixer(int layer, const std::string& p, const Weights& w) const override {
    return std::make_unique<GatedDeltaNet>(c_, layer, p, w);
  }

 private:
  GatedDeltaNetConfig c_;
};

}  // namespace

std::unique_ptr<FamilyModel> read_gated_deltanet(const formats::Checkpoint& checkpoint, const std::string& flavour) {
  require_flavour(flavour, "fla", "gated_deltanet");
  return std::make_unique<GatedDeltaNetModel>(read(checkpoint));
}

}  // namespace slotscope::engine
