#include "core/formats/torch_slice.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/formats/config.h"
#include "core/formats/json.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {
namespace {

// Copies elements [first, first + count) in row-major order. `source` points to element [0, 0, ...].
void gather(const std::byte* source, const TensorInfo& tensor, size_t size, uint64_t first, uint64_t count,
            std::byte* out) {
  const size_t axes = tensor.shape.size();
  std::vector<uint64_t> index(axes);
  uint64_t position = 0, rest = first;
  for (size_t i = axes; i-- > 0; rest /= uint64_t(tensor.shape[i])) {
    index[i] = rest % uint64_t(tensor.shape[i]);
    position += index[i] * uint64_t(tensor.strides[i]);
  }
  const size_t last = axes - 1;  // a scalar is contiguous and never comes here
  const auto length = uint64_t(tensor.shape[last]), step = uint64_t(tensor.strides[last]);
  while (count > 0) {
    const uint64_t run = std::min(count, length - index[last]);
    if (step == 1) {
      std::memcpy(out, source + position * size, run * size);
      out += run * size;
    } else {
      for (uint64_t i = 0; i < run; ++i, out += size)
        std::memcpy(out, source + (position + i * step) * size, size);
    }
    count -= run;
    if (count == 0) break;
    // To the start of the next row: carry from the last axis but one upwards.
    position -= index[last] * step;
    index[last] = 0;
    for (size_t i = last; i-- > 0;) {
      position += uint64_t(tensor.strides[i]);
      if (++index[i] < uint64_t(tensor.shape[i])) break;
      position -= index[i] * uint64_t(tensor.strides[i]);
      index[i] = 0;
    }
  }
}

void swap_bytes(std::byte* data, uint64_t bytes, size_t unit) {
  for (uint64_t at = 0; at < bytes; at += unit) std::reverse(data + at, data + at + unit);
}

}  // namespace

TensorData slice_torch_tensor(const TorchFile& file, const TensorInfo& tensor, uint64_t first,
                              uint64_t count) {
  const std::string item = "tensor '" + printable(tensor.name, 120) + "'";
  const uint64_t size = uint64_t(dtype_bits(tensor.dtype) / 8);
  if (size == 0 || tensor.storage < 0)
    throw Error({file.path(), item, "dtype " + printable(tensor.dtype_text, 60) + ", which is only listed",
                 "a dense tensor of a known dtype", "Save it as a dense tensor of float32 or bfloat16."});
  if (count == 0 || tensor.bytes == 0) return {};
  const TorchStorage& storage = file.storages().at(size_t(tensor.storage));
  const uint64_t begin = tensor.offset - storage.offset, bytes = count * size;
  const bool swapped = file.big_endian() && size > 1;
  if (tensor.strides.empty() && !swapped) return file.bytes(int(tensor.storage), begin + first * size, bytes);
  if (!tensor.strides.empty() && bytes > std::max(kMaxRepeatedBytes, storage.bytes))
    throw Error({file.path(), item,
                 "shape " + shape_text(tensor.shape) + " repeats the " + thousands(storage.bytes) +
                     " bytes of its storage to " + thousands(bytes),
                 "at most " + thousands(std::max(kMaxRepeatedBytes, storage.bytes)) + " at once",
                 "Save the tensor with .contiguous() if it is meant."});
  auto copy = std::make_shared<std::vector<std::byte>>(bytes);
  if (tensor.strides.empty()) {
    const TensorData data = file.bytes(int(tensor.storage), begin + first * size, bytes);
    std::memcpy(copy->data(), data.bytes.data(), bytes);
  } else {
    uint64_t last = 0;  // checked against the storage when the file was opened
    for (size_t i = 0; i < tensor.shape.size(); ++i)
      last += uint64_t(tensor.shape[i] - 1) * uint64_t(tensor.strides[i]);
    const TensorData data = file.bytes(int(tensor.storage), begin, (last + 1) * size);
    gather(data.bytes.data(), tensor, size, first, count, copy->data());
  }
  if (swapped) swap_bytes(copy->data(), bytes, tensor.dtype == DType::c64 ? size / 2 : size);
  return {{copy->data(), copy->size()}, copy};
}

}  // namespace slotscope::formats
