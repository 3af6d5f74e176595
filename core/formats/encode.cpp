#include "core/formats/encode.h"

#include <bit>
#include <cstring>

namespace slotscope::formats {
namespace {

static_assert(std::endian::native == std::endian::little, "stored numbers are little-endian");

// To float with the lowest bit set when anything was lost (round to odd): a second rounding to fewer bits is then the right one.
float to_float_for_narrowing(double value) {
  const float nearest = float(value);
  if (double(nearest) == value || value != value) return nearest;
  auto bits = std::bit_cast<uint32_t>(nearest);
  const bool away = (nearest < 0 ? -double(nearest) : double(nearest)) > (value < 0 ? -value : value);
  if (away) --bits;  // towards zero: sign and magnitude, so one less in magnitude
  return std::bit_cast<float>(bits | 1u);
}

template <class T, class Convert>
void put(const T* values, uint64_t count, std::byte* out, Convert convert) {
  for (uint64_t i = 0; i < count; ++i) {
    const auto stored = convert(values[i]);
    std::memcpy(out + i * sizeof stored, &stored, sizeof stored);
  }
}

template <class T>
float narrowed(T value) {
  if constexpr (sizeof(T) == sizeof(double)) return to_float_for_narrowing(value);
  return float(value);
}

template <class T>
void encode(const T* values, DType dtype, uint64_t count, std::byte* out) {
  switch (dtype) {
    case DType::f64:
      return put(values, count, out, [](T v) { return double(v); });
    case DType::f32:
      return put(values, count, out, [](T v) { return float(v); });
    case DType::bf16:
      return put(values, count, out, [](T v) { return to_bfloat16(narrowed(v)); });
    default:
      return put(values, count, out, [](T v) { return to_float16(narrowed(v)); });
  }
}

}  // namespace

uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return uint16_t(bits >> 16 | 0x40);  // NaN
  return uint16_t((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);                  // carries into infinity as it should
}

uint16_t to_float16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = uint16_t(bits >> 16 & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return uint16_t(sign | 0x7e00u | (magnitude >> 13 & 0x1ffu));
  if (magnitude >= 0x47800000u) return uint16_t(sign | 0x7c00u);  // 65536 and more
  if (magnitude >= 0x38800000u) {                                 // normal: 2^-14 and more
    const uint32_t shifted = magnitude - 0x38000000u;
    return uint16_t(sign | (shifted + 0xfffu + (shifted >> 13 & 1)) >> 13);
  }
  if (magnitude < 0x33000000u) return sign;  // below half of the smallest, 2^-25
  const uint32_t exponent = magnitude >> 23, fraction = (magnitude & 0x7fffffu) | 0x800000u;
  const uint32_t shift = 126 - exponent;  // 14 to 24: the unit is 2^-24
  const uint32_t whole = fraction >> shift, rest = fraction & ((1u << shift) - 1), half = 1u << (shift - 1);
  return uint16_t(sign | (whole + (rest > half || (rest == half && (whole & 1)))));
}

bool can_encode(DType dtype) {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

void encode_values(const double* values, DType dtype, uint64_t count, std::byte* out) { encode(values, dtype, count, out); }
void encode_values(const float* values, DType dtype, uint64_t count, std::byte* out) { encode(values, dtype, count, out); }

}  // namespace slotscope::formats
