// What Hdf5Sink writes and when it refuses to.
#include "core/trace/writer.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "tests/cases/case.h"
#include "tests/cases/trace/made_trace.h"

namespace fs = std::filesystem;
using namespace slotscope;
using namespace slotscope::testing;
using trace::ElementType;
using trace::Hdf5Sink;
using trace::Status;
using trace::Trace;

namespace {

void compare(Context& t, const Trace& file, const std::vector<trace::RunSpec>& runs, const MadeOptions& o) {
  trace::MemorySink memory;
  memory.begin(made_model(), runs);
  feed(memory, runs, o);
  for (size_t r = 0; r < runs.size(); ++r)
    for (size_t d = 0; d < runs[r].datasets.size(); ++d) {
      const auto& spec = runs[r].datasets[d];
      const auto* info = file.run(int(r)).find(spec.path);
      if (!info) {
        t.fail(spec.path + " is missing", __FILE__, __LINE__);
        continue;
      }
      CHECK_EQ(info->axes, spec.axes);
      CHECK_EQ(info->description, spec.description);
      CHECK(info->type == spec.type);
      auto shape = spec.shape;
      if (spec.growing) shape.insert(shape.begin(), memory.data[r][d].rows);
      CHECK_EQ(info->shape, shape);
      CHECK(file.read(int(r), spec.path) == memory.values(int(r), spec.path));
    }
}

std::string write_made(const fs::path& out, const MadeOptions& o, trace::WriterOptions w = {},
                       Status status = Status::complete) {
  std::vector<trace::RunSpec> runs;
  for (int i = 0; i < o.runs; ++i) runs.push_back(made_run(o, i));
  Hdf5Sink sink(out, w);
  sink.begin(made_model(), runs);
  feed(sink, runs, o);
  sink.finish(status);
  return sink.message();
}

}  // namespace

SLOTSCOPE_CASE(every_kind_comes_back) {
  for (const bool float64 : {false, true})
    for (const auto compress :
         {trace::WriterOptions::Compress::deflate, trace::WriterOptions::Compress::none})
      for (const int64_t segment : {1, 64, 1000}) {
        MadeOptions o{.segment = segment, .float64 = float64};
        if (!float64) o.weight = ElementType::f16;
        const fs::path out = t.temp() / "trace.h5";
        write_made(out, o, {.compress = compress});
        CHECK(fs::exists(out));
        CHECK(!fs::exists(out.string() + ".part"));
        compare(t, *Trace::open(out), {made_run(o, 0)}, o);
      }
}

SLOTSCOPE_CASE(metadata_comes_back) {
  MadeOptions o{.runs = 3};
  const fs::path out = t.temp() / "trace.h5";
  write_made(out, o, {.created = "2026-01-02T03:04:05Z"});
  const auto file = Trace::open(out);
  CHECK(file->status() == Status::complete);
  CHECK(!file->writer_alive_or_dead());
  CHECK_EQ(file->created(), std::string("2026-01-02T03:04:05Z"));
  CHECK(file->writer_version().find("slotscope ") == 0);
  CHECK_EQ(file->model().config_json, made_model().config_json);
  CHECK_EQ(file->model().flavour, std::string("fla"));
  CHECK_EQ(file->model().tensor_digest, std::string(64, 'a'));
  CHECK_EQ(file->model().attributes.size(), size_t(1));
  CHECK_EQ(file->run_count(), 3);
  for (int r = 0; r < 3; ++r) {
    const auto spec = made_run(o, r);
    const auto& run = file->run(r);
    CHECK_EQ(run.name, spec.name);
    CHECK_EQ(run.tokens, o.tokens);
    CHECK_EQ(run.planned_tokens, o.tokens);
    CHECK_EQ(run.prompt_tokens, o.prompt);
    CHECK_EQ(run.text, spec.text);
    CHECK(run.char_begin == spec.char_begin && run.char_end == spec.char_end);
    CHECK_EQ(run.answer, spec.answer);
    CHECK(run.exact.has_value() && *run.exact == (r % 2 == 0));
    CHECK_EQ(run.spans.size(), size_t(2));
    CHECK(run.span("needle") && *run.span("needle") == (Span{"needle", 10, 20}));
    CHECK(run.span("answer") &&
          *run.span("answer") == (Span{"answer", o.prompt, o.tokens}));  // rewritten at the end
    CHECK_EQ(run.layers.size(), size_t(3));
    CHECK_EQ(run.layers[1].heads, int64_t(8));
    CHECK_EQ(run.layers[1].slots, int64_t(16));
    CHECK_EQ(run.layers[2].family, std::string("attention"));
    CHECK_EQ(run.layers[2].route_kind, std::string("append"));
    CHECK_EQ(run.candidates, int64_t(4));
    CHECK_EQ(run.output_ids.size(), size_t(11));
    CHECK_EQ(run.top_logprob.size(), size_t(44));
    CHECK_EQ(run.output_text.substr(0, 3), std::string("abc"));
    bool depth = false, list = false;
    for (const auto& [name, value] : run.attributes) {
      depth = depth || (name == "depth" && value == trace::AttributeValue(0.5));
      list = list || (name == "list" && value == trace::AttributeValue(std::vector<int64_t>{1, 2, 3}));
    }
    CHECK(depth && list);
    CHECK_EQ(run.token_bytes(5).size(), size_t(2));
  }
}

SLOTSCOPE_CASE(refuses_what_it_must_not_overwrite) {
  const fs::path folder = t.temp();
  const fs::path out = folder / "trace.h5";
  MadeOptions o{.tokens = 40, .prompt = 30};
  write_made(out, o);
  CHECK_ERROR(Hdf5Sink sink(out), "trace.h5", "exists already", "--force");
  CHECK_ERROR(Hdf5Sink sink(folder), "this is a folder");
  CHECK_ERROR(Hdf5Sink sink(folder / "missing" / "trace.h5"), "missing", "does not exist");
  write_made(out, o, {.force = true});
  CHECK_EQ(Trace::open(out)->run(0).tokens, int64_t(40));
  std::ofstream(folder / "other.h5.part") << "what an interrupted run left";
  CHECK_ERROR(Hdf5Sink sink(folder / "other.h5"), "other.h5.part", "interrupted", "repair", "--force");
  write_made(folder / "other.h5", o, {.force = true});
  CHECK(!fs::exists(folder / "other.h5.part"));
  // Nothing begun, nothing left behind.
  { Hdf5Sink idle(folder / "idle.h5"); }
  CHECK(!fs::exists(folder / "idle.h5") && !fs::exists(folder / "idle.h5.part"));
}

SLOTSCOPE_CASE(the_old_file_stays_until_the_new_one_is_whole) {
  const fs::path out = t.temp() / "trace.h5";
  write_made(out, {.tokens = 40, .prompt = 30});
  MadeOptions o{.tokens = 200, .prompt = 190};
  Hdf5Sink sink(out, {.force = true});
  const std::vector<trace::RunSpec> runs{made_run(o, 0)};
  sink.begin(made_model(), runs);
  feed(sink, runs, o);
  CHECK_EQ(Trace::open(out)->run(0).tokens, int64_t(40));
  sink.finish(Status::complete);
  CHECK_EQ(Trace::open(out)->run(0).tokens, int64_t(200));
}

SLOTSCOPE_CASE(cancelled_and_failed_runs_stay_readable) {
  const fs::path folder = t.temp();
  MadeOptions o;
  const std::vector<trace::RunSpec> runs{made_run(o, 0)};
  for (const Status status : {Status::cancelled, Status::failed}) {
    const fs::path out = folder / (status == Status::cancelled ? "cancelled.h5" : "failed.h5");
    Hdf5Sink sink(out);
    sink.begin(made_model(), runs);
    feed(sink, runs, o, 150);
    sink.finish(status);
    CHECK_EQ(sink.file().string(), out.string() + (status == Status::failed ? ".part" : ""));
    CHECK(sink.message().find(sink.file().string()) != std::string::npos);
    CHECK_EQ(fs::exists(out), status == Status::cancelled);
    const auto file = Trace::open(sink.file());
    CHECK(file->status() == status);
    CHECK_EQ(file->run(0).tokens, int64_t(150));
    CHECK_EQ(file->run(0).planned_tokens, int64_t(300));
    CHECK_EQ(file->read(0, "layers/1/hidden").size(), size_t(150 * 8));
    CHECK_EQ(file->read(0, "layers/1/hidden", 149, 1)[7],
             made_value("layers/1/hidden", ElementType::f32, 149, 7));
    CHECK(!file->counters(0, 0, "esl").empty());
  }
}

SLOTSCOPE_CASE(wrong_calls_are_errors) {
  const fs::path out = t.temp() / "trace.h5";
  MadeOptions o{.tokens = 40, .prompt = 30};
  const std::vector<trace::RunSpec> runs{made_run(o, 0)};
  Hdf5Sink sink(out);
  CHECK_ERROR(sink.tokens_done(0, 1), "before begin");
  sink.begin(made_model(), runs);
  CHECK_ERROR(sink.append(0, 0, 2, std::vector<std::byte>(4)), "tokens/ids", "8 bytes");
  CHECK_ERROR(sink.append(0, 999, 1, {}), "999");
  CHECK_ERROR(sink.append(1, 0, 1, std::vector<std::byte>(4)), "run 1");
  sink.finish(Status::complete);
  CHECK_ERROR(sink.tokens_done(0, 1), "after finish");
}

// A queue much smaller than the data only slows the caller down.
SLOTSCOPE_CASE(a_tiny_queue_blocks_and_loses_nothing) {
  MadeOptions o{.tokens = 2000, .prompt = 1990, .segment = 100};
  const fs::path out = t.temp() / "trace.h5";
  write_made(out, o, {.queue_bytes = 1});
  compare(t, *Trace::open(out), {made_run(o, 0)}, o);
}
