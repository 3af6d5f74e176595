// Numbers to the bytes of a stored dtype (little-endian): the other direction of values.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/formats/checkpoint.h"

namespace slotscope::formats {

// F64, F32, BF16 and F16: what can be encoded.
bool can_encode(DType dtype);
// `count` values to `out`, rounded once, to nearest with ties to even; what is beyond the largest number becomes infinity; a NaN
// stays one (its sign and the leading bits of its payload, made quiet when it is narrowed). The caller has checked can_encode.
void encode_values(const double* values, DType dtype, uint64_t count, std::byte* out);
void encode_values(const float* values, DType dtype, uint64_t count, std::byte* out);

uint16_t to_bfloat16(float value);
uint16_t to_float16(float value);

}  // namespace slotscope::formats
