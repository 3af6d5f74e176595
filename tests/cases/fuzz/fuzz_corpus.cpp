// The stored corpora run through the fuzz targets: what a fuzzer found once stays found, without Clang. In a child process: a crash
// or a hang is a failure of one case, and what the HDF5 library loses in damaged files does not end up in the report of this program.
#include <algorithm>
#include <fstream>
#include <iterator>

#include "tests/cases/case.h"
#include "tests/cases/trace/child.h"
#include "tests/fuzz/fuzz.h"

using namespace slotscope::testing;
namespace fs = std::filesystem;

namespace {

std::string bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Runs every file of the target's corpus, and every beginning of it in steps of a seventh.
void run_corpus(Context& t, const std::string& name) {
  const auto& all = slotscope::fuzz::targets();
  const auto target = std::find_if(all.begin(), all.end(), [&](const auto& one) { return name == one.name; });
  CHECK(target != all.end());
  const fs::path folder = t.data("fuzz/corpus/" + name);
  if (!fs::exists(folder)) t.skip("the corpora lie in the source tree");
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  CHECK(!files.empty());
  SharedMemory done;
  const fs::path message = t.temp() / "message";
  Child child(
      [&] {
        for (const fs::path& file : files) {
          const std::string bytes = bytes_of(file);
          alarm(600);  // by the clock on the wall: a busy machine is no hang
          for (size_t part = 1; part <= 7; ++part)
            target->run({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size() * part / 7});
          done->value++;
        }
      },
      message.string());
  const int code = child.wait();
  if (code != 0)
    t.fail("exit " + std::to_string(code) + " in " + files[std::min(size_t(done->value), files.size() - 1)].filename().string() + " " +
               bytes_of(message),
           __FILE__, __LINE__);
  CHECK_EQ(size_t(done->value), files.size());
}

}  // namespace

SLOTSCOPE_CASE(safetensors) { run_corpus(t, "safetensors"); }
SLOTSCOPE_CASE(config) { run_corpus(t, "config"); }
SLOTSCOPE_CASE(pickle) { run_corpus(t, "pickle"); }
SLOTSCOPE_CASE(zip) { run_corpus(t, "zip"); }
SLOTSCOPE_CASE(torch) { run_corpus(t, "torch"); }
SLOTSCOPE_CASE(tokenizer) { run_corpus(t, "tokenizer"); }
SLOTSCOPE_CASE(trace) { run_corpus(t, "trace"); }
SLOTSCOPE_CASE(trace_bytes) { run_corpus(t, "trace_bytes"); }
SLOTSCOPE_CASE(trace_plain) { run_corpus(t, "trace_plain"); }

// A broken promise is a failure: the targets throw, and nothing swallows it.
SLOTSCOPE_CASE(a_finding_is_noticed) {
  bool thrown = false;
  try {
    slotscope::fuzz::require(false, "a promise");
  } catch (const slotscope::fuzz::Finding& finding) {
    thrown = std::string(finding.what()) == "a promise";
  }
  CHECK(thrown);
  slotscope::fuzz::require(true, "kept");
}
