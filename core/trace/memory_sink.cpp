#include <cstring>
#include <string_view>

#include "core/error.h"
#include "core/trace/half.h"
#include "core/trace/sink.h"

namespace slotscope::trace {

size_t element_size(ElementType type) {
  switch (type) {
    case ElementType::u8:
      return 1;
    case ElementType::u16:
    case ElementType::f16:
      return 2;
    case ElementType::u32:
    case ElementType::i32:
    case ElementType::f32:
      return 4;
    case ElementType::i64:
    case ElementType::f64:
      return 8;
  }
  return 0;
}

void MemorySink::begin(const ModelSpec& m, const std::vector<RunSpec>& r) {
  model = m;
  runs = r;
  data.clear();
  for (const RunSpec& run : runs) data.emplace_back(run.datasets.size());
  done.assign(runs.size(), 0);
  exact.assign(runs.size(), -1);
}

void MemorySink::append(int run, int dataset, int64_t rows, std::vector<std::byte> bytes) {
  Data& d = data.at(size_t(run)).at(size_t(dataset));
  d.rows += rows;
  d.bytes.insert(d.bytes.end(), bytes.begin(), bytes.end());
}

void MemorySink::write(int run, int dataset, std::vector<std::byte> bytes) {
  Data& d = data.at(size_t(run)).at(size_t(dataset));
  const auto& shape = runs[size_t(run)].datasets[size_t(dataset)].shape;
  d.rows = shape.empty() ? 1 : shape.front();
  d.bytes = std::move(bytes);
}

void MemorySink::tokens_done(int run, int64_t n) { done.at(size_t(run)) = n; }
void MemorySink::set_spans(int run, std::vector<Span> spans) {
  runs.at(size_t(run)).spans = std::move(spans);
}
void MemorySink::set_exact(int run, bool e) { exact.at(size_t(run)) = e; }
void MemorySink::finish(Status s) { status = s; }

int MemorySink::find(int run, std::string_view path) const {
  const auto& list = runs.at(size_t(run)).datasets;
  for (size_t i = 0; i < list.size(); ++i)
    if (list[i].path == path) return int(i);
  return -1;
}

namespace {

template <class T, class F>
void convert(const std::vector<std::byte>& bytes, std::vector<double>& out, F f) {
  for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T v;
    std::memcpy(&v, bytes.data() + at, sizeof v);
    out.push_back(f(v));
  }
}

}  // namespace

std::vector<double> MemorySink::values(int run, std::string_view path) const {
  const int i = find(run, path);
  if (i < 0)
    throw Error(
        {.item = std::string(path), .found = "not captured", .advice = "Add the field to the capture plan"});
  const auto& bytes = data[size_t(run)][size_t(i)].bytes;
  std::vector<double> out;
  const auto plain = [](auto v) { return double(v); };
  switch (runs[size_t(run)].datasets[size_t(i)].type) {
    case ElementType::u8:
      convert<uint8_t>(bytes, out, plain);
      break;
    case ElementType::u16:
      convert<uint16_t>(bytes, out, plain);
      break;
    case ElementType::u32:
      convert<uint32_t>(bytes, out, plain);
      break;
    case ElementType::i32:
      convert<int32_t>(bytes, out, plain);
      break;
    case ElementType::i64:
      convert<int64_t>(bytes, out, plain);
      break;
    case ElementType::f16:
      convert<uint16_t>(bytes, out, [](uint16_t v) { return double(half_to_float(v)); });
      break;
    case ElementType::f32:
      convert<float>(bytes, out, plain);
      break;
    case ElementType::f64:
      convert<double>(bytes, out, plain);
      break;
  }
  return out;
}

}  // namespace slotscope::trace
