#include "core/formats/utf8.h"

#include <cstdio>

namespace slotscope::formats {

size_t first_invalid_utf8(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  size_t i = 0;
  while (i < text.size()) {
    const unsigned char lead = byte(i);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const int length = utf8_length(lead);
    if (length == 1 || lead < 0xC2 || lead > 0xF4 || i + size_t(length) > text.size()) return i;
    for (int k = 1; k < length; ++k)
      if ((byte(i + size_t(k)) & 0xC0) != 0x80) return i;
    const unsigned char second = byte(i + 1);
    if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
        (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F))
      return i;
    i += size_t(length);
  }
  return kValidUtf8;
}

void append_utf8(std::string& out, uint32_t c) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6), put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18), put(0x80 | (c >> 12 & 0x3F)), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  }
}

uint32_t next_code_point(std::string_view text, size_t& at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  const int length = utf8_length(lead);
  uint32_t c = length == 1 ? lead : lead & (0xFFu >> (length + 1));
  for (int k = 1; k < length && at + size_t(k) < text.size(); ++k)
    c = c << 6 | (static_cast<unsigned char>(text[at + size_t(k)]) & 0x3F);
  at += size_t(length);
  return c;
}

std::string printable(std::string_view text, size_t limit) {
  std::string out;
  size_t end = text.size();
  if (end > limit) {
    end = limit;
    while (end > 0 && is_utf8_continuation(text[end])) --end;
  }
  for (size_t i = 0; i < end; ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c < 0x20 || c == 0x7F) {
      char hex[8];
      std::snprintf(hex, sizeof hex, "\\x%02x", c);
      out += hex;
    } else {
      out.push_back(text[i]);
    }
  }
  if (end < text.size()) out += "...";
  return out;
}

}  // namespace slotscope::formats
