#include "core/formats/checkpoint_summary.h"

#include <algorithm>
#include <map>
#include <system_error>

namespace slotscope::formats {

bool same_elements(const TensorInfo& a, const TensorInfo& b) {
  return a.storage >= 0 && a.storage == b.storage && a.file == b.file && a.offset == b.offset &&
         a.dtype == b.dtype && a.shape == b.shape && a.strides == b.strides;
}

std::vector<std::string> weight_candidates(const Checkpoint& checkpoint) {
  // The readers say both in words: what was left out and why, and where the weights were found.
  std::vector<std::string> names;
  for (const IgnoredItem& item : checkpoint.ignored())
    if (item.why.starts_with("other weights") || item.why.starts_with("averaged weights"))
      names.push_back(item.item);
  if (names.empty()) return names;
  std::string taken;
  constexpr std::string_view words = "weights are read from '";
  for (const std::string& note : checkpoint.notes())
    if (note.starts_with(words))
      taken = note.substr(words.size(), note.find('\'', words.size()) - words.size());
  names.insert(names.begin(), taken);
  return names;
}

CheckpointSummary summarise_listing(const Checkpoint& checkpoint) {
  const auto& tensors = checkpoint.tensors();
  CheckpointSummary summary;
  for (const auto& path : checkpoint.files()) {
    std::error_code error;
    const uintmax_t size = std::filesystem::file_size(path, error);
    summary.files.push_back({path, error ? std::nullopt : std::optional<uint64_t>(size), 0, 0});
  }
  std::map<std::string, DtypeSummary, std::less<>> dtypes;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo& tensor = tensors[i];
    bool tied = false;
    if (!tensor.shares_with.empty())
      if (const TensorInfo* first = checkpoint.find(tensor.shares_with); first && first != &tensor) {
        tied = same_elements(*first, tensor);
        summary.shared.push_back({i, size_t(first - tensors.data()), tied});
      }
    const auto bits = uint64_t(dtype_bits(tensor.dtype));
    const uint64_t bytes = tied ? 0 : tensor.bytes;
    const uint64_t elements = bits ? bytes * 8 / bits : 0;  // bytes are bounded by the file's size
    DtypeSummary& dtype = dtypes[tensor.dtype_text];
    ++dtype.tensors;
    dtype.elements += elements;
    dtype.bytes += bytes;
    summary.elements += elements;
    if (size_t(tensor.file) < summary.files.size()) {
      ++summary.files[size_t(tensor.file)].tensors;
      summary.files[size_t(tensor.file)].tensor_bytes += bytes;
    }
  }
  for (auto& [name, dtype] : dtypes) {
    dtype.dtype = name;
    summary.dtypes.push_back(std::move(dtype));
  }
  std::stable_sort(summary.dtypes.begin(), summary.dtypes.end(),
                   [](const DtypeSummary& a, const DtypeSummary& b) { return a.bytes > b.bytes; });
  return summary;
}

}  // namespace slotscope::formats
