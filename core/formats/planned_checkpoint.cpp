#include "core/formats/planned_checkpoint.h"

#include <algorithm>

#include "core/error.h"
#include "core/formats/json.h"
#include "core/formats/safetensors.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {

PlannedCheckpoint::PlannedCheckpoint(std::string config_text, std::filesystem::path name)
    : folder_(std::move(name)), files_{folder_ / "model.safetensors"}, text_(std::move(config_text)) {
  config_ = parse_json(text_, {.file = (folder_ / "config.json").string(), .nonfinite = true});
  if (!config_.is_object()) throw Error({(folder_ / "config.json").string(), "", config_.type_name(), "a JSON object", ""});
}

PlannedCheckpoint::PlannedCheckpoint(const PlannedCheckpoint& config, const std::vector<ExpectedTensor>& tensors,
                                     const std::vector<DType>& dtypes)
    : folder_(config.folder_), files_(config.files_), text_(config.text_), config_(config.config_) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const ExpectedTensor& tensor = tensors[i];
    const DType dtype = dtypes.at(i);
    TensorInfo info;
    info.name = tensor.name;
    info.dtype = dtype;
    info.dtype_text = std::string(dtype_name(dtype));
    info.shape = tensor.shape;
    info.offset = total_;
    if (!tensor_bytes(info.shape, dtype_bits(dtype), info.bytes) || __builtin_add_overflow(total_, info.bytes, &total_))
      throw Error({folder_.string(), "tensor '" + printable(tensor.name) + "'", "shape " + shape_text(tensor.shape),
                   "a size that a file can hold", "Make the model smaller."});
    tensors_.push_back(std::move(info));
  }
  std::sort(tensors_.begin(), tensors_.end(), [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; });
}

const TensorInfo* PlannedCheckpoint::find(std::string_view name) const {
  const auto at = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                   [](const TensorInfo& tensor, std::string_view n) { return tensor.name < n; });
  return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

TensorData PlannedCheckpoint::slice(const TensorInfo& tensor, uint64_t, uint64_t) const {
  throw Error({folder_.string(), "tensor '" + printable(tensor.name) + "'", "no values: the model is only planned", "a written checkpoint", ""});
}

bool is_planned(const Checkpoint& checkpoint) {
  const auto* planned = dynamic_cast<const PlannedCheckpoint*>(&checkpoint);
  return planned && planned->tensors().empty();
}

}  // namespace slotscope::formats
