// The byte-level alphabet of GPT-2 style tokenizers: each byte has one printable character.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace slotscope::formats {

// Bytes that are printable in Latin-1 (0x21-0x7E, 0xA1-0xAC, 0xAE-0xFF) stand for themselves; the others get
// U+0100, U+0101, ... in order.
const std::array<uint32_t, 256>& byte_level_alphabet();
std::string byte_level_text(unsigned char byte);  // UTF-8

// The bytes that a token's text stands for, or nothing when a character is outside the alphabet.
std::optional<std::string> byte_level_bytes(std::string_view token);

}  // namespace slotscope::formats
