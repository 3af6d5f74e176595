// A Raven model of 22 GB that could run, but for its weights: they are a hole behind the header of the weight file.
#pragma once

#include <cstring>
#include <map>
#include <optional>

#include "tests/cases/cli_checks.h"
#include "tests/cases/read_pages.h"

namespace slotscope::testing {

struct WideModel {
  fs::path path, file;
  uint64_t header = 0, size = 0;
  size_t tensors = 0;
};

// In `path`: names, shapes and config of the bundled checkpoint, 32 times as wide and with three times the layers. Empty where
// the file system cannot hold a sparse file.
inline std::optional<WideModel> wide_model(const fs::path& bundled, const fs::path& path) {
  const std::string bytes = file_bytes(bundled / "model.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  json small = json::parse(bytes.substr(8, length)), large = json::object();
  small.erase("__metadata__");
  // hidden size (and heads x slots), head size (and slots), width of the MLP: 256 ceil(int(8192 x 4 x 2 / 3) / 256)
  const std::map<int64_t, int64_t> wider = {{256, 8192}, {64, 2048}, {768, 22016}};
  uint64_t at = 0;
  const std::string layers = "model.layers.";
  for (const auto& [name, entry] : small.items())
    for (int copy = 0; copy < (name.starts_with(layers) ? 3 : 1); ++copy) {
      std::string own = name;
      if (name.starts_with(layers)) own.replace(layers.size(), 1, std::to_string(name[layers.size()] - '0' + 4 * copy));
      std::vector<int64_t> shape = entry["shape"];
      uint64_t size = entry["dtype"] == "BF16" ? 2 : 4;
      for (int64_t& n : shape) {
        if (wider.contains(n)) n = wider.at(n);
        size *= uint64_t(n);
      }
      large[own] = {{"dtype", entry["dtype"]}, {"shape", shape}, {"data_offsets", {at, at + size}}};
      at += size;
    }
  std::string head = large.dump();
  head.resize((head.size() + 7) / 8 * 8, ' ');
  const uint64_t n = head.size();
  head.insert(0, reinterpret_cast<const char*>(&n), 8);
  WideModel folder{path, path / "model.safetensors", head.size(), head.size() + at, large.size()};
  json config = json::parse(file_bytes(bundled / "config.json"));
  config.update({{"hidden_size", 8192}, {"num_slots", 2048}, {"num_hidden_layers", 12}});
  write_file(folder.path / "config.json", config.dump());
  if (!make_sparse(folder.file, head, folder.size)) return std::nullopt;
  return folder;
}

}  // namespace slotscope::testing
