// Checkpoints made by the scripts of tests/fixtures while the cases run.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/cases/case.h"

namespace slotscope::testing {

// Runs the script with these arguments; skips the case where there is no Python or no source tree. Throws std::runtime_error
// with what the script said when it fails.
inline void run_fixture_script(Context& t, const std::vector<std::string>& arguments,
                               const std::string& name = "make_checkpoints.py") {
  namespace fs = std::filesystem;
  const fs::path script = t.data("fixtures/" + name);
  if (!fs::exists(script)) t.skip("the script lies in the source tree, which is not here");
  const std::string python = fs::exists("/usr/bin/python3") ? "/usr/bin/python3" : "python3";
  if (std::system((python + " -c 'import zlib' >/dev/null 2>&1").c_str()) != 0) t.skip("there is no python3 here");
  const fs::path said = t.temp() / "said.txt";
  const auto quoted = [](const std::string& word) {
    std::string text = "'";
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return text + "'";
  };
  std::string command = python + " " + quoted(script.string());
  for (const std::string& argument : arguments) command += " " + quoted(argument);
  if (std::system((command + " >" + quoted(said.string()) + " 2>&1").c_str()) == 0) return;
  std::ifstream in(said);
  throw std::runtime_error(name + ": " + std::string(std::istreambuf_iterator<char>(in), {}));
}

// SOURCE saved in these forms: the folder that holds one folder per form.
inline std::filesystem::path saved_forms(Context& t, const std::filesystem::path& source, const std::vector<std::string>& forms) {
  const std::filesystem::path out = t.temp();
  std::vector<std::string> arguments = {source.string(), out.string()};
  for (const std::string& form : forms) arguments.insert(arguments.end(), {"--only", form});
  run_fixture_script(t, arguments);
  return out;
}

}  // namespace slotscope::testing
