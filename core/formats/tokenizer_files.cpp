#include "core/formats/tokenizer_files.h"

#include <algorithm>

#include "core/formats/sentencepiece_tokenizer.h"
#include "core/formats/tokenizer_config.h"
#include "core/formats/vocab_merges.h"

namespace slotscope::formats {

namespace fs = std::filesystem;

namespace {

// The SentencePiece model that tokenizer_config.json names, or empty.
fs::path named_model(const fs::path& folder) {
  const TokenizerConfig config = TokenizerConfig::read(folder);
  const auto at = config.root.find("vocab_file");
  if (at == config.root.end() || !at->is_string()) return {};
  const auto name = at->get<std::string>();
  const fs::path path(name);
  if (path.extension() != ".model") return {};
  // Folders often carry the path of the machine where they were made: only the name counts.
  const fs::path here = folder / path.filename();
  std::error_code ignored;
  return fs::exists(here, ignored) ? here : fs::path();
}

}  // namespace

std::string TokenizerFiles::note() const {
  if (ignored.empty()) return {};
  std::string names;
  for (const auto& path : ignored) names += (names.empty() ? "" : ", ") + path.filename().string();
  return used.filename().string() + " is read; " + names + (ignored.size() == 1 ? " beside it is not" : " beside it are not");
}

TokenizerFiles find_tokenizer(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const char* name : {"tokenizer.json", "tokenizer.model", "spiece.model"})
    if (fs::exists(folder / name, ignored)) found.push_back(folder / name);
  // A tokenizer.json says everything itself; its neighbours need not be readable.
  if (found.empty() || found[0].filename() != "tokenizer.json")
    if (const fs::path named = named_model(folder); !named.empty() && std::find(found.begin(), found.end(), named) == found.end())
      found.push_back(named);
  if (fs::exists(folder / "vocab.json", ignored)) found.push_back(folder / "vocab.json");
  TokenizerFiles files;
  if (found.empty()) return files;
  files.used = found[0];
  files.ignored.assign(found.begin() + 1, found.end());
  return files;
}

std::shared_ptr<const Tokenizer> load_other_tokenizer(const fs::path& folder) {
  const TokenizerFiles files = find_tokenizer(folder);
  if (files.used.empty()) return nullptr;
  if (files.used.extension() == ".model") return load_sentencepiece(folder, files.used);
  return load_vocab_merges(folder);
}

}  // namespace slotscope::formats
