// A child process for what must survive a kill, a limit or a crash of the library below. Forked, so that the
// case and its child are the same program; the child never returns into the case.
#pragma once

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <exception>
#include <fstream>
#include <functional>
#include <new>
#include <string>

namespace slotscope::testing {

// Counters that both processes see.
struct Shared {
  std::atomic<int64_t> value{0}, other{0};
};
class SharedMemory {
 public:
  SharedMemory() {
    void* place = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) throw std::bad_alloc();
    shared_ = new (place) Shared;
  }
  ~SharedMemory() { munmap(shared_, sizeof(Shared)); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  Shared* operator->() const { return shared_; }

 private:
  Shared* shared_;
};

class Child {
 public:
  // Exit code 0 when `work` returns, 3 when it throws (the text then lies in `message_file` when one is
  // given).
  explicit Child(const std::function<void()>& work, const std::string& message_file = {}) {
    pid_ = fork();
    if (pid_ != 0) return;
    int code = 0;
    try {
      work();
    } catch (const std::exception& e) {
      code = 3;
      if (!message_file.empty()) std::ofstream(message_file) << e.what();
    }
    _exit(code);
  }
  ~Child() {
    if (pid_ > 0) kill(), wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void kill() const { ::kill(pid_, SIGKILL); }
  bool running() {
    return pid_ > 0 && waitpid(pid_, &status_, WNOHANG) == 0 ? true : (reaped_ = true, false);
  }
  // Exit code, or 1000 + signal.
  int wait() {
    if (!reaped_) waitpid(pid_, &status_, 0);
    pid_ = -1;
    return WIFSIGNALED(status_) ? 1000 + WTERMSIG(status_) : WEXITSTATUS(status_);
  }

 private:
  pid_t pid_ = -1;
  int status_ = 0;
  bool reaped_ = false;
};

}  // namespace slotscope::testing
