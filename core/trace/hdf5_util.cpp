#include "core/trace/hdf5_util.h"

#include <algorithm>
#include <cstring>

namespace slotscope::trace {
namespace {

std::recursive_mutex& hdf5_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

herr_t collect(unsigned, const H5E_error2_t* e, void* out) {
  auto& text = *static_cast<std::string*>(out);
  if (text.empty() && e->desc && *e->desc) text = e->desc;
  return 0;
}

// Length of the valid UTF-8 character at the start, 0 when there is none.
size_t utf8_length(std::string_view s) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned char b = byte(0);
  const size_t n = b < 0x80                ? 1
                   : b >= 0xc2 && b < 0xe0 ? 2
                   : b >= 0xe0 && b < 0xf0 ? 3
                   : b >= 0xf0 && b < 0xf5 ? 4
                                           : 0;
  if (n == 0 || n > s.size()) return 0;
  for (size_t i = 1; i < n; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  if ((b == 0xe0 && byte(1) < 0xa0) || (b == 0xed && byte(1) >= 0xa0)) return 0;  // overlong, surrogate
  if ((b == 0xf0 && byte(1) < 0x90) || (b == 0xf4 && byte(1) >= 0x90)) return 0;  // overlong, past U+10FFFF
  return n;
}

Handle scalar() { return Handle(H5Screate(H5S_SCALAR)); }

// Reads the text of an attribute or dataset through `read(memory type, buffer)`.
template <class Read>
bool read_any_string(hid_t type, hid_t space, Read read, std::string& value) {
  if (H5Tget_class(type) != H5T_STRING || H5Sget_simple_extent_npoints(space) != 1) return false;
  const H5T_cset_t cset =
      H5Tget_cset(type);  // ASCII to ASCII, UTF-8 to UTF-8: HDF5 converts no character sets
  if (H5Tis_variable_str(type) > 0) {
    Handle memory(H5Tcopy(H5T_C_S1));
    H5Tset_size(memory, H5T_VARIABLE);
    H5Tset_cset(memory, cset);
    char* text = nullptr;
    if (read(memory.get(), &text) < 0) return false;
    if (text)
      value = text;
    else
      value.clear();
    H5free_memory(text);
    return true;
  }
  const size_t size = H5Tget_size(type);
  if (size == 0 || size > (size_t(1) << 30)) return false;
  std::string buffer(size, '\0');
  if (read(type, buffer.data()) < 0) return false;
  const H5T_str_t padding = H5Tget_strpad(type);
  if (padding == H5T_STR_SPACEPAD) {
    while (!buffer.empty() && buffer.back() == ' ') buffer.pop_back();
  } else if (padding == H5T_STR_NULLTERM) {
    buffer.resize(strnlen(buffer.data(), buffer.size()));
  } else {
    while (!buffer.empty() && buffer.back() == '\0') buffer.pop_back();
  }
  value = std::move(buffer);
  return true;
}

void put(hid_t object, const char* name, hid_t file_type, hid_t memory_type, hid_t space, const void* data,
         const std::string& file) {
  Handle attribute(checked(H5Acreate2(object, name, file_type, space, H5P_DEFAULT, H5P_DEFAULT), file, name,
                           "cannot create the attribute"));
  static const int64_t nothing = 0;  // HDF5 refuses a null pointer even for an empty list
  if (H5Awrite(attribute, memory_type, data ? data : &nothing) < 0) fail_hdf5(file, name, "cannot write the attribute");
}

}  // namespace

Hdf5Lock::Hdf5Lock() : lock_(hdf5_mutex()) {
  static thread_local bool quiet = false;  // the setting is kept per thread
  if (!quiet) H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  quiet = true;
}

std::string hdf5_message() {
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, collect, &text);
  return text.empty() ? "unknown HDF5 error" : text;
}

Error disk_full(const std::string& file, const std::string& reason) {
  return Error({.file = file,
                .found = "no space to write the file (" + reason + ")",
                .advice = "Free some space or write to another disk with --out; a trace is smaller when less is captured (--capture, "
                          "--layers, --tokens)"});
}

void fail_hdf5(const std::string& file, const std::string& item, const char* what) {
  const std::string reason = hdf5_message();
  for (const auto& [words, name] :
       {std::pair{"No space left", "the disk is full"}, std::pair{"quota", "the disk quota is used up"},
        std::pair{"File too large", "the file reached the largest size allowed here"}})
    if (reason.find(words) != std::string::npos) throw disk_full(file, name);
  throw Error({.file = file,
               .item = item,
               .found = std::string(what) + ": " + reason,
               .advice = "Check the file and the disk it lies on"});
}

hid_t checked(hid_t id, const std::string& file, const std::string& item, const char* what) {
  if (id < 0) fail_hdf5(file, item, what);
  return id;
}

hid_t small_transfer() {
  static const hid_t transfer = [] {
    const hid_t made = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_buffer(made, size_t(kSmallTransfer), nullptr, nullptr);
    return made;
  }();
  return transfer;
}

Handle element_type(ElementType type) {
  switch (type) {
    case ElementType::u8:
      return Handle(H5Tcopy(H5T_STD_U8LE));
    case ElementType::u16:
      return Handle(H5Tcopy(H5T_STD_U16LE));
    case ElementType::u32:
      return Handle(H5Tcopy(H5T_STD_U32LE));
    case ElementType::i32:
      return Handle(H5Tcopy(H5T_STD_I32LE));
    case ElementType::i64:
      return Handle(H5Tcopy(H5T_STD_I64LE));
    case ElementType::f32:
      return Handle(H5Tcopy(H5T_IEEE_F32LE));
    case ElementType::f64:
      return Handle(H5Tcopy(H5T_IEEE_F64LE));
    case ElementType::f16:
      break;
  }
  Handle half(H5Tcopy(
      H5T_IEEE_F32LE));  // HDF5 1.10 has no binary16 of its own: sign bit 15, exponent 10..14, fraction 0..9
  H5Tset_fields(half, 15, 10, 5, 0, 10);
  H5Tset_size(half, 2);
  H5Tset_ebias(half, 15);
  return half;
}

bool classify(hid_t type, ElementType& element, bool& exact) {
  static const hid_t half = element_type(ElementType::f16).release();  // copies cost more than the comparison
  const std::pair<ElementType, hid_t> ours[] = {
      {ElementType::u8, H5T_STD_U8LE},   {ElementType::u16, H5T_STD_U16LE},  {ElementType::u32, H5T_STD_U32LE},
      {ElementType::i32, H5T_STD_I32LE}, {ElementType::i64, H5T_STD_I64LE},  {ElementType::f16, half},
      {ElementType::f32, H5T_IEEE_F32LE}, {ElementType::f64, H5T_IEEE_F64LE}};
  for (const auto& [e, stored] : ours) {
    if (H5Tequal(type, stored) > 0) {
      element = e;
      exact = true;
      return true;
    }
  }
  exact = false;
  const H5T_class_t kind = H5Tget_class(type);
  element = kind == H5T_INTEGER || kind == H5T_ENUM ? ElementType::i64 : ElementType::f64;
  return kind == H5T_INTEGER || kind == H5T_FLOAT;
}

Handle utf8_type() {
  Handle type(H5Tcopy(H5T_C_S1));
  H5Tset_size(type, H5T_VARIABLE);
  H5Tset_cset(type, H5T_CSET_UTF8);
  return type;
}

Handle span_type() {
  Handle name(H5Tcopy(H5T_C_S1));
  H5Tset_size(name, sizeof(SpanRecord::name));
  H5Tset_cset(name, H5T_CSET_UTF8);
  H5Tset_strpad(name, H5T_STR_NULLPAD);
  Handle type(H5Tcreate(H5T_COMPOUND, sizeof(SpanRecord)));
  H5Tinsert(type, "name", offsetof(SpanRecord, name), name);
  H5Tinsert(type, "begin", offsetof(SpanRecord, begin), H5T_STD_I64LE);
  H5Tinsert(type, "end", offsetof(SpanRecord, end), H5T_STD_I64LE);
  return type;
}

SpanRecord span_record(const Span& span) {
  SpanRecord record{};
  int64_t changed = 0;
  const std::string name = storable_text(span.name, changed);
  size_t used = 0;
  while (used < name.size()) {
    const size_t n = utf8_length(std::string_view(name).substr(used));
    if (used + n > sizeof record.name) break;
    used += n;
  }
  std::memcpy(record.name, name.data(), used);
  record.begin = span.begin;
  record.end = span.end;
  return record;
}

std::string storable_text(std::string_view text, int64_t& changed) {
  std::string out;
  out.reserve(text.size());
  changed = 0;
  while (!text.empty()) {
    const size_t n = utf8_length(text);
    if (n == 0 || text[0] == '\0') {
      out += n == 0 ? "\xe2\x90\xa6" : "\xe2\x90\x80";
      ++changed;
      text.remove_prefix(1);
    } else {
      out.append(text.substr(0, n));
      text.remove_prefix(n);
    }
  }
  return out;
}

bool has_attribute(hid_t object, const char* name) { return H5Aexists(object, name) > 0; }

void write_attribute(hid_t object, const std::string& name, const AttributeValue& value,
                     const std::string& file) {
  const Handle one = scalar();
  if (const auto* i = std::get_if<int64_t>(&value)) {
    put(object, name.c_str(), H5T_STD_I64LE, H5T_NATIVE_INT64, one, i, file);
  } else if (const auto* d = std::get_if<double>(&value)) {
    put(object, name.c_str(), H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, one, d, file);
  } else if (const auto* s = std::get_if<std::string>(&value)) {
    int64_t changed = 0;
    const std::string text = storable_text(*s, changed);
    const char* pointer = text.c_str();
    const Handle type = utf8_type();
    put(object, name.c_str(), type, type, one, &pointer, file);
  } else {
    const auto& list = std::get<std::vector<int64_t>>(value);
    const hsize_t n = list.size();
    const Handle space(n == 0 ? H5Screate(H5S_NULL) : H5Screate_simple(1, &n, nullptr));
    put(object, name.c_str(), H5T_STD_I64LE, H5T_NATIVE_INT64, space, list.data(), file);
  }
}

void write_attribute_i32(hid_t object, const char* name, int32_t value, const std::string& file) {
  put(object, name, H5T_STD_I32LE, H5T_NATIVE_INT32, scalar(), &value, file);
}

void write_attribute_u8(hid_t object, const char* name, uint8_t value, const std::string& file) {
  put(object, name, H5T_STD_U8LE, H5T_NATIVE_UINT8, scalar(), &value, file);
}

void rewrite_attribute(hid_t object, const char* name, int64_t value, const std::string& file) {
  const Handle attribute(
      checked(H5Aopen(object, name, H5P_DEFAULT), file, name, "cannot open the attribute"));
  if (H5Awrite(attribute, H5T_NATIVE_INT64, &value) < 0) fail_hdf5(file, name, "cannot write the attribute");
}

bool read_attribute(hid_t object, const char* name, int64_t& value) {
  if (!has_attribute(object, name)) return false;
  const Handle attribute(H5Aopen(object, name, H5P_DEFAULT));
  if (!attribute) return false;
  const Handle type(H5Aget_type(attribute)), space(H5Aget_space(attribute));
  if (!type || !space || H5Tget_class(type) != H5T_INTEGER || H5Sget_simple_extent_npoints(space) != 1)
    return false;
  return H5Aread(attribute, H5T_NATIVE_INT64, &value) >= 0;
}

bool read_attribute(hid_t object, const char* name, std::string& value) {
  if (!has_attribute(object, name)) return false;
  const Handle attribute(H5Aopen(object, name, H5P_DEFAULT));
  if (!attribute) return false;
  const Handle type(H5Aget_type(attribute)), space(H5Aget_space(attribute));
  if (!type || !space) return false;
  return read_any_string(
      type, space, [&](hid_t memory, void* out) { return H5Aread(attribute, memory, out); }, value);
}

Attributes read_attributes(hid_t object) {
  Attributes list;
  std::vector<std::string> names;
  const auto visit = [](hid_t, const char* name, const H5A_info_t*, void* out) -> herr_t {
    static_cast<std::vector<std::string>*>(out)->emplace_back(name);
    return 0;
  };
  hsize_t at = 0;
  H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, &at, visit, &names);
  for (const std::string& name : names) {
    const Handle attribute(H5Aopen(object, name.c_str(), H5P_DEFAULT));
    if (!attribute) continue;
    const Handle type(H5Aget_type(attribute)), space(H5Aget_space(attribute));
    if (!type || !space) continue;
    const H5T_class_t kind = H5Tget_class(type);
    const hssize_t n = H5Sget_simple_extent_npoints(space);
    std::string text;
    double number = 0;
    if (kind == H5T_STRING && read_attribute(object, name.c_str(), text)) {
      list.emplace_back(name, text);
    } else if (kind == H5T_FLOAT && n == 1 && H5Aread(attribute, H5T_NATIVE_DOUBLE, &number) >= 0) {
      list.emplace_back(name, number);
    } else if (kind == H5T_INTEGER && n >= 0 && n <= 65536) {
      std::vector<int64_t> values{std::vector<int64_t>(size_t(n))};
      if (n > 0 && H5Aread(attribute, H5T_NATIVE_INT64, values.data()) < 0) continue;
      if (H5Sget_simple_extent_type(space) == H5S_SCALAR)
        list.emplace_back(name, values.at(0));
      else
        list.emplace_back(name, std::move(values));
    }
  }
  return list;
}

bool read_string(hid_t dataset, std::string& value) {
  const Handle type(H5Dget_type(dataset)), space(H5Dget_space(dataset));
  if (!type || !space) return false;
  const hid_t transfer = H5Tget_size(type) <= size_t(kSmallTransfer) ? small_transfer() : H5P_DEFAULT;
  return read_any_string(
      type, space,
      [&](hid_t memory, void* out) { return H5Dread(dataset, memory, H5S_ALL, H5S_ALL, transfer, out); },
      value);
}

void write_text(hid_t group, const char* name, std::string_view text, const char* description,
                const std::string& file) {
  int64_t changed = 0;
  const std::string stored = storable_text(text, changed);
  const Handle type = utf8_type(), space = scalar(), properties(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_layout(properties,
                H5D_COMPACT);  // the reference to the text lies in the object header, which has a checksum
  const Handle dataset(checked(H5Dcreate2(group, name, type, space, H5P_DEFAULT, properties, H5P_DEFAULT),
                               file, name, "cannot create the dataset"));
  const char* pointer = stored.c_str();
  if (H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, &pointer) < 0)
    fail_hdf5(file, name, "cannot write the text");
  write_attribute(dataset, "axes", std::string(), file);
  write_attribute(dataset, "description", std::string(description), file);
  if (changed > 0) write_attribute(dataset, "substituted", changed, file);
}

}  // namespace slotscope::trace
