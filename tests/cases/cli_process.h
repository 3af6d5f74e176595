// Starts slotscope-cli as a child process and keeps what it says.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace slotscope::testing {

struct ChildOptions {
  bool close_stdin = false, close_stdout = false, close_stderr = false;
  std::string stdin_text;          // given through a pipe
  bool reader_goes_away = false;   // standard output is a pipe whose reader has closed it
  std::string stdout_file;         // standard output goes there (/dev/full)
  std::vector<std::string> env;    // NAME=value
  std::function<void(int pid)> running;  // called once after the start; may send signals
  int seconds = 120;               // killed after that, and the result says so
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
