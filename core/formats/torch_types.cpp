#include <array>

#include "core/formats/torch_file.h"

namespace slotscope::formats {
namespace {

struct Row {
  std::string_view name;  // without "torch." or "torch.cuda."
  TorchType type;
};
// Storages first, then dtypes with their other names. What has no DType here is listed under its name and size.
constexpr Row kRows[] = {
    {"DoubleStorage", {DType::f64, "F64", 8, 8}},
    {"FloatStorage", {DType::f32, "F32", 4, 4}},
    {"HalfStorage", {DType::f16, "F16", 2, 2}},
    {"BFloat16Storage", {DType::bf16, "BF16", 2, 2}},
    {"LongStorage", {DType::i64, "I64", 8, 8}},
    {"IntStorage", {DType::i32, "I32", 4, 4}},
    {"ShortStorage", {DType::i16, "I16", 2, 2}},
    {"CharStorage", {DType::i8, "I8", 1, 1}},
    {"ByteStorage", {DType::u8, "U8", 1, 1}},
    {"UntypedStorage", {DType::u8, "U8", 1, 1}},
    {"BoolStorage", {DType::boolean, "BOOL", 1, 1}},
    {"ComplexFloatStorage", {DType::c64, "C64", 8, 4}},
    {"ComplexDoubleStorage", {DType::unknown, "C128", 16, 8}},
    {"QInt8Storage", {DType::unknown, "QI8", 1, 1}},
    {"QUInt8Storage", {DType::unknown, "QU8", 1, 1}},
    {"QInt32Storage", {DType::unknown, "QI32", 4, 4}},
    {"QUInt4x2Storage", {DType::unknown, "QU4x2", 1, 1}},
    {"QUInt2x4Storage", {DType::unknown, "QU2x4", 1, 1}},
    {"float64", {DType::f64, "F64", 8, 8}},
    {"double", {DType::f64, "F64", 8, 8}},
    {"float32", {DType::f32, "F32", 4, 4}},
    {"float", {DType::f32, "F32", 4, 4}},
    {"float16", {DType::f16, "F16", 2, 2}},
    {"half", {DType::f16, "F16", 2, 2}},
    {"bfloat16", {DType::bf16, "BF16", 2, 2}},
    {"int64", {DType::i64, "I64", 8, 8}},
    {"long", {DType::i64, "I64", 8, 8}},
    {"int32", {DType::i32, "I32", 4, 4}},
    {"int", {DType::i32, "I32", 4, 4}},
    {"int16", {DType::i16, "I16", 2, 2}},
    {"short", {DType::i16, "I16", 2, 2}},
    {"int8", {DType::i8, "I8", 1, 1}},
    {"uint8", {DType::u8, "U8", 1, 1}},
    {"uint16", {DType::u16, "U16", 2, 2}},
    {"uint32", {DType::u32, "U32", 4, 4}},
    {"uint64", {DType::u64, "U64", 8, 8}},
    {"bool", {DType::boolean, "BOOL", 1, 1}},
    {"float8_e4m3fn", {DType::f8_e4m3, "F8_E4M3", 1, 1}},
    {"float8_e5m2", {DType::f8_e5m2, "F8_E5M2", 1, 1}},
    {"float8_e8m0fnu", {DType::f8_e8m0, "F8_E8M0", 1, 1}},
    {"float8_e4m3fnuz", {DType::unknown, "F8_E4M3FNUZ", 1, 1}},
    {"float8_e5m2fnuz", {DType::unknown, "F8_E5M2FNUZ", 1, 1}},
    {"float4_e2m1fn_x2", {DType::unknown, "F4x2", 1, 1}},
    {"complex64", {DType::c64, "C64", 8, 4}},
    {"cfloat", {DType::c64, "C64", 8, 4}},
    {"complex32", {DType::unknown, "C32", 4, 2}},
    {"chalf", {DType::unknown, "C32", 4, 2}},
    {"complex128", {DType::unknown, "C128", 16, 8}},
    {"cdouble", {DType::unknown, "C128", 16, 8}},
    {"bits8", {DType::unknown, "bits8", 1, 1}},
    {"bits16", {DType::unknown, "bits16", 2, 2}},
    {"bits1x8", {DType::unknown, "bits1x8", 1, 1}},
    {"bits2x4", {DType::unknown, "bits2x4", 1, 1}},
    {"bits4x2", {DType::unknown, "bits4x2", 1, 1}},
    {"qint8", {DType::unknown, "QI8", 1, 1}},
    {"quint8", {DType::unknown, "QU8", 1, 1}},
    {"qint32", {DType::unknown, "QI32", 4, 4}},
    {"quint4x2", {DType::unknown, "QU4x2", 1, 1}},
    {"quint2x4", {DType::unknown, "QU2x4", 1, 1}},
    {"int1", {DType::unknown, "I1", 1, 1}},
    {"int2", {DType::unknown, "I2", 1, 1}},
    {"int3", {DType::unknown, "I3", 1, 1}},
    {"int4", {DType::unknown, "I4", 1, 1}},
    {"int5", {DType::unknown, "I5", 1, 1}},
    {"int6", {DType::unknown, "I6", 1, 1}},
    {"int7", {DType::unknown, "I7", 1, 1}},
    {"uint1", {DType::unknown, "U1", 1, 1}},
    {"uint2", {DType::unknown, "U2", 1, 1}},
    {"uint3", {DType::unknown, "U3", 1, 1}},
    {"uint4", {DType::unknown, "U4", 1, 1}},
    {"uint5", {DType::unknown, "U5", 1, 1}},
    {"uint6", {DType::unknown, "U6", 1, 1}},
    {"uint7", {DType::unknown, "U7", 1, 1}},
};

}  // namespace

TorchType torch_type(std::string_view name) {
  for (const std::string_view prefix : {"torch.cuda.", "torch.storage.", "torch."})
    if (name.starts_with(prefix)) {
      name.remove_prefix(prefix.size());
      break;
    }
  if (name == "_UntypedStorage") name = "UntypedStorage";
  for (const Row& row : kRows)
    if (row.name == name) return row.type;
  return {};
}

}  // namespace slotscope::formats
