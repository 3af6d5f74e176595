// GPT-2 style folders without tokenizer.json: vocab.json and merges.txt, brought into the form of a tokenizer.json as transformers
// does it for the class that the folder names.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/formats/tokenizer.h"

namespace slotscope::formats {

// The tokenizer.json that the files stand for. tokenizer_class of tokenizer_config.json decides (else model_type of config.json,
// when there is one): GPT2Tokenizer and CodeGenTokenizer (byte-level with GPT-2's pattern), GPTNeoXTokenizer (NFC before it),
// Qwen2Tokenizer (NFC and its own pattern), each also with Fast. Honoured: add_prefix_space, add_bos_token, add_eos_token (GPTNeoX),
// special tokens, added_tokens_decoder or added_tokens.json. Throws Error (file, line or key) for anything else that would change
// ids: another class, a special token without an id, merges that are no pairs of tokens of the vocabulary.
nlohmann::json compose_tokenizer_json(const std::filesystem::path& folder);

std::shared_ptr<const Tokenizer> load_vocab_merges(const std::filesystem::path& folder);

}  // namespace slotscope::formats
