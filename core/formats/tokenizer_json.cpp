#include "core/formats/tokenizer_json.h"

#include "core/error.h"
#include "core/formats/json.h"
#include "core/formats/tokenizer_files.h"
#include "core/formats/tokenizer_item.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {
constexpr uint64_t kMaxTokenizerBytes = 512ull << 20;
}  // namespace

void refuse_tokenizer(const std::string& file, std::string item, std::string found, std::string expected) {
  throw Error({file, std::move(item), std::move(found), std::move(expected),
               "This tokenizer cannot be followed exactly; run the model from token ids instead."});
}

void refuse_two_texts(const JsonItem& item, int32_t id, const std::string& one, const std::string& two) {
  refuse_tokenizer(item.file(), item.path() + ", id " + std::to_string(id),
                   "both '" + printable(one, 30) + "' and '" + printable(two, 30) + "'", "one token per id");
}

bool has_all_tokenizers() {
#ifdef SLOTSCOPE_TOKENIZERS
  return true;
#else
  return false;
#endif
}

std::shared_ptr<const Tokenizer> Tokenizer::load(const fs::path& folder) {
  std::error_code ignored;
  const fs::path path = folder / "tokenizer.json";
  if (!fs::exists(path, ignored)) return load_other_tokenizer(folder);
  const json root = parse_json(read_text_file(path, kMaxTokenizerBytes), {.file = path.string()});
  return make_tokenizer(root, path.string());
}

}  // namespace slotscope::formats
