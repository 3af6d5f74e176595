// A small trace written through the real writer, from routes that the case knows.
#pragma once

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "core/trace/trace.h"
#include "core/trace/writer.h"
#include "tests/cases/analysis/twin.h"

namespace slotscope::testing {

// A float64 dataset of a layer: `row` is the shape of one row, or the whole shape of a fixed one.
struct MadeField {
  std::string name, axes;
  std::vector<int64_t> row;
  std::vector<double> values;
  bool growing = true;
};

struct MadeLayer {
  std::string family = "raven", route_kind = "sparse";
  std::vector<HeadRoutes> heads;        // by route head; empty: nothing captured
  int64_t query_heads = 0;              // 0: as many as route heads
  std::vector<int64_t> captured_heads;  // query and route heads kept; empty: all
  std::vector<int64_t> read_token;      // with `reads`
  std::vector<double> reads;            // [read_token, captured query heads, M]
  bool counters = true;
  std::vector<double> margin;    // [rows, captured route heads]
  std::vector<uint32_t> ties;    // [captured route heads]
  int64_t slots = 0, top_k = 0;  // for layers without heads
  int64_t route_heads = 2;       // for layers without heads
  trace::Attributes attributes;
  std::vector<MadeField> fields;  // of layers without heads
};
struct MadeRun {
  int64_t tokens = 0, prompt = 0;
  std::vector<uint8_t> roles;
  std::vector<Span> spans;
  std::vector<MadeLayer> layers;
};

template <class T, class From>
std::vector<std::byte> pack(const std::vector<From>& values) {
  std::vector<std::byte> out(values.size() * sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    const T v = T(values[i]);
    std::memcpy(out.data() + i * sizeof(T), &v, sizeof v);
  }
  return out;
}

class TraceMaker {
 public:
  static std::shared_ptr<trace::Trace> make(const std::filesystem::path& file, const MadeRun& made) {
    TraceMaker maker;
    maker.describe(made);
    trace::Hdf5Sink sink(file);
    sink.begin({.family = "raven", .dtype = "float64"}, {maker.spec_});
    for (size_t d = 0; d < maker.data_.size(); ++d) {
      const auto& [rows, bytes] = maker.data_[d];
      if (maker.spec_.datasets[d].growing)
        sink.append(0, int(d), rows, bytes);
      else
        sink.write(0, int(d), bytes);
    }
    sink.tokens_done(0, made.tokens);
    sink.set_spans(0, made.spans);
    sink.finish(trace::Status::complete);
    return trace::Trace::open(file);
  }

 private:
  using Type = trace::ElementType;

  void add(std::string path, Type type, std::vector<int64_t> shape, int64_t rows,
           std::vector<std::byte> bytes, bool growing = true, const std::string& axes = "T") {
    spec_.datasets.push_back({.path = std::move(path),
                              .type = type,
                              .growing = growing,
                              .shape = std::move(shape),
                              .expected_rows = rows,
                              .axes = axes,
                              .description = "made"});
    data_.emplace_back(rows, std::move(bytes));
  }

  void describe(const MadeRun& made) {
    spec_.name = "made";
    spec_.prompt_tokens = made.prompt;
    spec_.spans = made.spans;
    std::vector<int64_t> positions;
    for (int64_t t = 0; t < made.tokens; ++t) positions.push_back(t);
    add("tokens/ids", Type::i32, {}, made.tokens, pack<int32_t>(positions));
    add("tokens/position", Type::i64, {}, made.tokens, pack<int64_t>(positions));
    add("tokens/roles", Type::u8, {}, made.tokens, pack<uint8_t>(made.roles));
    add("tokens/special", Type::u8, {}, made.tokens, std::vector<std::byte>(size_t(made.tokens)));
    for (size_t i = 0; i < made.layers.size(); ++i) describe_layer(int(i), made.layers[i]);
  }

  void describe_layer(int index, const MadeLayer& layer) {
    const int64_t heads = int64_t(layer.heads.size());
    trace::LayerSpec spec{.index = index, .family = layer.family, .route_kind = layer.route_kind};
    spec.route_heads = heads == 0 ? layer.route_heads : heads;
    spec.heads = layer.query_heads ? layer.query_heads : spec.route_heads;
    spec.slots = heads ? layer.heads[0].slots : layer.slots;
    spec.top_k = heads ? layer.heads[0].top_k : layer.top_k;
    std::vector<int64_t> kept = layer.captured_heads;
    if (!kept.empty()) {
      spec.attributes = {{"captured_heads", kept}, {"captured_route_heads", kept}};
    } else {
      for (int64_t h = 0; h < heads; ++h) kept.push_back(h);
    }
    spec.attributes.insert(spec.attributes.end(), layer.attributes.begin(), layer.attributes.end());
    spec_.layers.push_back(spec);
    const std::string at = "layers/" + std::to_string(index) + "/";
    for (const MadeField& field : layer.fields) {
      int64_t row = 1;
      for (const int64_t n : field.row) row *= n;
      const int64_t rows = field.growing ? int64_t(field.values.size()) / row : field.row.at(0);
      const bool list = field.name == "token" || field.name.ends_with("_token");
      add(at + field.name, list ? Type::i64 : Type::f64, field.row, rows,
          list ? pack<int64_t>(field.values) : pack<double>(field.values), field.growing, field.axes);
    }
    if (heads == 0) return;
    const HeadRoutes& first = layer.heads[size_t(kept[0])];
    const int64_t rows = first.rows, h = int64_t(kept.size()), k = first.top_k, m = first.slots;
    std::vector<uint32_t> slot, esl, selected;
    std::vector<double> weight, decay, strength;
    for (int64_t row = 0; row < rows; ++row) {
      for (const int64_t head : kept) {
        const HeadRoutes& r = layer.heads[size_t(head)];
        slot.insert(slot.end(), r.index.begin() + row * k, r.index.begin() + (row + 1) * k);
        weight.insert(weight.end(), r.weight.begin() + row * k, r.weight.begin() + (row + 1) * k);
        const int64_t width = r.per_slot_decay ? k : 1;
        if (r.has_decay())
          decay.insert(decay.end(), r.log_decay.begin() + row * width,
                       r.log_decay.begin() + (row + 1) * width);
      }
    }
    add(at + "route_index", Type::u16, {h, k}, rows, pack<uint16_t>(slot));
    add(at + "route_weight", Type::f64, {h, k}, rows, pack<double>(weight));
    if (first.has_decay())
      add(at + "log_decay", Type::f64,
          first.per_slot_decay ? std::vector<int64_t>{h, k} : std::vector<int64_t>{h}, rows,
          pack<double>(decay));
    if (!first.token.empty()) add(at + "token", Type::i64, {}, rows, pack<int64_t>(first.token));
    if (layer.counters) {
      for (const int64_t head : kept) {
        const HeadRoutes& r = layer.heads[size_t(head)];
        std::vector<uint32_t> n(size_t(m), 0), all(size_t(m), 0);
        for (size_t e = 0; e < r.index.size(); ++e) ++all[r.index[e]], n[r.index[e]] += r.weight[e] != 0;
        esl.insert(esl.end(), n.begin(), n.end());
        selected.insert(selected.end(), all.begin(), all.end());
      }
      add(at + "esl", Type::u32, {h, m}, h, pack<uint32_t>(esl), false);
      add(at + "selected", Type::u32, {h, m}, h, pack<uint32_t>(selected), false);
    }
    if (!layer.ties.empty()) add(at + "ties", Type::u32, {h}, h, pack<uint32_t>(layer.ties), false);
    if (!layer.margin.empty()) add(at + "margin", Type::f64, {h}, rows, pack<double>(layer.margin));
    if (layer.read_token.empty()) return;
    const int64_t reads = int64_t(layer.read_token.size());
    const int64_t query_heads = int64_t(layer.reads.size()) / (reads * m);
    add(at + "read_weight", Type::f64, {query_heads, m}, reads, pack<double>(layer.reads));
    add(at + "read_token", Type::i64, {}, reads, pack<int64_t>(layer.read_token));
  }

  trace::RunSpec spec_;
  std::vector<std::pair<int64_t, std::vector<std::byte>>> data_;
};

}  // namespace slotscope::testing
