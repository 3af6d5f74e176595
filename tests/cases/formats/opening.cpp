// Opening reads headers and nothing else, measured on files of 20 GB that are holes behind their headers.
#include "core/error.h"
#include "core/formats/checkpoint.h"
#include "core/formats/tensor_statistics.h"
#include "core/formats/values.h"
#include "tests/cases/case.h"
#include "tests/cases/fixtures.h"
#include "tests/cases/formats/files.h"
#include "tests/cases/read_pages.h"

using namespace slotscope::formats;
using namespace slotscope::testing;

namespace {

namespace fs = std::filesystem;
constexpr uint64_t kSize = 20'000'000'000;
// One touch of a mapped page brings in its neighbours: the system reads ahead by up to 128 KiB, or more where it was told so.
constexpr uint64_t kReadAhead = 1 << 20;

// `count` BF16 tensors that fill `size` bytes, as a safetensors file that is a hole behind its header; returns the header's size.
uint64_t sparse_safetensors(Context& t, const fs::path& path, const std::string& prefix, int count, uint64_t size) {
  const uint64_t rows = size / uint64_t(count) / 8192;
  std::string header = "{\"__metadata__\":{\"format\":\"pt\"}";
  for (int i = 0; i < count; ++i)
    header += ",\"" + prefix + std::to_string(i) + ".weight\":" +
              entry("BF16", "[" + std::to_string(rows) + ",4096]", uint64_t(i) * rows * 8192, uint64_t(i + 1) * rows * 8192);
  const std::string head = safetensors(header + "}");
  if (!make_sparse(path, head, head.size() + uint64_t(count) * rows * 8192))
    t.skip("this file system cannot hold a sparse file of " + std::to_string(size) + " bytes");
  return head.size();
}

struct Measured {
  std::shared_ptr<const Checkpoint> checkpoint;
  uint64_t read = 0;       // with system calls
  uint64_t in_memory = 0;  // of the weight files, afterwards
};

// Opens `path` and asks for all that can be listed.
Measured measure(Context& t, const fs::path& path, const std::vector<fs::path>& files) {
  Measured m;
  const auto before = bytes_read();
  m.checkpoint = Checkpoint::open(path);
  uint64_t listed = tensor_digest(*m.checkpoint).size() + m.checkpoint->metadata().size();
  for (const TensorInfo& tensor : m.checkpoint->tensors()) listed += tensor.bytes;
  const auto after = bytes_read();
  if (!before || !after) t.skip("the system does not say how much was read");
  m.read = *after - *before;
  for (const fs::path& file : files) {
    const auto bytes = bytes_in_memory(file);
    if (!bytes) t.skip("the system does not say what is in memory");
    m.in_memory += *bytes;
  }
  CHECK(listed > kSize * 99 / 100);
  return m;
}

// Reading a value in the middle is seen by the measure: it would have seen opening read as much.
void check_measure_sees_reads(Context& t, const Measured& m, const std::string& name, const fs::path& file) {
  const TensorInfo* tensor = m.checkpoint->find(name);
  CHECK(tensor != nullptr);
  if (!tensor) return;
  const uint64_t before = bytes_in_memory(file).value();
  CHECK_EQ(read_values(*m.checkpoint, *tensor, element_count(*tensor) / 2, 2), (std::vector<double>{0, 0}));
  CHECK(bytes_in_memory(file).value() > before);
}

// `slack`: config.json, the folder, what the first look at a file takes.
void check_headers_only(Context& t, const Measured& m, uint64_t headers, const std::string& what, uint64_t slack = 65536) {
  CHECK(m.read >= headers);
  CHECK(m.read <= headers + slack);
  CHECK(m.in_memory <= headers + kReadAhead);
  t.note(what + ": " + std::to_string(m.read) + " bytes read for headers of " + std::to_string(headers) + ", " +
         std::to_string(m.in_memory) + " bytes of the files in memory");
}

}  // namespace

SLOTSCOPE_CASE(safetensors_of_20_gb) {
  const auto folder = t.temp();
  write_file(folder / "config.json", "{\"model_type\":\"none\"}");
  const fs::path file = folder / "model.safetensors";
  const uint64_t header = sparse_safetensors(t, file, "layers.", 200, kSize);
  const Measured m = measure(t, folder, {file});
  check_headers_only(t, m, header, "one file");
  check_measure_sees_reads(t, m, "layers.100.weight", file);
}

SLOTSCOPE_CASE(shards_of_20_gb) {
  const auto folder = t.temp();
  std::string map;
  std::vector<fs::path> files;
  uint64_t headers = 0;
  for (int shard = 0; shard < 4; ++shard) {
    const std::string name = "model-0000" + std::to_string(shard + 1) + "-of-00004.safetensors";
    const std::string prefix = "layers." + std::to_string(shard) + ".";
    files.push_back(folder / name);
    headers += sparse_safetensors(t, files.back(), prefix, 50, kSize / 4);
    for (int i = 0; i < 50; ++i) map += (map.empty() ? "\"" : ",\"") + prefix + std::to_string(i) + ".weight\":\"" + name + "\"";
  }
  const std::string index = "{\"metadata\":{},\"weight_map\":{" + map + "}}";
  write_file(folder / "model.safetensors.index.json", index);
  const Measured m = measure(t, folder, files);
  check_headers_only(t, m, headers + index.size(), "four shards");
  check_measure_sees_reads(t, m, "layers.2.20.weight", files[2]);
}

// A look at a few values reads these, not the storage for its checksum; a torch.save file whose one storage has 20 GB (zip64): the directory at its end and the pickle at its start are read.
SLOTSCOPE_CASE(torch_zip_of_20_gb) {
  const auto folder = t.temp();
  const fs::path file = folder / "bin" / "pytorch_model.bin";
  run_fixture_script(t, {"--sparse", std::to_string(kSize), folder.string()});
  const Measured m = measure(t, folder / "bin", {file});
  CHECK_SAME(m.checkpoint->format(), FileFormat::torch_zip);
  check_headers_only(t, m, 700, "torch.save file", 2 * 65536);  // the end record may stand 64 KiB before the end
  CHECK_EQ(read_values(*m.checkpoint, *m.checkpoint->find("last"), 0, 1), std::vector<double>{3});
  CHECK_EQ(read_values(*m.checkpoint, *m.checkpoint->find("hole"), kSize - 2, 2), (std::vector<double>{0, 0}));
  check_measure_sees_reads(t, m, "hole", file);
  // Three places of the storage and one of its neighbour were looked at; the system read ahead at each, but no gigabytes.
  CHECK(bytes_in_memory(file).value() <= 64 << 20);
  t.note(std::to_string(bytes_in_memory(file).value()) + " bytes in memory after a look at three places");
}

// A large storage with a wrong byte: a few of its values are shown, and whatever reads all of it says that it is damaged.
SLOTSCOPE_CASE(damage_in_a_large_storage) {
  const auto folder = t.temp();
  const uint64_t size = 80 << 20;
  run_fixture_script(t, {"--sparse", std::to_string(size), folder.string()});
  const fs::path file = folder / "bin" / "pytorch_model.bin";
  {
    std::fstream out(file, std::ios::binary | std::ios::in | std::ios::out);
    out.seekp(int64_t(size / 2));
    out.put('\1');
  }
  const auto checkpoint = Checkpoint::open(folder / "bin");
  const TensorInfo& hole = *checkpoint->find("hole");
  CHECK_EQ(read_values(*checkpoint, hole, 5, 2), (std::vector<double>{0, 0}));
  CHECK_ERROR(checkpoint->data(hole), "pytorch_model.bin", "checksum");
  CHECK_ERROR(tensor_statistics(*checkpoint, hole), "pytorch_model.bin", "checksum");
}
