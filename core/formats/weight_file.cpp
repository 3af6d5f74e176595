#include "core/formats/weight_file.h"

#include "core/error.h"
#include "core/formats/json.h"
#include "core/formats/mapped_file.h"
#include "core/formats/safetensors.h"
#include "core/formats/torch_file.h"
#include "core/formats/torch_slice.h"
#include "core/formats/torch_weights.h"

namespace slotscope::formats {
namespace {

namespace fs = std::filesystem;

class SafetensorsFile : public WeightFile {
 public:
  SafetensorsFile(std::shared_ptr<const MappedFile> file, const WeightFileOptions& options)
      : file_(std::move(file)) {
    SafetensorsHeader header = read_safetensors_header(*file_, options.file);
    tensors = std::move(header.tensors);
    metadata = std::move(header.metadata);
    if (file_->path().extension() != ".safetensors")
      notes.push_back(file_->path().filename().string() + " is a safetensors file, whatever its name says");
  }
  FileFormat format() const override { return FileFormat::safetensors; }
  TensorData slice(const TensorInfo& tensor, uint64_t first, uint64_t count) const override {
    const uint64_t size = uint64_t(dtype_bits(tensor.dtype) / 8);
    return {file_->bytes(tensor.offset + first * size, count * size), nullptr};
  }

 private:
  std::shared_ptr<const MappedFile> file_;
};

class TorchWeightFile : public WeightFile {
 public:
  TorchWeightFile(std::shared_ptr<const MappedFile> file, const WeightFileOptions& options)
      : file_(TorchFile::open(std::move(file))), first_storage_(options.first_storage) {
    TorchWeights found = find_torch_weights(*file_, options.weights, options.model_type);
    tensors = std::move(found.tensors);
    ignored = std::move(found.ignored);
    notes = file_->notes();
    notes.insert(notes.end(), found.notes.begin(), found.notes.end());
    for (TensorInfo& tensor : tensors) {
      tensor.file = options.file;
      if (tensor.storage >= 0) tensor.storage += first_storage_;
    }
    storages = int64_t(file_->storages().size());
    for (const TorchStorage& storage : file_->storages()) storage_bytes.push_back(storage.bytes);
  }
  FileFormat format() const override { return file_->format(); }
  TensorData slice(const TensorInfo& tensor, uint64_t first, uint64_t count) const override {
    TensorInfo own = tensor;
    if (own.storage >= 0) own.storage -= first_storage_;
    return slice_torch_tensor(*file_, own, first, count);
  }

 private:
  std::unique_ptr<TorchFile> file_;
  int64_t first_storage_;
};

// A header length that fits the file, and JSON behind it: no torch file begins so.
bool looks_like_safetensors(std::string_view head, uint64_t size) {
  if (head.size() < 9 || (head[8] != '{' && head[8] != ' ')) return false;
  uint64_t length = 0;
  for (size_t i = 8; i-- > 0;) length = length << 8 | static_cast<unsigned char>(head[i]);
  return length <= size - 8 && length <= kMaxHeaderBytes;
}

[[noreturn]] void refuse_other(const MappedFile& file, std::string_view head) {
  auto [found, advice] = recognise_other_file(head);
  if (file.size() == 0) {
    found = "the file is empty (0 bytes)", advice = "Download it again.";
  } else if (looks_like_torch_tar(head)) {
    found = "a torch.save file of the time before 0.1.10 (a tar archive)";
    advice = "Load it with an old PyTorch and save its state_dict again.";
  } else if (found.empty() && head[0] == '\x80') {
    found = "a plain pickle without the marks of torch.save";
    advice = "Save the weights with torch.save(model.state_dict(), \"pytorch_model.bin\").";
  } else if (found.empty()) {
    found = "of no format that is known here", advice = "Is this the weight file?";
  }
  throw Error({file.path().string(), "", found + " (file has " + thousands(file.size()) + " bytes)",
               "a safetensors or torch.save file", advice});
}

}  // namespace

std::unique_ptr<WeightFile> WeightFile::open(const fs::path& path, const WeightFileOptions& options) {
  auto file = std::make_shared<const MappedFile>(path);
  if (path.extension() == ".distcp")
    throw Error({path.string(), "", "one piece of a distributed checkpoint",
                 "the whole weights in one format",
                 "Convert its folder: torch.distributed.checkpoint.format_utils.dcp_to_torch_save(FOLDER, "
                 "\"pytorch_model.bin\")."});
  // Under a safetensors name everything else is an error, with advice about the name.
  if (path.extension() == ".safetensors") return std::make_unique<SafetensorsFile>(std::move(file), options);
  const std::string head = file->read(0, 512);
  if (looks_like_zip(head) || looks_like_torch_legacy(head))
    return std::make_unique<TorchWeightFile>(std::move(file), options);
  if (looks_like_safetensors(head, file->size()))
    return std::make_unique<SafetensorsFile>(std::move(file), options);
  refuse_other(*file, head);
}

}  // namespace slotscope::formats
