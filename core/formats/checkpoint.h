// A Hugging Face checkpoint folder: config.json and weights, listed without reading a weight (spec: architecture, bad-inputs
// B01-B15). Weights stay memory-mapped; data() is a view into the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace slotscope::formats {

enum class DType { f4, f8_e8m0, f8_e4m3, f8_e5m2, bf16, f16, f32, f64, i8, u8, i16, u16, i32, u32, i64, u64, boolean, c64, unknown };
std::string_view dtype_name(DType);   // as in safetensors: "BF16"
int dtype_bits(DType);                // 0 for unknown

struct TensorInfo {
  std::string name;
  DType dtype = DType::unknown;
  std::string dtype_text;        // as stored, also for unknown ones
  std::vector<int64_t> shape;
  uint64_t offset = 0;           // of the data in its file, bytes
  uint64_t bytes = 0;
  int file = 0;                  // position in Checkpoint::files()
  // Only torch.save files have these; a safetensors tensor is contiguous and has its bytes to itself.
  std::vector<int64_t> strides;  // elements per step of each dimension; empty: contiguous, row-major
  int64_t storage = -1;          // number of the storage that it is a view of, the same for tied tensors; -1: its own bytes
  std::string shares_with;       // the first name (in the order of tensors()) on the same storage; empty: it is the first or alone
};

enum class FileFormat { safetensors, torch_zip, torch_legacy };
std::string_view format_name(FileFormat);  // "safetensors", "torch.save (zip)", "torch.save (legacy)"

// Something in the file or folder that was left on disk, and why: optimiser state, a second candidate, a file beside the index.
struct IgnoredItem {
  std::string item;              // "optimizer", "optimizer.state.0.exp_avg", "consolidated.00.pth"
  std::string why;               // "optimiser state"
  uint64_t bytes = 0;            // of its tensors, 0 when not known
};

// Values of one tensor, row-major and little-endian whatever the file's layout is: a view into the mapped file where that is
// possible, else a copy that `owner` keeps alive.
struct TensorData {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

struct OpenOptions {
  bool ignore_index = false;     // scan all weight files and not the index
  std::string weights;           // torch.save files with several candidates ("model", "ema"): the one to take; empty: the likely one
};

class Checkpoint {
 public:
  // A folder, a .safetensors or torch.save file, or an index file. Checks every header before anything is allocated from its numbers.
  // Throws Error. A folder with weights but without config.json opens (config() is null): file viewing needs no config.
  static std::shared_ptr<const Checkpoint> open(const std::filesystem::path& path, const OpenOptions& options = {});
  virtual ~Checkpoint() = default;

  virtual const std::filesystem::path& folder() const = 0;
  virtual const std::vector<std::filesystem::path>& files() const = 0;     // weight files
  virtual const std::vector<TensorInfo>& tensors() const = 0;              // sorted by name
  virtual const TensorInfo* find(std::string_view name) const = 0;
  // The tensor's values. Throws Error when the file shrank since it was opened, or a compressed or checksummed part is damaged.
  TensorData data(const TensorInfo& tensor) const;
  // Elements [first, first + count) of it in row-major order: reads no more of the file than these. The caller keeps the range
  // inside the tensor; dtypes of whole bytes only.
  virtual TensorData slice(const TensorInfo& tensor, uint64_t first, uint64_t count) const = 0;
  // Parsed config.json (Infinity and NaN tokens accepted, a repeated key is a warning and its last value counts), or null.
  virtual const nlohmann::json* config() const = 0;
  virtual const std::string& config_text() const = 0;
  virtual const std::vector<std::string>& warnings() const = 0;
  virtual const std::vector<std::string>& notes() const = 0;
  virtual uint64_t total_bytes() const = 0;   // shared storages counted once

  virtual FileFormat format() const = 0;      // of the weight files
  virtual const std::vector<IgnoredItem>& ignored() const = 0;
  // Text entries of the files' own metadata (safetensors __metadata__), name and value.
  virtual const std::vector<std::pair<std::string, std::string>>& metadata() const = 0;
};

// Elements [first, first+count) of a tensor as double; exact for every dtype but I64/U64 beyond 2^53. Throws Error for dtypes
// that cannot be computed with (F4, F8_E8M0, C64, unknown), by name.
std::vector<double> read_values(const Checkpoint&, const TensorInfo&, uint64_t first, uint64_t count);

// SHA-256 of the sorted lines "name dtype shape" (shape as "[2,3]", one "\n" after each line), hex.
std::string tensor_digest(const Checkpoint&);

}  // namespace slotscope::formats
