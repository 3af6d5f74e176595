#include "core/formats/bpe.h"

#include <algorithm>

namespace slotscope::formats {

void Merger::run(const MergeTable& table, std::vector<Piece>& pieces) {
  if (table.empty() || pieces.size() < 2) return;
  // Most words are short: looking at every pair again is faster there than a heap.
  pieces.size() <= 32 ? run_short(table, pieces) : run_long(table, pieces);
}

void Merger::run_short(const MergeTable& table, std::vector<Piece>& pieces) {
  constexpr MergeTable::Merge kNone{INT32_MAX, -1};
  const auto pair = [&](size_t left) {
    const auto* merge = table.find(pieces[left].id, pieces[left + 1].id);
    return merge ? *merge : kNone;
  };
  pairs_.clear();  // pairs_[i]: what pieces i and i + 1 become
  for (size_t i = 0; i + 1 < pieces.size(); ++i) pairs_.push_back(pair(i));
  while (!pairs_.empty()) {
    size_t best = 0;
    for (size_t i = 1; i < pairs_.size(); ++i)
      if (pairs_[i].rank < pairs_[best].rank) best = i;
    if (pairs_[best].id < 0) return;
    pieces[best].id = pairs_[best].id;
    pieces[best].end = pieces[best + 1].end;
    pieces.erase(pieces.begin() + long(best) + 1);
    pairs_.erase(pairs_.begin() + long(best));
    if (best < pairs_.size()) pairs_[best] = pair(best);
    if (best > 0) pairs_[best - 1] = pair(best - 1);
  }
}

void Merger::run_long(const MergeTable& table, std::vector<Piece>& pieces) {
  const auto n = int64_t(pieces.size());
  next_.resize(pieces.size()), previous_.resize(pieces.size());
  gone_.assign(pieces.size(), 0);
  heap_.clear();
  const auto offer = [&](int64_t left) {
    if (left < 0 || next_[size_t(left)] >= n) return;
    if (const auto* merge = table.find(pieces[size_t(left)].id, pieces[size_t(next_[size_t(left)])].id)) {
      heap_.push_back({merge->rank, merge->id, left});
      std::push_heap(heap_.begin(), heap_.end(), Later());
    }
  };
  for (int64_t i = 0; i < n; ++i) next_[size_t(i)] = i + 1, previous_[size_t(i)] = i - 1;
  for (int64_t i = 0; i + 1 < n; ++i) offer(i);
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), Later());
    const Candidate top = heap_.back();
    heap_.pop_back();
    const auto left = size_t(top.at);
    if (gone_[left] || next_[left] >= n) continue;
    const auto right = size_t(next_[left]);
    // The pair may have changed since it was queued; what it is now was queued as well.
    const auto* merge = table.find(pieces[left].id, pieces[right].id);
    if (!merge || merge->id != top.id || merge->rank != top.rank) continue;
    pieces[left].id = top.id;
    pieces[left].end = pieces[right].end;
    gone_[right] = 1;
    next_[left] = next_[right];
    if (next_[left] < n) previous_[size_t(next_[left])] = top.at;
    offer(previous_[left]);
    offer(top.at);
  }
  size_t kept = 0;
  for (size_t i = 0; i < pieces.size(); ++i)
    if (!gone_[i]) pieces[kept++] = pieces[i];
  pieces.resize(kept);
}

}  // namespace slotscope::formats
