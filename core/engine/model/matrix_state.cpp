#include "core/engine/model/matrix_state.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "core/engine/cuda_stream.h"
#include "kernels/matrix_state_scan.h"

namespace slotscope::engine {
namespace {

constexpr int64_t kWorkPerThread = 100'000;  // multiplications

template <class Real>
void run(const MatrixStateInput& in, MatrixStateOutput& out) {
  const at::ScalarType type = out.state.scalar_type();
  const auto plain = [&](const at::Tensor& t) { return t.defined() ? t.to(type).contiguous() : t; };
  const auto data = [](const at::Tensor& t) -> const Real* {
    return t.defined() ? t.const_data_ptr<Real>() : nullptr;
  };
  const at::Tensor query = plain(in.query), key = plain(in.key), value = plain(in.value);
  // Exponentials of log decays only: never above 1.
  const at::Tensor keep = in.log_decay.defined() ? plain(at::exp(in.log_decay)) : at::Tensor();
  const at::Tensor strength = plain(in.strength);
  kernels::MatrixStateScanInput<Real> input;
  input.query = data(query);
  input.key = data(key);
  input.value = data(value);
  input.keep = data(keep);
  input.strength = data(strength);
  input.keep_per_channel = keep.defined() && keep.dim() == 4;
  input.delta = in.delta;
  input.batch = query.size(0);
  input.tokens = query.size(1);
  input.heads = int(value.size(2));
  input.query_heads = int(query.size(2));
  input.key_heads = int(key.size(2));
  input.d_k = int(query.size(3));
  input.d_v = int(value.size(3));
  input.scale = Real(in.scale);
  const kernels::MatrixStateScanOutput<Real> output{out.state.data_ptr<Real>(), out.output.data_ptr<Real>()};
  if (query.is_cuda()) {
    kernels::matrix_state_scan_cuda(input, output, current_cuda_stream(query.device().index()));
    return;
  }
  const int64_t work = std::max<int64_t>(1, 3 * input.tokens * input.d_k * input.d_v);
  at::parallel_for(
      0, input.batch * input.heads, std::max<int64_t>(1, kWorkPerThread / work),
      [&](int64_t first, int64_t last) { kernels::matrix_state_scan_cpu(input, output, first, last); });
}

}  // namespace

MatrixStateOutput matrix_state_scan(const MatrixStateInput& in) {
  const int64_t batch = in.query.size(0), tokens = in.query.size(1), queries = in.query.size(2),
                d_k = in.query.size(3), keys = in.key.size(2), heads = in.value.size(2), d_v = in.value.size(3);
  TORCH_CHECK(heads % keys == 0 && (heads % queries == 0 || queries % heads == 0), "head counts");
  TORCH_CHECK(in.key.sizes() == at::IntArrayRef({batch, tokens, keys, d_k}), "key shape");
  TORCH_CHECK(in.value.sizes() == at::IntArrayRef({batch, tokens, heads, d_v}), "value shape");
  TORCH_CHECK(in.state.sizes() == at::IntArrayRef({batch, heads, d_v, d_k}), "state shape");
  TORCH_CHECK(!in.strength.defined() || in.strength.sizes() == at::IntArrayRef({batch, tokens, heads}),
              "strength shape");
  TORCH_CHECK(!in.log_decay.defined() || in.log_decay.sizes() == at::IntArrayRef({batch, tokens, heads}) ||
                  in.log_decay.sizes() == at::IntArrayRef({batch, tokens, heads, d_k}),
              "decay shape");
  MatrixStateOutput out;
  out.state = in.state.contiguous().clone();
  out.output = at::empty({batch, tokens, std::max(queries, heads), d_v}, in.state.options());
  if (in.state.scalar_type() == at::kDouble)
    run<double>(in, out);
  else
    run<float>(in, out);
  return out;
}

LayerShape matrix_shape(const MatrixSizes& s) {
  LayerShape shape;
  shape.family = s.family;
  shape.route_kind = "dense";
  shape.hidden = s.hidden;
  shape.heads = s.heads;
  shape.route_heads = s.state_heads;
  shape.slots = shape.top_k = s.d_v;
  shape.d_k = s.d_k;
  shape.d_v = s.d_v;
  shape.strength = Columns::head;
  shape.state_elements = s.state_heads * s.d_k * s.d_v;
  shape.fields = {Field::query, Field::key, Field::value, Field::state, Field::read_out};
  shape.note = "every token writes every value channel";
  shape.attributes = {{"rule", std::string("every slot, weight 1")},
                      {"slot", std::string("value channel")},
                      {"readout", std::string("inner product with the query")},
                      {"scale", s.scale}};
  return shape;
}

at::Tensor MatrixMixer::state_field(const MixerState& state, Field field) const {
  return field == Field::state ? state.tensors[0] : at::Tensor();
}

int64_t MatrixMixer::state_bytes(int64_t) const { return (shape_.state_elements + tails_) * element(); }

int64_t MatrixMixer::work_bytes(int64_t tokens, int64_t) const {
  const int64_t heads = std::max(shape_.heads, shape_.route_heads);
  return tokens * heads * (12 * shape_.d_k + 8 * shape_.d_v) * element() + 2 * state_bytes(tokens);
}

at::Tensor MatrixMixer::empty_matrix(int64_t batch) const {
  return at::zeros({batch, shape_.route_heads, shape_.d_v, shape_.d_k}, n_.options(n_.exact));
}

at::Tensor MatrixMixer::gated_output(const at::Tensor& x, const at::Tensor& o, const at::Tensor& norm, double eps,
                                     const at::Tensor& gate, const at::Tensor& out) const {
  return head_output(o, norm, eps, gate.defined() ? at::silu(linear_map(x, gate)) : gate, out, n_.exact);
}

at::Tensor MatrixMixer::scan(MatrixStateInput in, at::Tensor& matrix, Observer& observer) const {
  const auto has = [&](Field field) {
    return std::find(shape_.fields.begin(), shape_.fields.end(), field) != shape_.fields.end();
  };
  // Heads that share a query or a key are told one by one: the fields stand on H and H_r heads.
  const bool moved = has(Field::query_rot);  // then the family has told them before RoPE
  if (observer.wants(moved ? Field::query_rot : Field::query, layer_))
    observer.tell(moved ? Field::query_rot : Field::query, layer_, repeat_heads(in.query, shape_.heads));
  if (observer.wants(moved ? Field::key_rot : Field::key, layer_))
    observer.tell(moved ? Field::key_rot : Field::key, layer_, repeat_heads(in.key, shape_.route_heads));
  tell(observer, Field::value, in.value);
  if (has(Field::log_decay)) tell(observer, Field::log_decay, in.log_decay);
  if (has(Field::write_strength)) tell(observer, Field::write_strength, in.strength);
  in.state = matrix;
  const MatrixStateOutput out = matrix_state_scan(in);
  matrix = out.state;
  return out.output;
}

}  // namespace slotscope::engine
