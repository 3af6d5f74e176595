#include "core/trace/chunk_layout.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace slotscope::trace {
namespace {

constexpr int64_t kMin = int64_t(1) << 18, kMax = int64_t(1) << 20;  // bytes
constexpr int64_t kSmallBytes = int64_t(1) << 14, kSmallRows = 512;  // of little data
constexpr int64_t kUnknownRows = 4096;

int64_t ceil_pow2(int64_t n) { return int64_t(std::bit_ceil(uint64_t(std::max<int64_t>(n, 1)))); }
int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

bool heads_second(const std::string& axes) {
  const size_t comma = axes.find(',');
  if (comma == std::string::npos) return false;
  const std::string second = axes.substr(comma + 1, axes.find(',', comma + 1) - comma - 1);
  return second == "H" || second == "H_r";
}

}  // namespace

std::vector<int64_t> choose_chunk(const DatasetSpec& spec) {
  std::vector<int64_t> chunk{1};
  for (int64_t n : spec.shape) chunk.push_back(std::max<int64_t>(n, 1));
  const auto row_bytes = [&] {
    return std::accumulate(chunk.begin() + 1, chunk.end(), int64_t(element_size(spec.type)),
                           std::multiplies<>());
  };
  const int64_t expected = spec.expected_rows > 0 ? spec.expected_rows : kUnknownRows;
  const int64_t share = int64_t(std::bit_floor(uint64_t(std::max<int64_t>(expected / 8, 1))));
  // [T,H] alone stays whole: a row is so small that splitting it would only make the chunks very long.
  if (chunk.size() > 2 && heads_second(spec.axes)) {
    const int64_t heads = chunk[1];
    for (const int64_t parts : {int64_t(4), int64_t(2)}) {
      chunk[1] = ceil_div(heads, std::min(heads, parts));
      if (ceil_pow2(ceil_div(kMin, row_bytes())) <= share) break;
      chunk[1] = heads;
    }
  }
  while (row_bytes() > kMax) {
    auto longest = std::max_element(chunk.begin() + 1, chunk.end());
    *longest = ceil_div(*longest, 2);
  }
  const int64_t row = row_bytes();
  const int64_t least = std::min(kSmallRows, ceil_pow2(ceil_div(kSmallBytes, row)));
  int64_t rows = std::min({ceil_pow2(ceil_div(kMin, row)), std::max(share, least), ceil_pow2(expected)});
  // Bytes of text are announced with room to spare (four a token), so an eighth of that would be half of the
  // real ones.
  if (spec.axes == "N") rows = std::min(rows, std::max(ceil_pow2(ceil_div(share, 4)), least));
  chunk[0] = rows;
  return chunk;
}

}  // namespace slotscope::trace
