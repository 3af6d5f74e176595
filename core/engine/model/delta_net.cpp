// DeltaNet (spec: model-zoo 10): a matrix state corrected towards v by the delta rule.
#include <cmath>

#include "core/engine/model/delta_rule.h"
#include "core/engine/model/families.h"

namespace slotscope::engine {
namespace {

struct DeltaNetConfig : formats::ModelConfig {
  MatrixSizes sizes;
  QkvConfig qkv;
  bool gate = false, beta = true, negative = false;
  bool l2 = true;                 // qk_norm: l2, else sum
  std::string activation = "silu";  // of query and key

  LayerShape shape() const;
  void tensors(formats::TensorList& list) const;
  MemoryCard card() const;
};

DeltaNetConfig read(const formats::Checkpoint& checkpoint) {
  DeltaNetConfig c;
  MatrixSizes& s = c.sizes;
  formats::ModelReader r(checkpoint, c);
  r.read_sizes(2048, 24);
  r.accept_old_norms();
  r.read_hybrid(false);
  s.family = "delta_net";
  s.hidden = c.hidden_size;
  s.heads = s.state_heads = r.read_heads("num_heads", 16);
  s.d_k = r.read_width({"expand_k", nullptr, 1, "q_proj", "d_k", s.heads, s.heads}, r.mixer_axis("q_proj.weight", 0));
  s.d_v = r.read_width({"expand_v", nullptr, 1, "v_proj", "d_v", s.heads, s.heads}, r.mixer_axis("v_proj.weight", 0));
  s.scale = 1 / std::sqrt(double(s.d_k));
  c.gate = r.cfg.get_bool("use_gate", false);
  c.beta = r.cfg.get_bool("use_beta", true);
  c.negative = r.cfg.get_bool("allow_neg_eigval", false);
  c.l2 = r.cfg.get_choice("qk_norm", "l2", {"l2", "sum"}) == "l2";
  c.activation = r.cfg.get_choice("qk_activation", "silu", {"silu", "relu", "elu", "identity"});
  c.qkv = {c.hidden_size, s.heads * s.d_k, s.heads * s.d_k, s.heads * s.d_v};
  c.qkv.read_conv(r, true);
  c.qkv.unit_norm = true;
  r.read_embedding();
  r.read_mlp();
  r.note_ignored({"use_output_norm"});
  r.finish();
  return c;
}

LayerShape DeltaNetConfig::shape() const {
  LayerShape shape = matrix_shape(sizes);
  shape.fields.push_back(Field::write_strength);
  shape.note += ", delta rule";
  shape.attributes.emplace_back("delta", int64_t(1));
  shape.attributes.emplace_back("keep", std::string("I - strength k k^T on the key axis"));
  return shape;
}

void DeltaNetConfig::tensors(formats::TensorList& list) const {
  const MatrixSizes& s = sizes;
  qkv.tensors(list);
  list.add_if(beta, "b_proj.weight", {s.heads, s.hidden}, "H, D");
  list.add_if(gate, "g_proj.weight", {s.heads * s.d_v, s.hidden}, "H d_v, D");
  list.add("o_norm.weight", {s.d_v}, "d_v");
  list.add("o_proj.weight", {s.hidden, s.heads * s.d_v}, "D, H d_v");
}

MemoryCard DeltaNetConfig::card() const {
  return {"all value channels, strength beta", "(v - S^T k)_i k", "none beside the delta rule", "inner product with q",
          {"r_t[i] = 1",
           "β_t (v_t − S_{t−1} k_t)[i] k_t",
           "S_t = S_{t−1} (I − β_t k_t k_t^⊤) + β_t v_t k_t^⊤",
           "o_t = S_t q_t / √d"}};
}

class DeltaNet final : public MatrixMixer {
 public:
  DeltaNet(const DeltaNetConfig& c, int layer, const std::string& p, const Weights& w)
      : MatrixMixer(c.shape(), layer, w.numerics(), c.qkv.tail_elements()),
        c_(c),
        qkv_(c.qkv, p, w, {.silu_qk = c.activation == "silu"}),
        beta_(c.beta ? w.router(p + "b_proj.weight") : at::Tensor()),
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
    const Qkv qkv = qkv_(x, tails);
    MatrixStateInput in;
    in.query = normed(activated(split(qkv.query, s.heads)));
    in.key = normed(activated(split(qkv.key, s.heads)));
    in.value = split(qkv_.conv() ? qkv.value : at::silu(qkv.value), s.heads);
    in.strength = beta_.defined() ? delta_strength(x, beta_, c_.negative, n_.exact)
                                  : at::full({x.size(0), x.size(1), s.heads}, c_.negative ? 2 : 1, n_.options(n_.exact));
    in.delta = true;
    in.scale = s.scale;
    const at::Tensor o = scan(in, matrix, observer);
    tell(observer, Field::read_out, o);
    state = joined({matrix}, tails, state.position + x.size(1));
    return gated_output(x, o, norm_, c_.norm_eps, gate_, out_);
  }

 private:
  at::Tensor activated(const at::Tensor& z) const {
    if (c_.activation == "silu") return qkv_.conv() ? z : at::silu(z);  // the convolution has its own
    if (c_.activation == "relu") return at::relu(z);
    return c_.activation == "elu" ? at::elu(z) + 1 : z;
  }
  at::Tensor normed(const at::Tensor& z) const {
    const at::Tensor wide = z.to(n_.exact);
    return c_.l2 ? l2_norm_exact(wide, n_.exact) : wide / wide.sum(-1, true);
  }

  DeltaNetConfig c_;
  QkvProjection qkv_;
  at::Tensor beta_, gate_, norm_, out_;
};

}  // namespace

std::unique_ptr<FamilyModel> read_delta_net(const formats::Checkpoint& checkpoint, const std::string& flavour) {
  require_flavour(flavour, "fla", "delta_net");
  return std::make_unique<FamilyOf<DeltaNetConfig, DeltaNet>>(read(checkpoint));
}

}  // namespace slotscope::engine
