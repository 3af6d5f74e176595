#include "tests/cases/case.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <system_error>
#include <unistd.h>

namespace slotscope::testing {
namespace {

std::string& device_name() {
  static std::string name = std::getenv("SLOTSCOPE_TEST_DEVICE") ? std::getenv("SLOTSCOPE_TEST_DEVICE") : "cpu";
  return name;
}

std::filesystem::path& source_root() {
  static std::filesystem::path root = SLOTSCOPE_SOURCE_DIR;
  return root;
}

std::string place(const char* file, int line) {
  return std::filesystem::path(file).filename().string() + ":" + std::to_string(line) + ": ";
}

}  // namespace

struct Runner {
  static Context::Result run(const Case& c) {
    Context context;
    try {
      c.run(context);
    } catch (const Skipped& s) {
      if (context.result.passed) context.result.skipped = true;
      context.result.messages.push_back("skipped: " + s.reason);
    } catch (const std::exception& e) {
      context.result.passed = false;
      context.result.messages.push_back(std::string("exception: ") + e.what());
    } catch (...) {
      context.result.passed = false;
      context.result.messages.push_back("an exception that is no std::exception");
    }
    for (const auto& folder : context.temps_) {
      std::error_code ignored;
      std::filesystem::remove_all(folder, ignored);
    }
    return context.result;
  }
};

void Context::check(bool ok, std::string_view what, const char* file, int line) {
  if (!ok) fail(what, file, line);
}

void Context::close(double a, double b, double tol, std::string_view what, const char* file, int line) {
  const double error = std::abs(a - b);
  if (!(error <= tol)) {
    char numbers[160];
    std::snprintf(numbers, sizeof numbers, ": got %.17g, expected %.17g, error %.3g, tolerance %.3g", a, b, error, tol);
    fail(std::string(what) + numbers, file, line);
  }
}

void Context::fail(std::string_view what, const char* file, int line) {
  result.passed = false;
  if (result.messages.size() < 20) result.messages.push_back(place(file, line) + std::string(what));
}

void Context::skip(std::string reason) { throw Skipped{std::move(reason)}; }
void Context::note(std::string text) { result.messages.push_back("note: " + std::move(text)); }

std::filesystem::path Context::data(std::string_view relative) const { return source_root() / "tests" / relative; }
std::filesystem::path Context::resource(std::string_view relative) const {
  return source_root() / "resources" / relative;
}
const std::string& Context::device() const { return device_name(); }

std::filesystem::path Context::temp() {
  std::string pattern = (std::filesystem::temp_directory_path() / "slotscope-case-XXXXXX").string();
  if (!mkdtemp(pattern.data())) throw std::runtime_error("cannot make a temporary folder " + pattern);
  temps_.emplace_back(pattern);
  return temps_.back();
}

std::vector<Case>& registry() {
  static std::vector<Case> cases;
  return cases;
}

Register::Register(const char* file, const char* name, std::function<void(Context&)> run) {
  registry().push_back({std::filesystem::path(file).stem().string(), name, std::move(run)});
}

Context::Result run_case(const Case& c) { return Runner::run(c); }

int run_all(const std::string& suite) {
  int passed = 0, failed = 0, skipped = 0;
  for (const Case& c : registry()) {
    if (!suite.empty() && c.suite != suite) continue;
    const auto r = run_case(c);
    const char* verdict = !r.passed ? "FAIL" : r.skipped ? "skip" : "ok  ";
    (!r.passed ? failed : r.skipped ? skipped : passed)++;
    std::printf("%s %s.%s\n", verdict, c.suite.c_str(), c.name.c_str());
    for (const auto& m : r.messages) std::printf("     %s\n", m.c_str());
    std::fflush(stdout);
  }
  std::printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  return failed == 0 && passed + skipped > 0 ? 0 : 1;
}

void set_device(std::string device) { device_name() = std::move(device); }
void set_source_root(std::filesystem::path root) { source_root() = std::move(root); }

std::string to_text(std::string_view s) {
  std::string quoted(1, '"');
  quoted.append(s);
  quoted.push_back('"');
  return quoted;
}
std::string to_text(const std::string& s) { return to_text(std::string_view(s)); }
std::string to_text(const char* s) { return to_text(std::string_view(s)); }
std::string to_text(bool b) { return b ? "true" : "false"; }
std::string to_text(double v) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.17g", v);
  return buffer;
}

}  // namespace slotscope::testing
