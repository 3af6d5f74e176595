// The families, one line each. FAMILY(type) stands for config.json's model_type "type", which read_type() in type.cpp reads.
#pragma once

#include "core/engine/model/family.h"

// clang-format off
#define SLOTSCOPE_FAMILIES(FAMILY) \
  FAMILY(raven)                  \
  FAMILY(gsa)                    \
  FAMILY(abc)                    \
  FAMILY(gla)                    \
  FAMILY(retnet)                 \
  FAMILY(linear_attn)            \
  FAMILY(delta_net)              \
  FAMILY(gated_deltanet)         \
  FAMILY(kda)                    \
  FAMILY(mom)                    \
  FAMILY(ramnet)                 \
  FAMILY(mamba2)                 \
  FAMILY(mamba)                  \
  FAMILY(transformer)            \
  FAMILY(forgetting_transformer) \
  FAMILY(llama)                  \
  FAMILY(qwen2)                  \
  FAMILY(mistral)                \
  FAMILY(gpt_neox)
// clang-format on

namespace slotscope::engine {

#define SLOTSCOPE_DECLARE(type) \
  std::unique_ptr<FamilyModel> read_##type(const formats::Checkpoint&, const std::string& flavour);
SLOTSCOPE_FAMILIES(SLOTSCOPE_DECLARE)
#undef SLOTSCOPE_DECLARE

}  // namespace slotscope::engine
