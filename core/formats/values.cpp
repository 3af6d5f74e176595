#include "core/formats/values.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "core/formats/config.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {
namespace {

// A binary float with `exponent_bits` and `mantissa_bits`, IEEE bias, subnormals. `inf_and_nan`: the highest
// exponent holds infinity and NaN as in IEEE; otherwise (E4M3FN) only all ones is NaN.
double small_float(uint32_t bits, int exponent_bits, int mantissa_bits, bool inf_and_nan) {
  const uint32_t mantissa_mask = (1u << mantissa_bits) - 1, exponent_mask = (1u << exponent_bits) - 1;
  const uint32_t mantissa = bits & mantissa_mask, exponent = bits >> mantissa_bits & exponent_mask;
  const double sign = bits >> (mantissa_bits + exponent_bits) & 1 ? -1.0 : 1.0;
  if (exponent == exponent_mask) {
    if (inf_and_nan)
      return mantissa ? std::numeric_limits<double>::quiet_NaN()
                      : sign * std::numeric_limits<double>::infinity();
    if (mantissa == mantissa_mask) return std::numeric_limits<double>::quiet_NaN();
  }
  const int bias = int(exponent_mask >> 1);
  if (exponent == 0) return sign * std::ldexp(double(mantissa), 1 - bias - mantissa_bits);
  return sign * std::ldexp(double(mantissa | 1u << mantissa_bits), int(exponent) - bias - mantissa_bits);
}

template <class Stored, class Out, class Convert>
void each(const std::byte* source, uint64_t count, Out* out, Convert convert) {
  for (uint64_t i = 0; i < count; ++i) {
    Stored value;
    std::memcpy(&value, source + i * sizeof(Stored), sizeof(Stored));  // mapped data may be unaligned
    out[i] = static_cast<Out>(convert(value));
  }
}

template <class Out>
void convert(const std::byte* source, DType dtype, uint64_t count, Out* out) {
  const auto as_is = [](auto v) { return v; };
  switch (dtype) {
    case DType::f8_e4m3:
      return each<uint8_t>(source, count, out, [](uint8_t v) { return small_float(v, 4, 3, false); });
    case DType::f8_e5m2:
      return each<uint8_t>(source, count, out, [](uint8_t v) { return small_float(v, 5, 2, true); });
    case DType::bf16:
      return each<uint16_t>(source, count, out,
                            [](uint16_t v) { return std::bit_cast<float>(uint32_t(v) << 16); });
    case DType::f16:
      return each<uint16_t>(source, count, out, [](uint16_t v) { return small_float(v, 5, 10, true); });
    case DType::f32:
      return each<float>(source, count, out, as_is);
    case DType::f64:
      return each<double>(source, count, out, as_is);
    case DType::i8:
      return each<int8_t>(source, count, out, as_is);
    case DType::u8:
      return each<uint8_t>(source, count, out, as_is);
    case DType::i16:
      return each<int16_t>(source, count, out, as_is);
    case DType::u16:
      return each<uint16_t>(source, count, out, as_is);
    case DType::i32:
      return each<int32_t>(source, count, out, as_is);
    case DType::u32:
      return each<uint32_t>(source, count, out, as_is);
    case DType::i64:
      return each<int64_t>(source, count, out, as_is);
    case DType::u64:
      return each<uint64_t>(source, count, out, as_is);
    case DType::boolean:
      return each<uint8_t>(source, count, out, [](uint8_t v) { return v != 0; });
    case DType::f4:
    case DType::f8_e8m0:
    case DType::c64:
    case DType::unknown:
      break;
  }
}

std::string file_of(const Checkpoint& checkpoint, const TensorInfo& tensor) {
  return checkpoint.files()[size_t(tensor.file)].string();
}
std::string item_of(const TensorInfo& tensor) { return "tensor '" + printable(tensor.name) + "'"; }

// The bytes of elements [first, first + count) after all checks.
TensorData element_bytes(const Checkpoint& checkpoint, const TensorInfo& tensor, uint64_t first,
                         uint64_t count) {
  require_computable(checkpoint, tensor);
  const uint64_t total = element_count(tensor);
  if (first > total || count > total - first)
    throw Error({file_of(checkpoint, tensor), item_of(tensor), "elements " + std::to_string(first) + " to " + std::to_string(first + count),
                 "a range inside its " + std::to_string(total) + " elements", ""});
  return checkpoint.slice(tensor, first, count);
}

template <class Stored>
std::vector<std::string> whole_texts(const std::byte* source, uint64_t count) {
  std::vector<std::string> texts(count);
  for (uint64_t i = 0; i < count; ++i) {
    Stored value;
    std::memcpy(&value, source + i * sizeof value, sizeof value);
    texts[i] = std::to_string(value);
  }
  return texts;
}

}  // namespace

bool can_compute(DType dtype) {
  return dtype != DType::f4 && dtype != DType::f8_e8m0 && dtype != DType::c64 && dtype != DType::unknown;
}

bool is_whole(DType dtype) {
  switch (dtype) {
    case DType::i8:
    case DType::u8:
    case DType::i16:
    case DType::u16:
    case DType::i32:
    case DType::u32:
    case DType::i64:
    case DType::u64:
    case DType::boolean:
      return true;
    default:
      return false;
  }
}

std::string value_text(double value, DType dtype) {
  if (is_whole(dtype)) return std::to_string(int64_t(value));  // "20000" and never "2e+04"
  if (dtype != DType::f32 || !std::isfinite(value)) return number_text(value);
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, float(value)).ptr;
  return {text, end};
}

void require_computable(const Checkpoint& checkpoint, const TensorInfo& tensor) {
  if (can_compute(tensor.dtype)) return;
  throw Error({file_of(checkpoint, tensor), item_of(tensor),
               "dtype " + printable(tensor.dtype_text, 20) + " cannot be computed with",
               "BF16, F16, F32, F64, F8_E4M3, F8_E5M2, BOOL or whole numbers", "Convert the tensor first."});
}

void convert_values(const std::byte* source, DType dtype, uint64_t count, double* out) {
  convert(source, dtype, count, out);
}
void convert_values(const std::byte* source, DType dtype, uint64_t count, float* out) {
  convert(source, dtype, count, out);
}

uint64_t element_count(const TensorInfo& tensor) {
  uint64_t n = 1;
  for (int64_t axis : tensor.shape) n *= uint64_t(axis);
  return n;
}

std::vector<double> read_values(const Checkpoint& checkpoint, const TensorInfo& tensor, uint64_t first,
                                uint64_t count) {
  const TensorData data = element_bytes(checkpoint, tensor, first, count);
  const std::byte* source = data.bytes.data();
  std::vector<double> values(count);
  convert_values(source, tensor.dtype, count, values.data());
  return values;
}

std::vector<std::string> read_values_text(const Checkpoint& checkpoint, const TensorInfo& tensor,
                                          uint64_t first, uint64_t count) {
  const TensorData data = element_bytes(checkpoint, tensor, first, count);
  const std::byte* source = data.bytes.data();
  if (tensor.dtype == DType::i64) return whole_texts<int64_t>(source, count);
  if (tensor.dtype == DType::u64) return whole_texts<uint64_t>(source, count);
  std::vector<double> values(count);
  convert_values(source, tensor.dtype, count, values.data());
  std::vector<std::string> texts(count);
  for (uint64_t i = 0; i < count; ++i) texts[i] = value_text(values[i], tensor.dtype);
  return texts;
}

}  // namespace slotscope::formats
