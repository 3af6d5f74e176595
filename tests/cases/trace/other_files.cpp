// A trace is one file: nothing in it makes the reader open another one. Shapes that cannot be, chunks that do not unpack to their size
// and filters that nobody needs are refused.
#include <hdf5.h>
#include <sys/inotify.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "core/error.h"
#include "core/trace/repair.h"
#include "core/trace/trace.h"
#include "core/trace/writer.h"
#include "tests/cases/case.h"
#include "tests/cases/trace/made_trace.h"

namespace fs = std::filesystem;
using namespace slotscope;
using namespace slotscope::testing;
using trace::Trace;

namespace {

const MadeOptions kSmall{.tokens = 80, .prompt = 70, .heads = 2, .slots = 16, .top_k = 2, .layers = 1};

// Tells whether anybody opened the file since it was made.
class Watch {
 public:
  explicit Watch(const fs::path& file) : descriptor_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    if (inotify_add_watch(descriptor_, file.c_str(), IN_OPEN) < 0) throw std::runtime_error("cannot watch " + file.string());
  }
  ~Watch() { close(descriptor_); }
  bool opened() {
    alignas(inotify_event) char events[4096];
    return ::read(descriptor_, events, sizeof events) > 0;
  }

 private:
  int descriptor_;
};

struct Files {
  fs::path trace, other;
  explicit Files(Context& t) : trace(t.temp() / "trace.h5"), other(t.temp() / "other.h5") {
    {
      trace::Hdf5Sink sink(trace, {.created = "2026-01-01T00:00:00Z"});
      const std::vector<trace::RunSpec> runs{made_run(kSmall, 0)};
      sink.begin(made_model(), runs);
      feed(sink, runs, kSmall);
      sink.finish(trace::Status::complete);
    }
    const hid_t file = H5Fcreate(other.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hsize_t n = 80;
    const hid_t space = H5Screate_simple(1, &n, nullptr);
    H5Dclose(H5Dcreate2(file, "ids", H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Sclose(space);
    H5Fclose(file);
  }
  void edit(const char* path, const std::function<void(hid_t)>& change) const {
    const hid_t file = H5Fopen(trace.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    if (path) H5Ldelete(file, path, H5P_DEFAULT);
    change(file);
    H5Fclose(file);
  }
};

void make(hid_t file, const char* path, hid_t space, hid_t properties = H5P_DEFAULT, hid_t type = H5T_STD_I32LE) {
  H5Dclose(H5Dcreate2(file, path, type, space, H5P_DEFAULT, properties, H5P_DEFAULT));
  H5Sclose(space);
}

}  // namespace

SLOTSCOPE_CASE(links_are_not_followed) {
  for (const char* path : {"/runs/0000/tokens/ids", "/runs/0000/prompt/text", "/model", "/runs"}) {
    const Files files(t);
    files.edit(path, [&](hid_t file) {
      H5Lcreate_external(files.other.c_str(), "/ids", file, path, H5P_DEFAULT, H5P_DEFAULT);
    });
    Watch watch(files.other);
    CHECK_ERROR(Trace::open(files.trace), "trace.h5", path, "a link to another place or file");
    CHECK(!watch.opened());
  }
  const Files files(t);
  files.edit("/runs/0000/tokens/ids", [&](hid_t file) {
    H5Lcreate_soft("/runs/0000/tokens/position", file, "/runs/0000/tokens/ids", H5P_DEFAULT, H5P_DEFAULT);
  });
  CHECK_ERROR(Trace::open(files.trace), "tokens/ids", "a link to another place or file");
}

SLOTSCOPE_CASE(values_of_other_files_are_not_read) {
  const hsize_t n = 80, unlimited = H5S_UNLIMITED;
  for (const bool grows : {false, true}) {
    const Files files(t);
    files.edit("/runs/0000/tokens/ids", [&](hid_t file) {
      const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
      H5Pset_external(properties, files.other.c_str(), 0, grows ? H5F_UNLIMITED : n * 4);
      make(file, "/runs/0000/tokens/ids", H5Screate_simple(1, &n, grows ? &unlimited : nullptr), properties);
      H5Pclose(properties);
    });
    Watch watch(files.other);
    CHECK_ERROR(Trace::open(files.trace), "tokens/ids", "its values lie in another file");
    CHECK(!watch.opened());
  }
  for (const char* path : {"/runs/0000/tokens/ids", "/runs/0000/layers/0/hidden"}) {
    const Files files(t);
    files.edit(path, [&](hid_t file) {
      const hid_t properties = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(1, &n, &unlimited),
                  source = H5Screate_simple(1, &n, &unlimited);
      const hsize_t zero = 0, one = 1, count = H5S_UNLIMITED;
      H5Sselect_hyperslab(source, H5S_SELECT_SET, &zero, nullptr, &count, &one);
      H5Sselect_hyperslab(space, H5S_SELECT_SET, &zero, nullptr, &count, &one);
      H5Pset_virtual(properties, space, files.other.c_str(), "/ids", source);
      H5Sselect_all(space);
      make(file, path, space, properties);
      H5Sclose(source);
      H5Pclose(properties);
    });
    Watch watch(files.other);
    CHECK_ERROR(Trace::open(files.trace), path, "its values lie in another file");
    CHECK(!watch.opened());
  }
}

// A group that holds itself, many times, is not entered from within itself; ways that multiply end in a refusal.
SLOTSCOPE_CASE(circles_of_groups_end) {
  const Files files(t);
  const size_t before = Trace::open(files.trace)->run(0).datasets.size();
  files.edit(nullptr, [&](hid_t file) {
    for (int i = 0; i < 300; ++i)
      H5Lcreate_hard(file, "/runs/0000/layers", file, ("/runs/0000/layers/again" + std::to_string(i)).c_str(), H5P_DEFAULT,
                     H5P_DEFAULT);
    H5Lcreate_hard(file, "/runs/0000/layers/0", file, "/runs/0000/layers/00", H5P_DEFAULT, H5P_DEFAULT);
  });
  auto trace = Trace::open(files.trace);
  const auto& datasets = trace->run(0).datasets;
  const auto in = [&](const char* group) {
    return std::count_if(datasets.begin(), datasets.end(), [&](const auto& d) { return d.path.starts_with(group); });
  };
  CHECK(in("layers/0/") > 5);
  CHECK_EQ(in("layers/0/"), in("layers/00/"));
  CHECK_EQ(datasets.size(), before + size_t(in("layers/00/")));
  CHECK_EQ(trace->run(0).layers.size(), size_t(2));  // "00" is no second layer 0
  trace.reset();  // HDF5 opens no file for writing that it has open for reading
  files.edit(nullptr, [&](hid_t file) {  // 40 ways at each of four levels
    for (const char* name : {"/runs/0000/x", "/runs/0000/x/a", "/runs/0000/x/a/b", "/runs/0000/x/a/b/c"})
      H5Gclose(H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    for (int i = 0; i < 40; ++i)
      for (const char* name : {"/runs/0000/x", "/runs/0000/x/a", "/runs/0000/x/a/b", "/runs/0000/x/a/b/c"})
        H5Lcreate_hard(file, name, file, (name + std::to_string(i)).c_str(), H5P_DEFAULT, H5P_DEFAULT);
  });
  CHECK_ERROR(Trace::open(files.trace), "more than 20000 groups");
}

// Another name for the tokens, before them in the alphabet, must not stand for them: repair copies what the paths of the format name.
SLOTSCOPE_CASE(repair_of_a_linked_group) {
  const Files files(t);
  files.edit(nullptr, [&](hid_t file) {
    H5Lcreate_hard(file, "/runs/0000/tokens", file, "/runs/0000/a", H5P_DEFAULT, H5P_DEFAULT);
  });
  const fs::path copy = files.trace.parent_path() / "copy.h5";
  trace::repair(files.trace, copy);
  CHECK_EQ(Trace::open(copy)->run(0).ids, Trace::open(files.trace)->run(0).ids);
}

SLOTSCOPE_CASE(impossible_shapes) {
  const char* path = "/runs/0000/layers/0/hidden";
  {  // without rows, but with rows of 2^120 values
    const Files files(t);
    files.edit(path, [&](hid_t file) {
      const hsize_t size[] = {0, hsize_t(1) << 60, hsize_t(1) << 60};
      make(file, path, H5Screate_simple(3, size, nullptr));
    });
    CHECK_ERROR(Trace::open(files.trace), "hidden", "need more bytes than a file of");
  }
  {  // a text of 2^40 packed values is no text, and its chunks are not counted
    const Files files(t);
    files.edit("/runs/0000/prompt/text", [&](hid_t file) {
      const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
      const hsize_t values = hsize_t(1) << 40, one = 1;
      H5Pset_chunk(properties, 1, &one);
      H5Pset_deflate(properties, 1);
      make(file, "/runs/0000/prompt/text", H5Screate_simple(1, &values, nullptr), properties, H5T_C_S1);
      H5Pclose(properties);
    });
    CHECK_ERROR(Trace::open(files.trace), "prompt/text", "1099511627776 values");
  }
  {  // no value at all is not the value 0
    const Files files(t);
    files.edit(path, [&](hid_t file) { make(file, path, H5Screate(H5S_NULL)); });
    CHECK_ERROR(Trace::open(files.trace), "hidden", "has no shape");
  }
}

// HDF5 1.10 copies a whole chunk from whatever the filters made of the stored bytes.
SLOTSCOPE_CASE(packed_chunks_are_looked_at) {
  const char* path = "/runs/0000/layers/0/hidden";  // float32 [80,8]
  const Files files(t);
  const hsize_t size[] = {80, 8}, chunk[] = {40, 8}, second[] = {40, 0};
  constexpr size_t kChunkBytes = 40 * 8 * 4;
  const auto store = [&](const std::string& bytes, uint32_t mask) {
    files.edit(path, [&](hid_t file) {
      const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
      H5Pset_chunk(properties, 2, chunk);
      H5Pset_deflate(properties, 1);
      make(file, path, H5Screate_simple(2, size, nullptr), properties, H5T_IEEE_F32LE);
      const hid_t dataset = H5Dopen2(file, path, H5P_DEFAULT);
      if (H5Dwrite_chunk(dataset, H5P_DEFAULT, mask, second, bytes.size(), bytes.data()) < 0)
        throw std::runtime_error("cannot write the chunk");
      H5Dclose(dataset);
      H5Pclose(properties);
    });
  };
  const auto packed = [](size_t count) {
    const std::string plain(count, '\x3f');
    uLongf length = compressBound(count);
    std::string bytes(length, '\0');
    compress2(reinterpret_cast<Bytef*>(bytes.data()), &length, reinterpret_cast<const Bytef*>(plain.data()), count, 1);
    return bytes.substr(0, length);
  };
  float expected;
  std::memset(&expected, 0x3f, 4);
  // Good ones: packed, and left as it was because packing did not help.
  for (const bool plain : {false, true}) {
    store(plain ? std::string(kChunkBytes, '\x3f') : packed(kChunkBytes), plain ? 1 : 0);
    const auto values = Trace::open(files.trace)->read(0, "layers/0/hidden");
    CHECK_EQ(values.size(), size_t(640));
    CHECK_EQ(values.at(319), 0.0);  // the first chunk was never stored
    CHECK_EQ(values.at(320), double(expected));
    CHECK_EQ(values.at(639), double(expected));
  }
  struct Bad {
    std::string bytes;
    uint32_t mask;
  };
  for (const Bad& bad : {Bad{packed(16), 0}, Bad{packed(kChunkBytes - 1), 0}, Bad{packed(kChunkBytes + 1), 0}, Bad{packed(50'000'000), 0},
                         Bad{packed(kChunkBytes).substr(0, 12), 0}, Bad{std::string(16, '\x3f'), 1}, Bad{"no stream at all", 0}}) {
    store(bad.bytes, bad.mask);
    const auto trace = Trace::open(files.trace);
    CHECK_EQ(trace->read(0, "layers/0/hidden", 0, 40).at(0), 0.0);  // the other chunk is fine
    CHECK_ERROR(trace->read(0, "layers/0/hidden"), "hidden", "its chunk at 40,0 cannot be unpacked to its size", "1280 bytes");
    CHECK_ERROR(trace->read(0, "layers/0/hidden", 79, 1), "cannot be unpacked");
  }
}

SLOTSCOPE_CASE(filters_that_are_not_read) {
  const char* path = "/runs/0000/layers/0/hidden";
  const hsize_t size[] = {80, 8}, chunk[] = {40, 8};
  const auto with = [&](const std::function<void(hid_t)>& filters) {
    Files files(t);
    files.edit(path, [&](hid_t file) {
      const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
      H5Pset_chunk(properties, 2, chunk);
      filters(properties);
      make(file, path, H5Screate_simple(2, size, nullptr), properties, H5T_IEEE_F32LE);
      H5Pclose(properties);
    });
    return files.trace;
  };
  CHECK_ERROR(Trace::open(with([](hid_t p) { H5Pset_scaleoffset(p, H5Z_SO_FLOAT_DSCALE, 2); })), "hidden", "packed with filter 6",
              "scaleoffset", "h5repack");
  CHECK_ERROR(Trace::open(with([](hid_t p) { H5Pset_deflate(p, 1), H5Pset_shuffle(p); })), "an order that no writer uses");
  const auto all = with([](hid_t p) { H5Pset_shuffle(p), H5Pset_deflate(p, 1), H5Pset_fletcher32(p); });
  CHECK_EQ(Trace::open(all)->read(0, "layers/0/hidden").size(), size_t(640));
}
