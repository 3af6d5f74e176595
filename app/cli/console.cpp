#include "app/cli/console.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/formats/utf8.h"

namespace slotscope::cli {
namespace {

// Writes everything or returns the error number.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    text.remove_prefix(size_t(n));
  }
  return 0;
}

// Code points, which is what a terminal of this kind of text counts as columns.
size_t width(std::string_view text) {
  return size_t(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

Progress& shared_progress() {
  static Progress progress;
  return progress;
}

extern "C" void slotscope_on_signal(int) {
  const int saved = errno;
  shared_progress().request_cancel();
  static constexpr char text[] = "\ncancelling; once more to end at once\n";
  [[maybe_unused]] const auto ignored = ::write(STDERR_FILENO, text, sizeof text - 1);
  errno = saved;
}

}  // namespace

void Console::out(std::string_view text) const {
  if (const int error = write_all(STDOUT_FILENO, text)) throw OutputFailed{error == EPIPE, std::strerror(error)};
}

void Console::out_json(const Json& document, int indent) const {
  out(document.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n");
}

void Console::info(std::string_view text) const { write_all(STDERR_FILENO, printable(text, true) + "\n"); }
void Console::note(std::string_view text) const {
  if (!quiet) info("note: " + std::string(text));
}
void Console::warning(std::string_view text) const { info("warning: " + std::string(text)); }
void Console::error(std::string_view text) const { info("error: " + std::string(text)); }

ProgressLine::ProgressLine(Progress& progress, const Console& console) : progress_(progress) {
  if (console.quiet) return;
  terminal_ = ::isatty(STDERR_FILENO) == 1;
  thread_ = std::thread([this] { watch(); });
}

ProgressLine::~ProgressLine() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
  if (terminal_) write_all(STDERR_FILENO, "\r\x1b[K");
}

void ProgressLine::watch() {
  using Clock = std::chrono::steady_clock;
  std::string shown_stage;
  auto shown_at = Clock::now();
  while (!stop_) {
    const auto s = progress_.snapshot();
    const bool due = s.stage != shown_stage || Clock::now() - shown_at > std::chrono::seconds(10);
    if (!s.stage.empty() && (terminal_ || due)) {
      std::string line = s.stage;
      if (s.total > 0)
        line += " " + count_text(s.done) + " of " + count_text(s.total) + " (" +
                std::to_string(std::min<int64_t>(100, s.done * 100 / s.total)) + " %)";
      if (!s.detail.empty()) line += ", " + s.detail;
      if (s.stage_seconds >= 1) line += ", " + seconds_text(s.stage_seconds);
      line = printable(line);
      if (terminal_) {
        winsize size{};
        const size_t columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 8 ? size.ws_col : 80;
        if (line.size() >= columns) line.resize(columns - 1);
        write_all(STDERR_FILENO, "\r\x1b[K" + line);
      } else {
        write_all(STDERR_FILENO, line + "\n");
      }
      shown_stage = s.stage;
      shown_at = Clock::now();
    }
    for (int i = 0; i < 5 && !stop_; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void prepare_streams() {
  for (int fd = 0; fd < 3; ++fd)
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF) {
      // open() returns the lowest free descriptor, which is this one. Reading finds the end at once; written text is lost.
      if (::open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) != fd) return;
    }
  std::signal(SIGPIPE, SIG_IGN);
}

Progress& cancel_on_signal() {
  Progress& progress = shared_progress();  // made before a signal can come
  struct sigaction action{};
  action.sa_handler = slotscope_on_signal;
  action.sa_flags = int(SA_RESETHAND | SA_RESTART);  // a second signal has its default effect
  sigemptyset(&action.sa_mask);
  for (int signal : {SIGINT, SIGTERM}) {
    struct sigaction old{};
    // nohup and background jobs of a shell ignore SIGINT on purpose: leave it so.
    if (sigaction(signal, nullptr, &old) == 0 && old.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
  return progress;
}

bool valid_utf8(std::string_view text) { return formats::first_invalid_utf8(text) == formats::kValidUtf8; }

std::string printable(std::string_view text, bool keep_newlines) {
  std::string result;
  const auto escape = [&](char c) {
    char hex[8];
    std::snprintf(hex, sizeof hex, "\\x%02x", static_cast<unsigned char>(c));
    result += hex;
  };
  while (!text.empty()) {
    const std::string_view valid = text.substr(0, formats::first_invalid_utf8(text));
    for (size_t at = 0; at < valid.size();) {
      const auto c = static_cast<unsigned char>(valid[at]);
      const size_t length = size_t(formats::utf8_length(c));
      // C0, DEL and C1 (0xC2 0x80..0x9F) can steer a terminal: a tensor name must not.
      const bool c1 = c == 0xC2 && static_cast<unsigned char>(valid[at + 1]) < 0xA0;
      if ((c < 0x20 && !(keep_newlines && c == '\n')) || c == 0x7F || c1)
        for (size_t i = 0; i < length; ++i) escape(valid[at + i]);
      else
        result.append(valid.substr(at, length));
      at += length;
    }
    text.remove_prefix(valid.size());
    if (text.empty()) break;
    escape(text[0]);
    text.remove_prefix(1);
  }
  return result;
}

void put_text(Json& object, const std::string& key, const std::string& bytes) {
  object[key] = bytes;
  if (valid_utf8(bytes)) return;
  std::string hex;
  for (unsigned char c : bytes) {
    char two[4];
    std::snprintf(two, sizeof two, "%02x", c);
    hex += two;
  }
  object[key + "_bytes_hex"] = hex;
}

Json error_json(const Error& error) {
  const auto& p = error.parts();
  return {{"error", {{"message", error.what()}, {"kind", error.kind() == Error::Kind::usage ? "usage" : "input"},
                     {"file", p.file}, {"item", p.item}, {"found", p.found}, {"expected", p.expected},
                     {"advice", p.advice}}}};
}

std::string bytes_text(int64_t n) {
  static constexpr const char* units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  if (n < 1000) return std::to_string(n) + " B";
  double value = double(n);
  int unit = 0;
  while (value >= 999.5 && unit < 6) value /= 1000, ++unit;
  char text[32];
  std::snprintf(text, sizeof text, value < 99.95 ? "%.1f %s" : "%.0f %s", value, units[unit]);
  return text;
}

std::string seconds_text(double s) {
  char text[48];
  if (!(s >= 0) || s > 1e12) return "-";
  if (s < 9.95) {
    std::snprintf(text, sizeof text, "%.1f s", s);
  } else if (s < 59.5) {
    std::snprintf(text, sizeof text, "%.0f s", s);
  } else {
    const auto whole = static_cast<long long>(s + 0.5);
    if (whole < 3600)
      std::snprintf(text, sizeof text, "%lld:%02lld", whole / 60, whole % 60);
    else
      std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
  }
  return text;
}

std::string count_text(int64_t n) {
  std::string digits = std::to_string(n);
  const size_t first = n < 0 ? 1 : 0;
  if (digits.size() - first < 5) return digits;
  for (size_t at = digits.size() - 3; at > first; at -= std::min<size_t>(3, at)) digits.insert(at, " ");
  return digits;
}

std::string number_text(double v, int digits) {
  if (std::isnan(v)) return "-";
  char text[48];
  std::snprintf(text, sizeof text, "%.*g", digits, v);
  return text;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

Table::Table(std::vector<std::string> columns) {
  for (auto& name : columns) {
    right_.push_back(!name.empty() && name[0] == '>');
    if (right_.back()) name.erase(0, 1);
  }
  rows_.push_back(std::move(columns));
}

void Table::row(std::vector<std::string> cells) {
  cells.resize(right_.size());
  for (auto& cell : cells) cell = printable(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::text(std::string_view indent) const {
  std::vector<size_t> widths(right_.size());
  for (const auto& row : rows_)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width(row[c]));
  std::string result;
  for (const auto& row : rows_) {
    std::string line(indent);
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string pad(widths[c] - width(row[c]), ' ');
      line += (c ? "  " : "") + (right_[c] ? pad + row[c] : row[c] + pad);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    result += line + "\n";
  }
  return result;
}

}  // namespace slotscope::cli
