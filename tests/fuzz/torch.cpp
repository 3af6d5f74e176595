// A whole torch.save file, zip or legacy, opened as a checkpoint: pickle, storages, views, tied tensors, nested checkpoints.
#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/formats/values.h"
#include "tests/fuzz/fuzz.h"

namespace slotscope::fuzz {
namespace {

using namespace slotscope::formats;

constexpr uint64_t kMostElements = 1 << 14;

void check_tensor(const Checkpoint& checkpoint, const TensorInfo& tensor) {
  require(checkpoint.find(tensor.name) == &tensor, "a tensor is found by its name");
  require(tensor.file >= 0 && size_t(tensor.file) < checkpoint.files().size(), "a tensor lies in one of the files");
  require(tensor.strides.empty() || tensor.strides.size() == tensor.shape.size(), "a stride for each axis");
  for (const int64_t n : tensor.shape) require(n >= 0, "sizes are not negative");
  require(tensor.shares_with.empty() || checkpoint.find(tensor.shares_with) != nullptr, "shares with a tensor of the file");
  uint64_t count = 1;
  for (const int64_t n : tensor.shape) require(!__builtin_mul_overflow(count, uint64_t(n), &count), "a shape has a size");
  const int bits = dtype_bits(tensor.dtype);
  try {
    const uint64_t part = std::min<uint64_t>(count, 16);
    read_values(checkpoint, tensor, 0, part);
    read_values_text(checkpoint, tensor, count - part, part);
    if (bits >= 8 && count <= kMostElements)
      require(checkpoint.data(tensor).bytes.size() == count * uint64_t(bits / 8), "data() gives every element");
  } catch (const Error& error) {  // a dtype that cannot be computed with, a damaged member
    require(std::strlen(error.what()) > 10, "an error says what is wrong");
  }
}

}  // namespace

void run_torch(Bytes input) {
  static const std::filesystem::path folder = [] {
    const auto made = scratch_folder() / "torch";
    std::filesystem::create_directory(made);
    return made;
  }();
  const std::filesystem::path path = folder / "pytorch_model.bin";
  write_file(path, text_of(input));
  for (const char* weights : {"", "model"}) {
    try {
      const auto checkpoint = Checkpoint::open(path, {.weights = weights});
      for (const TensorInfo& tensor : checkpoint->tensors()) check_tensor(*checkpoint, tensor);
      tensor_digest(*checkpoint);
      for (const IgnoredItem& item : checkpoint->ignored()) require(!item.why.empty(), "what was ignored has a reason");
    } catch (const Error& error) {
      require(std::strlen(error.what()) > path.string().size(), "an error says more than the file's name");
    }
  }
}

}  // namespace slotscope::fuzz
