// slotscope-cli info on a model of 20 GB reads its headers and no more: a Raven folder whose weight file is a hole behind the
// header, and what of it is in memory after the program has ended.
#include <cstring>
#include <map>

#include "tests/cases/cli_checks.h"
#include "tests/cases/read_pages.h"

namespace slotscope::testing {
namespace {

struct Folder {
  fs::path path, file;
  uint64_t header = 0, size = 0;
  size_t tensors = 0;
};

// The bundled checkpoint 32 times as wide and with three times the layers: names, shapes and config of a model that could run.
Folder wide_model(Context& t) {
  const std::string bytes = file_bytes(fs::path(bundled(t)) / "model.safetensors");
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
  Folder folder{t.temp(), {}, head.size(), head.size() + at, large.size()};
  folder.file = folder.path / "model.safetensors";
  json config = json::parse(file_bytes(fs::path(bundled(t)) / "config.json"));
  config.update({{"hidden_size", 8192}, {"num_slots", 2048}, {"num_hidden_layers", 12}});
  write_file(folder.path / "config.json", config.dump());
  if (!make_sparse(folder.file, head, folder.size)) t.skip("this file system cannot hold a sparse file of 20 GB");
  return folder;
}

}  // namespace

SLOTSCOPE_CASE(info_of_20_gb_reads_headers) {
  const Folder folder = wide_model(t);
  CHECK(folder.size > 19'000'000'000);
  for (const Words& more : {Words{}, Words{"--json"}, Words{"--json", "--tensors"}}) {
    Words words = {"info", folder.path.string()};
    words.insert(words.end(), more.begin(), more.end());
    const Child c = run_cli(words);
    EXPECT_CODE(c, 0, "info");
    if (more.empty()) continue;
    const json d = document(c);
    CHECK_EQ(d["runnable"].get<bool>(), true);
    if (!d["runnable"].get<bool>()) t.note(d["why_not_runnable"].get<std::string>());
    CHECK_EQ(d["tensor_count"].get<size_t>(), folder.tensors);
    CHECK_EQ(d["bytes"].get<uint64_t>(), folder.size - folder.header);
  }
  const auto touched = bytes_in_memory(folder.file);
  if (!touched) t.skip("the system does not say what is in memory");
  CHECK(*touched >= folder.header);
  CHECK(*touched <= folder.header + (1 << 20));
  t.note(std::to_string(folder.size) + " bytes, header " + std::to_string(folder.header) + ": " + std::to_string(*touched) +
         " bytes of the file in memory after info, info --json and info --json --tensors");
  // The measure sees a tensor that is read: one of 134 MB of zeros.
  const Child read = run_cli({"info", folder.path.string(), "--tensor", "model.layers.11.attn.q_proj.weight", "--json"});
  EXPECT_CODE(read, 0, "info --tensor");
  CHECK_EQ(document(read)["statistics"]["zeros"].get<uint64_t>(), uint64_t(8192 * 8192));
  CHECK(bytes_in_memory(folder.file).value() >= *touched + 8192 * 8192 * 2);
}

}  // namespace slotscope::testing
