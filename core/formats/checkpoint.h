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
};

struct OpenOptions {
  bool ignore_index = false;     // scan all *.safetensors and not model.safetensors.index.json
};

class Checkpoint {
 public:
  // A folder, a model.safetensors file or its index file. Checks every header before anything is allocated from its numbers.
  // Throws Error. A folder with weights but without config.json opens (config() is null): file viewing needs no config.
  static std::shared_ptr<const Checkpoint> open(const std::filesystem::path& path, const OpenOptions& options = {});
  virtual ~Checkpoint() = default;

  virtual const std::filesystem::path& folder() const = 0;
  virtual const std::vector<std::filesystem::path>& files() const = 0;     // weight files
  virtual const std::vector<TensorInfo>& tensors() const = 0;              // sorted by name
  virtual const TensorInfo* find(std::string_view name) const = 0;
  // The mapped bytes. Throws Error when the file shrank since it was opened.
  virtual std::span<const std::byte> data(const TensorInfo&) const = 0;
  // Parsed config.json (Infinity and NaN tokens accepted, a repeated key is a warning and its last value counts), or null.
  virtual const nlohmann::json* config() const = 0;
  virtual const std::string& config_text() const = 0;
  virtual const std::vector<std::string>& warnings() const = 0;
  virtual const std::vector<std::string>& notes() const = 0;
  virtual uint64_t total_bytes() const = 0;
};

// Elements [first, first+count) of a tensor as double; exact for every dtype but I64/U64 beyond 2^53. Throws Error for dtypes
// that cannot be computed with (F4, F8_E8M0, C64, unknown), by name.
std::vector<double> read_values(const Checkpoint&, const TensorInfo&, uint64_t first, uint64_t count);

// SHA-256 of the sorted lines "name dtype shape" (shape as "[2,3]", one "\n" after each line), hex.
std::string tensor_digest(const Checkpoint&);

}  // namespace slotscope::formats
