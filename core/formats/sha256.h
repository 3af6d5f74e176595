// SHA-256 (FIPS 180-4) of a text, for tensor_digest.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace slotscope::formats {

class Sha256 {
 public:
  void add(std::string_view bytes);
  std::string hex();  // ends the message: 64 lower-case digits

 private:
  void block(const unsigned char* bytes);
  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> buffer_{};
  uint64_t length_ = 0;  // bytes so far
};

std::string sha256_hex(std::string_view bytes);

}  // namespace slotscope::formats
