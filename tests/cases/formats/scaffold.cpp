#include "core/formats/checkpoint.h"

#include "tests/cases/case.h"

SLOTSCOPE_CASE(dtype_names) {
  using slotscope::formats::DType;
  CHECK_EQ(slotscope::formats::dtype_name(DType::bf16), std::string_view("BF16"));
  CHECK_EQ(slotscope::formats::dtype_bits(DType::f4), 4);
}
