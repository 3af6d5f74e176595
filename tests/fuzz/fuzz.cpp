#include "tests/fuzz/fuzz.h"

#include <cstdlib>
#include <fstream>
#include <system_error>

namespace slotscope::fuzz {

const std::vector<Target>& targets() {
  static const std::vector<Target> list{
      {"safetensors", run_safetensors, repair_safetensors},
      {"config", run_config, nullptr},
      {"pickle", run_pickle, nullptr},
      {"zip", run_zip, repair_zip},
      {"torch", run_torch, repair_zip},
      {"tokenizer", run_tokenizer, nullptr},
      {"trace", run_trace, nullptr},
      {"trace_bytes", run_trace_bytes, nullptr},
      {"trace_plain", run_trace_plain, nullptr},
  };
  return list;
}

void require(bool promise, const char* what) {
  if (!promise) throw Finding(what);
}

const std::filesystem::path& scratch_folder() {
  struct Folder {
    std::filesystem::path path;
    Folder() {
      std::string pattern = (std::filesystem::temp_directory_path() / "slotscope-fuzz-XXXXXX").string();
      if (!mkdtemp(pattern.data())) throw std::runtime_error("cannot make a temporary folder " + pattern);
      path = pattern;
    }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  };
  static const Folder folder;
  return folder.path;
}

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), std::streamsize(bytes.size()));
  out.close();
  if (!out) throw std::runtime_error("cannot write " + path.string());
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

std::filesystem::path tests_data(std::string_view relative) {
  return std::filesystem::path(SLOTSCOPE_SOURCE_DIR) / "tests" / relative;
}

uint8_t Reader::byte() {
  if (bytes_.empty()) return 0;
  const uint8_t value = bytes_[0];
  bytes_ = bytes_.subspan(1);
  return value;
}

uint64_t Reader::number(int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) value |= uint64_t(byte()) << (8 * i);
  return value;
}

std::string Reader::text(size_t most) {
  const size_t wanted = byte() % (most + 1);
  std::string value;
  while (value.size() < wanted && !done()) value.push_back(char(byte()));
  return value;
}

}  // namespace slotscope::fuzz
