// Every dtype of the format (bad-inputs B10): values as stored, whole numbers exactly, the kinds that cannot be computed with
// listed and refused by name. All codes of the 8- and 16-bit kinds against formulas of their own.
#include <bit>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/formats/checkpoint.h"
#include "core/formats/values.h"
#include "tests/cases/case.h"
#include "tests/cases/formats/files.h"

using namespace slotscope::formats;
using namespace slotscope::testing;

namespace {

std::shared_ptr<const Checkpoint> one(Context& t, std::string_view dtype, std::string_view shape, std::string_view data) {
  const auto path = t.temp() / "model.safetensors";
  write_file(path, safetensors("{\"w\":" + entry(dtype, shape, 0, data.size()) + "}", data));
  return Checkpoint::open(path);
}

std::vector<double> values(const Checkpoint& checkpoint) {
  const TensorInfo& tensor = checkpoint.tensors().at(0);
  return read_values(checkpoint, tensor, 0, element_count(tensor));
}
std::vector<double> values(Context& t, std::string_view dtype, std::string_view shape, std::string_view data) {
  return values(*one(t, dtype, shape, data));
}
std::vector<std::string> texts(Context& t, std::string_view dtype, std::string_view data, uint64_t count) {
  const auto checkpoint = one(t, dtype, "[" + std::to_string(count) + "]", data);
  return read_values_text(*checkpoint, checkpoint->tensors().at(0), 0, count);
}

std::string all_codes(int bytes) {
  std::string codes;
  for (uint32_t code = 0; code < (1u << 8 * bytes); ++code)
    for (int byte = 0; byte < bytes; ++byte) codes += char(code >> 8 * byte & 0xFF);
  return codes;
}

// The values of a kind by counting, in units of its smallest subnormal: the codes 0, 1, 2 ... of one sign rise by one unit up
// to twice the smallest normal number, then by two, by four ... Nothing of it shares a line with the reader's formula.
struct Kind {
  std::string name;
  int mantissa_bits;
  double unit;           // smallest subnormal
  uint32_t finite;       // codes of one sign that are finite
  bool infinity;         // whether the next code is infinity
};

void check_all_codes(Context& t, const Kind& kind, int bytes) {
  const uint32_t half = 1u << (8 * bytes - 1);
  const auto checkpoint = one(t, kind.name, "[" + std::to_string(2 * half) + "]", all_codes(bytes));
  const std::vector<double> got = values(*checkpoint);
  std::vector<float> narrow(got.size());
  convert_values(checkpoint->data(checkpoint->tensors()[0]).bytes.data(), checkpoint->tensors()[0].dtype, narrow.size(),
                 narrow.data());
  double value = 0, step = kind.unit;
  for (uint32_t code = 0; code < half; ++code) {
    double expected = value;
    if (code == kind.finite && kind.infinity) expected = INFINITY;
    else if (code >= kind.finite) expected = NAN;
    for (const uint32_t signed_code : {code, code + half}) {
      const double want = signed_code >= half ? -expected : expected, found = got[signed_code];
      const bool same = std::isnan(want) ? std::isnan(found) : found == want && std::signbit(found) == std::signbit(want);
      const bool narrow_same = std::isnan(want) ? std::isnan(narrow[signed_code]) : narrow[signed_code] == float(want);
      if (!same || !narrow_same)
        return t.fail(kind.name + " code " + std::to_string(signed_code) + ": got " + to_text(found) + ", expected " +
                          to_text(want), __FILE__, __LINE__);
    }
    if (code + 1 < kind.finite) {
      value += step;
      // 2^mantissa_bits steps per power of two, the subnormals and the first normal power sharing one step.
      if ((code + 1) % (1u << kind.mantissa_bits) == 0 && code + 1 >= (2u << kind.mantissa_bits)) step *= 2;
    }
  }
}

}  // namespace

// The bytes of B10, as written there.
SLOTSCOPE_CASE(bytes_of_b10) {
  CHECK_EQ(values(t, "BF16", "[2]", "\x80\x3f\x20\xc0"), (std::vector<double>{1, -2.5}));
  CHECK_EQ(values(t, "F16", "[1]", std::string_view("\x00\x3c", 2)), std::vector<double>{1});
  const auto e4m3 = values(t, "F8_E4M3", "[4]", "\x38\x7e\x7f\x01");
  CHECK(e4m3[0] == 1 && e4m3[1] == 448 && std::isnan(e4m3[2]) && e4m3[3] == 0.001953125);
  const auto e5m2 = values(t, "F8_E5M2", "[4]", "\x3c\x7b\x7c\x01");
  CHECK(e5m2[0] == 1 && e5m2[1] == 57344 && e5m2[2] == INFINITY && e5m2[3] == 1.52587890625e-05);
  CHECK_EQ(values(t, "BOOL", "[2]", std::string_view("\0\1", 2)), (std::vector<double>{0, 1}));
  CHECK_EQ(texts(t, "I64", raw<int64_t>({std::numeric_limits<int64_t>::min()}), 1),
           std::vector<std::string>{"-9223372036854775808"});
  CHECK_EQ(texts(t, "U64", raw<uint64_t>({UINT64_MAX}), 1), std::vector<std::string>{"18446744073709551615"});
}

// Both ends of every kind of whole number, as value and as text; 64 bits never go through double.
SLOTSCOPE_CASE(whole_numbers) {
  const auto ends = [&]<class T>(T, const std::string& dtype) {
    const T least = std::numeric_limits<T>::min(), largest = std::numeric_limits<T>::max();
    const std::string data = raw<T>({least, largest, T(1), T(largest - 1)});
    CHECK_EQ(values(t, dtype, "[2,2]", data), (std::vector<double>{double(least), double(largest), 1, double(largest - 1)}));
    CHECK_EQ(texts(t, dtype, data, 4),
             (std::vector<std::string>{std::to_string(least), std::to_string(largest), "1", std::to_string(T(largest - 1))}));
  };
  ends(int8_t(), "I8");
  ends(uint8_t(), "U8");
  ends(int16_t(), "I16");
  ends(uint16_t(), "U16");
  ends(int32_t(), "I32");
  ends(uint32_t(), "U32");
  ends(int64_t(), "I64");
  ends(uint64_t(), "U64");
  // 2^53 + 1 is the first whole number that no double holds; 100000 must not become 1e+05.
  CHECK_EQ(texts(t, "I64", raw<int64_t>({9007199254740993, -9007199254740993}), 2),
           (std::vector<std::string>{"9007199254740993", "-9007199254740993"}));
  CHECK_EQ(texts(t, "I32", raw<int32_t>({100000, -2000000000}), 2), (std::vector<std::string>{"100000", "-2000000000"}));
  CHECK_EQ(texts(t, "U16", raw<uint16_t>({20000, 10000}), 2), (std::vector<std::string>{"20000", "10000"}));
  CHECK_EQ(texts(t, "U32", raw<uint32_t>({4000000000u}), 1), std::vector<std::string>{"4000000000"});
}

SLOTSCOPE_CASE(reals) {
  const double least = std::numeric_limits<double>::denorm_min(), largest = std::numeric_limits<double>::max();
  CHECK_EQ(values(t, "F64", "[5]", raw<double>({0.1, least, largest, -INFINITY, -0.0})),
           (std::vector<double>{0.1, least, largest, -INFINITY, -0.0}));
  CHECK(std::isnan(values(t, "F64", "[]", raw<double>({std::nan("")}))[0]));
  const float small = std::numeric_limits<float>::denorm_min();
  CHECK_EQ(values(t, "F32", "[3]", raw<float>({0.1f, small, -std::numeric_limits<float>::max()})),
           (std::vector<double>{double(0.1f), double(small), -double(std::numeric_limits<float>::max())}));
  CHECK_EQ(texts(t, "F64", raw<double>({0.1, -2.5, -INFINITY}), 3), (std::vector<std::string>{"0.1", "-2.5", "-Infinity"}));
  CHECK_EQ(texts(t, "F32", raw<float>({0.1f, 16777216.0f, NAN, 1e-45f}), 4),
           (std::vector<std::string>{"0.1", "16777216", "NaN", "1e-45"}));
  CHECK_EQ(texts(t, "BF16", "\xcd\x3d", 1), std::vector<std::string>{"0.10009765625"});
  // Values of any start: a tensor behind one of odd size is not aligned.
  const auto path = t.temp() / "model.safetensors";
  write_file(path, safetensors("{\"a\":" + entry("U8", "[1]", 0, 1) + ",\"b\":" + entry("F64", "[1]", 1, 9) + "}",
                               "x" + raw<double>({0.7})));
  const auto odd = Checkpoint::open(path);
  CHECK_EQ(read_values(*odd, *odd->find("b"), 0, 1), std::vector<double>{0.7});
}

// All codes: FP8 in both forms (E4M3 without infinity and with one NaN of each sign, E5M2 as IEEE), half floats.
SLOTSCOPE_CASE(all_codes_by_counting) {
  check_all_codes(t, {"F8_E4M3", 3, std::ldexp(1.0, -9), 127, false}, 1);
  check_all_codes(t, {"F8_E5M2", 2, std::ldexp(1.0, -16), 124, true}, 1);
  check_all_codes(t, {"F16", 10, std::ldexp(1.0, -24), 31744, true}, 2);
  check_all_codes(t, {"BF16", 7, std::ldexp(1.0, -133), 32640, true}, 2);
}

// Every byte of BOOL that is not 0 is true.
SLOTSCOPE_CASE(booleans) {
  const std::vector<double> got = values(t, "BOOL", "[256]", all_codes(1));
  for (size_t code = 0; code < 256; ++code)
    if (got[code] != (code ? 1.0 : 0.0)) t.fail("BOOL " + std::to_string(code), __FILE__, __LINE__);
}

// Kinds that are listed with name and size; only using them is refused, by name. Sizes are checked for all of them.
SLOTSCOPE_CASE(listed_only) {
  struct Row {
    const char* dtype;
    const char* shape;
    size_t bytes;
  };
  for (const Row& row : {Row{"C64", "[1]", 8}, Row{"F4", "[4]", 2}, Row{"F8_E8M0", "[1]", 1}, Row{"F6_E2M3", "[4]", 3},
                         Row{"F6_E3M2", "[4,2]", 6}, Row{"F8_E4M3FNUZ", "[3]", 3}, Row{"F8_E5M2FNUZ", "[3]", 3}}) {
    const auto checkpoint = one(t, row.dtype, row.shape, std::string(row.bytes, '\1'));
    const TensorInfo& tensor = checkpoint->tensors().at(0);
    CHECK_EQ(tensor.dtype_text, std::string(row.dtype));
    CHECK_EQ(tensor.bytes, uint64_t(row.bytes));
    CHECK(!can_compute(tensor.dtype));
    CHECK_ERROR(values(*checkpoint), "model.safetensors", "tensor 'w'", std::string("dtype ") + row.dtype, "cannot be computed");
    CHECK_ERROR(read_values_text(*checkpoint, tensor, 0, 1), "tensor 'w'", row.dtype);
    CHECK_ERROR(one(t, row.dtype, row.shape, std::string(row.bytes + 1, '\1')), "tensor 'w'", row.dtype, "needs",
                "give " + std::to_string(row.bytes + 1));
  }
  CHECK_ERROR(one(t, "F6_E2M3", "[3]", "ab"), "no whole number of bytes");
  // A name from the future: listed as it is.
  const auto unknown = one(t, "F3_E1M1", "[8]", "abc");
  CHECK_EQ(unknown->tensors()[0].dtype_text, std::string("F3_E1M1"));
  CHECK_EQ(unknown->tensors()[0].bytes, uint64_t(3));
  CHECK_ERROR(values(*unknown), "F3_E1M1", "tensor 'w'");
  CHECK(!unknown->notes().empty());
}

// FP8 without scales is never silent.
SLOTSCOPE_CASE(float8_warns) {
  const auto bare = one(t, "F8_E4M3", "[2]", "\x38\x40");
  CHECK_EQ(bare->warnings(),
           std::vector<std::string>{"1 FP8 tensor without a scale ('w'): the values may need a factor that is not stored"});
  const auto open = [&](const std::string& header, size_t bytes) {
    const auto path = t.temp() / "model.safetensors";
    write_file(path, safetensors(header, std::string(bytes, '\0')));
    return Checkpoint::open(path);
  };
  const auto scaled = open("{\"w\":" + entry("F8_E5M2", "[2]", 0, 2) + ",\"w_scale\":" + entry("F32", "[]", 2, 6) + "}", 6);
  CHECK(scaled->warnings().empty());
  CHECK_EQ(scaled->notes(), std::vector<std::string>{"1 FP8 tensor with scales: values are shown as stored, no scale is applied"});
  // A norm called "scale" is no scale of a weight elsewhere.
  const auto norm = open("{\"a.weight\":" + entry("F8_E5M2", "[2]", 0, 2) + ",\"norm.scale\":" + entry("F32", "[]", 2, 6) + "}", 6);
  CHECK_EQ(norm->warnings().size(), size_t(1));
}
