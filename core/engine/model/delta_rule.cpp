#include "core/engine/model/delta_rule.h"

namespace slotscope::engine {
namespace {

at::Tensor heads_of(const at::Tensor& y, int64_t heads) {
  return y.view({y.size(0), y.size(1), heads, y.size(2) / heads});
}

}  // namespace

MatrixStateInput delta_input(const Qkv& qkv, int64_t key_heads, const MatrixSizes& sizes, at::ScalarType exact) {
  MatrixStateInput in;
  in.query = l2_norm_exact(heads_of(qkv.query, key_heads), exact);
  in.key = l2_norm_exact(heads_of(qkv.key, key_heads), exact);
  in.value = heads_of(qkv.value, sizes.state_heads);
  in.delta = true;
  in.scale = sizes.scale;
  return in;
}

at::Tensor delta_strength(const at::Tensor& x, const at::Tensor& weight, bool negative, at::ScalarType exact) {
  return at::sigmoid(linear_in(exact, x, weight)) * (negative ? 2 : 1);
}

at::Tensor head_log_decay(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& a_log,
                          const at::Tensor& dt_bias, at::ScalarType exact) {
  return -at::exp(a_log) * at::softplus(linear_in(exact, x, weight) + dt_bias);
}

}  // namespace slotscope::engine
