// A torch.save file without its meaning: the pickled value and the storages it refers to. Zip form
// (PyTorch 1.6 and later) and legacy form (0.1.10 to 1.5). Opening reads the directory or the pickles, no
// byte of a storage (bad-inputs B17-B22).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/formats/checkpoint.h"
#include "core/formats/mapped_file.h"
#include "core/formats/pickle.h"

namespace slotscope::formats {

// The type of a storage or tensor: torch.FloatStorage and torch.float32 are the same one.
struct TorchType {
  DType dtype = DType::unknown;
  std::string_view text;  // "F32"; "C128", "QI8", ... for those that only have a name here
  uint32_t size = 0;      // bytes of one element, 0: no such type
  uint32_t swap = 0;  // bytes that change places on a big-endian machine: half of `size` for complex numbers
};
// `name` as in a pickle: "torch.FloatStorage", "torch.cuda.HalfStorage", "torch.float8_e4m3fn".
TorchType torch_type(std::string_view name);

// Keys are short numbers; many references may share one text, so long ones are refused before they are copied.
inline constexpr size_t kMaxStorageKeyBytes = 256;

struct TorchStorage {
  std::string key;
  uint64_t offset = 0;  // of its (packed) bytes in the file
  uint64_t bytes = 0;   // unpacked
};

class TorchFile {
 public:
  // `file` is known to be one of the two forms (see looks_like_torch). Throws Error.
  static std::unique_ptr<TorchFile> open(std::shared_ptr<const MappedFile> file);
  virtual ~TorchFile() = default;

  virtual FileFormat format() const = 0;
  const PickleTree& tree() const { return tree_; }
  const std::string& path() const { return path_; }
  bool big_endian() const { return big_endian_; }
  const std::vector<std::string>& notes() const { return notes_; }

  // Number of the storage with this key; it must hold `count` elements of `type`. Throws Error: not in the
  // file, other size. The numbers count from 0 in the order of the first calls.
  int find_storage(std::string_view key, const TorchType& type, uint64_t count);
  const std::vector<TorchStorage>& storages() const { return storages_; }
  // Bytes [first, first + count) of a storage, as stored. The first call tests the checksum of the whole
  // storage or unpacks it. Throws Error. Thread-safe.
  virtual TensorData bytes(int storage, uint64_t first, uint64_t count) const = 0;

 protected:
  TorchFile(std::shared_ptr<const MappedFile> file) : file_(std::move(file)), path_(file_->path().string()) {}
  virtual int locate(std::string_view key, const TorchType& type, uint64_t count) = 0;
  [[noreturn]] void refuse(std::string item, std::string found, std::string expected,
                           std::string advice = "") const;

  std::shared_ptr<const MappedFile> file_;
  std::string path_;
  std::string text_;  // the pickle: the tree points into it
  PickleTree tree_;
  std::vector<TorchStorage> storages_;
  std::vector<std::string> notes_;
  bool big_endian_ = false;
};

std::unique_ptr<TorchFile> open_torch_zip(std::shared_ptr<const MappedFile> file);
std::unique_ptr<TorchFile> open_torch_legacy(std::shared_ptr<const MappedFile> file);

// What the first bytes of a file say.
bool looks_like_zip(std::string_view head);
bool looks_like_torch_legacy(std::string_view head);  // the magic number
bool looks_like_torch_tar(std::string_view head);     // torch.save before 0.1.10; needs 512 bytes

}  // namespace slotscope::formats
