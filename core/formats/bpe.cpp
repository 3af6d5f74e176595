#include "core/formats/bpe.h"

#include <queue>

namespace slotscope::formats {
namespace {

struct Candidate {
  int32_t rank, id;
  int64_t at;  // left piece
};
struct Later {
  bool operator()(const Candidate& a, const Candidate& b) const {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  }
};

}  // namespace

void merge_pieces(const MergeTable& table, std::vector<Piece>& pieces) {
  const auto n = int64_t(pieces.size());
  if (table.empty() || n < 2) return;
  std::vector<int64_t> next(pieces.size()), previous(pieces.size());
  std::vector<char> gone(pieces.size(), 0);
  std::priority_queue<Candidate, std::vector<Candidate>, Later> queue;
  const auto offer = [&](int64_t left) {
    if (left < 0 || next[size_t(left)] >= n) return;
    if (const auto* merge = table.find(pieces[size_t(left)].id, pieces[size_t(next[size_t(left)])].id))
      queue.push({merge->rank, merge->id, left});
  };
  for (int64_t i = 0; i < n; ++i) next[size_t(i)] = i + 1, previous[size_t(i)] = i - 1;
  for (int64_t i = 0; i + 1 < n; ++i) offer(i);
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    const auto left = size_t(top.at);
    if (gone[left] || next[left] >= n) continue;
    const auto right = size_t(next[left]);
    // The pair may have changed since it was queued; what it is now was queued as well.
    const auto* merge = table.find(pieces[left].id, pieces[right].id);
    if (!merge || merge->id != top.id || merge->rank != top.rank) continue;
    pieces[left].id = top.id;
    pieces[left].end = pieces[right].end;
    gone[right] = 1;
    next[left] = next[right];
    if (next[left] < n) previous[size_t(next[left])] = top.at;
    offer(previous[left]);
    offer(top.at);
  }
  size_t kept = 0;
  for (size_t i = 0; i < pieces.size(); ++i)
    if (!gone[i]) pieces[kept++] = pieces[i];
  pieces.resize(kept);
}

}  // namespace slotscope::formats
