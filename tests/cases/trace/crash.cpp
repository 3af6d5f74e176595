// Kill -9, full disks and limits: never a broken file under the final name, a readable partial one to the
// last chunk (B35).
#include <hdf5.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

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

const MadeOptions kRun{.tokens = 4096, .prompt = 4000, .layers = 3, .segment = 32};

// Tells the parent how far it is: value = tokens handed over, other = 1 once begin() has returned, 2 after
// finish().
class Telling : public trace::Sink {
 public:
  Telling(trace::Sink& sink, Shared& shared, Shared* looks) : sink_(sink), shared_(shared), looks_(looks) {}
  void begin(const trace::ModelSpec& m, const std::vector<trace::RunSpec>& r) override {
    sink_.begin(m, r);
    shared_.other = 1;
  }
  void append(int run, int d, int64_t rows, std::vector<std::byte> data) override {
    sink_.append(run, d, rows, std::move(data));
  }
  void write(int run, int d, std::vector<std::byte> data) override { sink_.write(run, d, std::move(data)); }
  void tokens_done(int run, int64_t n) override {
    sink_.tokens_done(run, n);
    shared_.value = n;
    if (n < 3000 || n > 3000 + kRun.segment) return;
    for (int wait = 0; looks_ && looks_->value < 2 && wait < 20000; ++wait)
      usleep(1000);  // until it has been looked at
  }
  void set_spans(int run, std::vector<Span> s) override { sink_.set_spans(run, std::move(s)); }
  void set_exact(int run, bool e) override { sink_.set_exact(run, e); }
  void finish(Status s) override {
    sink_.finish(s);
    shared_.other = 2;
  }

 private:
  trace::Sink& sink_;
  Shared& shared_;
  Shared* looks_;
};

void write_all(const fs::path& out, Shared& shared, trace::WriterOptions options = {},
               Shared* looks = nullptr) {
  options.queue_bytes = 1 << 16;  // so that "handed over" is close to "written"
  Hdf5Sink file(out, options);
  Telling sink(file, shared, looks);
  const std::vector<trace::RunSpec> runs{made_run(kRun, 0)};
  sink.begin(made_model(), runs);
  feed(sink, runs, kRun);
  sink.finish(Status::complete);
}

// Every value of every growing dataset up to tokens_done against the formula. Returns how many are wrong.
int64_t wrong_values(const Trace& file) {
  int64_t wrong = 0;
  const auto spec = made_run(kRun, 0);
  for (const auto& d : spec.datasets) {
    const auto* info = file.run(0).find(d.path);
    if (!info) {
      wrong += d.growing;
      continue;
    }
    if (!d.growing) continue;
    const auto values = file.read(0, d.path);
    int64_t width = 1;
    for (const int64_t n : d.shape) width *= n;
    for (size_t i = 0; i < values.size(); ++i)
      wrong +=
          !(values[i] == double(made_value(d.path, d.type, int64_t(i) / width, int64_t(i) % width)) ||
            float(values[i]) == float(made_value(d.path, d.type, int64_t(i) / width, int64_t(i) % width)));
    if (d.axes.starts_with("T,") || d.axes == "T") wrong += info->shape[0] != file.run(0).tokens;
  }
  return wrong;
}

struct Outcome {
  int files = 0, none = 0, before_begin = 0, complete = 0, unreadable = 0;
  int64_t wrong = 0;
  std::vector<int64_t> tokens;
  std::string first_error;
};

// Writes in a child and kills it after a delay from the seed; looks at what is left.
void kill_once(Context& t, const fs::path& folder, std::mt19937& random, double longest,
               trace::WriterOptions options, Outcome& o) {
  const fs::path out = folder / "trace.h5", part = folder / "trace.h5.part";
  fs::remove(out);
  fs::remove(part);
  SharedMemory shared;
  const double delay = std::uniform_real_distribution<double>(0, longest)(random);
  Child child([&] { write_all(out, *shared.operator->(), options); });
  std::this_thread::sleep_for(std::chrono::duration<double>(delay));
  child.kill();
  const int code = child.wait();
  CHECK(code == 1000 + SIGKILL || code == 0);
  if (fs::exists(out)) {
    const auto file = Trace::open(out);  // under the final name: nothing but a whole file
    CHECK(file->status() == Status::complete && !file->writer_alive_or_dead());
    CHECK_EQ(file->run(0).tokens, kRun.tokens);
    o.wrong += wrong_values(*file);
    ++o.complete;
    return;
  }
  if (!fs::exists(part)) {
    CHECK(shared->other == 0);
    ++o.none;
    return;
  }
  try {
    const auto file = Trace::open(part);
    CHECK(file->writer_alive_or_dead() || file->status() == Status::complete);
    CHECK(file->run(0).tokens <= kRun.tokens && file->run(0).planned_tokens == kRun.tokens);
    // tokens_done is in the queue before it is told.
    CHECK(file->run(0).tokens <= shared->value + kRun.segment);
    o.wrong += wrong_values(*file);
    o.tokens.push_back(file->run(0).tokens);
    ++o.files;
  } catch (const Error& e) {
    if (shared->other == 0) {
      ++o.before_begin;  // killed while the groups were being made: there is nothing in it
    } else {
      ++o.unreadable;
      if (o.first_error.empty()) o.first_error = e.what();
    }
  }
}

Outcome kill_many(Context& t, int times, trace::WriterOptions options) {
  const fs::path folder = t.temp();
  SharedMemory shared;
  const auto start = std::chrono::steady_clock::now();
  Child whole([&] { write_all(folder / "trace.h5", *shared.operator->(), options); });
  CHECK_EQ(whole.wait(), 0);
  const double longest = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::mt19937 random(20260);
  Outcome o;
  for (int i = 0; i < times; ++i) kill_once(t, folder, random, longest, options, o);
  std::sort(o.tokens.begin(), o.tokens.end());
  std::ostringstream text;
  text << times << " kills within " << longest << " s: " << o.files << " partial files, " << o.complete
       << " complete, " << o.none << " before a file, " << o.before_begin << " before begin, " << o.unreadable
       << " unreadable";
  if (!o.tokens.empty())
    text << "; tokens kept: median " << o.tokens[o.tokens.size() / 2] << ", most " << o.tokens.back()
         << " of 4096";
  if (!o.first_error.empty()) text << "; first error: " << o.first_error;
  t.note(text.str());
  return o;
}

}  // namespace

SLOTSCOPE_CASE(killed_at_100_random_moments) {
  const Outcome o = kill_many(t, 100, {});
  CHECK_EQ(o.unreadable, 0);
  if (o.unreadable) t.fail(o.first_error, __FILE__, __LINE__);
  CHECK_EQ(o.wrong, int64_t(0));
  CHECK(o.files >= 30);  // or the kills missed the writing
  CHECK(std::count_if(o.tokens.begin(), o.tokens.end(), [](int64_t n) { return n > 0; }) >= 15);
}

// Plain mode promises less (a crash may lose the file), but what opens must hold right values and nothing may
// crash.
SLOTSCOPE_CASE(killed_in_plain_mode) {
  const Outcome o = kill_many(t, 30, {.swmr = trace::WriterOptions::Swmr::off});
  CHECK_EQ(o.wrong, int64_t(0));
  CHECK(o.files > 0);
}

SLOTSCOPE_CASE(read_while_it_is_written) {
  const fs::path out = t.temp() / "trace.h5", part = out.string() + ".part";
  SharedMemory shared, looked;
  Child child([&] { write_all(out, *shared.operator->(), {}, looked.operator->()); });
  int looks = 0, live = 0, foreign = 0;
  int64_t last = 0, wrong = 0;
  while (child.running()) {
    if (shared->other != 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    std::shared_ptr<Trace> file;
    try {
      file = Trace::open(part);
    } catch (const Error& e) {
      if (!fs::exists(part)) break;  // just renamed
      // The writer may close the file between our two ways of opening it: then it opens at the next look.
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      continue;
    }
    ++looks;
    live += file->writer_alive_or_dead();
    if (file->writer_alive_or_dead() && foreign == 0) {
      file.reset();  // as h5py would, with HDF5's own lock for reading
      const hid_t other = H5Fopen(part.c_str(), H5F_ACC_RDONLY | H5F_ACC_SWMR_READ, H5P_DEFAULT);
      foreign += other >= 0;
      if (other >= 0) H5Fclose(other);
      continue;
    }
    CHECK(file->run(0).tokens >= last);
    last = file->run(0).tokens;
    wrong += wrong_values(*file);
    looked->value++;
  }
  CHECK_EQ(child.wait(), 0);  // looking on does not disturb the writer
  CHECK_EQ(wrong, int64_t(0));
  CHECK(live > 0 && foreign > 0);
  CHECK_EQ(wrong_values(*Trace::open(out)), int64_t(0));
  t.note(std::to_string(looks) + " looks at the growing file");
}

namespace {

constexpr int64_t kNoReserve =
    INT64_MIN / 2;  // the writer does not look at the free space: HDF5 itself meets the wall

// Writes until something is full; the text of the Error is the child's last word.
void write_until_full(Context& t, const fs::path& folder, const std::function<void()>& limit, int64_t reserve,
                      std::initializer_list<const char*> words) {
  const fs::path out = folder / "trace.h5", part = folder / "trace.h5.part", said = t.temp() / "said";
  const MadeOptions big{.tokens = 80000, .prompt = 79990, .segment = 500};
  Child child(
      [&] {
        limit();
        Hdf5Sink sink(out, {.compress = trace::WriterOptions::Compress::none, .reserve_bytes = reserve});
        try {
          const std::vector<trace::RunSpec> runs{made_run(big, 0)};
          sink.begin(made_model(), runs);
          feed(sink, runs, big);
          sink.finish(Status::complete);
        } catch (const Error&) {
          sink.finish(Status::failed);  // must not throw again
          throw;
        }
      },
      said.string());
  CHECK_EQ(child.wait(), 3);
  std::stringstream text;
  text << std::ifstream(said).rdbuf();
  for (const char* word : words)
    if (text.str().find(word) == std::string::npos)
      t.fail("message lacks '" + std::string(word) + "': " + text.str(), __FILE__, __LINE__);
  CHECK(!fs::exists(out));
  if (!fs::exists(part)) return t.fail("the partial file is gone", __FILE__, __LINE__);
  const auto file = Trace::open(part);
  CHECK(file->status() == Status::failed || file->writer_alive_or_dead());
  const int64_t n = file->run(0).tokens;
  CHECK(n > 0 && n < big.tokens);
  const auto ids = file->read(0, "tokens/ids");
  CHECK_EQ(int64_t(ids.size()), n);
  for (size_t i = 0; i < ids.size(); i += 101)
    CHECK_EQ(ids[i], made_value("tokens/ids", trace::ElementType::i32, int64_t(i), 0));
  const auto hidden = file->read(0, "layers/1/hidden", n - 1, 1);
  for (size_t i = 0; i < 8; ++i)
    CHECK_EQ(hidden[i], made_value("layers/1/hidden", trace::ElementType::f32, n - 1, int64_t(i)));
  t.note(std::to_string(n) + " tokens kept, status " + std::to_string(int(file->status())) + ": " +
         text.str());
}

void full_tmpfs(Context& t, const char* size, int64_t reserve) {
  const fs::path folder = t.temp();
  if (mount("none", folder.c_str(), "tmpfs", 0, (std::string("size=") + size).c_str()) != 0)
    t.skip("a small tmpfs cannot be mounted here (needs root)");
  struct Unmount {
    fs::path folder;
    ~Unmount() { umount2(folder.c_str(), MNT_DETACH); }
  } unmount{folder};
  write_until_full(t, folder, [] {}, reserve, {"trace.h5.part", "no space", "the disk is full", "--out"});
}

void limit_file_size() {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{10 << 20, 10 << 20};
  setrlimit(RLIMIT_FSIZE, &limit);
}

}  // namespace

SLOTSCOPE_CASE(full_disk) { full_tmpfs(t, "10m", 1 << 20); }

// Another program takes the last space between our look and the write, at several places.
SLOTSCOPE_CASE(full_disk_without_a_warning) {
  for (const char* size : {"8m", "9300k", "10100k", "11700k"}) full_tmpfs(t, size, kNoReserve);
}

SLOTSCOPE_CASE(file_size_limit) {
  write_until_full(t, t.temp(), limit_file_size, 1 << 20,
                   {"trace.h5.part", "no space", "largest size", "--out"});
}

SLOTSCOPE_CASE(file_size_limit_without_a_warning) {
  write_until_full(t, t.temp(), limit_file_size, kNoReserve,
                   {"trace.h5.part", "no space", "largest size", "--out"});
}
