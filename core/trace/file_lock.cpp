#include "core/trace/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace slotscope::trace {
namespace {

std::atomic<int (*)(int, int)> stand_in{nullptr};

// Takes the exclusive lock without waiting. When the user has HDF5 lock by itself
// (HDF5_USE_FILE_LOCKING=TRUE), HDF5 calls flock on its own descriptor of the same file, which our flock
// would refuse: a byte-range lock of the open file description then stands in, because the two kinds do not
// see each other.
int lock_now(int descriptor, bool hdf5_locks) {
  if (const auto lock = stand_in.load()) return lock(descriptor, LOCK_EX | LOCK_NB);
  if (!hdf5_locks) return flock(descriptor, LOCK_EX | LOCK_NB);
#ifdef F_OFD_SETLK
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  return fcntl(descriptor, F_OFD_SETLK, &range);
#else
  return 0;
#endif
}

}  // namespace

void set_flock_for_tests(int (*lock)(int, int)) { stand_in = lock; }

LockWish lock_wish() {
  const char* value = std::getenv("HDF5_USE_FILE_LOCKING");
  if (!value || !*value) return LockWish::unset;
  return !std::strcmp(value, "FALSE") || !std::strcmp(value, "0") ? LockWish::never : LockWish::always;
}

FileLock::FileLock(const std::filesystem::path& file, std::vector<std::string>& warnings) {
  const std::string name = file.string();
  for (int attempt = 0; attempt < 100; ++attempt) {
    descriptor_ = open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor_ < 0) {
      const int error = errno;
      if (error == ENOSPC || error == EDQUOT)
        throw Error({.file = name,
                     .found = std::string("cannot create the file: ") + std::strerror(error),
                     .advice = "Free some space or write to another disk with --out"});
      throw Error({.file = name,
                   .found = std::string("cannot create the file: ") + std::strerror(error),
                   .expected = "a folder that may be written",
                   .advice = "Choose another place with --out"});
    }
    if (lock_wish() == LockWish::never) return;
    if (lock_now(descriptor_, lock_wish() == LockWish::always) != 0) {
      const int error = errno;
      if (error == EWOULDBLOCK || error == EAGAIN || error == EACCES) {
        close(std::exchange(descriptor_, -1));
        throw Error({.file = name,
                     .found = "in use by another program",
                     .advice = "Wait until that run has ended, or choose another --out"});
      }
      warnings.push_back(name + ": this file system has no locks (" + std::strerror(error) +
                         "); going on without one. Make sure that no other program writes the same file");
      return;
    }
    // Between open and lock the other writer may have renamed the file away: then this descriptor is its
    // finished trace.
    struct stat ours {
    }, named{};
    if (fstat(descriptor_, &ours) == 0 && stat(name.c_str(), &named) == 0 && ours.st_ino == named.st_ino &&
        ours.st_dev == named.st_dev)
      return;
    close(std::exchange(descriptor_, -1));
  }
  throw Error({.file = name, .found = "in use by another program", .advice = "Choose another --out"});
}

void FileLock::share() {
  // With HDF5_USE_FILE_LOCKING=TRUE the claim is a byte-range lock, which no reader's flock minds.
  if (descriptor_ >= 0 && lock_wish() == LockWish::unset && !stand_in.load())
    flock(descriptor_, LOCK_SH | LOCK_NB);
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

std::string network_file_system(const std::filesystem::path& folder) {
  struct statfs info {};
  if (statfs(folder.c_str(), &info) != 0) return {};
  switch (static_cast<uint32_t>(info.f_type)) {
    case 0x6969:
      return "NFS";
    case 0x517b:
    case 0xff534d42u:
    case 0xfe534d42u:
      return "SMB";
    case 0x65735546:
      return "FUSE";
    case 0x01021997:
      return "9P";
    case 0x00c36400:
      return "Ceph";
    case 0x0bd00bd0:
      return "Lustre";
    case 0x47504653:
      return "GPFS";
    case 0x5346414f:
    case 0x6b414653:
      return "AFS";
    case 0x73757245:
      return "Coda";
    case 0x19830326:
      return "BeeGFS";
    default:
      return {};
  }
}

int sync_path(const std::filesystem::path& path, bool folder) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | (folder ? O_DIRECTORY : 0));
  if (descriptor < 0) return folder ? 0 : errno;
  const int error = fsync(descriptor) == 0 ? 0 : errno;
  close(descriptor);
  return folder && (error == EINVAL || error == EROFS || error == ENOTSUP) ? 0 : error;
}

}  // namespace slotscope::trace
