// Loading: the file's pages are given back piece by piece, so that there is one copy of the weights in memory; progress counts
// the stored bytes; a cancel stops between pieces.
#include <chrono>
#include <thread>

#include "tests/cases/fixtures.h"
#include "tests/cases/engine/helpers.h"
#include "tests/cases/engine/hf_twin.h"

using namespace slotscope;
using namespace slotscope::testing;

namespace {

constexpr int64_t kMiB = int64_t(1) << 20;

// A number of /proc/self/status in bytes; -1 where there is none.
int64_t status_bytes(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key + ":")) return std::stoll(line.substr(key.size() + 1)) * 1024;
  return -1;
}

// A llama whose embedding is a hole of `rows` x 1024 bfloat16 zeros in the file: 2 KiB a row.
void write_large(const std::filesystem::path& folder, int64_t rows) {
  TinyCheckpoint c = made_hf("llama", {{"hidden_size", 1024}, {"num_hidden_layers", 1}, {"tie_word_embeddings", true}});
  std::filesystem::create_directories(folder);
  c.config["vocab_size"] = rows;
  std::ofstream(folder / "config.json") << c.config.dump();
  c.tensors["model.embed_tokens.weight"] = {{rows, 1024}, {}};
  nlohmann::json header;
  int64_t at = 0;
  for (const auto& [name, tensor] : c.tensors) {
    int64_t bytes = 2;
    for (const int64_t n : tensor.shape) bytes *= n;
    header[name] = {{"dtype", "BF16"}, {"shape", tensor.shape}, {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  std::ofstream file(folder / "model.safetensors", std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), 8);
  file << text;
  file.close();
  std::filesystem::resize_file(folder / "model.safetensors", 8 + text.size() + uint64_t(at));
}

}  // namespace

SLOTSCOPE_CASE(one_copy_in_memory) {
  if (status_bytes("RssFile") < 0) t.skip("no /proc/self/status");
  const auto folder = t.temp();
  write_large(folder, 128 * 1024);  // 256 MiB
  const auto checkpoint = formats::Checkpoint::open(folder);
  {
    const auto small = t.temp();
    made_hf("llama").write(small);
    run_ids(*load_model(small, "float32", t.device()), {1, 2}, capture("logits"));  // what the library keeps for itself
  }
  const int64_t file_before = status_bytes("RssFile"), before = status_bytes("VmRSS");
  std::ofstream("/proc/self/clear_refs") << "5";  // resets the peak
  Progress progress;
  std::unique_ptr<engine::Model> model;
  model = engine::Model::load(checkpoint, {.device = t.device(), .dtype = "float32"}, progress);
  const int64_t stored = int64_t(checkpoint->total_bytes()), weights = t.device() == "cpu" ? 2 * stored : 0;
  const int64_t file = status_bytes("RssFile") - file_before, peak = status_bytes("VmHWM") - before;
  t.note(std::to_string(stored / kMiB) + " MiB stored; beside the weights the peak is " +
         std::to_string((peak - weights) / kMiB) + " MiB, afterwards " + std::to_string(file / kMiB) + " MiB of the file");
  CHECK(stored > 256 * kMiB);
  CHECK(file < 16 * kMiB);
  CHECK(peak - weights < 96 * kMiB);
  CHECK_EQ(progress.snapshot().stage, std::string("loading weights"));
  CHECK_EQ(progress.snapshot().done, stored);
  CHECK_EQ(progress.snapshot().total, stored);
}

// LLaMA 7B in bfloat16: three shards of up to 5 GB, holes in the files. Listing reads the headers alone.
SLOTSCOPE_CASE(seven_billion_parameters_are_listed) {
  const auto folder = t.temp();
  run_fixture_script(t, {folder.string(), "--sparse"}, "make_llama.py");
  const auto start = std::chrono::steady_clock::now();
  const auto checkpoint = formats::Checkpoint::open(folder);
  const auto info = engine::inspect(*checkpoint);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  t.note("opened and inspected in " + sci(seconds) + " s");
  CHECK_EQ(info.parameters, int64_t(6'738'415'616));
  CHECK_EQ(checkpoint->files().size(), size_t(3));
  CHECK(seconds < 1);
}

SLOTSCOPE_CASE(made_llama_runs) {
  const auto folder = t.temp();
  run_fixture_script(t, {folder.string(), "--size", "tiny", "--shard-bytes", "40000"}, "make_llama.py");
  const auto logits = run_ids(*load_model(folder, "float32", t.device()), some_ids(20, 97), capture("logits"))->values("output/logits");
  CHECK(largest(logits) > 0 && std::isfinite(largest(logits)));
  CHECK(formats::Checkpoint::open(folder)->files().size() > 2);
}

// The parts of gpt_neox's fused tensors count once together.
SLOTSCOPE_CASE(progress_of_fused_tensors) {
  const auto folder = t.temp();
  made_hf("gpt_neox").write(folder);
  const auto checkpoint = formats::Checkpoint::open(folder);
  Progress progress;
  engine::Model::load(checkpoint, {.device = t.device()}, progress);
  CHECK_EQ(progress.snapshot().done, int64_t(checkpoint->total_bytes()));
}

SLOTSCOPE_CASE(cancelled_between_pieces) {
  const auto folder = t.temp();
  write_large(folder, 128 * 1024);
  const auto checkpoint = formats::Checkpoint::open(folder);
  Progress progress;
  std::thread watcher([&] {
    while (progress.snapshot().done == 0 && !progress.cancel_requested()) std::this_thread::yield();
    progress.request_cancel();
  });
  std::string message;
  try {
    engine::Model::load(checkpoint, {.device = t.device()}, progress);
  } catch (const Error& e) {
    message = e.what();
  }
  progress.request_cancel();
  watcher.join();
  CHECK(message.find("cancelled") != std::string::npos);
  CHECK(progress.snapshot().done < int64_t(checkpoint->total_bytes()));
}

// A header of odd length puts every tensor between element boundaries.
SLOTSCOPE_CASE(bytes_between_element_boundaries) {
  const auto folder = t.temp(), shifted = t.temp();
  made_hf("gpt_neox").write(folder);
  std::filesystem::create_directories(shifted);
  std::filesystem::copy(folder / "config.json", shifted / "config.json");
  std::ifstream in(folder / "model.safetensors", std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(in)), {});
  uint64_t length = 0;
  std::memcpy(&length, all.data(), 8);
  const uint64_t longer = length + 3;
  std::ofstream out(shifted / "model.safetensors", std::ios::binary);
  out.write(reinterpret_cast<const char*>(&longer), 8);
  out << all.substr(8, length) << "   " << all.substr(8 + length);
  out.close();
  const auto logits = [&](const std::filesystem::path& from) {
    return run_ids(*load_model(from, "float64", t.device()), {1, 2, 3}, capture("logits"))->values("output/logits");
  };
  CHECK_EQ(logits(shifted), logits(folder));
}

// float8 goes through double in steps; here with the values of the float32 file, which float8 has too.
SLOTSCOPE_CASE(float8_weights) {
  const std::string name = "model.layers.1.mlp.down_proj.weight";
  TinyCheckpoint c = made_hf("llama");
  const std::pair<float, char> pairs[] = {{0.25f, 0x28}, {0.5f, 0x30}, {-1.0f, char(0xb8)}, {-0.5f, char(0xb0)}};
  std::string bytes;
  TinyTensor& tensor = c.tensors.at(name);
  for (size_t i = 0; i < tensor.values.size(); ++i) {
    const auto& [value, byte] = pairs[(i * i + i / 7) % 4];
    tensor.values[i] = value;
    bytes += byte;
  }
  const auto plain = t.temp(), small = t.temp();
  c.write(plain);
  // One file more, with that tensor alone, in place of the one in the first.
  const std::vector<int64_t> shape = tensor.shape;
  c.tensors.erase(name);
  c.write(small);
  std::filesystem::rename(small / "model.safetensors", small / "model-00001-of-00002.safetensors");
  const nlohmann::json header = {{name, {{"dtype", "F8_E4M3"}, {"shape", shape}, {"data_offsets", {0, bytes.size()}}}}};
  const std::string text = header.dump();
  const uint64_t length = text.size();
  std::ofstream file(small / "model-00002-of-00002.safetensors", std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), 8);
  file << text << bytes;
  file.close();
  nlohmann::json map = {{name, "model-00002-of-00002.safetensors"}};
  for (const auto& [other, values] : c.tensors) map[other] = "model-00001-of-00002.safetensors";
  std::ofstream(small / "model.safetensors.index.json") << nlohmann::json({{"weight_map", map}}).dump();
  const auto logits = [&](const std::filesystem::path& from) {
    return run_ids(*load_model(from, "float64", t.device()), {1, 2, 3}, capture("logits"))->values("output/logits");
  };
  CHECK_EQ(logits(small), logits(plain));
}
