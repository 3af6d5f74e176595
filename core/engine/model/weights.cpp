#include "core/engine/model/weights.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/error.h"
#include "core/formats/mapped_file.h"

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

constexpr int64_t kPieceBytes = int64_t(32) << 20;

// From the first to the last byte that a view of `mapped` has elements in.
std::span<const std::byte> bytes_of(const at::Tensor& view, std::span<const std::byte> mapped) {
  int64_t last = 0;
  for (int64_t i = 0; i < view.dim(); ++i) last += (view.size(i) - 1) * view.stride(i);
  const auto* begin = static_cast<const std::byte*>(view.const_data_ptr());
  const size_t size = size_t(last + 1) * view.element_size();
  // Anything else would lose its values.
  TORCH_CHECK(begin >= mapped.data() && begin + size <= mapped.data() + mapped.size(), "a copy where a view was expected");
  return {begin, size};
}

}  // namespace

void Weights::require_go_on() const {
  if (progress_.cancel_requested())
    throw Error({.file = checkpoint_.folder().string(), .item = "loading weights", .found = "cancelled"});
}

// The stored values on the host: a view of `data`, which gets the tensor's bytes, or of a copy in `type` where the bytes cannot
// be used as they are (`data` then has an owner or is empty).
at::Tensor Weights::stored(const formats::TensorInfo& info, at::ScalarType type, formats::TensorData& data) const {
  if (const auto plain = stored_type(info.dtype)) {
    data = checkpoint_.data(info);
    const auto options = at::TensorOptions().dtype(*plain);
    if (reinterpret_cast<uintptr_t>(data.bytes.data()) % at::elementSize(*plain) == 0)
      return at::from_blob(const_cast<std::byte*>(data.bytes.data()), info.shape, options);
    // safetensors aligns nothing but its header: a tensor behind one of odd size may start between element boundaries.
    const at::Tensor aligned = at::empty(info.shape, options);
    std::memcpy(aligned.data_ptr(), data.bytes.data(), data.bytes.size());
    if (!data.owner) formats::release_pages(data.bytes);
    data = {};
    return aligned;
  }
  // Integers and float8: exact through double, an error that names the dtype for everything else.
  uint64_t count = 1;
  for (const int64_t n : info.shape) count *= uint64_t(n);
  const at::Tensor flat = at::empty({int64_t(count)}, at::TensorOptions().dtype(type));
  constexpr uint64_t kStep = uint64_t(1) << 20;
  for (uint64_t first = 0; first < count; first += kStep) {
    require_go_on();
    std::vector<double> values = formats::read_values(checkpoint_, info, first, std::min(kStep, count - first));
    const int64_t size = int64_t(values.size());
    flat.narrow(0, int64_t(first), size).copy_(at::from_blob(values.data(), {size}, at::kDouble));
  }
  return flat.view(info.shape);
}

// In the dtype of `from` to the device of `to`, and converted there: the host never holds a second copy in a wider type.
void Weights::copy_piece(const at::Tensor& from, at::Tensor to) const {
  if (to.device().is_cpu())
    to.copy_(from);
  else
    to.copy_(from.contiguous().to(to.device()));
}

at::Tensor Weights::load(const std::string& name, at::ScalarType type, const Choose& choose) const {
  require_go_on();
  const formats::TensorInfo* info = checkpoint_.find(name);
  if (!info)
    throw Error({.file = checkpoint_.folder().string(),
                 .item = name,
                 .found = "no such tensor",
                 .expected = "a weight of this name"});
  formats::TensorData data;
  const at::Tensor whole = stored(*info, type, data), from = choose ? choose(whole) : whole;
  at::Tensor result = at::empty(from.sizes(), numerics_.options(type));
  if (result.numel() == 0) return result;
  const int64_t element = int64_t(info->bytes) / whole.numel(), count = from.dim() == 0 ? 1 : from.size(0);
  const int64_t row = std::max<int64_t>(1, from.numel() / count * element);
  const int64_t step = std::max<int64_t>(1, kPieceBytes / row);
  const at::Tensor rows = from.dim() == 0 ? from.view({1}) : from, out = from.dim() == 0 ? result.view({1}) : result;
  for (int64_t first = 0; first < count; first += step) {
    require_go_on();
    const at::Tensor piece = rows.narrow(0, first, std::min(step, count - first));
    copy_piece(piece, out.narrow(0, first, piece.size(0)));
    if (!data.owner && !data.bytes.empty()) formats::release_pages(bytes_of(piece, data.bytes));
    progress_.add(piece.numel() * element);
  }
  return result;
}

}  // namespace slotscope::engine
