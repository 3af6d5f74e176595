// A sequence mixer: the part of a block that looks at other tokens. One file per mixer.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "core/engine/capture/observer.h"
#include "core/engine/model/numerics.h"
#include "core/trace/sink.h"

namespace slotscope::engine {

// What is carried from segment to segment; every tensor has leading B. forward() replaces the tensors and
// never writes into the old ones.
struct MixerState {
  std::vector<at::Tensor> tensors;
  int64_t position = 0;  // tokens seen
};

// What the columns of log_decay and write_strength behind [T,H_r] stand for: one number per head, one per selected slot
// (K), per slot (M) or per key channel (d_k); query_head: [T,H] instead.
enum class Columns { head, selected, slot, key, query_head };

// Sizes and names that describe a layer in a trace and give the shape of every field (spec: model-zoo 17).
struct LayerShape {
  std::string family;      // "raven", "attention"
  std::string route_kind;  // sparse, dense, ring, append
  int64_t hidden = 0, heads = 0, route_heads = 0, slots = 0, top_k = 0, d_k = 0,
          d_v = 0;  // append: slots 0, grows with T; dense: top_k = slots
  // Slots are stored in 32 bits however few there are, and route weights never as float16: they may be of any smallness.
  bool wide_routes = false;
  Columns decay = Columns::head, strength = Columns::selected;
  int64_t state_elements = 0;  // of the memory of one prompt, convolution tails apart; append: per token
  std::vector<Field> fields;     // what the mixer can tell, mixer_in, mixer_out and hidden apart
  std::string note;              // "window 4, RoPE theta 10000"
  trace::Attributes attributes;  // rules and constants
};

class Mixer {
 public:
  virtual ~Mixer() = default;
  virtual const LayerShape& shape() const = 0;
  virtual MixerState initial_state(int64_t batch) const = 0;
  // x [B,T,D] -> y [B,T,D]; `state` before the segment becomes the state after it.
  virtual at::Tensor forward(const at::Tensor& x, MixerState& state, Observer& observer) const = 0;
  // state_k and state_v of a state as [B,H_r,M,d], state as [B,H_r,d_v,d_k]; undefined when the mixer has none of that form.
  virtual at::Tensor state_field(const MixerState&, Field) const { return {}; }
  // What is no state and the same for every token, as in core/fields.h without T: skip, state_rate; undefined: none.
  virtual at::Tensor constant_field(Field) const { return {}; }
  // Bytes of the state of one prompt after `tokens` tokens.
  virtual int64_t state_bytes(int64_t tokens) const = 0;
  // Bytes of intermediate tensors for a segment of `tokens` tokens with `before` tokens already in the state,
  // an upper estimate.
  virtual int64_t work_bytes(int64_t tokens, int64_t before) const = 0;
};

// What most mixers have: their shape, their layer, their dtypes.
class LayerMixer : public Mixer {
 public:
  LayerMixer(LayerShape shape, int layer, const Numerics& numerics)
      : shape_(std::move(shape)), layer_(layer), n_(numerics) {}
  const LayerShape& shape() const override { return shape_; }

 protected:
  void tell(Observer& observer, Field field, const at::Tensor& value) const {
    if (observer.wants(field, layer_)) observer.tell(field, layer_, value);
  }
  // y [...,heads * d] -> [...,heads,d]
  static at::Tensor split(const at::Tensor& y, int64_t heads) {
    return y.view({y.size(0), y.size(1), heads, y.size(2) / heads});
  }
  int64_t element() const { return int64_t(at::elementSize(n_.exact)); }

  LayerShape shape_;
  int layer_;
  Numerics n_;
};

}  // namespace slotscope::engine
