// The file of a computed result: round trip bit for bit, blocks, damage, what it is taken for.
#include "core/trace/result_file.h"

#include <hdf5.h>
#include <sys/resource.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>

#include "core/error.h"
#include "core/trace/sweep_file.h"
#include "core/trace/trace.h"
#include "tests/cases/case.h"
#include "tests/cases/trace/child.h"

namespace slotscope::testing {
namespace {

namespace fs = std::filesystem;
using trace::Result;
using trace::ResultDataset;

// Doubles of every bit pattern, NaNs with a payload among them.
std::vector<double> odd_doubles(size_t n) {
  std::mt19937_64 random(7);
  std::vector<double> values;
  for (size_t i = 0; i < n; ++i) {
    const uint64_t bits = i == 1 ? 0x7ff8000000000123u : i == 2 ? 0x8000000000000000u : i == 3 ? 1u : random();
    double value;
    std::memcpy(&value, &bits, 8);
    values.push_back(value);
  }
  return values;
}

Result made_result() {
  Result r;
  r.kind = "ramnet-theory";
  r.created = "2026-01-01T00:00:00Z";
  r.parameters = {{"codes_per_factor", 4},  {"order", int64_t(5)},          {"beta", 0.1},
                  {"readout", "mass-aware"}, {"seed", "18446744073709551615"}, {"q", std::vector<double>{0.6, -0.2, 1e-300}},
                  {"grid", std::vector<int64_t>{512, -3}}, {"panels", std::vector<std::string>{"attention", "räm", ""}},
                  {"nan", std::nan("")}, {"none", std::vector<double>{}}, {"no_names", std::vector<std::string>{}},
                  {"one", std::vector<double>{2.5}}};
  r.datasets.push_back({.name = "x", .shape = {3}, .axes = "x", .description = "coordinate", .unit = "rad",
                        .values = std::vector<double>{-1, 0, 1}});
  r.datasets.push_back({.name = "field", .shape = {2, 3}, .axes = "y,x", .description = "all bits", .values = odd_doubles(6),
                        .attributes = {{"beta", 0.25}, {"label", "γ → -∞"}, {"list", std::vector<int64_t>{1, 2}}}});
  r.datasets.push_back({.name = "kappa", .description = "a number alone", .values = std::vector<double>{1.3138354429}});
  r.datasets.push_back({.name = "panels/0000/field", .shape = {1, 2, 2}, .axes = "c,y,x", .description = "float32",
                        .values = std::vector<float>{0.1f, -0.f, INFINITY, 3e-45f}});
  r.datasets.push_back({.name = "panels/0000/x", .shape = {2}, .axes = "x", .description = "its own grid",
                        .values = std::vector<float>{0.5f, 1.5f}});
  r.datasets.push_back({.name = "slots", .shape = {2}, .axes = "K", .description = "uint32", .values = std::vector<uint32_t>{0, 4294967295u}});
  r.datasets.push_back({.name = "counts", .shape = {2}, .axes = "K", .description = "int64",
                        .values = std::vector<int64_t>{INT64_MIN, INT64_MAX}});
  r.datasets.push_back({.name = "nothing", .shape = {0, 3}, .axes = "N,x", .description = "no rows", .values = std::vector<float>{}});
  return r;
}

bool same_bits(const trace::ResultValues& a, const trace::ResultValues& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&](const auto& list) {
        const auto& other = std::get<std::decay_t<decltype(list)>>(b);
        return list.size() == other.size() && (list.empty() || std::memcmp(list.data(), other.data(), list.size() * sizeof(list[0])) == 0);
      },
      a);
}

bool same_parameters(const trace::ResultParameters& a, const trace::ResultParameters& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, value] : a) {
    const auto found = b.find(name);
    if (found == b.end()) return false;
    const auto* x = std::get_if<double>(&value);
    const auto* y = std::get_if<double>(&found->second);
    if (x && y && std::isnan(*x) && std::isnan(*y)) continue;
    if (!(value == found->second)) return false;
  }
  return true;
}

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

SLOTSCOPE_CASE(round_trip_bit_for_bit) {
  const fs::path file = t.temp() / "r.h5";
  const Result made = made_result();
  trace::write_result(file, made, false);
  CHECK(!fs::exists(file.string() + ".part"));
  CHECK_EQ(trace::file_format(file), std::string("slotscope-result"));
  const Result read = trace::read_result(file, "ramnet-theory");
  CHECK_EQ(read.kind, made.kind);
  CHECK_EQ(read.created, made.created);
  CHECK(read.writer_version.starts_with("slotscope "));
  CHECK(same_parameters(made.parameters, read.parameters));
  CHECK_EQ(read.datasets.size(), made.datasets.size());
  for (const ResultDataset& d : made.datasets) {
    const ResultDataset& r = read.at(d.name);
    CHECK_EQ(r.shape, d.shape);
    CHECK(r.axes == d.axes && r.description == d.description && r.unit == d.unit);
    CHECK(same_parameters(r.attributes, d.attributes));
    CHECK(same_bits(r.values, d.values));
  }
  const fs::path again = t.temp() / "again.h5";
  trace::write_result(again, made, false);
  CHECK(bytes_of(file) == bytes_of(again));  // the same result is the same file
  trace::write_result(again, read, true);
  CHECK(same_bits(trace::read_result(again).at("field").values, read.at("field").values));
}

SLOTSCOPE_CASE(parameters_and_coordinates) {
  const fs::path file = t.temp() / "r.h5";
  trace::write_result(file, made_result(), false);
  const Result r = trace::read_result(file);
  CHECK_EQ(r.integer("order"), int64_t(5));
  CHECK_CLOSE(r.number("order"), 5, 0);
  CHECK_CLOSE(r.number("beta"), 0.1, 0);
  CHECK_EQ(r.text("seed"), std::string("18446744073709551615"));
  CHECK_EQ(r.numbers("grid"), (std::vector<double>{512, -3}));
  CHECK_EQ(r.numbers("one"), std::vector<double>{2.5});
  CHECK_ERROR(r.integer("beta"), "parameter beta", "another type", "an integer", "ramnet-theory");
  CHECK_ERROR(r.number("absent"), "parameter absent", "missing");
  CHECK_ERROR(r.at("absent"), "dataset absent", "missing");
  CHECK(r.coordinates(r.at("field"), 1) == r.find("x"));
  CHECK(r.coordinates(r.at("field"), 0) == nullptr);  // no dataset y
  CHECK(r.coordinates(r.at("panels/0000/field"), 2) == r.find("panels/0000/x"));  // its own before the one above
  CHECK(r.coordinates(r.at("x"), 0) == nullptr);      // not its own coordinate
  CHECK_EQ(trace::as_doubles(r.at("slots").values), (std::vector<double>{0, 4294967295.0}));
}

SLOTSCOPE_CASE(h5py_reads_everything) {
  if (std::system("/usr/bin/python3 -c 'import h5py' >/dev/null 2>&1") != 0) t.skip("/usr/bin/python3 has no h5py here");
  const fs::path script = t.data("cases/trace/read_result_with_h5py.py"), file = t.temp() / "r.h5", out = t.temp() / "out.json";
  if (!fs::exists(script)) t.skip("the script lies in the source tree, which is not here");
  trace::write_result(file, made_result(), false);
  const std::string command = "/usr/bin/python3 '" + script.string() + "' '" + file.string() + "' > '" + out.string() + "' 2>&1";
  if (std::system(command.c_str()) != 0) return t.fail(bytes_of(out), __FILE__, __LINE__);
  const auto json = nlohmann::json::parse(bytes_of(out));
  CHECK_EQ(json["root"]["format"].get<std::string>(), std::string("slotscope-result"));
  CHECK_EQ(json["root"]["kind"].get<std::string>(), std::string("ramnet-theory"));
  CHECK_EQ(json["root"]["format_version"].get<int>(), 1);
  CHECK_EQ(json["root"]["status"].get<int>(), 1);
  CHECK_CLOSE(json["parameters"]["beta"].get<double>(), 0.1, 0);
  CHECK_EQ(json["parameters"]["panels"].get<std::vector<std::string>>(), (std::vector<std::string>{"attention", "räm", ""}));
  CHECK_EQ(json["parameters"]["q"].get<std::vector<double>>(), (std::vector<double>{0.6, -0.2, 1e-300}));
  CHECK(json["parameters"]["none"].empty());
  const auto& field = json["datasets"]["field"];
  CHECK_EQ(field["type"].get<std::string>(), std::string("float64"));
  CHECK_EQ(field["bytes"].get<std::string>().substr(16, 16), std::string("230100000000f87f"));  // the NaN's payload
  CHECK_EQ(field["attributes"]["axes"].get<std::string>(), std::string("y,x"));
  CHECK_EQ(field["attributes"]["label"].get<std::string>(), std::string("γ → -∞"));
  CHECK_EQ(json["datasets"]["x"]["attributes"]["unit"].get<std::string>(), std::string("rad"));
  CHECK_EQ(json["datasets"]["panels/0000/field"]["type"].get<std::string>(), std::string("float32"));
  CHECK_EQ(json["datasets"]["slots"]["type"].get<std::string>(), std::string("uint32"));
  CHECK_EQ(json["datasets"]["counts"]["type"].get<std::string>(), std::string("int64"));
  CHECK_CLOSE(json["datasets"]["kappa"]["sum"].get<double>(), 1.3138354429, 0);
  CHECK_EQ(json["datasets"]["nothing"]["shape"].get<std::vector<int>>(), (std::vector<int>{0, 3}));
}

// A field that is never whole in memory: tiles in, blocks out.
SLOTSCOPE_CASE(large_datasets_come_in_blocks) {
  const fs::path file = t.temp() / "r.h5";
  const int64_t n = 1100;
  Result r{.kind = "ramnet-overlap"};
  r.datasets.push_back({.name = "overlap", .shape = {n, n}, .axes = "t,s", .description = "tiles", .values = std::vector<float>{}});
  const auto value = [&](int64_t i, int64_t j) { return float(i * n + j) / 3; };
  {
    trace::ResultWriter writer(file, r, false);
    const auto chunk = writer.chunk("overlap");
    CHECK_EQ(chunk.size(), size_t(2));
    CHECK(chunk[0] * chunk[1] * 4 <= int64_t(1) << 20 && chunk[0] >= 256 && chunk[1] >= 256);
    for (int64_t i = 0; i < n; i += chunk[0])
      for (int64_t j = 0; j < n; j += chunk[1]) {
        const int64_t h = std::min(chunk[0], n - i), w = std::min(chunk[1], n - j);
        std::vector<float> tile;
        for (int64_t a = 0; a < h; ++a)
          for (int64_t b = 0; b < w; ++b) tile.push_back(value(i + a, j + b));
        writer.write("overlap", {i, j}, {h, w}, tile.data());
      }
    CHECK_ERROR(writer.write("overlap", {0, n - 1}, {1, 2}, std::vector<float>(2).data()), "overlap", "[1,2]", "[1100,1100]");
    CHECK_ERROR(writer.write("overlap", {0, 0}, {1, 1}, std::vector<double>(1).data()), "float64", "float32");
    CHECK_ERROR(writer.write("other", {0, 0}, {1, 1}, std::vector<float>(1).data()), "no such dataset");
    CHECK(!fs::exists(file));
    writer.finish();
  }
  const auto open = trace::ResultFile::open(file, "ramnet-overlap");
  CHECK_EQ(open->description().at("overlap").shape, (std::vector<int64_t>{n, n}));
  const auto block = std::get<std::vector<float>>(open->read("overlap", {500, 700}, {200, 300}));
  int64_t wrong = 0;
  for (int64_t i = 0; i < 200; ++i)
    for (int64_t j = 0; j < 300; ++j) wrong += !(block.at(size_t(i * 300 + j)) == value(500 + i, 700 + j));
  CHECK_EQ(wrong, int64_t(0));
  CHECK_ERROR(open->read("overlap", {0, 0}, {n + 1, 1}), "a block outside it");
  {
    trace::ResultWriter writer(file, r, true);
    writer.write("overlap", {0, 0}, {1, 3}, std::vector<float>(3).data());
    CHECK_ERROR(writer.finish(), "overlap", "3 values written", "1210000");
  }
  CHECK(!fs::exists(file.string() + ".part"));
  CHECK_EQ(std::get<std::vector<float>>(trace::read_result(file).at("overlap").values).at(4), value(0, 4));  // the old one stays
}

SLOTSCOPE_CASE(files_are_not_overwritten) {
  const fs::path folder = t.temp(), file = folder / "r.h5", part = folder / "r.h5.part";
  Result r = made_result();
  trace::write_result(file, r, false);
  const std::string before = bytes_of(file);
  r.kind = "ramnet-valuefield";
  CHECK_ERROR(trace::write_result(file, r, false), "r.h5", "exists already", "--force");
  CHECK(bytes_of(file) == before);
  trace::write_result(file, r, true);
  CHECK_EQ(trace::read_result(file).kind, std::string("ramnet-valuefield"));
  CHECK_ERROR(trace::write_result(folder, r, true), "a folder");
  CHECK_ERROR(trace::write_result(folder / "none" / "r.h5", r, true), "does not exist");
  CHECK_ERROR(trace::write_result("/dev/null", r, true), "a device");
  std::ofstream(part) << "tokens of a long run";
  CHECK_ERROR(trace::write_result(folder / "r.h5", r, false), "exists already");
  fs::remove(file);
  CHECK_ERROR(trace::write_result(file, r, false), "r.h5.part", "left over", "--force");
  CHECK_EQ(bytes_of(part), std::string("tokens of a long run"));
  trace::write_result(file, r, true);
  CHECK(!fs::exists(part));
  trace::ResultWriter first(folder / "two.h5", r, false);
  CHECK_ERROR(trace::ResultWriter(folder / "two.h5", r, true), "in use by another program");
  first.finish();
  CHECK_EQ(trace::read_result(folder / "two.h5").kind, r.kind);
  CHECK_ERROR(first.finish(), "twice");
}

SLOTSCOPE_CASE(contradictions_are_refused_before_anything_is_written) {
  const fs::path file = t.temp() / "r.h5";
  const auto refused = [&](auto change, const char* item, const char* word) {
    Result r = made_result();
    change(r);
    CHECK_ERROR(trace::write_result(file, r, false), "r.h5", item, word);
    CHECK(!fs::exists(file) && !fs::exists(file.string() + ".part"));
  };
  refused([](Result& r) { r.datasets[1].axes = "y"; }, "field", "one name per axis");
  refused([](Result& r) { r.datasets[1].axes = "y,,x"; }, "field", "one name per axis");
  refused([](Result& r) { r.datasets[1].shape = {2, 4}; }, "field", "6 values");
  refused([](Result& r) { r.datasets[1].values = std::vector<double>{}; }, "field", "0 values");
  refused([](Result& r) { r.datasets[1].description.clear(); }, "field", "no description");
  refused([](Result& r) { r.datasets[1].attributes["unit"] = "m"; }, "field", "'unit'");
  refused([](Result& r) { r.datasets[2].name = "field"; }, "field", "two of this name");
  refused([](Result& r) { r.datasets[2].name = "panels"; }, "panels", "both a dataset and a group");
  refused([](Result& r) { r.datasets[2].name = "../kappa"; }, "../kappa", "letters");
  refused([](Result& r) { r.datasets[2].name = "parameters"; }, "parameters", "two of this name");
  refused([](Result& r) { r.datasets[0].shape = {2}, r.datasets[0].values = std::vector<double>{1, 2}; }, "field", "as many as coordinates in x");
  refused([](Result& r) { r.kind = "a kind"; }, "kind", "ramnet-theory");
  refused([](Result& r) { r.parameters["long"] = std::vector<double>(5000); }, "parameter long", "at most 4000");
  refused([](Result& r) { r.datasets[7].shape = {INT64_MAX, 3}; }, "nothing", "sizes that memory holds");
  refused([](Result& r) { r.datasets[7].shape = {-1, 3}; }, "nothing", "sizes that memory holds");
}

SLOTSCOPE_CASE(other_files_are_named) {
  const fs::path folder = t.temp(), file = folder / "r.h5", sweep = folder / "s.h5";
  trace::write_result(file, made_result(), false);
  CHECK_ERROR(trace::Trace::open(file), "r.h5", "'slotscope-result'", "computed result", "slotscope figure");
  CHECK_ERROR(trace::read_sweep(file), "r.h5", "'slotscope-result'", "computed result");
  CHECK_ERROR(trace::read_result(file, "ramnet-overlap"), "r.h5", "'ramnet-theory'", "'ramnet-overlap'");
  trace::Sweep s;
  s.settings.lengths = {64};
  trace::write_sweep(s, sweep);
  CHECK_ERROR(trace::read_result(sweep), "s.h5", "This is a sweep", "slotscope-cli analyze");
  std::ofstream(folder / "text") << "no HDF5";
  CHECK_ERROR(trace::read_result(folder / "text"), "not an HDF5 file", "a result written by slotscope-cli");
  CHECK_ERROR(trace::read_result(folder), "this is a folder");
  CHECK_ERROR(trace::read_result(folder / "absent.h5"), "cannot open");
  const auto rewritten = [&](const char* name, int value) {
    trace::write_result(file, made_result(), true);
    const hid_t f = H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), a = H5Aopen(f, name, H5P_DEFAULT);
    H5Awrite(a, H5T_NATIVE_INT, &value);
    H5Aclose(a), H5Fclose(f);
  };
  rewritten("format_version", 2);
  CHECK_ERROR(trace::read_result(file), "format_version", "2", "newer Slotscope");
  rewritten("format_version", 0);
  CHECK_ERROR(trace::read_result(file), "format_version", "damaged");
  rewritten("status", 0);
  CHECK_ERROR(trace::read_result(file), "status", "not complete");
  rewritten("status", 7);
  CHECK_ERROR(trace::read_result(file), "status", "7");
}

// Files made by hand: sizes that were never stored, links, circles.
SLOTSCOPE_CASE(hostile_files_are_refused) {
  const fs::path file = t.temp() / "r.h5";
  const auto edited = [&](auto change) {
    trace::write_result(file, made_result(), true);
    const hid_t f = H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    change(f);
    H5Fclose(f);
  };
  const auto text_attribute = [](hid_t object, const char* name, const char* text) {
    const hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
    H5Tset_size(type, std::strlen(text));
    const hid_t a = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(a, type, text);
    H5Aclose(a), H5Sclose(space), H5Tclose(type);
  };
  const auto add = [&](hid_t f, const char* name, std::vector<hsize_t> size, const char* axes) {
    const hid_t p = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(int(size.size()), size.data(), nullptr);
    const std::vector<hsize_t> chunk(size.size(), 10);
    H5Pset_chunk(p, int(size.size()), chunk.data());
    const hid_t d = H5Dcreate2(f, name, H5T_IEEE_F64BE, space, H5P_DEFAULT, p, H5P_DEFAULT);
    text_attribute(d, "axes", axes);
    H5Dclose(d), H5Sclose(space), H5Pclose(p);
  };
  edited([&](hid_t f) { add(f, "huge", {1'000'000, 1'000'000}, "a,b"); });
  CHECK_ERROR(trace::read_result(file), "huge", "damaged");
  edited([&](hid_t f) { add(f, "zeros", {10'000}, "a"); });  // its chunks were never stored
  CHECK_ERROR(trace::read_result(file), "zeros", "fewer than its sizes");
  edited([&](hid_t f) { add(f, "plain", {10}, "a,b"); });
  CHECK_ERROR(trace::read_result(file), "plain", "one name per axis");
  edited([&](hid_t f) { H5Lcreate_external("/etc/passwd", "/x", f, "link", H5P_DEFAULT, H5P_DEFAULT); });
  CHECK_ERROR(trace::read_result(file), "link", "another place or file");
  edited([&](hid_t f) { H5Ldelete(f, "parameters", H5P_DEFAULT); });
  CHECK_ERROR(trace::read_result(file), "/parameters", "missing");
  edited([&](hid_t f) { H5Lcreate_hard(f, "/panels", f, "/panels/again", H5P_DEFAULT, H5P_DEFAULT); });
  CHECK_EQ(trace::read_result(file).datasets.size(), size_t(6 + 2 * 6));  // ends after eight groups
  edited([&](hid_t f) {
    for (int i = 0; i < 20; ++i)
      H5Lcreate_hard(f, "/panels", f, ("/panels/again" + std::to_string(i)).c_str(), H5P_DEFAULT, H5P_DEFAULT);
  });
  CHECK_ERROR(trace::read_result(file), "more than");
}

// Every cut and many changed bytes: an error that names the file, or values, never a crash. In a child, because HDF5 leaks what it had
// read of a file that turns out to be damaged.
SLOTSCOPE_CASE(damage_gives_errors) {
  const fs::path folder = t.temp(), file = folder / "r.h5", bad = folder / "bad.h5", message = folder / "message";
  trace::write_result(file, made_result(), false);
  const std::string bytes = bytes_of(file);
  SharedMemory cuts, flips;  // value: opened, other: refused
  const auto attempt = [&](const std::string& damaged, SharedMemory& counts) {
    std::ofstream(bad, std::ios::binary | std::ios::trunc) << damaged;
    try {
      for (const ResultDataset& d : trace::read_result(bad).datasets)
        if (int64_t(trace::as_doubles(d.values).size()) != d.elements()) throw std::runtime_error("an opened file contradicts itself");
      ++counts->value;
    } catch (const Error& e) {
      if (std::string(e.what()).find("bad.h5") == std::string::npos) throw std::runtime_error(std::string("does not name the file: ") + e.what());
      if (std::string(e.what()).find("repair") != std::string::npos) throw std::runtime_error(std::string("speaks of traces: ") + e.what());
      ++counts->other;
    }
  };
  Child child([&] {
    for (size_t cut = 0; cut < bytes.size(); cut += 499) attempt(bytes.substr(0, cut), cuts);
    uint32_t random = 1;
    for (int i = 0; i < 1500; ++i) {
      std::string changed = bytes;
      random = random * 1664525 + 1013904223;
      changed[random % changed.size()] ^= char(1 << (i % 8));
      attempt(changed, flips);
    }
  }, message.string());
  CHECK_EQ(child.wait(), 0);
  if (fs::exists(message)) t.fail(bytes_of(message), __FILE__, __LINE__);
  CHECK_EQ(cuts->value.load(), int64_t(0));
  CHECK_EQ(cuts->other.load(), int64_t((bytes.size() + 498) / 499));
  CHECK(flips->value > 0 && flips->other > 0);
  CHECK_EQ(flips->value + flips->other, int64_t(1500));
  t.note(std::to_string(flips->other) + " of 1500 changed files refused");
}

SLOTSCOPE_CASE(a_full_disk_leaves_nothing_behind) {
  const fs::path folder = t.temp(), file = folder / "r.h5", message = folder / "message";
  Child child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{200'000, 200'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    Result r{.kind = "ramnet-valuefield"};
    r.datasets.push_back({.name = "field", .shape = {60'000}, .axes = "n", .description = "noise", .values = odd_doubles(60'000)});
    trace::write_result(file, r, false);
  }, message.string());
  CHECK_EQ(child.wait(), 3);
  const std::string said = bytes_of(message);
  CHECK(said.find("r.h5") != std::string::npos && said.find("no space") != std::string::npos && said.find("--out") != std::string::npos);
  CHECK(!fs::exists(file) && !fs::exists(file.string() + ".part"));
}

}  // namespace slotscope::testing
