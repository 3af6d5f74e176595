#include "core/formats/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/error.h"

namespace slotscope::formats {

MappedFile::MappedFile(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ =
      ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // O_NONBLOCK: a pipe must not hang us
  if (descriptor_ < 0)
    throw Error({path_.string(), "", std::string("cannot be opened: ") + std::strerror(errno),
                 "a readable file", ""});
  struct stat info {};
  if (::fstat(descriptor_, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(descriptor_);
    throw Error({path_.string(), "", "not a regular file", "a file", ""});
  }
  size_ = uint64_t(info.st_size);
  if (size_ == 0) return;
  // Mapped once at the start so that the object is immutable afterwards; no page is read by this.
  void* map = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor_, 0);
  if (map == MAP_FAILED) {
    const int reason = errno;
    ::close(descriptor_);
    throw Error({path_.string(), "", std::string("cannot be mapped: ") + std::strerror(reason),
                 "a file that can be mapped", "Copy it to a local disk."});
  }
  map_ = static_cast<const std::byte*>(map);
}

MappedFile::~MappedFile() {
  if (map_) ::munmap(const_cast<std::byte*>(map_), size_);
  ::close(descriptor_);
}

std::string MappedFile::read(uint64_t offset, uint64_t count) const {
  if (offset >= size_) return {};
  count = std::min(count, size_ - offset);
  std::string out(count, '\0');
  uint64_t done = 0;
  while (done < count) {  // one call returns at most 2,147,479,552 bytes on Linux
    const ssize_t n = ::pread(descriptor_, out.data() + done, std::min<uint64_t>(count - done, 1u << 30),
                              off_t(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      throw Error({path_.string(), "", std::string("cannot be read: ") + std::strerror(errno), "", ""});
    if (n == 0) break;
    done += uint64_t(n);
  }
  out.resize(done);
  return out;
}

std::span<const std::byte> MappedFile::bytes(uint64_t offset, uint64_t count) const {
  if (offset > size_ || count > size_ - offset)
    throw Error({path_.string(), "",
                 "bytes " + std::to_string(offset) + " to " + std::to_string(offset + count),
                 "a range inside its " + std::to_string(size_) + " bytes", ""});
  struct stat info {};
  if (::fstat(descriptor_, &info) != 0 || uint64_t(info.st_size) < offset + count)
    throw Error({path_.string(), "",
                 "the file shrank to " + std::to_string(uint64_t(info.st_size)) + " bytes while it was open",
                 "its " + std::to_string(size_) + " bytes",
                 "Do not overwrite a checkpoint in use; open it again."});
  return {map_ + offset, size_t(count)};
}

void release_pages(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const auto page = uintptr_t(::sysconf(_SC_PAGESIZE));
  // Whole pages, also where neighbours have a part of them: they only have to be mapped again.
  const uintptr_t begin = reinterpret_cast<uintptr_t>(bytes.data()) / page * page;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(bytes.data()) + bytes.size() + page - 1) / page * page;
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace slotscope::formats
