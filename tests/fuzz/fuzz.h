// Fuzz targets: one function per reader of other people's files. Whatever the bytes are, a reader answers with a result or a
// slotscope::Error; anything else (another exception, a broken promise, a sanitizer's report, a long wait) is a finding.
// libfuzzer.cpp makes a program of each; cases/fuzz/fuzz_corpus.cpp runs them over the stored corpora.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace slotscope::fuzz {

using Bytes = std::span<const uint8_t>;

struct Target {
  const char* name;  // its corpus is tests/fuzz/corpus/<name>
  // Throws for a finding.
  void (*run)(Bytes input);
  // Repairs what a blind mutation breaks every time (a length field, say) and returns the new size, at most `most`; null when
  // nothing needs it.
  size_t (*repair)(uint8_t* data, size_t size, size_t most);
};
const std::vector<Target>& targets();

void run_safetensors(Bytes);
size_t repair_safetensors(uint8_t* data, size_t size, size_t most);
void run_config(Bytes);
void run_pickle(Bytes);
void run_zip(Bytes);
size_t repair_zip(uint8_t* data, size_t size, size_t most);
void run_torch(Bytes);
void run_tokenizer(Bytes);
void run_trace(Bytes);
void run_trace_bytes(Bytes);
void run_trace_plain(Bytes);

// A promise of the program that an input broke.
struct Finding : std::logic_error {
  using std::logic_error::logic_error;
};
void require(bool promise, const char* what);

// An empty folder of this process below TMPDIR, removed at a normal end.
const std::filesystem::path& scratch_folder();
void write_file(const std::filesystem::path& path, std::string_view bytes);
std::string read_file(const std::filesystem::path& path);
// tests/<relative> of the source tree.
std::filesystem::path tests_data(std::string_view relative);

inline std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Takes numbers and texts off the input; gives zeros once it is used up.
class Reader {
 public:
  explicit Reader(Bytes bytes) : bytes_(bytes) {}
  bool done() const { return bytes_.empty(); }
  uint8_t byte();
  uint64_t number(int bytes);
  // 0 to n - 1; n > 0.
  size_t below(size_t n) { return n <= 256 ? byte() % n : size_t(number(4) % n); }
  // A length byte (modulo `most` + 1), then that many bytes.
  std::string text(size_t most);

 private:
  Bytes bytes_;
};

}  // namespace slotscope::fuzz
