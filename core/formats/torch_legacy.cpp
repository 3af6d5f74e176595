// torch.save from 0.1.10 to 1.5: five pickles (magic number, protocol, system, the value, the list of storage
// keys), then for every key in that order the number of elements (8 bytes, little-endian) and the elements.
// Elements are little-endian on every machine: the writer converts, whatever the system pickle says.
#include <unordered_map>

#include "core/error.h"
#include "core/formats/json.h"
#include "core/formats/torch_file.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {
namespace {

constexpr int64_t kProtocol = 1001;

class TorchLegacy : public TorchFile {
 public:
  explicit TorchLegacy(std::shared_ptr<const MappedFile> file) : TorchFile(std::move(file)) {
    std::string text;
    next_pickle(text, "magic number");
    const PickleTree protocol = next_pickle(text, "protocol");
    const PickleValue& number = protocol[protocol.root()];
    if (number.kind != PickleKind::integer || number.integer != kProtocol)
      refuse("protocol", number.kind == PickleKind::integer ? std::to_string(number.integer) : "no number",
             "1001");
    next_pickle(text, "system");
    tree_ = next_pickle(text_, "pickle");
    const PickleTree keys = next_pickle(text, "storage keys");
    list_storages(keys);
  }

  FileFormat format() const override { return FileFormat::torch_legacy; }

  TensorData bytes(int storage, uint64_t first, uint64_t count) const override {
    const TorchStorage& s = storages_.at(size_t(storage));
    if (first > s.bytes || count > s.bytes - first)
      refuse("storage '" + printable(s.key) + "'",
             "bytes " + std::to_string(first) + " to " + std::to_string(first + count),
             "a range inside its " + thousands(s.bytes));
    return {file_->bytes(s.offset + first, count), nullptr};
  }

 protected:
  int locate(std::string_view key, const TorchType&, uint64_t) override {
    const auto known = numbers_.find(std::string(key));
    if (known == numbers_.end())
      refuse("storage '" + printable(key) + "'", "not in the list of storages",
             "every storage of the pickle");
    return known->second;
  }

 private:
  struct Element {
    uint64_t size, count;
  };

  // Reads the pickle at position_ in growing pieces: how long it is, only it knows. `text` holds its bytes
  // afterwards.
  PickleTree next_pickle(std::string& text, const char* item) {
    PickleOptions options;
    options.file = path_;
    options.item = item;
    options.base = position_;
    options.available = file_->size() - position_;
    for (uint64_t piece = 64 << 10;; piece *= 2) {
      if (piece > kMaxPickleBytes)
        refuse(item, "over " + thousands(kMaxPickleBytes) + " bytes", "a smaller pickle");
      text = file_->read(position_, piece);
      if (auto tree = try_unpickle(text, options)) {
        position_ += tree->end();
        return std::move(*tree);
      }
      if (text.size() < piece) refuse(item, "the file shrank while it was read", "the whole pickle");
    }
  }

  // What the references in the pickle say: the element size of a storage is that of its first reference.
  std::unordered_map<std::string_view, Element> references() const {
    std::unordered_map<std::string_view, Element> all;
    for (PickleId id = 0; id < tree_.size(); ++id) {
      if (tree_[id].kind != PickleKind::persistent) continue;
      const auto& fields = tree_[tree_[id].args].items;
      if (fields.size() < 5 || !tree_.is(fields[2], PickleKind::text) ||
          !tree_.is(fields[4], PickleKind::integer) || tree_[fields[4]].integer < 0 ||
          tree_[fields[2]].text.size() > kMaxStorageKeyBytes)
        continue;  // said when it is used
      const TorchType type = torch_type(tree_.global(fields[1]));
      if (type.size)
        all.emplace(tree_[fields[2]].text, Element{type.size, uint64_t(tree_[fields[4]].integer)});
    }
    return all;
  }

  void list_storages(const PickleTree& keys) {
    const PickleValue& list = keys[keys.root()];
    if (list.kind != PickleKind::list) refuse("storage keys", "no list", "a list of texts");
    const auto known = references();
    for (const PickleId id : list.items) {
      if (!keys.is(id, PickleKind::text)) refuse("storage keys", "a key that is no text", "texts");
      const std::string key(keys[id].text);
      const std::string item = "storage '" + printable(key) + "'";
      const auto element = known.find(key);
      if (element == known.end())
        refuse(item, "listed, but the pickle does not refer to it", "a storage of the pickle");
      const uint64_t count = storage_count(item);
      if (count != element->second.count)
        refuse(item,
               thousands(count) + " elements in the file, " + thousands(element->second.count) +
                   " in the pickle",
               "equal numbers");
      uint64_t size = 0;
      const uint64_t left = file_->size() - position_;
      if (__builtin_mul_overflow(count, element->second.size, &size) || size > left)
        refuse(item,
               thousands(count) + " elements of " + std::to_string(element->second.size) + " bytes, " +
                   thousands(left) + " bytes are left",
               "the whole storage", "Incomplete download? Download the file again.");
      if (!numbers_.emplace(key, int(storages_.size())).second)
        refuse(item, "listed twice", "each storage once");
      storages_.push_back({key, position_, size});
      position_ += size;
    }
    if (position_ < file_->size())
      notes_.push_back(thousands(file_->size() - position_) + " bytes behind the last storage are ignored");
  }
  uint64_t storage_count(const std::string& item) {
    const std::string text = file_->read(position_, 8);
    if (text.size() < 8)
      refuse(item, "the file ends before it", "its number of elements",
             "Incomplete download? Download the file again.");
    position_ += 8;
    uint64_t count = 0;
    for (size_t i = 8; i-- > 0;) count = count << 8 | static_cast<unsigned char>(text[i]);
    return count;
  }

  uint64_t position_ = 0;
  std::unordered_map<std::string, int> numbers_;
};

}  // namespace

std::unique_ptr<TorchFile> open_torch_legacy(std::shared_ptr<const MappedFile> file) {
  return std::make_unique<TorchLegacy>(std::move(file));
}

}  // namespace slotscope::formats
