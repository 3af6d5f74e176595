// A folder that appears at once: written as NAME.part, held against a second writer, renamed when it is whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace slotscope::formats {

class NewFolder {
 public:
  // Throws Error: `folder` exists (an empty one does not count; with `force` one whose files `known` all accepts), its parent cannot be
  // written, another program writes it, a rest of an interrupted writing (unless `force`).
  NewFolder(std::filesystem::path folder, bool force, bool (*known)(std::string_view name));
  // Without finish(): the part is removed.
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const std::filesystem::path& part() const { return part_; }
  // A new file in it, of `size` bytes that are set aside now where the file system can. Returns its descriptor, which is the caller's.
  int create(const std::string& name, uint64_t size);
  // Throws Error with what errno says; a full disk has its own words.
  [[noreturn]] void failed(const std::string& name, const char* what, int error) const;
  // pwrite, all of it. Thread-safe.
  void write(int descriptor, const std::string& name, const void* data, uint64_t size, uint64_t offset) const;
  // fsync and close.
  void close(int descriptor, const std::string& name) const;
  // Throws Error when the disk has less room than this.
  void require_room(uint64_t bytes) const;
  void finish();

 private:
  void check_old() const;
  void claim(bool force);
  void remove_part();

  std::filesystem::path folder_, part_;
  bool (*known_)(std::string_view);
  bool replace_ = false, claimed_ = false;
  int lock_ = -1;
};

}  // namespace slotscope::formats
