#include "tests/fuzz/trace_recipe.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "tests/fuzz/trace_base.h"

namespace slotscope::fuzz {
namespace {

constexpr const char* kRoot = "/runs/0000/";
constexpr std::array kPaths{
    "/", "/model", "/model/config", "/model/family", "/model/device", "/runs", "/runs/0000", "/runs/0001", "/runs/7", "/runs/x",
    "tokens", "tokens/ids", "tokens/position", "tokens/roles", "tokens/special", "tokens/bytes", "tokens/byte_offsets", "prompt",
    "prompt/text", "prompt/text_bytes", "prompt/char_begin", "prompt/char_end", "prompt/spans", "prompt/answer",
    "prompt/answer_bytes", "output", "output/ids", "output/text", "output/top_ids", "output/top_logprob", "output/top_bytes",
    "output/logits", "output/logits_token", "layers", "layers/0", "layers/1", "layers/2", "layers/00", "layers/99", "layers/-1",
    "layers/0/route_index", "layers/0/route_weight", "layers/0/log_decay", "layers/0/write_strength", "layers/0/token",
    "layers/0/esl", "layers/0/ties", "layers/0/selected", "layers/0/read_weight", "layers/0/read_token", "layers/0/state_k",
    "layers/0/state_token", "layers/0/mass_token", "layers/0/hidden", "layers/1/route_index", "layers/1/route_weight", "layers/1/token",
    "layers/2/x", "a", "a/b", "a/b/c", "a/b/c/d/e"};

constexpr std::array kNames{"format", "format_version", "status", "tokens_done", "created", "writer_version", "name", "prompt_tokens",
                            "planned_tokens", "family", "route_kind", "heads", "route_heads", "slots", "top_k", "axes",
                            "description", "tokens_covered", "exact", "encoding", "captured_heads", "captured_route_heads", "d_k",
                            "window", "task", "depth", "list", "extra"};

constexpr std::array<int64_t, 24> kNumbers{0, 1, 2, 3, -1, kTokens, kTokens + 1, kTokens - 1, kSlots, kSlots - 1, 127, 255, 256,
                                           32767, 65535, 65536, INT32_MAX, INT32_MIN, int64_t(1) << 32, int64_t(1) << 40,
                                           int64_t(1) << 60, INT64_MAX, INT64_MIN, int64_t(UINT32_MAX)};

constexpr std::array<uint64_t, 18> kSizes{0, 1, 2, 3, 4, 8, kTokens, kTokens + 1, kPrompt, 100, 1000, 5000, 65536, 1u << 31,
                                          uint64_t(1) << 32, uint64_t(1) << 40, uint64_t(1) << 60, uint64_t(1) << 63};

constexpr std::array kTexts{"slotscope-trace", "sparse", "dense", "ring", "append", "T", "T+1", "T,H_r,K", "T_c,H_r,K", "S,H_r,M,d_k",
                            "T'", "G,C", "raven", "", "\xc3\xa9", "\xff\xfe", "a\nb"};

hid_t string_type(bool variable, size_t size, int padding, bool utf8) {
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, variable ? H5T_VARIABLE : size);
  H5Tset_cset(type, utf8 ? H5T_CSET_UTF8 : H5T_CSET_ASCII);
  if (!variable) H5Tset_strpad(type, padding == 0 ? H5T_STR_NULLTERM : padding == 1 ? H5T_STR_NULLPAD : H5T_STR_SPACEPAD);
  return type;
}

}  // namespace

void Recipe::edit() {
  switch (in_.below(15)) {
    case 0: return remove(path());
    case 1:
    case 2: return numbers();
    case 3:
    case 4: return attribute();
    case 5: return link();
    case 6: return text();
    case 7: return spans();
    case 8: return other_file();
    case 9: return group();
    case 10: return poke();
    case 11: return children();
    case 12: return move();
    case 13: return resize();
    default: return raw_chunk();
  }
}

std::string Recipe::path() {
  const size_t i = in_.below(kPaths.size() + 4);
  if (i >= kPaths.size()) return kRoot + in_.text(12);
  const std::string path = kPaths[i];
  return path[0] == '/' ? path : kRoot + path;
}

int64_t Recipe::number() {
  const uint8_t b = in_.byte();
  if (b < kNumbers.size()) return kNumbers[b];
  return b < 200 ? int64_t(b) - kNumbers.size() : int64_t(in_.number(8));
}

hid_t Recipe::element_type() {
  static const hid_t types[] = {H5T_STD_U8LE,  H5T_STD_U16LE,  H5T_STD_U32LE,   H5T_STD_U64LE,   H5T_STD_I8LE,  H5T_STD_I32LE,
                                H5T_STD_I64LE, H5T_IEEE_F32LE, H5T_IEEE_F64LE,  H5T_STD_I32BE,   H5T_STD_U16BE, H5T_IEEE_F64BE,
                                H5T_STD_B8LE,  H5T_UNIX_D32LE, H5T_STD_REF_OBJ, H5T_NATIVE_LDOUBLE};
  const size_t kind = in_.below(std::size(types) + 6);
  if (kind < std::size(types)) return H5Tcopy(types[kind]);
  switch (kind - std::size(types)) {
    case 0: {  // binary16
      const hid_t half = H5Tcopy(H5T_IEEE_F32LE);
      H5Tset_fields(half, 15, 10, 5, 0, 10);
      H5Tset_size(half, 2);
      H5Tset_ebias(half, 15);
      return half;
    }
    case 1: {
      const hid_t type = H5Tenum_create(H5T_NATIVE_UINT8);
      const uint8_t zero = 0, one = 1;
      H5Tenum_insert(type, "FALSE", &zero);
      H5Tenum_insert(type, "TRUE", &one);
      return type;
    }
    case 2: return string_type(in_.byte() & 1, 1 + in_.below(40), int(in_.below(3)), in_.byte() & 1);
    case 3: {
      const hsize_t n = 1 + in_.below(300);
      return H5Tarray_create2(H5T_STD_I32LE, 1, &n);
    }
    case 4: {
      const hid_t type = H5Tcreate(H5T_COMPOUND, 16);
      H5Tinsert(type, "begin", 0, H5T_STD_I64LE);
      H5Tinsert(type, "x", 8, H5T_IEEE_F64LE);
      return type;
    }
    default: return in_.byte() & 1 ? H5Tvlen_create(H5T_STD_U8LE) : H5Tcreate(H5T_OPAQUE, 1 + in_.below(255));
  }
}

hid_t Recipe::shape() {
  const size_t rank = in_.below(6);
  if (rank == 5) return H5Screate(H5S_NULL);
  if (rank == 0) return H5Screate(H5S_SCALAR);
  std::array<hsize_t, 4> size{}, most{};
  for (size_t i = 0; i < rank; ++i) {
    const uint8_t b = in_.byte();
    size[i] = b < kSizes.size() ? kSizes[b] : b < 100 ? b - kSizes.size() : in_.number(4);
    most[i] = b & 1 ? H5S_UNLIMITED : size[i];
  }
  const bool grows = in_.byte() & 1;
  return H5Screate_simple(int(rank), size.data(), grows ? most.data() : nullptr);
}

void Recipe::remove(const std::string& path) {
  if (path != "/" && !path.ends_with('/')) H5Ldelete(file_, path.c_str(), H5P_DEFAULT);
}

// A dataset of any type, shape, layout, chunking, filter and fill value, empty or with values.
void Recipe::numbers() {
  const std::string at = path();
  remove(at);
  const hid_t type = element_type(), space = shape();
  const hid_t properties = H5Pcreate(H5P_DATASET_CREATE), links = H5Pcreate(H5P_LINK_CREATE);
  H5Pset_create_intermediate_group(links, 1);
  const int rank = H5Sget_simple_extent_ndims(space);
  const size_t layout = in_.below(4);
  if (layout == 1) H5Pset_layout(properties, H5D_COMPACT);
  if (layout >= 2 && rank > 0) {
    std::array<hsize_t, 4> chunk{};
    for (int i = 0; i < rank; ++i) chunk[size_t(i)] = in_.byte() & 1 ? 1 + in_.byte() : kSizes[in_.below(kSizes.size())];
    H5Pset_chunk(properties, rank, chunk.data());
    if (layout == 3) {
      const size_t filters = in_.below(8);
      if (filters & 1) H5Pset_shuffle(properties);
      if (filters & 2) H5Pset_deflate(properties, 1);
      if (filters & 4) H5Pset_fletcher32(properties);
    }
  }
  const int64_t fill = number();
  if (in_.byte() & 1) H5Pset_fill_value(properties, H5T_NATIVE_INT64, &fill);
  const hid_t dataset = H5Dcreate2(file_, at.c_str(), type, space, links, properties, H5P_DEFAULT);
  if (dataset >= 0) {
    values(dataset);
    H5Dclose(dataset);
  }
  H5Pclose(links);
  H5Pclose(properties);
  H5Sclose(space);
  H5Tclose(type);
}

// Writes small datasets of numbers: one value and a step.
void Recipe::values(hid_t dataset) {
  const hid_t space = H5Dget_space(dataset), type = H5Dget_type(dataset);
  const hssize_t n = H5Sget_simple_extent_npoints(space);
  const H5T_class_t kind = H5Tget_class(type);
  if (n > 0 && n <= 4096 && (kind == H5T_INTEGER || kind == H5T_FLOAT) && in_.byte() & 1) {
    const int64_t first = number(), step = number();
    std::vector<int64_t> list(size_t(n), 0);
    for (size_t i = 0; i < list.size(); ++i) list[i] = int64_t(uint64_t(first) + i * uint64_t(step));
    H5Dwrite(dataset, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, list.data());
  }
  H5Tclose(type);
  H5Sclose(space);
}

void Recipe::attribute() {
  const std::string at = path();
  const size_t which = in_.below(kNames.size() + 2);
  const std::string name = which < kNames.size() ? kNames[which] : in_.text(8) + "_";
  const hid_t object = H5Oopen(file_, at.c_str(), H5P_DEFAULT);
  if (object < 0) return;
  H5Adelete(object, name.c_str());
  const size_t kind = in_.below(7);
  const int64_t value = number();
  std::vector<int64_t> list;
  std::string text;
  hid_t type = -1, space = H5Screate(H5S_SCALAR);
  const void* data = &value;
  hid_t memory = H5T_NATIVE_INT64;
  const char* pointer = nullptr;
  if (kind == 0) {  // stays away
    H5Sclose(space);
    H5Oclose(object);
    return;
  } else if (kind <= 2) {
    type = H5Tcopy(H5T_STD_I64LE);
  } else if (kind == 3) {
    type = string_type(true, 0, 0, in_.byte() & 1);
    const size_t t = in_.below(kTexts.size() + 4);
    text = t < kTexts.size() ? kTexts[t] : in_.text(40);
    pointer = in_.byte() == 255 ? nullptr : text.c_str();
    data = &pointer;
    memory = type;
  } else if (kind == 4) {
    text = in_.text(30);
    text.resize(std::max<size_t>(text.size(), 1));
    type = string_type(false, text.size(), int(in_.below(3)), in_.byte() & 1);
    data = text.data();
    memory = type;
  } else if (kind == 5) {
    for (size_t n = in_.below(6); n > 0; --n) list.push_back(number());
    const hsize_t n = list.size();
    H5Sclose(space);
    space = n ? H5Screate_simple(1, &n, nullptr) : H5Screate(H5S_NULL);
    type = H5Tcopy(H5T_STD_I64LE);
    list.push_back(0);
    data = list.data();
  } else {  // any type and shape, never written
    H5Sclose(space);
    type = element_type();
    space = shape();
    data = nullptr;
  }
  const hssize_t n = H5Sget_simple_extent_npoints(space);
  const hid_t attribute =
      n >= 0 && n <= 4096 ? H5Acreate2(object, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT) : -1;
  if (attribute >= 0 && data) H5Awrite(attribute, memory, data);
  if (attribute >= 0) H5Aclose(attribute);
  H5Tclose(type);
  H5Sclose(space);
  H5Oclose(object);
}

void Recipe::link() {
  const std::string from = path(), to = path();
  remove(from);
  const hid_t links = H5Pcreate(H5P_LINK_CREATE);
  H5Pset_create_intermediate_group(links, 1);
  switch (in_.below(4)) {
    case 0:
      H5Lcreate_soft(to.c_str(), file_, from.c_str(), links, H5P_DEFAULT);
      break;
    case 1:
      H5Lcreate_external(canary_.c_str(), in_.byte() & 1 ? "/ids" : "/group", file_, from.c_str(), links, H5P_DEFAULT);
      break;
    default:  // cycles of groups too
      H5Lcreate_hard(file_, to.c_str(), file_, from.c_str(), links, H5P_DEFAULT);
  }
  H5Pclose(links);
}

void Recipe::text() {
  const std::string at = path();
  remove(at);
  const bool variable = in_.byte() & 1;
  const size_t t = in_.below(kTexts.size() + 6);
  std::string value = t < kTexts.size() ? kTexts[t] : in_.text(60);
  const hsize_t n = in_.below(4);
  const hid_t space = n <= 1 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &n, nullptr);
  const hid_t type = string_type(variable, std::max<size_t>(value.size(), 1), int(in_.below(3)), in_.byte() & 1);
  const hid_t dataset = H5Dcreate2(file_, at.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  if (dataset >= 0) {
    const char* pointers[3] = {value.c_str(), value.c_str(), nullptr};
    std::string fixed;
    for (int i = 0; i < 4; ++i) fixed += value.empty() ? std::string(1, '\0') : value;
    if (in_.byte() & 3) H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, variable ? static_cast<void*>(pointers) : fixed.data());
    H5Dclose(dataset);
  }
  H5Tclose(type);
  H5Sclose(space);
}

// Compounds that look like spans, but for the types and sizes of their members.
void Recipe::spans() {
  const std::string at = std::string(kRoot) + "prompt/spans";
  remove(at);
  const bool variable = in_.byte() & 1;
  const size_t size = 1 + in_.below(64);
  const hid_t name = in_.byte() < 230 ? string_type(variable, size, int(in_.below(3)), in_.byte() & 1) : H5Tcopy(H5T_STD_I32LE);
  const hid_t begin = in_.byte() < 200 ? H5Tcopy(H5T_STD_I64LE) : element_type();
  const size_t name_size = H5Tget_size(name), begin_size = H5Tget_size(begin);
  const hid_t type = H5Tcreate(H5T_COMPOUND, name_size + begin_size + 8);
  const uint8_t members = in_.byte();
  if (members % 16 != 1) H5Tinsert(type, "name", 0, name);
  if (members % 16 != 2) H5Tinsert(type, "begin", name_size, begin);
  if (members % 16 != 3) H5Tinsert(type, "end", name_size + begin_size, H5T_STD_I64LE);
  const hid_t space = shape();
  const hssize_t n = H5Sget_simple_extent_npoints(space);
  const hid_t dataset =
      n >= 0 ? H5Dcreate2(file_, at.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT) : -1;
  if (dataset >= 0) {
    if (n > 0 && n <= 64 && !variable && begin_size == 8 && in_.byte() & 1) {
      std::string bytes;
      const size_t record = H5Tget_size(type);
      while (bytes.size() < record * size_t(n)) bytes.push_back(char(in_.byte()));
      H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data());
    }
    H5Dclose(dataset);
  }
  H5Sclose(space);
  H5Tclose(type);
  H5Tclose(begin);
  H5Tclose(name);
}

// A dataset whose values lie in another file.
void Recipe::other_file() {
  const std::string at = path();
  remove(at);
  const hsize_t n = kTokens;
  const bool grows = in_.byte() & 1;
  const hsize_t most = grows ? H5S_UNLIMITED : n;
  const hid_t space = H5Screate_simple(1, &n, &most), properties = H5Pcreate(H5P_DATASET_CREATE);
  const bool text = in_.byte() & 1;
  const hid_t type = text ? string_type(false, 4, 0, false) : H5Tcopy(H5T_STD_I32LE);
  if (in_.byte() & 1) {
    H5Pset_external(properties, canary_.c_str(), 0, grows ? H5F_UNLIMITED : n * 4);
  } else {
    const hid_t source = H5Screate_simple(1, &n, &most);
    if (grows) {
      const hsize_t zero = 0, one = 1, count = H5S_UNLIMITED;
      H5Sselect_hyperslab(source, H5S_SELECT_SET, &zero, nullptr, &count, &one);
      H5Sselect_hyperslab(space, H5S_SELECT_SET, &zero, nullptr, &count, &one);
    }
    H5Pset_virtual(properties, space, canary_.c_str(), "/ids", source);
    H5Sselect_all(space);
    H5Sclose(source);
  }
  const hid_t dataset = H5Dcreate2(file_, at.c_str(), type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
  if (dataset >= 0) H5Dclose(dataset);
  H5Tclose(type);
  H5Pclose(properties);
  H5Sclose(space);
}

void Recipe::group() {
  const std::string at = path();
  remove(at);
  const hid_t links = H5Pcreate(H5P_LINK_CREATE);
  H5Pset_create_intermediate_group(links, 1);
  const hid_t group = H5Gcreate2(file_, at.c_str(), links, H5P_DEFAULT, H5P_DEFAULT);
  if (group >= 0) H5Gclose(group);
  H5Pclose(links);
}

// Other values in an existing small dataset of numbers.
void Recipe::poke() {
  const hid_t dataset = H5Dopen2(file_, path().c_str(), H5P_DEFAULT);
  if (dataset < 0) return;
  const hid_t space = H5Dget_space(dataset), type = H5Dget_type(dataset);
  const hssize_t n = H5Sget_simple_extent_npoints(space);
  if (n > 0 && n <= 4096 && H5Tget_class(type) == H5T_INTEGER) {
    std::vector<int64_t> list(size_t(n), 0);
    if (H5Dread(dataset, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, list.data()) >= 0) {
      for (size_t edits = 1 + in_.below(4); edits > 0; --edits) {
        const size_t place = in_.below(list.size());
        list[place] = number();
      }
      H5Dwrite(dataset, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, list.data());
    }
  }
  H5Tclose(type);
  H5Sclose(space);
  H5Dclose(dataset);
}

// Several links to one object (hard links of a group to itself among them), or new groups with numbers for names.
void Recipe::children() {
  const std::string parent = path(), target = path();
  const bool groups = in_.byte() & 1;
  for (size_t i = 0, n = in_.below(24); i < n; ++i) {
    const std::string at = parent + "/" + std::to_string(i * 7919 % 31 + (i % 5 == 4 ? 2147483640 : 0));
    if (groups) {
      const hid_t group = H5Gcreate2(file_, at.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
      if (group >= 0) H5Gclose(group);
    } else {
      H5Lcreate_hard(file_, target.c_str(), file_, at.c_str(), H5P_DEFAULT, H5P_DEFAULT);
    }
  }
}

void Recipe::move() {
  const std::string from = path(), to = path();
  if (from == "/" || to == "/") return;
  remove(to);
  H5Lmove(file_, from.c_str(), file_, to.c_str(), H5P_DEFAULT, H5P_DEFAULT);
}

void Recipe::resize() {
  const hid_t dataset = H5Dopen2(file_, path().c_str(), H5P_DEFAULT);
  if (dataset < 0) return;
  const hid_t space = H5Dget_space(dataset);
  std::array<hsize_t, H5S_MAX_RANK> size{};
  const int rank = H5Sget_simple_extent_dims(space, size.data(), nullptr);
  H5Sclose(space);
  // A dataset that was made huge stays so: HDF5 would visit each of its chunks to make it smaller.
  const bool huge = std::any_of(size.begin(), size.end(), [](hsize_t n) { return n > 100'000; });
  if (rank > 0 && !huge) {
    const size_t axis = in_.below(size_t(rank));
    size[axis] = kSizes[in_.below(kSizes.size())];
    H5Dset_extent(dataset, size.data());
  }
  H5Dclose(dataset);
}

// A stored chunk as bytes that no filter made: too short or too long once unpacked, or no stream at all.
void Recipe::raw_chunk() {
  const hid_t dataset = H5Dopen2(file_, path().c_str(), H5P_DEFAULT);
  if (dataset < 0) return;
  const hid_t space = H5Dget_space(dataset), properties = H5Dget_create_plist(dataset), type = H5Dget_type(dataset);
  const int rank = H5Sget_simple_extent_ndims(space);
  if (rank > 0 && H5Pget_layout(properties) == H5D_CHUNKED) {
    std::array<hsize_t, H5S_MAX_RANK> chunk{}, offset{}, size_of{};
    H5Pget_chunk(properties, rank, chunk.data());
    H5Sget_simple_extent_dims(space, size_of.data(), nullptr);
    hsize_t bytes = H5Tget_size(type);
    for (int i = 0; i < rank; ++i) bytes = std::min<hsize_t>(bytes * chunk[size_t(i)], 1 << 16);
    // HDF5 makes the whole index with the first chunk: a dataset of very many chunks would take all memory here, in the
    // making of the file.
    double chunks = 1;
    for (int i = 0; i < rank; ++i) chunks *= double(size_of[size_t(i)] / chunk[size_t(i)] + 1);
    const int64_t change = number();
    std::string plain(size_t(std::clamp<int64_t>(int64_t(bytes) + (change > 100 || change < -100 ? change % 5000 : change), 0, 1 << 17)), '\1');
    uLongf size = compressBound(plain.size());
    std::string packed(size, '\0');
    compress2(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(plain.data()), plain.size(), 1);
    packed.resize(size);
    const uint8_t kind = in_.byte();
    const std::string stored = kind % 4 == 0 ? plain : kind % 4 == 1 ? in_.text(40) : packed;
    if (!stored.empty() && H5Pget_nfilters(properties) > 0 && chunks < 1e5)
      H5Dwrite_chunk(dataset, H5P_DEFAULT, kind % 3 ? 0 : in_.byte() % 8, offset.data(), stored.size(), stored.data());
  }
  H5Tclose(type);
  H5Pclose(properties);
  H5Sclose(space);
  H5Dclose(dataset);
}

}  // namespace slotscope::fuzz
