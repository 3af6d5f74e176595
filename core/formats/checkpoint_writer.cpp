#include "core/formats/checkpoint_writer.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <unordered_set>

#include "core/error.h"
#include "core/formats/config.h"
#include "core/formats/json.h"
#include "core/formats/mapped_file.h"
#include "core/formats/new_folder.h"
#include "core/formats/safetensors.h"
#include "core/formats/utf8.h"
#include "core/formats/values.h"

namespace slotscope::formats {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr uint64_t kPieceBytes = uint64_t(4) << 20;  // a multiple of every element
constexpr uint64_t kMostCopyBytes = uint64_t(1) << 30;

// The reference sorts by its list of dtypes, downwards; others come last.
int dtype_rank(const std::string& dtype) {
  static constexpr const char* order[] = {"U64",     "I64",        "F64",        "C64",     "F32",     "U32",     "I32",
                                          "BF16",    "F16",        "U16",        "I16",     "F8_E5M2FNUZ", "F8_E4M3FNUZ", "F8_E8M0",
                                          "F8_E4M3", "F8_E5M2",    "I8",         "U8",      "F6_E3M2", "F6_E2M3", "F4", "BOOL"};
  const auto at = std::find_if(std::begin(order), std::end(order), [&](const char* name) { return dtype == name; });
  return int(at - std::begin(order));
}

std::string json_text(const std::string& text, const std::string& item) {
  if (first_invalid_utf8(text) != kValidUtf8)
    throw Error({.item = item, .found = "bytes that are no UTF-8: '" + printable(text) + "'", .expected = "text"});
  return json(text).dump();
}

struct Shard {
  std::string name;
  std::vector<size_t> tensors;  // positions in the content, in the order of the file
  std::vector<uint64_t> offsets;
  std::string head;
  uint64_t bytes = 0;  // of the data
};

struct Piece {
  size_t tensor;
  uint64_t first, size, offset;  // in the tensor; in the file
};

std::vector<Shard> cut_shards(const CheckpointContent& content, uint64_t most) {
  std::vector<Shard> shards(1);
  for (size_t i = 0; i < content.tensors.size(); ++i) {
    const uint64_t bytes = content.tensors[i].bytes;
    if (!shards.back().tensors.empty() && bytes > most - std::min(most, shards.back().bytes)) shards.emplace_back();
    shards.back().tensors.push_back(i);
    if (__builtin_add_overflow(shards.back().bytes, bytes, &shards.back().bytes) || shards.back().bytes > uint64_t(INT64_MAX))
      throw Error({.item = printable(content.tensors[i].name), .found = "more bytes than a file can have"});
  }
  if (shards.size() > 99'999) throw Error({.item = "shards", .found = std::to_string(shards.size()) + " files", .expected = "at most 99999"});
  for (size_t s = 0; s < shards.size(); ++s) {
    Shard& shard = shards[s];
    char name[64];
    std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", s + 1, shards.size());
    shard.name = shards.size() == 1 ? "model.safetensors" : name;
    std::vector<TensorToWrite> tensors;
    for (const size_t i : shard.tensors) tensors.push_back(content.tensors[i]);
    std::vector<size_t> order;
    shard.head = safetensors_head(tensors, content.metadata, order);
    std::vector<size_t> sorted;
    uint64_t offset = shard.head.size();
    for (const size_t i : order) {
      sorted.push_back(shard.tensors[i]);
      shard.offsets.push_back(offset);
      offset += tensors[i].bytes;
    }
    shard.tensors = std::move(sorted);
  }
  return shards;
}

// As transformers writes it: keys sorted, two blanks, a line break at the end.
std::string index_text(const CheckpointContent& content, const std::vector<Shard>& shards) {
  json index = {{"metadata", {{"total_size", 0}}}, {"weight_map", json::object()}};
  uint64_t total = 0;
  for (const Shard& shard : shards)
    for (const size_t i : shard.tensors) {
      index["weight_map"][content.tensors[i].name] = shard.name;
      total += content.tensors[i].bytes;
    }
  index["metadata"]["total_size"] = total;
  return index.dump(2) + "\n";
}

// The work of one weight file, spread over threads: whoever is free takes the next piece.
class ShardWriter {
 public:
  ShardWriter(NewFolder& folder, const CheckpointContent& content, const Shard& shard, Progress& progress)
      : folder_(folder), content_(content), shard_(shard), progress_(progress) {
    for (size_t k = 0; k < shard.tensors.size(); ++k) {
      const uint64_t bytes = content.tensors[shard.tensors[k]].bytes;
      for (uint64_t first = 0; first < bytes; first += kPieceBytes)
        pieces_.push_back({shard.tensors[k], first, std::min(kPieceBytes, bytes - first), shard.offsets[k] + first});
    }
  }

  void write(int threads) {
    descriptor_ = folder_.create(shard_.name, shard_.head.size() + shard_.bytes);
    try {
      folder_.write(descriptor_, shard_.name, shard_.head.data(), shard_.head.size(), 0);
      std::vector<std::jthread> others;
      for (int i = 1; i < threads && size_t(i) < pieces_.size(); ++i) others.emplace_back([this] { work(); });
      work();
      others.clear();  // joins
      if (error_) std::rethrow_exception(error_);
    } catch (...) {
      ::close(descriptor_);
      throw;
    }
    folder_.close(descriptor_, shard_.name);
  }

 private:
  void work() {
    try {
      std::vector<std::byte> buffer;
      for (size_t i = next_++; i < pieces_.size() && !stop_; i = next_++) {
        if (progress_.cancel_requested()) throw Error({.file = folder_.part().string(), .item = "writing weights", .found = "cancelled"});
        const Piece& piece = pieces_[i];
        buffer.resize(piece.size);
        content_.read(piece.tensor, piece.first, buffer);
        folder_.write(descriptor_, shard_.name, buffer.data(), piece.size, piece.offset);
        progress_.add(int64_t(piece.size));
      }
    } catch (...) {
      const std::lock_guard guard(mutex_);
      if (!error_) error_ = std::current_exception();
      stop_ = true;
    }
  }

  NewFolder& folder_;
  const CheckpointContent& content_;
  const Shard& shard_;
  Progress& progress_;
  std::vector<Piece> pieces_;
  int descriptor_ = -1;
  std::atomic<size_t> next_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::exception_ptr error_;
};

bool plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
}

// What --force may delete.
bool checkpoint_file(std::string_view name) {
  static const std::set<std::string_view> others = {"config.json", "generation_config.json", "training.json", "model.safetensors.index.json",
                                                     "chat_template.jinja"};
  const auto& tokenizer = tokenizer_file_names();
  return name.ends_with(".safetensors") || others.contains(name) ||
         std::find(tokenizer.begin(), tokenizer.end(), name) != tokenizer.end();
}

void check_content(const fs::path& folder, const CheckpointContent& content, const std::vector<Shard>& shards) {
  std::set<std::string> names;
  const auto take = [&](const std::string& name) {
    if (!plain_name(name) || !checkpoint_file(name))
      throw Error({.file = folder.string(), .item = printable(name), .found = "a name that no file of a checkpoint has"});
    if (!names.insert(name).second) throw Error({.file = folder.string(), .item = printable(name), .found = "two files of this name"});
  };
  std::unordered_set<std::string> tensors;
  for (const TensorToWrite& tensor : content.tensors)  // within a file, the head says it
    if (!tensors.insert(tensor.name).second)
      throw Error({.file = folder.string(), .item = "tensor '" + printable(tensor.name) + "'", .found = "appears twice"});
  for (const Shard& shard : shards) take(shard.name);
  if (shards.size() > 1) take("model.safetensors.index.json");
  for (const auto& [name, text] : content.texts) take(name);
  for (const fs::path& path : content.copies) take(path.filename().string());
}

void write_text(NewFolder& folder, const std::string& name, const std::string& text) {
  const int descriptor = folder.create(name, text.size());
  try {
    folder.write(descriptor, name, text.data(), text.size(), 0);
  } catch (...) {
    ::close(descriptor);
    throw;
  }
  folder.close(descriptor, name);
}

}  // namespace

TensorToWrite tensor_to_write(std::string name, DType dtype, std::vector<int64_t> shape) {
  TensorToWrite tensor{.name = std::move(name), .dtype = std::string(dtype_name(dtype)), .shape = std::move(shape)};
  if (!tensor_bytes(tensor.shape, dtype_bits(dtype), tensor.bytes))
    throw Error({.item = "tensor '" + printable(tensor.name) + "'", .found = "shape " + shape_text(tensor.shape) + " of " + tensor.dtype,
                 .expected = "a size in whole bytes that a file can hold"});
  return tensor;
}

std::string safetensors_head(const std::vector<TensorToWrite>& tensors, const std::vector<std::pair<std::string, std::string>>& metadata,
                             std::vector<size_t>& order) {
  order.resize(tensors.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const int left = dtype_rank(tensors[a].dtype), right = dtype_rank(tensors[b].dtype);
    return left != right ? left < right : tensors[a].name < tensors[b].name;
  });
  std::string text;
  const std::map<std::string, std::string> sorted(metadata.begin(), metadata.end());
  for (const auto& [key, value] : sorted)
    text += (text.empty() ? "{\"__metadata__\":{" : ",") + json_text(key, "metadata") + ":" + json_text(value, "metadata");
  text += sorted.empty() ? "{" : "}";
  uint64_t offset = 0;
  std::unordered_set<std::string_view> names;
  for (const size_t i : order) {
    const TensorToWrite& t = tensors[i];
    const std::string item = "tensor '" + printable(t.name) + "'";
    if (t.name == "__metadata__") throw Error({.item = item, .found = "a name that the format keeps for itself"});
    if (!names.insert(t.name).second) throw Error({.item = item, .found = "appears twice", .expected = "each name once"});
    if (text.size() > 1) text += ",";
    text += json_text(t.name, item) + ":{\"dtype\":" + json_text(t.dtype, item) + ",\"shape\":[";
    for (size_t k = 0; k < t.shape.size(); ++k) text += (k ? "," : "") + std::to_string(t.shape[k]);
    text += "],\"data_offsets\":[" + std::to_string(offset) + "," + std::to_string(offset + t.bytes) + "]}";
    offset += t.bytes;
  }
  text += "}";
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > kMaxHeaderBytes)
    throw Error({.item = "header", .found = thousands(text.size()) + " bytes", .expected = "at most " + thousands(kMaxHeaderBytes),
                 .advice = "Write smaller shards"});
  std::string head(8, '\0');
  for (size_t i = 0; i < 8; ++i) head[i] = char(text.size() >> (8 * i) & 0xff);
  return head + text;
}

const std::vector<std::string>& tokenizer_file_names() {
  static const std::vector<std::string> names = {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                                                 "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "vocab.json", "merges.txt"};
  return names;
}

WrittenCheckpoint write_checkpoint(const fs::path& folder, const CheckpointContent& content, const CheckpointWriteOptions& options,
                                   Progress& progress) {
  if (options.shard_bytes == 0) throw Error({.item = "shard size", .found = "0", .expected = "a number of bytes"}, Error::Kind::usage);
  const std::vector<Shard> shards = cut_shards(content, options.shard_bytes);
  check_content(folder, content, shards);
  uint64_t total = 0, needed = uint64_t(1) << 20;
  for (const Shard& shard : shards)
    if (__builtin_add_overflow(total, shard.bytes, &total) || total > uint64_t(INT64_MAX))
      throw Error({.file = folder.string(), .item = "weights to write", .found = "no space: more bytes than a disk can have"});
  for (const Shard& shard : shards) needed += shard.head.size();
  needed += total;
  std::vector<std::pair<std::string, std::string>> texts = content.texts;
  if (shards.size() > 1) texts.emplace_back("model.safetensors.index.json", index_text(content, shards));
  for (const fs::path& path : content.copies) texts.emplace_back(path.filename().string(), read_text_file(path, kMostCopyBytes));
  for (const auto& [name, text] : texts) needed += text.size();

  NewFolder made(folder, options.force, checkpoint_file);
  made.require_room(needed);
  progress.begin_stage("writing weights", int64_t(total));
  const int threads = options.threads > 0 ? options.threads : std::clamp(int(std::thread::hardware_concurrency()), 1, 16);
  WrittenCheckpoint written{.bytes = total};
  for (const Shard& shard : shards) {
    progress.set_detail(shard.name);
    ShardWriter(made, content, shard, progress).write(threads);
    written.files.push_back(shard.name);
  }
  for (const auto& [name, text] : texts) {
    write_text(made, name, text);
    written.files.push_back(name);
  }
  if (progress.cancel_requested()) throw Error({.file = folder.string(), .item = "writing weights", .found = "cancelled"});
  made.finish();
  return written;
}

WrittenCheckpoint copy_checkpoint(const Checkpoint& checkpoint, const fs::path& folder, const CheckpointWriteOptions& options,
                                  Progress& progress) {
  CheckpointContent content;
  const std::vector<TensorInfo>& tensors = checkpoint.tensors();
  for (const TensorInfo& tensor : tensors) {
    const bool known = tensor.dtype != DType::unknown;
    if (!known && checkpoint.format() != FileFormat::safetensors)
      throw Error({.file = checkpoint.folder().string(), .item = "tensor '" + printable(tensor.name) + "'",
                   .found = "dtype " + printable(tensor.dtype_text), .expected = "a dtype that safetensors has"});
    content.tensors.push_back({tensor.name, known ? std::string(dtype_name(tensor.dtype)) : tensor.dtype_text, tensor.shape, tensor.bytes});
  }
  std::vector<std::unique_ptr<MappedFile>> files;  // dtypes that are listed and not read have bytes all the same
  const bool plain = checkpoint.format() == FileFormat::safetensors;
  for (size_t i = 0; plain && i < checkpoint.files().size(); ++i) files.push_back(std::make_unique<MappedFile>(checkpoint.files()[i]));
  content.read = [&](size_t index, uint64_t first, std::span<std::byte> out) {
    const TensorInfo& tensor = tensors[index];
    if (plain) {
      const auto bytes = files[size_t(tensor.file)]->bytes(tensor.offset + first, out.size());
      std::copy(bytes.begin(), bytes.end(), out.begin());
      return release_pages(bytes);
    }
    const uint64_t element = uint64_t(dtype_bits(tensor.dtype)) / 8;
    const TensorData data = checkpoint.slice(tensor, first / element, out.size() / element);
    std::copy(data.bytes.begin(), data.bytes.end(), out.begin());
  };
  if (!checkpoint.metadata().empty()) content.metadata = checkpoint.metadata();
  if (!checkpoint.config_text().empty()) content.texts.emplace_back("config.json", checkpoint.config_text());
  for (const std::string& name : tokenizer_file_names())
    if (std::error_code ignored; fs::is_regular_file(checkpoint.folder() / name, ignored)) content.copies.push_back(checkpoint.folder() / name);
  if (std::error_code ignored; fs::is_regular_file(checkpoint.folder() / "generation_config.json", ignored))
    content.copies.push_back(checkpoint.folder() / "generation_config.json");
  return write_checkpoint(folder, content, options, progress);
}

}  // namespace slotscope::formats
