// Names and shapes of a Raven model, and what only its values tell.
#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/formats/raven_config.h"
#include "core/formats/utf8.h"
#include "core/formats/values.h"

namespace slotscope::formats {

void add_raven_tensors(TensorList& list, const RavenConfig& c) {
  const int64_t D = c.hidden_size, M = c.slots, Hr = c.kv_heads;
  list.add("q_proj.weight", {c.key_width(), D}, "H d_k, D");
  list.add("k_proj.weight", {Hr * c.d_k, D}, "H_kv d_k, D");
  list.add("v_proj.weight", {Hr * c.d_v, D}, "H_kv d_v, D");
  if (c.feature_map == FeatureMap::t2r)
    list.add("feature_map.layer.weight", {c.d_k, c.d_k}, "d_k, d_k");
  if (c.elementwise_affine) {
    list.add("q_norm.weight", {c.d_k}, "d_k");
    list.add("k_norm.weight", {c.d_k}, "d_k");
  }
  if (c.router_type == RouterType::lin) {
    list.add("r_proj.weight", {Hr * M, D}, "H_r M, D");
  } else {
    list.add("r_proj.0.weight", {D, D}, "D, D");
    list.add("r_proj.0.bias", {D}, "D");
    list.add("r_proj.2.weight", {Hr * M, D}, "H_r M, D");
  }
  list.add_if(c.bias_rmm, "r_bias", {Hr, M}, "H_r, M");
  if (c.decay_type == DecayType::mamba2) {
    list.add("a_proj.weight", {Hr, D}, "H_r, D");
    list.add("A_log", {Hr}, "H_r");
    list.add("dt_bias", {Hr}, "H_r");
  } else {
    list.add("f_proj.weight", {Hr * M, D}, "H_kv M, D");
  }
  if (c.output_gate) {
    list.add("o_gate_proj.weight", {c.value_width(), D}, "H d_v, D");
    list.add_if(c.o_norm_affine, "o_norm.weight", {c.d_v}, "d_v");
  } else if (c.elementwise_affine) {
    list.add("g_norm.weight", {c.flavour == Flavour::fla ? c.value_width() : D}, "H d_v");
  }
  list.add("o_proj.weight", {D, c.value_width()}, "D, H d_v");
}

std::vector<ExpectedTensor> raven_tensors(const RavenConfig& c) {
  return model_tensors(c, [&](TensorList& list, int64_t) { add_raven_tensors(list, c); });
}

void check_raven_values(const Checkpoint& checkpoint, RavenConfig& config) {
  double low = INFINITY, high = -INFINITY;
  for (int64_t i = 0; config.bias_rmm && i < config.layers; ++i) {
    const TensorInfo* bias =
        config.is_attention(i) ? nullptr : checkpoint.find(config.mixer_prefix(i) + "r_bias");
    if (!bias) continue;
    const std::vector<double> values = read_values(checkpoint, *bias, 0, element_count(*bias));
    for (size_t k = 0; k < values.size(); ++k) {
      if (!std::isfinite(values[k]))
        throw Error(
            {checkpoint.files()[size_t(bias->file)].string(), "tensor '" + printable(bias->name, 120) + "'",
             number_text(values[k]) + " at [" + std::to_string(k / size_t(config.slots)) + ", " +
                 std::to_string(k % size_t(config.slots)) + "]",
             "finite numbers",
             "The goombalab code starts r_bias as uninitialised memory: this model cannot be trusted."});
      low = std::min(low, values[k]), high = std::max(high, values[k]);
    }
  }
  if (low <= high)
    config.notes.push_back("r_bias is finite, from " + number_text(low) + " to " + number_text(high));
  check_tied_head(checkpoint, config);
}

}  // namespace slotscope::formats
