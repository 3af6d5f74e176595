// What a result is made of, without HDF5.
#include "core/trace/result_file.h"

#include <algorithm>

#include "core/error.h"

namespace slotscope::trace {
namespace {

[[noreturn]] void wrong_parameter(const Result& result, std::string_view name, bool there, const char* expected) {
  throw Error({.item = "parameter " + std::string(name), .found = there ? "a value of another type" : "missing",
               .expected = std::string(expected) + " in a result of kind " + result.kind});
}

const ResultParameter* parameter(const Result& result, std::string_view name) {
  const auto found = result.parameters.find(std::string(name));
  return found == result.parameters.end() ? nullptr : &found->second;
}

}  // namespace

int64_t ResultDataset::elements() const {
  int64_t n = 1;
  for (const int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(n, size, &n))
      throw Error({.item = name, .found = "sizes that no memory holds"});
  return n;
}

std::vector<std::string> ResultDataset::axis_names() const {
  std::vector<std::string> names;
  if (axes.empty()) return names;
  for (size_t at = 0;;) {
    const size_t comma = axes.find(',', at);
    names.push_back(axes.substr(at, comma - at));
    if (comma == std::string::npos) return names;
    at = comma + 1;
  }
}

const ResultDataset* Result::find(std::string_view name) const {
  const auto found = std::find_if(datasets.begin(), datasets.end(), [&](const ResultDataset& d) { return d.name == name; });
  return found == datasets.end() ? nullptr : &*found;
}

const ResultDataset& Result::at(std::string_view name) const {
  if (const ResultDataset* found = find(name)) return *found;
  throw Error({.item = "dataset " + std::string(name), .found = "missing", .expected = "a dataset in a result of kind " + kind});
}

const ResultDataset* Result::coordinates(const ResultDataset& dataset, size_t axis) const {
  const auto names = dataset.axis_names();
  if (axis >= names.size() || axis >= dataset.shape.size()) return nullptr;
  std::string group = dataset.name;
  while (true) {
    const size_t slash = group.rfind('/');
    group = slash == std::string::npos ? "" : group.substr(0, slash);
    const ResultDataset* found = find(group.empty() ? names[axis] : group + "/" + names[axis]);
    if (found && found != &dataset && found->axes == names[axis] && found->shape.size() == 1 && found->shape[0] == dataset.shape[axis])
      return found;
    if (group.empty()) return nullptr;
  }
}

int64_t Result::integer(std::string_view name) const {
  const ResultParameter* value = parameter(*this, name);
  if (const auto* i = value ? std::get_if<int64_t>(value) : nullptr) return *i;
  wrong_parameter(*this, name, value != nullptr, "an integer");
}

double Result::number(std::string_view name) const {
  const ResultParameter* value = parameter(*this, name);
  if (value)
    if (const auto* d = std::get_if<double>(value)) return *d;
  if (value)
    if (const auto* i = std::get_if<int64_t>(value)) return double(*i);
  wrong_parameter(*this, name, value != nullptr, "a number");
}

std::string Result::text(std::string_view name) const {
  const ResultParameter* value = parameter(*this, name);
  if (const auto* s = value ? std::get_if<std::string>(value) : nullptr) return *s;
  wrong_parameter(*this, name, value != nullptr, "a text");
}

std::vector<double> Result::numbers(std::string_view name) const {
  const ResultParameter* value = parameter(*this, name);
  if (value) {
    if (const auto* list = std::get_if<std::vector<double>>(value)) return *list;
    if (const auto* list = std::get_if<std::vector<int64_t>>(value)) return std::vector<double>(list->begin(), list->end());
    if (const auto* d = std::get_if<double>(value)) return {*d};
    if (const auto* i = std::get_if<int64_t>(value)) return {double(*i)};
  }
  wrong_parameter(*this, name, value != nullptr, "a list of numbers");
}

std::vector<double> as_doubles(const ResultValues& values) {
  return std::visit([](const auto& list) { return std::vector<double>(list.begin(), list.end()); }, values);
}

}  // namespace slotscope::trace
