// Attention with bounded memory control, as the FLA code has it (spec: model-zoo 4): slot scores are normalised over time,
// by a running softmax per slot.
#include <cmath>

#include "core/engine/model/dense_slots.h"
#include "core/engine/model/families.h"

namespace slotscope::engine {
namespace {

struct AbcConfig : formats::ModelConfig {
  DenseSlots sizes;
  QkvConfig qkv;
  double clamp_min = -32, clamp_max = 32;
  bool use_rope = true;
  bool affine = true;

  LayerShape shape() const;
  void tensors(formats::TensorList& list) const;
  MemoryCard card() const;
};

AbcConfig read(const formats::Checkpoint& checkpoint) {
  AbcConfig c;
  DenseSlots& s = c.sizes;
  formats::ModelReader r(checkpoint, c);
  r.read_sizes(2048, 24);
  c.use_rope = r.cfg.get_bool("use_rope", true);
  r.read_hybrid(c.use_rope);
  s.family = "abc";
  s.hidden = c.hidden_size;
  s.heads = s.kv_heads = r.read_heads("num_heads", 4);
  s.d_k = r.read_width({"expand_k", "exapnd_k", 0.5, "q_proj", "d_k", s.heads, s.heads}, r.mixer_axis("q_proj.weight", 0));
  s.d_v = r.read_width({"expand_v", "exapnd_v", 1, "v_proj", "d_v", s.heads, s.heads}, r.mixer_axis("v_proj.weight", 0));
  s.slots = r.read_slots(s.d_k);
  s.scale = 1 / std::sqrt(double(s.d_k));
  c.clamp_min = r.cfg.get_double("clamp_min", -32);
  c.clamp_max = r.cfg.get_double("clamp_max", 32);
  if (c.clamp_min > c.clamp_max)
    r.refuse("clamp_min", formats::number_text(c.clamp_min), "at most clamp_max " + formats::number_text(c.clamp_max));
  c.affine = r.cfg.get_bool("elementwise_affine", true);
  c.qkv = {c.hidden_size, s.heads * s.d_k, s.heads * s.d_k, s.heads * s.d_v};
  c.qkv.read_conv(r, false);
  r.read_embedding();
  r.read_mlp();
  r.note_ignored({"gate_low_rank_dim"});
  r.finish();
  return c;
}

LayerShape AbcConfig::shape() const {
  LayerShape shape = dense_slots_shape(sizes);
  if (!use_rope) return shape;
  shape.note += ", RoPE theta 10000";
  shape.fields.insert(shape.fields.end(), {Field::query_rot, Field::key_rot});
  return shape;
}

void AbcConfig::tensors(formats::TensorList& list) const {
  const DenseSlots& s = sizes;
  qkv.tensors(list);
  list.add("g_proj.weight", {s.heads * s.d_v, s.hidden}, "H d_v, D");
  list.add("s_proj.weight", {s.heads * s.slots, s.hidden}, "H M, D");
  list.add_if(affine, "g_norm.weight", {s.d_v}, "d_v");
  list.add("o_proj.weight", {s.hidden, s.heads * s.d_v}, "D, H d_v");
}

MemoryCard AbcConfig::card() const {
  return {"all " + std::to_string(sizes.slots) + " slots, strength softmax over time", "k, v",
          "per slot, 1 - strength", "softmax over all slots",
          {"r_t[i] = 1, s_t[i] = exp(l_t[i] − z_t[i]), z_t = log Σ_{j≤t} exp l_j",
           "(k_t, v_t)",
           "S_t[i] = exp(z_{t−1}[i] − z_t[i]) S_{t−1}[i] + s_t[i] (k_t, v_t)",
           "o_t = softmax(q_t K_t^⊤ / √d) V_t"}};
}

class Abc final : public DenseSlotMixer {
 public:
  Abc(const AbcConfig& c, int layer, const std::string& p, const Weights& w)
      : DenseSlotMixer(c.sizes, layer, w, c.qkv.tail_elements()),
        c_(c),
        qkv_(c.qkv, p, w),
        score_(w.router(p + "s_proj.weight")),
        gate_(w.get(p + "g_proj.weight")),
        g_norm_(w.exact_if(c.affine, p + "g_norm.weight")),
        out_(w.get(p + "o_proj.weight")) {
    shape_ = c.shape();
  }

  MixerState initial_state(int64_t batch) const override {
    std::vector<at::Tensor> memory = empty_memory(batch);
    memory.push_back(at::full({batch, s_.heads, s_.slots}, -INFINITY, n_.options(n_.exact)));  // z
    return joined(std::move(memory), qkv_.initial_tails(batch, n_), 0);
  }

  at::Tensor forward(const at::Tensor& x, MixerState& state, Observer& observer) const override {
    auto tails = tails_of(state, 3);
    std::vector<at::Tensor> memory(state.tensors.begin(), state.tensors.begin() + 3);
    const Qkv in = qkv_(x, tails);
    at::Tensor query = split(in.query, s_.heads), key = split(in.key, s_.heads);
    const at::Tensor value = split(in.value, s_.heads);
    tell(observer, Field::query, query);
    tell(observer, Field::key, key);
    tell(observer, Field::value, value);
    if (c_.use_rope) {
      query = rotate(query, state.position, Rope{}, n_.exact);
      key = rotate(key, state.position, Rope{}, n_.exact);
      tell(observer, Field::query_rot, query);
      tell(observer, Field::key_rot, key);
    }
    // z_t = log of the sum of exp(l) up to t, carried with the state; keep exp(z_{t-1} - z_t), strength exp(l_t - z_t).
    const at::Tensor l = split(linear_in(n_.exact, x, score_), s_.heads).clamp(c_.clamp_min, c_.clamp_max);
    const at::Tensor z = at::logcumsumexp(at::cat({memory[2].unsqueeze(1), l}, 1), 1);
    const int64_t tokens = x.size(1);
    const at::Tensor before = z.slice(1, 0, tokens), after = z.slice(1, 1);
    const at::Tensor o =
        write_and_read(query, key, value, before - after, at::exp(l - after), false, memory, observer);
    memory[2] = z.select(1, tokens).clone();
    state = joined(std::move(memory), tails, state.position + tokens);
    return head_output(o, g_norm_, c_.norm_eps, at::silu(linear_map(x, gate_)), out_, n_.exact);
  }

 private:
  AbcConfig c_;
  QkvProjection qkv_;
  at::Tensor score_, gate_, g_norm_, out_;
};

}  // namespace

std::unique_ptr<FamilyModel> read_abc(const formats::Checkpoint& checkpoint, const std::string& flavour) {
  require_flavour(flavour, "fla", "abc");
  return std::make_unique<FamilyOf<AbcConfig, Abc>>(read(checkpoint));
}

}  // namespace slotscope::engine
