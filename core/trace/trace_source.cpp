#include "core/trace/trace_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "core/trace/half.h"

namespace slotscope::trace {
namespace {

constexpr std::string_view kSignature{"\x89HDF\r\n\x1a\n", 8};
// zlib cannot pack better than 1:1032, so a size beyond this cannot come from the bytes of the file.
constexpr int64_t kLargestRatio = 1100;
constexpr int64_t kSlack = int64_t(1) << 20;
constexpr int64_t kMostWhole = 1'000'000;  // values of a dataset that is read as a whole: spans, texts
constexpr size_t kOpenDatasets = 12;
constexpr int64_t kLargestCache = int64_t(256) << 20;

std::string kind_of(std::string_view head) {
  if (head.empty()) return "an empty file";
  if (head.substr(0, 2) == "PK") return "a zip archive";
  if (head.substr(0, 7) == "version") return "perhaps a Git LFS pointer (run git lfs pull)";
  if (head[0] == '<') return "perhaps a web page (a failed download)";
  if (head.size() > 8 && head[8] == '{')
    return "perhaps a safetensors file (open its folder as a checkpoint)";
  return "something else";
}

struct Head {
  int64_t size = 0;
  bool swmr = false;  // the superblock says that a SWMR writer has (or had) the file open
};

// Refuses what is no HDF5 file before the library sees it: HDF5 1.10 hangs on a superblock that is cut off.
Head look_at_head(const std::string& name) {
  const int descriptor = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    throw Error({.file = name,
                 .found = std::string("cannot open the file: ") + std::strerror(errno),
                 .expected = errno == ENOENT ? "an existing file" : "a file that may be read"});
  struct stat info {};
  fstat(descriptor, &info);
  std::array<char, 16> head{};
  bool found = false, whole = false, swmr = false;
  ssize_t got = 0;
  if (S_ISREG(info.st_mode)) {
    got = std::max<ssize_t>(pread(descriptor, head.data(), head.size(), 0), 0);
    // A user block moves the signature to 512, 1024, 2048, ...
    for (int64_t at = 0; !found && at < info.st_size; at = at == 0 ? 512 : at * 2) {
      std::array<char, 12> word{};
      found = pread(descriptor, word.data(), word.size(), at) >= 8 &&
              std::string_view(word.data(), 8) == kSignature;
      const int version = word[8], flags = word[11];
      whole = found && info.st_size >= at + (version < 2 ? 96 : 48);
      swmr = version >= 3 && (flags & 4) != 0;
    }
  }
  close(descriptor);
  if (S_ISDIR(info.st_mode))
    throw Error({.file = name, .found = "this is a folder", .expected = "a trace file (.h5)"});
  if (!S_ISREG(info.st_mode))
    throw Error({.file = name, .found = "no regular file", .expected = "a trace file (.h5)"});
  if (!found)
    throw Error({.file = name,
                 .found = "not an HDF5 file: " + std::to_string(info.st_size) + " bytes, " +
                          kind_of(std::string_view(head.data(), size_t(got))),
                 .expected = "a trace written by Slotscope"});
  if (!whole)
    throw Error({.file = name,
                 .found = "damaged or cut off: only " + std::to_string(info.st_size) + " bytes",
                 .expected = "a whole file",
                 .advice = "Copy it again from where it came, or capture again"});
  return {info.st_size, swmr};
}

template <class T>
T little_endian(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// HDF5 makes no smaller heap, and has room for the objects of at least one of this size.
constexpr uint64_t kLeastHeap = 4096;

// Walks one global heap collection (16 bytes of head: "GCOL", version 1, size; then objects: index u16, count
// u16, 4 unused, size u64, data padded to 8; index 0 = free room, whose size counts its own head). HDF5 walks on behind free
// room, and for ever at free room of no size; it keeps a table of objects that is as long as the size in the head says.
bool heap_is_sound(const char* heap, uint64_t length) {
  if (length < kLeastHeap) return false;
  const uint64_t most = (length - 16) / 16;  // objects that have room
  std::vector<bool> seen(size_t(std::min<uint64_t>(most, 65535)) + 1, false);
  uint64_t at = 16;
  while (length - at >= 16) {
    const uint16_t index = little_endian<uint16_t>(heap + at);
    const uint64_t size = little_endian<uint64_t>(heap + at + 8);
    if (index == 0) {
      if (size < 16 || size > length - at) return false;
      at += size;
      continue;
    }
    if (index >= seen.size() || seen[index]) return false;
    seen[index] = true;
    if (size > length - at - 16) return false;
    at += 16 + (size + 7) / 8 * 8;
    if (at > length) return false;
  }
  return true;
}

// Variable-length strings lie in heaps without a checksum, and HDF5 1.10 copies as many bytes as a damaged
// size says. Our writer has all of them near the start of the file (text comes before the growing data), so
// they can be looked at beforehand.
void check_string_heaps(const std::string& name, int64_t file_size) {
  constexpr int64_t kLook = int64_t(16) << 20;
  constexpr std::string_view kHeap{"GCOL\1", 5};  // HDF5 does not look at the three bytes behind
  std::string bytes(size_t(std::min(file_size, kLook)), '\0');
  const int descriptor = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
  const ssize_t got = descriptor < 0 ? 0 : pread(descriptor, bytes.data(), bytes.size(), 0);
  if (descriptor >= 0) close(descriptor);
  bytes.resize(size_t(std::max<ssize_t>(got, 0)));
  for (size_t at = bytes.find(kHeap); at != std::string::npos; at = bytes.find(kHeap, at + kHeap.size())) {
    if (bytes.size() - at < 16) return;
    const uint64_t length = little_endian<uint64_t>(bytes.data() + at + 8);
    const bool fits = length >= 16 && length <= uint64_t(file_size) - at;
    if (fits && length > bytes.size() - at) return;  // runs past what we look at
    if (!fits || !heap_is_sound(bytes.data() + at, length))
      damaged(name, "text", "the string heap at byte " + std::to_string(at) + " contradicts itself");
  }
}

// Without a chunk cache. HDF5 1.10 makes the buffer of a cached chunk as long as the index of the file says, and copies as much as the
// shape says; a chunk without filters that is not cached is read by position, within its real length.
// One list for the whole program, never closed.
hid_t direct_access() {
  static const hid_t access = [] {
    const hid_t made = H5Pcreate(H5P_DATASET_ACCESS);
    H5Pset_chunk_cache(made, 0, 0, 1.0);
    return made;
  }();
  return access;
}

}  // namespace

void damaged(const std::string& file, const std::string& item, const std::string& found,
             const std::string& expected) {
  throw Error({.file = file,
               .item = item,
               .found = "damaged: " + found,
               .expected = expected,
               .advice = "Copy what is readable with `slotscope-cli repair`, or capture again"});
}

int64_t Numbers::row_elements() const {
  int64_t n = 1;
  for (size_t i = 1; i < shape.size(); ++i) n *= shape[i];
  return n;
}

Source::~Source() {
  if (file < 0) return;
  const Hdf5Lock lock;
  cache_.clear();
  H5Fclose(file);
}

void Source::open(const std::filesystem::path& path) {
  name = path.string();
  const Head head = look_at_head(name);
  file_size = head.size;
  check_string_heaps(name, file_size);
  const Handle access(H5Pcreate(H5P_FILE_ACCESS));
  H5Pset_file_locking(access, false, true);
  H5Pset_fclose_degree(access, H5F_CLOSE_STRONG);
  file = H5Fopen(name.c_str(), H5F_ACC_RDONLY, access);
  if (file >= 0) return;
  const std::string reason = hdf5_message();
  if (head.swmr) {
    // Reading beside a writer, HDF5 tries again when a checksum is wrong and doubles the pause each time: its own limit of 100 tries
    // would wait for ever on a damaged file. 24 tries wait for 2^24 ns (17 ms) in all.
    H5Pset_metadata_read_attempts(access, 24);
    file = H5Fopen(name.c_str(), H5F_ACC_RDONLY | H5F_ACC_SWMR_READ, access);
  }
  if (file < 0)
    throw Error({.file = name,
                 .found = "damaged or cut off: HDF5 cannot open it (" + reason + ")",
                 .expected = "a whole file",
                 .advice = "Copy it again from where it came, or capture again"});
  swmr = true;
}

bool Source::exists(const std::string& path) const {
  for (size_t at = 1; at != std::string::npos;) {  // every step, or HDF5 complains about the missing parent
    at = path.find('/', at);
    const std::string step = path.substr(0, at);
    H5L_info_t link;
    if (H5Lget_info(file, step.c_str(), &link, H5P_DEFAULT) < 0) return false;
    // A soft link may lead to an external one, and that one to any file of this computer.
    if (link.type != H5L_TYPE_HARD) damaged(name, step, "a link to another place or file", "the object itself");
    if (at != std::string::npos) ++at;
  }
  return H5Oexists_by_name(file, path.c_str(), H5P_DEFAULT) > 0;
}

Handle Source::own_properties(hid_t dataset, const std::string& path) const {
  // Asked before anything else: HDF5 opens the sources of a virtual dataset to tell its shape.
  Handle properties(H5Dget_create_plist(dataset));
  if (!properties) damaged(name, path, "has no layout (" + hdf5_message() + ")");
  if (H5Pget_layout(properties) == H5D_VIRTUAL || H5Pget_external_count(properties) != 0)
    damaged(name, path, "its values lie in another file", "values in the trace itself");
  if (H5Pget_layout(properties) == H5D_COMPACT) {
    // HDF5 1.10 copies what the shape asks for, past the end of a stored block that is smaller.
    const Handle type(H5Dget_type(dataset)), space(H5Dget_space(dataset));
    const hssize_t elements = H5Sget_simple_extent_npoints(space);
    const auto needed = (unsigned __int128)(std::max<hssize_t>(elements, 0)) * H5Tget_size(type);
    if (needed > H5Dget_storage_size(dataset))
      damaged(name, path, "its stored block is smaller than its shape says");
  }
  return properties;
}

void Source::require_sound(hid_t dataset, const std::string& path) const {
  const Handle properties = own_properties(dataset, path), space(H5Dget_space(dataset));
  const hssize_t values = H5Sget_simple_extent_npoints(space);
  if (values < 0 || values > kMostWhole) damaged(name, path, std::to_string(values) + " values");
  if (H5Pget_layout(properties) == H5D_CHUNKED && H5Pget_nfilters(properties) > 0)
    ChunkCheck(dataset, properties, name, path, file_size).look(dataset);
}

Numbers Source::numbers(const std::string& path) const {
  Numbers data;
  data.id = Handle(H5Dopen2(file, path.c_str(), direct_access()));
  if (!data.id) damaged(name, path, "cannot open the dataset (" + hdf5_message() + ")");
  const Handle properties = own_properties(data.id, path);
  const Handle type(H5Dget_type(data.id)), space(H5Dget_space(data.id));
  bool exact = false;
  if (!type || !classify(type, data.type, exact)) damaged(name, path, "holds no numbers");
  const int rank = H5Sget_simple_extent_ndims(space);
  if (rank < 0 || rank > H5S_MAX_RANK || H5Sget_simple_extent_type(space) == H5S_NULL)
    damaged(name, path, "has no shape");
  std::vector<hsize_t> dims(size_t(rank) + 1), chunk(size_t(rank) + 1);
  if (rank > 0) H5Sget_simple_extent_dims(space, dims.data(), nullptr);
  const bool chunked =
      H5Pget_layout(properties) == H5D_CHUNKED && H5Pget_chunk(properties, rank, chunk.data()) == rank;
  const unsigned __int128 limit = (unsigned __int128)(file_size)*kLargestRatio + kSlack;
  unsigned __int128 bytes = H5Tget_size(type), chunk_bytes = bytes;
  for (int i = 0; i < rank; ++i) {
    if (dims[size_t(i)] > hsize_t(1) << 60)
      damaged(name, path, "a size of " + std::to_string(dims[size_t(i)]));
    data.shape.push_back(int64_t(dims[size_t(i)]));
    bytes *= std::max<hsize_t>(dims[size_t(i)], 1);  // without rows, a row must still have a possible size
    if (chunked) {
      data.chunk.push_back(int64_t(chunk[size_t(i)]));
      chunk_bytes *= chunk[size_t(i)];
    }
    if (bytes > limit || chunk_bytes > limit)
      damaged(name, path,
              "its sizes need more bytes than a file of " + std::to_string(file_size) + " bytes can hold");
  }
  if (!data.chunk.empty() && H5Pget_nfilters(properties) > 0) {
    data.check = std::make_shared<ChunkCheck>(data.id, properties, name, path, file_size);
    reopen_with_cache(data, path);
  }
  return data;
}

// The cache must hold every chunk that one row touches, or reading row by row unpacks each chunk again for every row.
void Source::reopen_with_cache(Numbers& data, const std::string& path) const {
  int64_t bytes = int64_t(element_size(data.type)) * data.chunk[0], count = 1;
  for (size_t i = 1; i < data.shape.size(); ++i) {
    const int64_t n = std::max<int64_t>((data.shape[i] + data.chunk[i] - 1) / data.chunk[i], 1);
    if (bytes > kLargestCache || count > kLargestCache) break;
    count *= n;
    bytes *= std::min(n * data.chunk[i], kLargestCache);
  }
  const int64_t cache = std::clamp<int64_t>(2 * bytes, kSlack, kLargestCache);
  const size_t places = size_t(std::clamp<int64_t>(std::min<int64_t>(count, 10'000) * 100 + 1, 521, 1'000'003));
  const Handle access(H5Pcreate(H5P_DATASET_ACCESS));
  H5Pset_chunk_cache(access, places, size_t(cache), 1.0);
  data.id.reset();  // a dataset that is open keeps its cache
  data.id = Handle(H5Dopen2(file, path.c_str(), access));
  if (!data.id) damaged(name, path, "cannot open the dataset (" + hdf5_message() + ")");
}

const Numbers& Source::cached(const std::string& path) {
  for (auto it = cache_.begin(); it != cache_.end(); ++it)
    if (it->first == path) {
      cache_.splice(cache_.begin(), cache_, it);
      return cache_.front().second;
    }
  cache_.emplace_front(path, numbers(path));
  if (cache_.size() > kOpenDatasets) cache_.pop_back();
  return cache_.front().second;
}

void Source::read_raw(const Numbers& data, const std::string& path, int64_t first, int64_t count,
                      int64_t head, hid_t memory, void* out) const {
  if (data.shape.empty()) {
    if (H5Dread(data.id, memory, H5S_ALL, H5S_ALL, small_transfer(), out) < 0)
      damaged(name, path, "cannot read the value (" + hdf5_message() + ")");
    return;
  }
  std::vector<hsize_t> start(data.shape.size()), extent(data.shape.begin(), data.shape.end());
  start[0] = hsize_t(first);
  extent[0] = hsize_t(count);
  if (head >= 0) {
    start[1] = hsize_t(head);
    extent[1] = 1;
  }
  if (data.check) data.check->look(data.id, start, extent);
  const Handle space(H5Dget_space(data.id));
  const Handle target(H5Screate_simple(int(extent.size()), extent.data(), nullptr));
  const hid_t transfer =
      H5Sget_simple_extent_npoints(target) <= kSmallTransfer / 8 ? small_transfer() : H5P_DEFAULT;
  if (!space || !target ||
      H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, extent.data(), nullptr) < 0 ||
      H5Dread(data.id, memory, target, space, transfer, out) < 0)
    damaged(name, path,
            "cannot read rows " + std::to_string(first) + " to " + std::to_string(first + count) + " (" +
                hdf5_message() + ")");
}

void Source::read(const Numbers& data, const std::string& path, int64_t first, int64_t count, int64_t head,
                  double* out) const {
  if (data.type != ElementType::f16) return read_raw(data, path, first, count, head, H5T_NATIVE_DOUBLE, out);
  int64_t n = count * data.row_elements();  // HDF5 converts binary16 bit by bit: do it here
  if (head >= 0) n /= data.shape[1];
  std::vector<uint16_t> raw{std::vector<uint16_t>(size_t(n))};
  const Handle half = element_type(ElementType::f16);
  read_raw(data, path, first, count, head, half, raw.data());
  for (size_t i = 0; i < raw.size(); ++i) out[i] = half_to_float(raw[i]);
}

void Source::read(const Numbers& data, const std::string& path, int64_t first, int64_t count, int64_t head,
                  int64_t* out) const {
  read_raw(data, path, first, count, head, H5T_NATIVE_INT64, out);
}

void Source::read_bytes(const Numbers& data, const std::string& path, int64_t first, int64_t count,
                        void* out) const {
  if (count * data.row_elements() == 0) return;
  const Hdf5Lock lock;
  const Handle type = element_type(data.type);
  read_raw(data, path, first, count, -1, type, out);
}

template <class T>
std::vector<T> Source::column(const std::string& path, int64_t limit) const {
  if (!exists(path)) return {};
  const Numbers data = numbers(path);
  const int64_t rows = data.shape.empty() ? 1 : data.shape[0];
  const int64_t count = limit < 0 ? rows : std::min(rows, limit);
  const int64_t n = count * data.row_elements();
  std::vector<T> values{std::vector<T>(size_t(n))};
  if (n == 0) return values;
  const hid_t memory = std::is_same_v<T, int32_t>   ? H5T_NATIVE_INT32
                       : std::is_same_v<T, uint8_t> ? H5T_NATIVE_UINT8
                       : std::is_same_v<T, int64_t> ? H5T_NATIVE_INT64
                                                    : H5T_NATIVE_DOUBLE;
  read_raw(data, path, 0, count, -1, memory, values.data());
  return values;
}
template std::vector<uint8_t> Source::column(const std::string&, int64_t) const;
template std::vector<int32_t> Source::column(const std::string&, int64_t) const;
template std::vector<int64_t> Source::column(const std::string&, int64_t) const;
template std::vector<double> Source::column(const std::string&, int64_t) const;

bool Source::text(const std::string& path, std::string& value) const {
  if (!exists(path)) return false;
  if (const std::string exact = path + "_bytes"; exists(exact)) {
    const auto bytes = column<uint8_t>(exact, -1);
    value.assign(bytes.begin(), bytes.end());
    return true;
  }
  const Handle dataset(H5Dopen2(file, path.c_str(), direct_access()));
  if (dataset) require_sound(dataset, path);
  if (!dataset || !read_string(dataset, value))
    damaged(name, path, "cannot read the text (" + hdf5_message() + ")");
  return true;
}

std::vector<Span> Source::spans(const std::string& path) const {
  if (!exists(path)) return {};
  const Handle dataset(H5Dopen2(file, path.c_str(), direct_access()));
  if (!dataset) damaged(name, path, "cannot open the dataset (" + hdf5_message() + ")");
  require_sound(dataset, path);
  const Handle type(H5Dget_type(dataset)), space(H5Dget_space(dataset));
  const hssize_t n = H5Sget_simple_extent_npoints(space);
  const int member = H5Tget_class(type) == H5T_COMPOUND ? H5Tget_member_index(type, "name") : -1;
  if (member < 0 || n < 0 || n > 1'000'000) damaged(name, path, "no spans", "compounds of name, begin, end");
  std::vector<Span> spans{std::vector<Span>(size_t(n))};
  if (n == 0) return spans;
  const hid_t transfer = n * 4096 <= kSmallTransfer && H5Tget_size(type) <= 4096 ? small_transfer() : H5P_DEFAULT;
  const auto read = [&](const char* field, hid_t field_type, size_t size, void* out) {
    const Handle memory(H5Tcreate(H5T_COMPOUND, size));
    H5Tinsert(memory, field, 0, field_type);
    if (H5Dread(dataset, memory, H5S_ALL, H5S_ALL, transfer, out) < 0)
      damaged(name, path, std::string("cannot read ") + field + " (" + hdf5_message() + ")");
  };
  std::vector<int64_t> values{std::vector<int64_t>(size_t(n))};
  read("begin", H5T_NATIVE_INT64, 8, values.data());
  for (size_t i = 0; i < spans.size(); ++i) spans[i].begin = values[i];
  read("end", H5T_NATIVE_INT64, 8, values.data());
  for (size_t i = 0; i < spans.size(); ++i) spans[i].end = values[i];
  const Handle text(H5Tget_member_type(type, unsigned(member)));
  if (H5Tget_class(text) != H5T_STRING) damaged(name, path, "names that are no text");
  if (H5Tis_variable_str(text) > 0) {
    std::vector<char*> names(size_t(n), nullptr);
    read("name", text, sizeof(char*), names.data());
    for (size_t i = 0; i < spans.size(); ++i) {
      if (names[i]) spans[i].name = names[i];
      H5free_memory(names[i]);
    }
    return spans;
  }
  const size_t size = H5Tget_size(text);
  if (size == 0 || size > 4096) damaged(name, path, "names of " + std::to_string(size) + " bytes");
  std::string names(size * size_t(n), '\0');
  read("name", text, size, names.data());
  for (size_t i = 0; i < spans.size(); ++i) {
    spans[i].name.assign(names.data() + i * size, strnlen(names.data() + i * size, size));
    if (H5Tget_strpad(text) == H5T_STR_SPACEPAD)
      while (!spans[i].name.empty() && spans[i].name.back() == ' ') spans[i].name.pop_back();
  }
  return spans;
}

}  // namespace slotscope::trace
