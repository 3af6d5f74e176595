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

at::Tensor rope(const at::Tensor& x, int64_t first, double theta, at::ScalarType exact) {
  const int64_t width = x.size(-1), half = width / 2;
  const auto options = x.options().dtype(exact);
  const at::Tensor exponent = at::arange(0, 2 * half, 2, options) / double(width);
  const at::Tensor inverse = at::reciprocal(at::pow(theta, exponent));
  const at::Tensor position = at::arange(first, first + x.size(1), options);
  const at::Tensor angle = (position.unsqueeze(1) * inverse).unsqueeze(1);  // [T,1,d/2]
  const at::Tensor cosine = at::cos(angle), sine = at::sin(angle);
  const at::Tensor wide = x.to(exact);
  const at::Tensor left = wide.slice(-1, 0, half), right = wide.slice(-1, half, 2 * half);
  return at::cat({left * cosine - right * sine, left * sine + right * cosine}, -1).to(x.scalar_type());
}

at::Tensor GatedMlp::operator()(const at::Tensor& x) const {
  return linear_map(at::silu(linear_map(x, gate)) * linear_map(x, up), down);
}

}  // namespace slotscope::engine
