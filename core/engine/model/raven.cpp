#include "core/engine/model/raven.h"

#include "core/engine/model/blocks.h"
#include "core/engine/model/slot_memory.h"

namespace slotscope::engine {
namespace {

struct RavenWeights {
  at::Tensor q, k, v, o;
  at::Tensor a, a_log, dt_bias;  // decay Mamba2
  at::Tensor f;                  // decay GLA
  at::Tensor r, r0, r0_bias;     // router: lin has r only; mlp r(gelu(r0 x + r0_bias))
  at::Tensor r_bias;             // selection bias
  at::Tensor feature;            // t2r
  at::Tensor q_norm, k_norm, g_norm, o_norm, o_gate;
};

RavenWeights load_weights(const formats::RavenConfig& c, int layer, const Weights& w) {
  const std::string p = c.mixer_prefix(layer);
  const bool mamba2 = c.decay_type == formats::DecayType::mamba2,
             mlp = c.router_type == formats::RouterType::mlp;
  RavenWeights r;
  r.q = w.get(p + "q_proj.weight");
  r.k = w.get(p + "k_proj.weight");
  r.v = w.get(p + "v_proj.weight");
  r.o = w.get(p + "o_proj.weight");
  if (mamba2) {
    r.a = w.router(p + "a_proj.weight");
    r.a_log = w.exact(p + "A_log");
    r.dt_bias = w.exact(p + "dt_bias");
  } else {
    r.f = w.router(p + "f_proj.weight");
  }
  r.r = w.router(p + (mlp ? "r_proj.2.weight" : "r_proj.weight"));
  if (mlp) {
    r.r0 = w.router(p + "r_proj.0.weight");
    r.r0_bias = w.router(p + "r_proj.0.bias");
  }
  r.r_bias = w.exact_if(c.bias_rmm, p + "r_bias");
  r.feature = w.if_present(c.feature_map == formats::FeatureMap::t2r, p + "feature_map.layer.weight");
  r.q_norm = w.exact_if(c.elementwise_affine, p + "q_norm.weight");
  r.k_norm = w.exact_if(c.elementwise_affine, p + "k_norm.weight");
  r.g_norm = w.exact_if(!c.output_gate && c.elementwise_affine, p + "g_norm.weight");
  r.o_norm = w.exact_if(c.output_gate && c.o_norm_affine, p + "o_norm.weight");
  r.o_gate = w.if_present(c.output_gate, p + "o_gate_proj.weight");
  return r;
}

class Raven final : public LayerMixer {
 public:
  Raven(const formats::RavenConfig& config, int layer, const Weights& weights)
      : LayerMixer(raven_shape(config), layer, weights.numerics()),
        c_(config),
        w_(load_weights(config, layer, weights)) {}

  MixerState initial_state(int64_t batch) const override {
    const auto options = n_.options(n_.exact);
    return {{at::zeros({batch, c_.kv_heads, c_.slots, c_.d_k}, options),
             at::zeros({batch, c_.kv_heads, c_.slots, c_.d_v}, options)},
            0};
  }

  at::Tensor forward(const at::Tensor& x, MixerState& state, Observer& observer) const override {
    const int64_t batch = x.size(0), tokens = x.size(1);
    SlotMemoryInput memory;
    memory.query = qk(x, w_.q, w_.q_norm, c_.heads);
    memory.key = qk(x, w_.k, w_.k_norm, c_.kv_heads);
    tell(observer, Field::query, memory.query);
    tell(observer, Field::key, memory.key);
    if (c_.use_rope) {
      memory.query = rotate(memory.query, state.position, Rope{c_.rope_theta}, n_.exact);
      memory.key = rotate(memory.key, state.position, Rope{c_.rope_theta}, n_.exact);
      tell(observer, Field::query_rot, memory.query);
      tell(observer, Field::key_rot, memory.key);
    }
    memory.value = at::silu(linear_map(x, w_.v)).view({batch, tokens, c_.kv_heads, c_.d_v});
    tell(observer, Field::value, memory.value);

    const Route route = choose(x, observer);
    const at::Tensor decay = log_decay(x, route.index, observer);
    // s is one minus exp, literally: expm1 would differ from the reference for weak writes (spec:
    // model-zoo 2.3 step 9).
    const at::Tensor gate = decay * route.weight.to(n_.exact);
    memory.index = route.index;
    memory.log_keep = gate;
    memory.keep = at::exp(gate);
    memory.write = 1 - memory.keep;
    tell(observer, Field::write_strength, memory.write);
    memory.state_k = state.tensors[0];
    memory.state_v = state.tensors[1];
    if (observer.wants(Field::read_weight, layer_)) memory.read_rows = observer.read_rows();
    const SlotMemoryOutput read = routed_slot_memory(memory);
    if (read.read_weight.defined()) observer.tell(Field::read_weight, layer_, read.read_weight);
    tell(observer, Field::read_out, read.output);
    state = {{read.state_k, read.state_v}, state.position + tokens};
    return output(x, at::silu(read.output));
  }

  at::Tensor state_field(const MixerState& state, Field field) const override {
    if (field == Field::state_k) return state.tensors[0];
    if (field == Field::state_v) return state.tensors[1];
    return {};
  }

  int64_t state_bytes(int64_t) const override {
    return c_.kv_heads * c_.slots * (c_.d_k + c_.d_v) * int64_t(at::elementSize(n_.exact));
  }

  int64_t work_bytes(int64_t tokens, int64_t) const override {
    const int64_t element = int64_t(at::elementSize(n_.exact));
    const int64_t wide = 5 * c_.heads * (c_.d_k + c_.d_v);              // q, k, v, o and their normed copies
    const int64_t router = c_.kv_heads * (4 * c_.slots + 8 * c_.topk);  // logits, scores, their copies, route
    return tokens * (wide + router) * element + 2 * state_bytes(tokens);
  }

 private:
  // Steps 1 and 2: projection, feature map, QK norm. -> [B,T,heads,d_k]
  at::Tensor qk(const at::Tensor& x, const at::Tensor& w, const at::Tensor& norm, int64_t heads) const {
    at::Tensor y = linear_map(x, w).view({x.size(0), x.size(1), heads, c_.d_k});
    switch (c_.feature_map) {
      case formats::FeatureMap::swish:
        y = at::silu(y);
        break;
      case formats::FeatureMap::relu:
        y = at::relu(y);
        break;
      case formats::FeatureMap::t2r:
        y = at::relu(linear_map(y, w_.feature));
        break;
    }
    return rms_norm(y, norm, c_.norm_eps, n_.exact);
  }

  // Steps 5 to 7: scores, selection (the bias takes part here only), route weights.
  Route choose(const at::Tensor& x, Observer& observer) const {
    at::Tensor logits = w_.r0.defined()
                            ? linear_map(at::gelu(linear_in(n_.router, x, w_.r0, w_.r0_bias)), w_.r)
                            : linear_in(n_.router, x, w_.r);
    logits = logits.view({x.size(0), x.size(1), c_.kv_heads, c_.slots});
    const bool sigmoid = c_.router_score == formats::RouterScore::sigmoid;
    const at::Tensor score = sigmoid ? at::sigmoid(logits) : at::softmax(logits, -1);
    const Selection selected =
        select_slots(w_.r_bias.defined() ? score + w_.r_bias.to(n_.router) : score, c_.topk);
    at::Tensor weight = at::gather(score, -1, selected.index.to(at::kLong));
    if (sigmoid) weight = weight / (weight.sum(-1, true) + 1e-9);
    const Route route = observer.edit_route(layer_, {selected.index, weight});
    observer.tell_route(layer_, route, selected.gap);
    return route;
  }

  // Step 8: a, [B,T,H_r,1] (Mamba2) or at the selected slots [B,T,H_r,K] (GLA), always in the exact dtype
  // (R13).
  at::Tensor log_decay(const at::Tensor& x, const at::Tensor& index, Observer& observer) const {
    if (c_.decay_type == formats::DecayType::mamba2) {
      const at::Tensor dt = at::softplus(linear_in(n_.router, x, w_.a).to(n_.exact) + w_.dt_bias);
      const at::Tensor a = -at::exp(w_.a_log) * dt;
      tell(observer, Field::log_decay, a);
      return a.unsqueeze(-1);
    }
    const at::Tensor forget =
        linear_in(n_.router, x, w_.f).to(n_.exact).view({x.size(0), x.size(1), c_.kv_heads, c_.slots});
    const at::Tensor a = at::gather(at::log_sigmoid(forget), -1, index.to(at::kLong).clamp_min(0)) / c_.tau;
    tell(observer, Field::log_decay, a);
    return a;
  }

  // Step 13; u = silu(o) [B,T,H,d_v] in the exact dtype. silu comes before the norm.
  at::Tensor output(const at::Tensor& x, const at::Tensor& u) const {
    const int64_t batch = x.size(0), tokens = x.size(1);
    at::Tensor y;
    if (c_.output_gate) {
      const at::Tensor gate = at::silu(linear_map(x, w_.o_gate)).view(u.sizes());
      y = (rms_norm_exact(u, w_.o_norm, c_.eps_o, n_.exact) * gate).flatten(2);
    } else {
      y = rms_norm_exact(u.reshape({batch, tokens, c_.heads * c_.d_v}), w_.g_norm, c_.eps_g, n_.exact);
    }
    return linear_map(y.to(n_.compute), w_.o);
  }

  formats::RavenConfig c_;
  RavenWeights w_;
};

}  // namespace

LayerShape raven_shape(const formats::RavenConfig& c) {
  LayerShape shape;
  shape.family = "raven";
  shape.route_kind = "sparse";
  shape.hidden = c.hidden_size;
  shape.heads = c.heads;
  shape.route_heads = c.kv_heads;
  shape.slots = c.slots;
  shape.top_k = c.topk;
  shape.d_k = c.d_k;
  shape.d_v = c.d_v;
  shape.decay = c.decay_type == formats::DecayType::gla ? Columns::selected : Columns::head;
  shape.state_elements = c.kv_heads * c.slots * (c.d_k + c.d_v);
  shape.fields = {Field::route_index, Field::route_weight, Field::log_decay, Field::write_strength,
                   Field::read_weight, Field::state_k,      Field::state_v,   Field::query,
                   Field::key,         Field::value,        Field::esl,       Field::selected,
                   Field::ties,        Field::margin,       Field::read_out};
  if (c.use_rope) shape.note = "RoPE theta " + formats::number_text(c.rope_theta);
  if (c.use_rope) shape.fields.insert(shape.fields.end(), {Field::query_rot, Field::key_rot});
  shape.attributes = {
      {"scale", 1.0},
      {"norm_eps", c.norm_eps},
      {c.output_gate ? "o_norm_eps" : "g_norm_eps", c.output_gate ? c.eps_o : c.eps_g}};
  if (shape.decay == Columns::selected) shape.attributes.push_back({"tau", c.tau});
  return shape;
}

std::unique_ptr<Mixer> make_raven(const formats::RavenConfig& config, int layer, const Weights& weights) {
  return std::make_unique<Raven>(config, layer, weights);
}

}  // namespace slotscope::engine
