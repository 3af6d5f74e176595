// A tokenizer for models that nobody trained: one token per byte, <bos> in front of every text.
#pragma once

#include <cstdint>
#include <string>

namespace slotscope::formats {

inline constexpr int64_t kByteTokenizerRows = 260;  // 256 bytes, <bos>, <eos>, two rows to spare: a multiple of four
inline constexpr int32_t kByteTokenizerBos = 256, kByteTokenizerEos = 257;

// tokenizer.json: byte-level BPE without merges; the id of a byte is its value.
std::string byte_tokenizer_json();

}  // namespace slotscope::formats
