// The numbers of the inspector, computed from one head; no widgets, so that tests can compare them with the
// analysis.
#pragma once

#include <QString>
#include <optional>
#include <vector>

#include "views/view.h"

namespace slotscope::views {

struct WriterRow {
  int64_t token = 0;
  double strength = 0;  // s
  double left =
      0;  // share of the write left at the reference: exp(sum of later f); NaN: after it, or gates unknown
  bool after = false;  // written after the reference
};
struct SlotRow {
  int slot = 0;
  double strength = 0, left = 0;
  bool after = false;
};
struct ReaderRow {
  int64_t token = 0;
  int head = 0;       // query head with the largest value
  double weight = 0;  // A[t,j]
};

enum class RowOrder { Strength, Left, Position };

struct SlotFacts {
  int slot = 0;
  analysis::SlotClass kind = analysis::SlotClass::empty;
  int64_t writes = 0, tokens = 0;
  double tokens_held = 0;      // at the reference; NaN when gates are unknown
  double specialisation = 0;   // NaN when undefined
  std::optional<double> read;  // largest p over the group's query heads at the reference; unset: not captured
  std::vector<WriterRow> writers;
};
struct TokenFacts {
  int64_t token = 0;
  double survival = 0;              // at the reference; NaN when undefined
  std::optional<double> surprisal;  // nats; unset: logits not captured
  std::vector<SlotRow> slots;
  bool reads_captured = false;
  QString no_reads;                // why there is no read attribution in this family or trace; "" where there is
  std::vector<ReaderRow> readers;  // largest magnitude first
};

SlotFacts slotFacts(const analysis::HeadData& head, int slot, int64_t reference, RowOrder order);
// `surprisal` may be unset. Readers: captured read tokens t > token; of the selected `slot` where channels differ (Mamba).
TokenFacts tokenFacts(const analysis::HeadData& head, int64_t token, int64_t reference, RowOrder order, int slot = 0);

}  // namespace slotscope::views
