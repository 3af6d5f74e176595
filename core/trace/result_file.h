// The file of a computed result (format "slotscope-result" version 1, resources/result-format.md): parameters and named datasets with
// axes, coordinates, units and descriptions. One container for every computation that needs no trace (`slotscope-cli ramnet ...`). A
// file is only ever written as a whole (NAME.part, fsync, rename), so that a name without .part is never half a result.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace slotscope::trace {

// A uint64 (a seed) is stored as text: no program reads it wrong then.
using ResultParameter = std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>, std::vector<std::string>>;
using ResultParameters = std::map<std::string, ResultParameter>;  // by name, in the order of the alphabet

using ResultValues = std::variant<std::vector<double>, std::vector<float>, std::vector<int64_t>, std::vector<uint32_t>>;

// One dataset, row-major. An axis called `x` has its coordinates in the dataset `x` of the same group or of one above it, when there is
// such a dataset with the one axis `x`; its length is that of the axis.
struct ResultDataset {
  std::string name;            // "kappa", "panels/0003/field": letters, digits, _ - . in steps of a path
  std::vector<int64_t> shape;  // [] a single number
  std::string axes;            // "T,T": one name per axis, comma-separated, without blanks
  std::string description;     // a sentence, never empty
  std::string unit;            // "nats", "rad", ...; "" none
  ResultValues values;         // of all elements; empty although there are elements: ResultWriter::write brings them
  ResultParameters attributes{};  // further facts; axes, description, unit are taken

  int64_t elements() const;  // product of the shape
  std::vector<std::string> axis_names() const;
};

struct Result {
  std::string kind;                     // "ramnet-theory", "ramnet-valuefield", "ramnet-overlap"
  ResultParameters parameters;
  std::vector<ResultDataset> datasets;  // read_result: in the order of the alphabet
  std::string created;                  // ISO 8601, UTC; "": now
  std::string writer_version;           // set by reading

  const ResultDataset* find(std::string_view name) const;  // null when absent
  const ResultDataset& at(std::string_view name) const;    // throws Error
  // Coordinates of an axis of `dataset`, or null.
  const ResultDataset* coordinates(const ResultDataset& dataset, size_t axis) const;
  // Throws Error (missing, of another type). Numbers: an integer is also given as double, a single number as a list of one.
  int64_t integer(std::string_view parameter) const;
  double number(std::string_view parameter) const;
  std::string text(std::string_view parameter) const;
  std::vector<double> numbers(std::string_view parameter) const;
};

// The values as double, whatever their type.
std::vector<double> as_doubles(const ResultValues& values);

// Writes a result whose large datasets come block by block. Every group, dataset and attribute is made by the constructor.
class ResultWriter {
 public:
  // Throws Error: the file exists (unless `force`), its folder cannot be written, another program writes it, names or sizes that
  // contradict each other.
  ResultWriter(std::filesystem::path file, const Result& result, bool force);
  // Without finish(): nothing is left behind.
  ~ResultWriter();
  ResultWriter(const ResultWriter&) = delete;
  ResultWriter& operator=(const ResultWriter&) = delete;

  // The block [start, start + extent) of a dataset, row-major, of the dataset's own type (T is checked). Chunks are about square:
  // blocks that cover whole chunks (chunk()) are written once. Throws Error.
  template <class T>
  void write(std::string_view dataset, const std::vector<int64_t>& start, const std::vector<int64_t>& extent, const T* values);
  // Sizes of the chunks of a dataset; [] when it is not chunked.
  std::vector<int64_t> chunk(std::string_view dataset) const;
  // Marks it complete, stores it on the disk and gives it its name. Throws Error, also when a dataset has not got all its values.
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// All at once. What was there before stays when this throws.
void write_result(const std::filesystem::path& file, const Result& result, bool force);

// An open result: parameters and shapes; values on request. Thread-safe.
class ResultFile {
 public:
  // `kind` not empty: only this one. Throws Error: not HDF5, a trace or a sweep (named as such), newer version (by number), another
  // kind, never completed, damaged (item, found, expected).
  static std::shared_ptr<ResultFile> open(const std::filesystem::path& file, std::string_view kind = {});
  ~ResultFile();

  // Everything but the values: the variant of a dataset tells their type. Types of foreign files become the nearest of the four.
  const Result& description() const;
  ResultValues read(std::string_view dataset) const;
  // The block [start, start + extent).
  ResultValues read(std::string_view dataset, const std::vector<int64_t>& start, const std::vector<int64_t>& extent) const;

 private:
  struct Impl;
  explicit ResultFile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// All of a result, of 4 GiB of values at most. Throws Error as ResultFile::open.
Result read_result(const std::filesystem::path& file, std::string_view kind = {});

}  // namespace slotscope::trace
