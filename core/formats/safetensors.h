// One safetensors file: the header is checked before anything is allocated from its numbers (bad-inputs
// B01-B13).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/formats/checkpoint.h"
#include "core/formats/mapped_file.h"

namespace slotscope::formats {

inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference's own cap

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // in the order of the data; offsets counted from the start of the file
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<std::string> warnings;
};

// Reads and checks the header. `file_index` goes into every TensorInfo. Throws Error.
SafetensorsHeader read_safetensors_header(const MappedFile& file, int file_index);

// Number of bytes for `shape` of `bits` each. False when the product does not fit 63 bits or is no whole
// number of bytes.
bool tensor_bytes(const std::vector<int64_t>& shape, int bits, uint64_t& bytes);

}  // namespace slotscope::formats
