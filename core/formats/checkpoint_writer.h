// Writes a checkpoint folder: config.json, model.safetensors (or shards with their index), tokenizer files. Weights come piece by
// piece and go to the disk as they come; a folder is written as NAME.part and renamed, so that NAME is never half a checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/formats/checkpoint.h"
#include "core/progress.h"

namespace slotscope::formats {

struct TensorToWrite {
  std::string name;
  std::string dtype;  // as in safetensors: "BF16"; what is not known here is written as it stands
  std::vector<int64_t> shape;
  uint64_t bytes = 0;
};
// Throws Error for sizes that are negative, too large or no whole number of bytes.
TensorToWrite tensor_to_write(std::string name, DType dtype, std::vector<int64_t> shape);

struct CheckpointContent {
  std::vector<TensorToWrite> tensors;  // shards are cut in this order
  // The bytes [first, first + out.size()) of tensor number `index`. Called from several threads; a piece begins and ends at a whole
  // element.
  std::function<void(size_t index, uint64_t first, std::span<std::byte> out)> read;
  std::vector<std::pair<std::string, std::string>> texts;    // name and content: {"config.json", "{...}"}
  std::vector<std::filesystem::path> copies;                 // files that get a copy under their own name
  std::vector<std::pair<std::string, std::string>> metadata = {{"format", "pt"}};  // __metadata__ of every weight file
};

struct CheckpointWriteOptions {
  uint64_t shard_bytes = 5'000'000'000;  // of tensors in a file, at most, unless one tensor alone has more
  bool force = false;                    // replace a folder that holds nothing but files of a checkpoint
  int threads = 0;                       // 0: one per core, at most 16
};

struct WrittenCheckpoint {
  std::vector<std::string> files;  // names of all files, weight files first
  uint64_t bytes = 0;              // of the tensors
};

// Stage "writing weights", in bytes. Throws Error: the folder exists, too little room on the disk (both numbers), a full disk, names
// that contradict each other, cancelled; what was there before stays and nothing else is left behind.
WrittenCheckpoint write_checkpoint(const std::filesystem::path& folder, const CheckpointContent& content,
                                   const CheckpointWriteOptions& options, Progress& progress);

// All tensors of an open checkpoint bit for bit, whatever its format, with its config.json and the tokenizer files beside it.
WrittenCheckpoint copy_checkpoint(const Checkpoint& checkpoint, const std::filesystem::path& folder,
                                  const CheckpointWriteOptions& options, Progress& progress);

// The head of a safetensors file, its eight bytes of length included, padded with blanks to a multiple of eight: the bytes that the
// reference library (0.8.0) writes. `order` becomes the tensors' order in the file: wide dtypes first, then by name; their data touch.
// Throws Error for names that appear twice, are "__metadata__" or no UTF-8.
std::string safetensors_head(const std::vector<TensorToWrite>& tensors, const std::vector<std::pair<std::string, std::string>>& metadata,
                             std::vector<size_t>& order);

// Names of tokenizer files that belong to a checkpoint: tokenizer.json, vocab.json ...
const std::vector<std::string>& tokenizer_file_names();

}  // namespace slotscope::formats
