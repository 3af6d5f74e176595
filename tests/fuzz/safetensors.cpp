// A safetensors file as it lies on disk: 8 bytes of header length, the header, the data.
#include <algorithm>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "core/formats/mapped_file.h"
#include "core/formats/safetensors.h"
#include "core/formats/values.h"
#include "tests/fuzz/fuzz.h"

namespace slotscope::fuzz {
namespace {

using namespace slotscope::formats;

uint64_t begin_of(const TensorInfo& tensor) { return tensor.offset; }

// What read_safetensors_header promises of a header that it accepts.
void check_promises(const SafetensorsHeader& header, uint64_t size) {
  uint64_t end = header.tensors.empty() ? size : begin_of(header.tensors.front());
  std::vector<std::string_view> names;
  for (const TensorInfo& tensor : header.tensors) {
    require(tensor.offset == end, "tensors touch, in the order of the data");
    require(tensor.bytes <= size - tensor.offset, "a tensor lies inside the file");
    end = tensor.offset + tensor.bytes;
    names.push_back(tensor.name);
    uint64_t bytes = 0;
    require(tensor_bytes(tensor.shape, dtype_bits(tensor.dtype) ? dtype_bits(tensor.dtype) : 8, bytes),
            "a shape has a size");
    require(dtype_bits(tensor.dtype) == 0 || bytes == tensor.bytes, "shape and bytes agree");
  }
  require(end == size, "the tensors end with the file");
  std::sort(names.begin(), names.end());
  require(std::adjacent_find(names.begin(), names.end()) == names.end(), "names are unique");
}

// As the tensor browser does: first and last values of every tensor.
void read_all(const Checkpoint& checkpoint) {
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    require(checkpoint.find(tensor.name) == &tensor, "a tensor is found by its name");
    const uint64_t count = element_count(tensor);
    try {
      read_values(checkpoint, tensor, 0, std::min<uint64_t>(count, 16));
      read_values_text(checkpoint, tensor, count - std::min<uint64_t>(count, 16), std::min<uint64_t>(count, 16));
    } catch (const Error&) {  // a dtype that cannot be computed with
      require(!can_compute(tensor.dtype), "values of a known dtype can be read");
    }
  }
  tensor_digest(checkpoint);
}

}  // namespace

void run_safetensors(Bytes input) {
  static const std::filesystem::path path = scratch_folder() / "model.safetensors";
  write_file(path, text_of(input));
  try {
    check_promises(read_safetensors_header(MappedFile(path), 0), input.size());
  } catch (const Error& error) {
    require(std::strlen(error.what()) > path.string().size(), "an error says more than the file's name");
    return;
  }
  read_all(*Checkpoint::open(path));
}

// The header length of most mutated inputs would not fit: it is set to where the header's last brace is, and the data are made as
// long as the largest number behind "data_offsets" wants (up to `most`).
size_t repair_safetensors(uint8_t* data, size_t size, size_t most) {
  if (size < 10) return size;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t brace = text.rfind('}');
  if (brace == std::string_view::npos || brace < 9) return size;
  const uint64_t length = brace + 1 - 8;
  for (int i = 0; i < 8; ++i) data[i] = uint8_t(length >> (8 * i));
  uint64_t end = 0;
  for (size_t at = text.find("data_offsets"); at != std::string_view::npos && at < brace;
       at = text.find("data_offsets", at + 12)) {
    const size_t comma = text.find(',', at);
    uint64_t number = 0;
    for (size_t i = comma == std::string_view::npos ? brace : comma + 1; i < brace && number < most; ++i) {
      if (text[i] >= '0' && text[i] <= '9')
        number = number * 10 + uint64_t(text[i] - '0');
      else if (text[i] != ' ')
        break;
    }
    end = std::max(end, number);
  }
  const uint64_t wanted = brace + 1 + end;
  if (wanted > most) return size;
  for (size_t i = size; i < wanted; ++i) data[i] = uint8_t(i * 37);
  return size_t(wanted);
}

}  // namespace slotscope::fuzz
