// Reading tokenizer.json: every section is either honoured exactly or refused by name.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/formats/added_tokens.h"
#include "core/formats/tokenizer.h"

namespace slotscope::formats {

// Makes the tokenizer that tokenizer.json's "model" asks for. One line per kind: the seat of further kinds.
std::shared_ptr<const Tokenizer> make_tokenizer(const nlohmann::json& root, const std::string& file);

// Byte-level BPE: model BPE, pre-tokenizer ByteLevel without its regex, decoder ByteLevel.
std::shared_ptr<const Tokenizer> make_byte_level_bpe(const nlohmann::json& root, const std::string& file);

// Parts that every kind shares.
AddedTokens read_added_tokens(const nlohmann::json& root, const std::string& file);
// What the post-processor puts around a single text: id >= 0 is a token, -1 the text itself. Empty
// post-processor: {-1}.
std::vector<int32_t> read_template(const nlohmann::json& root, const std::string& file);
[[noreturn]] void refuse_tokenizer(const std::string& file, std::string item, std::string found,
                                   std::string expected);

}  // namespace slotscope::formats
