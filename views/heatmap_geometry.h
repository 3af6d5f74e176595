// Where a slot heatmap's tokens and rows lie on the screen, and how zooming changes what is visible (design:
// section 6). Pure arithmetic, no widgets.
#pragma once

#include <QRectF>
#include <cstdint>
#include <utility>

namespace slotscope::views {

// A half-open range of whole tokens or rows.
using CellRange = std::pair<int64_t, int64_t>;

// The narrowest range that zooming gives (or all there is, when that is less).
constexpr int64_t kLeastCells = 4;

// `range` moved and cut so that it lies in [0, total) and holds at least kLeastCells (or `total`) cells.
CellRange clampRange(CellRange range, int64_t total);
// `range` made `factor` times narrower (> 1) or wider (< 1) with the cell at `anchor` (in cells, fractional)
// staying in place. Changes by at least one cell unless a limit is reached.
CellRange zoomRange(CellRange range, double anchor, double factor, int64_t total);
CellRange panRange(CellRange range, int64_t by, int64_t total);
// `width` cells with `centre` in the middle.
CellRange centreRange(int64_t centre, int64_t width, int64_t total);
// Factor 1.25 per 120 units of a wheel; small deltas add up without loss.
double wheelFactor(double units);

// Token labels: 1, 2, 5, 10, 20, 50, ... so that neighbours are at least `least` pixels apart. From 10 up
// only 1 and 5 x 10^n.
int64_t tickStep(double cell_width, double least = 60);

struct HeatmapGeometry {
  static constexpr double kLeft = 100, kRight = 78, kTop = 24, kBottom = 40, kBottomWithTokens = 46;
  static constexpr double kTokenStripFrom = 9, kSlotIdsFrom = 11;
  // As a pane of a comparison: no bars at the right, no ticks; the token axis is drawn once, under both.
  static constexpr double kPaneRight = 16, kPaneBottom = 8, kPaneBottomWithTokens = 25;

  QRectF area;                          // everything: margins included
  QRectF plot;                          // the cells
  int64_t first = 0, last = 1;          // visible tokens
  int64_t row_first = 0, row_last = 1;  // visible rows (display order)
  double scale = 1;                     // of margins and text
  bool pane = false;                    // of a comparison

  // Lays the plot out inside `area`; `scale` multiplies the margins (text size).
  static HeatmapGeometry make(const QRectF& area, CellRange tokens, CellRange rows, double scale = 1,
                              bool pane = false);

  double cellWidth() const { return plot.width() / double(last - first); }
  double rowHeight() const { return plot.height() / double(row_last - row_first); }
  bool tokenStrip() const { return cellWidth() >= kTokenStripFrom * scale; }
  bool slotIds() const { return rowHeight() >= kSlotIdsFrom * scale; }
  double x(double token) const { return plot.left() + (token - double(first)) * cellWidth(); }
  double y(double row) const { return plot.top() + (row - double(row_first)) * rowHeight(); }
  // The token or row under a coordinate; outside of the plot the nearest visible one.
  int64_t tokenAt(double x) const;
  int64_t rowAt(double y) const;
  // As above without rounding: 3.5 is the middle of token 3.
  double tokenPosition(double x) const { return double(first) + (x - plot.left()) / cellWidth(); }
  double rowPosition(double y) const { return double(row_first) + (y - plot.top()) / rowHeight(); }
  QRectF cell(int64_t token, int64_t row) const {
    return {QPointF(x(double(token)), y(double(row))), QPointF(x(double(token + 1)), y(double(row + 1)))};
  }

  enum class Part { Nothing, Cells, SlotMargin, TokenStrip, EslMargin, EslTitle, Spans };
  Part partAt(const QPointF& p) const;
};

}  // namespace slotscope::views
