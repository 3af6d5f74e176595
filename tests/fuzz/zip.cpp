// A zip file as torch.save writes it: directory, members, and the pickle in it.
#include <zlib.h>

#include <cstring>

#include "core/error.h"
#include "core/formats/pickle.h"
#include "core/formats/zip_archive.h"
#include "tests/fuzz/fuzz.h"

namespace slotscope::fuzz {
namespace {

using namespace slotscope::formats;

constexpr uint64_t kMostUnpacked = 1 << 20;

void read_members(const ZipArchive& archive, uint64_t size) {
  for (const ZipMember& member : archive.members()) {
    require(archive.find(member.name) == &member, "a member is found by its name");
    require(!member.name.empty() && member.name[0] != '/' && member.name.find("../") != 0, "no name leads out of the archive");
    try {
      const uint64_t at = archive.locate(member);
      require(at <= size && member.packed <= size - at, "a member lies inside the file");
      const std::string bytes = archive.read(member, kMostUnpacked);
      require(bytes.size() == member.size, "a member has the size of the directory");
      require(archive.without_checksums() || crc32_of(bytes.data(), bytes.size()) == member.crc, "its checksum was tested");
      if (member.name.ends_with("data.pkl")) unpickle(bytes, {.max_values = 200'000});
    } catch (const Error& error) {
      require(std::strlen(error.what()) > 20, "an error says what is wrong");
    }
  }
}

uint32_t number_at(const uint8_t* data, int bytes) {
  uint32_t value = 0;
  for (int i = bytes - 1; i >= 0; --i) value = value << 8 | data[i];
  return value;
}

void put_number(uint8_t* data, int bytes, uint64_t value) {
  for (int i = 0; i < bytes; ++i) data[i] = uint8_t(value >> (8 * i));
}

}  // namespace

void run_zip(Bytes input) {
  static const std::filesystem::path path = scratch_folder() / "archive.zip";
  write_file(path, text_of(input));
  try {
    const MappedFile file(path);
    read_members(ZipArchive(file), input.size());
  } catch (const Error& error) {
    require(std::strlen(error.what()) > path.string().size(), "an error says more than the file's name");
  }
}

// The end record is made to fit the directory before it, and the checksums of stored members to fit their bytes.
size_t repair_zip(uint8_t* data, size_t size, size_t) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t end = text.rfind("PK\x05\x06");
  const size_t first = text.find("PK\x01\x02");
  if (end == std::string_view::npos || first == std::string_view::npos || first > end || end + 22 > size) return size;
  size_t count = 0;
  for (size_t at = first; at < end && at != std::string_view::npos; at = text.find("PK\x01\x02", at + 4)) {
    ++count;
    if (at + 46 > size) break;
    const uint64_t local = number_at(data + at + 42, 4), packed = number_at(data + at + 20, 4);
    if (number_at(data + at + 10, 2) != 0 || local + 30 > size || number_at(data + local, 4) != 0x04034b50) continue;
    const uint64_t begin = local + 30 + number_at(data + local + 26, 2) + number_at(data + local + 28, 2);
    if (begin > size || packed > size - begin) continue;
    const uint32_t crc = uint32_t(crc32(0, data + begin, uInt(packed)));
    put_number(data + at + 16, 4, crc);
    put_number(data + local + 14, 4, crc);
  }
  put_number(data + end + 8, 2, count);
  put_number(data + end + 10, 2, count);
  put_number(data + end + 12, 4, end - first);
  put_number(data + end + 16, 4, first);
  return size;
}

}  // namespace slotscope::fuzz
