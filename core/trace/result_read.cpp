// Reading the file of a result: every size and every position is checked before it is used.
#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>

#include "core/trace/result_file.h"
#include "core/trace/trace_source.h"

namespace slotscope::trace {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kMostDatasets = 100'000, kMostNodes = 200'000, kMostList = 65'536;
constexpr int kMostDepth = 8;
constexpr int64_t kMostBytes = int64_t(4) << 30;

// The messages of what lies below speak of traces.
[[noreturn]] void as_result(const Error& error) {
  ErrorParts parts = error.parts();
  if (parts.advice.starts_with("Copy what is readable") || parts.advice.find("or capture again") != std::string::npos)
    parts.advice = "Copy it again from where it came, or compute it again";
  if (parts.expected == "a trace written by Slotscope" || parts.expected == "a trace file (.h5)")
    parts.expected = "a result written by slotscope-cli (.h5)";
  throw Error(parts, error.kind());
}

template <class Work>
auto reading(const std::string& name, Work work) -> decltype(work()) {
  const auto too_large = [&]() -> Error {
    return Error({.file = name, .found = "damaged: its sizes need more memory than there is", .advice = "Compute it again"});
  };
  try {
    const Hdf5Lock lock;
    return work();
  } catch (const Error& error) {
    as_result(error);
  } catch (const std::bad_alloc&) {
    throw too_large();
  } catch (const std::length_error&) {
    throw too_large();
  }
}

// One attribute of any type that a result knows; false for others, which are left out.
bool read_parameter(hid_t object, const std::string& name, ResultParameter& value) {
  const Handle attribute(H5Aopen(object, name.c_str(), H5P_DEFAULT));
  if (!attribute) return false;
  const Handle type(H5Aget_type(attribute)), space(H5Aget_space(attribute));
  if (!type || !space) return false;
  const hssize_t n = H5Sget_simple_extent_npoints(space);
  if (n < 0 || n > kMostList) return false;
  const bool single = H5Sget_simple_extent_type(space) == H5S_SCALAR;
  const auto numbers = [&](auto example, hid_t memory) {
    std::vector<decltype(example)> list{std::vector<decltype(example)>(size_t(n))};
    if (n > 0 && H5Aread(attribute, memory, list.data()) < 0) return false;
    if (single)
      value = list.at(0);
    else
      value = std::move(list);
    return true;
  };
  const H5T_class_t kind = H5Tget_class(type);
  if (kind == H5T_INTEGER) return numbers(int64_t(), H5T_NATIVE_INT64);
  if (kind == H5T_FLOAT) return numbers(double(), H5T_NATIVE_DOUBLE);
  if (kind != H5T_STRING) return false;
  std::string text;
  if (single) {
    if (!read_attribute(object, name.c_str(), text)) return false;
    value = std::move(text);
    return true;
  }
  std::vector<std::string> list;
  if (n > 0 && H5Tis_variable_str(type) > 0) {
    std::vector<char*> pointers(size_t(n), nullptr);
    if (H5Aread(attribute, type, pointers.data()) < 0) return false;
    for (const char* pointer : pointers) list.emplace_back(pointer ? pointer : "");
    H5Dvlen_reclaim(type, space, H5P_DEFAULT, pointers.data());
  } else if (n > 0) {
    const size_t size = H5Tget_size(type);
    if (size == 0 || size > (size_t(1) << 16)) return false;
    std::string bytes(size * size_t(n), '\0');
    if (H5Aread(attribute, type, bytes.data()) < 0) return false;
    for (size_t i = 0; i < size_t(n); ++i) list.emplace_back(bytes.data() + i * size, strnlen(bytes.data() + i * size, size));
  }
  value = std::move(list);
  return true;
}

ResultParameters read_parameters(hid_t object) {
  std::vector<std::string> names;
  const auto visit = [](hid_t, const char* name, const H5A_info_t*, void* out) -> herr_t {
    static_cast<std::vector<std::string>*>(out)->emplace_back(name);
    return 0;
  };
  hsize_t at = 0;
  H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, &at, visit, &names);
  ResultParameters list;
  for (const std::string& name : names)
    if (ResultParameter value; read_parameter(object, name, value)) list.emplace(name, std::move(value));
  return list;
}

ResultValues values_for(ElementType type) {
  switch (type) {
    case ElementType::f32:
      return std::vector<float>();
    case ElementType::u32:
      return std::vector<uint32_t>();
    case ElementType::f64:
    case ElementType::f16:
      return std::vector<double>();
    default:
      return std::vector<int64_t>();
  }
}

template <class T>
hid_t memory_type() {
  return std::is_same_v<T, double>    ? H5T_NATIVE_DOUBLE
         : std::is_same_v<T, float>   ? H5T_NATIVE_FLOAT
         : std::is_same_v<T, int64_t> ? H5T_NATIVE_INT64
                                      : H5T_NATIVE_UINT32;
}

std::string what_it_is(const std::string& format) {
  if (format == "slotscope-trace") return "This is a trace: open it in the window, `slotscope-cli analyze FILE` prints what it holds";
  if (format == "slotscope-sweep")
    return "This is a sweep: `slotscope figure FILE --out F.pdf` draws it, `slotscope-cli analyze FILE` prints its table";
  return "Give a file written by slotscope-cli ramnet theory, valuefield or overlap";
}

}  // namespace

struct ResultFile::Impl {
  Source source;
  Result result;

  void load(std::string_view kind);
  void root(hid_t group, std::string_view kind);
  void list(const std::string& group, int depth, int64_t& nodes);
  void describe(const std::string& path);
  ResultValues read(const ResultDataset& d, const std::vector<int64_t>& start, const std::vector<int64_t>& extent) const;
};

void ResultFile::Impl::root(hid_t group, std::string_view kind) {
  std::string format;
  int64_t version = 0, status = 0;
  if (!read_attribute(group, "format", format) || format != "slotscope-result")
    throw Error({.file = source.name, .item = "format",
                 .found = format.empty() ? "an HDF5 file without this attribute" : "'" + format.substr(0, 80) + "'",
                 .expected = "'slotscope-result'", .advice = what_it_is(format)});
  if (!read_attribute(group, "format_version", version) || version < 1)
    damaged(source.name, "format_version", version == 0 ? "missing" : std::to_string(version), "1");
  if (version > 1)
    throw Error({.file = source.name, .item = "format_version", .found = std::to_string(version),
                 .expected = "1, the newest that this program reads", .advice = "Use a newer Slotscope"});
  if (!read_attribute(group, "kind", result.kind) || result.kind.empty()) damaged(source.name, "kind", "missing", "a text");
  if (!kind.empty() && result.kind != kind)
    throw Error({.file = source.name, .item = "kind", .found = "'" + result.kind.substr(0, 80) + "'", .expected = "'" + std::string(kind) + "'",
                 .advice = "Give a result of this kind"});
  if (!read_attribute(group, "status", status) || status < 0 || status > 1) damaged(source.name, "status", std::to_string(status), "0 or 1");
  if (status != int64_t(Status::complete))
    throw Error({.file = source.name, .item = "status", .found = "not complete: its writer is at work or was stopped",
                 .expected = "a complete result", .advice = "Wait for it, or compute it again"});
  read_attribute(group, "created", result.created);
  read_attribute(group, "writer_version", result.writer_version);
}

void ResultFile::Impl::load(std::string_view kind) {
  const Handle group(H5Gopen2(source.file, "/", H5P_DEFAULT));
  if (!group) damaged(source.name, "/", "cannot open the root group (" + hdf5_message() + ")");
  root(group, kind);
  if (!source.exists("/parameters")) damaged(source.name, "/parameters", "missing", "a group");
  const Handle parameters(H5Gopen2(source.file, "/parameters", H5P_DEFAULT));
  if (!parameters) damaged(source.name, "/parameters", "cannot open the group (" + hdf5_message() + ")");
  result.parameters = read_parameters(parameters);
  int64_t nodes = 0;
  list("", 1, nodes);
}

// Hard links may lead round in circles: depth and number of what is looked at are bounded.
void ResultFile::Impl::list(const std::string& path, int depth, int64_t& nodes) {
  const Handle group(H5Gopen2(source.file, path.empty() ? "/" : path.c_str(), H5P_DEFAULT));
  if (!group) damaged(source.name, path, "cannot open the group (" + hdf5_message() + ")");
  std::vector<std::string> names;
  const auto visit = [](hid_t, const char* name, const H5L_info_t*, void* out) -> herr_t {
    auto& list = *static_cast<std::vector<std::string>*>(out);
    list.emplace_back(name);
    return int64_t(list.size()) > kMostNodes ? -1 : 0;
  };
  hsize_t at = 0;
  if (H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, &at, visit, &names) < 0)
    damaged(source.name, path.empty() ? "/" : path, "cannot list the group (" + hdf5_message() + ")");
  for (const std::string& name : names) {
    const std::string child = path + "/" + name;
    if (child == "/parameters") continue;
    if (++nodes > kMostNodes) damaged(source.name, child, "more than " + std::to_string(kMostNodes) + " objects");
    H5O_info_t info;
    if (!source.exists(child)) damaged(source.name, child, "cannot read it");
    if (H5Oget_info_by_name2(source.file, child.c_str(), &info, H5O_INFO_BASIC, H5P_DEFAULT) < 0)
      damaged(source.name, child, "cannot read it (" + hdf5_message() + ")");
    if (info.type == H5O_TYPE_DATASET) describe(child);
    if (info.type == H5O_TYPE_GROUP && depth < kMostDepth) list(child, depth + 1, nodes);
  }
}

void ResultFile::Impl::describe(const std::string& path) {
  if (int64_t(result.datasets.size()) >= kMostDatasets)
    damaged(source.name, path, "more than " + std::to_string(kMostDatasets) + " datasets");
  const Numbers data = source.numbers(path);
  ResultDataset d;
  d.name = path.substr(1);
  d.shape = data.shape;
  d.values = values_for(data.type);
  read_attribute(data.id, "axes", d.axes);
  read_attribute(data.id, "description", d.description);
  read_attribute(data.id, "unit", d.unit);
  if (d.axis_names().size() != d.shape.size())
    damaged(source.name, path, "axes '" + d.axes.substr(0, 80) + "' for " + std::to_string(d.shape.size()) + " sizes", "one name per axis");
  d.attributes = read_parameters(data.id);
  for (const char* own : {"axes", "description", "unit"}) d.attributes.erase(own);
  // A dataset whose chunks were never stored reads as zeros: sizes are bounded by what is there.
  const auto bytes = (unsigned __int128)(d.elements()) * element_size(data.type);
  if (bytes > (unsigned __int128)(H5Dget_storage_size(data.id)) * 1100)
    damaged(source.name, path, "its stored values are fewer than its sizes say");
  result.datasets.push_back(std::move(d));
}

ResultValues ResultFile::Impl::read(const ResultDataset& d, const std::vector<int64_t>& start, const std::vector<int64_t>& extent) const {
  const size_t rank = d.shape.size();
  bool good = start.size() == rank && extent.size() == rank;
  for (size_t i = 0; good && i < rank; ++i)
    good = start[i] >= 0 && extent[i] >= 0 && start[i] <= d.shape[i] && extent[i] <= d.shape[i] - start[i];
  if (!good) throw Error({.file = source.name, .item = d.name, .found = "a block outside it", .expected = "a block within its sizes"});
  size_t n = 1;
  for (const int64_t size : extent) n *= size_t(size);
  const std::string path = "/" + d.name;
  const Numbers data = source.numbers(path);
  ResultValues values = d.values;
  std::visit(
      [&](auto& list) {
        using T = typename std::decay_t<decltype(list)>::value_type;
        list.resize(n);
        if (n == 0) return;
        if (rank == 0) {
          if (H5Dread(data.id, memory_type<T>(), H5S_ALL, H5S_ALL, small_transfer(), list.data()) < 0)
            damaged(source.name, path, "cannot read the value (" + hdf5_message() + ")");
          return;
        }
        const std::vector<hsize_t> at(start.begin(), start.end()), size(extent.begin(), extent.end());
        if (data.check) data.check->look(data.id, at, size);
        const Handle space(H5Dget_space(data.id)), target(H5Screate_simple(int(rank), size.data(), nullptr));
        if (!space || !target || H5Sselect_hyperslab(space, H5S_SELECT_SET, at.data(), nullptr, size.data(), nullptr) < 0 ||
            H5Dread(data.id, memory_type<T>(), target, space, H5P_DEFAULT, list.data()) < 0)
          damaged(source.name, path, "cannot read its values (" + hdf5_message() + ")");
      },
      values);
  return values;
}

ResultFile::ResultFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ResultFile::~ResultFile() = default;

std::shared_ptr<ResultFile> ResultFile::open(const fs::path& file, std::string_view kind) {
  auto impl = std::make_unique<Impl>();
  reading(file.string(), [&] {
    impl->source.open(file);
    impl->load(kind);
  });
  return std::shared_ptr<ResultFile>(new ResultFile(std::move(impl)));
}

const Result& ResultFile::description() const { return impl_->result; }

ResultValues ResultFile::read(std::string_view dataset) const {
  const ResultDataset& d = impl_->result.at(dataset);
  return read(dataset, std::vector<int64_t>(d.shape.size(), 0), d.shape);
}

ResultValues ResultFile::read(std::string_view dataset, const std::vector<int64_t>& start, const std::vector<int64_t>& extent) const {
  const ResultDataset& d = impl_->result.at(dataset);
  return reading(impl_->source.name, [&] { return impl_->read(d, start, extent); });
}

Result read_result(const fs::path& file, std::string_view kind) {
  const auto open = ResultFile::open(file, kind);
  Result result = open->description();
  int64_t bytes = 0;
  for (const ResultDataset& d : result.datasets) {
    const int64_t element = std::visit([](const auto& v) { return int64_t(sizeof(*v.data())); }, d.values);
    int64_t size = 0;
    if (__builtin_mul_overflow(d.elements(), element, &size) || __builtin_add_overflow(bytes, size, &bytes) || bytes > kMostBytes)
      throw Error({.file = file.string(), .item = d.name, .found = "more than 4 GiB of values in this file",
                   .expected = "a result that fits in memory", .advice = "Read its datasets block by block, with h5py for instance"});
  }
  for (ResultDataset& d : result.datasets) d.values = open->read(d.name);
  return result;
}

}  // namespace slotscope::trace
