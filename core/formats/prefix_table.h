// Texts of a set that begin at a place of another text: a sorted list that is narrowed byte by byte.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace slotscope::formats {

class PrefixTable {
 public:
  // Texts with their values; of equal texts the first counts. Empty texts are left out.
  void build(std::vector<std::pair<std::string, int32_t>> entries);

  // Calls found(length, value) for every text of the set that `text` begins with, shortest first.
  template <class F>
  void each_prefix(std::string_view text, F&& found) const {
    if (text.empty() || entries_.empty()) return;
    const auto first = static_cast<unsigned char>(text[0]);
    size_t low = first_[first], high = first_[first + 1];
    for (size_t depth = 1; low < high; ++depth) {
      // Entries of [low, high) share text[0, depth); the shortest of them sorts first.
      if (entries_[low].first.size() == depth) found(depth, entries_[low].second);
      if (depth == text.size()) return;
      narrow(depth, static_cast<unsigned char>(text[depth]), low, high);
    }
  }
  // The longest; false when there is none.
  bool longest(std::string_view text, size_t& length, int32_t& value) const;

 private:
  void narrow(size_t depth, unsigned char byte, size_t& low, size_t& high) const;
  std::vector<std::pair<std::string, int32_t>> entries_;
  uint32_t first_[257] = {};  // where the entries that begin with each byte start
};

}  // namespace slotscope::formats
