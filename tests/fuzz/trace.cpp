// Traces that are well-formed HDF5 and say odd things: a valid file, then the edits that the input asks for (trace_recipe.h). Nothing
// that a trace says may make the reader open another file.
#include <fcntl.h>
#include <hdf5.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/trace_base.h"
#include "tests/fuzz/trace_recipe.h"

extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace slotscope::fuzz {
namespace {

constexpr int kMostEdits = 24;

// False when HDF5 did not get to a closed file.
bool write_edited(const std::filesystem::path& path, Base base, Reader& in, const std::string& canary) {
  write_file(path, base_trace(base));
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_fclose_degree(access, H5F_CLOSE_STRONG);
  H5Pset_file_locking(access, false, true);
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, access);
  H5Pclose(access);
  if (file < 0) throw std::runtime_error("cannot open the base trace");
  Recipe recipe(file, in, canary);
  for (int edits = 0; edits < kMostEdits && !in.done(); ++edits) recipe.edit();
  return H5Fclose(file) >= 0;
}

// The same in a child: what HDF5 1.10 does to itself while it *writes* odd things (it crashes, or takes all memory) is no finding
// about our reader, and must neither end the search nor leave its traces in this process. False: there is no file to read.
bool write_edited_apart(const std::filesystem::path& path, Base base, Reader& in, const std::string& canary) {
  base_trace(base);  // made once, here
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("cannot fork");
  if (child == 0) {
    if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(nullptr);
    for (const int signal_number : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGALRM}) signal(signal_number, SIG_DFL);
    alarm(30);
    dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
    try {
      _exit(write_edited(path, base, in, canary) ? 0 : 1);
    } catch (...) {
      _exit(2);
    }
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) throw std::runtime_error("cannot wait for the child");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2) throw std::runtime_error("cannot make the file of this input");
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

void run_trace(Bytes input) {
  static const std::filesystem::path path = scratch_folder() / "edited.h5";
  static Canary canary;
  Reader in(input);
  const uint8_t flags = in.byte();
  if (!write_edited_apart(path, flags & 1 ? Base::plain : Base::complete, in, canary.path().string())) return;
  canary.opened();  // an edit may have gone through a link itself
  const bool opened = read_trace(path, (flags & 14) == 14, (flags & 48) == 48);
  require(!canary.opened(), "no other file is opened");
  require(opened || input.size() > 1, "a trace without edits opens");
}

}  // namespace slotscope::fuzz
