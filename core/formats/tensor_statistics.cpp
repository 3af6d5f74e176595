#include "core/formats/tensor_statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <tuple>

#include "core/error.h"
#include "core/formats/config.h"
#include "core/formats/json.h"
#include "core/formats/moments.h"
#include "core/formats/order_statistics.h"
#include "core/formats/torch_slice.h"
#include "core/formats/utf8.h"
#include "core/formats/values.h"

namespace slotscope::formats {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr uint64_t kSlice = 1 << 20;  // elements per read
constexpr size_t kBlock = 4096;       // elements per block: 32 KiB as double

void check_options(const StatisticsOptions& o) {
  const auto refuse = [](std::string item, std::string found, std::string expected) {
    throw Error({"", std::move(item), std::move(found), std::move(expected), ""}, Error::Kind::usage);
  };
  if (o.bins < 0 || o.bins > kMaxBins)
    refuse("bins", std::to_string(o.bins), "a number from 0 to " + std::to_string(kMaxBins));
  if (!(o.unit >= 0) || std::isinf(o.unit)) refuse("unit", number_text(o.unit), "a positive number, or 0 to choose one");
  if (o.range && !(std::isfinite(o.range->first) && std::isfinite(o.range->second) && o.range->first < o.range->second))
    refuse("range", number_text(o.range->first) + " to " + number_text(o.range->second),
           "two finite numbers, the smaller first");
  if (o.quantiles.size() > kMaxQuantiles)
    refuse("quantiles", std::to_string(o.quantiles.size()), "at most " + std::to_string(kMaxQuantiles));
  for (double share : o.quantiles)
    if (!(share >= 0 && share <= 1)) refuse("quantiles", number_text(share), "shares from 0 to 1");
}

// The histogram: its edges are computed once, and what counts is an element's place among them, not a rounded formula.
class Binner {
 public:
  Binner(const StatisticsOptions& options, double least, double largest) {
    if (options.bins == 0 || !(least <= largest)) return;
    double low = least, high = largest;
    if (options.range) {
      std::tie(low, high) = *options.range;
    } else if (low == high) {  // flat: one bin around the value
      const double half = low == 0 ? 0.5 : std::abs(low) / 2;
      low = std::max(low - half, std::numeric_limits<double>::lowest());
      high = std::min(high + half, std::numeric_limits<double>::max());
    }
    out_.scale = options.scale;
    if (out_.scale == BinScale::symmetric_log)
      out_.unit = options.unit > 0 ? options.unit : std::max(std::abs(low), std::abs(high)) / 1000;
    // Below this the division |x| / unit could overflow.
    if (out_.scale == BinScale::symmetric_log)
      out_.unit = std::max(out_.unit, std::max(std::abs(low), std::abs(high)) * 0x1p-1000);
    if (out_.scale == BinScale::symmetric_log)
      out_.unit = std::max(out_.unit, std::numeric_limits<double>::min());
    out_.counts.assign(size_t(options.bins), 0);
    from_ = forward(low), to_ = forward(high);
    for (int i = 0; i <= options.bins; ++i) {
      const double share = double(i) / options.bins;
      const double edge = i == 0              ? low
                          : i == options.bins ? high
                                              : std::clamp(back(from_ * (1 - share) + to_ * share), low, high);
      out_.edges.push_back(out_.edges.empty() ? edge : std::max(edge, out_.edges.back()));
    }
  }

  void add(double x, uint64_t n = 1) {
    if (out_.edges.empty()) return;
    if (x < out_.edges.front()) {
      out_.below += n;
      return;
    }
    if (x > out_.edges.back()) {
      out_.above += n;
      return;
    }
    const size_t last = out_.counts.size() - 1;
    // Halves: the difference of the ends themselves may overflow.
    const double guess = (forward(x) / 2 - from_ / 2) / (to_ / 2 - from_ / 2) * double(out_.counts.size());
    size_t bin = guess > 0 ? size_t(std::min(guess, double(last))) : 0;  // not a number: equal ends
    while (bin > 0 && x < out_.edges[bin]) --bin;
    while (bin < last && x >= out_.edges[bin + 1]) ++bin;
    out_.counts[bin] += n;
  }

  Histogram take() { return std::move(out_); }

 private:
  double forward(double x) const {
    return out_.scale == BinScale::linear ? x : std::copysign(std::log1p(std::abs(x) / out_.unit), x);
  }
  double back(double y) const {
    return out_.scale == BinScale::linear ? y : std::copysign(out_.unit * std::expm1(std::abs(y)), y);
  }
  double from_ = 0, to_ = 0;
  Histogram out_;
};

// The two ranks that a quantile lies between and how far it is from the first, for n elements.
struct RankPair {
  uint64_t low, high;
  double weight;
};
RankPair rank_pair(double share, uint64_t n) {
  const double position = share * double(n - 1);
  const auto low = std::min(uint64_t(position), n - 1);
  return {low, std::min(low + 1, n - 1), position - double(low)};
}
double between(double a, double b, double weight) {
  if (a == b || weight == 0) return a;
  const double step = b - a;
  return std::isfinite(step) ? a + step * weight : a * (1 - weight) + b * weight;
}

// Feeds the tensor's elements in order as blocks of at most kBlock. False when it was asked to stop.
template <class T, class Use>
bool each_block(const Checkpoint& checkpoint, const TensorInfo& tensor, Progress* progress, Use use) {
  std::array<T, kBlock> block;
  const uint64_t total = element_count(tensor);
  for (uint64_t first = 0; first < total; first += kSlice) {
    if (progress && progress->cancel_requested()) return false;
    const uint64_t count = std::min(kSlice, total - first);
    const TensorData data = checkpoint.slice(tensor, first, count);
    for (uint64_t at = 0; at < count; at += kBlock) {
      const auto n = size_t(std::min<uint64_t>(kBlock, count - at));
      std::memcpy(block.data(), data.bytes.data() + at * sizeof(T), n * sizeof(T));  // mapped data may be unaligned
      use(std::span<const T>(block.data(), n));
    }
    if (progress) progress->add(int64_t(count));
  }
  return !(progress && progress->cancel_requested());
}

void no_values(TensorStatistics& out) {
  out.minimum = out.maximum = out.absolute_maximum = out.mean = out.standard_deviation = out.l2_norm = kNaN;
}

// `m` was taken of the values times `scale` (less some origin, which changes m2 not at all).
void finish_moments(TensorStatistics& out, const Moments& m, double mean, double scale) {
  out.mean = mean;
  out.standard_deviation = std::sqrt(m.m2 / m.n) / scale;
  out.l2_norm = std::hypot(std::sqrt(m.m2), std::sqrt(m.n) * (mean * scale)) / scale;
}

// ---- dtypes of at most 16 bits: how often each code occurs says everything --------------------------------------

struct ValueCount {
  double value;
  uint64_t count;
};

std::vector<ValueCount> sorted_values(DType dtype, const std::vector<uint64_t>& codes, TensorStatistics& out) {
  std::vector<std::byte> all(codes.size() * size_t(dtype_bits(dtype) / 8));
  for (size_t code = 0; code < codes.size(); ++code) {
    if (codes.size() == 256) all[code] = std::byte(code);
    else all[2 * code] = std::byte(code & 0xFF), all[2 * code + 1] = std::byte(code >> 8);
  }
  std::vector<double> values(codes.size());
  convert_values(all.data(), dtype, codes.size(), values.data());
  std::map<double, uint64_t> sums;  // the two zeros, and all codes of BOOL above 0, are one value
  for (size_t code = 0; code < codes.size(); ++code) {
    if (codes[code] == 0) continue;
    const double v = values[code];
    if (std::isnan(v)) out.nan += codes[code];
    else if (std::isinf(v)) (v > 0 ? out.positive_infinity : out.negative_infinity) += codes[code];
    else sums[v == 0 ? 0.0 : v] += codes[code];
  }
  std::vector<ValueCount> sorted;
  for (const auto& [value, count] : sums) {
    sorted.push_back({value, count});
    out.finite += count;
    if (value == 0) out.zeros = count;
  }
  return sorted;
}

Moments moments_of(const std::vector<ValueCount>& sorted) {
  ExactingSum sum, left, squares;
  double n = 0;
  for (const auto& [value, count] : sorted) {
    sum.add(double(count) * value);
    n += double(count);
  }
  const double mean = sum.value() / n;
  for (const auto& [value, count] : sorted) {
    left.add(double(count) * (value - mean));
    squares.add(double(count) * (value - mean) * (value - mean));
  }
  return {n, mean, std::max(0.0, squares.value() - left.value() * left.value() / n)};
}

template <class Code>
bool by_codes(const Checkpoint& checkpoint, const TensorInfo& tensor, const StatisticsOptions& options,
              Progress* progress, TensorStatistics& out) {
  std::vector<uint64_t> codes(size_t(1) << (8 * sizeof(Code)));
  if (!each_block<Code>(checkpoint, tensor, progress, [&](std::span<const Code> block) {
        for (Code code : block) ++codes[code];
      }))
    return false;
  const std::vector<ValueCount> sorted = sorted_values(tensor.dtype, codes, out);
  if (sorted.empty()) return true;
  out.minimum = sorted.front().value, out.maximum = sorted.back().value;
  out.minimum_text = value_text(out.minimum, tensor.dtype), out.maximum_text = value_text(out.maximum, tensor.dtype);
  const Moments m = moments_of(sorted);
  finish_moments(out, m, m.mean, 1);
  const auto at_rank = [&](uint64_t rank) {
    size_t i = 0;
    while (rank >= sorted[i].count) rank -= sorted[i++].count;
    return sorted[i].value;
  };
  for (double share : options.quantiles) {
    const RankPair pair = rank_pair(share, out.finite);
    out.quantiles.push_back({share, between(at_rank(pair.low), at_rank(pair.high), pair.weight)});
  }
  Binner binner(options, out.minimum, out.maximum);
  for (const auto& [value, count] : sorted) binner.add(value, count);
  out.histogram = binner.take();
  return true;
}

// ---- 32 and 64 bits: several passes -------------------------------------------------------------------------------

template <class T>
class Streamed {
 public:
  Streamed(const StatisticsOptions& options, TensorStatistics& out) : options_(options), out_(out) {}

  static int passes(const StatisticsOptions& options) {
    return std::max(options.quantiles.empty() ? 1 : RankSelection<T>::passes(), options.bins > 0 ? 2 : 1);
  }

  // False when it was asked to stop.
  bool read(const Checkpoint& checkpoint, const TensorInfo& tensor, Progress* progress) {
    const auto pass = [&](auto use) { return each_block<T>(checkpoint, tensor, progress, use); };
    if (!pass([&](std::span<const T> block) { first_pass(block); })) return false;
    if (out_.finite == 0) return true;
    end_first_pass();
    Binner binner(options_, out_.minimum, out_.maximum);
    int todo = passes(options_) - 1;
    if (rescale_) todo = std::max(todo, 1);
    for (int i = 0; i < todo; ++i) {
      const bool select = !options_.quantiles.empty() && i + 1 < RankSelection<T>::passes();
      if (!pass([&](std::span<const T> block) {
            const std::span<const T> finite = finite_only(block);
            if (i == 0) {
              for (T v : finite) binner.add(double(v));
              if (rescale_) add_moments(finite);
            }
            if (select)
              for (T v : finite) selection_.add(v);
          }))
        return false;
      if (select) selection_.end_pass(ranks_);
    }
    out_.histogram = binner.take();
    finish();
    return true;
  }

 private:
  static constexpr bool kReal = std::is_floating_point_v<T>;
  using Wide = __int128;

  std::span<const T> finite_only(std::span<const T> block) {
    if constexpr (!kReal) return block;
    size_t n = 0;
    for (T v : block)
      if (std::isfinite(v)) finite_[n++] = v;
    return {finite_.data(), n};
  }

  void add_moments(std::span<const T> values) {
    // Differences of 64-bit whole numbers from one of them keep the digits that a double of the number itself would lose.
    for (size_t i = 0; i < values.size(); ++i) {
      if constexpr (kReal)
        doubles_[i] = double(values[i]) * scale_;
      else
        doubles_[i] = double(Wide(values[i]) - Wide(origin_));
    }
    moments_.add(block_moments({doubles_.data(), values.size()}));
  }

  void first_pass(std::span<const T> block) {
    const std::span<const T> values = finite_only(block);
    if constexpr (kReal)
      if (values.size() < block.size())
        for (T v : block) {
          out_.nan += std::isnan(v);
          out_.positive_infinity += std::isinf(v) && v > 0;
          out_.negative_infinity += std::isinf(v) && v < 0;
        }
    if (values.empty()) return;
    if (out_.finite == 0) origin_ = least_ = largest_ = values[0];
    out_.finite += values.size();
    for (T v : values) {
      out_.zeros += v == 0;
      least_ = std::min(least_, v);
      largest_ = std::max(largest_, v);
      if constexpr (!kReal) sum_ += v;
    }
    if (!options_.quantiles.empty())
      for (T v : values) selection_.add(v);
    add_moments(values);
  }

  void end_first_pass() {
    if (least_ == 0) least_ = 0;  // -0 as 0
    if (largest_ == 0) largest_ = 0;
    out_.minimum = double(least_), out_.maximum = double(largest_);
    if constexpr (kReal) {
      const DType dtype = sizeof(T) == 4 ? DType::f32 : DType::f64;
      out_.minimum_text = value_text(out_.minimum, dtype), out_.maximum_text = value_text(out_.maximum, dtype);
      // Squares of very large or very small doubles would leave the range: measured again, scaled by a power of two.
      const double size = std::max(std::abs(out_.minimum), std::abs(out_.maximum));
      rescale_ = size > 0 && (size > 0x1p400 || size < 0x1p-400);
      // 2^1074, the inverse of the smallest double, is no double itself; 2^1000 brings it far enough.
      if (rescale_) scale_ = std::ldexp(1.0, std::clamp(-std::ilogb(size), -1000, 1000)), moments_ = {};
    } else {
      out_.minimum_text = std::to_string(least_), out_.maximum_text = std::to_string(largest_);
    }
    for (double share : options_.quantiles) {
      const RankPair pair = rank_pair(share, out_.finite);
      ranks_.push_back(pair.low);
      ranks_.push_back(pair.high);
    }
    if (!ranks_.empty()) selection_.end_pass(ranks_);
  }

  void finish() {
    const Moments m = moments_.total();
    if constexpr (kReal)
      finish_moments(out_, m, m.mean / scale_, scale_);
    else
      finish_moments(out_, m, double(sum_) / double(out_.finite), 1);
    for (size_t i = 0; i < options_.quantiles.size(); ++i) {
      const RankPair pair = rank_pair(options_.quantiles[i], out_.finite);
      const auto low = double(selection_.value(2 * i)), high = double(selection_.value(2 * i + 1));
      out_.quantiles.push_back({options_.quantiles[i], between(low, high, pair.weight)});
    }
  }

  const StatisticsOptions& options_;
  TensorStatistics& out_;
  std::array<T, kBlock> finite_;
  std::array<double, kBlock> doubles_;
  T origin_{}, least_{}, largest_{};
  Wide sum_ = 0;  // at most 2^60 elements of 2^64
  double scale_ = 1;
  bool rescale_ = false;
  MomentTree moments_;
  RankSelection<T> selection_;
  std::vector<uint64_t> ranks_;
};

template <class T>
bool streamed(const Checkpoint& checkpoint, const TensorInfo& tensor, const StatisticsOptions& options,
              Progress* progress, TensorStatistics& out) {
  if (progress) progress->begin_stage("reading tensor", int64_t(out.count) * Streamed<T>::passes(options));
  const auto work = std::make_unique<Streamed<T>>(options, out);
  return work->read(checkpoint, tensor, progress);
}

bool read_statistics(const Checkpoint& checkpoint, const TensorInfo& tensor, const StatisticsOptions& options,
                     Progress* progress, TensorStatistics& out) {
  switch (tensor.dtype) {
    case DType::f32:
      return streamed<float>(checkpoint, tensor, options, progress, out);
    case DType::f64:
      return streamed<double>(checkpoint, tensor, options, progress, out);
    case DType::i32:
      return streamed<int32_t>(checkpoint, tensor, options, progress, out);
    case DType::u32:
      return streamed<uint32_t>(checkpoint, tensor, options, progress, out);
    case DType::i64:
      return streamed<int64_t>(checkpoint, tensor, options, progress, out);
    case DType::u64:
      return streamed<uint64_t>(checkpoint, tensor, options, progress, out);
    default:
      break;
  }
  if (progress) progress->begin_stage("reading tensor", int64_t(out.count));
  return dtype_bits(tensor.dtype) == 8 ? by_codes<uint8_t>(checkpoint, tensor, options, progress, out)
                                       : by_codes<uint16_t>(checkpoint, tensor, options, progress, out);
}

// A few bytes can be a tensor of any size (stride 0): statistics of it would take for ever and say nothing more.
void require_bounded(const Checkpoint& checkpoint, const TensorInfo& tensor) {
  if (tensor.strides.empty()) return;
  const uint64_t count = element_count(tensor), size = uint64_t(dtype_bits(tensor.dtype) / 8);
  uint64_t span = count > 0;  // elements from the first to the last, checked against the storage when the file was opened
  for (size_t i = 0; i < tensor.shape.size() && count > 0; ++i)
    span += uint64_t(tensor.shape[i] - 1) * uint64_t(tensor.strides[i]);
  if (count <= span || count <= kMaxRepeatedBytes / size) return;
  throw Error({checkpoint.files()[size_t(tensor.file)].string(), "tensor '" + printable(tensor.name) + "'",
               thousands(span) + " stored elements that are repeated to " + thousands(count),
               "at most " + thousands(kMaxRepeatedBytes) + " bytes of a tensor that repeats its storage",
               "Save the tensor with .contiguous() if it is meant."});
}

}  // namespace

std::optional<TensorStatistics> tensor_statistics(const Checkpoint& checkpoint, const TensorInfo& tensor,
                                                  const StatisticsOptions& options, Progress* progress) {
  check_options(options);
  require_computable(checkpoint, tensor);
  require_bounded(checkpoint, tensor);
  TensorStatistics out;
  no_values(out);
  out.count = element_count(tensor);
  if (!read_statistics(checkpoint, tensor, options, progress, out)) return std::nullopt;
  if (out.finite > 0) out.absolute_maximum = std::max(std::abs(out.minimum), std::abs(out.maximum));
  return out;
}

}  // namespace slotscope::formats
