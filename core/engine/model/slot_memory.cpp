#include "core/engine/model/slot_memory.h"

#include <ATen/Parallel.h>

#include "core/engine/cuda_stream.h"
#include "kernels/chunked_slot_scan.h"
#include "kernels/route_select.h"
#include "kernels/routed_slot_scan.h"

namespace slotscope::engine {
namespace {

constexpr int64_t kWorkPerThread = 100'000;  // multiplications

template <class Real>
void select_rows(const at::Tensor& score, at::Tensor& index, at::Tensor& gap) {
  const kernels::RouteSelectInput<Real> in{score.const_data_ptr<Real>(), score.size(0), int(score.size(1)),
                                           int(index.size(1))};
  const kernels::RouteSelectOutput<Real> out{index.data_ptr<int32_t>(), gap.data_ptr<Real>()};
  if (score.is_cuda()) return kernels::select_routes_cuda(in, out, current_cuda_stream(score.device().index()));
  at::parallel_for(0, in.rows, 512,
                   [&](int64_t first, int64_t last) { kernels::select_routes_cpu(in, out, first, last); });
}

template <class Real>
void scan(const SlotMemoryInput& in, const at::Tensor& read_row, SlotMemoryOutput& out) {
  const at::Tensor query = in.query.to(out.state_k.scalar_type()).contiguous();
  const at::Tensor key = in.key.to(out.state_k.scalar_type()).contiguous();
  const at::Tensor value = in.value.to(out.state_k.scalar_type()).contiguous();
  const at::Tensor index = in.index.contiguous(), keep = in.keep.contiguous(), write = in.write.contiguous();
  const int64_t heads = in.key.size(2);
  kernels::RoutedSlotScanInput<Real> input{query.const_data_ptr<Real>(),
                                           key.const_data_ptr<Real>(),
                                           value.const_data_ptr<Real>(),
                                           index.const_data_ptr<int32_t>(),
                                           keep.const_data_ptr<Real>(),
                                           write.const_data_ptr<Real>(),
                                           read_row.defined() ? read_row.const_data_ptr<int32_t>() : nullptr,
                                           query.size(0),
                                           query.size(1),
                                           int(heads),
                                           int(query.size(2) / heads),
                                           int(in.state_k.size(2)),
                                           int(index.size(3)),
                                           int(key.size(3)),
                                           int(value.size(3)),
                                           int64_t(in.read_rows.size()),
                                           Real(in.scale)};
  kernels::RoutedSlotScanOutput<Real> output{
      out.state_k.data_ptr<Real>(), out.state_v.data_ptr<Real>(), out.output.data_ptr<Real>(),
      out.read_weight.defined() ? out.read_weight.data_ptr<Real>() : nullptr};
  if (query.is_cuda()) {
    kernels::routed_slot_scan_cuda(input, output, current_cuda_stream(query.device().index()));
    return;
  }
  // Pairs are split between threads, never a sum: the result does not depend on the number of threads. A
  // single token is done before a second thread has woken up.
  const int64_t work = std::max<int64_t>(1, input.tokens * input.slots * (input.d_k + input.d_v));
  at::parallel_for(
      0, input.batch * heads, std::max<int64_t>(1, kWorkPerThread / work),
      [&](int64_t first, int64_t last) { kernels::routed_slot_scan_cpu(input, output, first, last); });
}

// The chunk form rounds its operands to bfloat16, which they are in bfloat16 runs; from some tokens on it is faster than one
// token after the other.
constexpr int64_t kLeastChunked = 16;
bool in_chunks(const SlotMemoryInput& in) {
  return in.log_keep.defined() && in.query.is_cuda() && in.query.scalar_type() == at::kBFloat16 &&
         in.value.scalar_type() == at::kBFloat16 && in.state_k.scalar_type() == at::kFloat &&
         in.query.size(1) >= kLeastChunked &&
         kernels::chunked_slot_scan_supports(int(in.state_k.size(2)), int(in.key.size(3)), int(in.value.size(3))) &&
         kernels::chunked_slot_scan_fits(int(in.state_k.size(2)), int(in.key.size(3)), int(in.value.size(3)));
}

void scan_chunks(const SlotMemoryInput& in, const at::Tensor& read_row, SlotMemoryOutput& out) {
  const at::Tensor query = in.query.contiguous(), key = in.key.to(at::kBFloat16).contiguous(), value = in.value.contiguous(),
                   gate = in.log_keep.expand(in.keep.sizes()).contiguous();
  const at::Tensor index = in.index.defined() ? in.index.contiguous() : in.index;
  const auto bits = [](const at::Tensor& x) { return reinterpret_cast<const uint16_t*>(x.const_data_ptr<at::BFloat16>()); };
  kernels::ChunkedSlotScanInput input;
  input.query = bits(query), input.key = bits(key), input.value = bits(value);
  input.index = index.defined() ? index.const_data_ptr<int32_t>() : nullptr;
  input.gate = gate.const_data_ptr<float>();
  input.read_row = read_row.defined() ? read_row.const_data_ptr<int32_t>() : nullptr;
  input.read_rows = int64_t(in.read_rows.size());
  input.batch = query.size(0), input.tokens = query.size(1);
  input.heads = int(key.size(2)), input.group = int(query.size(2) / key.size(2));
  input.slots = int(in.state_k.size(2)), input.top_k = int(gate.size(3));
  input.d_k = int(key.size(3)), input.d_v = int(value.size(3)), input.scale = float(in.scale);
  at::Tensor workspace = at::empty({int64_t(kernels::chunked_slot_scan_workspace(input))}, query.options().dtype(at::kByte));
  kernels::chunked_slot_scan_cuda(input,
                                  {out.state_k.data_ptr<float>(), out.state_v.data_ptr<float>(), out.output.data_ptr<float>(),
                                   out.read_weight.defined() ? out.read_weight.data_ptr<float>() : nullptr},
                                  workspace.data_ptr<uint8_t>(), current_cuda_stream(query.device().index()));
}

}  // namespace

Selection select_slots(const at::Tensor& score, int64_t top_k) {
  const int64_t slots = score.size(-1);
  auto shape = score.sizes().vec();
  const bool own_kernel = score.is_cpu() || (score.is_cuda() && slots <= kernels::kMostSelectSlots);
  if (!own_kernel || (score.scalar_type() != at::kFloat && score.scalar_type() != at::kDouble)) {
    const auto [sorted, order] = at::sort(score, /*stable=*/true, /*dim=*/-1, /*descending=*/true);
    const at::Tensor last = sorted.select(-1, top_k - 1);
    return {order.slice(-1, 0, top_k).to(at::kInt).contiguous(),
            top_k == slots ? at::full_like(last, std::numeric_limits<double>::quiet_NaN())
                           : last - sorted.select(-1, top_k)};
  }
  const at::Tensor rows = score.reshape({-1, slots}).contiguous();
  at::Tensor index = at::empty({rows.size(0), top_k}, score.options().dtype(at::kInt));
  at::Tensor gap = at::empty({rows.size(0)}, score.options());
  if (score.scalar_type() == at::kDouble)
    select_rows<double>(rows, index, gap);
  else
    select_rows<float>(rows, index, gap);
  shape.pop_back();
  gap = gap.view(shape);
  shape.push_back(top_k);
  return {index.view(shape), gap};
}

SlotMemoryOutput routed_slot_memory(const SlotMemoryInput& given) {
  SlotMemoryInput in = given;
  const bool chunked = in_chunks(in);
  if (!in.index.defined() && !chunked)
    in.index = at::arange(in.state_k.size(2), in.key.options().dtype(at::kInt)).expand(in.keep.sizes());
  const auto& q = in.query.sizes();
  const int64_t batch = q[0], tokens = q[1], heads = q[2], route_heads = in.key.size(2),
                slots = in.state_k.size(2);
  const at::ScalarType type = in.state_k.scalar_type();
  TORCH_CHECK(heads % route_heads == 0, "query heads must be a multiple of the heads that own slots");
  TORCH_CHECK(in.key.sizes() == at::IntArrayRef({batch, tokens, route_heads, q[3]}), "key shape");
  TORCH_CHECK(in.value.sizes().slice(0, 3) == in.key.sizes().slice(0, 3), "value shape");
  TORCH_CHECK(in.keep.sizes().slice(0, 3) == in.key.sizes().slice(0, 3) && in.write.sizes() == in.keep.sizes(),
              "keep and write shape");
  TORCH_CHECK(in.index.defined() ? in.index.sizes() == in.keep.sizes() && in.index.scalar_type() == at::kInt
                                 : in.keep.size(3) == slots,
              "index shape");
  TORCH_CHECK(
      in.keep.scalar_type() == type && in.write.scalar_type() == type && in.state_v.scalar_type() == type,
      "state dtype");
  TORCH_CHECK(in.state_k.sizes() == at::IntArrayRef({batch, route_heads, slots, q[3]}), "state_k shape");
  TORCH_CHECK(in.state_v.sizes() == at::IntArrayRef({batch, route_heads, slots, in.value.size(3)}),
              "state_v shape");

  SlotMemoryOutput out;
  out.state_k = in.state_k.contiguous().clone();
  out.state_v = in.state_v.contiguous().clone();
  out.output = at::empty({batch, tokens, heads, in.value.size(3)}, in.state_k.options());
  at::Tensor read_row;
  if (!in.read_rows.empty()) {
    std::vector<int32_t> rows(size_t(tokens), -1);
    for (size_t i = 0; i < in.read_rows.size(); ++i) rows.at(size_t(in.read_rows[i])) = int32_t(i);
    read_row = at::tensor(rows, at::TensorOptions().dtype(at::kInt)).to(in.query.device());
    out.read_weight = at::empty({batch, int64_t(in.read_rows.size()), heads, slots}, in.state_k.options());
  }
  if (chunked)
    scan_chunks(in, read_row, out);
  else if (type == at::kDouble)
    scan<double>(in, read_row, out);
  else
    scan<float>(in, read_row, out);
  return out;
}

}  // namespace slotscope::engine
