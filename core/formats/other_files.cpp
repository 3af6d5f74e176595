// Files that are often found under the name of a weight file (bad-inputs B01).
#include "core/formats/weight_file.h"

namespace slotscope::formats {

std::pair<std::string, std::string> recognise_other_file(std::string_view head) {
  const auto starts = [&](std::string_view with) { return head.starts_with(with); };
  if (starts("version https://git-lfs"))
    return {"a Git LFS pointer, not the file itself", "Run git lfs pull in the checkpoint folder."};
  std::string lower(head.substr(0, 64));
  for (char& c : lower) c = char(c >= 'A' && c <= 'Z' ? c + 32 : c);
  const auto text = lower.find_first_not_of(" \t\r\n");
  if (text != std::string::npos &&
      (lower.compare(text, 9, "<!doctype") == 0 || lower.compare(text, 5, "<html") == 0 ||
       lower.compare(text, 5, "<?xml") == 0))
    return {"a web page, not weights: the download failed", "Download the file again."};
  if (starts("\x89HDF\r\n")) return {"an HDF5 file", "A trace opens with File > Open trace; the file of a sweep or of a computed result is drawn by `slotscope figure`."};
  if (starts("GGUF")) return {"a GGUF file", "Use the safetensors form of the model."};
  if (starts("\x1f\x8b")) return {"a gzip file", "Unpack it first."};
  if (starts("{")) return {"a JSON text without the 8-byte length", "Is this the index or config file?"};
  return {};
}

}  // namespace slotscope::formats
