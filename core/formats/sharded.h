// Which weight files a folder has, and what model.safetensors.index.json says about them (bad-inputs B14,
// B15).
#pragma once

#include <filesystem>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/formats/checkpoint.h"

namespace slotscope::formats {

struct WeightFiles {
  std::vector<std::filesystem::path> files;
  std::filesystem::path index;                      // empty: no index counts
  std::unordered_map<std::string, int> weight_map;  // tensor -> position in files
  bool has_total_size = false;
  double total_size = 0;
  std::vector<std::string> notes;
  std::vector<IgnoredItem> ignored;  // other weight files of the folder, and training state
};

// Finds the weight files of a folder: safetensors before torch.save files, the usual names before others. Throws Error naming
// what is missing, and for folders in a form that must be converted first.
WeightFiles find_weight_files(const std::filesystem::path& folder, const OpenOptions& options);
// Reads an index file. Throws Error: missing files with their tensor counts, unsafe names, keys that appear
// twice.
WeightFiles read_index(const std::filesystem::path& index);
// Weight files of a folder by name, for messages: "a.safetensors, b.safetensors", or "no weight file".
std::string weight_files_text(const std::filesystem::path& folder, bool safetensors);
// Keeps of each file what the index (if any) gives it; checks that every mapped tensor is there and that no
// name is left in two files. Throws Error. `listed` holds the tensors of all files.
std::vector<TensorInfo> merge_tensors(const WeightFiles& found, std::vector<TensorInfo> listed,
                                      std::vector<std::string>& notes, std::vector<std::string>& warnings);

}  // namespace slotscope::formats
