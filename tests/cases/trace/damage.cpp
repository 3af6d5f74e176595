// Foreign, cut off and damaged files: an Error that names the file, never a crash, a hang or a huge
// allocation. Everything is opened in a child, because the library below is not ours.
#include <hdf5.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

#include "core/error.h"
#include "core/trace/repair.h"
#include "core/trace/trace.h"
#include "core/trace/writer.h"
#include "tests/cases/case.h"
#include "tests/cases/trace/child.h"
#include "tests/cases/trace/made_trace.h"

namespace fs = std::filesystem;
using namespace slotscope;
using namespace slotscope::testing;
using trace::Hdf5Sink;
using trace::Status;
using trace::Trace;

namespace {

const MadeOptions kSmall{.tokens = 80, .prompt = 70, .heads = 2, .slots = 16, .top_k = 2, .layers = 1};

std::string file_bytes(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void put_bytes(const fs::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary | std::ios::trunc).write(bytes.data(), std::streamsize(bytes.size()));
}

void write_small(const fs::path& out) {
  Hdf5Sink sink(out, {.created = "2026-01-01T00:00:00Z"});
  const std::vector<trace::RunSpec> runs{made_run(kSmall, 0)};
  sink.begin(made_model(), runs);
  feed(sink, runs, kSmall);
  sink.finish(Status::complete);
}

// Everything that a viewer would ask for. Returns a number that changes with every value.
double read_all(const fs::path& file) {
  const auto trace = Trace::open(file);
  double sum = 0;
  int place = 0;
  for (int r = 0; r < trace->run_count(); ++r) {
    for (const auto& d : trace->run(r).datasets)
      for (const double v : trace->read(r, d.path)) sum += v * (1 + (++place % 97));
    for (const auto& layer : trace->run(r).layers)
      if (trace->has_routes(r, layer.index)) sum += trace->routes(r, layer.index, 0).weight_at(0, 0);
    if (!trace->run(r).layers.empty()) trace->counters(r, trace->run(r).layers[0].index, "esl");
  }
  return sum;
}

struct Tally {
  int read = 0, refused = 0, other = 0;
  int64_t wrong_words = 0;  // an exception that is no Error
  std::vector<int> crashed;
};

// Runs `make(i)` + read_all for i < count in children; a child that dies is followed by another.
Tally try_all(const fs::path& file, int count, double expected, const std::function<void(int)>& make) {
  Tally tally;
  SharedMemory at, verdict, foreign;
  for (int next = 0; next < count;) {
    at->value = next;
    Child child([&] {
      for (int i = next; i < count; ++i) {
        at->value = i;
        alarm(30);  // a hang is a crash
        make(i);
        try {
          const double sum = read_all(file);
          (sum == expected ? verdict->value : foreign->value)++;
        } catch (const Error&) {
          verdict->other++;
        } catch (const std::exception&) {
          foreign->other++;
        }
      }
      at->value = count;
    });
    child.wait();
    if (at->value < count) tally.crashed.push_back(int(at->value));
    next = int(at->value) + 1;
  }
  tally.read = int(verdict->value);
  tally.refused = int(verdict->other);
  tally.other = int(foreign->value);
  tally.wrong_words = foreign->other;
  return tally;
}

std::string say(const char* what, int count, const Tally& r) {
  return std::to_string(count) + " " + what + ": " + std::to_string(r.read) + " read the same, " +
         std::to_string(r.refused) + " refused, " + std::to_string(r.other) + " read other values, " +
         std::to_string(r.crashed.size()) + " crashed";
}

}  // namespace

SLOTSCOPE_CASE(what_is_no_trace_is_refused_by_kind) {
  const fs::path folder = t.temp(), file = folder / "a.h5";
  CHECK_ERROR(Trace::open(folder / "none.h5"), "none.h5", "No such file");
  CHECK_ERROR(Trace::open(folder), "this is a folder");
  put_bytes(file, "");
  CHECK_ERROR(Trace::open(file), "a.h5", "not an HDF5 file", "empty");
  put_bytes(file, "version https://git-lfs.github.com/spec/v1\n");
  CHECK_ERROR(Trace::open(file), "Git LFS");
  put_bytes(file, "<!DOCTYPE html>");
  CHECK_ERROR(Trace::open(file), "web page");
  put_bytes(file, std::string("PK\3\4", 4) + std::string(600, 'x'));
  CHECK_ERROR(Trace::open(file), "zip");
  put_bytes(file, std::string("\x89HDF\r\n\x1a\n", 8));
  CHECK_ERROR(Trace::open(file), "a.h5", "damaged or cut off");
  fs::remove(file);
  hid_t h = H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(h);
  CHECK_ERROR(Trace::open(file), "format", "without this attribute", "slotscope-trace");
}

SLOTSCOPE_CASE(newer_versions_are_refused_by_number) {
  const fs::path out = t.temp() / "trace.h5";
  const auto with = [&](const char* name, int value) {
    write_small(out);
    const hid_t file = H5Fopen(out.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t attribute = H5Aopen(file, name, H5P_DEFAULT);
    H5Awrite(attribute, H5T_NATIVE_INT, &value);
    H5Aclose(attribute);
    H5Fclose(file);
  };
  with("format_version", 7);
  CHECK_ERROR(Trace::open(out), "format_version", "7", "1", "newer Slotscope");
  fs::remove(out);
  with("format_version", 0);
  CHECK_ERROR(Trace::open(out), "format_version");
  fs::remove(out);
  with("status", 9);
  CHECK_ERROR(Trace::open(out), "status", "9");
  fs::remove(out);
  with("tokens_done", 81);  // of the root: the run's own number counts
  CHECK_EQ(Trace::open(out)->run(0).tokens, int64_t(80));
}

// Numbers that disagree are found before they are used.
SLOTSCOPE_CASE(inconsistent_numbers_are_refused) {
  const fs::path folder = t.temp();
  int n = 0;
  const auto with = [&](const std::function<void(hid_t)>& change) {
    const fs::path out = folder / ("trace" + std::to_string(n++) + ".h5");
    write_small(out);
    const hid_t file = H5Fopen(out.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    change(file);
    H5Fclose(file);
    return out;
  };
  const auto set_tokens = [](int64_t value) {
    return [value](hid_t file) {
      const hid_t group = H5Gopen2(file, "/runs/0000", H5P_DEFAULT),
                  attribute = H5Aopen(group, "tokens_done", H5P_DEFAULT);
      H5Awrite(attribute, H5T_NATIVE_INT64, &value);
      H5Aclose(attribute);
      H5Gclose(group);
    };
  };
  CHECK_ERROR(Trace::open(with(set_tokens(81))), "tokens/ids", "80 rows", "tokens_done = 81");
  CHECK_ERROR(Trace::open(with(set_tokens(int64_t(1) << 60))), "tokens/ids", "80 rows");
  CHECK_ERROR(Trace::open(with(set_tokens(-1))), "tokens_done is -1");
  // Fewer is a partial view: nothing past it is read.
  const auto fewer = Trace::open(with(set_tokens(33)));
  CHECK_EQ(fewer->run(0).ids.size(), size_t(33));
  CHECK_EQ(fewer->read(0, "layers/0/hidden").size(), size_t(33 * 8));
  CHECK_EQ(fewer->routes(0, 0, 1).rows, int64_t(33));
  CHECK_EQ(fewer->run(0).find("layers/0/read_weight")->shape[0],
           int64_t(0));  // its tokens (289 ...) lie beyond
  CHECK_ERROR(fewer->read(0, "tokens/ids", 0, 34), "rows 0 to 34");
  // Slots are what views make arrays of: 2^32 + 16 must not pass for 16.
  for (const int64_t slots : {(int64_t(1) << 32) + 16, int64_t(1) << 24, int64_t(-1)}) {
    const auto many = Trace::open(with([slots](hid_t file) {
      const hid_t group = H5Gopen2(file, "/runs/0000/layers/0", H5P_DEFAULT), attribute = H5Aopen(group, "slots", H5P_DEFAULT);
      H5Awrite(attribute, H5T_NATIVE_INT64, &slots);
      H5Aclose(attribute);
      H5Gclose(group);
    }));
    CHECK_ERROR(many->routes(0, 0, 0), "layers/0/slots", std::to_string(slots), "0 to 65536");
  }
  // Sizes that the file cannot hold: 2^50 rows of nothing.
  CHECK_ERROR(Trace::open(with([](hid_t file) {
                const hsize_t size[2] = {hsize_t(1) << 50, 8};
                const hid_t dataset = H5Dopen2(file, "/runs/0000/layers/0/hidden", H5P_DEFAULT);
                H5Dset_extent(dataset, size);
                H5Dclose(dataset);
              })),
              "layers/0/hidden", "can hold");
  const auto shape = [&](const char* path, std::vector<hsize_t> dims) {
    return with([&](hid_t file) {
      H5Ldelete(file, path, H5P_DEFAULT);
      const hid_t space = H5Screate_simple(int(dims.size()), dims.data(), nullptr);
      H5Dclose(H5Dcreate2(file, path, H5T_STD_U16LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
      H5Sclose(space);
    });
  };
  CHECK_ERROR(Trace::open(shape("/runs/0000/layers/0/route_index", {80, 2}))->routes(0, 0, 0), "route_index");
  CHECK_ERROR(Trace::open(shape("/runs/0000/layers/0/route_index", {80, 2, 3}))->routes(0, 0, 0),
              "another shape");
  CHECK_ERROR(Trace::open(shape("/runs/0000/layers/0/log_decay", {79, 2}))->routes(0, 0, 0), "log_decay",
              "another shape");
}

SLOTSCOPE_CASE(cut_files_never_crash) {
  const fs::path folder = t.temp(), good = folder / "good.h5", bad = folder / "bad.h5";
  write_small(good);
  const std::string bytes = file_bytes(good);
  const double expected = read_all(good);
  std::mt19937 random(7);
  std::vector<size_t> cuts;
  for (size_t i = 0; i < 60; ++i) cuts.push_back(i * 8);
  for (int i = 0; i < 140; ++i) cuts.push_back(random() % bytes.size());
  cuts.push_back(bytes.size() - 1);
  const Tally r = try_all(bad, int(cuts.size()), expected,
                          [&](int i) { put_bytes(bad, bytes.substr(0, cuts[size_t(i)])); });
  t.note(say("cut files", int(cuts.size()), r));
  CHECK(r.crashed.empty());
  CHECK_EQ(r.wrong_words, int64_t(0));
  CHECK_EQ(r.refused, int(cuts.size()));  // a file that was closed is whole or refused
}

SLOTSCOPE_CASE(flipped_bytes_never_crash) {
  const fs::path folder = t.temp(), good = folder / "good.h5", bad = folder / "bad.h5";
  write_small(good);
  const std::string bytes = file_bytes(good);
  const double expected = read_all(good);
  constexpr int count = 500;
  const Tally r = try_all(bad, count, expected, [&](int i) {
    std::mt19937 random{std::mt19937::result_type(1000 + i)};
    std::string damaged = bytes;
    for (int k = 0; k < 1 + i % 3; ++k) damaged[random() % damaged.size()] ^= char(1 << random() % 8);
    put_bytes(bad, damaged);
  });
  t.note(say("flipped files", count, r));
  CHECK(r.crashed.empty());
  if (!r.crashed.empty())
    t.fail("first crash: seed " + std::to_string(1000 + r.crashed[0]), __FILE__, __LINE__);
  CHECK_EQ(r.wrong_words, int64_t(0));
  CHECK(r.refused > 0 && r.read > 0);
}
