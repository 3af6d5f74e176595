#include "core/trace/writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "core/error.h"
#include "core/trace/file_lock.h"
#include "core/trace/output_place.h"
#include "core/trace/trace_file.h"

namespace slotscope::trace {
namespace fs = std::filesystem;
namespace {

struct Job {
  enum class Kind { append, write, tokens, spans, exact } kind;
  int run = 0, dataset = 0;
  int64_t count = 0;
  std::vector<std::byte> data;
  std::vector<Span> spans;
};

std::vector<std::byte> no_bytes() { return {}; }

}  // namespace

struct Hdf5Sink::Impl {
  fs::path out, part;
  WriterOptions options;
  std::vector<std::string> warnings;
  std::string message;
  std::unique_ptr<FileLock> lock;
  bool swmr = true, begun = false, finished = false, renamed = false;
  std::vector<RunSpec> runs;  // shapes, for the checks in the caller's thread
  std::unique_ptr<TraceFile> file;

  std::thread thread;
  std::mutex mutex;
  std::condition_variable wake, room;
  std::deque<Job> queue;
  int64_t queued = 0;
  bool stop = false;
  std::exception_ptr error;

  void loop();
  void perform(Job& job);
  void push(Job job);
  void join();
  const DatasetSpec& spec(int run, int dataset) const;
  void close(Status status);
};

void Hdf5Sink::Impl::perform(Job& job) {
  const Hdf5Lock hdf5;
  switch (job.kind) {
    case Job::Kind::append:
      return file->append(job.run, job.dataset, job.count, job.data);
    case Job::Kind::write:
      return file->write(job.run, job.dataset, job.data);
    case Job::Kind::tokens:
      return file->tokens_done(job.run, job.count);
    case Job::Kind::spans:
      return file->set_spans(job.run, job.spans);
    case Job::Kind::exact:
      return file->set_exact(job.run, job.count != 0);
  }
}

void Hdf5Sink::Impl::loop() {
  std::unique_lock guard(mutex);
  while (true) {
    wake.wait(guard, [&] { return stop || !queue.empty(); });
    if (queue.empty()) return;
    Job job = std::move(queue.front());
    queue.pop_front();
    const bool broken = error != nullptr;
    guard.unlock();
    std::exception_ptr met;
    if (!broken) {  // after an error the rest is only thrown away, so that a blocked caller wakes up and
                    // hears of it
      try {
        perform(job);
      } catch (...) {
        met = std::current_exception();
      }
    }
    guard.lock();
    queued -= int64_t(job.data.size());
    if (met) error = met;
    room.notify_all();
  }
}

void Hdf5Sink::Impl::push(Job job) {
  std::unique_lock guard(mutex);
  if (!begun || finished)
    throw Error({.file = part.string(), .found = begun ? "rows after finish()" : "rows before begin()"});
  const int64_t size = int64_t(job.data.size());
  room.wait(guard, [&] { return error || queue.empty() || queued + size <= options.queue_bytes; });
  if (error) std::rethrow_exception(error);
  queued += size;
  queue.push_back(std::move(job));
  wake.notify_one();
}

void Hdf5Sink::Impl::join() {
  if (!thread.joinable()) return;
  {
    const std::lock_guard guard(mutex);
    stop = true;
  }
  wake.notify_one();
  thread.join();
}

const DatasetSpec& Hdf5Sink::Impl::spec(int run, int dataset) const {
  if (run < 0 || size_t(run) >= runs.size() || dataset < 0 ||
      size_t(dataset) >= runs[size_t(run)].datasets.size())
    throw Error({.file = part.string(),
                 .item = "run " + std::to_string(run) + ", dataset " + std::to_string(dataset),
                 .found = "not announced to begin()"});
  return runs[size_t(run)].datasets[size_t(dataset)];
}

void Hdf5Sink::Impl::close(Status status) {
  {
    const Hdf5Lock hdf5;
    try {
      file->close(status, error != nullptr);
    } catch (...) {
      if (!error) error = std::current_exception();
    }
    file.reset();
  }
  if (!error) {
    if (const int failure = sync_path(part, false))
      error = std::make_exception_ptr(
          failure == ENOSPC || failure == EDQUOT
              ? disk_full(part.string(), std::strerror(failure))
              : Error(
                    {.file = part.string(), .found = std::string("cannot sync: ") + std::strerror(failure)}));
  }
}

Hdf5Sink::Hdf5Sink(fs::path out, WriterOptions options) : impl_(std::make_unique<Impl>()) {
  Impl& m = *impl_;
  m.out = std::move(out);
  m.part = m.out;
  m.part += ".part";
  m.options = std::move(options);
  check_output(m.out, m.part, m.options.force, "trace");
  m.lock = std::make_unique<FileLock>(m.part, m.warnings);
  struct stat info {};
  if (!m.options.force && fstat(m.lock->descriptor(), &info) == 0 && info.st_size > 0)
    throw Error({.file = m.part.string(),
                 .found = "left over from an interrupted run",
                 .advice = "Keep its tokens with `slotscope-cli repair " + m.part.string() +
                           "`, or replace it with --force"});
  const fs::path folder = m.out.has_parent_path() ? m.out.parent_path() : fs::path(".");
  const std::string network = network_file_system(folder);
  m.swmr = m.options.swmr == WriterOptions::Swmr::automatic && network.empty();
  if (!network.empty())
    m.warnings.push_back(
        m.out.string() + ": on a network file system (" + network +
        "), so the file is written in plain mode: it can be read only when the run has ended, and a crash "
        "may lose it");
}

Hdf5Sink::~Hdf5Sink() {
  if (!impl_) return;
  try {
    finish(Status::failed);
  } catch (...) {  // nobody left to tell
  }
}

void Hdf5Sink::begin(const ModelSpec& model, const std::vector<RunSpec>& runs) {
  Impl& m = *impl_;
  if (m.begun) throw Error({.file = m.part.string(), .found = "begin() was called twice"});
  m.file = std::make_unique<TraceFile>(m.part, m.options, m.swmr);
  {
    const Hdf5Lock hdf5;
    m.file->create(model, runs);
  }
  if (m.swmr) m.lock->share();
  for (const RunSpec& run : runs) {  // without the texts
    RunSpec shapes;
    shapes.datasets = run.datasets;
    m.runs.push_back(std::move(shapes));
  }
  m.begun = true;
  m.thread = std::thread([&m] { m.loop(); });
}

void Hdf5Sink::append(int run, int dataset, int64_t rows, std::vector<std::byte> data) {
  const DatasetSpec& spec = impl_->spec(run, dataset);
  int64_t expected = rows * int64_t(element_size(spec.type));
  for (int64_t n : spec.shape) expected *= n;
  if (!spec.growing || rows < 0 || expected != int64_t(data.size()))
    throw Error({.item = spec.path,
                 .found = std::to_string(data.size()) + " bytes for " + std::to_string(rows) + " rows",
                 .expected = spec.growing ? std::to_string(expected) + " bytes"
                                          : "write(), the dataset does not grow"});
  impl_->push({Job::Kind::append, run, dataset, rows, std::move(data), {}});
}

void Hdf5Sink::write(int run, int dataset, std::vector<std::byte> data) {
  const DatasetSpec& spec = impl_->spec(run, dataset);
  int64_t expected = int64_t(element_size(spec.type));
  for (int64_t n : spec.shape) expected *= n;
  if (spec.growing || expected != int64_t(data.size()))
    throw Error(
        {.item = spec.path,
         .found = std::to_string(data.size()) + " bytes",
         .expected = spec.growing ? "append(), the dataset grows" : std::to_string(expected) + " bytes"});
  impl_->push({Job::Kind::write, run, dataset, 0, std::move(data), {}});
}

void Hdf5Sink::tokens_done(int run, int64_t n) {
  impl_->push({Job::Kind::tokens, run, 0, n, no_bytes(), {}});
}
void Hdf5Sink::set_spans(int run, std::vector<Span> spans) {
  impl_->push({Job::Kind::spans, run, 0, 0, no_bytes(), std::move(spans)});
}
void Hdf5Sink::set_exact(int run, bool exact) {
  impl_->push({Job::Kind::exact, run, 0, exact ? 1 : 0, no_bytes(), {}});
}

void Hdf5Sink::finish(Status status) {
  Impl& m = *impl_;
  if (m.finished) return;
  m.join();
  m.finished = true;
  std::error_code ignored;
  if (!m.begun) {  // the file was only claimed, or could not be created
    m.file.reset();
    fs::remove(m.part, ignored);
    m.lock.reset();
    m.message = "nothing was written";
    return;
  }
  m.close(status);
  const bool keep = status == Status::failed || m.error;
  if (!keep) {
    if (std::rename(m.part.c_str(), m.out.c_str()) == 0) {
      m.renamed = true;
      sync_path(m.out.has_parent_path() ? m.out.parent_path() : fs::path("."), true);
    } else {
      m.error = std::make_exception_ptr(
          Error({.file = m.out.string(),
                 .found = std::string("cannot rename ") + m.part.string() + ": " + std::strerror(errno),
                 .advice = "The trace is complete in " + m.part.string() + ": rename it yourself"}));
    }
  }
  m.lock.reset();
  m.message = m.renamed
                  ? (status == Status::cancelled ? "cancelled: what was computed is in " : "written: ") +
                        m.out.string()
                  : "not finished: what was written so far is in " + m.part.string();
  if (m.error && status != Status::failed) std::rethrow_exception(m.error);
}

fs::path Hdf5Sink::file() const { return impl_->renamed ? impl_->out : impl_->part; }
const std::string& Hdf5Sink::message() const { return impl_->message; }
const std::vector<std::string>& Hdf5Sink::warnings() const { return impl_->warnings; }
bool Hdf5Sink::swmr() const { return impl_->swmr; }

}  // namespace slotscope::trace
