// torch.save since PyTorch 1.6: a zip file with NAME/data.pkl, NAME/data/KEY for every storage, NAME/version,
// NAME/byteorder and small entries of newer versions (.format_version, .storage_alignment,
// .data/serialization_id), which say nothing that is needed here.
#include <mutex>
#include <unordered_map>

#include "core/error.h"
#include "core/formats/json.h"
#include "core/formats/torch_file.h"
#include "core/formats/utf8.h"
#include "core/formats/zip_archive.h"

namespace slotscope::formats {
namespace {

constexpr uint64_t kCheckedAtOnce = 64ull << 20;

class TorchZip : public TorchFile {
 public:
  explicit TorchZip(std::shared_ptr<const MappedFile> file) : TorchFile(std::move(file)), zip_(*file_) {
    find_root();
    refuse_other_archives();
    read_byte_order();
    if (zip_.without_checksums())
      notes_.push_back("the file has no checksums: they were switched off when it was saved");
    text_ = zip_.read(*zip_.find(root_ + "data.pkl"), kMaxPickleBytes);
    PickleOptions options;
    options.file = path_;
    options.item = "data.pkl";
    tree_ = unpickle(text_, options);
  }

  FileFormat format() const override { return FileFormat::torch_zip; }

  TensorData bytes(int storage, uint64_t first, uint64_t count) const override {
    const TorchStorage& s = storages_.at(size_t(storage));
    const ZipMember& member = *members_[size_t(storage)];
    if (first > s.bytes || count > s.bytes - first)
      refuse("storage '" + printable(s.key) + "'",
             "bytes " + std::to_string(first) + " to " + std::to_string(first + count),
             "a range inside its " + thousands(s.bytes));
    const std::lock_guard lock(mutex_);
    if (member.deflated) {
      if (unpacked_of_ != storage) {
        unpacked_.reset();  // before the next one is made: one at a time in memory
        unpacked_of_ = -1;
        unpacked_ = std::make_shared<const std::string>(zip_.read(member, kMaxUnpackedBytes));
        unpacked_of_ = storage;
      }
      return {{reinterpret_cast<const std::byte*>(unpacked_->data()) + first, size_t(count)}, unpacked_};
    }
    check(storage, first, count);
    return {file_->bytes(s.offset + first, count), nullptr};
  }

 protected:
  int locate(std::string_view key, const TorchType&, uint64_t) override {
    if (const auto known = numbers_.find(std::string(key)); known != numbers_.end()) return known->second;
    const std::string name = root_ + "data/" + std::string(key);
    const ZipMember* member = zip_.find(name);
    if (!member)
      refuse("storage '" + printable(key) + "'", "there is no entry '" + printable(name) + "'",
             "every storage of the pickle");
    const int number = int(storages_.size());
    storages_.push_back({std::string(key), zip_.locate(*member), member->size});
    members_.push_back(member);
    checked_.push_back(false);
    numbers_.emplace(key, number);
    return number;
  }

 private:
  // A checksum covers the whole storage. A small one is checked before its first byte is used; a large one by whoever reads all
  // of it, at once or in slices from its start on, so that a look at a few values reads these and no more.
  void check(int storage, uint64_t first, uint64_t count) const {
    if (zip_.without_checksums() || checked_[size_t(storage)]) return;
    const TorchStorage& s = storages_[size_t(storage)];
    if (s.bytes <= kCheckedAtOnce) first = 0, count = s.bytes;
    if (first == 0) running_ = {storage, 0, 0};
    if (running_.storage != storage || running_.next != first) return;
    const auto part = file_->bytes(s.offset + first, count);
    running_.crc = crc32_of(part.data(), part.size(), running_.crc);
    running_.next += count;
    if (running_.next < s.bytes) return;
    zip_.check_crc(*members_[size_t(storage)], running_.crc);
    checked_[size_t(storage)] = true;
  }

  // The folder of data.pkl, any name: the name that the file had when it was saved.
  void find_root() {
    const ZipMember* found = nullptr;
    size_t arrays = 0;
    for (const ZipMember& member : zip_.members()) {
      arrays += member.name.ends_with(".npy");
      if (member.name != "data.pkl" && !member.name.ends_with("/data.pkl")) continue;
      if (found)
        refuse("", "two pickles: '" + printable(found->name) + "' and '" + printable(member.name) + "'",
               "one data.pkl", "It holds two saved objects: unpack it and save the weights again.");
      found = &member;
    }
    if (found) {
      root_ = found->name.substr(0, found->name.size() - std::string_view("data.pkl").size());
      return;
    }
    if (arrays && arrays == zip_.members().size())
      refuse("", "a NumPy archive (.npz)", "a torch.save file", "Save the arrays as safetensors.");
    for (const ZipMember& member : zip_.members())
      if (member.name.ends_with("/models/model.json") || member.name.ends_with("archive_format"))
        refuse("", "an exported program (torch.export)", "a torch.save file",
               "Save the state_dict instead: torch.save(model.state_dict(), \"pytorch_model.bin\").");
    refuse("", "a zip file without data.pkl (" + std::to_string(zip_.members().size()) + " entries)",
           "a torch.save file", "If the weights are inside, unpack it and open them.");
  }

  void refuse_other_archives() {
    bool script = zip_.find(root_ + "constants.pkl") != nullptr;
    for (const ZipMember& member : zip_.members()) script |= member.name.starts_with(root_ + "code/");
    if (script)
      refuse("", "a TorchScript archive (constants.pkl and code/): a program, not only weights",
             "saved weights",
             "Save the state_dict instead: torch.save(model.state_dict(), \"pytorch_model.bin\").");
  }

  void read_byte_order() {
    const ZipMember* member = zip_.find(root_ + "byteorder");
    if (!member) return;  // before PyTorch 2.1: that of the machine, in practice little-endian
    const std::string order = zip_.read(*member, 64);
    if (order != "little" && order != "big")
      refuse("entry '" + printable(member->name) + "'", "'" + printable(order) + "'", "little or big");
    big_endian_ = order == "big";
    if (big_endian_) notes_.push_back("the file was saved on a big-endian machine: values are converted");
  }

  ZipArchive zip_;
  std::string root_;  // "archive/"
  std::unordered_map<std::string, int> numbers_;
  std::vector<const ZipMember*> members_;
  mutable std::mutex mutex_;  // of all below, and of zip_ once the file is open
  mutable std::vector<char> checked_;
  struct Running {
    int storage = -1;
    uint64_t next = 0;  // first byte that is not in the sum yet
    uint32_t crc = 0;
  };
  mutable Running running_;
  mutable int unpacked_of_ = -1;
  mutable std::shared_ptr<const std::string> unpacked_;  // the storage used last, when it is packed
};

}  // namespace

std::unique_ptr<TorchFile> open_torch_zip(std::shared_ptr<const MappedFile> file) {
  return std::make_unique<TorchZip>(std::move(file));
}

}  // namespace slotscope::formats
