#include "core/formats/prefix_table.h"

#include <algorithm>

namespace slotscope::formats {

void PrefixTable::build(std::vector<std::pair<std::string, int32_t>> entries) {
  std::erase_if(entries, [](const auto& e) { return e.first.empty(); });
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  entries.erase(std::unique(entries.begin(), entries.end(),
                            [](const auto& a, const auto& b) { return a.first == b.first; }),
                entries.end());
  entries_ = std::move(entries);
  for (int byte = 0; byte <= 256; ++byte)
    first_[byte] = uint32_t(
        std::partition_point(entries_.begin(), entries_.end(),
                             [&](const auto& e) { return static_cast<unsigned char>(e.first[0]) < byte; }) -
        entries_.begin());
}

void PrefixTable::narrow(size_t depth, unsigned char byte, size_t& low, size_t& high) const {
  // Within the range the byte at `depth` rises; entries that end before it come first.
  const auto at = [&](const auto& e) {
    return e.first.size() > depth ? int(static_cast<unsigned char>(e.first[depth])) : -1;
  };
  const auto begin = entries_.begin() + long(low), end = entries_.begin() + long(high);
  const auto from = std::partition_point(begin, end, [&](const auto& e) { return at(e) < byte; });
  const auto to = std::partition_point(from, end, [&](const auto& e) { return at(e) <= byte; });
  low = size_t(from - entries_.begin());
  high = size_t(to - entries_.begin());
}

bool PrefixTable::longest(std::string_view text, size_t& length, int32_t& value) const {
  bool any = false;
  each_prefix(text, [&](size_t n, int32_t v) { any = true, length = n, value = v; });
  return any;
}

}  // namespace slotscope::formats
