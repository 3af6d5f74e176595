#include "core/formats/checkpoint.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/formats/config.h"
#include "core/formats/float8_scales.h"
#include "core/formats/json.h"
#include "core/formats/sha256.h"
#include "core/formats/sharded.h"
#include "core/formats/torch_weights.h"
#include "core/formats/utf8.h"
#include "core/formats/values.h"
#include "core/formats/weight_file.h"

namespace slotscope::formats {
namespace {

namespace fs = std::filesystem;
constexpr uint64_t kMaxConfigBytes = 64ull << 20;

// A folder or single file of any format: what the files list, merged, and the config beside them.
class FolderCheckpoint : public Checkpoint {
 public:
  FolderCheckpoint(const fs::path& path, const OpenOptions& options) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status))
      throw Error({path.string(), "", "does not exist", "a checkpoint folder or a weight file", ""});
    WeightFiles found;
    if (fs::is_directory(status)) {
      folder_ = path;
      read_config(true);
      found = find_weight_files(path, options);
    } else {
      folder_ = path.has_parent_path() ? path.parent_path() : fs::path(".");
      const bool index = path.extension() == ".json";
      if (index && !path.filename().string().ends_with(".index.json"))
        throw Error({path.string(), "", "no weight file",
                     "a checkpoint folder, a weight file or an .index.json file",
                     "Open the folder that holds it."});
      read_config(false);
      if (index && !options.ignore_index)
        found = read_index(path);
      else if (index)
        found = find_weight_files(folder_, options);
      else
        found.files = {path};
    }
    notes_ = std::move(found.notes);
    ignored_ = std::move(found.ignored);
    files_ = found.files;
    list_tensors(found, options);
  }

  const fs::path& folder() const override { return folder_; }
  const std::vector<fs::path>& files() const override { return files_; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override {
    const auto at =
        std::lower_bound(tensors_.begin(), tensors_.end(), name,
                         [](const TensorInfo& tensor, std::string_view n) { return tensor.name < n; });
    return at != tensors_.end() && at->name == name ? &*at : nullptr;
  }
  TensorData slice(const TensorInfo& tensor, uint64_t first, uint64_t count) const override {
    return opened_.at(size_t(tensor.file))->slice(tensor, first, count);
  }
  const nlohmann::json* config() const override { return has_config_ ? &config_ : nullptr; }
  const std::string& config_text() const override { return config_text_; }
  const std::vector<std::string>& warnings() const override { return warnings_; }
  const std::vector<std::string>& notes() const override { return notes_; }
  uint64_t total_bytes() const override { return total_bytes_; }
  FileFormat format() const override {
    return opened_.empty() ? FileFormat::safetensors : opened_.front()->format();
  }
  const std::vector<IgnoredItem>& ignored() const override { return ignored_; }
  const std::vector<std::pair<std::string, std::string>>& metadata() const override { return metadata_; }

 private:
  // For one file of a folder the config is an extra: what is wrong with it becomes a warning.
  void read_config(bool must_be_good) {
    const fs::path path = folder_ / "config.json";
    std::error_code ignored;
    if (!fs::exists(path, ignored)) return;
    try {
      std::string text = read_text_file(path, kMaxConfigBytes);
      std::vector<std::string> duplicates;
      nlohmann::json root = parse_json(
          text, {.file = path.string(), .nonfinite = true, .refuse_duplicates = false}, &duplicates);
      if (!root.is_object()) throw Error({path.string(), "", root.type_name(), "a JSON object", ""});
      for (const auto& text : duplicates)
        warnings_.push_back("config.json: " + text + "; its last value counts");
      config_ = std::move(root);
      config_text_ = std::move(text);
      has_config_ = true;
    } catch (const Error& error) {
      if (must_be_good) throw;
      warnings_.push_back(error.what());
    }
  }

  // model_type of config.json, or empty: it says which names the tensors should have.
  std::string model_type() const {
    if (!has_config_) return {};
    const auto at = config_.find("model_type");
    return at != config_.end() && at->is_string() ? at->get<std::string>() : std::string();
  }

  void list_tensors(const WeightFiles& found, const OpenOptions& options) {
    std::vector<TensorInfo> listed;
    std::vector<uint64_t> storages;  // bytes of each, by number
    bool torch = false;
    for (const auto& path : files_) {
      opened_.push_back(WeightFile::open(path, {.file = int(opened_.size()),
                                                .first_storage = int64_t(storages.size()),
                                                .weights = options.weights,
                                                .model_type = model_type()}));
      WeightFile& file = *opened_.back();
      torch |= file.format() != FileFormat::safetensors;
      std::move(file.tensors.begin(), file.tensors.end(), std::back_inserter(listed));
      file.tensors.clear();
      storages.insert(storages.end(), file.storage_bytes.begin(), file.storage_bytes.end());
      for (auto& entry : file.metadata)
        if (std::find(metadata_.begin(), metadata_.end(), entry) == metadata_.end())
          metadata_.push_back(std::move(entry));
      const std::string from = files_.size() > 1 ? path.filename().string() + ": " : "";
      for (const auto& note : file.notes) notes_.push_back(from + note);
      for (IgnoredItem& item : file.ignored) {
        item.item = from + item.item;
        ignored_.push_back(std::move(item));
      }
    }
    tensors_ = merge_tensors(found, std::move(listed), notes_, warnings_);
    if (torch) {
      strip_wrapper_names(tensors_, model_type(), notes_);
      std::sort(tensors_.begin(), tensors_.end(),
                [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; });
      find_shared(storages.size());
    }
    count_bytes(storages);
    note_dtypes();
  }

  void find_shared(size_t storages) {
    std::vector<const TensorInfo*> first(storages);
    for (TensorInfo& tensor : tensors_) {
      if (tensor.storage < 0) continue;
      const TensorInfo*& owner = first[size_t(tensor.storage)];
      if (owner)
        tensor.shares_with = owner->name;
      else
        owner = &tensor;
    }
  }
  // A storage counts once, and no more of it than the tensors on it can cover.
  void count_bytes(const std::vector<uint64_t>& storages) {
    std::vector<uint64_t> left = storages;
    for (const TensorInfo& tensor : tensors_) {
      uint64_t bytes = tensor.bytes;
      if (tensor.storage >= 0) {
        uint64_t& rest = left[size_t(tensor.storage)];
        bytes = std::min(bytes, rest);
        rest -= bytes;
      }
      total_bytes_ += bytes;
    }
  }

  void note_dtypes() {
    size_t unknown = 0;
    for (const TensorInfo& tensor : tensors_) unknown += tensor.dtype == DType::unknown;
    if (tensors_.empty()) notes_.push_back("the file holds no tensors: no weights");
    if (unknown) notes_.push_back(std::to_string(unknown) + " tensors have a dtype that is not known here");
    Float8Words float8 = float8_words(tensors_);
    if (!float8.warning.empty()) warnings_.push_back(std::move(float8.warning));
    if (!float8.note.empty()) notes_.push_back(std::move(float8.note));
  }

  fs::path folder_;
  std::vector<fs::path> files_;
  std::vector<std::unique_ptr<WeightFile>> opened_;
  std::vector<TensorInfo> tensors_;
  nlohmann::json config_;
  std::string config_text_;
  bool has_config_ = false;
  std::vector<std::string> warnings_, notes_;
  std::vector<IgnoredItem> ignored_;
  std::vector<std::pair<std::string, std::string>> metadata_;
  uint64_t total_bytes_ = 0;
};

}  // namespace

TensorData Checkpoint::data(const TensorInfo& tensor) const {
  return slice(tensor, 0, element_count(tensor));
}

std::string_view format_name(FileFormat format) {
  switch (format) {
    case FileFormat::safetensors:
      return "safetensors";
    case FileFormat::torch_zip:
      return "torch.save (zip)";
    case FileFormat::torch_legacy:
      return "torch.save (legacy)";
  }
  return "";
}

std::shared_ptr<const Checkpoint> Checkpoint::open(const fs::path& path, const OpenOptions& options) {
  return std::make_shared<const FolderCheckpoint>(path, options);
}

std::string tensor_digest(const Checkpoint& checkpoint) {
  std::vector<std::string> lines;
  lines.reserve(checkpoint.tensors().size());
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    std::string shape = "[";
    for (size_t i = 0; i < tensor.shape.size(); ++i)
      shape += (i ? "," : "") + std::to_string(tensor.shape[i]);
    lines.push_back(tensor.name + " " + tensor.dtype_text + " " + shape + "]\n");
  }
  std::sort(lines.begin(), lines.end());
  Sha256 hash;
  for (const auto& line : lines) hash.add(line);
  return hash.hex();
}

}  // namespace slotscope::formats
