// What a checkpoint's listing adds up to: per file, per dtype, and which tensors lie on the same memory.
// Reads the listing and the files' sizes, no weight.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/formats/checkpoint.h"

namespace slotscope::formats {

struct FileSummary {
  std::filesystem::path path;
  std::optional<uint64_t>
      bytes;                  // of the file on disk; empty when it cannot be asked (gone since it was opened)
  uint64_t tensors = 0;       // names in it
  uint64_t tensor_bytes = 0;  // of their values, tied ones once
};

struct DtypeSummary {
  std::string dtype;      // as stored: "BF16"
  uint64_t tensors = 0;   // names
  uint64_t elements = 0;  // tied ones once; 0 for a dtype of unknown width
  uint64_t bytes = 0;     // tied ones once
};

// A tensor on the storage of another one that was listed before it.
struct SharedTensor {
  size_t tensor = 0, with = 0;  // positions in Checkpoint::tensors()
  // The same elements in the same order (embedding and head); false: another view of the same memory.
  bool tied = false;
};

struct CheckpointSummary {
  std::vector<FileSummary> files;    // as Checkpoint::files()
  std::vector<DtypeSummary> dtypes;  // most bytes first, then by name
  std::vector<SharedTensor> shared;  // in the order of Checkpoint::tensors()
  uint64_t elements = 0;             // of all dtypes, tied ones once
};

// True when both name the same elements: same storage, offset, dtype, shape and strides.
bool same_elements(const TensorInfo& a, const TensorInfo& b);
// Names for OpenOptions::weights when a file holds several sets of weights: the one that was taken ("": the
// top level of the file), then the others. Empty when there is nothing to choose.
std::vector<std::string> weight_candidates(const Checkpoint& checkpoint);
// One pass over the listing and one stat per file. Never throws for what the files hold.
CheckpointSummary summarise_listing(const Checkpoint& checkpoint);

}  // namespace slotscope::formats
