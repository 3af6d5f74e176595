// Query, key and value: three projections, each through its short convolution where the family has them (spec: model-zoo
// 1.3).
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "core/engine/model/blocks.h"
#include "core/engine/model/mixer.h"
#include "core/engine/model/weights.h"
#include "core/formats/skeleton.h"

namespace slotscope::engine {

struct QkvConfig {
  int64_t hidden = 0, query_width = 0, key_width = 0, value_width = 0;
  bool conv = false;
  int64_t taps = 4;        // conv_size
  bool conv_bias = false;  // a bias is stored (no config asks for one)
  // Query and key are brought to norm 1 behind. That norm can be a thousandth of the terms that made it, and what they were
  // rounded by is divided by it too: float32 runs compute these two projections in float64.
  bool unit_norm = false;

  // use_short_conv, conv_size, and whether the convolutions of the first mixer have biases.
  void read_conv(formats::ModelReader& reader, bool default_conv);
  // q_proj, k_proj, v_proj and, with convolutions, q_conv1d, k_conv1d, v_conv1d.
  void tensors(formats::TensorList& list) const;
  void conv_tensors(formats::TensorList& list) const;
  // Elements of the inputs carried from segment to segment.
  int64_t tail_elements() const { return conv ? (taps - 1) * (query_width + key_width + value_width) : 0; }
};

struct Qkv {
  at::Tensor query, key, value;  // [B,T,width], compute dtype
};

struct QkvNames {
  std::string key = "k_proj", value = "v_proj";
  bool silu_qk = true;  // the activation behind the convolutions of query and key (value: always)
};

class QkvProjection {
 public:
  QkvProjection(const QkvConfig& config, const std::string& prefix, const Weights& weights, const QkvNames& names = {});
  // The same query and convolutions with other projections.
  QkvProjection with(const at::Tensor& key, const at::Tensor& value) const;
  // The last inputs of the three convolutions, zero; empty without convolutions.
  std::vector<at::Tensor> initial_tails(int64_t batch, const Numerics& numerics) const;
  // Projections through their convolutions; without them the bare projections.
  Qkv operator()(const at::Tensor& x, std::vector<at::Tensor>& tails) const;
  // The same, behind a silu that is there without convolutions too.
  Qkv activated(const at::Tensor& x, std::vector<at::Tensor>& tails) const;
  bool conv() const { return config_.conv; }

 private:
  // The weight of a query or key projection in the type that it is multiplied in.
  at::Tensor sensitive(const at::Tensor& weight) const;

  QkvConfig config_;
  at::Tensor q_, k_, v_;
  ShortConv q_conv_, k_conv_, v_conv_;
};

// A mixer's state as {memory..., tails...}: the tails behind the first `memories` tensors.
std::vector<at::Tensor> tails_of(const MixerState& state, size_t memories);
MixerState joined(std::vector<at::Tensor> memories, const std::vector<at::Tensor>& tails, int64_t position);

// The output norm of gla and retnet: its name says whether it is fused with a swish gate (spec: model-zoo 6.2).
std::string gated_norm_name(formats::ModelReader& reader, bool output_gate);
// The skeleton of mamba and mamba2: backbone.layers.<i>.mixer, no MLP; either name of the embedding.
formats::SkeletonNames mamba_names(const formats::Checkpoint& checkpoint);

// x [B,T,heads,d] with each head repeated for its group of consecutive query heads (spec: model-zoo 1.5).
at::Tensor repeat_heads(const at::Tensor& x, int64_t heads);

}  // namespace slotscope::engine
