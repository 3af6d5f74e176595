// Compiled without contraction (core/CMakeLists.txt): a multiplication and an addition must not become one operation on machines
// that have it.
#include "core/formats/random_weights.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/formats/encode.h"
#include "core/formats/random.h"
#include "core/formats/sha256.h"

namespace slotscope::formats {
namespace {

constexpr uint64_t kGamma = 0x9E3779B97F4A7C15ull;  // step of SplitMix64: value number n begins at base + n * draws * kGamma
constexpr uint64_t kDraws = 4;                      // of a value

// The first 64 bits of a SHA-256.
uint64_t base_of(uint64_t seed, const std::string& name) {
  const std::string digits = sha256_hex("slotscope weights 1\n" + std::to_string(seed) + "\n" + name).substr(0, 16);
  uint64_t value = 0;
  for (const char c : digits) value = value << 4 | uint64_t(c <= '9' ? c - '0' : c - 'a' + 10);
  return value;
}

// Sum of twelve uniform whole numbers below 2^21, less its mean, in units of the deviation.
double normal(SplitMix64& random) {
  constexpr uint64_t kMask = (uint64_t(1) << 21) - 1;
  int64_t sum = 0;
  for (uint64_t i = 0; i < kDraws; ++i) {
    const uint64_t x = random.next();
    sum += int64_t(x & kMask) + int64_t(x >> 21 & kMask) + int64_t(x >> 42 & kMask);
  }
  return double(sum - 6 * int64_t(kMask)) * 0x1p-21;
}

double uniform(SplitMix64& random) {
  const double value = double(random.next() >> 11) * 0x1p-53;
  for (uint64_t i = 1; i < kDraws; ++i) random.next();
  return value;
}

bool has(const std::string& name, const char* part) { return name.find(part) != std::string::npos; }

Initial vector_of(const RandomModel& model, const std::string& name) {
  const auto is = [&](const char* end) { return name.ends_with(end); };
  using enum Initial::Kind;
  if (is("A_log")) return {uniform, 0, 2.77};
  if (is("dt_bias") || is("dt_proj.bias")) return {uniform, -6.9, -2.25};
  if (is(".D")) return {normal, 1, 0.1};
  if (is("_log_scale")) return {uniform, 0, 1};
  if (is("gamma_proj.bias")) return {normal, 0, 1};
  if (model.model_type == "ramnet" && is("g_proj.bias")) return {normal, 3, 0.1};
  if (model.model_type == "forgetting_transformer" && is("f_proj.bias")) return {uniform, 1, 5};
  if (is(".bias")) return {normal, 0, 0.02};
  if (has(name, "norm")) return {normal, 1, 0.1};
  return {normal, 0, 0.1};
}

}  // namespace

Initial initial_of(const RandomModel& model, const ExpectedTensor& tensor) {
  const std::string& name = tensor.name;
  if (tensor.shape.size() < 2) return vector_of(model, name);
  if (name.ends_with("A_log")) return {Initial::Kind::uniform, 0, 2.77};
  if (name.ends_with("r_bias")) return {Initial::Kind::normal, 0, 0.1};
  double columns = 1;
  for (size_t i = 1; i < tensor.shape.size(); ++i) columns *= double(std::max<int64_t>(tensor.shape[i], 1));
  const double plain = 1 / std::sqrt(columns);  // correctly rounded, each of the two
  if (name == model.embedding) return {Initial::Kind::normal, 0, model.tied ? plain : 1};
  for (const char* end : {"o_proj.weight", "out_proj.weight", "down_proj.weight", "dense.weight", "dense_4h_to_h.weight"})
    if (name.ends_with(end)) return {Initial::Kind::normal, 0, plain / std::sqrt(2 * double(std::max<int64_t>(model.layers, 1)))};
  return {Initial::Kind::normal, 0, plain};
}

DType stored_dtype(const ExpectedTensor& tensor, DType dtype) {
  const bool decay = tensor.name.ends_with(".A_log") || tensor.name.ends_with(".dt_bias");
  return decay && dtype_bits(dtype) < 32 ? DType::f32 : dtype;
}

RandomTensor::RandomTensor(uint64_t seed, const std::string& name, const Initial& initial) : base_(base_of(seed, name)), initial_(initial) {}

void RandomTensor::fill(uint64_t first, uint64_t count, double* out) const {
  SplitMix64 random(base_ + first * kDraws * kGamma);
  if (initial_.kind == Initial::Kind::normal) {
    for (uint64_t i = 0; i < count; ++i) {
      const double scaled = normal(random) * initial_.b;
      out[i] = initial_.a + scaled;
    }
    return;
  }
  const double width = initial_.b - initial_.a;
  for (uint64_t i = 0; i < count; ++i) {
    const double scaled = uniform(random) * width;
    out[i] = initial_.a + scaled;
  }
}

void RandomTensor::fill(DType dtype, uint64_t first, uint64_t count, std::byte* out) const {
  if (!can_encode(dtype))
    throw Error({.item = "dtype", .found = std::string(dtype_name(dtype)), .expected = "F64, F32, BF16 or F16"});
  constexpr uint64_t kBlock = 1024;
  double values[kBlock];
  const uint64_t size = uint64_t(dtype_bits(dtype)) / 8;
  for (uint64_t at = 0; at < count; at += kBlock) {
    const uint64_t n = std::min(kBlock, count - at);
    fill(first + at, n, values);
    encode_values(values, dtype, n, out + at * size);
  }
}

}  // namespace slotscope::formats
