#include "core/formats/checkpoint.h"

namespace slotscope::formats {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  int bits;
};
constexpr Row kRows[] = {
    {DType::f4, "F4", 4},        {DType::f8_e8m0, "F8_E8M0", 8}, {DType::f8_e4m3, "F8_E4M3", 8},
    {DType::f8_e5m2, "F8_E5M2", 8}, {DType::bf16, "BF16", 16},   {DType::f16, "F16", 16},
    {DType::f32, "F32", 32},     {DType::f64, "F64", 64},        {DType::i8, "I8", 8},
    {DType::u8, "U8", 8},        {DType::i16, "I16", 16},        {DType::u16, "U16", 16},
    {DType::i32, "I32", 32},     {DType::u32, "U32", 32},        {DType::i64, "I64", 64},
    {DType::u64, "U64", 64},     {DType::boolean, "BOOL", 8},    {DType::c64, "C64", 64},
};

}  // namespace

std::string_view dtype_name(DType dtype) {
  for (const Row& row : kRows)
    if (row.dtype == dtype) return row.name;
  return "unknown";
}

int dtype_bits(DType dtype) {
  for (const Row& row : kRows)
    if (row.dtype == dtype) return row.bits;
  return 0;
}

}  // namespace slotscope::formats
