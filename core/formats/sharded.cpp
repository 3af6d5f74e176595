#include "core/formats/sharded.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "core/error.h"
#include "core/formats/config.h"
#include "core/formats/json.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {
namespace {

namespace fs = std::filesystem;
constexpr uint64_t kMaxIndexBytes = 512ull << 20;

std::string joined(const std::vector<std::string>& names, size_t limit = 8) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < limit; ++i) text += (i ? ", " : "") + names[i];
  if (names.size() > limit) text += " and " + std::to_string(names.size() - limit) + " more";
  return text;
}

// A shard is a plain file beside the index: a path would let an index file reach any file of the machine.
bool plain_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

}  // namespace

WeightFiles read_index(const fs::path& index) {
  const nlohmann::json root =
      parse_json(read_text_file(index, kMaxIndexBytes), {.file = index.string(), .nonfinite = true});
  const auto refuse = [&](std::string item, std::string found, std::string expected,
                          std::string advice = "") {
    throw Error({index.string(), std::move(item), std::move(found), std::move(expected), std::move(advice)});
  };
  if (!root.is_object() || !root.contains("weight_map") || !root["weight_map"].is_object())
    refuse("weight_map", root.is_object() && root.contains("weight_map") ? "no object" : "missing",
           "an object of tensor: file");
  WeightFiles found;
  found.index = index;
  std::map<std::string, std::vector<const std::string*>> by_file;  // sorted: the same order on every machine
  for (const auto& [name, file] : root["weight_map"].items()) {
    if (!file.is_string())
      refuse("weight_map", "tensor '" + printable(name) + "' has " + file.type_name(), "a file name");
    by_file[file.get<std::string>()].push_back(&name);
  }
  std::vector<std::string> missing;
  for (const auto& [file, tensors] : by_file) {
    if (!plain_file_name(file))
      refuse("weight_map", "file name '" + printable(file) + "'", "the name of a file beside the index");
    for (const auto* name : tensors) found.weight_map.emplace(*name, int(found.files.size()));
    found.files.push_back(index.parent_path() / file);
    std::error_code ignored;
    if (!fs::exists(found.files.back(), ignored))
      missing.push_back(file + " (" + std::to_string(tensors.size()) +
                        (tensors.size() == 1 ? " tensor)" : " tensors)"));
  }
  if (!missing.empty())
    refuse("",
           std::to_string(missing.size()) + " of " + std::to_string(by_file.size()) +
               " files are missing: " + joined(missing, 40) + "; the folder holds " +
               weight_files_text(index.parent_path(), by_file.begin()->first.ends_with(".safetensors")),
           "every file of the index",
           "Download them, or open with \"ignore index and scan files\" (--ignore-index) if the index is "
           "stale.");
  const auto metadata = root.find("metadata");
  if (metadata != root.end() && metadata->is_object() && metadata->contains("total_size") &&
      (*metadata)["total_size"].is_number()) {
    found.has_total_size = true;
    found.total_size = (*metadata)["total_size"].get<double>();
  }
  return found;
}

std::vector<TensorInfo> merge_tensors(const WeightFiles& found, std::vector<TensorInfo> listed,
                                      std::vector<std::string>& notes, std::vector<std::string>& warnings) {
  const auto file_name = [&](int file) { return found.files[size_t(file)].filename().string(); };
  std::sort(listed.begin(), listed.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.name, a.file) < std::tie(b.name, b.file);
  });
  const bool indexed = !found.index.empty();
  std::vector<TensorInfo> kept;
  kept.reserve(listed.size());
  uint64_t bytes = 0;
  size_t unmapped = 0, mapped = 0;
  std::unordered_set<int64_t> storages;  // writers of an index count tied tensors once
  for (size_t i = 0; i < listed.size();) {
    size_t end = i + 1;
    while (end < listed.size() && listed[end].name == listed[i].name) ++end;
    const auto entry = indexed ? found.weight_map.find(listed[i].name) : found.weight_map.end();
    size_t chosen = i;
    if (entry != found.weight_map.end()) {
      while (chosen < end && listed[chosen].file != entry->second) ++chosen;
      if (chosen == end)
        throw Error({found.index.string(), "tensor '" + printable(listed[i].name) + "'",
                     "mapped to " + file_name(entry->second) + ", but it is in " + file_name(listed[i].file),
                     "a tensor in the file that the index names",
                     "Open with \"ignore index and scan files\" (--ignore-index) if the index is stale."});
      if (end - i > 1)
        warnings.push_back("tensor '" + printable(listed[i].name) + "' is in " + std::to_string(end - i) +
                           " files; the index names " + file_name(entry->second));
      ++mapped;
    } else if (end - i > 1) {
      throw Error({found.files[0].parent_path().string(), "tensor '" + printable(listed[i].name) + "'",
                   "in both " + file_name(listed[i].file) + " and " + file_name(listed[i + 1].file),
                   "each name in one file", ""});
    } else if (indexed) {
      ++unmapped;
    }
    if (listed[chosen].storage < 0 || storages.insert(listed[chosen].storage).second)
      bytes += listed[chosen].bytes;
    kept.push_back(std::move(listed[chosen]));
    i = end;
  }
  if (indexed && mapped < found.weight_map.size())
    for (const auto& [name, file] :
         std::map<std::string, int>(found.weight_map.begin(), found.weight_map.end()))
      if (!std::binary_search(kept.begin(), kept.end(), TensorInfo{.name = name},
                              [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; }))
        throw Error({found.index.string(), "tensor '" + printable(name) + "'",
                     "mapped to " + file_name(file) + ", which does not hold it",
                     "a tensor in the file that the index names",
                     "Open with \"ignore index and scan files\" (--ignore-index) if the index is stale."});
  if (unmapped)
    warnings.push_back(std::to_string(unmapped) + " tensors are in the files but not in the index");
  if (indexed && !found.has_total_size) notes.push_back("the index has no total_size");
  if (indexed && found.has_total_size && found.total_size != double(bytes))
    notes.push_back("total_size in the index is " + number_text(found.total_size) + ", the tensors have " +
                    std::to_string(bytes) + " bytes");
  return kept;
}

}  // namespace slotscope::formats
