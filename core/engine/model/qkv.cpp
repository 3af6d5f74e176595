#include "core/engine/model/qkv.h"

namespace slotscope::engine {

void QkvConfig::read_conv(formats::ModelReader& reader, bool default_conv) {
  conv = reader.cfg.get_bool("use_short_conv", default_conv);
  taps = reader.cfg.get_int("conv_size", 4, 1, 1024);
  conv_bias = conv && reader.mixer_tensor("q_conv1d.bias") != nullptr;
}

void QkvConfig::tensors(formats::TensorList& list) const {
  list.add("q_proj.weight", {query_width, hidden}, "H d_k, D");
  list.add("k_proj.weight", {key_width, hidden}, "H_kv d_k, D");
  list.add("v_proj.weight", {value_width, hidden}, "H_kv d_v, D");
  conv_tensors(list);
}

void QkvConfig::conv_tensors(formats::TensorList& list) const {
  if (!conv) return;
  for (const auto& [stream, width] :
       {std::pair{"q", query_width}, std::pair{"k", key_width}, std::pair{"v", value_width}}) {
    list.add(std::string(stream) + "_conv1d.weight", {width, 1, taps}, "width, 1, conv_size");
    list.add_if(conv_bias, std::string(stream) + "_conv1d.bias", {width}, "width");
  }
}

QkvProjection::QkvProjection(const QkvConfig& config, const std::string& p, const Weights& w,
                             const QkvNames& names)
    : config_(config),
      q_(sensitive(w.get(p + "q_proj.weight"))),
      k_(sensitive(w.get(p + names.key + ".weight"))),
      v_(w.get(p + names.value + ".weight")) {
  const auto load = [&](const std::string& name, bool silu) {
    return ShortConv{w.exact_if(config.conv, p + name + ".weight"),
                     w.exact_if(config.conv && config.conv_bias, p + name + ".bias"), silu};
  };
  q_conv_ = load("q_conv1d", names.silu_qk);
  k_conv_ = load("k_conv1d", names.silu_qk);
  v_conv_ = load("v_conv1d", true);
}

at::Tensor QkvProjection::sensitive(const at::Tensor& weight) const {
  return config_.unit_norm && weight.scalar_type() == at::kFloat ? weight.to(at::kDouble) : weight;
}

QkvProjection QkvProjection::with(const at::Tensor& key, const at::Tensor& value) const {
  QkvProjection other = *this;
  other.k_ = sensitive(key);
  other.v_ = value;
  return other;
}

std::vector<at::Tensor> QkvProjection::initial_tails(int64_t batch, const Numerics& n) const {
  if (!config_.conv) return {};
  std::vector<at::Tensor> tails;
  for (const int64_t width : {config_.query_width, config_.key_width, config_.value_width})
    tails.push_back(at::zeros({batch, config_.taps - 1, width}, n.options(n.compute)));
  return tails;
}

Qkv QkvProjection::operator()(const at::Tensor& x, std::vector<at::Tensor>& tails) const {
  const auto project = [&](const at::Tensor& weight) {  // as wide as its weight
    return linear_map(x.to(weight.scalar_type()), weight).to(x.scalar_type());
  };
  Qkv out{project(q_), project(k_), linear_map(x, v_)};
  if (!config_.conv) return out;
  out.query = q_conv_(out.query, tails[0]);
  out.key = k_conv_(out.key, tails[1]);
  out.value = v_conv_(out.value, tails[2]);
  return out;
}

Qkv QkvProjection::activated(const at::Tensor& x, std::vector<at::Tensor>& tails) const {
  const Qkv qkv = (*this)(x, tails);
  return config_.conv ? qkv : Qkv{at::silu(qkv.query), at::silu(qkv.key), at::silu(qkv.value)};
}

std::vector<at::Tensor> tails_of(const MixerState& state, size_t memories) {
  return {state.tensors.begin() + std::ptrdiff_t(memories), state.tensors.end()};
}

MixerState joined(std::vector<at::Tensor> memories, const std::vector<at::Tensor>& tails, int64_t position) {
  memories.insert(memories.end(), tails.begin(), tails.end());
  return {std::move(memories), position};
}

std::string gated_norm_name(formats::ModelReader& r, bool output_gate) {
  const bool fused = r.cfg.get_bool("fuse_norm", true) && output_gate &&
                     r.cfg.get_choice("hidden_act", "swish", {"swish", "silu"}) == "swish";
  return fused ? "g_norm_swish_gate.weight" : "g_norm.weight";
}

formats::SkeletonNames mamba_names(const formats::Checkpoint& checkpoint) {
  formats::SkeletonNames names;
  names.root = "backbone.";
  for (const char* name : {"backbone.embedding.weight", "embedding.weight"})
    if (checkpoint.find(name)) names.embedding = "embedding.weight";
  names.mixer_norm = "norm.weight";
  names.mixer = "mixer.";
  names.final_norm = "norm_f.weight";
  return names;
}

at::Tensor repeat_heads(const at::Tensor& x, int64_t heads) {
  return x.size(2) == heads ? x : x.repeat_interleave(heads / x.size(2), 2);
}

}  // namespace slotscope::engine
