#include "tests/cases/trace/made_trace.h"

#include <algorithm>
#include <cmath>

#include "tests/cases/case.h"

namespace slotscope::testing {
namespace {

using trace::DatasetSpec;
using trace::ElementType;

template <class T>
void put(std::vector<std::byte>& out, T value) {
  const size_t at = out.size();
  out.resize(at + sizeof value);
  std::memcpy(out.data() + at, &value, sizeof value);
}

// Small multiples of 1/8 below 2: exact in binary16.
uint16_t half_of(double v) {
  if (v == 0) return 0;
  const uint16_t sign = v < 0 ? 0x8000 : 0;
  v = std::abs(v);
  int exponent = 15;
  while (v >= 2) v /= 2, ++exponent;
  while (v < 1) v *= 2, --exponent;
  return uint16_t(sign | exponent << 10 | int((v - 1) * 1024));
}

uint64_t mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return x ^ x >> 33;
}

bool ends_with(const std::string& s, const char* end) {
  const size_t n = std::strlen(end);
  return s.size() >= n && s.compare(s.size() - n, n, end) == 0;
}

// Rows of a growing dataset after `t` tokens of the run.
int64_t rows_at(const DatasetSpec& d, const MadeOptions& o, int64_t t) {
  const int64_t generated = std::max<int64_t>(t - o.prompt, 0);
  const std::string axis = d.axes.substr(0, d.axes.find(','));
  if (axis == "T+1") return t + 1;
  if (axis == "N") return ends_with(d.path, "tokens/bytes") ? 2 * t : generated;  // two bytes a token
  if (axis == "G") return t >= o.prompt ? generated + 1 : 0;
  if (axis == "T'") return t >= o.prompt ? generated + 1 : 0;
  if (axis == "S") return t >= o.tokens ? 1 : 0;
  return t;
}

}  // namespace

double made_value(const std::string& path, ElementType type, int64_t row, int64_t i) {
  if (ends_with(path, "byte_offsets")) return double(2 * row);
  if (ends_with(path, "position")) return double(row);
  if (ends_with(path, "read_token")) return double(289 + row);
  if (ends_with(path, "state_token")) return 299;
  if (path == "output/text") return double('a' + row % 26);
  uint64_t h = 1469598103934665603ULL;
  for (char c : path) h = (h ^ uint64_t(static_cast<unsigned char>(c))) * 1099511628211ULL;
  h = mix(h + uint64_t(row) * 1000003 + uint64_t(i));
  if (ends_with(path, "roles") || ends_with(path, "special")) return double(h % 2);
  if (ends_with(path, "log_decay")) return -double(1 + h % 15) / 8;
  switch (type) {
    case ElementType::f16:
      return double(h % 16) / 8;
    case ElementType::f32:
      return double(int64_t(h % 20001) - 10000) / 1024;
    case ElementType::f64:
      return double(int64_t(h % 2000000001) - 1000000000) / 3.0;
    case ElementType::i32:
      return double(int64_t(h % 2000) - 1000);
    default:
      return double(h % 16);
  }
}

std::vector<std::byte> made_rows(const DatasetSpec& spec, int64_t first, int64_t count) {
  int64_t width = 1;
  for (int64_t n : spec.shape) width *= n;
  std::vector<std::byte> out;
  out.reserve(size_t(count * width) * element_size(spec.type));
  for (int64_t row = first; row < first + count; ++row)
    for (int64_t i = 0; i < width; ++i) {
      const double v = made_value(spec.path, spec.type, row, i);
      switch (spec.type) {
        case ElementType::u8:
          put(out, uint8_t(v));
          break;
        case ElementType::u16:
          put(out, uint16_t(v));
          break;
        case ElementType::u32:
          put(out, uint32_t(v));
          break;
        case ElementType::i32:
          put(out, int32_t(v));
          break;
        case ElementType::i64:
          put(out, int64_t(v));
          break;
        case ElementType::f16:
          put(out, half_of(v));
          break;
        case ElementType::f32:
          put(out, float(v));
          break;
        case ElementType::f64:
          put(out, v);
          break;
      }
    }
  return out;
}

trace::ModelSpec made_model() {
  return {.config_json = R"({"model_type":"raven","note":"é"})",
          .family = "raven",
          .flavour = "fla",
          .dtype = "float32",
          .router_dtype = "float32",
          .device = "cpu",
          .checkpoint = "checkpoints/made",
          .tensor_digest = std::string(64, 'a'),
          .attributes = {{"tf32", int64_t(0)}}};
}

trace::RunSpec made_run(const MadeOptions& o, int index) {
  trace::RunSpec run;
  run.name = "made · " + std::to_string(index);
  run.has_text = true;
  for (int64_t t = 0; t < o.prompt; ++t) {
    run.text += "é";  // one code point, two bytes a token
    run.char_begin.push_back(t);
    run.char_end.push_back(t + 1);
  }
  run.prompt_tokens = o.prompt;
  run.spans = {{"needle", 10, 20}, {"answer", o.prompt, o.prompt}};
  run.has_answer = true;
  run.answer = "abcß";
  run.attributes = {{"task", std::string("passkey")},
                    {"depth", 0.5},
                    {"seed", int64_t(7)},
                    {"list", std::vector<int64_t>{1, 2, 3}}};
  for (int i = 0; i < 12; ++i) run.attributes.emplace_back("extra" + std::to_string(i), int64_t(i));
  const auto real = o.float64 ? ElementType::f64 : ElementType::f32;
  const auto grow = [&](std::string path, ElementType type, std::vector<int64_t> shape, std::string axes,
                        int64_t rows) {
    run.datasets.push_back({path, type, true, std::move(shape), rows, std::move(axes), "made " + path});
  };
  const auto fixed = [&](std::string path, ElementType type, std::vector<int64_t> shape, std::string axes) {
    run.datasets.push_back({path, type, false, std::move(shape), 0, std::move(axes), "made " + path});
  };
  const int64_t h = o.heads, m = o.slots, k = o.top_k, t = o.tokens;
  grow("tokens/ids", ElementType::i32, {}, "T", t);
  grow("tokens/position", ElementType::i64, {}, "T", t);
  grow("tokens/roles", ElementType::u8, {}, "T", t);
  grow("tokens/special", ElementType::u8, {}, "T", t);
  grow("tokens/bytes", ElementType::u8, {}, "N", 2 * t);
  grow("tokens/byte_offsets", ElementType::i64, {}, "T+1", t + 1);
  for (int64_t l = 0; l < o.layers; ++l) {
    trace::LayerSpec layer{.index = int(l),
                           .family = "raven",
                           .route_kind = "sparse",
                           .heads = 2 * h,
                           .route_heads = h,
                           .slots = m,
                           .top_k = k,
                           .attributes = {{"d_k", int64_t(8)}, {"scale", 0.25}}};
    run.layers.push_back(layer);
    const std::string at = "layers/" + std::to_string(l) + "/";
    grow(at + "route_index", ElementType::u16, {h, k}, "T,H_r,K", t);
    grow(at + "route_weight", o.weight == ElementType::f16 ? o.weight : real, {h, k}, "T,H_r,K", t);
    grow(at + "log_decay", real, {h}, "T,H_r", t);
    grow(at + "hidden", real, {8}, "T,D", t);
    grow(at + "read_weight", real, {2 * h, m}, "T',H,M", t - o.prompt + 1);
    grow(at + "read_token", ElementType::i64, {}, "T'", t - o.prompt + 1);
    grow(at + "state_k", real, {h, m, 8}, "S,H_r,M,d_k", 1);
    grow(at + "state_token", ElementType::i64, {}, "S", 1);
    fixed(at + "esl", ElementType::u32, {h, m}, "H_r,M");
    fixed(at + "ties", ElementType::u32, {h}, "H_r");
  }
  run.layers.push_back({.index = int(o.layers),
                        .family = "attention",
                        .route_kind = "append",
                        .heads = 2 * h,
                        .route_heads = h,
                        .slots = 0,
                        .top_k = 0,
                        .attributes = {{"window", int64_t(64)}}});
  const int64_t g = t - o.prompt + 1;
  grow("output/ids", ElementType::i32, {}, "G", g);
  grow("output/text", ElementType::u8, {}, "N", g);
  grow("output/top_ids", ElementType::i32, {4}, "G,C", g);
  grow("output/top_logprob", real, {4}, "G,C", g);
  return run;
}

void feed(trace::Sink& sink, const std::vector<trace::RunSpec>& runs, const MadeOptions& o, int64_t stop_at) {
  for (size_t r = 0; r < runs.size(); ++r) {
    const auto& run = runs[r];
    std::vector<int64_t> have(run.datasets.size(), 0);
    for (int64_t t = 0; t < std::min(o.tokens, stop_at);) {
      t = std::min({t + o.segment, o.tokens, stop_at});
      for (size_t d = 0; d < run.datasets.size(); ++d) {
        if (!run.datasets[d].growing) continue;
        const int64_t rows = rows_at(run.datasets[d], o, t);
        if (rows > have[d])
          sink.append(int(r), int(d), rows - have[d], made_rows(run.datasets[d], have[d], rows - have[d]));
        have[d] = rows;
      }
      sink.tokens_done(int(r), t);
    }
    for (size_t d = 0; d < run.datasets.size(); ++d)
      if (!run.datasets[d].growing)
        sink.write(int(r), int(d),
                   made_rows(run.datasets[d], 0, 1));  // fixed: the whole shape counts as one row
    auto spans = run.spans;
    spans.back().end = std::min(o.tokens, stop_at);
    sink.set_spans(int(r), spans);
    sink.set_exact(int(r), r % 2 == 0);
  }
}

}  // namespace slotscope::testing

// The bytes that the cases feed say what the formula says, in every element type.
SLOTSCOPE_CASE(bytes_say_what_the_formula_says) {
  using slotscope::trace::ElementType;
  slotscope::trace::RunSpec run;
  for (const auto type : {ElementType::u8, ElementType::u16, ElementType::u32, ElementType::i32,
                          ElementType::i64, ElementType::f16, ElementType::f32, ElementType::f64})
    run.datasets.push_back({"x/" + std::to_string(int(type)), type, true, {3}, 0, "T,D", ""});
  slotscope::trace::MemorySink sink;
  sink.begin({}, {run});
  for (size_t d = 0; d < run.datasets.size(); ++d) {
    sink.append(0, int(d), 50, slotscope::testing::made_rows(run.datasets[d], 0, 50));
    const auto values = sink.values(0, run.datasets[d].path);
    CHECK_EQ(values.size(), size_t(150));
    for (size_t i = 0; i < values.size(); ++i)
      CHECK_EQ(values[i], slotscope::testing::made_value(run.datasets[d].path, run.datasets[d].type,
                                                         int64_t(i / 3), int64_t(i % 3)));
  }
}
