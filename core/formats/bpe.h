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
  void reserve(size_t n) { merges_.reserve(n); }
  // Of two equal pairs the later one counts.
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
  struct Mix {  // pairs of small numbers fall into neighbouring buckets without it
    size_t operator()(uint64_t k) const {
      k *= 0x9E3779B97F4A7C15ull;
      return size_t(k ^ k >> 32);
    }
  };
  std::unordered_map<uint64_t, Merge, Mix> merges_;
};

struct Piece {
  int32_t id;
  int64_t begin, end;  // bytes of the text
};

// Merges pieces in place; keeps its memory from word to word.
class Merger {
 public:
  // `pieces`: one per starting symbol, in order.
  void run(const MergeTable& table, std::vector<Piece>& pieces);

 private:
  void run_short(const MergeTable& table, std::vector<Piece>& pieces);
  void run_long(const MergeTable& table, std::vector<Piece>& pieces);
  struct Candidate {
    int32_t rank, id;
    int64_t at;  // left piece
  };
  struct Later {
    bool operator()(const Candidate& a, const Candidate& b) const {
      return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
    }
  };
  std::vector<int64_t> next_, previous_;
  std::vector<char> gone_;
  std::vector<Candidate> heap_;
  std::vector<MergeTable::Merge> pairs_;
};

}  // namespace slotscope::formats
