// UTF-8 without Unicode tables: validity, code point counting, boundaries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace slotscope::formats {

inline constexpr size_t kValidUtf8 = size_t(-1);

// Byte position of the first byte that starts no valid sequence (RFC 3629: no overlong forms, no surrogates,
// at most U+10FFFF), or kValidUtf8.
size_t first_invalid_utf8(std::string_view text);

// Bytes of the sequence that starts with `lead`, 1 for a byte that starts none.
inline int utf8_length(unsigned char lead) {
  return lead < 0x80 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
}

inline bool is_utf8_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Appends one code point.
void append_utf8(std::string& out, uint32_t code_point);

// The code point at `at` of valid UTF-8; `at` moves behind it.
uint32_t next_code_point(std::string_view text, size_t& at);

// Text for messages: control characters as \xNN, cut after `limit` bytes (at a character's boundary) with
// "...".
std::string printable(std::string_view text, size_t limit = 80);

}  // namespace slotscope::formats
