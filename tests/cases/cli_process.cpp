#include "tests/cases/cli_process.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <poll.h>
#include <stdexcept>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace slotscope::testing {
namespace {

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    read = ends[0];
    write = ends[1];
  }
  ~Pipe() { close_read(), close_write(); }
  void close_read() {
    if (read >= 0) ::close(read);
    read = -1;
  }
  void close_write() {
    if (write >= 0) ::close(write);
    write = -1;
  }
};

[[noreturn]] void child(const ChildOptions& o, char* const* argv, char* const* env, const Pipe& in, const Pipe& out, const Pipe& err) {
  // Only async-signal-safe calls: the parent has threads.
  ::dup2(in.read, 0);
  if (!o.stdout_file.empty()) {
    const int fd = ::open(o.stdout_file.c_str(), O_WRONLY);
    ::dup2(fd, 1);
    ::close(fd);
  } else {
    ::dup2(out.write, 1);
  }
  ::dup2(err.write, 2);
  if (o.close_stdin) ::close(0);
  if (o.close_stdout) ::close(1);
  if (o.close_stderr) ::close(2);
  for (int signal : {SIGINT, SIGTERM, SIGPIPE}) ::signal(signal, SIG_DFL);
  ::execve(argv[0], argv, env);
  ::_exit(126);
}

// This program's environment with `changes` instead of variables of the same name. One thread: on a busy machine, threads that
// spin for each other turn a run of a second into one of a minute.
std::vector<std::string> environment(const std::vector<std::string>& changes) {
  std::map<std::string, std::string> variables;
  const auto set = [&](const std::string& text) { variables[text.substr(0, text.find('='))] = text; };
  for (char** variable = environ; *variable; ++variable) set(*variable);
  set("OMP_NUM_THREADS=1");
  for (const auto& change : changes) set(change);
  std::vector<std::string> list;
  for (const auto& [name, text] : variables) list.push_back(text);
  return list;
}

// Reads both streams until they end or the time is over.
void drain(Pipe& out, Pipe& err, Child& result, std::chrono::steady_clock::time_point until) {
  while (out.read >= 0 || err.read >= 0) {
    pollfd fds[2] = {{out.read, POLLIN, 0}, {err.read, POLLIN, 0}};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
    if (left <= 0) return;
    if (::poll(fds, 2, int(left)) < 0 && errno != EINTR) return;
    for (int i = 0; i < 2; ++i) {
      if (!(fds[i].revents & (POLLIN | POLLHUP | POLLERR))) continue;
      char block[4096];
      const ssize_t n = ::read(fds[i].fd, block, sizeof block);
      if (n > 0) (i == 0 ? result.out : result.err).append(block, size_t(n));
      if (n == 0) i == 0 ? out.close_read() : err.close_read();
    }
  }
}

}  // namespace

std::string cli_program() {
  if (const char* given = std::getenv("SLOTSCOPE_CLI")) return given;
  const auto beside = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "slotscope-cli";
  if (!std::filesystem::exists(beside)) throw std::runtime_error("no " + beside.string() + ": build slotscope-cli first");
  return beside.string();
}

Child run_cli(const std::vector<std::string>& arguments, const ChildOptions& o) {
  std::vector<std::string> words = {cli_program()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<std::string> variables = environment(o.env);
  std::vector<char*> env;
  for (auto& variable : variables) env.push_back(variable.data());
  env.push_back(nullptr);

  Pipe in, out, err;
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("fork failed");
  if (pid == 0) child(o, argv.data(), env.data(), in, out, err);
  in.close_read();
  out.close_write();
  err.close_write();
  if (o.reader_goes_away) out.close_read();
  std::signal(SIGPIPE, SIG_IGN);  // the child may not read all of it
  size_t sent = 0;  // texts of these cases fit into a pipe's buffer
  while (sent < o.stdin_text.size()) {
    const ssize_t n = ::write(in.write, o.stdin_text.data() + sent, o.stdin_text.size() - sent);
    if (n <= 0) break;
    sent += size_t(n);
  }
  in.close_write();
  std::atomic<bool> ended{false};
  std::thread signaller;
  if (o.running) signaller = std::thread([&] { o.running(pid, ended); });

  Child result;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(o.seconds);
  drain(out, err, result, until);
  ended = true;  // before it is reaped: until then the pid is its own
  if (signaller.joinable()) signaller.join();
  int status = 0;
  pid_t reaped = 0;
  while ((reaped = ::waitpid(pid, &status, WNOHANG)) == 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  if (reaped == 0) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, &status, 0);
    result.timed_out = true;
  }
  if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

}  // namespace slotscope::testing
