// How data are cut into chunks, and how fast badly and well cut files are read (bad-inputs B38).
#include <hdf5.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "core/error.h"
#include "core/trace/chunk_layout.h"
#include "core/trace/trace.h"
#include "core/trace/writer.h"
#include "tests/cases/case.h"
#include "tests/cases/trace/made_trace.h"

namespace fs = std::filesystem;
using namespace slotscope;
using namespace slotscope::testing;
using trace::choose_chunk;
using trace::ElementType;
using trace::Hdf5Sink;
using trace::Status;
using trace::Trace;
using Shape = std::vector<int64_t>;

namespace {

double seconds_of(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

constexpr int64_t kTokens = 16384, kHeads = 4, kSlots = 256;
float cell(int64_t token, int64_t head, int64_t slot) {
  return float((token * 31 + head * 7 + slot * 13) % 1000) / 1000;
}

}  // namespace

SLOTSCOPE_CASE(sizes_of_chunks) {
  const auto chunk = [](ElementType type, Shape row, std::string axes, int64_t rows) {
    return choose_chunk({"x", type, true, std::move(row), rows, std::move(axes), ""});
  };
  CHECK_EQ(chunk(ElementType::f32, {4, 256}, "T,H_r,M", 16384), (Shape{256, 1, 256}));  // 256 KiB
  CHECK_EQ(chunk(ElementType::u16, {4, 32}, "T,H_r,K", 131072), (Shape{4096, 1, 32}));  // 256 KiB
  CHECK_EQ(chunk(ElementType::u16, {4, 32}, "T,H_r,K", 16384),
           (Shape{2048, 2, 32}));  // 256 KiB, eight rows of chunks
  CHECK_EQ(chunk(ElementType::f32, {1024}, "T,D", 131072), (Shape{64, 1024}));   // 256 KiB
  CHECK_EQ(chunk(ElementType::f32, {151936}, "T,V", 1000), (Shape{1, 151936}));  // one row, 594 KiB
  CHECK_EQ(chunk(ElementType::f64, {151936}, "T,V", 1000), (Shape{1, 75968}));   // never above 1 MiB
  CHECK_EQ(chunk(ElementType::u8, {}, "T", 16384), (Shape{2048}));               // an eighth of little data
  CHECK_EQ(chunk(ElementType::i32, {}, "T", 512), (Shape{512}));
  CHECK_EQ(chunk(ElementType::i32, {}, "G", 7), (Shape{8}));  // not absurdly more than expected
  CHECK_EQ(chunk(ElementType::f32, {0}, "T,D", 10), (Shape{16, 1}));
  // Every size between: a power of two of rows, 0.25 to 1 MiB for large data, never more than 1 MiB or the
  // whole data twice.
  for (const ElementType type : {ElementType::u8, ElementType::u16, ElementType::f32, ElementType::f64})
    for (const int64_t heads : {1, 2, 3, 4, 8, 32})
      for (const int64_t width : {1, 3, 32, 64, 256, 5000})
        for (const int64_t rows : {1, 100, 512, 4096, 16384, 131072, 1000000}) {
          const Shape c = chunk(type, {heads, width}, "T,H_r,M", rows);
          const int64_t bytes = c[0] * c[1] * c[2] * int64_t(trace::element_size(type));
          const int64_t total = rows * heads * width * int64_t(trace::element_size(type));
          CHECK(bytes <= 1 << 20);
          CHECK(bytes < 4 * std::max<int64_t>(total, 4096));
          if (total >= 16 << 20) CHECK(bytes >= 1 << 18);
          CHECK((c[0] & (c[0] - 1)) == 0);
        }
}

// The made trace of B38: 16,384 tokens x 4 heads x 256 slots. One head, one slot (a column) and one token
// row.
SLOTSCOPE_CASE(views_of_a_large_trace) {
  trace::RunSpec run;
  run.prompt_tokens = kTokens;
  run.layers = {{.index = 0,
                 .family = "gsa",
                 .route_kind = "dense",
                 .heads = kHeads,
                 .route_heads = kHeads,
                 .slots = kSlots,
                 .top_k = 0}};
  run.datasets = {{"tokens/ids", ElementType::i32, true, {}, kTokens, "T", "ids"},
                  {"layers/0/write_strength",
                   ElementType::f32,
                   true,
                   {kHeads, kSlots},
                   kTokens,
                   "T,H_r,M",
                   "dense strengths"}};
  const fs::path out = t.temp() / "trace.h5";
  const double writing = seconds_of([&] {
    Hdf5Sink sink(out);
    sink.begin({}, {run});
    for (int64_t first = 0; first < kTokens; first += 512) {
      std::vector<float> rows;
      for (int64_t token = first; token < first + 512; ++token)
        for (int64_t h = 0; h < kHeads; ++h)
          for (int64_t m = 0; m < kSlots; ++m) rows.push_back(cell(token, h, m));
      std::vector<std::byte> bytes(rows.size() * 4);
      std::memcpy(bytes.data(), rows.data(), bytes.size());
      sink.append(0, 0, 512, std::vector<std::byte>(512 * 4));
      sink.append(0, 1, 512, std::move(bytes));
      sink.tokens_done(0, first + 512);
    }
    sink.finish(Status::complete);
  });
  std::shared_ptr<Trace> file;
  const double opening = seconds_of([&] { file = Trace::open(out); });
  CHECK_EQ(file->run(0).find("layers/0/write_strength")->chunk, (Shape{256, 1, 256}));
  std::vector<double> head, row;
  const double one_head = seconds_of([&] { head = file->read_head(0, "layers/0/write_strength", 2); });
  const double one_row = seconds_of([&] { row = file->read(0, "layers/0/write_strength", 9999, 1); });
  bool same = int64_t(head.size()) == kTokens * kSlots && int64_t(row.size()) == kHeads * kSlots;
  for (int64_t i = 0; same && i < kTokens * kSlots; ++i)
    same = float(head[size_t(i)]) == cell(i / kSlots, 2, i % kSlots);
  for (int64_t i = 0; same && i < kHeads * kSlots; ++i)
    same = float(row[size_t(i)]) == cell(9999, i / kSlots, i % kSlots);
  CHECK(same);
  // Row by row, as a scrubber reads: the cache holds a row of chunks, so a chunk is unpacked once, not 256
  // times.
  const double scrubbing = seconds_of([&] {
    for (int64_t token = 4096; token < 4096 + 512; ++token)
      row = file->read(0, "layers/0/write_strength", token, 1);
  });
  char text[200];
  std::snprintf(text, sizeof text,
                "write %.2f s, open %.3f s, one head %.3f s, one row %.4f s, 512 rows one by one %.3f s",
                writing, opening, one_head, one_row, scrubbing);
  t.note(text);
  CHECK(opening < 2.5 && one_head < 2.5 && one_row < 2.5 &&
        scrubbing < 2.5);  // guards at five times the bound of 0.5 s
}

// A foreign file cut into columns (16384,1,1): it opens, reads right, reports progress and hears a cancel.
SLOTSCOPE_CASE(a_badly_cut_file_reads_and_cancels) {
  constexpr int64_t tokens = 16384, heads = 2, slots = 64;
  trace::RunSpec run;
  run.layers = {{.index = 0,
                 .family = "gsa",
                 .route_kind = "dense",
                 .heads = heads,
                 .route_heads = heads,
                 .slots = slots,
                 .top_k = 0}};
  run.datasets = {{"tokens/ids", ElementType::i32, true, {}, tokens, "T", "ids"}};
  const fs::path out = t.temp() / "trace.h5";
  {
    Hdf5Sink sink(out);
    sink.begin({}, {run});
    sink.append(0, 0, tokens, std::vector<std::byte>(size_t(tokens) * 4));
    sink.tokens_done(0, tokens);
    sink.finish(Status::complete);
  }
  std::vector<float> values;
  for (int64_t i = 0; i < tokens * heads * slots; ++i)
    values.push_back(cell(i / (heads * slots), i / slots % heads, i % slots));
  const hid_t file = H5Fopen(out.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const hsize_t dims[3] = {tokens, heads, slots}, chunk[3] = {tokens, 1, 1};
  const hid_t space = H5Screate_simple(3, dims, nullptr), properties = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(properties, 3, chunk);
  H5Pset_deflate(properties, 1);
  const hid_t dataset = H5Dcreate2(file, "/runs/0000/layers/0/write_strength", H5T_IEEE_F32LE, space,
                                   H5P_DEFAULT, properties, H5P_DEFAULT);
  CHECK(H5Dwrite(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0);
  H5Dclose(dataset);
  H5Pclose(properties);
  H5Sclose(space);
  H5Fclose(file);

  const auto trace = Trace::open(out);
  Progress progress;
  std::vector<double> head;
  const double time =
      seconds_of([&] { head = trace->read_head(0, "layers/0/write_strength", 1, 0, -1, &progress); });
  CHECK_EQ(head.size(), size_t(tokens * slots));
  for (int64_t i = 0; i < tokens * slots; i += 997)
    CHECK_EQ(float(head[size_t(i)]), cell(i / slots, 1, i % slots));
  CHECK_EQ(progress.snapshot().done, tokens);
  CHECK(time < 2.5);
  progress.request_cancel();
  CHECK_ERROR(trace->read(0, "layers/0/write_strength", 0, -1, &progress), "cancelled");
}

// Several threads share one trace: calls are serialised inside.
SLOTSCOPE_CASE(threads_share_a_trace) {
  MadeOptions o{.tokens = 1000, .prompt = 990};
  const fs::path out = t.temp() / "trace.h5";
  const std::vector<trace::RunSpec> runs{made_run(o, 0)};
  Hdf5Sink sink(out);
  sink.begin(made_model(), runs);
  feed(sink, runs, o);
  sink.finish(Status::complete);
  const auto file = Trace::open(out);
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (int n = 0; n < 4; ++n)
    threads.emplace_back([&, n] {
      for (int repeat = 0; repeat < 50; ++repeat) {
        const auto values = file->read_head(0, "layers/0/route_weight", n, 10 * repeat, 10);
        for (size_t i = 0; i < values.size(); ++i)
          wrong[size_t(n)] += values[i] != made_value("layers/0/route_weight", ElementType::f32,
                                                      10 * repeat + int64_t(i / 3), 3 * n + int64_t(i % 3));
        if (values.size() != 30) ++wrong[size_t(n)];
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK_EQ(wrong, (std::vector<int>{0, 0, 0, 0}));
}
