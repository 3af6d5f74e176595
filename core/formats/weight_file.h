// One weight file of a checkpoint, whatever its format: what it lists when it is opened, and its values.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/formats/checkpoint.h"

namespace slotscope::formats {

struct WeightFileOptions {
  int file = 0;               // goes into TensorInfo::file
  int64_t first_storage = 0;  // TensorInfo::storage counts from here
  std::string weights;        // OpenOptions::weights
  std::string model_type;     // of config.json, or empty
};

class WeightFile {
 public:
  // Finds the format from the name and the first bytes, reads headers only. Throws Error.
  static std::unique_ptr<WeightFile> open(const std::filesystem::path& path,
                                          const WeightFileOptions& options);
  virtual ~WeightFile() = default;

  virtual FileFormat format() const = 0;
  // As Checkpoint::slice, for a tensor of this file. Thread-safe.
  virtual TensorData slice(const TensorInfo& tensor, uint64_t first, uint64_t count) const = 0;

  // Found when the file was opened; the checkpoint takes them.
  std::vector<TensorInfo> tensors;
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<IgnoredItem> ignored;
  std::vector<std::string> notes;
  int64_t storages = 0;                 // how many storage numbers it uses
  std::vector<uint64_t> storage_bytes;  // of each
};

// What the first bytes look like when they begin no weight file: (what it is, advice), or empty texts.
// `head`: up to 512 bytes.
std::pair<std::string, std::string> recognise_other_file(std::string_view head);

}  // namespace slotscope::formats
