#include "views/inspector_data.h"

#include <algorithm>
#include <cmath>

namespace slotscope::views {

namespace {

const double kUnknown = std::nan("");

template <class Row>
void sortRows(std::vector<Row>& rows, RowOrder order) {
  // What came after the reference has nothing left to compare: it goes last when sorted by what is left.
  std::stable_sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) {
    if (order == RowOrder::Strength) return a.strength > b.strength;
    if (order == RowOrder::Left)
      return (std::isnan(a.left) ? -1 : a.left) > (std::isnan(b.left) ? -1 : b.left);
    return false;  // already by position
  });
}

TokenFacts largestFirst(TokenFacts facts) {
  std::stable_sort(facts.readers.begin(), facts.readers.end(),
                   [](const auto& a, const auto& b) { return std::abs(a.weight) > std::abs(b.weight); });
  return facts;
}

}  // namespace

SlotFacts slotFacts(const analysis::HeadData& head, int slot, int64_t reference, RowOrder order) {
  SlotFacts facts;
  facts.slot = slot;
  facts.tokens = head.esl.tokens;
  facts.tokens_held = facts.specialisation = kUnknown;
  const auto& w = head.writes;
  if (slot < 0 || slot >= w.slots) return facts;
  const auto at = size_t(slot);
  if (at < head.allocation.slot_class.size()) facts.kind = head.allocation.slot_class[at];
  if (at < head.allocation.specialisation.size()) facts.specialisation = head.allocation.specialisation[at];
  if (at < head.esl.esl.size()) facts.writes = head.esl.esl[at];
  if (w.has_gates) facts.tokens_held = analysis::tokens_held(w, slot, reference);
  for (const int h : head.read_heads) {
    const auto p = head.reads_at(reference, h);
    if (at < p.size()) facts.read = std::max(facts.read.value_or(0.0), p[at]);
  }
  const bool strengths = head.routes.has_strength();
  for (int64_t e = w.first(slot); e < w.last(slot); ++e) {
    WriterRow row;
    row.token = w.token_at(e);
    row.strength = strengths ? w.strength[size_t(e)] : kUnknown;
    row.after = row.token > reference;
    row.left =
        row.after || !w.has_gates ? kUnknown : std::exp(w.log_keep_between(slot, row.token, reference));
    facts.writers.push_back(row);
  }
  sortRows(facts.writers, order);
  return facts;
}

TokenFacts tokenFacts(const analysis::HeadData& head, int64_t token, int64_t reference, RowOrder order, int slot) {
  TokenFacts facts;
  facts.token = token;
  facts.survival = kUnknown;
  const auto& r = head.routes;
  const auto& w = head.writes;
  // Row of the token: rows are in token order.
  int64_t row = token;
  if (!r.token.empty()) {
    const auto found = std::lower_bound(r.token.begin(), r.token.end(), token);
    row = found != r.token.end() && *found == token ? found - r.token.begin() : -1;
  }
  if (row < 0 || row >= r.rows) return facts;
  const bool strengths = r.has_strength();
  if (w.has_gates && strengths) facts.survival = analysis::survival(r, w, token, reference);
  for (int k = 0; k < r.top_k; ++k) {
    SlotRow line;
    line.slot = int(r.slot_at(row, k));
    line.strength = strengths ? r.strength_at(row, k) : kUnknown;
    line.after = token > reference;
    line.left =
        line.after || !w.has_gates ? kUnknown : std::exp(w.log_keep_between(line.slot, token, reference));
    facts.slots.push_back(line);
  }
  sortRows(facts.slots, order);

  facts.no_reads = QString::fromStdString(head.no_attribution);
  if (head.matrix || head.memories) {
    facts.reads_captured = true;
    for (const int64_t t : head.read_token) {
      if (t <= token) continue;
      ReaderRow best{t, head.read_heads.front(), 0};
      for (const int h : head.read_heads) {
        const auto a = head.attribution(t, h, slot);
        if (size_t(token) < a.weight.size() && !(std::abs(a.weight[size_t(token)]) <= std::abs(best.weight)))
          best = {t, h, a.weight[size_t(token)]};
      }
      facts.readers.push_back(best);
    }
    return largestFirst(std::move(facts));
  }
  facts.reads_captured = !head.read_token.empty() && !head.read_heads.empty() && w.has_gates && strengths;
  if (!facts.reads_captured) return facts;
  // A[t,j] of this one token j: sum over its own slots, so nothing else needs to be looked at.
  const size_t heads = head.read_heads.size(), slots = size_t(r.slots);
  for (size_t n = 0; n < head.read_token.size(); ++n) {
    const int64_t t = head.read_token[n];
    if (t <= token) continue;
    std::vector<double> kept(size_t(r.top_k));
    for (int k = 0; k < r.top_k; ++k)
      kept[size_t(k)] =
          r.strength_at(row, k) * std::exp(w.log_read_keep_between(int(r.slot_at(row, k)), token, t));
    ReaderRow best;
    best.token = t;
    best.head = head.read_heads.front();
    for (size_t h = 0; h < heads; ++h) {
      double sum = 0;
      const double* p = head.read_weight.data() + (n * heads + h) * slots;
      for (int k = 0; k < r.top_k; ++k) sum += p[r.slot_at(row, k)] * kept[size_t(k)];
      if (sum > best.weight) best.weight = sum, best.head = head.read_heads[h];
    }
    facts.readers.push_back(best);
  }
  return largestFirst(std::move(facts));
}

}  // namespace slotscope::views
