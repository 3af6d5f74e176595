#include "core/formats/zip_archive.h"

#include <zlib.h>

#include <algorithm>

#include "core/error.h"
#include "core/formats/json.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {
namespace {

constexpr uint64_t kMaxMembers = 2'000'000;
constexpr uint64_t kMaxDirectoryBytes = 1ull << 30;
constexpr uint64_t kMaxRatio = 1032;  // deflate makes at most so many bytes of one
constexpr uint64_t kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20, kEntryBytes = 46, kLocalBytes = 30;
constexpr uint64_t kSaturated = 0xFFFFFFFF;  // "see the zip64 field"

// Numbers of a record, little-endian. The caller has checked that they are there.
uint64_t number(std::string_view record, size_t at, int bytes) {
  uint64_t value = 0;
  for (int i = bytes - 1; i >= 0; --i)
    value = value << 8 | static_cast<unsigned char>(record[at + size_t(i)]);
  return value;
}

// The zip64 extra field: the numbers that are saturated in the entry itself, in this order. False when one is
// missing.
bool read_zip64(std::string_view extra, uint64_t& size, uint64_t& packed, uint64_t& header) {
  std::string_view field;
  while (extra.size() >= 4) {
    const uint64_t length = number(extra, 2, 2);
    if (length > extra.size() - 4) break;
    if (number(extra, 0, 2) == 1) {
      field = extra.substr(4, length);
      break;
    }
    extra.remove_prefix(4 + length);
  }
  for (uint64_t* value : {&size, &packed, &header}) {
    if (*value != kSaturated) continue;
    if (field.size() < 8) return false;
    *value = number(field, 0, 8);
    field.remove_prefix(8);
  }
  return true;
}

bool is_safe_name(std::string_view name) {
  if (name.empty() || name[0] == '/' || name.find('\\') != std::string_view::npos ||
      name.find('\0') != std::string_view::npos)
    return false;
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find('/', at), name.size());
    if (name.substr(at, end - at) == "..") return false;
    at = end + 1;
  }
  return true;
}

}  // namespace

ZipArchive::ZipArchive(const MappedFile& file) : file_(file) {
  const Directory directory = find_directory();
  data_end_ = directory.begin;
  list(directory);
  bool any = false;
  without_checksums_ = true;
  for (size_t i = 0; i < members_.size(); ++i) {
    if (!by_name_.emplace(members_[i].name, i).second)
      refuse(members_[i].name, "there are two entries of this name", "each name once",
             "Two programs could read two different models from it: save the model again.");
    any |= members_[i].size > 0;
    without_checksums_ &= members_[i].size == 0 || members_[i].crc == 0;
  }
  without_checksums_ &= any;
}

void ZipArchive::refuse(std::string_view member, std::string found, std::string expected,
                        std::string advice) const {
  throw Error({file_.path().string(), member.empty() ? "" : "entry '" + printable(member, 120) + "'",
               std::move(found), std::move(expected),
               advice.empty() ? "The file is damaged: download it again, or save the model again."
                              : std::move(advice)});
}

// The end record stands at the very end, behind it only its comment; before it, in zip64, a locator and a
// longer record.
ZipArchive::Directory ZipArchive::find_directory() const {
  const uint64_t size = file_.size(), window = std::min<uint64_t>(size, kEndBytes + 0xFFFF);
  const std::string tail = file_.read(size - window, window);
  size_t at = std::string::npos;
  if (tail.size() == window && window >= kEndBytes)
    for (size_t i = tail.size() - kEndBytes + 1; i-- > 0 && at == std::string::npos;)
      if (tail.compare(i, 4, "PK\x05\x06") == 0 && number(tail, i + 20, 2) == tail.size() - i - kEndBytes)
        at = i;
  if (at == std::string::npos)
    refuse("", "no zip directory at its end (" + thousands(size) + " bytes)", "a whole torch.save file",
           "Incomplete download? Download the file again.");
  const std::string_view record = std::string_view(tail).substr(at, kEndBytes);
  Directory found{number(record, 10, 2), number(record, 12, 4), number(record, 16, 4)};
  uint64_t end = size - window + at;
  if (number(record, 4, 2) != 0 || number(record, 6, 2) != 0)
    refuse("", "one of several parts of an archive", "a whole archive", "Join the parts first.");
  if (end >= kLocatorBytes + kEnd64Bytes) {
    const std::string locator = file_.read(end - kLocatorBytes, kLocatorBytes);
    if (locator.compare(0, 4, "PK\x06\x07") == 0) {
      const uint64_t place = number(locator, 8, 8);
      if (place > end - kLocatorBytes - kEnd64Bytes)
        refuse("", "a zip64 record at byte " + std::to_string(place),
               "one before byte " + std::to_string(end));
      const std::string record64 = file_.read(place, kEnd64Bytes);
      if (record64.size() != kEnd64Bytes || record64.compare(0, 4, "PK\x06\x06") != 0)
        refuse("", "no zip64 record at byte " + std::to_string(place), "one");
      const Directory wide{number(record64, 32, 8), number(record64, 40, 8), number(record64, 48, 8)};
      const auto agree = [](uint64_t narrow, uint64_t value, uint64_t most) {
        return narrow == std::min(value, most);
      };
      // Some writers saturate all three as soon as one needs it.
      const bool saturated = found.count == 0xFFFF || found.bytes == kSaturated || found.begin == kSaturated;
      if (!saturated &&
          !(agree(found.count, wide.count, 0xFFFF) && agree(found.bytes, wide.bytes, kSaturated) &&
            agree(found.begin, wide.begin, kSaturated)))
        refuse("", "two end records that differ", "equal numbers");
      found = wide;
      end = place;
    }
  }
  if (found.begin > end || found.bytes != end - found.begin)
    refuse("", "a directory of " + thousands(found.bytes) + " bytes at byte " + std::to_string(found.begin),
           "one that ends at byte " + std::to_string(end));
  return found;
}

void ZipArchive::list(const Directory& directory) {
  if (directory.count > kMaxMembers || directory.bytes > kMaxDirectoryBytes ||
      directory.count > directory.bytes / kEntryBytes)
    refuse("",
           thousands(directory.count) + " entries in a directory of " + thousands(directory.bytes) + " bytes",
           "at most " + thousands(std::min(kMaxMembers, directory.bytes / kEntryBytes)));
  const std::string text = file_.read(directory.begin, directory.bytes);
  std::string_view rest = text;
  for (uint64_t i = 0; i < directory.count; ++i) {
    if (rest.size() < kEntryBytes || !rest.starts_with("PK\x01\x02"))
      refuse("",
             "the directory ends after " + std::to_string(i) + " of " + std::to_string(directory.count) +
                 " entries",
             "the whole directory");
    const uint64_t name_bytes = number(rest, 28, 2), extra_bytes = number(rest, 30, 2);
    const uint64_t all = kEntryBytes + name_bytes + extra_bytes + number(rest, 32, 2);
    if (all > rest.size()) refuse("", "entry " + std::to_string(i) + " is cut off", "the whole directory");
    ZipMember member;
    member.name = rest.substr(kEntryBytes, name_bytes);
    member.crc = uint32_t(number(rest, 16, 4));
    member.packed = number(rest, 20, 4), member.size = number(rest, 24, 4),
    member.header = number(rest, 42, 4);
    if (!read_zip64(rest.substr(kEntryBytes + name_bytes, extra_bytes), member.size, member.packed,
                    member.header))
      refuse(member.name, "its zip64 numbers are missing", "sizes and a place");
    const uint64_t method = number(rest, 10, 2);
    if (number(rest, 8, 2) & 1)
      refuse(member.name, "encrypted", "a member without a password",
             "Unpack it and save the weights again.");
    if (method != 0 && method != Z_DEFLATED)
      refuse(member.name, "packed by method " + std::to_string(method), "stored or deflated",
             "Unpack it and save the weights again.");
    member.deflated = method == Z_DEFLATED;
    add(std::move(member));
    rest.remove_prefix(all);
  }
  if (!rest.empty())
    refuse("", thousands(rest.size()) + " bytes behind the last entry of the directory", "the end record");
}

void ZipArchive::add(ZipMember member) {
  const std::string& name = member.name;
  if (!is_safe_name(name))
    refuse(name, "a name that leads out of the archive", "a path inside it", "Do not trust this file.");
  if (member.header > data_end_ || data_end_ - member.header < kLocalBytes + name.size() ||
      member.packed > data_end_ - member.header || (!member.deflated && member.packed != member.size))
    refuse(name,
           thousands(member.packed) + " bytes for " + thousands(member.size) + " at byte " +
               std::to_string(member.header),
           "sizes that fit the file's " + thousands(file_.size()) + " bytes");
  if (member.deflated && (member.size > kMaxUnpackedBytes || member.size / kMaxRatio > member.packed))
    refuse(name, "unpacks from " + thousands(member.packed) + " to " + thousands(member.size) + " bytes",
           "at most " + thousands(std::min(kMaxUnpackedBytes, member.packed * kMaxRatio)),
           "torch.save stores weights as they are: unpack it and save the model again.");
  members_.push_back(std::move(member));
}

const ZipMember* ZipArchive::find(std::string_view name) const {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : &members_[at->second];
}

uint64_t ZipArchive::locate(const ZipMember& member) const {
  const std::string local = file_.read(member.header, kLocalBytes + member.name.size());
  if (local.size() != kLocalBytes + member.name.size() || local.compare(0, 4, "PK\x03\x04") != 0 ||
      number(local, 26, 2) != member.name.size() ||
      local.compare(kLocalBytes, std::string::npos, member.name) != 0 ||
      number(local, 8, 2) != (member.deflated ? Z_DEFLATED : 0) || (number(local, 6, 2) & 1))
    refuse(member.name,
           "its header at byte " + std::to_string(member.header) + " does not agree with the directory",
           "the same name and method");
  const uint64_t begin = member.header + local.size() + number(local, 28, 2);
  if (begin > data_end_ || member.packed > data_end_ - begin)
    refuse(member.name, "bytes " + std::to_string(begin) + " to " + std::to_string(begin + member.packed),
           "a range before the directory at byte " + std::to_string(data_end_));
  return begin;
}

std::string ZipArchive::read(const ZipMember& member, uint64_t limit) const {
  if (member.size > limit)
    refuse(member.name, thousands(member.size) + " bytes", "at most " + thousands(limit));
  std::string bytes = member.deflated ? inflate_member(member) : file_.read(locate(member), member.size);
  if (bytes.size() != member.size)
    refuse(member.name, "its bytes end after " + thousands(bytes.size()) + " or are damaged",
           thousands(member.size) + " bytes");
  check_crc(member, crc32_of(bytes.data(), bytes.size()));
  return bytes;
}

// All that can be unpacked up to the promised size; one byte more when there is more. Memory grows with what
// comes out, not with what the directory promises.
std::string ZipArchive::inflate_member(const ZipMember& member) const {
  constexpr uint64_t kPiece = 1 << 20;
  struct Inflater {
    z_stream stream{};
    Inflater() {
      if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
    }
    ~Inflater() { inflateEnd(&stream); }
  } inflater;
  z_stream& stream = inflater.stream;
  uint64_t position = locate(member), left = member.packed, done = 0;
  std::string in, out;
  int result = Z_OK;
  while (result == Z_OK && done <= member.size) {
    if (stream.avail_in == 0) {
      in = file_.read(position, std::min(kPiece, left));
      if (in.empty()) break;
      position += in.size(), left -= in.size();
      stream.next_in = reinterpret_cast<Bytef*>(in.data());
      stream.avail_in = uInt(in.size());
    }
    out.resize(std::min(done + kPiece, member.size + 1));
    const auto room = uInt(out.size() - done);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + done);
    stream.avail_out = room;
    result = inflate(&stream, Z_NO_FLUSH);
    done += room - stream.avail_out;
    if (result == Z_BUF_ERROR && stream.avail_in == 0) result = Z_OK;  // wants more input
  }
  out.resize(done);
  if (result != Z_STREAM_END && done <= member.size)
    refuse(member.name, "its packed bytes are damaged, or end after " + thousands(done) + " unpacked ones",
           thousands(member.size) + " bytes");
  return out;
}

void ZipArchive::check_crc(const ZipMember& member, uint32_t crc) const {
  if (crc == member.crc || without_checksums_) return;
  static const char* digits = "0123456789abcdef";
  const auto hex = [](uint32_t value) {
    std::string text;
    for (int shift = 28; shift >= 0; shift -= 4) text += digits[value >> shift & 15];
    return text;
  };
  refuse(member.name, "checksum " + hex(crc) + " (CRC-32)", hex(member.crc) + " as the file says");
}

uint32_t crc32_of(const void* data, uint64_t count, uint32_t crc) {
  return uint32_t(crc32_z(crc, static_cast<const Bytef*>(data), count));
}

}  // namespace slotscope::formats
