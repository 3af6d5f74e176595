// repair: a dead writer's file becomes a clean one that holds the same tokens.
#include "core/trace/repair.h"

#include <hdf5.h>

#include <filesystem>
#include <fstream>

#include "core/error.h"
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

// A writer that dies (without a word) after 3,000 of 4,096 tokens.
const MadeOptions kRun{.tokens = 4096,
                       .prompt = 4000,
                       .layers = 2,
                       .segment = 100,
                       .weight = trace::ElementType::f16,
                       .runs = 2};

void die_while_writing(const fs::path& out) {
  Child child([&] {
    Hdf5Sink sink(out);
    const std::vector<trace::RunSpec> runs{made_run(kRun, 0), made_run(kRun, 1)};
    sink.begin(made_model(), runs);
    feed(sink, {runs[0]}, kRun);  // the first run is whole
    trace::RunSpec second = runs[1];
    for (int64_t t = 0; t < 3000; t += 100)
      for (size_t d = 0; d <= second.datasets.size(); ++d) {
        if (d == second.datasets.size()) {
          sink.tokens_done(1, t + 100);
          continue;
        }
        const auto& spec = second.datasets[d];
        const int64_t first = spec.axes == "N" ? 2 * t : spec.axes == "T+1" && t > 0 ? t + 1 : t;
        const int64_t rows = spec.axes == "N" ? 200 : spec.axes == "T+1" && t == 0 ? 101 : 100;
        const bool token_axis = spec.axes == "T" || spec.axes == "T+1" || spec.path == "tokens/bytes" ||
                                spec.axes.starts_with("T,");
        if (spec.growing && token_axis) sink.append(1, int(d), rows, made_rows(spec, first, rows));
      }
    while (true) pause();  // the writer thread finishes what it has; then the parent kills us
  });
  // Until the last whole chunks are stored: 2,500 is the last mark below 5 chunks of 512 rows.
  for (int wait = 0; wait < 3000; ++wait) {
    usleep(10000);
    try {
      if (Trace::open(out.string() + ".part")->run(1).tokens >= 2500) break;
    } catch (const Error&) {  // not begun yet
    }
  }
  child.kill();
  child.wait();
}

}  // namespace

SLOTSCOPE_CASE(a_dead_writers_file_becomes_clean) {
  const fs::path folder = t.temp();
  die_while_writing(folder / "trace.h5");
  const fs::path part = folder / "trace.h5.part", clean = folder / "clean.h5";
  CHECK(fs::exists(part));
  const auto before = Trace::open(part);
  CHECK(before->writer_alive_or_dead());
  CHECK_EQ(before->run(0).tokens, kRun.tokens);  // a run that is over is stored to its end
  CHECK_EQ(before->run(0).exact.has_value(), true);
  CHECK(!before->counters(0, 0, "esl").empty() && before->counters(1, 0, "esl").empty());
  CHECK_EQ(before->run(1).tokens, int64_t(2500));  // the last mark all of whose chunks (512 rows) are stored
  const auto report = trace::repair(part, clean);
  CHECK(report.status == Status::partial && report.lost.empty());
  CHECK_EQ(report.runs.size(), size_t(2));
  CHECK_EQ(report.runs[1].tokens, before->run(1).tokens);
  CHECK_EQ(report.runs[1].planned, int64_t(4096));
  CHECK(report.text(clean).find(std::to_string(before->run(0).tokens + 2500) + " of 8192 tokens") !=
        std::string::npos);
  auto after = Trace::open(clean);
  CHECK(after->status() == Status::partial);
  CHECK_EQ(after->created(), before->created());
  CHECK_EQ(after->model().config_json, before->model().config_json);
  for (int r = 0; r < 2; ++r) {
    const auto &a = after->run(r), &b = before->run(r);
    CHECK_EQ(a.tokens, b.tokens);
    CHECK_EQ(a.planned_tokens, b.planned_tokens);
    CHECK_EQ(a.text, b.text);
    CHECK(a.spans == b.spans && a.char_begin == b.char_begin && a.exact == b.exact);
    CHECK_EQ(a.layers.size(), b.layers.size());
    CHECK(a.layers[0].attributes == b.layers[0].attributes);
    CHECK_EQ(a.datasets.size(), b.datasets.size());
    for (const auto& d : b.datasets) {
      const auto* copy = a.find(d.path);
      CHECK(copy && copy->shape == d.shape && copy->type == d.type && copy->axes == d.axes &&
            copy->description == d.description);
      if (copy) CHECK(after->read(r, d.path) == before->read(r, d.path));
    }
  }
  // The clean file needs no SWMR: a plain open works.
  after.reset();
  const hid_t plain = H5Fopen(clean.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  CHECK(plain >= 0);
  H5Fclose(plain);
  CHECK_ERROR(trace::repair(part, clean), "exists already", "--force");
  CHECK_ERROR(trace::repair(part, part), "overwrite its source");
  CHECK_ERROR(trace::repair(part, folder / "trace.h5"), "overwrite its source");
  CHECK_ERROR(trace::repair(folder / "none.h5", clean), "none.h5", "cannot open");
  trace::repair(part, clean, true);
  Progress progress;
  progress.request_cancel();
  CHECK_ERROR(trace::repair(part, folder / "cancelled.h5", false, &progress), "cancelled");
  CHECK(!fs::exists(folder / "cancelled.h5") && !fs::exists(folder / "cancelled.h5.part"));
}

// A damaged chunk costs its dataset, by name, not the file.
SLOTSCOPE_CASE(a_damaged_dataset_is_left_out_by_name) {
  const fs::path folder = t.temp(), out = folder / "trace.h5";
  MadeOptions o;
  {
    Hdf5Sink sink(out);
    const std::vector<trace::RunSpec> runs{made_run(o, 0)};
    sink.begin(made_model(), runs);
    feed(sink, runs, o);
    sink.finish(Status::complete);
  }
  const hid_t file = H5Fopen(out.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t dataset = H5Dopen2(file, "/runs/0000/layers/1/hidden", H5P_DEFAULT);
  haddr_t address = HADDR_UNDEF;
  hsize_t size = 0, offset[2] = {};
  unsigned mask = 0;
  const hid_t space = H5Dget_space(dataset);
  CHECK(H5Dget_chunk_info(dataset, space, 0, offset, &mask, &address, &size) >= 0);
  H5Sclose(space);
  H5Dclose(dataset);
  H5Fclose(file);
  CHECK(size > 20);
  std::fstream bytes(out, std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekp(std::streamoff(address + size / 2));
  bytes.write("\0\xff\0\xff\0\xff\0\xff", 8);
  bytes.close();
  CHECK_ERROR(Trace::open(out)->read(0, "layers/1/hidden"), "layers/1/hidden", "damaged");
  const auto report = trace::repair(out, folder / "clean.h5");
  CHECK_EQ(report.lost.size(), size_t(1));
  CHECK(!report.lost.empty() && report.lost[0].find("runs/0000/layers/1/hidden") == 0);
  const auto clean = Trace::open(folder / "clean.h5");
  CHECK(clean->status() == Status::complete && !clean->run(0).find("layers/1/hidden"));
  CHECK(clean->read(0, "layers/0/hidden") == Trace::open(out)->read(0, "layers/0/hidden"));
}
