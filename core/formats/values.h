// Stored numbers to float or double, element by element. Every conversion to double is exact but I64/U64
// beyond 2^53.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/formats/checkpoint.h"

namespace slotscope::formats {

// False for F4, F8_E8M0, C64 and unknown: they are listed, but nothing is computed with them.
bool can_compute(DType dtype);
// I8 to U64 and BOOL.
bool is_whole(DType dtype);
// Throws Error naming file, tensor and dtype when can_compute(tensor.dtype) is false.
void require_computable(const Checkpoint& checkpoint, const TensorInfo& tensor);

// `count` values at `source` (any alignment, little-endian) to `out`. To float: rounds F64 and wide integers
// to nearest; exact for BF16, F16, F32, F8 and narrow integers. The caller has checked can_compute.
void convert_values(const std::byte* source, DType dtype, uint64_t count, double* out);
void convert_values(const std::byte* source, DType dtype, uint64_t count, float* out);

// One value of a dtype of at most 32 bits, or F64, as text: whole numbers in full, reals in the shortest form that reads back
// as that dtype (of 16 bits and less: as double, which is exact).
std::string value_text(double value, DType dtype);

// Elements [first, first + count) as text like value_text, I64 and U64 exactly (never through double), booleans as 0 and 1. Throws Error for dtypes that cannot be computed with.
std::vector<std::string> read_values_text(const Checkpoint& checkpoint, const TensorInfo& tensor,
                                          uint64_t first, uint64_t count);

// Number of elements: the product of the shape (1 for a scalar).
uint64_t element_count(const TensorInfo& tensor);

}  // namespace slotscope::formats
