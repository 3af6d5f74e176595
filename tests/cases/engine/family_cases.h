// The golden cases of the families beside Raven, with what their first layer must say of itself.
#pragma once

#include <set>

#include "tests/cases/engine/helpers.h"

namespace slotscope::testing {

struct FamilyCase {
  std::string name, model_type, mixer, route_kind;
  int64_t slots = 0;           // of layer 0; 0: as many as tokens
  int64_t state_elements = 0;  // of layer 0; append: per token
};

inline const std::vector<FamilyCase>& family_cases() {
  static const std::vector<FamilyCase> list = {
      {"gsa_default", "gsa", "gsa", "dense", 8, 4 * 8 * 16},
      {"gsa_eps", "gsa", "gsa", "dense", 8, 4 * 8 * 16},
      {"gsa_conv_T80", "gsa", "gsa", "dense", 8, 4 * 8 * 16},
      {"gsa_t2r_nullslots", "gsa", "gsa", "dense", 8, 4 * 8 * 16},
      {"gsa_hybrid", "gsa", "gsa", "dense", 8, 4 * 8 * 16},
      {"abc_default", "abc", "abc", "dense", 8, 4 * 8 * 12},
      {"abc_conv_norope_clamp", "abc", "abc", "dense", 8, 4 * 8 * 12},
      {"gla_default", "gla", "gla", "dense", 8, 4 * 4 * 8},
      {"gla_nogate", "gla", "gla", "dense", 8, 4 * 4 * 8},
      {"gla_unfused_norm", "gla", "gla", "dense", 8, 4 * 4 * 8},
      {"retnet_default", "retnet", "retnet", "dense", 16, 4 * 8 * 16},
      {"linear_elementwise_product", "linear_attn", "linear_attn", "dense", 8, 4 * 8 * 8},
      {"linear_elu", "linear_attn", "linear_attn", "dense", 8, 4 * 8 * 8},
      {"linear_dpfp", "linear_attn", "linear_attn", "dense", 8, 4 * 64 * 8},
      {"linear_gqa_elu_normalised", "linear_attn", "linear_attn", "dense", 8, 2 * 8 * 8},
      {"delta_default", "delta_net", "delta_net", "dense", 8, 4 * 8 * 8},
      {"delta_gate_neg_relu", "delta_net", "delta_net", "dense", 8, 4 * 8 * 8},
      {"gdn_default", "gated_deltanet", "gated_deltanet", "dense", 16, 2 * 8 * 16},
      {"gdn_noconv", "gated_deltanet", "gated_deltanet", "dense", 16, 2 * 8 * 16},
      {"kda_default", "kda", "kda", "dense", 8, 2 * 8 * 8},
      {"mom_default", "mom", "mom", "sparse", 5, 5 * 2 * 8 * 8},
      {"mom_noshared", "mom", "mom", "sparse", 4, 4 * 2 * 8 * 8},
      {"mamba2_default", "mamba2", "mamba2", "dense", 16, 4 * 16 * 8},
      {"mamba2_norm_before_gate", "mamba2", "mamba2", "dense", 16, 4 * 16 * 8},
      {"mamba_default", "mamba", "mamba", "dense", 64, 64 * 8},
      {"mamba_bias", "mamba", "mamba", "dense", 96, 96 * 4},
      {"fox_default", "forgetting_transformer", "forgetting_attention", "append", 0, 2 * 32},
      {"transformer_default", "transformer", "attention", "append", 0, 2 * 32},
      {"transformer_swa_T80", "transformer", "attention", "ring", 16, 2 * 32 * 16},
  };
  return list;
}

// -infinity is a value (abc keeps nothing of an empty memory) that differences cannot compare: as a large number.
inline std::vector<double> finite(std::vector<double> values) {
  for (double& v : values)
    if (v == -INFINITY) v = -1e30;
  return values;
}

}  // namespace slotscope::testing
