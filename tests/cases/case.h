// A small case registry without Qt: the same cases run under Qt Test, under `slotscope-cli selftest` and under
// slotscope-cases. A suite is one file of tests/cases/<room>/ and carries the file's name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace slotscope::testing {

// Thrown by Context::skip.
struct Skipped {
  std::string reason;
};

// What a case gets. Checks record a failure and go on; the case fails when any check failed or an exception escaped.
class Context {
 public:
  // Fails unless `ok`.
  void check(bool ok, std::string_view what, const char* file, int line);
  // Fails unless |a - b| <= tol. Written !(err <= tol), so NaN fails.
  void close(double a, double b, double tol, std::string_view what, const char* file, int line);
  // Fails unless a == b; prints both.
  template <class A, class B>
  void equal(const A& a, const B& b, std::string_view what, const char* file, int line);
  void fail(std::string_view what, const char* file, int line);
  [[noreturn]] void skip(std::string reason);
  // A note printed with the result (worst errors, counts); never a verdict.
  void note(std::string text);

  // tests/<relative>: golden numbers and small data. Set by --golden for machines without the source tree.
  std::filesystem::path data(std::string_view relative) const;
  // The bundled checkpoint and other files of resources/.
  std::filesystem::path resource(std::string_view relative) const;
  // A fresh empty folder, removed when the case ends.
  std::filesystem::path temp();
  // "cpu" or "cuda[:N]": the device that selftest was asked to use. Cases that need a GPU skip when it is "cpu".
  const std::string& device() const;

  struct Result {
    bool passed = true;
    bool skipped = false;
    std::vector<std::string> messages;
  };
  Result result;

 private:
  friend struct Runner;
  std::vector<std::filesystem::path> temps_;
};

struct Case {
  std::string suite, name;
  std::function<void(Context&)> run;
};
std::vector<Case>& registry();
// Runs one case, catching everything, removing temporary folders.
Context::Result run_case(const Case&);
// Runs the cases of `suite` (all when empty), prints failures, notes and the line `N passed, N failed, N skipped`.
// Returns 0 when nothing failed and at least one case ran.
int run_all(const std::string& suite);
void set_device(std::string device);
void set_source_root(std::filesystem::path root);

struct Register {
  Register(const char* file, const char* name, std::function<void(Context&)> run);
};

std::string to_text(const std::string&);
std::string to_text(std::string_view);
std::string to_text(const char*);
std::string to_text(double);
std::string to_text(bool);
template <class T>
std::string to_text(const T& v) {
  if constexpr (std::is_enum_v<T>) {
    return std::to_string(static_cast<long long>(v));
  } else if constexpr (requires { v.begin(); v.end(); }) {
    std::string s = "[";
    for (const auto& x : v) s += (s.size() > 1 ? ", " : "") + to_text(x);
    return s + "]";
  } else {
    return std::to_string(v);
  }
}

template <class A, class B>
void Context::equal(const A& a, const B& b, std::string_view what, const char* file, int line) {
  if (!(a == b)) fail(std::string(what) + ": got " + to_text(a) + ", expected " + to_text(b), file, line);
}

}  // namespace slotscope::testing

#define SLOTSCOPE_CASE(name)                                                            \
  static void case_##name(::slotscope::testing::Context& t);                            \
  static const ::slotscope::testing::Register register_##name(__FILE__, #name, case_##name); \
  static void case_##name([[maybe_unused]] ::slotscope::testing::Context& t)

#define CHECK(cond) t.check(static_cast<bool>(cond), #cond, __FILE__, __LINE__)
#define CHECK_EQ(a, b) t.equal((a), (b), #a " == " #b, __FILE__, __LINE__)
#define CHECK_CLOSE(a, b, tol) t.close((a), (b), (tol), #a " ~ " #b, __FILE__, __LINE__)
// The statement must throw slotscope::Error whose text contains every one of the given words.
#define CHECK_ERROR(statement, ...)                                                     \
  do {                                                                                  \
    std::string text_;                                                                  \
    try {                                                                               \
      statement;                                                                        \
    } catch (const ::slotscope::Error& e_) {                                            \
      text_ = e_.what();                                                                \
    }                                                                                   \
    if (text_.empty()) t.fail("no slotscope::Error from " #statement, __FILE__, __LINE__); \
    for (std::string word_ : std::initializer_list<std::string>{__VA_ARGS__})           \
      if (!text_.empty() && text_.find(word_) == std::string::npos)                     \
        t.fail("message lacks '" + word_ + "': " + text_, __FILE__, __LINE__);          \
  } while (false)
