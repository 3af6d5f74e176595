// A zip file read through minizip: the list of members from its central directory, the place of a stored
// member in the file (so that it can stay mapped), a small member's bytes. Names, sizes and counts are
// checked before they are used (bad-inputs B22).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/formats/mapped_file.h"

namespace slotscope::formats {

struct ZipMember {
  std::string name;
  uint64_t size = 0;                   // unpacked bytes
  uint64_t packed = 0;                 // bytes in the file
  uint32_t crc = 0;                    // CRC-32 of the unpacked bytes
  bool deflated = false;               // else stored
  uint64_t directory = 0, number = 0;  // its place in the central directory, for minizip
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
  ~ZipArchive();
  ZipArchive(const ZipArchive&) = delete;
  ZipArchive& operator=(const ZipArchive&) = delete;

  const std::vector<ZipMember>& members() const { return members_; }
  const ZipMember* find(std::string_view name) const;
  // False when a non-empty member has a checksum: torch.save can be told not to compute any, and then writes
  // 0 for all.
  bool without_checksums() const { return without_checksums_; }

  // Position of a member's packed bytes in the file. Reads and checks its local header. Throws Error. Not
  // thread-safe.
  uint64_t locate(const ZipMember& member) const;
  // The unpacked bytes, checksum tested. Throws Error: longer than `limit`, damaged. Not thread-safe.
  std::string read(const ZipMember& member, uint64_t limit) const;
  // Throws Error unless `crc` is the member's checksum (or the archive has none).
  void check_crc(const ZipMember& member, uint32_t crc) const;

 private:
  struct Stream;
  void list();
  void add(ZipMember member);
  void open_member(const ZipMember& member, bool raw) const;
  [[noreturn]] void refuse(std::string_view member, std::string found, std::string expected,
                           std::string advice = "") const;

  const MappedFile& file_;
  std::unique_ptr<Stream> stream_;
  void* zip_ = nullptr;  // unzFile
  std::vector<ZipMember> members_;
  std::unordered_map<std::string_view, size_t> by_name_;
  bool without_checksums_ = false;
};

// CRC-32 as zip files have it, of bytes of any length.
uint32_t crc32_of(const void* data, uint64_t count, uint32_t crc = 0);

}  // namespace slotscope::formats
