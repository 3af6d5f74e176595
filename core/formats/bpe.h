// Byte-pair merging in O(n log n): the pair with the lowest rank first, of equal ranks the leftmost.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace slotscope::formats {

class MergeTable {
 public:
  struct Merge {
    int32_t rank, id;
  };
  void add(int32_t left, int32_t right, int32_t rank, int32_t id) { merges_[key(left, right)] = {rank, id}; }
  const Merge* find(int32_t left, int32_t right) const {
    const auto at = merges_.find(key(left, right));
    return at == merges_.end() ? nullptr : &at->second;
  }
  bool empty() const { return merges_.empty(); }
  size_t size() const { return merges_.size(); }

 private:
  static uint64_t key(int32_t left, int32_t right) {
    return uint64_t(uint32_t(left)) << 32 | uint32_t(right);
  }
  std::unordered_map<uint64_t, Merge> merges_;
};

struct Piece {
  int32_t id;
  int64_t begin, end;  // bytes of the text
};

// Merges `pieces` (one per starting symbol, in order) in place.
void merge_pieces(const MergeTable& table, std::vector<Piece>& pieces);

}  // namespace slotscope::formats
