#include "core/formats/byte_level.h"

#include "core/formats/utf8.h"

namespace slotscope::formats {

const std::array<uint32_t, 256>& byte_level_alphabet() {
  static const auto alphabet = [] {
    std::array<uint32_t, 256> a{};
    uint32_t next = 256;
    for (uint32_t b = 0; b < 256; ++b) {
      const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      a[b] = printable ? b : next++;
    }
    return a;
  }();
  return alphabet;
}

std::string byte_level_text(unsigned char byte) {
  std::string text;
  append_utf8(text, byte_level_alphabet()[byte]);
  return text;
}

std::optional<std::string> byte_level_bytes(std::string_view token) {
  static const auto reverse = [] {
    std::array<int, 512> r;
    r.fill(-1);
    for (int b = 0; b < 256; ++b) r[byte_level_alphabet()[size_t(b)]] = b;
    return r;
  }();
  std::string bytes;
  for (size_t at = 0; at < token.size();) {
    const uint32_t c = next_code_point(token, at);
    if (c >= reverse.size() || reverse[c] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(reverse[c]));
  }
  return bytes;
}

}  // namespace slotscope::formats
