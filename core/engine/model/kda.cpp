// Kimi Delta Attention as the FLA code has it (spec: model-zoo 15): the delta rule on a state whose key channels decay first.
#include <cmath>

#include "core/engine/model/families.h"
#include "core/engine/model/matrix_state.h"

namespace slotscope::engine {
namespace {

struct KdaConfig : formats::ModelConfig {
  MatrixSizes sizes;      // on the value heads
  int64_t key_heads = 0;  // of query and key; consecutive value heads share one
  QkvConfig qkv;
  bool negative = false;
  std::optional<double> lower_bound;  // then g = bound sigmoid(exp(A_log) u)
};

KdaConfig read(const formats::Checkpoint& checkpoint) {
  KdaConfig c;
  MatrixSizes& s = c.sizes;
  formats::ModelReader r(checkpoint, c);
  r.read_sizes(2048, 24);
  r.read_hybrid(false);
  s.family = "kda";
  s.hidden = c.hidden_size;
  c.key_heads = r.read_heads("num_heads", 16);
  s.heads = s.state_heads = r.read_value_heads(c.key_heads);
  s.d_k = r.cfg.get_int("head_dim", 128, 1, 1 << 20);
  s.d_v = r.read_expanded("expand_v", 1, s.d_k);
  s.scale = 1 / std::sqrt(double(s.d_k));
  c.negative = r.cfg.get_bool("allow_neg_eigval", false);
  if (r.cfg.value("lower_bound")) c.lower_bound = r.cfg.get_double("lower_bound", 0);
  if (c.lower_bound && *c.lower_bound > 0)
    r.refuse("lower_bound", formats::number_text(*c.lower_bound), "a bound of the log decay, at most 0");
  c.qkv = {c.hidden_size, c.key_heads * s.d_k, c.key_heads * s.d_k, s.heads * s.d_v};
  c.qkv.read_conv(r, true);
  r.read_embedding();
  r.read_mlp();
  r.note_ignored({"safe_gate"});
  r.finish();
  return c;
}

LayerShape shape_of(const KdaConfig& c) {
  LayerShape shape = matrix_shape(c.sizes);
  shape.decay = Columns::key;
  shape.fields.insert(shape.fields.end(), {Field::log_decay, Field::write_strength});
  shape.note += ", gated delta rule";
  shape.attributes.emplace_back("keep", std::string("diag(exp(log_decay)) (I - strength k k^T) on the key axis"));
  return shape;
}

class Kda final : public MatrixMixer {
 public:
  Kda(const KdaConfig& c, int layer, const std::string& p, const Weights& w)
      : MatrixMixer(shape_of(c), layer, w.numerics(), c.qkv.tail_elements()),
        c_(c),
        qkv_(c.qkv, p, w),
        decay_in_(w.router(p + "f_proj.0.weight")),
        decay_out_(w.router(p + "f_proj.1.weight")),
        beta_(w.router(p + "b_proj.weight")),
        a_log_(w.exact(p + "A_log")),
        dt_bias_(w.exact(p + "dt_bias")),
        gate_in_(w.get(p + "g_proj.0.weight")),
        gate_out_(w.get(p + "g_proj.1.weight")),
        gate_bias_(w.get(p + "g_proj.1.bias")),
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
    const at::Tensor u = split(linear_in(n_.exact, linear_in(n_.exact, x, decay_in_), decay_out_) + dt_bias_, s.heads);
    const at::Tensor a = at::exp(a_log_).unsqueeze(-1);  // [H_v,1]
    in.log_decay = c_.lower_bound ? *c_.lower_bound * at::sigmoid(a * u) : -a * at::softplus(u);
    in.delta = true;
    in.scale = s.scale;
    const at::Tensor o = scan(in, matrix, observer);
    state = joined({matrix}, tails, state.position + x.size(1));
    // The gate is a sigmoid here, not silu.
    const at::Tensor gate = at::sigmoid(linear_map(linear_map(x, gate_in_), gate_out_, gate_bias_));
    const at::Tensor y = rms_norm_exact(o, norm_, c_.norm_eps, n_.exact) * split(gate, s.heads);
    return linear_map(y.flatten(2).to(n_.compute), out_);
  }

 private:
  KdaConfig c_;
  QkvProjection qkv_;
  at::Tensor decay_in_, decay_out_, beta_, a_log_, dt_bias_, gate_in_, gate_out_, gate_bias_, norm_, out_;
};

class KdaModel final : public FamilyModel {
 public:
  explicit KdaModel(KdaConfig c) : c_(std::move(c)) {}

  formats::ModelConfig& config() override { return c_; }
  void mixer_tensors(formats::TensorList& list, int64_t) const override {
    const MatrixSizes& s = c_.sizes;
    c_.qkv.tensors(list);
    list.add("f_proj.0.weight", {s.d_v, s.hidden}, "d_v, D");
    list.add("f_proj.1.weight", {s.heads * s.d_k, s.d_v}, "H_v d_k, d_v");
    list.add("b_proj.weight", {s.heads, s.hidden}, "H_v, D");
    list.add("A_log", {s.heads}, "H_v");
    list.add("dt_bias", {s.heads * s.d_k}, "H_v d_k");
    list.add("g_proj.0.weight", {s.d_v, s.hidden}, "d_v, D");
    list.add("g_proj.1.weight", {s.heads * s.d_v, s.d_v}, "H_v d_v, d_v");
    list.add("g_proj.1.bias", {s.heads * s.d_v}, "H_v d_v");
    list.add("o_norm.weight", {s.d_v}, "d_v");
    list.add("o_proj.weight", {s.hidden, s.heads * s.d_v}, "D, H_v d_v");
  }
  LayerShape mixer_shape(int) const override { return shape_of(c_); }
  MemoryCard card() const override {
    return {"all value channels, strength beta", "(v - S^T k)_i k", "per key channel", "inner product with q"};
  }
  std::unique_ptr<Mixer> mixer(int layer, const std::string& p, const Weights& w) const override {
    return std::make_unique<Kda>(c_, layer, p, w);
  }

 private:
  KdaConfig c_;
};

}  // namespace

std::unique_ptr<FamilyModel> read_kda(const formats::Checkpoint& checkpoint, const std::string& flavour) {
  require_flavour(flavour, "fla", "kda");
  return std::make_unique<KdaModel>(read(checkpoint));
}

}  // namespace slotscope::engine
