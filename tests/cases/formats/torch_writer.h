// Writes pickles, zip archives and torch.save files for the cases, byte by byte, so that every field can be made wrong.
#pragma once

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace slotscope::testing {

inline std::string le(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += char(value >> (8 * i) & 0xFF);
  return text;
}

// Pieces of a pickle. A whole one is pickle(value): protocol 2, value, STOP.
namespace pkl {
inline std::string none() { return "N"; }
inline std::string boolean(bool v) { return v ? "\x88" : "\x89"; }
inline std::string integer(int64_t v) {
  if (v >= 0 && v < 256) return "K" + le(uint64_t(v), 1);
  if (v >= INT32_MIN && v <= INT32_MAX) return "J" + le(uint64_t(v), 4);
  return "\x8a\x08" + le(uint64_t(v), 8);
}
inline std::string real(double v) {
  uint64_t bits;
  std::memcpy(&bits, &v, 8);
  return "G" + le(__builtin_bswap64(bits), 8);
}
inline std::string text(std::string_view v) { return "X" + le(v.size(), 4) + std::string(v); }
inline std::string join(const std::vector<std::string>& items) {
  std::string all;
  for (const auto& item : items) all += item;
  return all;
}
inline std::string tuple(const std::vector<std::string>& items) { return "(" + join(items) + "t"; }
inline std::string list(const std::vector<std::string>& items) { return "](" + join(items) + "e"; }
inline std::string global(std::string_view module, std::string_view name) {
  return "c" + std::string(module) + "\n" + std::string(name) + "\n";
}
inline std::string call(const std::string& callee, const std::vector<std::string>& args) {
  return callee + tuple(args) + "R";
}
using Pairs = std::vector<std::pair<std::string, std::string>>;  // key as text, value as pickle
inline std::string dict(const Pairs& pairs) {
  std::string all = "}(";
  for (const auto& [key, value] : pairs) all += text(key) + value;
  return all + "u";
}
inline std::string ordered(const Pairs& pairs) {
  std::string all = call(global("collections", "OrderedDict"), {}) + "(";
  for (const auto& [key, value] : pairs) all += text(key) + value;
  return all + "u";
}
// A storage: type "FloatStorage", key, elements. legacy adds the sixth field.
inline std::string storage(std::string_view type, std::string_view key, int64_t numel, bool legacy = false) {
  std::vector<std::string> fields = {text("storage"), global("torch", type), text(key), text("cpu"), integer(numel)};
  if (legacy) fields.push_back(none());
  return tuple(fields) + "Q";
}
inline std::string integers(const std::vector<int64_t>& values) {
  std::vector<std::string> items;
  for (int64_t v : values) items.push_back(integer(v));
  return tuple(items);
}
inline std::string tensor(const std::string& storage, int64_t offset, const std::vector<int64_t>& shape,
                          const std::vector<int64_t>& strides) {
  return call(global("torch._utils", "_rebuild_tensor_v2"),
              {storage, integer(offset), integers(shape), integers(strides), boolean(false), ordered({})});
}
// A contiguous float tensor that fills its storage.
inline std::string floats(std::string_view key, const std::vector<int64_t>& shape, bool legacy = false) {
  int64_t count = 1;
  std::vector<int64_t> strides(shape.size());
  for (size_t i = shape.size(); i-- > 0; count *= shape[i]) strides[i] = count;
  return tensor(storage("FloatStorage", key, count, legacy), 0, shape, strides);
}
}  // namespace pkl
inline std::string pickle(const std::string& value, int protocol = 2) {
  return "\x80" + le(uint64_t(protocol), 1) + value + ".";
}

// One member of a zip file; what is set here is written even when it is wrong.
struct ZipEntry {
  std::string name, data;
  bool deflate = false;
  int flags = 0;
  int method = -1;      // -1: 0 or 8 as `deflate` says
  int64_t crc = -1;     // -1: the right one
  int64_t size = -1;    // unpacked size as the headers say; -1: the right one
  int64_t packed = -1;
  size_t padding = 0;   // extra field before the data, as torch.save aligns its storages
  bool zip64 = false;   // sizes and place in the zip64 extra field
  uint64_t hole = 0;    // zeros behind the data, which are seeked over: for files too large to write (set crc and zip64)
};

inline std::string deflated(std::string_view data) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, data.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = unsigned(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = unsigned(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// Gives the file piece by piece to `put`; `skip` leaves zeros out.
template <class Put, class Skip>
void zip_to(const std::vector<ZipEntry>& entries, Put put, Skip skip) {
  std::string directory;
  uint64_t position = 0;
  for (const ZipEntry& e : entries) {
    const std::string body = e.deflate ? deflated(e.data) : e.data;
    const uint64_t crc = e.crc >= 0 ? uint64_t(e.crc)
                                    : crc32_z(0, reinterpret_cast<const Bytef*>(e.data.data()), e.data.size());
    const uint64_t size = e.size >= 0 ? uint64_t(e.size) : e.data.size() + e.hole;
    const uint64_t packed = e.packed >= 0 ? uint64_t(e.packed) : body.size() + e.hole;
    const int method = e.method >= 0 ? e.method : e.deflate ? 8 : 0;
    std::string extra, central_extra;
    if (e.zip64) {
      extra = le(1, 2) + le(16, 2) + le(size, 8) + le(packed, 8);
      central_extra = le(1, 2) + le(24, 2) + le(size, 8) + le(packed, 8) + le(position, 8);
    }
    if (e.padding) extra += le(0x4246, 2) + le(e.padding, 2) + std::string(e.padding, 'Z');
    const std::string common = le(e.zip64 ? 45 : 20, 2) + le(uint64_t(e.flags), 2) + le(uint64_t(method), 2) +
                               le(0, 4) + le(crc, 4) + le(e.zip64 ? 0xFFFFFFFF : packed, 4) +
                               le(e.zip64 ? 0xFFFFFFFF : size, 4) + le(e.name.size(), 2);
    directory += "PK\x01\x02" + le(45, 2) + common + le(central_extra.size(), 2) + le(0, 2) + le(0, 2) + le(0, 2) +
                 le(0, 4) + le(e.zip64 ? 0xFFFFFFFF : position, 4) + e.name + central_extra;
    const std::string local = "PK\x03\x04" + common + le(extra.size(), 2) + e.name + extra + body;
    put(local);
    if (e.hole) skip(e.hole);
    position += local.size() + e.hole;
  }
  put(directory);
  const uint64_t count = entries.size(), end = position + directory.size();
  bool large = position > 0xFFFFFFFE;  // torch.save always writes the zip64 end records
  for (const ZipEntry& e : entries) large |= e.zip64;
  if (large)
    put("PK\x06\x06" + le(44, 8) + le(45, 2) + le(45, 2) + le(0, 8) + le(count, 8) + le(count, 8) +
        le(directory.size(), 8) + le(position, 8) + "PK\x06\x07" + le(0, 4) + le(end, 8) + le(1, 4));
  put("PK\x05\x06" + le(0, 4) + le(count, 2) + le(count, 2) + le(directory.size(), 4) +
      le(std::min<uint64_t>(position, 0xFFFFFFFF), 4) + le(0, 2));
}
inline std::string zip(const std::vector<ZipEntry>& entries) {
  std::string file;
  zip_to(entries, [&](const std::string& piece) { file += piece; }, [&](uint64_t n) { file.append(n, '\0'); });
  return file;
}
inline void write_sparse_zip(const std::filesystem::path& path, const std::vector<ZipEntry>& entries) {
  std::ofstream out(path, std::ios::binary);
  zip_to(entries, [&](const std::string& piece) { out << piece; },
         [&](uint64_t n) { out.seekp(std::streamoff(n), std::ios::cur); });
  out.close();
  if (!out) throw std::runtime_error("cannot write " + path.string());
}

using Storages = std::map<std::string, std::string>;  // key -> bytes

// The members of a torch.save file of one value.
inline std::vector<ZipEntry> torch_entries(const std::string& value, const Storages& storages,
                                           const std::string& root = "archive") {
  std::vector<ZipEntry> entries = {{root + "/data.pkl", pickle(value)}, {root + "/byteorder", "little"}};
  for (const auto& [key, bytes] : storages) entries.push_back({root + "/data/" + key, bytes});
  entries.push_back({root + "/version", "3\n"});
  return entries;
}
inline std::string torch_zip(const std::string& value, const Storages& storages,
                             const std::string& root = "archive") {
  return zip(torch_entries(value, storages, root));
}

// torch.save before 1.6; storages: key -> (elements, bytes).
using LegacyStorages = std::map<std::string, std::pair<int64_t, std::string>>;
inline std::string torch_legacy(const std::string& value, const LegacyStorages& storages) {
  std::vector<std::string> keys;
  std::string data;
  for (const auto& [key, storage] : storages) {
    keys.push_back(pkl::text(key));
    data += le(uint64_t(storage.first), 8) + storage.second;
  }
  const std::string magic = "\x8a\x0a" + std::string("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);
  return pickle(magic) + pickle(pkl::integer(1001)) +
         pickle(pkl::dict({{"protocol_version", pkl::integer(1001)}, {"little_endian", pkl::boolean(true)}})) +
         pickle(value) + pickle(pkl::list(keys)) + data;
}

}  // namespace slotscope::testing
