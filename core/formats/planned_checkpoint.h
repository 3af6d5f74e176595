// A checkpoint that is not there yet: a config.json, and the tensors that are going to be written, without values. Families read
// their keys from it as from any other, and so say which tensors a new model has.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/formats/checkpoint.h"
#include "core/formats/skeleton.h"

namespace slotscope::formats {

class PlannedCheckpoint final : public Checkpoint {
 public:
  // The config alone. `name` stands for the folder in messages. Throws Error when it is no JSON object.
  PlannedCheckpoint(std::string config_text, std::filesystem::path name);
  // The same with its tensors listed, each in its dtype: what will be found when the written folder is opened. Throws Error for sizes
  // that no file holds.
  PlannedCheckpoint(const PlannedCheckpoint& config, const std::vector<ExpectedTensor>& tensors, const std::vector<DType>& dtypes);

  const std::filesystem::path& folder() const override { return folder_; }
  const std::vector<std::filesystem::path>& files() const override { return files_; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override;
  TensorData slice(const TensorInfo& tensor, uint64_t first, uint64_t count) const override;  // throws Error: no values yet
  const nlohmann::json* config() const override { return &config_; }
  const std::string& config_text() const override { return text_; }
  const std::vector<std::string>& warnings() const override { return warnings_; }
  const std::vector<std::string>& notes() const override { return notes_; }
  uint64_t total_bytes() const override { return total_; }
  FileFormat format() const override { return FileFormat::safetensors; }
  const std::vector<IgnoredItem>& ignored() const override { return ignored_; }
  const std::vector<std::pair<std::string, std::string>>& metadata() const override { return metadata_; }

 private:
  std::filesystem::path folder_;
  std::vector<std::filesystem::path> files_;
  std::string text_;
  nlohmann::json config_;
  std::vector<TensorInfo> tensors_;
  std::vector<std::string> warnings_, notes_;
  std::vector<IgnoredItem> ignored_;
  std::vector<std::pair<std::string, std::string>> metadata_;
  uint64_t total_ = 0;
};

// True for a config alone: what it speaks of will be there, and no tensor contradicts it.
bool is_planned(const Checkpoint& checkpoint);

}  // namespace slotscope::formats
