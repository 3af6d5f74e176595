#include "core/engine/model/weights.h"

#include <cstring>
#include <optional>

#include "core/error.h"

namespace slotscope::engine {
namespace {

std::optional<at::ScalarType> stored_type(formats::DType dtype) {
  switch (dtype) {
    case formats::DType::bf16:
      return at::kBFloat16;
    case formats::DType::f16:
      return at::kHalf;
    case formats::DType::f32:
      return at::kFloat;
    case formats::DType::f64:
      return at::kDouble;
    default:
      return std::nullopt;
  }
}

}  // namespace

at::Tensor Weights::load(const std::string& name, at::ScalarType type) const {
  if (progress_.cancel_requested())
    throw Error({.file = checkpoint_.folder().string(), .item = "loading weights", .found = "cancelled"});
  const formats::TensorInfo* info = checkpoint_.find(name);
  if (!info)
    throw Error({.file = checkpoint_.folder().string(),
                 .item = name,
                 .found = "no such tensor",
                 .expected = "a weight of this name"});
  at::Tensor result;
  if (const auto stored = stored_type(info->dtype)) {
    const formats::TensorData data = checkpoint_.data(*info);
    const auto bytes = data.bytes;
    const auto options = at::TensorOptions().dtype(*stored);
    // safetensors aligns nothing but its header: a tensor behind one of odd size may start between element
    // boundaries.
    if (reinterpret_cast<uintptr_t>(bytes.data()) % at::elementSize(*stored) == 0) {
      const at::Tensor view = at::from_blob(const_cast<std::byte*>(bytes.data()), info->shape, options);
      result = view.to(numerics_.device, type, /*non_blocking=*/false, /*copy=*/true);
    } else {
      at::Tensor aligned = at::empty(info->shape, options);
      std::memcpy(aligned.data_ptr(), bytes.data(), bytes.size());
      result = aligned.to(numerics_.device, type);
    }
  } else {  // integers and float8: exact through double, an error that names the dtype for everything else
    uint64_t count = 1;
    for (const int64_t n : info->shape) count *= uint64_t(n);
    const std::vector<double> values = formats::read_values(checkpoint_, *info, 0, count);
    result = at::tensor(values, at::kDouble).view(info->shape).to(numerics_.device, type);
  }
  progress_.add(int64_t(info->bytes));
  return result;
}

}  // namespace slotscope::engine
