// A regular file opened for reading: read by position, or mapped. Never blocks on a pipe, never locks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace slotscope::formats {

class MappedFile {
 public:
  // Throws Error when the path cannot be opened or is no regular file.
  explicit MappedFile(std::filesystem::path path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  uint64_t size() const { return size_; }  // when it was opened
  // Bytes [offset, offset + count) copied; stops at the end of the file. `count` is first limited by the
  // file's size.
  std::string read(uint64_t offset, uint64_t count) const;
  // The mapped bytes [offset, offset + count). Throws Error when the range is outside the file or the file
  // is shorter now than when it was opened: touching such a page would end the
  // program. (Between this check and the reading a race remains; only a copy of the file would close it.)
  std::span<const std::byte> bytes(uint64_t offset, uint64_t count) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
  const std::byte* map_ = nullptr;
};

// Gives the pages that hold `bytes`, a part of a MappedFile, back to the system: they stop counting as memory of this program
// and are read again when they are touched. Bytes of anything but such a mapping would be lost: TensorData with an owner is none.
void release_pages(std::span<const std::byte> bytes);

}  // namespace slotscope::formats
