// Values of a tensor of a torch.save file, row-major and little-endian.
#pragma once

#include "core/formats/checkpoint.h"
#include "core/formats/torch_file.h"

namespace slotscope::formats {

// A tensor that repeats its storage (strides of 0, overlapping windows) is made up to this size at once, or
// up to its storage's size when that is larger.
inline constexpr uint64_t kMaxRepeatedBytes = 256ull << 20;

// Elements [first, first + count) of `tensor`, whose storage is a number in `file`. Contiguous values of a
// stored, little-endian storage are a view into the file; others are gathered into a copy. The caller keeps
// the range inside the tensor. Throws Error: a dtype that is only listed, more than kMaxRepeatedBytes of a
// repeating tensor, damage.
TensorData slice_torch_tensor(const TorchFile& file, const TensorInfo& tensor, uint64_t first,
                              uint64_t count);

}  // namespace slotscope::formats
