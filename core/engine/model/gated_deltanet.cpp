// Gated DeltaNet (spec: model-zoo 9): the delta rule on a state that decays first, by one gate per head.
#include <cmath>

#include "core/engine/model/delta_rule.h"
#include "core/engine/model/families.h"

namespace slotscope::engine {
namespace {

struct GatedDeltaNetConfig : formats::ModelConfig {
  MatrixSizes sizes;        // on the value heads
  int64_t key_heads = 0;    // of query and key; consecutive value heads share one
  QkvConfig qkv;
  bool gate = true, negative = false;

  LayerShape shape() const;
  void tensors(formats::TensorList& list) const;
  MemoryCard card() const;
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
  c.qkv.unit_norm = true;
  c.ignorable.push_back(".attn.D");  // until 2025-03, unused
  r.read_embedding();
  r.read_mlp();
  r.finish();
  return c;
}

LayerShape GatedDeltaNetConfig::shape() const {
  LayerShape shape = matrix_shape(sizes);
  shape.fields.insert(shape.fields.end(), {Field::log_decay, Field::write_strength});
  shape.note += ", gated delta rule";
  shape.attributes.emplace_back("delta", int64_t(1));
  shape.attributes.emplace_back("keep", std::string("exp(log_decay) (I - strength k k^T) on the key axis"));
  return shape;
}

void GatedDeltaNetConfig::tensors(formats::TensorList& list) const {
  const MatrixSizes& s = sizes;
  qkv.tensors(list);
  list.add("a_proj.weight", {s.heads, s.hidden}, "H_v, D");
  list.add("b_proj.weight", {s.heads, s.hidden}, "H_v, D");
  list.add("A_log", {s.heads}, "H_v");
  list.add("dt_bias", {s.heads}, "H_v");
  list.add_if(gate, "g_proj.weight", {s.heads * s.d_v, s.hidden}, "H_v d_v, D");
  list.add("o_norm.weight", {s.d_v}, "d_v");
  list.add("o_proj.weight", {s.hidden, s.heads * s.d_v}, "D, H_v d_v");
}

MemoryCard GatedDeltaNetConfig::card() const {
  return {"all value channels, strength beta", "(v - S^T k)_i k", "scalar per head", "inner product with q",
          {"r_t[i] = 1",
           "β_t (v_t − α_t S_{t−1} k_t)[i] k_t",
           "S_t = α_t S_{t−1} (I − β_t k_t k_t^⊤) + β_t v_t k_t^⊤, α_t = exp g_t",
           "o_t = S_t q_t / √d"}};
}

class GatedDeltaNet final : public MatrixMixer {
 public:
  GatedDeltaNet(const GatedDeltaNetConfig& c, int layer, const std::string& p, const Weights& w)
      : MatrixMixer(c.shape(), layer, w.numerics(), c.qkv.tail_elements()),
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
    auto tails = tails_of(state, 1);
    at::Tensor matrix = state.tensors[0];
    MatrixStateInput in = delta_input(qkv_.activated(x, tails), c_.key_heads, c_.sizes, n_.exact);
    in.strength = delta_strength(x, beta_, c_.negative, n_.exact);
    in.log_decay = head_log_decay(x, decay_, a_log_, dt_bias_, n_.exact);
    const at::Tensor o = scan(in, matrix, observer);
    tell(observer, Field::read_out, o);
    state = joined({matrix}, tails, state.position + x.size(1));
    return gated_output(x, o, norm_, c_.norm_eps, gate_, out_);
  }

 private:
  GatedDeltaNetConfig c_;
  QkvProjection qkv_;
  at::Tensor decay_, beta_, a_log_, dt_bias_, gate_, norm_, out_;
};

}  // namespace

std::unique_ptr<FamilyModel> read_gated_deltanet(const formats::Checkpoint& checkpoint, const std::string& flavour) {
  require_flavour(flavour, "fla", "gated_deltanet");
  return std::make_unique<FamilyOf<GatedDeltaNetConfig, GatedDeltaNet>>(read(checkpoint));
}

}  // namespace slotscope::engine
