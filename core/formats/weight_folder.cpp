// Which files of a folder are the weights.
#include <algorithm>

#include "core/error.h"
#include "core/formats/mapped_file.h"
#include "core/formats/sharded.h"
#include "core/formats/torch_file.h"

namespace slotscope::formats {
namespace {

namespace fs = std::filesystem;

// What is not weights although its name ends like them; null for everything else.
const char* training_state(const std::string& name) {
  const auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  if (name == "training_args.bin") return "settings of the training run";
  if (has("optimizer") || has("optim_states")) return "optimiser state";
  if (name.starts_with("scheduler")) return "scheduler state";
  if (name.starts_with("scaler")) return "loss scaler state";
  if (name.starts_with("rng_state") || name.starts_with("random_states"))
    return "state of random number generators";
  return nullptr;
}
bool has_torch_extension(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".bin" || extension == ".pt" || extension == ".pth" || extension == ".ckpt";
}

// The first bytes decide: many things are called .bin.
bool is_torch_file(const fs::path& path) {
  try {
    const std::string head = MappedFile(path).read(0, 512);
    return looks_like_zip(head) || looks_like_torch_legacy(head) || looks_like_torch_tar(head);
  } catch (const Error&) {
    return false;
  }
}

struct Listing {
  std::vector<fs::path> safetensors;
  std::vector<fs::path> torch;  // that may hold weights, by name
  std::vector<fs::path> state;  // of training
  bool distributed = false;     // .metadata and pieces __0_0.distcp
  bool zero = false;            // zero_to_fp32.py: a DeepSpeed folder
};

Listing list_folder(const fs::path& folder) {
  Listing found;
  bool metadata = false, pieces = false;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const fs::path& path = entry->path();
    const std::string name = path.filename().string();
    std::error_code ignored;
    metadata |= name == ".metadata";
    pieces |= path.extension() == ".distcp";
    found.zero |= name == "zero_to_fp32.py";
    if (fs::is_directory(path, ignored)) continue;
    if (path.extension() == ".safetensors") found.safetensors.push_back(path);
    if (has_torch_extension(path)) (training_state(name) ? found.state : found.torch).push_back(path);
  }
  if (error)
    throw Error(
        {folder.string(), "", "the folder cannot be listed: " + error.message(), "a readable folder", ""});
  found.distributed = metadata && pieces;
  for (auto* list : {&found.safetensors, &found.torch, &found.state}) std::sort(list->begin(), list->end());
  return found;
}

std::string joined(const std::vector<fs::path>& paths, size_t limit = 8) {
  std::string text;
  for (size_t i = 0; i < paths.size() && i < limit; ++i)
    text += (i ? ", " : "") + paths[i].filename().string();
  if (paths.size() > limit) text += " and " + std::to_string(paths.size() - limit) + " more";
  return text;
}

[[noreturn]] void no_weights(const fs::path& folder, const Listing& listing) {
  constexpr const char* kExpected = "model.safetensors, pytorch_model.bin or an index of several files";
  if (listing.distributed)
    throw Error({folder.string(), "", "a distributed checkpoint (.metadata and pieces __0_0.distcp)",
                 kExpected,
                 "Convert it: torch.distributed.checkpoint.format_utils.dcp_to_torch_save(\"" +
                     folder.filename().string() + "\", \"pytorch_model.bin\")."});
  if (listing.zero)
    throw Error({folder.string(), "", "pieces of a DeepSpeed ZeRO run", kExpected,
                 "Run the zero_to_fp32.py of this folder: it writes pytorch_model.bin."});
  std::error_code ignored;
  const bool config = fs::exists(folder / "config.json", ignored);
  const std::string state = listing.state.empty() ? "" : " (" + joined(listing.state) + " is training state)";
  throw Error({folder.string(), "",
               (config ? "config.json but no weights" : "no weights in this folder") + state, kExpected,
               "Choose a folder with a downloaded checkpoint."});
}

// "model-00001-of-00015": one of several files.
bool is_shard_name(const std::string& stem) {
  const auto of = stem.rfind("-of-");
  if (of == std::string::npos || of == 0 || of + 4 == stem.size()) return false;
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return std::all_of(stem.begin() + long(of) + 4, stem.end(), digit) && digit(stem[of - 1]);
}

[[noreturn]] void no_index(const fs::path& folder, const std::vector<fs::path>& files, const char* index) {
  throw Error({folder.string(), index, "missing; the folder holds " + joined(files),
               "an index for weights in several files",
               "Download the index, or open with \"ignore index and scan files\" (--ignore-index)."});
}

std::vector<fs::path> torch_files(const Listing& listing) {
  std::vector<fs::path> usual, others;
  for (const fs::path& path : listing.torch)
    if (path.filename().string().starts_with("pytorch_model"))
      usual.push_back(path);
    else if (is_torch_file(path))
      others.push_back(path);
  return usual.empty() ? others : usual;
}

void add_ignored(const Listing& listing, WeightFiles& found) {
  const bool safetensors = !found.files.empty() && found.files[0].extension() == ".safetensors";
  const auto add = [&](const fs::path& path, const char* why) {
    if (std::find(found.files.begin(), found.files.end(), path) != found.files.end()) return;
    std::error_code ignored;
    const uint64_t bytes = fs::file_size(path, ignored);
    found.ignored.push_back({path.filename().string(), why, ignored ? 0 : bytes});
  };
  for (const auto& path : listing.safetensors) add(path, "not one of the files of this model");
  for (const auto& path : listing.torch)
    add(path, safetensors ? "the safetensors files are read" : "not one of the files of this model");
  for (const auto& path : listing.state) add(path, training_state(path.filename().string()));
}

WeightFiles choose(const fs::path& folder, const Listing& listing, const OpenOptions& options) {
  std::error_code ignored;
  WeightFiles found;
  if (options.ignore_index) {
    const bool safetensors = !listing.safetensors.empty();
    found.files = safetensors ? listing.safetensors : torch_files(listing);
    if (found.files.empty()) no_weights(folder, listing);
    found.notes.push_back("index ignored: " + std::to_string(found.files.size()) +
                          (safetensors ? " safetensors files scanned" : " torch.save files scanned"));
    return found;
  }
  const fs::path single = folder / "model.safetensors", index = folder / "model.safetensors.index.json";
  if (fs::exists(single, ignored)) {
    found.files = {single};
    if (fs::exists(index, ignored))
      found.notes.push_back("model.safetensors is used; model.safetensors.index.json is ignored");
    return found;
  }
  if (fs::exists(index, ignored)) return read_index(index);
  found.files = listing.safetensors;
  if (!found.files.empty()) {
    if (found.files.size() > 1 || is_shard_name(found.files[0].stem().string()))
      no_index(folder, found.files, "model.safetensors.index.json");
    found.notes.push_back("weights read from " + found.files[0].filename().string());
    return found;
  }
  const fs::path torch = folder / "pytorch_model.bin", torch_index = folder / "pytorch_model.bin.index.json";
  if (fs::exists(torch, ignored)) {
    found.files = {torch};
    if (fs::exists(torch_index, ignored))
      found.notes.push_back("pytorch_model.bin is used; pytorch_model.bin.index.json is ignored");
    return found;
  }
  if (fs::exists(torch_index, ignored)) return read_index(torch_index);
  if (listing.zero) no_weights(folder, listing);
  found.files = torch_files(listing);
  if (found.files.empty()) no_weights(folder, listing);
  if (is_shard_name(found.files[0].stem().string()))
    no_index(folder, found.files, "pytorch_model.bin.index.json");
  if (found.files.size() > 1)
    throw Error({folder.string(), "",
                 std::to_string(found.files.size()) + " torch.save files: " + joined(found.files),
                 "one, or pytorch_model.bin", "Open the one that you mean."});
  found.notes.push_back("weights read from " + found.files[0].filename().string());
  return found;
}

}  // namespace

WeightFiles find_weight_files(const fs::path& folder, const OpenOptions& options) {
  const Listing listing = list_folder(folder);
  WeightFiles found = choose(folder, listing, options);
  add_ignored(listing, found);
  return found;
}

std::string weight_files_text(const fs::path& folder, bool safetensors) {
  const Listing listing = list_folder(folder);
  const auto& files = safetensors ? listing.safetensors : listing.torch;
  if (files.empty()) return safetensors ? "no safetensors file" : "no torch.save file";
  return joined(files);
}

}  // namespace slotscope::formats
