// Checks on a child process, shared by the suites cli.cpp and cli_run.cpp.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/cases/case.h"
#include "tests/cases/cli_process.h"

namespace slotscope::testing {
namespace fs = std::filesystem;
using nlohmann::json;
using Words = std::vector<std::string>;

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Standard output as JSON; a discarded value when it is not exactly one document.
inline json document(const Child& child) { return json::parse(child.out, nullptr, false); }

// Fails with everything the program said when its exit code is another one.
inline void expect_code(Context& t, const Child& child, int code, const std::string& what, int line) {
  if (child.code != code || child.timed_out)
    t.fail(what + ": exit " + std::to_string(child.code) + (child.signal ? ", signal " + std::to_string(child.signal) : "") +
               (child.timed_out ? ", timed out" : "") + ", expected " + std::to_string(code) + "; said: " + child.out + child.err,
           __FILE__, line);
}
#define EXPECT_CODE(child, code, what) expect_code(t, (child), (code), (what), __LINE__)

inline void expect_says(Context& t, const std::string& text, std::initializer_list<const char*> words, int line) {
  for (const char* word : words)
    if (!has(text, word)) t.fail(std::string("lacks '") + word + "': " + text, __FILE__, line);
}
#define EXPECT_SAYS(text, ...) expect_says(t, (text), {__VA_ARGS__}, __LINE__)

inline std::string bundled(Context& t) { return t.resource("checkpoints/raven-passkey").string(); }
inline std::string golden(Context& t, const char* name) { return t.data(std::string("golden/models/") + name).string(); }

inline void write_file(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string file_bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline Words run_words(Context& t, const fs::path& out, Words more) {
  Words words = {"run", bundled(t), "--out", out.string()};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// A golden model's folder with a config of our own.
inline fs::path copy_model(Context& t, const char* name, const std::string& from, const std::string& to) {
  const fs::path folder = t.temp();
  fs::copy_file(fs::path(golden(t, name)) / "model.safetensors", folder / "model.safetensors");
  std::string config = file_bytes(fs::path(golden(t, name)) / "config.json");
  const size_t at = config.find(from);
  if (at == std::string::npos) throw std::runtime_error("config.json lacks " + from);
  config.replace(at, from.size(), to);
  write_file(folder / "config.json", config);
  return folder;
}

}  // namespace slotscope::testing
