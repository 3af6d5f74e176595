// Sharded folders and what a folder may hold (bad-inputs B14, B15).
#include <sys/stat.h>

#include "core/error.h"
#include "core/formats/checkpoint.h"
#include "core/formats/values.h"
#include "tests/cases/case.h"
#include "tests/cases/formats/files.h"

using namespace slotscope::formats;
using namespace slotscope::testing;
using nlohmann::json;

namespace {

constexpr const char* kOne = "model-00001-of-00002.safetensors";
constexpr const char* kTwo = "model-00002-of-00002.safetensors";

// Two shards: a (1.0) and b in the first, c (2.0) in the second.
struct Folder {
  std::filesystem::path path;
  json index = {{"metadata", {{"total_size", 32}}}, {"weight_map", {{"a", kOne}, {"b", kOne}, {"c", kTwo}}}};

  explicit Folder(Context& t) : path(t.temp()) {
    write_file(path / kOne, zeros_file({{"a", {2}}, {"b", {2}}}, 1));
    write_file(path / kTwo, zeros_file({{"c", {4}}}, 2));
    write_file(path / "config.json", "{\"model_type\":\"raven\"}");
  }
  std::shared_ptr<const Checkpoint> open(OpenOptions options = {}) const {
    write_file(path / "model.safetensors.index.json", index.dump());
    return Checkpoint::open(path, options);
  }
};

bool any_has(const std::vector<std::string>& texts, std::string_view part) {
  for (const auto& text : texts)
    if (text.find(part) != std::string::npos) return true;
  return false;
}

}  // namespace

SLOTSCOPE_CASE(two_shards) {
  const Folder folder(t);
  const auto checkpoint = folder.open();
  CHECK_EQ(checkpoint->tensors().size(), size_t(3));
  CHECK_EQ(checkpoint->files().size(), size_t(2));
  CHECK_EQ(checkpoint->total_bytes(), uint64_t(32));
  CHECK_EQ(read_values(*checkpoint, *checkpoint->find("c"), 1, 2), (std::vector<double>{2, 2}));
  CHECK_EQ(read_values(*checkpoint, *checkpoint->find("b"), 0, 1), std::vector<double>{1});
  CHECK(checkpoint->notes().empty() && checkpoint->warnings().empty());
  CHECK_EQ(Checkpoint::open(folder.path / "model.safetensors.index.json")->tensors().size(), size_t(3));
  CHECK_EQ(Checkpoint::open(folder.path / kOne)->tensors().size(), size_t(2));  // one shard for itself
  CHECK(Checkpoint::open(folder.path / kOne)->config() != nullptr);
}

// B14: the missing files and how many tensors each holds; folders without weights.
SLOTSCOPE_CASE(missing_files) {
  const Folder folder(t);
  std::filesystem::remove(folder.path / kOne);
  CHECK_ERROR(folder.open(), "index.json", std::string(kOne) + " (2 tensors)", "1 of 2 files are missing");
  std::filesystem::remove(folder.path / kTwo);
  CHECK_ERROR(folder.open(), std::string(kTwo) + " (1 tensor)", "no safetensors file");
  std::filesystem::remove(folder.path / "model.safetensors.index.json");
  CHECK_ERROR(Checkpoint::open(folder.path), "config.json but no weights", "model.safetensors");
  const auto empty = t.temp();
  CHECK_ERROR(Checkpoint::open(empty), "no weights in this folder");
  write_file(empty / "pytorch_model.bin", "x");
  CHECK_ERROR(Checkpoint::open(empty), "pytorch_model.bin");
  CHECK_ERROR(Checkpoint::open(empty / "nowhere"), "nowhere", "does not exist");
  CHECK_ERROR(Checkpoint::open(folder.path / "config.json"), "config.json", "no weight file");
}

// B15: a stale index, and the explicit way round it.
SLOTSCOPE_CASE(stale_index) {
  Folder folder(t);
  folder.index["weight_map"]["a"] = "model-00001-of-00030.safetensors";
  CHECK_ERROR(folder.open(), "model-00001-of-00030.safetensors (1 tensor)", kOne,
              "ignore index and scan files");
  const auto scanned = folder.open({.ignore_index = true});
  CHECK_EQ(scanned->tensors().size(), size_t(3));
  CHECK(any_has(scanned->notes(), "index ignored"));
  folder.index["weight_map"]["a"] = kTwo;  // in the other shard
  CHECK_ERROR(folder.open(), "tensor 'a'", std::string("mapped to ") + kTwo, std::string("in ") + kOne);
  folder.index["weight_map"]["a"] = kOne;
  folder.index["weight_map"]["z"] = kTwo;  // in no shard
  CHECK_ERROR(folder.open(), "tensor 'z'", kTwo, "does not hold it");
  folder.index["weight_map"].erase("z");
  folder.index["metadata"]["total_size"] = 1;
  CHECK(any_has(folder.open()->notes(), "total_size in the index is 1, the tensors have 32 bytes"));
  folder.index.erase("metadata");
  CHECK(any_has(folder.open()->notes(), "no total_size"));
  folder.index["weight_map"].erase("c");
  folder.index["weight_map"]["c"] = kTwo;
  folder.index["weight_map"].erase("b");
  CHECK(any_has(folder.open()->warnings(), "1 tensors are in the files but not in the index"));
  write_file(folder.path / "model.safetensors.index.json",
             std::string("{\"weight_map\":{\"a\":\"") + kOne + "\",\"a\":\"" + kTwo + "\"}}");
  CHECK_ERROR(Checkpoint::open(folder.path), "index.json", "key 'weight_map.a' appears twice");
}

// A tensor in two shards: the index decides; without one it is refused with both files.
SLOTSCOPE_CASE(tensor_in_two_files) {
  Folder folder(t);
  write_file(folder.path / kTwo, zeros_file({{"a", {2}}, {"c", {4}}}, 2));
  const auto checkpoint = folder.open();
  CHECK_EQ(read_values(*checkpoint, *checkpoint->find("a"), 0, 2), (std::vector<double>{1, 1}));
  CHECK(any_has(checkpoint->warnings(), "tensor 'a' is in 2 files"));
  CHECK_ERROR(folder.open({.ignore_index = true}), "tensor 'a'", kOne, kTwo);
}

// Nothing outside the folder can be reached through the index, and broken indexes are named.
SLOTSCOPE_CASE(hostile_index) {
  Folder folder(t);
  for (const std::string name : {"../x.safetensors", "/etc/passwd", "a/b.safetensors", "..", ""}) {
    folder.index["weight_map"]["a"] = name;
    CHECK_ERROR(folder.open(), "weight_map", "file name");
  }
  folder.index["weight_map"]["a"] = 5;
  CHECK_ERROR(folder.open(), "weight_map", "tensor 'a'", "number");
  folder.index["weight_map"] = {"a"};
  CHECK_ERROR(folder.open(), "weight_map", "object");
  folder.index.erase("weight_map");
  CHECK_ERROR(folder.open(), "weight_map", "missing");
  folder.index = json::array();
  CHECK_ERROR(folder.open(), "weight_map");
  std::filesystem::remove(folder.path / "model.safetensors.index.json");
  CHECK_ERROR(Checkpoint::open(folder.path), "model.safetensors.index.json", "missing", kOne);
  std::filesystem::remove(folder.path / kTwo);
  CHECK_ERROR(Checkpoint::open(folder.path), "missing", kOne);  // one shard of two is no model
}

SLOTSCOPE_CASE(other_file_kinds) {
  const auto folder = t.temp();
  std::filesystem::create_directory(folder / "model.safetensors");
  CHECK_ERROR(Checkpoint::open(folder), "not a regular file");
  std::filesystem::remove(folder / "model.safetensors");
  // A pipe must not make the program wait for a writer.
  if (::mkfifo((folder / "model.safetensors").c_str(), 0600) == 0)
    CHECK_ERROR(Checkpoint::open(folder), "not a regular file");
  std::filesystem::remove(folder / "model.safetensors");
  write_file(folder / "weights.safetensors", zeros_file({{"w", {1}}}));
  CHECK(any_has(Checkpoint::open(folder)->notes(), "weights read from weights.safetensors"));
  std::filesystem::create_symlink(folder / "weights.safetensors", folder / "model.safetensors");
  CHECK_EQ(Checkpoint::open(folder)->tensors().size(), size_t(1));
}
