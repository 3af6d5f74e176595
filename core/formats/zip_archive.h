// A zip file: the list of members from its central directory (zip64 too), the place of a stored member in the
// file (so that it can stay mapped), a member's bytes. Names, sizes and counts are checked before they are
// used (bad-inputs B22). The directory is read here and zlib inflates: minizip 1.1, as Debian 12 and
// Ubuntu 24.04 have it, does not understand the sizes and places of zip64 on 64-bit machines, so that it
// fails on every file over 4 GiB.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/formats/mapped_file.h"

namespace slotscope::formats {

struct ZipMember {
  std::string name;
  uint64_t size = 0;      // unpacked bytes
  uint64_t packed = 0;    // bytes in the file
  uint64_t header = 0;    // position of its local header
  uint32_t crc = 0;       // CRC-32 of the unpacked bytes
  bool deflated = false;  // else stored
};

// One member is unpacked to at most this many bytes.
inline constexpr uint64_t kMaxUnpackedBytes = 4ull << 30;

class ZipArchive {
 public:
  // Reads the end record and the central directory, nothing else. Throws Error: no zip file, cut off, two
  // members of one name, a name that leaves the archive ("../x", "/x"), an encrypted member, a method that is
  // neither stored nor deflate, sizes that are impossible or over kMaxUnpackedBytes unpacked. `file` must
  // outlive the archive.
  explicit ZipArchive(const MappedFile& file);
  ZipArchive(const ZipArchive&) = delete;
  ZipArchive& operator=(const ZipArchive&) = delete;

  const std::vector<ZipMember>& members() const { return members_; }
  const ZipMember* find(std::string_view name) const;
  // True when no member has a checksum: torch.save can be told not to compute any, and then writes 0 for all.
  bool without_checksums() const { return without_checksums_; }

  // Position of a member's packed bytes in the file. Reads its local header (30 bytes and the name) and
  // compares it with the directory. Throws Error.
  uint64_t locate(const ZipMember& member) const;
  // The unpacked bytes, checksum tested. Throws Error: longer than `limit`, damaged.
  std::string read(const ZipMember& member, uint64_t limit) const;
  // Throws Error unless `crc` is the member's checksum (or the archive has none).
  void check_crc(const ZipMember& member, uint32_t crc) const;

 private:
  struct Directory {
    uint64_t count = 0, bytes = 0, begin = 0;
  };
  Directory find_directory() const;
  void list(const Directory& directory);
  void add(ZipMember member);
  std::string inflate_member(const ZipMember& member) const;
  [[noreturn]] void refuse(std::string_view member, std::string found, std::string expected,
                           std::string advice = "") const;

  const MappedFile& file_;
  std::vector<ZipMember> members_;
  std::unordered_map<std::string_view, size_t> by_name_;
  uint64_t data_end_ = 0;  // where the directory begins
  bool without_checksums_ = false;
};

// CRC-32 as zip files have it, of bytes of any length.
uint32_t crc32_of(const void* data, uint64_t count, uint32_t crc = 0);

}  // namespace slotscope::formats
