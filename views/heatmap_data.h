// What a slot heatmap shows: rows in a chosen order, exact values of cells, requests for reduced pictures,
// colour limits and the way a value becomes a place on the colour map (design: section 6). No widgets; safe
// to use in the worker.
#pragma once

#include <QString>
#include <QVector>
#include <memory>
#include <optional>
#include <vector>

#include "core/analysis/head_data.h"
#include "views/heatmap_geometry.h"

namespace slotscope::views {

using analysis::HeadData;
using analysis::Quantity;
using analysis::SlotGrid;

enum class HeatmapSort { class_then_esl, esl, first_use, last_use, slot, read_weight, as_a };
enum class MarginKind { esl, tokens_held, read_weight, last_write };

// One entry of Show or Sort. `why` is the reason when it cannot be chosen.
struct HeatmapChoice {
  int value = 0;
  QString name, why;
};
QVector<HeatmapChoice> quantityChoices(const HeadData* head);
QVector<HeatmapChoice> sortChoices(const HeadData* head, int64_t token, bool follows_a = false);
QString quantityName(Quantity);     // "write strength s"
QString quantitySymbol(Quantity);   // "s"
QString quantityFormula(Quantity);  // "s = 1 − exp(a·r)   Raven section 3"
// True when the picture depends on the selected token.
bool needsReference(Quantity);
QString marginName(MarginKind);

// Slots in display order, from top to bottom.
struct RowGroup {
  analysis::SlotClass kind;
  int64_t begin = 0, end = 0;  // rows
  QString name = {};           // instead of the class's own
};
struct HeatmapRows {
  std::vector<int> slot;         // [rows]
  std::vector<int64_t> row_of;   // [M], -1 for a hidden slot
  std::vector<RowGroup> groups;  // runs of one class; empty unless sorted by class
};
HeatmapRows sortRows(const HeadData& head, HeatmapSort sort, int64_t token, bool hide_empty);
// Rows in an order that was made elsewhere; without groups.
HeatmapRows rowsInOrder(const HeadData& head, std::vector<int> slots);

// p over slots at a token, mean of the query heads that read this head; empty when not captured there.
// A[token, j] of a matrix state, mean of the query heads; empty in other families and where no query was captured.
std::vector<double> matrixRow(const HeadData& head, int64_t token);
std::vector<double> readsAt(const HeadData& head, int64_t token);
// Why a quantity has no cell at all: "write strength s: not captured: run again with write_strength", or that nothing is routed in
// the range that is shown.
QString emptyReason(const HeadData& head, Quantity quantity, int64_t reference);
// Exact value of one cell in double precision; nothing when no write (read) is there.
std::optional<double> cellValue(const HeadData& head, Quantity quantity, int slot, int64_t token,
                                int64_t reference);
// Values of the bars at the right margin, one per slot; NaN when unknown.
std::vector<double> marginValues(const HeadData& head, MarginKind kind, int64_t token);

// The reduced picture of `tokens` x `rows` (slots in display order) at no more than the given size.
struct GridJob {
  std::shared_ptr<const HeadData> head;
  Quantity quantity = Quantity::write_strength;
  analysis::Pooling pooling = analysis::Pooling::maximum;
  std::vector<int> rows;
  CellRange tokens{0, 1};
  int max_columns = 2048, max_rows = 2048;
  int64_t per_column = 0;  // at least this many tokens per column
  int64_t reference = 0;
};
SlotGrid makeGrid(const GridJob& job);
// All finite values of the head in this quantity as one row: for limits and the histogram, which must not
// depend on zoom or pooling. Counts NaN and infinite cells. Survival over time of one token is sampled at up
// to 2048 times.
SlotGrid valueSamples(const HeadData& head, Quantity quantity, int64_t reference);
// The first cell (by token, then slot) that holds NaN; {-1, -1} when there is none.
std::pair<int, int64_t> firstNan(const HeadData& head, Quantity quantity, int64_t reference);

// Tokens per column so that `visible` tokens need at most `pixels` columns; and the token range to fetch
// around the visible one, aligned to whole columns so that panning does not change what is pooled together.
int64_t tokensPerColumn(int64_t visible, int pixels);
// `visible` widened to whole columns, so that no column at an edge is thinner than a pixel and thus lost. The
// end may lie behind the last token, by less than a column.
CellRange wholeColumns(CellRange visible, int64_t per_column);
CellRange fetchRange(CellRange visible, int64_t per_column, int64_t total);

// --- colour ---
enum class RangeMode { min_max, percentile, visible, typed };
enum class RangeScale { linear, log, symlog };

struct ColourSettings {
  QString map = QStringLiteral("cividis");
  bool reverse = false, soft = true;
  RangeMode mode = RangeMode::percentile;
  RangeScale scale = RangeScale::linear;
  double low = 0, high = 1;  // with RangeMode::typed
  bool operator==(const ColourSettings&) const = default;
};

// Value -> place on the map, 0..1. Amounts that are all <= 0 (log decay) run from the value nearest to zero
// to the farthest.
struct ColourScale {
  bool valid = false;  // false: no finite value
  double low = 0, high = 1;
  RangeScale scale = RangeScale::linear;
  bool downwards = false;

  static ColourScale make(const SlotGrid& samples, const SlotGrid* visible, const ColourSettings& settings);
  double place(double value) const;
  double value(double place) const;                       // the inverse
  double left() const { return downwards ? high : low; }  // value at place 0
  double right() const { return downwards ? low : high; }
};

// "1.00", "0", "3.2e−5", "−9.44", "1.0e38": limits at the colour bar.
QString limitText(double v);

}  // namespace slotscope::views
