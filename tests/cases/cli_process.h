// Starts slotscope-cli as a child process and keeps what it says.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

namespace slotscope::testing {

struct ChildOptions {
  bool close_stdin = false, close_stdout = false, close_stderr = false;
  std::string stdin_text;          // given through a pipe
  bool reader_goes_away = false;   // standard output is a pipe whose reader has closed it
  std::string stdout_file;         // standard output goes there (/dev/full)
  std::vector<std::string> env;    // NAME=value, beside this program's; OMP_NUM_THREADS is 1 unless given here
  // Called once after the start, beside it; may send signals until `ended` (after that the pid may be another program's).
  std::function<void(int pid, const std::atomic<bool>& ended)> running;
  int seconds = 300;               // a guard against hanging, not a measure: killed after that, and the result says so
};

struct Child {
  int code = -1;     // exit code, or -1
  int signal = 0;    // that ended it
  bool timed_out = false;
  std::string out, err;
};

// The slotscope-cli beside the running test program (or the running program itself), or SLOTSCOPE_CLI.
std::string cli_program();
Child run_cli(const std::vector<std::string>& arguments, const ChildOptions& options = {});

}  // namespace slotscope::testing
