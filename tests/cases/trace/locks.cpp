// Claims on files: a second writer is refused, viewing never locks, file systems without locks only cost a
// warning (B34), and read-only places (B39).
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "core/trace/file_lock.h"
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

const MadeOptions kSmall{.tokens = 60, .prompt = 50};

void write_small(const fs::path& out, std::vector<std::string>* warnings = nullptr) {
  Hdf5Sink sink(out);
  const std::vector<trace::RunSpec> runs{made_run(kSmall, 0)};
  sink.begin(made_model(), runs);
  feed(sink, runs, kSmall);
  sink.finish(Status::complete);
  if (warnings) *warnings = sink.warnings();
}

class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old, had_ = true;
    if (value)
      setenv(name, value, 1);
    else
      unsetenv(name);
  }
  ~Environment() {
    if (had_)
      setenv(name_, old_.c_str(), 1);
    else
      unsetenv(name_);
  }

 private:
  const char* name_;
  std::string old_;
  bool had_ = false;
};

}  // namespace

SLOTSCOPE_CASE(a_second_writer_is_refused) {
  const fs::path out = t.temp() / "trace.h5";
  Hdf5Sink first(out);
  CHECK_ERROR(Hdf5Sink second(out), "trace.h5.part", "in use by another program");
  CHECK_ERROR(Hdf5Sink second(out, {.force = true}),
              "in use by another program");  // force replaces files, not writers
  const std::vector<trace::RunSpec> runs{made_run(kSmall, 0)};
  first.begin(made_model(), runs);
  Child other([&] { Hdf5Sink second(out, {.force = true}); }, out.string() + ".said");
  CHECK_EQ(other.wait(), 3);
  std::string said;
  std::getline(std::ifstream(out.string() + ".said"), said);
  CHECK(said.find("in use by another program") != std::string::npos);
  feed(first, runs, kSmall);
  first.finish(Status::complete);
  CHECK_EQ(Trace::open(out)->run(0).tokens, kSmall.tokens);
  Hdf5Sink again(out, {.force = true});  // the claim ends with the run
}

SLOTSCOPE_CASE(a_device_or_pipe_is_never_replaced) {
  // The rename at the end once put a trace in the place of /dev/null. A pipe stands for all of them here.
  const fs::path out = t.temp() / "trace.h5", part = out.string() + ".part", link = t.temp() / "link.h5";
  CHECK_EQ(mkfifo(out.c_str(), 0600), 0);
  fs::create_symlink(out, link);
  CHECK_ERROR(Hdf5Sink sink(out, {.force = true}), "trace.h5", "a device, a pipe or a socket", "--out");
  CHECK_ERROR(Hdf5Sink sink(link, {.force = true}), "link.h5", "a device, a pipe or a socket", "--out");
  CHECK(fs::is_fifo(out));
  CHECK(!fs::exists(part));
  fs::rename(out, part);
  CHECK_ERROR(Hdf5Sink sink(out, {.force = true}), "trace.h5.part", "a device, a pipe or a socket", "--out");
  CHECK(fs::is_fifo(part));
}

SLOTSCOPE_CASE(viewing_takes_no_lock) {
  const fs::path out = t.temp() / "trace.h5";
  write_small(out);
  const auto file = Trace::open(out);
  const int descriptor = open(out.c_str(), O_RDONLY);
  CHECK_EQ(flock(descriptor, LOCK_EX | LOCK_NB), 0);  // a lock of ours would refuse this
  const auto second = Trace::open(out);               // and a foreign lock does not keep us from reading
  CHECK_EQ(second->run(0).tokens, kSmall.tokens);
  close(descriptor);
}

SLOTSCOPE_CASE(the_users_wish_is_respected) {
  const fs::path folder = t.temp();
  {
    const Environment never("HDF5_USE_FILE_LOCKING", "FALSE");
    CHECK(trace::lock_wish() == trace::LockWish::never);
    Hdf5Sink first(folder / "a.h5");
    Hdf5Sink second(folder / "a.h5");  // asked not to lock: no claim
    CHECK(first.warnings().empty());
  }
  {
    const Environment always("HDF5_USE_FILE_LOCKING", "TRUE");
    CHECK(trace::lock_wish() == trace::LockWish::always);
    Hdf5Sink first(folder / "b.h5");
    CHECK_ERROR(Hdf5Sink second(folder / "b.h5"), "in use by another program");
    // HDF5 reads the variable when it starts, so its own locking needs a process that starts with it.
  }
  const Environment unset("HDF5_USE_FILE_LOCKING", nullptr);
  CHECK(trace::lock_wish() == trace::LockWish::unset);
}

// A preloaded flock() as a network drive has it: ENOLCK costs a warning, EWOULDBLOCK is a second writer.
SLOTSCOPE_CASE(a_file_system_without_locks_costs_a_warning) {
  const fs::path folder = t.temp();
  trace::set_flock_for_tests([](int, int) {
    errno = ENOLCK;
    return -1;
  });
  std::vector<std::string> warnings;
  try {
    write_small(folder / "a.h5", &warnings);
  } catch (...) {
    trace::set_flock_for_tests(nullptr);
    throw;
  }
  trace::set_flock_for_tests([](int, int) {
    errno = EWOULDBLOCK;
    return -1;
  });
  CHECK_ERROR(Hdf5Sink sink(folder / "b.h5"), "b.h5.part", "in use by another program");
  trace::set_flock_for_tests(nullptr);
  CHECK_EQ(warnings.size(), size_t(1));
  CHECK(!warnings.empty() && warnings[0].find("no locks") != std::string::npos &&
        warnings[0].find("a.h5.part") != std::string::npos);
  CHECK_EQ(Trace::open(folder / "a.h5")->run(0).tokens, kSmall.tokens);
}

SLOTSCOPE_CASE(opened_twice_and_read_only) {
  const fs::path folder = t.temp(), out = folder / "trace.h5", link = folder / "link.h5";
  write_small(out);
  fs::create_symlink(out, link);
  const auto a = Trace::open(out), b = Trace::open(link);  // two windows
  CHECK(a->read(0, "layers/0/hidden") == b->read(0, "layers/0/hidden"));
  chmod(out.c_str(), 0444);
  chmod(folder.c_str(), 0555);
  CHECK_EQ(Trace::open(out)->run(0).tokens, kSmall.tokens);
  const auto refused = [&] { CHECK_ERROR(Hdf5Sink sink(folder / "new.h5"), "may not be written", "--out"); };
  if (geteuid() != 0) {
    refused();
  } else {
    // Root writes everywhere: look with the rights of nobody.
    Child nobody(
        [&] {
          if (setgid(65534) != 0 || setuid(65534) != 0) throw std::runtime_error("cannot change the user");
          Trace::open(out);
          Hdf5Sink sink(folder / "new.h5");
        },
        "/tmp/" + folder.filename().string() + ".said");
    chmod(folder.c_str(), 0555);
    CHECK_EQ(nobody.wait(), 3);
    std::string said;
    std::getline(std::ifstream("/tmp/" + folder.filename().string() + ".said"), said);
    fs::remove("/tmp/" + folder.filename().string() + ".said");
    if (said.find("may not be written") == std::string::npos) t.fail("message: " + said, __FILE__, __LINE__);
  }
  chmod(folder.c_str(), 0755);
}
