#include "tests/fuzz/trace_base.h"

#include <fcntl.h>
#include <hdf5.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/analysis/head_data.h"
#include "core/error.h"
#include "core/trace/repair.h"
#include "core/trace/trace.h"
#include "core/trace/writer.h"
#include "tests/fuzz/fuzz.h"

namespace slotscope::fuzz {
namespace {

using namespace slotscope::trace;
namespace fs = std::filesystem;

struct MadeData {
  int64_t rows;
  std::vector<std::byte> bytes;
};

class RunMaker {
 public:
  explicit RunMaker(bool wide) : real_(wide ? ElementType::f64 : ElementType::f32) {}
  RunSpec make(int index);
  std::vector<MadeData> data;  // per dataset

 private:
  void add(std::string path, ElementType type, std::vector<int64_t> shape, std::string axes, int64_t rows, bool growing = true);
  RunSpec run_;
  ElementType real_;
};

template <class T>
void put(std::vector<std::byte>& out, T value) {
  const size_t at = out.size();
  out.resize(at + sizeof value);
  std::memcpy(out.data() + at, &value, sizeof value);
}

// Values that fit their meaning: offsets rise, slots are below kSlots, tokens below kTokens.
double value_of(const std::string& path, int64_t row, int64_t i) {
  const auto ends = [&](const char* end) { return path.ends_with(end); };
  if (ends("byte_offsets")) return double(2 * row);
  if (ends("position") || ends("/token")) return double(row);
  if (ends("read_token")) return double(kPrompt - 1 + row);
  if (ends("state_token")) return kTokens - 1;
  if (ends("route_index")) return double((row + 3 * i) % kSlots);
  if (ends("log_decay")) return -0.125 * double(1 + row % 7);
  if (ends("output/text") || ends("tokens/bytes")) return double('a' + row % 26);
  if (ends("special") || ends("roles")) return double(row % 2);
  return double((row * 7 + i * 3) % 16) / 8;
}

void RunMaker::add(std::string path, ElementType type, std::vector<int64_t> shape, std::string axes, int64_t rows, bool growing) {
  int64_t width = 1;
  for (const int64_t n : shape) width *= n;
  MadeData made{rows, {}};
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < width; ++i) {
      const double v = value_of(path, row, i);
      switch (type) {
        case ElementType::u8: put(made.bytes, uint8_t(v)); break;
        case ElementType::u16: put(made.bytes, uint16_t(v)); break;
        case ElementType::u32: put(made.bytes, uint32_t(v)); break;
        case ElementType::i32: put(made.bytes, int32_t(v)); break;
        case ElementType::i64: put(made.bytes, int64_t(v)); break;
        case ElementType::f16: put(made.bytes, uint16_t(0x3c00)); break;  // 1
        case ElementType::f32: put(made.bytes, float(v)); break;
        case ElementType::f64: put(made.bytes, v); break;
      }
    }
  run_.datasets.push_back({path, type, growing, std::move(shape), growing ? rows : 0, std::move(axes), "made"});
  data.push_back(std::move(made));
}

RunSpec RunMaker::make(int index) {
  run_.name = "run " + std::to_string(index);
  run_.has_text = true;
  for (int t = 0; t < kPrompt; ++t) {
    run_.text += "\xc3\xa9";
    run_.char_begin.push_back(t);
    run_.char_end.push_back(t + 1);
  }
  run_.prompt_tokens = kPrompt;
  run_.spans = {{"needle", 2, 4}, {"answer", kPrompt, kTokens}};
  run_.has_answer = true;
  run_.answer = "ab";
  run_.attributes = {{"task", std::string("passkey")}, {"depth", 0.5}, {"list", std::vector<int64_t>{1, 2, 3}}};
  const int64_t t = kTokens, g = kTokens - kPrompt + 1;
  using enum ElementType;
  add("tokens/ids", i32, {}, "T", t);
  add("tokens/position", i64, {}, "T", t);
  add("tokens/roles", u8, {}, "T", t);
  add("tokens/special", u8, {}, "T", t);
  add("tokens/bytes", u8, {}, "N", 2 * t);
  add("tokens/byte_offsets", i64, {}, "T+1", t + 1);
  for (int l = 0; l < 1; ++l) {  // few datasets: each costs time in every execution
    run_.layers.push_back({.index = l, .family = "raven", .route_kind = "sparse", .heads = 2 * kHeads, .route_heads = kHeads,
                           .slots = kSlots, .top_k = kTopK, .attributes = {{"d_k", int64_t(4)}}});
    const std::string at = "layers/" + std::to_string(l) + "/";
    add(at + "route_index", u16, {kHeads, kTopK}, "T,H_r,K", t);
    add(at + "route_weight", index ? f16 : real_, {kHeads, kTopK}, "T,H_r,K", t);
    add(at + "log_decay", real_, {kHeads}, "T,H_r", t);
    add(at + "esl", u32, {kHeads, kSlots}, "H_r,M", 1, false);
    add(at + "read_weight", real_, {2 * kHeads, kSlots}, "T',H,M", g);
    add(at + "read_token", i64, {}, "T'", g);
    add(at + "ties", u32, {kHeads}, "H_r", 1, false);
  }
  run_.layers.push_back({.index = 1, .family = "attention", .route_kind = "append", .heads = 4, .route_heads = kHeads, .slots = 0,
                         .top_k = 0, .attributes = {{"window", int64_t(64)}}});
  add("output/ids", i32, {}, "G", g);
  add("output/text", u8, {}, "N", g);
  add("output/top_ids", i32, {4}, "G,C", g);
  add("output/top_logprob", real_, {4}, "G,C", g);
  add("output/top_bytes", u8, {4, kTopBytesWidth}, "G,C,B", g);
  return run_;
}

std::string make_trace(Base base) {
  const fs::path file = scratch_folder() / "base.h5";
  const bool plain = base == Base::plain;
  WriterOptions options{.force = true, .reserve_bytes = 0, .created = "2026-01-01T00:00:00Z"};
  if (plain) options.compress = WriterOptions::Compress::none, options.swmr = WriterOptions::Swmr::off;
  Hdf5Sink sink(file, options);
  std::vector<RunSpec> specs;
  std::vector<RunMaker> makers;
  for (int r = 0; r < (plain ? 2 : 1); ++r) {
    makers.emplace_back(plain);
    specs.push_back(makers.back().make(r));
  }
  sink.begin({.config_json = R"({"model_type":"raven"})", .family = "raven", .flavour = "fla", .dtype = "float32",
              .router_dtype = "float32", .device = "cpu", .checkpoint = "made", .tensor_digest = std::string(64, 'a'),
              .attributes = {{"tf32", int64_t(0)}}},
             specs);
  for (size_t r = 0; r < specs.size(); ++r) {
    for (size_t d = 0; d < specs[r].datasets.size(); ++d) {
      const MadeData& made = makers[r].data[d];
      if (specs[r].datasets[d].growing) sink.append(int(r), int(d), made.rows, made.bytes);
    }
    sink.tokens_done(int(r), kTokens);
    for (size_t d = 0; d < specs[r].datasets.size(); ++d)
      if (!specs[r].datasets[d].growing) sink.write(int(r), int(d), makers[r].data[d].bytes);
    sink.set_exact(int(r), true);
  }
  sink.finish(Status::complete);
  std::string bytes = read_file(file);
  // A writer that died leaves the flags of a SWMR writer in the superblock; the checksum of the superblock does not cover less than
  // all of it, so the library itself has to put them there.
  if (base == Base::dead) {
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    const hid_t id = H5Fopen(file.c_str(), H5F_ACC_RDWR | H5F_ACC_SWMR_WRITE, access);
    if (id < 0) throw std::runtime_error("cannot open the base trace for SWMR");
    bytes = read_file(file);
    H5Fclose(id);
    H5Pclose(access);
  }
  fs::remove(file);
  return bytes;
}

constexpr int64_t kMostElements = 1 << 18;  // of one read: larger ones are read in part

// First and last rows of a dataset, all of it when it is small.
void read_dataset(const Trace& trace, int run, const DatasetInfo& d) {
  int64_t row = 1;
  for (size_t i = 1; i < d.shape.size(); ++i) row *= d.shape[i];
  const int64_t rows = d.shape.empty() ? 1 : d.shape[0];
  const int64_t count = std::min(rows, kMostElements / std::max<int64_t>(row, 1));
  if (row > kMostElements) return;
  const bool real = d.type == ElementType::f16 || d.type == ElementType::f32 || d.type == ElementType::f64;
  const size_t got = real ? trace.read(run, d.path, 0, count).size() : trace.read_int(run, d.path, rows - count, count).size();
  require(int64_t(got) == count * row, "a read gives all values of its rows");
  if (d.shape.size() == 3 && d.shape[1] > 0) {
    const auto head = trace.read_head(run, d.path, int(std::min<int64_t>(d.shape[1] - 1, 1 << 20)), 0, count);
    require(int64_t(head.size()) == count * (row / d.shape[1]), "a head is a share of its rows");
  }
}

void check_routes(const HeadRoutes& routes, const LayerSpec& layer) {
  const size_t n = size_t(routes.rows) * size_t(routes.top_k);
  const size_t stored = routes.every_slot ? 0 : n;  // dense layers imply index and weight
  require(routes.index.size() == stored && routes.weight.size() == stored, "rows x top_k routes");
  require(routes.strength.empty() || routes.strength.size() == (routes.common_strength ? size_t(routes.rows) : n),
          "a strength for each row or route");
  require(routes.log_decay.empty() ||
              routes.log_decay.size() == (routes.per_slot_decay ? n : size_t(routes.rows)),
          "a decay for each row or route");
  require(routes.token.empty() || routes.token.size() == size_t(routes.rows), "a token for each row");
  // An append layer whose writer did not know its length has as many slots as tokens.
  const bool grown = layer.route_kind == "append" && routes.slots == routes.tokens && routes.slots > layer.slots;
  require(routes.slots == layer.slots || grown, "slots of the layer");
  for (const uint32_t slot : routes.index) require(int64_t(slot) < routes.slots, "a slot of the layer");
}

// Whatever may be refused is refused by an Error; the rest goes on.
template <class Action>
void attempt(Action action) {
  try {
    action();
  } catch (const Error& error) {
    require(std::strlen(error.what()) > 10, "an error says something");
  }
}

// What the views make of a trace; of one that is small enough for thousands of executions.
void analyse_run(const Trace& trace, int r) {
  for (const DatasetInfo& d : trace.run(r).datasets) {
    int64_t elements = 1;
    for (const int64_t n : d.shape)
      if (__builtin_mul_overflow(elements, n, &elements) || elements > kMostElements) return;
  }
  for (const LayerSpec& layer : trace.run(r).layers)
    if (layer.slots <= 4096) attempt([&] { analysis::load_head(trace, r, layer.index, 0); });
  const bool small = std::all_of(trace.run(r).layers.begin(), trace.run(r).layers.end(),
                                 [](const LayerSpec& l) { return l.slots <= 4096 && l.route_heads <= 64; });
  if (small) attempt([&] { analysis::summarise(trace, r); });
}

void read_run(const Trace& trace, int r) {
  const RunInfo& run = trace.run(r);
  require(run.tokens >= 0 && run.planned_tokens >= run.tokens && run.prompt_tokens >= 0, "counts of tokens");
  require(int64_t(run.ids.size()) == run.tokens, "an id for each token");
  require(run.char_begin.size() == run.char_end.size(), "char_begin and char_end");
  require(run.top_ids.size() == run.top_logprob.size(), "candidates and their probabilities");
  size_t bytes = 0;
  for (int64_t t = 0; t < std::min<int64_t>(run.tokens, 10'000); ++t) bytes += run.token_bytes(t).size();
  require(bytes <= run.bytes.size(), "tokens share the bytes");
  run.span("answer");
  for (const DatasetInfo& d : run.datasets) {
    require(run.find(d.path) != nullptr, "a dataset is found by its path");
    attempt([&] { read_dataset(trace, r, d); });
  }
  for (const LayerSpec& layer : run.layers) {
    for (const int head : {1, -1, 7})
      attempt([&] {
        const DatasetInfo* index = run.find("layers/" + std::to_string(layer.index) + "/route_index");
        const bool ruled = !index && layer.slots <= 4096 && run.tokens <= 4096;  // routes by rule
        if (!ruled && (!index || index->shape.empty() || index->shape[0] > 4096 || index->shape.back() > 4096)) return;
        check_routes(trace.routes(r, layer.index, head), layer);
      });
    for (const char* field : {"esl", "ties"}) attempt([&] { trace.counters(r, layer.index, field); });
  }
}

// How many identifiers of each kind HDF5 has given out.
using Identifiers = std::array<hsize_t, 7>;
Identifiers identifiers() {
  Identifiers counts{};
  size_t i = 0;
  for (const H5I_type_t kind : {H5I_FILE, H5I_GROUP, H5I_DATASET, H5I_ATTR, H5I_DATATYPE, H5I_DATASPACE, H5I_GENPROP_LST})
    if (H5Inmembers(kind, &counts[i++]) < 0) counts[i - 1] = 0;
  return counts;
}

bool read_and_repair(const fs::path& file, bool with_repair, bool with_analysis) {
  bool opened = false;
  attempt([&] {
    const auto trace = Trace::open(file);
    opened = true;
    for (int r = 0; r < trace->run_count(); ++r) {
      read_run(*trace, r);
      if (with_analysis) analyse_run(*trace, r);
    }
  });
  if (!with_repair || !opened) return opened;
  const fs::path copy = scratch_folder() / "copy.h5";
  bool written = false;
  attempt([&] {
    repair(file, copy, true);
    written = true;
  });
  if (written) {
    const auto trace = Trace::open(copy);  // what repair wrote is a trace
    for (int r = 0; r < trace->run_count(); ++r) read_run(*trace, r);
  }
  return opened;
}

}  // namespace

const std::string& base_trace(Base base) {
  static const std::string traces[kBases] = {make_trace(Base::complete), make_trace(Base::plain), make_trace(Base::dead)};
  return traces[int(base)];
}

Canary::Canary() : path_(scratch_folder() / "canary.h5") {
  const hid_t file = H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hsize_t n = kTokens;
  const hid_t space = H5Screate_simple(1, &n, nullptr);
  H5Dclose(H5Dcreate2(file, "ids", H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  H5Gclose(H5Gcreate2(file, "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  H5Sclose(space);
  H5Fclose(file);
  watch_ = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (watch_ < 0 || inotify_add_watch(watch_, path_.c_str(), IN_OPEN) < 0)
    throw std::runtime_error("cannot watch " + path_.string());
}

Canary::~Canary() { close(watch_); }

bool Canary::opened() {
  alignas(inotify_event) char events[4096];
  bool any = false;
  while (read(watch_, events, sizeof events) > 0) any = true;
  return any;
}

bool read_trace(const fs::path& file, bool with_repair, bool with_analysis) {
  static const bool warm = [] {  // what the library and the reader make once stays
    const fs::path base = scratch_folder() / "warm.h5";
    write_file(base, base_trace(Base::complete));
    return read_and_repair(base, true, true);
  }();
  require(warm, "the base trace opens");
  const Identifiers before = identifiers();
  const bool opened = read_and_repair(file, with_repair, with_analysis);
  require(identifiers() == before, "every file, group, dataset, attribute, type, space and property list is closed");
  return opened;
}

}  // namespace slotscope::fuzz
