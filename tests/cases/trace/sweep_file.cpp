// The file of a sweep: round trip, replacement, damage.
#include "core/trace/sweep_file.h"

#include <hdf5.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "core/error.h"
#include "core/trace/trace.h"
#include "tests/cases/case.h"
#include "tests/cases/trace/child.h"

namespace slotscope::testing {
namespace {

namespace fs = std::filesystem;

trace::Sweep made_sweep() {
  trace::Sweep s;
  s.settings.lengths = {64, 128};
  s.settings.depths = {0, 0.5, 1};
  s.settings.prompts = 2;
  s.settings.seed = 18446744073709551615u;
  s.settings.haystack = "mixed";
  s.settings.threshold = 0.25;
  s.settings.layers = "0,2-3";
  s.status = trace::Status::cancelled;
  trace::SweepModel m{.name = "räven", .checkpoint = "/a b/räven", .model_type = "raven", .family = "raven", .config_json = "{\"a\": 1}",
                      .tensor_digest = "abc", .weights_digest = "def"};
  m.layers = {{.index = 0, .family = "raven", .route_kind = "sparse", .route_heads = 2, .slots = 64, .top_k = 8},
              {.index = 3, .family = "attention", .route_kind = "none", .route_heads = 1, .why = "no slots"}};
  for (int64_t i = 0; i < 3; ++i) {
    trace::SweepRow row{.length = 1, .depth = i, .number = 1, .seed = INT64_MAX - i, .digest = "d" + std::to_string(i), .haystack = "noise",
                        .place = 0.1 * double(i), .prompt_tokens = 120, .tokens = 127, .answer_tokens = 8, .right = i == 0 ? 8 : i,
                        .exact = i == 0, .seconds = 0.5, .answer = "key" + std::to_string(i), .output = i == 1 ? "" : "o\xff\n"};
    row.output_ids = std::vector<int32_t>(size_t(i), 7);
    for (size_t v = 0; v < 3 * size_t(trace::kSweepValues); ++v) row.heads.push_back(v == 5 ? std::nan("") : double(i) + double(v) / 7);
    m.rows.push_back(row);
  }
  s.models.push_back(m);
  s.models.push_back({.name = "empty", .family = "gsa"});
  return s;
}

bool same(const std::vector<double>& a, const std::vector<double>& b) {
  bool good = a.size() == b.size();
  for (size_t i = 0; good && i < a.size(); ++i) good = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
  return good;
}

}  // namespace

SLOTSCOPE_CASE(sweep_file_round_trip) {
  const fs::path file = t.temp() / "s.h5";
  const auto made = made_sweep();
  trace::write_sweep(made, file);
  CHECK(!fs::exists(file.string() + ".part"));
  CHECK_EQ(trace::file_format(file), std::string("slotscope-sweep"));
  const auto read = trace::read_sweep(file);
  CHECK_EQ(read.settings.lengths, made.settings.lengths);
  CHECK_EQ(read.settings.depths, made.settings.depths);
  CHECK_EQ(read.settings.seed, made.settings.seed);
  CHECK_EQ(read.settings.layers, made.settings.layers);
  CHECK_CLOSE(read.settings.threshold, 0.25, 0);
  CHECK(read.settings.bos && !read.settings.tf32);
  CHECK_EQ(read.status, trace::Status::cancelled);
  CHECK(!read.created.empty());
  CHECK_EQ(read.models.size(), size_t(2));
  const auto &a = made.models[0], &b = read.models.at(0);
  CHECK(a.name == b.name && a.checkpoint == b.checkpoint && a.config_json == b.config_json && a.weights_digest == b.weights_digest);
  CHECK_EQ(b.layers.size(), size_t(2));
  CHECK(b.layers[1].why == "no slots" && b.layers[1].index == 3 && b.layers[0].slots == 64);
  CHECK_EQ(b.heads().size(), size_t(3));
  CHECK_EQ(b.rows.size(), size_t(3));
  for (size_t i = 0; i < 3; ++i) {
    const auto &x = a.rows[i], &y = b.rows.at(i);
    CHECK(x.length == y.length && x.depth == y.depth && x.number == y.number && x.seed == y.seed && x.right == y.right);
    CHECK(x.digest == y.digest && x.answer == y.answer && x.output == y.output && x.exact == y.exact && x.haystack == y.haystack);
    CHECK_EQ(x.output_ids, y.output_ids);
    CHECK_CLOSE(x.place, y.place, 0);
    CHECK(same(x.heads, y.heads));
  }
  CHECK(read.models[1].rows.empty());
}

SLOTSCOPE_CASE(sweep_file_is_replaced_as_a_whole) {
  const fs::path file = t.temp() / "s.h5";
  auto sweep = made_sweep();
  trace::write_sweep(sweep, file);
  sweep.models[0].rows.pop_back();
  sweep.created = "2026-01-01T00:00:00Z";
  trace::write_sweep(sweep, file);
  CHECK_EQ(trace::read_sweep(file).models[0].rows.size(), size_t(2));
  CHECK_EQ(trace::read_sweep(file).created, sweep.created);
  // A row that cannot be stored leaves the old file.
  sweep.models[0].rows[0].heads.pop_back();
  CHECK_ERROR(trace::write_sweep(sweep, file), "head values");
  CHECK_EQ(trace::read_sweep(file).models[0].rows.size(), size_t(2));
  CHECK(!fs::exists(file.string() + ".part"));
  CHECK_ERROR(trace::write_sweep(made_sweep(), t.temp()), "a folder");
  CHECK_ERROR(trace::write_sweep(made_sweep(), t.temp() / "none" / "s.h5"), "s.h5");
}

SLOTSCOPE_CASE(sweep_file_and_trace_tell_each_other_apart) {
  const fs::path file = t.temp() / "s.h5";
  trace::write_sweep(made_sweep(), file);
  CHECK_ERROR(trace::Trace::open(file), "slotscope-sweep", "slotscope figure");
  std::ofstream(t.temp() / "x");
  CHECK_ERROR(trace::read_sweep(file.parent_path() / "none.h5"), "cannot open");
}

// Every cut and many changed bytes: an error or the same kind of answer, never a crash. In a child, because HDF5 leaks what it had
// read of a file that turns out to be damaged.
SLOTSCOPE_CASE(sweep_file_damage_gives_errors) {
  const fs::path folder = t.temp(), file = folder / "s.h5", bad = folder / "bad.h5";
  trace::write_sweep(made_sweep(), file);
  std::ifstream in(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  SharedMemory cuts, flips;  // value: opened, other: refused
  const auto attempt = [&](const std::string& damaged, SharedMemory& counts) {
    std::ofstream(bad, std::ios::binary | std::ios::trunc) << damaged;
    try {
      const auto sweep = trace::read_sweep(bad);
      for (const auto& model : sweep.models)
        for (const auto& row : model.rows)
          if (row.length >= int64_t(sweep.settings.lengths.size()) || row.heads.size() != model.heads().size() * size_t(trace::kSweepValues))
            throw std::runtime_error("an opened file contradicts itself");
      ++counts->value;
    } catch (const Error& e) {
      if (std::string(e.what()).find("bad.h5") == std::string::npos) throw std::runtime_error(std::string("does not name the file: ") + e.what());
      ++counts->other;
    }
  };
  const fs::path message = folder / "message";
  Child child([&] {
    for (size_t cut = 0; cut < bytes.size(); cut += 997) attempt(bytes.substr(0, cut), cuts);
    uint32_t random = 1;
    for (int i = 0; i < 400; ++i) {
      std::string changed = bytes;
      random = random * 1664525 + 1013904223;
      changed[random % changed.size()] ^= char(1 << (i % 8));
      attempt(changed, flips);
    }
  }, message.string());
  CHECK_EQ(child.wait(), 0);
  if (fs::exists(message)) {
    std::ifstream said(message);
    t.fail(std::string{std::istreambuf_iterator<char>(said), {}}, __FILE__, __LINE__);
  }
  CHECK_EQ(cuts->value.load(), int64_t(0));
  CHECK_EQ(cuts->other.load(), int64_t((bytes.size() + 996) / 997));
  CHECK(flips->value > 0 && flips->other > 0);
  CHECK_EQ(flips->value + flips->other, int64_t(400));
  t.note(std::to_string(flips->other) + " of 400 changed files refused");
}

SLOTSCOPE_CASE(sweep_file_contradictions_are_named) {
  const fs::path file = t.temp() / "s.h5";
  const auto rewritten = [&](const char* dataset, hid_t type, const void* values) {
    trace::write_sweep(made_sweep(), file);
    const hid_t f = H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), d = H5Dopen2(f, dataset, H5P_DEFAULT);
    H5Dwrite(d, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
    H5Dclose(d), H5Fclose(f);
  };
  const int64_t length[3] = {1, 2, 1};
  rewritten("/models/0000/prompts/length", H5T_NATIVE_INT64, length);
  CHECK_ERROR(trace::read_sweep(file), "prompts/length", "0 to 1");
  const int64_t depth[3] = {1, 1, 2};
  rewritten("/models/0000/prompts/depth", H5T_NATIVE_INT64, depth);
  CHECK_ERROR(trace::read_sweep(file), "is there twice");
  const int64_t offsets[4] = {0, 4, 2, 9};
  rewritten("/models/0000/prompts/answer_offsets", H5T_NATIVE_INT64, offsets);
  CHECK_ERROR(trace::read_sweep(file), "answer_offsets", "ascending");
  const uint8_t exact[3] = {1, 1, 0};
  rewritten("/models/0000/prompts/exact", H5T_NATIVE_UINT8, exact);
  CHECK_ERROR(trace::read_sweep(file), "exact", "row 1");
  trace::write_sweep(made_sweep(), file);
  const hid_t f = H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), a = H5Aopen(f, "format_version", H5P_DEFAULT);
  const int version = 2;
  H5Awrite(a, H5T_NATIVE_INT, &version);
  H5Aclose(a), H5Fclose(f);
  CHECK_ERROR(trace::read_sweep(file), "format_version", "2", "newer Slotscope");
}

}  // namespace slotscope::testing
