// Statistics of one tensor: against values worked out by hand, against a plain twin that sorts all of it, and what is
// bounded, refused and cancelled.
#include "core/formats/tensor_statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/formats/values.h"
#include "tests/cases/case.h"
#include "tests/cases/formats/files.h"

using namespace slotscope::formats;
using namespace slotscope::testing;
using slotscope::Progress;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Opened {
  std::shared_ptr<const Checkpoint> checkpoint;
  const TensorInfo& tensor() const { return checkpoint->tensors()[0]; }
};

Opened one_tensor(Context& t, const std::string& dtype, uint64_t count, const std::string& data) {
  const auto path = t.temp() / "model.safetensors";
  write_file(path, safetensors("{\"w\":" + entry(dtype, "[" + std::to_string(count) + "]", 0, data.size()) + "}", data));
  return {Checkpoint::open(path)};
}

template <class T>
Opened one_tensor(Context& t, const std::string& dtype, const std::vector<T>& values) {
  return one_tensor(t, dtype, values.size(),
                    std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)));
}

TensorStatistics statistics(const Opened& opened, const StatisticsOptions& options = {}) {
  return tensor_statistics(*opened.checkpoint, opened.tensor(), options).value();
}

uint64_t next(uint64_t& state) {
  state ^= state << 13;
  state ^= state >> 7;
  return state ^= state << 17;
}

double unit(uint64_t& state) { return double(next(state) >> 11) * 0x1p-53; }

// What the definition says, of all elements at once. `digits`: how well mean and deviation must agree, relative to the
// largest magnitude (long double has 64 bits of mantissa here, and the twin's sums are plain).
template <class T>
void check_against_twin(Context& t, const std::string& dtype, const std::vector<T>& values,
                        const StatisticsOptions& options, double digits) {
  const TensorStatistics got = statistics(one_tensor(t, dtype, values), options);
  std::vector<double> finite;
  uint64_t nan = 0, plus = 0, minus = 0, zeros = 0;
  for (T v : values) {
    const auto x = double(v);
    if (std::isnan(x)) ++nan;
    else if (x == kInf) ++plus;
    else if (x == -kInf) ++minus;
    else finite.push_back(x), zeros += x == 0;
  }
  std::sort(finite.begin(), finite.end());
  CHECK_EQ(got.count, uint64_t(values.size()));
  CHECK_EQ(got.finite, uint64_t(finite.size()));
  CHECK_EQ(got.nan, nan);
  CHECK_EQ(got.positive_infinity, plus);
  CHECK_EQ(got.negative_infinity, minus);
  CHECK_EQ(got.zeros, zeros);
  if (finite.empty()) return;
  CHECK_EQ(got.minimum, finite.front());
  CHECK_EQ(got.maximum, finite.back());
  const double size = std::max(std::abs(finite.front()), std::abs(finite.back()));
  CHECK_EQ(got.absolute_maximum, size);
  long double sum = 0, squares = 0, deviations = 0;
  for (double x : finite) sum += x;
  const long double mean = sum / finite.size();
  for (double x : finite) {
    squares += (long double)x * x;
    deviations += (x - mean) * (x - mean);
  }
  CHECK_CLOSE(got.mean, double(mean), digits * size);
  const double deviation = double(std::sqrt(deviations / finite.size()));
  CHECK_CLOSE(got.standard_deviation, deviation, digits * deviation);
  CHECK_CLOSE(got.l2_norm, double(std::sqrt(squares)), digits * double(std::sqrt(squares)));
  CHECK_EQ(got.quantiles.size(), options.quantiles.size());
  for (const Quantile& q : got.quantiles) {
    const double position = q.share * double(finite.size() - 1);
    const auto low = size_t(std::floor(position)), high = std::min(low + 1, finite.size() - 1);
    const double expected = finite[low] + (finite[high] - finite[low]) * (position - double(low));
    CHECK_CLOSE(q.value, expected, 1e-15 * std::abs(expected));
  }
  const Histogram& h = got.histogram;
  CHECK_EQ(h.counts.size(), size_t(options.bins));
  if (options.bins == 0) return;
  CHECK_EQ(h.edges.size(), size_t(options.bins) + 1);
  CHECK(std::is_sorted(h.edges.begin(), h.edges.end()));
  std::vector<uint64_t> expected(h.counts.size(), 0);
  uint64_t below = 0, above = 0;
  for (double x : finite) {
    if (x < h.edges.front()) ++below;
    else if (x > h.edges.back()) ++above;
    else
      ++expected[std::min(size_t(std::upper_bound(h.edges.begin(), h.edges.end(), x) - h.edges.begin()) - 1,
                          expected.size() - 1)];
  }
  CHECK_EQ(h.counts, expected);
  CHECK_EQ(h.below, below);
  CHECK_EQ(h.above, above);
}

std::vector<double> normal_values(size_t n, uint64_t seed) {
  std::vector<double> values(n);
  for (double& v : values) v = 0.02 * std::sqrt(-2 * std::log(1 - unit(seed))) * std::cos(6.283185307179586 * unit(seed));
  return values;
}

}  // namespace

// 1, 2, 3, 4, NaN, inf, -inf, -0: all by hand.
SLOTSCOPE_CASE(by_hand) {
  const auto fill = [&](auto zero) {
    using T = decltype(zero);
    return std::vector<T>{T(1), T(4), T(kNaN), T(-0.0), T(kInf), T(2), T(-kInf), T(3), T(-kInf)};
  };
  const auto check = [&](const TensorStatistics& s) {
    CHECK_EQ(s.count, uint64_t(9));
    CHECK_EQ(s.finite, uint64_t(5));
    CHECK_EQ(s.nan, uint64_t(1));
    CHECK_EQ(s.positive_infinity, uint64_t(1));
    CHECK_EQ(s.negative_infinity, uint64_t(2));
    CHECK_EQ(s.zeros, uint64_t(1));
    CHECK_EQ(s.minimum_text, std::string("0"));
    CHECK_EQ(s.maximum_text, std::string("4"));
    CHECK_CLOSE(s.mean, 2.0, 1e-15);
    CHECK_CLOSE(s.standard_deviation, std::sqrt(2.0), 1e-15);
    CHECK_CLOSE(s.l2_norm, std::sqrt(30.0), 1e-14);
    CHECK_EQ(s.quantiles.size(), size_t(4));
    if (s.quantiles.size() != 4) return;
    CHECK_EQ(s.quantiles[0].value, 0.0);
    CHECK_EQ(s.quantiles[1].value, 2.0);
    CHECK_CLOSE(s.quantiles[2].value, 3.6, 1e-15);  // position 0.9 * 4 = 3.6
    CHECK_EQ(s.quantiles[3].value, 4.0);
    CHECK_EQ(s.histogram.edges, (std::vector<double>{0, 1, 2, 3, 4}));
    CHECK_EQ(s.histogram.counts, (std::vector<uint64_t>{1, 1, 1, 2}));
  };
  const StatisticsOptions options{.bins = 4, .quantiles = {0, 0.5, 0.9, 1}};
  check(statistics(one_tensor(t, "F32", fill(0.0f)), options));
  check(statistics(one_tensor(t, "F64", fill(0.0)), options));
  std::vector<uint16_t> bf16;
  for (float v : fill(0.0f)) {
    uint32_t bits;
    std::memcpy(&bits, &v, 4);
    bf16.push_back(uint16_t(bits >> 16));
  }
  check(statistics(one_tensor(t, "BF16", bf16), options));
  check(statistics(one_tensor(t, "F16", std::vector<uint16_t>{0x3C00, 0x4400, 0x7E01, 0x8000, 0x7C00, 0x4000, 0xFC00,
                                                              0x4200, 0xFC00}),
                   options));
}

// Random values of every computed dtype, longer than a block and than a slice, against the plain twin.
SLOTSCOPE_CASE(twin) {
  uint64_t state = 88172645463325252ull;
  const StatisticsOptions options{.bins = 37, .quantiles = {0, 0.001, 0.25, 0.5, 0.75, 0.999, 1}};
  StatisticsOptions logarithmic = options, ranged = options, none = options;
  logarithmic.scale = BinScale::symmetric_log;
  ranged.range = {-0.01, 0.03};
  none.bins = 0;
  const std::vector<double> normal = normal_values((1 << 20) + 12345, 7);
  std::vector<float> narrow(normal.begin(), normal.end());
  narrow[5] = std::numeric_limits<float>::quiet_NaN(), narrow[narrow.size() - 1] = -std::numeric_limits<float>::infinity();
  for (size_t i = 100; i < 9000; ++i) narrow[i] = 0;  // two blocks of nothing else
  const double large = 0x1p-52 * 20;  // log2 of their number: rounding of the tree of blocks
  check_against_twin(t, "F32", narrow, options, large);
  check_against_twin(t, "F32", narrow, logarithmic, large);
  check_against_twin(t, "F32", narrow, ranged, large);
  check_against_twin(t, "F64", normal, none, large);
  const auto random = [&](auto zero) {
    std::vector<decltype(zero)> values(5000);
    for (auto& v : values) v = decltype(zero)(next(state));
    values[17] = 0;
    return values;
  };
  for (const StatisticsOptions& o : {options, logarithmic, none}) {
    check_against_twin(t, "F64", normal_values(5000, 3), o, 1e-15);
    check_against_twin(t, "I8", random(int8_t()), o, 1e-15);
    check_against_twin(t, "U8", random(uint8_t()), o, 1e-15);
    check_against_twin(t, "I16", random(int16_t()), o, 1e-15);
    check_against_twin(t, "U16", random(uint16_t()), o, 1e-15);
    check_against_twin(t, "I32", random(int32_t()), o, 1e-15);
    check_against_twin(t, "U32", random(uint32_t()), o, 1e-15);
    check_against_twin(t, "I64", random(int64_t()), o, 1e-15);
    check_against_twin(t, "U64", random(uint64_t()), o, 1e-15);
    check_against_twin(t, "F32", std::vector<float>{3.5f}, o, 1e-15);
  }
}

// Every code of the small kinds once: what convert_values says they are is what is counted.
SLOTSCOPE_CASE(all_codes) {
  for (const std::string dtype : {"F8_E4M3", "F8_E5M2", "F16", "BF16"}) {
    const bool small = dtype.starts_with("F8");
    const size_t codes = small ? 256 : 65536;
    std::string data;
    for (size_t code = 0; code < codes; ++code) {
      data += char(code & 0xFF);
      if (!small) data += char(code >> 8);
    }
    const Opened opened = one_tensor(t, dtype, codes, data);
    const TensorStatistics s = statistics(opened, {.bins = 10});
    uint64_t finite = 0, nan = 0;
    double largest = 0;
    for (double v : read_values(*opened.checkpoint, opened.tensor(), 0, codes)) {
      finite += std::isfinite(v);
      nan += std::isnan(v);
      if (std::isfinite(v)) largest = std::max(largest, v);
    }
    CHECK_EQ(s.finite, finite);
    CHECK_EQ(s.nan, nan);
    CHECK_EQ(s.zeros, uint64_t(2));
    CHECK_EQ(s.maximum, largest);
    CHECK_EQ(s.minimum, -largest);
    CHECK_CLOSE(s.mean, 0.0, 1e-15 * largest);
    CHECK_EQ(s.positive_infinity + s.negative_infinity + s.nan + s.finite, uint64_t(codes));
    uint64_t binned = 0;
    for (uint64_t n : s.histogram.counts) binned += n;
    CHECK_EQ(binned, finite);
  }
}

// Whole numbers beyond 2^53 are never rounded on their way to the ends and the deviation.
SLOTSCOPE_CASE(large_whole_numbers) {
  const int64_t base = (int64_t(1) << 62) + 1;
  const TensorStatistics s = statistics(one_tensor(t, "I64", std::vector<int64_t>{base, base + 2, base + 4, base + 2}));
  CHECK_EQ(s.minimum_text, std::string("4611686018427387905"));
  CHECK_EQ(s.maximum_text, std::string("4611686018427387909"));
  CHECK_CLOSE(s.standard_deviation, std::sqrt(2.0), 1e-15);
  const TensorStatistics ends = statistics(
      one_tensor(t, "I64", std::vector<int64_t>{std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()}));
  CHECK_EQ(ends.minimum_text, std::string("-9223372036854775808"));
  CHECK_EQ(ends.maximum_text, std::string("9223372036854775807"));
  CHECK_EQ(ends.mean, -0.5);
  CHECK_EQ(statistics(one_tensor(t, "U64", std::vector<uint64_t>{UINT64_MAX, 0})).maximum_text,
           std::string("18446744073709551615"));
  const TensorStatistics booleans = statistics(one_tensor(t, "BOOL", std::vector<uint8_t>{0, 1, 1, 7, 0}));
  CHECK_EQ(booleans.zeros, uint64_t(2));
  CHECK_EQ(booleans.maximum_text, std::string("1"));
  CHECK_CLOSE(booleans.mean, 0.6, 1e-15);
}

// A mean far above the deviation, and doubles whose squares have no double.
SLOTSCOPE_CASE(hard_sums) {
  std::vector<double> values;
  for (int i = 0; i < 30000; ++i) values.push_back(1e9 + i % 3);
  const TensorStatistics offset = statistics(one_tensor(t, "F64", values));
  CHECK_EQ(offset.mean, 1e9 + 1);
  CHECK_CLOSE(offset.standard_deviation, std::sqrt(2.0 / 3), 1e-12);
  const TensorStatistics huge = statistics(one_tensor(t, "F64", std::vector<double>{1e300, -1e300, 3e300, 1e300}));
  CHECK_CLOSE(huge.mean / 1e300, 1.0, 1e-15);
  CHECK_CLOSE(huge.standard_deviation / 1e300, std::sqrt(2.0), 1e-15);
  CHECK_CLOSE(huge.l2_norm / 1e300, std::sqrt(12.0), 1e-14);
  const double most = std::numeric_limits<double>::max();
  const TensorStatistics limits = statistics(one_tensor(t, "F64", std::vector<double>{most, -most}), {.bins = 2});
  CHECK_EQ(limits.mean, 0.0);
  CHECK_CLOSE(limits.standard_deviation / most, 1.0, 1e-15);
  CHECK_EQ(limits.histogram.counts, (std::vector<uint64_t>{1, 1}));
  CHECK_EQ(limits.histogram.edges, (std::vector<double>{-most, 0, most}));
  const double least = std::numeric_limits<double>::denorm_min();
  const TensorStatistics tiny = statistics(one_tensor(t, "F64", std::vector<double>{least, 3 * least}), {.bins = 0, .quantiles = {}});
  CHECK_EQ(tiny.mean, 2 * least);
  CHECK_EQ(tiny.standard_deviation, least);
  for (const BinScale scale : {BinScale::linear, BinScale::symmetric_log})
    for (const double value : {least, most, -most, 0.0, 7.0}) {
      const TensorStatistics flat = statistics(one_tensor(t, "F64", std::vector<double>(5, value)), {.bins = 3, .scale = scale});
      CHECK_EQ(flat.histogram.counts[0] + flat.histogram.counts[1] + flat.histogram.counts[2], uint64_t(5));
      CHECK_EQ(flat.standard_deviation, 0.0);
      for (double edge : flat.histogram.edges) CHECK(std::isfinite(edge));
    }
}

// symmetric_log: equal steps of sign(x) log(1 + |x| / unit), zero in the middle of a symmetric range.
SLOTSCOPE_CASE(symmetric_log) {
  const TensorStatistics s = statistics(one_tensor(t, "F32", std::vector<float>{-8, -0.5f, 0, 0.5f, 2, 8}),
                                        {.bins = 4, .scale = BinScale::symmetric_log, .unit = 1});
  CHECK_EQ(s.histogram.unit, 1.0);
  const std::vector<double> edges = {-8, -2, 0, 2, 8};  // log(1 + 8) = 2 log(1 + 2)
  for (size_t i = 0; i < edges.size(); ++i) CHECK_CLOSE(s.histogram.edges[i], edges[i], 1e-14);
  CHECK_EQ(s.histogram.counts[0], uint64_t(1));
  CHECK_EQ(s.histogram.counts[1], uint64_t(1));
  CHECK_EQ(s.histogram.counts[2] + s.histogram.counts[3], uint64_t(4));
}

// Nothing finite, nothing at all.
SLOTSCOPE_CASE(nothing_finite) {
  for (const std::vector<float>& values : {std::vector<float>{}, std::vector<float>{float(kNaN), float(kInf)}}) {
    const TensorStatistics s = statistics(one_tensor(t, "F32", values));
    CHECK_EQ(s.count, uint64_t(values.size()));
    CHECK_EQ(s.finite, uint64_t(0));
    CHECK(std::isnan(s.minimum) && std::isnan(s.mean) && std::isnan(s.standard_deviation) && std::isnan(s.l2_norm));
    CHECK(s.minimum_text.empty() && s.quantiles.empty() && s.histogram.counts.empty());
  }
}

// What is refused, and by which name.
SLOTSCOPE_CASE(refused) {
  CHECK_ERROR(statistics(one_tensor(t, "F8_E8M0", 2, "ab")), "model.safetensors", "tensor 'w'", "F8_E8M0 cannot be computed");
  const Opened opened = one_tensor(t, "F32", std::vector<float>{1});
  CHECK_ERROR(statistics(opened, {.bins = -1}), "bins", "-1");
  CHECK_ERROR(statistics(opened, {.bins = kMaxBins + 1}), "bins", "65537");
  CHECK_ERROR(statistics(opened, {.unit = -1}), "unit");
  CHECK_ERROR(statistics(opened, {.range = {{1, 1}}}), "range");
  CHECK_ERROR(statistics(opened, {.range = {{0, kInf}}}), "range");
  CHECK_ERROR(statistics(opened, {.quantiles = {1.5}}), "quantiles", "1.5");
  CHECK_ERROR(statistics(opened, {.quantiles = {kNaN}}), "quantiles");
}

// Progress counts every pass, and a request to stop ends it with nothing.
SLOTSCOPE_CASE(progress_and_cancel) {
  const Opened opened = one_tensor(t, "F64", std::vector<double>(3000, 1.5));
  Progress progress;
  CHECK(tensor_statistics(*opened.checkpoint, opened.tensor(), {}, &progress).has_value());
  CHECK_EQ(progress.snapshot().stage, std::string("reading tensor"));
  CHECK_EQ(progress.snapshot().total, int64_t(4 * 3000));
  CHECK_EQ(progress.snapshot().done, int64_t(4 * 3000));
  progress.request_cancel();
  CHECK(!tensor_statistics(*opened.checkpoint, opened.tensor(), {}, &progress).has_value());
}
