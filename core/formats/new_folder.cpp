#include "core/formats/new_folder.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "core/formats/json.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {
namespace {

namespace fs = std::filesystem;

// The first entry that is no file which `known` accepts, or "".
std::string stranger_in(const fs::path& folder, bool (*known)(std::string_view)) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!known(name) || entry.is_symlink() || !entry.is_regular_file()) return name;
  }
  return {};
}

// The two folders change places, at once where the kernel can.
int exchange(const fs::path& a, const fs::path& b) {
  return int(::syscall(SYS_renameat2, AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE));
}

void sync_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);  // some file systems cannot: no error
  ::close(descriptor);
}

fs::path without_slash(fs::path path) { return path.has_filename() ? path : path.parent_path(); }

}  // namespace

NewFolder::NewFolder(fs::path folder, bool force, bool (*known)(std::string_view))
    : folder_(without_slash(std::move(folder))), known_(known) {
  part_ = folder_;
  part_ += ".part";
  const std::string name = folder_.filename().string();
  if (name.empty() || name == "." || name == "..")
    throw Error({.file = folder_.string(), .item = "folder to write", .found = "no name of its own", .expected = "the name of a new folder"});
  const fs::path parent = folder_.has_parent_path() ? folder_.parent_path() : fs::path(".");
  std::error_code ignored;
  if (!fs::is_directory(parent, ignored))
    throw Error({.file = folder_.string(), .found = "the folder " + parent.string() + " does not exist",
                 .advice = "Create it or choose another place"});
  if (::access(parent.c_str(), W_OK | X_OK) != 0)
    throw Error({.file = folder_.string(), .found = "the folder " + parent.string() + " may not be written: " + std::strerror(errno),
                 .advice = "Choose another place"});
  if (const fs::file_status status = fs::symlink_status(folder_, ignored); fs::exists(status)) {
    replace_ = true;
    const bool empty = fs::is_directory(status) && fs::is_empty(folder_, ignored);
    if (!force && !empty)
      throw Error({.file = folder_.string(), .found = fs::is_directory(status) ? "the folder exists already" : "there is a file of this name",
                   .expected = "a new name", .advice = "Choose another name, or replace a checkpoint with --force"});
    if (!fs::is_directory(status))
      throw Error({.file = folder_.string(), .found = fs::is_symlink(status) ? "a link" : "no folder", .expected = "a new name",
                   .advice = "--force replaces nothing but a checkpoint folder"});
    check_old();
  }
  claim(force);
}

void NewFolder::check_old() const {
  if (const std::string stranger = stranger_in(folder_, known_); !stranger.empty())
    throw Error({.file = folder_.string(), .item = printable(stranger), .found = "no file of a checkpoint",
                 .expected = "a folder that holds nothing else", .advice = "--force would delete it: choose another name"});
}

void NewFolder::claim(bool force) {
  if (::mkdir(part_.c_str(), 0777) != 0) {
    if (errno != EEXIST) failed("", "cannot create the folder", errno);
    std::error_code ignored;
    if (fs::is_symlink(part_, ignored) || !fs::is_directory(part_, ignored))
      throw Error({.file = part_.string(), .found = "no folder", .expected = "room for the checkpoint while it is written",
                   .advice = "Choose another name"});
  } else {
    claimed_ = true;
  }
  lock_ = ::open(part_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (lock_ < 0) failed("", "cannot open the folder", errno);
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(lock_);
    lock_ = -1;
    claimed_ = false;
    throw Error({.file = part_.string(), .found = "in use by another program", .advice = "Wait for it, or choose another name"});
  }
  if (claimed_) return;
  const auto leave = [&](Error error) {
    ::close(lock_);
    lock_ = -1;
    throw error;
  };
  if (!force)
    leave(Error({.file = part_.string(), .found = "left over from an interrupted writing",
                 .advice = "Remove it, replace it with --force, or choose another name"}));
  if (const std::string stranger = stranger_in(part_, known_); !stranger.empty())
    leave(Error({.file = part_.string(), .item = printable(stranger), .found = "no file of a checkpoint",
                 .advice = "--force would delete it: choose another name"}));
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(part_)) fs::remove(entry.path(), ignored);
  claimed_ = true;
}

NewFolder::~NewFolder() {
  if (claimed_) remove_part();
  if (lock_ >= 0) ::close(lock_);
}

void NewFolder::remove_part() {
  std::error_code ignored;
  std::vector<fs::path> files;
  for (fs::directory_iterator at(part_, ignored), end; at != end; at.increment(ignored)) files.push_back(at->path());
  for (const fs::path& file : files) fs::remove(file, ignored);
  fs::remove(part_, ignored);
}

void NewFolder::failed(const std::string& name, const char* what, int error) const {
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  throw Error({.file = (name.empty() ? part_ : part_ / name).string(),
               .found = full ? std::string("no space to write the file (") + std::strerror(error) + ")"
                             : std::string(what) + ": " + std::strerror(error),
               .expected = full ? "" : "a folder and a disk that can be written",
               .advice = full ? "Free some space or write to another disk" : "Choose another place"});
}

int NewFolder::create(const std::string& name, uint64_t size) {
  const fs::path path = part_ / name;
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) failed(name, "cannot create the file", errno);
  if (size > 0 && ::fallocate(descriptor, 0, 0, off_t(size)) != 0 && errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL) {
    const int error = errno;
    ::close(descriptor);
    failed(name, "cannot set its room aside", error);
  }
  return descriptor;
}

void NewFolder::write(int descriptor, const std::string& name, const void* data, uint64_t size, uint64_t offset) const {
  const auto* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t done = ::pwrite(descriptor, at, std::min<uint64_t>(size, 1u << 30), off_t(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) failed(name, "cannot write the file", done == 0 ? ENOSPC : errno);
    at += done;
    size -= uint64_t(done);
    offset += uint64_t(done);
  }
}

void NewFolder::close(int descriptor, const std::string& name) const {
  const int error = ::fsync(descriptor) == 0 ? 0 : errno;
  if (::close(descriptor) != 0 && error == 0) failed(name, "cannot close the file", errno);
  if (error != 0 && error != EINVAL && error != EROFS) failed(name, "cannot store the file", error);
}

void NewFolder::require_room(uint64_t bytes) const {
  struct statvfs info {};
  if (::statvfs(part_.c_str(), &info) != 0) return;
  const uint64_t room = uint64_t(info.f_bavail) * info.f_frsize;
  if (room >= bytes) return;
  throw Error({.file = folder_.string(), .item = "weights to write",
               .found = thousands(bytes) + " bytes, and no space for them: the disk has " + thousands(room) + " free",
               .advice = "Free some space or write to another disk"});
}

void NewFolder::finish() {
  sync_folder(part_);
  const fs::path parent = folder_.has_parent_path() ? folder_.parent_path() : fs::path(".");
  if (replace_) check_old();  // the writing took a while
  if (!replace_) {
    if (::rename(part_.c_str(), folder_.c_str()) != 0) {
      const int error = errno;
      if (error == ENOTEMPTY || error == EEXIST || error == ENOTDIR)
        throw Error({.file = folder_.string(), .found = "made by another program meanwhile", .advice = "Choose another name"});
      failed("", "cannot rename the folder", error);
    }
    claimed_ = false;
  } else if (exchange(part_, folder_) == 0) {
    remove_part();  // holds what was there before
    claimed_ = false;
  } else {
    fs::path old = part_;
    old += ".old";
    if (::rename(folder_.c_str(), old.c_str()) != 0) failed("", "cannot move the old folder away", errno);
    if (::rename(part_.c_str(), folder_.c_str()) != 0) {
      const int error = errno;
      ::rename(old.c_str(), folder_.c_str());
      failed("", "cannot rename the folder", error);
    }
    part_ = old;
    remove_part();
    claimed_ = false;
  }
  sync_folder(parent);
}

}  // namespace slotscope::formats
