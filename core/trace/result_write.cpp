// Writing the file of a result.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <set>

#include "core/trace/file_lock.h"
#include "core/trace/hdf5_util.h"
#include "core/trace/output_place.h"
#include "core/trace/result_file.h"

#ifndef SLOTSCOPE_VERSION
#define SLOTSCOPE_VERSION "0.1.0"
#endif

namespace slotscope::trace {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kChunkBytes = int64_t(1) << 20;
constexpr size_t kMostList = 4000;  // entries of a list of an attribute: HDF5 keeps attributes of up to 64 KiB in a header

std::string now() {
  const std::time_t t = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&t, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

ElementType type_of(const ResultValues& values) {
  static constexpr ElementType types[] = {ElementType::f64, ElementType::f32, ElementType::i64, ElementType::u32};
  return types[values.index()];
}

const char* type_name(const ResultValues& values) {
  static constexpr const char* names[] = {"float64", "float32", "int64", "uint32"};
  return names[values.index()];
}

int64_t held(const ResultValues& values) {
  return std::visit([](const auto& list) { return int64_t(list.size()); }, values);
}

std::string sizes_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t n : shape) text += (text.empty() ? "" : ",") + std::to_string(n);
  return "[" + text + "]";
}

bool good_word(std::string_view word) {
  return !word.empty() && word != "." && word != ".." && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' || c == '.' || c == '\'';
  });
}

bool good_path(std::string_view path) {
  for (int steps = 1; steps <= 8; ++steps) {
    const size_t slash = path.find('/');
    if (!good_word(path.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
  return false;
}

class Checker {
 public:
  Checker(const fs::path& file, const Result& result) : file_(file.string()), result_(result) {}

  void check() {
    if (!good_word(result_.kind)) wrong("kind", "'" + result_.kind + "'", "a name such as ramnet-theory");
    parameters(result_.parameters, "parameter ");
    std::set<std::string> names{"parameters"}, groups;
    for (const ResultDataset& d : result_.datasets) {
      if (!good_path(d.name)) wrong("dataset '" + d.name + "'", "this name", "letters, digits, _ - . in at most 8 steps");
      if (!names.insert(d.name).second) wrong(d.name, "two of this name", "one");
      for (size_t slash = d.name.find('/'); slash != std::string::npos; slash = d.name.find('/', slash + 1))
        groups.insert(d.name.substr(0, slash));
      dataset(d);
    }
    for (const std::string& group : groups)
      if (names.contains(group)) wrong(group, "both a dataset and a group", "one of the two");
  }

 private:
  [[noreturn]] void wrong(const std::string& item, const std::string& found, const std::string& expected) const {
    throw Error({.file = file_, .item = item, .found = found, .expected = expected});
  }

  void parameters(const ResultParameters& list, const std::string& place) const {
    for (const auto& [name, value] : list) {
      if (!good_word(name)) wrong(place + "'" + name + "'", "this name", "letters, digits, _ - .");
      const size_t n = std::visit(
          [](const auto& v) -> size_t {
            if constexpr (requires { v.begin(); } && !std::is_same_v<std::decay_t<decltype(v)>, std::string>) return v.size();
            return 1;
          },
          value);
      if (n > kMostList)
        wrong(place + name, std::to_string(n) + " entries", "at most " + std::to_string(kMostList) + "; longer lists are datasets");
    }
  }

  void dataset(const ResultDataset& d) const {
    const auto axes = d.axis_names();
    if (axes.size() != d.shape.size() || d.shape.size() > H5S_MAX_RANK || !std::all_of(axes.begin(), axes.end(), good_word))
      wrong(d.name, "axes '" + d.axes + "' for sizes " + sizes_text(d.shape), "one name per axis");
    if (d.description.empty()) wrong(d.name, "no description", "a sentence that says what it holds");
    int64_t n = 1;
    for (const int64_t size : d.shape)
      if (size < 0 || __builtin_mul_overflow(n, size, &n)) wrong(d.name, "sizes " + sizes_text(d.shape), "sizes that memory holds");
    const int64_t values = held(d.values);
    if (values != n && values != 0) wrong(d.name, std::to_string(values) + " values for sizes " + sizes_text(d.shape), std::to_string(n));
    if (n > (int64_t(1) << 48)) wrong(d.name, "sizes " + sizes_text(d.shape), "a dataset that a disk can hold");
    parameters(d.attributes, d.name + " ");
    for (const char* taken : {"axes", "description", "unit"})
      if (d.attributes.contains(taken)) wrong(d.name, std::string("an attribute '") + taken + "'", "its own field");
    for (size_t i = 0; i < axes.size(); ++i) coordinates(d, axes[i], d.shape[i]);
  }

  // The nearest dataset that could be this axis' coordinates must fit it.
  void coordinates(const ResultDataset& d, const std::string& axis, int64_t size) const {
    std::string group = d.name;
    do {
      const size_t slash = group.rfind('/');
      group = slash == std::string::npos ? "" : group.substr(0, slash);
      const ResultDataset* found = result_.find(group.empty() ? axis : group + "/" + axis);
      if (!found || found->axes != axis) continue;
      if (found->shape.size() == 1 && found->shape[0] != size)
        wrong(d.name, "axis " + axis + " of " + std::to_string(size), std::to_string(found->shape[0]) + ", as many as coordinates in " + found->name);
      return;
    } while (!group.empty());
  }

  std::string file_;
  const Result& result_;
};

// Halves the longest axis until a chunk is small enough: about square, so that tiles and rows both touch few of them.
std::vector<int64_t> chunk_sizes(std::vector<int64_t> shape, int64_t element) {
  const auto bytes = [&] {
    int64_t n = element;
    for (const int64_t size : shape) n *= size;  // at most 2^48 elements of 8 bytes
    return n;
  };
  while (bytes() > kChunkBytes) {
    auto longest = std::max_element(shape.begin(), shape.end());
    *longest = (*longest + 1) / 2;
  }
  return shape;
}

}  // namespace

struct ResultWriter::Impl {
  struct Column {
    std::string name;
    ElementType type;
    const char* type_name;
    std::vector<int64_t> shape, chunk;
    int64_t elements = 0, written = 0;
    Handle dataset;
  };

  fs::path out, part;
  std::string name;  // of the part, for messages
  std::unique_ptr<FileLock> lock;
  std::vector<std::string> warnings;
  hid_t file = -1;
  std::vector<Column> columns;
  bool claimed = false, finished = false;

  void create(const Result& result);
  Handle group(hid_t parent, const char* path);
  void put(hid_t object, const std::string& attribute, const ResultParameter& value);
  void create_column(const ResultDataset& d);
  void write(Column& column, hid_t memory, const std::vector<int64_t>& start, const std::vector<int64_t>& extent, const void* values);
  void put_all(const ResultDataset& d, Column& column);
  Column& find(std::string_view dataset);
  void abandon();
};

Handle ResultWriter::Impl::group(hid_t parent, const char* path) {
  const Handle properties(H5Pcreate(H5P_GROUP_CREATE));
  H5Pset_attr_phase_change(properties, 4096, 0);  // attributes and links stay in the header, which has a checksum
  H5Pset_link_phase_change(properties, 60000, 0);
  return Handle(checked(H5Gcreate2(parent, path, H5P_DEFAULT, properties, H5P_DEFAULT), name, path, "cannot create the group"));
}

void ResultWriter::Impl::put(hid_t object, const std::string& attribute, const ResultParameter& value) {
  if (const auto* i = std::get_if<int64_t>(&value)) return write_attribute(object, attribute, *i, name);
  if (const auto* d = std::get_if<double>(&value)) return write_attribute(object, attribute, *d, name);
  if (const auto* s = std::get_if<std::string>(&value)) return write_attribute(object, attribute, *s, name);
  if (const auto* l = std::get_if<std::vector<int64_t>>(&value)) return write_attribute(object, attribute, *l, name);
  std::vector<std::string> texts;
  std::vector<const char*> pointers;
  std::vector<double> numbers;
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) {
    int64_t changed = 0;
    for (const std::string& text : *list) texts.push_back(storable_text(text, changed));
    for (const std::string& text : texts) pointers.push_back(text.c_str());
  } else {
    numbers = std::get<std::vector<double>>(value);
  }
  const bool text = std::holds_alternative<std::vector<std::string>>(value);
  const hsize_t n = text ? pointers.size() : numbers.size();
  const Handle type = text ? utf8_type() : element_type(ElementType::f64);
  const Handle space(n == 0 ? H5Screate(H5S_NULL) : H5Screate_simple(1, &n, nullptr));
  const Handle made(checked(H5Acreate2(object, attribute.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT), name, attribute,
                            "cannot create the attribute"));
  if (n == 0) return;
  const void* data = text ? static_cast<const void*>(pointers.data()) : numbers.data();
  if (H5Awrite(made, text ? type.get() : H5T_NATIVE_DOUBLE, data) < 0) fail_hdf5(name, attribute, "cannot write the attribute");
}

void ResultWriter::Impl::create(const Result& result) {
  const Handle access(H5Pcreate(H5P_FILE_ACCESS)), properties(H5Pcreate(H5P_FILE_CREATE));
  H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_V18);  // headers with a checksum
  H5Pset_file_locking(access, false, true);
  H5Pset_fclose_degree(access, H5F_CLOSE_STRONG);
  H5Pset_link_phase_change(properties, 60000, 0);
  file = checked(H5Fcreate(name.c_str(), H5F_ACC_TRUNC, properties, access), name, "", "cannot create the result");
  // Every text before every number: a reader looks at the strings of the first megabytes before HDF5 does.
  write_attribute(file, "format", std::string("slotscope-result"), name);
  write_attribute_i32(file, "format_version", 1, name);
  write_attribute(file, "kind", result.kind, name);
  write_attribute(file, "writer_version", std::string("slotscope " SLOTSCOPE_VERSION), name);
  write_attribute(file, "created", result.created.empty() ? now() : result.created, name);
  write_attribute_i32(file, "status", int32_t(Status::partial), name);
  const Handle parameters = group(file, "parameters");
  for (const auto& [key, value] : result.parameters) put(parameters, key, value);
  for (const ResultDataset& d : result.datasets) create_column(d);
  for (size_t i = 0; i < columns.size(); ++i)
    if (held(result.datasets[i].values) > 0) put_all(result.datasets[i], columns[i]);
}

void ResultWriter::Impl::create_column(const ResultDataset& d) {
  for (size_t slash = d.name.find('/'); slash != std::string::npos; slash = d.name.find('/', slash + 1))
    if (const std::string above = d.name.substr(0, slash); H5Lexists(file, above.c_str(), H5P_DEFAULT) <= 0) group(file, above.c_str());
  Column column{.name = d.name, .type = type_of(d.values), .type_name = type_name(d.values), .shape = d.shape, .elements = d.elements()};
  const std::vector<hsize_t> dims(d.shape.begin(), d.shape.end());
  const Handle space(dims.empty() ? H5Screate(H5S_SCALAR) : H5Screate_simple(int(dims.size()), dims.data(), nullptr));
  const Handle type = element_type(column.type), properties(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_attr_phase_change(properties, 4096, 0);
  H5Pset_obj_track_times(properties, false);  // the same result is the same file
  if (dims.empty()) H5Pset_layout(properties, H5D_COMPACT);  // the value lies in the header, which has a checksum
  if (!dims.empty() && column.elements > 0) {
    column.chunk = chunk_sizes(d.shape, int64_t(element_size(column.type)));
    const std::vector<hsize_t> chunk(column.chunk.begin(), column.chunk.end());
    H5Pset_chunk(properties, int(chunk.size()), chunk.data());
    H5Pset_shuffle(properties);
    H5Pset_deflate(properties, 1);  // its checksum tells of damage
  }
  const Handle access(H5Pcreate(H5P_DATASET_ACCESS));
  H5Pset_chunk_cache(access, 521, size_t(32 * kChunkBytes), 1.0);
  column.dataset = Handle(checked(H5Dcreate2(file, d.name.c_str(), type, space, H5P_DEFAULT, properties, access), name, d.name,
                                  "cannot create the dataset"));
  write_attribute(column.dataset, "axes", d.axes, name);
  write_attribute(column.dataset, "description", d.description, name);
  if (!d.unit.empty()) write_attribute(column.dataset, "unit", d.unit, name);
  for (const auto& [key, value] : d.attributes) put(column.dataset, key, value);
  columns.push_back(std::move(column));
}

namespace {

template <class T>
hid_t memory_type() {
  return std::is_same_v<T, double>    ? H5T_NATIVE_DOUBLE
         : std::is_same_v<T, float>   ? H5T_NATIVE_FLOAT
         : std::is_same_v<T, int64_t> ? H5T_NATIVE_INT64
                                      : H5T_NATIVE_UINT32;
}

}  // namespace

void ResultWriter::Impl::put_all(const ResultDataset& d, Column& column) {
  const std::vector<int64_t> start(d.shape.size(), 0);
  std::visit(
      [&](const auto& list) {
        write(column, memory_type<typename std::decay_t<decltype(list)>::value_type>(), start, d.shape, list.data());
      },
      d.values);
}

void ResultWriter::Impl::write(Column& column, hid_t memory, const std::vector<int64_t>& start, const std::vector<int64_t>& extent,
                               const void* values) {
  const size_t rank = column.shape.size();
  bool good = start.size() == rank && extent.size() == rank;
  int64_t n = 1;
  for (size_t i = 0; good && i < rank; ++i) {
    good = start[i] >= 0 && extent[i] >= 0 && start[i] <= column.shape[i] && extent[i] <= column.shape[i] - start[i];
    n *= extent[i];
  }
  if (!good)
    throw Error({.file = name, .item = column.name, .found = "a block at " + sizes_text(start) + " of " + sizes_text(extent),
                 .expected = "a block within " + sizes_text(column.shape)});
  if (n == 0) return;
  herr_t done = 0;
  if (rank == 0) {
    done = H5Dwrite(column.dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
  } else {
    const std::vector<hsize_t> at(start.begin(), start.end()), size(extent.begin(), extent.end());
    const Handle space(H5Dget_space(column.dataset)), source(H5Screate_simple(int(rank), size.data(), nullptr));
    H5Sselect_hyperslab(space, H5S_SELECT_SET, at.data(), nullptr, size.data(), nullptr);
    done = H5Dwrite(column.dataset, memory, source, space, H5P_DEFAULT, values);
  }
  if (done < 0) fail_hdf5(name, column.name, "cannot write the dataset");
  column.written += n;
}

ResultWriter::Impl::Column& ResultWriter::Impl::find(std::string_view dataset) {
  if (file < 0) throw Error({.file = out.string(), .item = std::string(dataset), .found = "written after finish()"});
  for (Column& column : columns)
    if (column.name == dataset) return column;
  throw Error({.file = name, .item = std::string(dataset), .found = "no such dataset", .expected = "one that was announced"});
}

// The file is closed first: HDF5 must not write to a name that is somebody else's by then.
void ResultWriter::Impl::abandon() {
  {
    const Hdf5Lock hdf5;
    columns.clear();
    if (file >= 0) H5Fclose(file);
    file = -1;
  }
  if (claimed) ::unlink(part.c_str());
  claimed = false;
  lock.reset();
}

ResultWriter::ResultWriter(fs::path file, const Result& result, bool force) : impl_(std::make_unique<Impl>()) {
  Impl& m = *impl_;
  m.out = std::move(file);
  m.part = m.out;
  m.part += ".part";
  m.name = m.part.string();
  Checker(m.out, result).check();
  check_output(m.out, m.part, force, "result");
  std::error_code none;
  if (const auto size = fs::file_size(m.part, none); !force && !none && size > 0)
    throw Error({.file = m.name, .found = "left over from an interrupted run",
                 .advice = "It may be all that is left of a trace. Remove it, replace it with --force or choose another --out"});
  m.lock = std::make_unique<FileLock>(m.part, m.warnings);
  m.claimed = true;
  try {
    const Hdf5Lock hdf5;
    m.create(result);
  } catch (...) {
    m.abandon();
    throw;
  }
}

ResultWriter::~ResultWriter() {
  if (impl_ && !impl_->finished) impl_->abandon();
}

template <class T>
void ResultWriter::write(std::string_view dataset, const std::vector<int64_t>& start, const std::vector<int64_t>& extent,
                         const T* values) {
  const Hdf5Lock hdf5;
  Impl::Column& column = impl_->find(dataset);
  const ResultValues wanted = std::vector<T>();
  if (type_of(wanted) != column.type)
    throw Error({.file = impl_->name, .item = column.name, .found = std::string(type_name(wanted)) + " values", .expected = column.type_name});
  impl_->write(column, memory_type<T>(), start, extent, values);
}
template void ResultWriter::write(std::string_view, const std::vector<int64_t>&, const std::vector<int64_t>&, const double*);
template void ResultWriter::write(std::string_view, const std::vector<int64_t>&, const std::vector<int64_t>&, const float*);
template void ResultWriter::write(std::string_view, const std::vector<int64_t>&, const std::vector<int64_t>&, const int64_t*);
template void ResultWriter::write(std::string_view, const std::vector<int64_t>&, const std::vector<int64_t>&, const uint32_t*);

std::vector<int64_t> ResultWriter::chunk(std::string_view dataset) const { return impl_->find(dataset).chunk; }

void ResultWriter::finish() {
  Impl& m = *impl_;
  for (const Impl::Column& column : m.columns)
    if (column.written < column.elements)
      throw Error({.file = m.name, .item = column.name, .found = std::to_string(column.written) + " values written",
                   .expected = std::to_string(column.elements)});
  const auto failed = [&](const char* what, int error) {
    m.abandon();
    throw Error({.file = m.out.string(), .found = std::string(what) + std::strerror(error),
                 .expected = "a folder and a disk that can be written", .advice = "Free some space, or choose another --out"});
  };
  try {
    const Hdf5Lock hdf5;
    if (m.file < 0) throw Error({.file = m.out.string(), .found = "finish() was called twice"});
    for (Impl::Column& column : m.columns) {
      if (H5Dflush(column.dataset) < 0) fail_hdf5(m.name, column.name, "cannot write the dataset");
      column.dataset.reset();
    }
    rewrite_attribute(m.file, "status", int64_t(Status::complete), m.name);
    const hid_t closing = std::exchange(m.file, -1);
    if (H5Fclose(closing) < 0) fail_hdf5(m.name, "", "cannot close the result");
  } catch (...) {
    m.abandon();
    throw;
  }
  if (const int error = sync_path(m.part, false)) failed("cannot store the result: ", error);
  if (std::rename(m.part.c_str(), m.out.c_str()) != 0) failed("cannot rename the new file: ", errno);
  sync_path(m.out.has_parent_path() ? m.out.parent_path() : fs::path("."), true);
  m.finished = true;
  m.claimed = false;
  m.lock.reset();
}

void write_result(const fs::path& file, const Result& result, bool force) {
  Checker(file, result).check();
  for (const ResultDataset& d : result.datasets)
    if (held(d.values) != d.elements())
      throw Error({.file = file.string(), .item = d.name, .found = std::to_string(held(d.values)) + " values for sizes " + sizes_text(d.shape),
                   .expected = std::to_string(d.elements())});
  ResultWriter(file, result, force).finish();
}

}  // namespace slotscope::trace
