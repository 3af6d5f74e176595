#include "core/formats/torch_file.h"

#include "core/error.h"
#include "core/formats/json.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {
namespace {

// PROTO 2, LONG1 of 10 bytes: 0x1950a86a20f9469cfc6c. Other protocols put a FRAME between.
constexpr std::string_view kMagic = "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";

}  // namespace

bool looks_like_zip(std::string_view head) {
  return head.starts_with("PK\x03\x04") || head.starts_with("PK\x05\x06");
}

bool looks_like_torch_legacy(std::string_view head) {
  return head.size() > 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5 &&
         head.substr(0, 32).find(kMagic) != std::string_view::npos;
}

bool looks_like_torch_tar(std::string_view head) {
  if (head.size() < 512) return false;
  if (head.substr(257, 5) == "ustar") return true;
  const std::string_view name = head.substr(0, std::min<size_t>(head.find('\0'), 100));
  return name == "storages" || name == "tensors" || name == "pickle" || name == "sys_info";
}

std::unique_ptr<TorchFile> TorchFile::open(std::shared_ptr<const MappedFile> file) {
  const std::string head = file->read(0, 64);
  if (looks_like_zip(head)) return open_torch_zip(std::move(file));
  if (!looks_like_torch_legacy(head))
    throw Error({file->path().string(), "",
                 "neither a zip file nor the magic number of older torch.save files", "a torch.save file",
                 ""});
  return open_torch_legacy(std::move(file));
}

int TorchFile::find_storage(std::string_view key, const TorchType& type, uint64_t count) {
  if (key.size() > kMaxStorageKeyBytes)
    refuse("storage '" + printable(key) + "'", "a key of " + thousands(key.size()) + " bytes", "a number");
  const int number = locate(key, type, count);
  const uint64_t have = storages_[size_t(number)].bytes;
  uint64_t need = 0;
  // A storage may end with a part of an element.
  if (__builtin_mul_overflow(count, uint64_t(type.size), &need) || need > have || have - need >= type.size)
    refuse("storage '" + printable(key) + "'",
           thousands(have) + " bytes in the file, " + thousands(count) + " elements of " +
               std::to_string(type.size) + " bytes in the pickle",
           "equal sizes");
  return number;
}

void TorchFile::refuse(std::string item, std::string found, std::string expected, std::string advice) const {
  throw Error({path_, std::move(item), std::move(found), std::move(expected),
               advice.empty() ? "The file is damaged: download it again, or save the model again."
                              : std::move(advice)});
}

}  // namespace slotscope::formats
