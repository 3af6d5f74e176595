#include "core/engine/model/causal_lm.h"

namespace slotscope::engine {

std::vector<MixerState> CausalLM::initial_state(int64_t batch) const {
  std::vector<MixerState> states;
  for (const Block& block : blocks) states.push_back(block.mixer->initial_state(batch));
  return states;
}

at::Tensor CausalLM::forward(const at::Tensor& ids, std::vector<MixerState>& states, Observer& observer,
                             int last_block, const std::function<bool(int)>& go_on) const {
  at::Tensor x = at::embedding(embedding, ids);
  for (int i = 0; i <= last_block; ++i) {
    if (!go_on(i)) return {};
    const Block& block = blocks[size_t(i)];
    const at::Tensor h = block.mixer_norm(x, numerics.exact);
    if (observer.wants(Field::mixer_in, i)) observer.tell(Field::mixer_in, i, h);
    const at::Tensor y = block.mixer->forward(h, states[size_t(i)], observer);
    if (observer.wants(Field::mixer_out, i)) observer.tell(Field::mixer_out, i, y);
    const at::Tensor before = x;
    x = x + y;
    if (block.mlp.defined()) x = x + block.mlp(block.mlp_norm(block.parallel ? before : x, numerics.exact));
    if (observer.wants(Field::hidden, i)) observer.tell(Field::hidden, i, x);
  }
  return x;
}

at::Tensor CausalLM::logits(const at::Tensor& x) const {
  return linear_map(final_norm(x, numerics.exact), head).to(numerics.exact);
}

}  // namespace slotscope::engine
