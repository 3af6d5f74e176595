#include "core/engine/model/blocks.h"

namespace slotscope::engine {

at::Tensor linear_map(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return bias.defined() ? at::linear(x, weight, bias) : at::linear(x, weight);
}

at::Tensor linear_in(at::ScalarType type, const at::Tensor& x, const at::Tensor& weight,
                     const at::Tensor& bias) {
  return linear_map(x.to(type), weight.to(type), bias.defined() ? bias.to(type) : bias);
}

at::Tensor rms_norm_exact(const at::Tensor& x, const at::Tensor& weight, double eps, at::ScalarType exact) {
  const at::Tensor wide = x.to(exact);
  const at::Tensor normed = wide * at::rsqrt(at::mean(wide * wide, {-1}, true) + eps);
  return weight.defined() ? normed * weight.to(exact) : normed;
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, at::ScalarType exact) {
  return rms_norm_exact(x, weight, eps, exact).to(x.scalar_type());
}

at::Tensor l2_norm_exact(const at::Tensor& x, at::ScalarType exact) {
  const at::Tensor wide = x.to(exact);
  return wide * at::rsqrt((wide * wide).sum(-1, true) + 1e-6);
}

at::Tensor head_output(const at::Tensor& o, const at::Tensor& norm, double eps, const at::Tensor& gate,
                       const at::Tensor& out, at::ScalarType exact) {
  at::Tensor y = rms_norm_exact(o, norm, eps, exact);
  if (gate.defined()) y = y * gate.view(o.sizes());
  return linear_map(y.flatten(2).to(out.scalar_type()), out);
}

at::Tensor feature_map(const std::string& name, const at::Tensor& z) {
  if (name == "relu") return at::relu(z);
  if (name == "swish" || name == "silu") return at::silu(z);
  if (name == "sigmoid") return at::sigmoid(z);
  if (name == "sqrelu") return at::relu(z).square();
  if (name == "gelu") return at::gelu(z);
  if (name == "gelu_tanh") return at::gelu(z, "tanh");
  if (name == "logsigmoid") return at::log_sigmoid(z);
  TORCH_CHECK(name.empty(), "feature map ", name);
  return z;
}

at::Tensor Norm::operator()(const at::Tensor& x, at::ScalarType exact) const {
  if (!layer_norm) return rms_norm(x, weight, eps, exact);
  const at::Tensor wide = x.to(exact), centred = wide - at::mean(wide, {-1}, true);
  const at::Tensor normed = centred * at::rsqrt(at::mean(centred * centred, {-1}, true) + eps);
  return (normed * weight.to(exact) + bias.to(exact)).to(x.scalar_type());
}

namespace {

// inv of llama3 scaling: long waves are stretched by the factor, short ones kept, those between mixed (16.1).
at::Tensor llama3_inverse(const at::Tensor& inverse, const Rope& r) {
  const at::Tensor wave = 2 * M_PI / inverse;
  const at::Tensor share = (r.original / wave - r.low) / (r.high - r.low);
  const at::Tensor mixed = (1 - share) * inverse / r.factor + share * inverse;
  const at::Tensor stretched = at::where(wave > r.original / r.low, inverse / r.factor, mixed);
  return at::where(wave < r.original / r.high, inverse, stretched);
}

}  // namespace

at::Tensor rotate(const at::Tensor& x, int64_t first, const Rope& r, at::ScalarType exact) {
  const int64_t head = x.size(-1), width = r.width > 0 ? r.width : head, half = width / 2;
  const auto options = x.options().dtype(exact);
  const at::Tensor exponent = at::arange(0, 2 * half, 2, options) / double(width);
  at::Tensor inverse = at::reciprocal(at::pow(r.theta, exponent));
  if (r.scaling == Rope::Scaling::linear) inverse = inverse / r.factor;
  if (r.scaling == Rope::Scaling::llama3) inverse = llama3_inverse(inverse, r);
  const at::Tensor position = at::arange(first, first + x.size(1), options);
  const at::Tensor angle = (position.unsqueeze(1) * inverse).unsqueeze(1);  // [T,1,width/2]
  const at::Tensor cosine = at::cos(angle), sine = at::sin(angle);
  const at::Tensor wide = x.to(exact);
  const at::Tensor left = wide.slice(-1, 0, half), right = wide.slice(-1, half, 2 * half);
  std::vector<at::Tensor> parts = {left * cosine - right * sine, left * sine + right * cosine};
  if (2 * half < head) parts.push_back(wide.slice(-1, 2 * half));
  return at::cat(parts, -1).to(x.scalar_type());
}

at::Tensor ShortConv::operator()(const at::Tensor& x, at::Tensor& history) const {
  const int64_t taps = weight.size(2), tokens = x.size(1);
  const at::Tensor inputs = at::cat({history, x}, 1), wide = inputs.to(weight.scalar_type());
  at::Tensor y = wide.slice(1, 0, tokens) * weight.select(2, 0).squeeze(1);
  for (int64_t i = 1; i < taps; ++i)
    y = y + wide.slice(1, i, i + tokens) * weight.select(2, i).squeeze(1);
  if (bias.defined()) y = y + bias;
  history = inputs.slice(1, tokens).clone();
  return (silu ? at::silu(y) : y).to(x.scalar_type());
}

at::Tensor Mlp::operator()(const at::Tensor& x) const {
  if (!gate.defined())
    return linear_map(at::gelu(linear_map(x, up, up_bias), tanh ? "tanh" : "none"), down, down_bias);
  return linear_map(at::silu(linear_map(x, gate, gate_bias)) * linear_map(x, up, up_bias), down, down_bias);
}

}  // namespace slotscope::engine
