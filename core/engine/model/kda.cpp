// Kimi Delta Attention as the FLA code has it (spec: model-zoo 15): the delta rule on a state whose key channels decay first.
#include <cmath>

#include "core/engine/model/delta_rule.h"
#include "core/engine/model/families.h"

namespace slotscope::engine {
namespace {

struct KdaConfig : formats::ModelConfig {
  MatrixSizes sizes;      // on the value heads
  int64_t key_heads = 0;  // of query and key; consecutive value heads share one
  QkvConfig qkv;
  int64_t gate_heads = 0;  // of decay and strength: the value heads; the key heads in files until 2026-04
  bool negative = false;
  std::optional<double> lower_bound;  // then g = bound sigmoid(exp(A_log) u)

  LayerShape shape() const;
  void tensors(formats::TensorList& list) const;
  MemoryCard card() const;
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
  const bool old = s.heads != c.key_heads && r.mixer_axis("b_proj.weight", 0) == c.key_heads;
  if (old) r.cfg.note("older layout: decay and strength are stored per key head, value heads that share one share them");
  c.gate_heads = old ? c.key_heads : s.heads;
  c.negative = r.cfg.get_bool("allow_neg_eigval", false);
  if (r.cfg.value("lower_bound")) c.lower_bound = r.cfg.get_double("lower_bound", 0);
  if (c.lower_bound && *c.lower_bound > 0)
    r.refuse("lower_bound", formats::number_text(*c.lower_bound), "a bound of the log decay, at most 0");
  c.qkv = {c.hidden_size, c.key_heads * s.d_k, c.key_heads * s.d_k, s.heads * s.d_v};
  c.qkv.read_conv(r, true);
  c.qkv.unit_norm = true;
  r.read_embedding();
  r.read_mlp();
  r.note_ignored({"safe_gate"});
  r.finish();
  return c;
}

LayerShape KdaConfig::shape() const {
  LayerShape shape = matrix_shape(sizes);
  shape.decay = Columns::key;
  shape.fields.insert(shape.fields.end(), {Field::log_decay, Field::write_strength});
  shape.note += ", gated delta rule";
  shape.attributes.emplace_back("delta", int64_t(1));
  shape.attributes.emplace_back("keep", std::string("diag(exp(log_decay)) (I - strength k k^T) on the key axis"));
  return shape;
}

void KdaConfig::tensors(formats::TensorList& list) const {
  const MatrixSizes& s = sizes;
  qkv.tensors(list);
  list.add("f_proj.0.weight", {s.d_v, s.hidden}, "d_v, D");
  list.add("f_proj.1.weight", {gate_heads * s.d_k, s.d_v}, "H_v d_k, d_v");
  list.add("b_proj.weight", {gate_heads, s.hidden}, "H_v, D");
  list.add("A_log", {gate_heads}, "H_v");
  list.add("dt_bias", {gate_heads * s.d_k}, "H_v d_k");
  list.add("g_proj.0.weight", {s.d_v, s.hidden}, "d_v, D");
  list.add("g_proj.1.weight", {s.heads * s.d_v, s.d_v}, "H_v d_v, d_v");
  list.add("g_proj.1.bias", {s.heads * s.d_v}, "H_v d_v");
  list.add("o_norm.weight", {s.d_v}, "d_v");
  list.add("o_proj.weight", {s.hidden, s.heads * s.d_v}, "D, H_v d_v");
}

MemoryCard KdaConfig::card() const {
  return {"all value channels, strength beta", "(v - S^T k)_i k", "per key channel", "inner product with q",
          {"r_t[i] = 1",
           "β_t (v_t − S_{t−1} D_t k_t)[i] k_t",
           "S_t = S_{t−1} D_t (I − β_t k_t k_t^⊤) + β_t v_t k_t^⊤, D_t = diag(exp g_t)",
           "o_t = S_t q_t / √d"}};
}

class Kda final : public MatrixMixer {
 public:
  Kda(const KdaConfig& c, int layer, const std::string& p, const Weights& w)
      : MatrixMixer(c.shape(), layer, w.numerics(), c.qkv.tail_elements()),
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
    auto tails = tails_of(state, 1);
    at::Tensor matrix = state.tensors[0];
    MatrixStateInput in = delta_input(qkv_.activated(x, tails), c_.key_heads, c_.sizes, n_.exact);
    in.strength = repeat_heads(delta_strength(x, beta_, c_.negative, n_.exact), c_.sizes.heads);
    const at::Tensor u =
        split(linear_in(n_.exact, linear_in(n_.exact, x, decay_in_), decay_out_) + dt_bias_, c_.gate_heads);
    const at::Tensor a = at::exp(a_log_).unsqueeze(-1);  // [H_v,1]
    const at::Tensor decay = c_.lower_bound ? *c_.lower_bound * at::sigmoid(a * u) : -a * at::softplus(u);
    in.log_decay = repeat_heads(decay, c_.sizes.heads);
    const at::Tensor o = scan(in, matrix, observer);
    tell(observer, Field::read_out, o);
    state = joined({matrix}, tails, state.position + x.size(1));
    // The gate is a sigmoid here, not silu.
    const at::Tensor gate = at::sigmoid(linear_map(linear_map(x, gate_in_), gate_out_, gate_bias_));
    return head_output(o, norm_, c_.norm_eps, gate, out_, n_.exact);
  }

 private:
  KdaConfig c_;
  QkvProjection qkv_;
  at::Tensor decay_in_, decay_out_, beta_, a_log_, dt_bias_, gate_in_, gate_out_, gate_bias_, norm_, out_;
};

}  // namespace

std::unique_ptr<FamilyModel> read_kda(const formats::Checkpoint& checkpoint, const std::string& flavour) {
  require_flavour(flavour, "fla", "kda");
  return std::make_unique<FamilyOf<KdaConfig, Kda>>(read(checkpoint));
}

}  // namespace slotscope::engine
