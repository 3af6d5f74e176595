// IEEE binary16 to binary32, exact; NaN payloads kept.
#pragma once

#include <cstdint>
#include <cstring>

namespace slotscope::trace {

inline float half_to_float(uint16_t h) {
  const uint32_t sign = uint32_t(h & 0x8000u) << 16;
  const uint32_t exponent = (h >> 10) & 31, fraction = h & 1023u;
  uint32_t bits;
  if (exponent == 31) {
    bits = sign | 0x7f800000u | fraction << 13;
  } else if (exponent != 0) {
    bits = sign | (exponent + 112) << 23 | fraction << 13;
  } else {
    const float value = float(fraction) * 0x1p-24f;
    return sign ? -value : value;
  }
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

}  // namespace slotscope::trace
