// slotscope-cli selftest: the cases of tests/cases where there is no Qt.
#include "app/cli/commands.h"
#ifdef SLOTSCOPE_SELFTEST
#include "tests/cases/case.h"
#endif

namespace slotscope::cli {

#ifdef SLOTSCOPE_SELFTEST
namespace {

namespace fs = std::filesystem;

// DIR may be the source tree, its tests folder or tests/golden: what counts is that <root>/tests/golden is there.
fs::path source_root(const std::string& given) {
  std::error_code error;
  fs::path path = fs::absolute(given, error).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();
  for (int up = 0; up < 3 && !path.empty(); ++up, path = path.parent_path())
    if (fs::is_directory(path / "tests" / "golden", error)) return path;
  throw Error({.file = given, .item = "--golden", .found = "no tests/golden there",
               .expected = "the source tree, its tests folder or tests/golden"}, Error::Kind::usage);
}

}  // namespace

int run_selftest(const SelftestSettings& s, const Console& console) {
  if (s.list) {
    for (const auto& c : testing::registry()) console.out(c.suite + "." + c.name + "\n");
    return kExitOk;
  }
  bool known = s.suite.empty();
  for (const auto& c : testing::registry()) known |= c.suite == s.suite;
  if (!known)
    throw Error({.item = "--suite", .found = "'" + s.suite + "'", .expected = "a suite of this build",
                 .advice = "`slotscope-cli selftest --list` names them"}, Error::Kind::usage);
  if (s.device != "cpu") {
    // A GPU run that silently ran on the CPU would prove nothing.
    std::string why, names;
    bool found = false;
    for (const auto& d : engine::devices(&why)) {
      names += (names.empty() ? "" : ", ") + d.name;
      found |= d.name == (s.device == "cuda" ? "cuda:0" : s.device);
    }
    if (!found)
      throw Error({.item = "--device", .found = "no " + s.device + (why.empty() ? "" : " (" + why + ")"),
                   .expected = "one of " + names});
  }
  testing::set_device(s.device);
  if (!s.golden.empty()) testing::set_source_root(source_root(s.golden));
  return testing::run_all(s.suite);
}
#else
int run_selftest(const SelftestSettings&, const Console&) {
  throw Error({.item = "selftest", .found = "this program was built without the test cases",
               .advice = "Build with -DSLOTSCOPE_TESTS=ON"});
}
#endif

}  // namespace slotscope::cli
