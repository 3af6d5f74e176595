// How much of a file was read: bytes that this process read with system calls, and pages of the file that are in memory
// because somebody, this process or another, touched them. For files that were made with holes, which are in memory only
// when they are read.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

namespace slotscope::testing {

// Bytes given to this process by read, pread and their kin so far; empty where the system does not say.
inline std::optional<uint64_t> bytes_read() {
  std::ifstream io("/proc/self/io");
  for (std::string key; io >> key;) {
    uint64_t value = 0;
    io >> value;
    if (key == "rchar:") return value;
  }
  return std::nullopt;
}

// Bytes of the file that are in memory, in whole pages; empty where the system does not say.
inline std::optional<uint64_t> bytes_in_memory(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat info {};
  if (file < 0 || ::fstat(file, &info) != 0) return std::nullopt;
  const auto size = size_t(info.st_size);
  void* map = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
  ::close(file);
  if (map == MAP_FAILED) return std::nullopt;
  const auto page = size_t(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((size + page - 1) / page);
  const bool known = ::mincore(map, size, pages.data()) == 0;
  ::munmap(map, size);
  if (!known) return std::nullopt;
  uint64_t bytes = 0;
  for (const unsigned char state : pages) bytes += (state & 1) * page;
  return bytes;
}

// A file of `size` bytes that is a hole behind `head` and before `tail`. False where the file system cannot hold it.
inline bool make_sparse(const std::filesystem::path& path, const std::string& head, uint64_t size, const std::string& tail = "") {
  const int file = ::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  if (file < 0) return false;
  const bool made = ::ftruncate(file, off_t(size)) == 0 && ::pwrite(file, head.data(), head.size(), 0) == ssize_t(head.size()) &&
                    ::pwrite(file, tail.data(), tail.size(), off_t(size - tail.size())) == ssize_t(tail.size());
  ::close(file);
  return made;
}

}  // namespace slotscope::testing
