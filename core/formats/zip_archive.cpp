#include "core/formats/zip_archive.h"

#include <minizip/unzip.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/formats/json.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {
namespace {

constexpr uint64_t kMaxMembers = 2'000'000;
// Deflate makes at most 1032 bytes of one.
constexpr uint64_t kMaxRatio = 1032;

}  // namespace

// What minizip reads from: the file by position through a small window, because minizip asks for single
// bytes. Reads nothing outside the file and knows no way to write.
struct ZipArchive::Stream {
  const MappedFile& file;
  uint64_t position = 0;
  uint64_t window_size = 64 << 10;
  uint64_t window_at = 0;
  std::string window;
  bool failed = false;

  static Stream& of(voidpf stream) { return *static_cast<Stream*>(stream); }

  static voidpf open(voidpf opaque, const void*, int mode) {
    of(opaque).position = 0;
    return (mode & ZLIB_FILEFUNC_MODE_READWRITEFILTER) == ZLIB_FILEFUNC_MODE_READ ? opaque : nullptr;
  }
  static uLong read(voidpf, voidpf stream, void* out, uLong size) {
    Stream& s = of(stream);
    uLong done = 0;
    while (done < size && s.position < s.file.size()) {
      if (s.position < s.window_at || s.position - s.window_at >= s.window.size()) {
        try {  // no exception may pass through the library's frames
          s.window = s.file.read(s.position,
                                 std::max<uint64_t>(s.window_size, std::min<uint64_t>(size - done, 1 << 20)));
        } catch (...) {
          s.window.clear();
        }
        s.window_at = s.position;
        if (s.window.empty()) {
          s.failed = true;
          break;
        }
      }
      const uint64_t in_window = s.position - s.window_at;
      const uint64_t count = std::min<uint64_t>(size - done, s.window.size() - in_window);
      std::memcpy(static_cast<char*>(out) + done, s.window.data() + in_window, count);
      s.position += count;
      done += uLong(count);
    }
    return done;
  }
  static uLong write(voidpf, voidpf, const void*, uLong) { return 0; }
  static ZPOS64_T tell(voidpf, voidpf stream) { return of(stream).position; }
  static long seek(voidpf, voidpf stream, ZPOS64_T offset, int origin) {
    Stream& s = of(stream);
    const uint64_t base = origin == ZLIB_FILEFUNC_SEEK_CUR   ? s.position
                          : origin == ZLIB_FILEFUNC_SEEK_END ? s.file.size()
                                                             : 0;
    uint64_t target = 0;
    if (__builtin_add_overflow(base, uint64_t(offset), &target) || target > s.file.size()) return -1;
    s.position = target;
    return 0;
  }
  static int close(voidpf, voidpf) { return 0; }
  static int error(voidpf, voidpf stream) { return of(stream).failed ? 1 : 0; }
};

ZipArchive::ZipArchive(const MappedFile& file) : file_(file), stream_(new Stream{file}) {
  zlib_filefunc64_def functions{Stream::open, Stream::read,  Stream::write, Stream::tell,
                                Stream::seek, Stream::close, Stream::error, stream_.get()};
  zip_ = unzOpen2_64("", &functions);
  if (!zip_)
    refuse("", "no zip directory at its end (" + thousands(file.size()) + " bytes)",
           "a whole torch.save file", "Incomplete download? Download the file again.");
  try {
    list();
  } catch (...) {
    unzClose(zip_);
    throw;
  }
  stream_->window_size = 256;  // from now on: single local headers, or members in large reads
}

ZipArchive::~ZipArchive() { unzClose(zip_); }

void ZipArchive::refuse(std::string_view member, std::string found, std::string expected,
                        std::string advice) const {
  throw Error({file_.path().string(), member.empty() ? "" : "entry '" + printable(member, 120) + "'",
               std::move(found), std::move(expected),
               advice.empty() ? "The file is damaged: download it again, or save the model again."
                              : std::move(advice)});
}

void ZipArchive::list() {
  unz_global_info64 info{};
  unzGetGlobalInfo64(zip_, &info);
  // A directory entry has at least 46 bytes.
  if (info.number_entry > kMaxMembers || info.number_entry > file_.size() / 46)
    refuse("", thousands(info.number_entry) + " entries in " + thousands(file_.size()) + " bytes",
           "at most " + thousands(std::min<uint64_t>(kMaxMembers, file_.size() / 46)));
  std::string name(65536, '\0');
  int result = info.number_entry == 0 ? UNZ_END_OF_LIST_OF_FILE : unzGoToFirstFile(zip_);
  for (uint64_t number = 0; result == UNZ_OK; ++number, result = unzGoToNextFile(zip_)) {
    unz_file_info64 entry{};
    if (unzGetCurrentFileInfo64(zip_, &entry, name.data(), uLong(name.size()), nullptr, 0, nullptr, 0) !=
        UNZ_OK)
      refuse("", "entry " + std::to_string(number) + " of the directory cannot be read", "a zip directory");
    ZipMember member;
    member.name.assign(name.data(), std::min<uint64_t>(entry.size_filename, name.size()));
    member.size = entry.uncompressed_size;
    member.packed = entry.compressed_size;
    member.crc = uint32_t(entry.crc);
    unz64_file_pos place{};
    if (unzGetFilePos64(zip_, &place) != UNZ_OK)
      refuse(member.name, "has no place", "a place in the directory");
    member.directory = place.pos_in_zip_directory;
    member.number = place.num_of_file;
    if (entry.flag & 1)
      refuse(member.name, "encrypted", "a member without a password",
             "Unpack it and save the weights again.");
    if (entry.compression_method != 0 && entry.compression_method != Z_DEFLATED)
      refuse(member.name, "packed by method " + std::to_string(entry.compression_method),
             "stored or deflated", "Unpack it and save the weights again.");
    member.deflated = entry.compression_method == Z_DEFLATED;
    add(std::move(member));
  }
  if (result != UNZ_END_OF_LIST_OF_FILE && !(members_.size() == 0xFFFF && info.number_entry == 0xFFFF))
    refuse("",
           "the directory ends after " + std::to_string(members_.size()) + " of " +
               std::to_string(info.number_entry) + " entries",
           "the whole directory");
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

void ZipArchive::add(ZipMember member) {
  const std::string& name = member.name;
  bool safe = !name.empty() && name[0] != '/' && name.find('\\') == std::string::npos &&
              name.find('\0') == std::string::npos;
  for (size_t at = 0; safe && at <= name.size();) {
    const size_t end = std::min(name.find('/', at), name.size());
    safe = name.compare(at, end - at, "..") != 0;
    at = end + 1;
  }
  if (!safe)
    refuse(name, "a name that leads out of the archive", "a path inside it", "Do not trust this file.");
  if (member.packed > file_.size() || (!member.deflated && member.packed != member.size))
    refuse(name,
           thousands(member.packed) + " bytes for " + thousands(member.size) + " in a file of " +
               thousands(file_.size()),
           "sizes that fit");
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

void ZipArchive::open_member(const ZipMember& member, bool raw) const {
  const unz64_file_pos place{member.directory, member.number};
  int method = 0, level = 0;
  stream_->failed = false;
  if (unzGoToFilePos64(zip_, &place) != UNZ_OK || unzOpenCurrentFile2(zip_, &method, &level, raw) != UNZ_OK)
    refuse(member.name, "its header does not agree with the directory", "equal headers");
}

uint64_t ZipArchive::locate(const ZipMember& member) const {
  open_member(member, true);
  const uint64_t position = unzGetCurrentFileZStreamPos64(zip_);
  unzCloseCurrentFile(zip_);
  if (position > file_.size() || member.packed > file_.size() - position)
    refuse(member.name,
           "bytes " + std::to_string(position) + " to " + std::to_string(position + member.packed),
           "a range inside the file's " + thousands(file_.size()));
  return position;
}

std::string ZipArchive::read(const ZipMember& member, uint64_t limit) const {
  if (member.size > limit)
    refuse(member.name, thousands(member.size) + " bytes", "at most " + thousands(limit));
  locate(member);
  open_member(member, false);
  std::string bytes;
  uint64_t done = 0;
  // Grows with what really comes out, not with what the header promises.
  for (uint64_t room = 64 << 10; done < member.size; room = std::min<uint64_t>(room * 2, 64 << 20)) {
    const uint64_t count = std::min(room, member.size - done);
    bytes.resize(done + count);
    const int got = unzReadCurrentFile(zip_, bytes.data() + done, unsigned(count));
    if (got <= 0) break;
    done += uint64_t(got);
  }
  unzCloseCurrentFile(zip_);  // compares the checksum, but knows nothing of archives without any
  if (done != member.size)
    refuse(member.name, "its bytes end after " + thousands(done) + " or are damaged",
           thousands(member.size) + " bytes");
  check_crc(member, crc32_of(bytes.data(), bytes.size()));
  return bytes;
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
