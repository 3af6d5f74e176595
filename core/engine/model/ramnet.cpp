// RAM-Net (spec: ramnet): a token writes to and reads from the K most probable of d_p^U slots, whose probability is a product
// of U small softmaxes. A slot keeps a mean of the values written to it.
#include "core/engine/model/ramnet_config.h"

#include "core/engine/model/blocks.h"
#include "core/engine/model/families.h"

namespace slotscope::engine {
namespace {

struct RamNetWeights {
  at::Tensor read, read_bias, read_scale, write, write_bias, write_scale;
  at::Tensor gamma, gamma_bias;
  at::Tensor value, value_bias, gate, gate_bias, norm, out, out_bias;
};

RamNetWeights load_weights(const RamNetConfig& c, const std::string& p, const Weights& w) {
  RamNetWeights r;
  r.read = w.router(p + c.read_name + ".weight");
  r.read_bias = w.exact_if(c.read_bias, p + c.read_name + ".bias");
  r.read_scale = w.exact_if(c.read_scale, p + "r_log_scale");
  r.write = w.router(p + c.write_name + ".weight");
  r.write_bias = w.exact_if(c.write_bias, p + c.write_name + ".bias");
  r.write_scale = w.exact_if(c.write_scale, p + "w_log_scale");
  if (c.uses_gamma()) {
    r.gamma = w.router(p + "gamma_proj.weight");
    r.gamma_bias = w.exact_if(c.gamma_bias, p + "gamma_proj.bias");
  }
  r.value = w.get(p + "v_proj.weight");
  r.value_bias = w.if_present(c.value_bias, p + "v_proj.bias");
  r.gate = w.if_present(c.gate, p + "g_proj.weight");
  r.gate_bias = w.exact_if(c.gate_bias, p + "g_proj.bias");
  r.norm = w.exact_if(c.norm, p + "o_norm.weight");
  r.out = w.get(p + "o_proj.weight");
  r.out_bias = w.if_present(c.out_bias, p + "o_proj.bias");
  return r;
}

class RamNetMixer final : public LayerMixer {
 public:
  RamNetMixer(const RamNetConfig& config, int layer, const std::string& prefix, const Weights& weights)
      : LayerMixer(config.shape(layer), layer, weights.numerics()), c_(config), w_(load_weights(config, prefix, weights)) {
    const auto& heads = c_.cape_heads[size_t(layer)];
    if (heads.empty()) return;
    at::Tensor cape = at::zeros({c_.heads}, at::TensorOptions().dtype(at::kByte));
    for (const int64_t head : heads) cape[head] = 1;
    cape_ = cape.to(n_.device);
  }

  // {mass [B,H,M], slot values [B,H,M,d_v], ever written uint8 [B,H,M]}
  MixerState initial_state(int64_t batch) const override {
    const auto options = n_.options(n_.exact);
    return {{at::full({batch, c_.heads, c_.code.slots}, c_.rule.initial_mass(c_.code.slots), options),
             at::zeros({batch, c_.heads, c_.code.slots, c_.d_v}, options),
             at::zeros({batch, c_.heads, c_.code.slots}, options.dtype(at::kByte))},
            0};
  }

  at::Tensor forward(const at::Tensor& x, MixerState& state, Observer& observer) const override {
    AddressMemoryInput in;
    in.rule = c_.rule;
    const at::Tensor read_logits = logits(x, w_.read, w_.read_bias, w_.read_scale),
                     write_logits = logits(x, w_.write, w_.write_bias, w_.write_scale);
    tell(observer, Field::query, read_logits);
    tell(observer, Field::key, write_logits);
    const Addresses reads = decode_addresses(read_logits, c_.code, cape_, state.position);
    const Addresses writes = decode_addresses(write_logits, c_.code, cape_, state.position);
    tell(observer, Field::lost_mass_read, reads.lost);
    tell(observer, Field::lost_mass_write, writes.lost);
    const Route route = observer.edit_route(layer_, {writes.index, writes.weight});
    observer.tell_route(layer_, route, writes.gap);
    in.value = split(linear_map(x, w_.value, w_.value_bias), c_.heads);
    tell(observer, Field::value, in.value);
    if (w_.gamma.defined()) {
      in.gamma = linear_in(n_.router, x, w_.gamma).to(n_.exact);
      if (w_.gamma_bias.defined()) in.gamma = in.gamma + w_.gamma_bias;
      tell(observer, Field::gamma, in.gamma);
    }
    in.write_index = route.index;
    in.write_weight = route.weight;
    in.read_index = reads.index;
    in.read_weight = reads.weight;
    in.mass = state.tensors[0];
    in.slot = state.tensors[1];
    in.written = state.tensors[2];
    in.want_writes = observer.wants(Field::write_strength, layer_) || observer.wants(Field::log_decay, layer_);
    if (observer.wants(Field::read_weight, layer_)) in.read_rows = observer.read_rows();
    const AddressMemoryOutput memory = address_memory(in);
    tell_memory(reads, memory, observer);
    state = {{memory.mass, memory.slot, memory.written}, state.position + x.size(1)};
    return output(x, memory.output);
  }

  at::Tensor state_field(const MixerState& state, Field field) const override {
    if (field == Field::mass) return state.tensors[0];
    if (field != Field::slot_value) return {};
    return c_.rule.pdma ? state.tensors[1] / (state.tensors[0] + c_.rule.eps).unsqueeze(-1) : state.tensors[1];
  }

  int64_t state_bytes(int64_t) const override { return c_.heads * c_.code.slots * ((c_.d_v + 1) * element() + 1); }

  int64_t work_bytes(int64_t tokens, int64_t) const override {
    const int64_t wide = c_.heads * (6 * c_.d_v + 6 * c_.logits()), addresses = c_.heads * 24 * c_.code.top_k;
    return tokens * (wide + addresses) * element() + 2 * state_bytes(tokens);
  }

 private:
  // e^alpha (W x + b), the factors' logits [B,T,H,U d_p] in the exact dtype.
  at::Tensor logits(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& scale) const {
    at::Tensor y = linear_in(n_.router, x, weight).to(n_.exact);
    if (bias.defined()) y = y + bias;
    y = split(y, c_.heads);
    return scale.defined() ? y * at::exp(scale).unsqueeze(-1) : y;
  }

  void tell_memory(const Addresses& reads, const AddressMemoryOutput& memory, Observer& observer) const {
    if (memory.strength.defined()) {
      tell(observer, Field::write_strength, memory.strength);
      tell(observer, Field::log_decay, memory.log_decay);
    }
    tell(observer, Field::read_index, reads.index);
    tell(observer, Field::read_route_weight, reads.weight);
    tell(observer, Field::read_mass_written, memory.read_mass);
    if (memory.read_weight.defined()) observer.tell(Field::read_weight, layer_, memory.read_weight);
    tell(observer, Field::read_out, memory.output);
  }

  // o [B,T,H,d_v] through the norm of each head and the sigmoid gate where the model has them.
  at::Tensor output(const at::Tensor& x, const at::Tensor& o) const {
    at::Tensor y = (w_.norm.defined() ? rms_norm_exact(o, w_.norm, c_.norm_eps, n_.exact) : o).flatten(2);
    if (w_.gate.defined()) {
      at::Tensor gate = linear_map(x, w_.gate).to(n_.exact);
      if (w_.gate_bias.defined()) gate = gate + w_.gate_bias;
      y = y * at::sigmoid(gate);
    }
    return linear_map(y.to(n_.compute), w_.out, w_.out_bias);
  }

  RamNetConfig c_;
  RamNetWeights w_;
  at::Tensor cape_;  // uint8 [H], undefined: no head of this layer
};

class RamNet final : public FamilyModel {
 public:
  explicit RamNet(RamNetConfig c) : c_(std::move(c)) {}
  formats::ModelConfig& config() override { return c_; }
  void mixer_tensors(formats::TensorList& list, int64_t) const override { c_.tensors(list); }
  LayerShape mixer_shape(int layer) const override { return c_.shape(layer); }
  MemoryCard card() const override { return c_.card(); }
  std::unique_ptr<Mixer> mixer(int layer, const std::string& prefix, const Weights& weights) const override {
    return std::make_unique<RamNetMixer>(c_, layer, prefix, weights);
  }

 private:
  RamNetConfig c_;
};

}  // namespace

std::unique_ptr<FamilyModel> read_ramnet(const formats::Checkpoint& checkpoint, const std::string& flavour) {
  require_flavour(flavour, "", "ramnet");
  return std::make_unique<RamNet>(read_ramnet_config(checkpoint));
}

}  // namespace slotscope::engine
