// tokenizer.model through the SentencePiece library, with the special tokens of transformers' LlamaTokenizer (the slow one, which
// is defined by this file). The library's header stays in sentencepiece_tokenizer.cpp.
#pragma once

#include <filesystem>
#include <memory>

#include "core/formats/tokenizer.h"

namespace slotscope::formats {

// Honoured of tokenizer_config.json: tokenizer_class LlamaTokenizer(Fast) or none (then its rules are assumed, and notes() says
// so), bos_token, eos_token, unk_token and the other special tokens, added_tokens_decoder (or added_tokens.json and
// special_tokens_map.json) with lstrip and rstrip, add_bos_token (default true), add_eos_token (default false), legacy (default
// true), add_prefix_space. Refused by name: other classes, sp_model_kwargs, single_word, split_special_tokens, from_slow,
// special tokens without an id. Without tokenizer_config.json the model's own control pieces are the special tokens.
// Throws Error for a file that is damaged, see read_sentencepiece_model, and in a build without SentencePiece.
std::shared_ptr<const Tokenizer> load_sentencepiece(const std::filesystem::path& folder, const std::filesystem::path& model);

}  // namespace slotscope::formats
