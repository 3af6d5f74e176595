// Where the program's words go: results to standard output (with --json exactly one document), everything else to standard
// error; a progress line; numbers as text; cancel by Ctrl+C.
#pragma once

#include <atomic>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/progress.h"

namespace slotscope::cli {

using Json = nlohmann::ordered_json;  // keys stay in the order of resources/cli.md

// Exit codes (spec: architecture "Threads").
inline constexpr int kExitOk = 0, kExitError = 1, kExitUsage = 2, kExitCancelled = 130;

// Standard output could not be written. `closed`: the reader went away (EPIPE), which needs no message.
struct OutputFailed {
  bool closed = false;
  std::string reason;
};

struct Console {
  bool json = false;
  bool quiet = false;  // no progress, notes or estimates; warnings and errors stay

  // Standard output, at once. Throws OutputFailed.
  void out(std::string_view text) const;
  // The one JSON document and one final newline; indent -1: all on one line. Text that is not UTF-8 gets U+FFFD for its bad bytes.
  void out_json(const Json& document, int indent = 2) const;
  // Standard error, one line each; control characters are escaped. Failures to write are ignored.
  void note(std::string_view text) const;
  void warning(std::string_view text) const;
  void error(std::string_view text) const;
  void info(std::string_view text) const;  // no prefix
};

// Shows a Progress on standard error until destroyed: one updating line on a terminal; elsewhere a line when a stage begins and
// then every ten seconds.
class ProgressLine {
 public:
  ProgressLine(Progress& progress, const Console& console);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

 private:
  void watch();
  Progress& progress_;
  bool terminal_ = false;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// Opens /dev/null in place of a closed standard stream, so that no data file ever becomes descriptor 0, 1 or 2, and ignores
// SIGPIPE, so that a closed pipe never ends a run that is writing a trace.
void prepare_streams();
// The first SIGINT or SIGTERM asks this Progress to cancel, a second one ends the process.
Progress& cancel_on_signal();

// Text for a terminal: control characters and bytes that are not UTF-8 become \xNN.
std::string printable(std::string_view text, bool keep_newlines = false);
// JSON of text that may not be UTF-8: {"key": text with U+FFFD, "key_bytes_hex": exact bytes when they are not UTF-8}.
void put_text(Json& object, const std::string& key, const std::string& bytes);
bool valid_utf8(std::string_view text);
Json error_json(const Error& error);

std::string bytes_text(int64_t n);               // "640 B", "16.3 MB" (powers of 1000)
std::string seconds_text(double s);              // "0.4 s", "1:12", "2:03:10"
std::string count_text(int64_t n);               // "131 072" from 10 000 on, with plain spaces
std::string number_text(double v, int digits = 4);  // %.*g; "-" for NaN
std::string shape_text(const std::vector<int64_t>& shape);  // "[260, 256]"

// Aligned columns with a header row; numeric columns are right-aligned.
class Table {
 public:
  // A name that begins with '>' makes a right-aligned column.
  explicit Table(std::vector<std::string> columns);
  void row(std::vector<std::string> cells);
  std::string text(std::string_view indent = "") const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<bool> right_;
};

}  // namespace slotscope::cli
