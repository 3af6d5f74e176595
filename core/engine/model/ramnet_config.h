// config.json and tensor names of RAM-Net (spec: ramnet 1.9). No weights here.
#pragma once

#include <string>
#include <vector>

#include "core/engine/model/address_memory.h"
#include "core/engine/model/mixer.h"
#include "core/engine/session.h"
#include "core/formats/skeleton.h"

namespace slotscope::engine {

struct RamNetConfig : formats::ModelConfig {
  int64_t heads = 0, d_v = 0;
  AddressCode code;
  AddressRule rule;
  std::vector<std::vector<int64_t>> cape_heads;  // [layers] heads whose slots move with the position
  // Tensors that may be left out.
  bool read_bias = false, write_bias = false, value_bias = false, out_bias = false;
  bool read_scale = false, write_scale = false;
  bool gamma = false, gamma_bias = false;  // stored; used by GSU that forgets
  bool gate = false, gate_bias = false, norm = false;
  std::string read_name = "r_proj", write_name = "w_proj";  // FLA: q_proj, k_proj

  bool uses_gamma() const { return !rule.pdma && !rule.cumulative; }
  int64_t logits() const { return int64_t(code.factors) * code.codes; }  // of a head, each of read and write
  void tensors(formats::TensorList& list) const;
  LayerShape shape(int layer) const;
  MemoryCard card() const;
};

// Throws Error naming file, key, found and expected for everything that cannot be honoured.
RamNetConfig read_ramnet_config(const formats::Checkpoint& checkpoint);

}  // namespace slotscope::engine
