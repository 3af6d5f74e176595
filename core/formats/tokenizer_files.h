// Which tokenizer file of a folder is read: tokenizer.json first, then tokenizer.model, spiece.model or the *.model file that
// tokenizer_config.json names (vocab_file), then vocab.json with merges.txt.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/formats/tokenizer.h"

namespace slotscope::formats {

struct TokenizerFiles {
  std::filesystem::path used;                  // empty: the folder has no tokenizer
  std::vector<std::filesystem::path> ignored;  // further tokenizers in the folder, not read
  // "tokenizer.json is read; tokenizer.model beside it is not", or empty.
  std::string note() const;
};
// Throws Error when tokenizer_config.json cannot be read or names a file outside the folder or one that is not there.
TokenizerFiles find_tokenizer(const std::filesystem::path& folder);

// The tokenizer of a folder without tokenizer.json (Tokenizer::load comes here); null when there is none. Throws Error for one that cannot be honoured.
std::shared_ptr<const Tokenizer> load_other_tokenizer(const std::filesystem::path& folder);

}  // namespace slotscope::formats
