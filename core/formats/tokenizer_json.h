// Reading tokenizer.json: every section is either honoured exactly or refused by name.
//
// added_tokens (as written) -> normalizer -> added_tokens (normalised) -> pre_tokenizer -> model ->
// post_processor, and decoder back; each section has its own file. "truncation" and "padding" are settings of
// a run that somebody made, not of the vocabulary: they are left out of account (transformers resets them as
// well) and Tokenizer::notes() says so.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "core/formats/tokenizer.h"

namespace slotscope::formats {

class JsonItem;

// Makes the tokenizer that tokenizer.json (`root`) asks for. `file` is for messages. Throws Error that names
// the item, what was found and what was expected; `root` may hold anything.
std::shared_ptr<const Tokenizer> make_tokenizer(const nlohmann::json& root, const std::string& file);

[[noreturn]] void refuse_tokenizer(const std::string& file, std::string item, std::string found,
                                   std::string expected);
// Two texts with one id.
[[noreturn]] void refuse_two_texts(const JsonItem& item, int32_t id, const std::string& one,
                                   const std::string& two);

}  // namespace slotscope::formats
