#include "core/engine/model/dense_slots.h"

#include "core/engine/model/slot_memory.h"

namespace slotscope::engine {

LayerShape dense_slots_shape(const DenseSlots& s) {
  LayerShape shape;
  shape.family = s.family;
  shape.route_kind = "dense";
  shape.hidden = s.hidden;
  shape.heads = s.heads;
  shape.route_heads = s.kv_heads;
  shape.slots = shape.top_k = s.slots;
  shape.d_k = s.d_k;
  shape.d_v = s.d_v;
  shape.decay = shape.strength = Columns::slot;
  shape.state_elements = s.kv_heads * s.slots * (s.d_k + s.d_v);
  shape.fields = {Field::log_decay, Field::write_strength, Field::read_weight, Field::state_k,
                  Field::state_v,   Field::query,          Field::key,         Field::value,
                  Field::read_out};
  shape.note = "every token writes every slot";
  shape.attributes = {{"rule", std::string("every slot, weight 1")},
                      {"slot", std::string("row of the key and value memory")},
                      {"scale", s.scale}};
  return shape;
}

at::Tensor DenseSlotMixer::state_field(const MixerState& state, Field field) const {
  if (field == Field::state_k) return state.tensors[0];
  if (field == Field::state_v) return state.tensors[1];
  return {};
}

int64_t DenseSlotMixer::state_bytes(int64_t) const {
  return (shape_.state_elements + s_.kv_heads * s_.slots + tails_) * element();
}

int64_t DenseSlotMixer::work_bytes(int64_t tokens, int64_t) const {
  const int64_t wide = 8 * s_.heads * (s_.d_k + s_.d_v), gates = 6 * s_.kv_heads * s_.slots;
  return tokens * (wide + gates) * element() + 2 * state_bytes(tokens);
}

std::vector<at::Tensor> DenseSlotMixer::empty_memory(int64_t batch) const {
  const auto options = n_.options(n_.exact);
  return {at::zeros({batch, s_.kv_heads, s_.slots, s_.d_k}, options),
          at::zeros({batch, s_.kv_heads, s_.slots, s_.d_v}, options)};
}

at::Tensor DenseSlotMixer::write_and_read(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                          const at::Tensor& log_keep, const at::Tensor& strength,
                                          bool complement, std::vector<at::Tensor>& memory, Observer& observer) const {
  tell(observer, Field::log_decay, log_keep);
  tell(observer, Field::write_strength, strength);
  SlotMemoryInput in;
  in.query = query;
  in.key = key;
  in.value = value;
  in.keep = at::exp(log_keep);
  if (complement) in.log_keep = log_keep;
  in.write = strength;
  in.state_k = memory[0];
  in.state_v = memory[1];
  in.scale = s_.scale;
  if (observer.wants(Field::read_weight, layer_)) in.read_rows = observer.read_rows();
  const SlotMemoryOutput out = routed_slot_memory(in);
  if (out.read_weight.defined()) observer.tell(Field::read_weight, layer_, out.read_weight);
  tell(observer, Field::read_out, out.output);
  memory[0] = out.state_k;
  memory[1] = out.state_v;
  return out.output;
}

}  // namespace slotscope::engine
