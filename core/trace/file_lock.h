// The writer's claim on NAME.part, and what the file system below can do. Viewing never locks.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace slotscope::trace {

// What the user asked of HDF5 with HDF5_USE_FILE_LOCKING.
enum class LockWish { unset, never, always };
LockWish lock_wish();

// Creates (or opens) the file and holds it against a second writer until destroyed. Throws Error when another
// program holds it; a file system without locks adds a line to `warnings` and goes on.
class FileLock {
 public:
  FileLock(const std::filesystem::path& file, std::vector<std::string>& warnings);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  // From an exclusive to a shared claim: other programs that lock for reading (h5py does) may look on, a
  // writer still may not.
  void share();
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

// Stands in for flock(2) until called with null: tests of drives that have no locks.
void set_flock_for_tests(int (*lock)(int descriptor, int operation));

// "NFS", "SMB", "FUSE", ... when the folder lies on a file system where SWMR is not safe; else empty.
std::string network_file_system(const std::filesystem::path& folder);

// fsync of a file or folder; a folder that cannot be synced (some file systems) is no error. Returns 0 or
// errno.
int sync_path(const std::filesystem::path& path, bool folder);

}  // namespace slotscope::trace
