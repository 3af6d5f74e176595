#include "views/heatmap_geometry.h"

#include <algorithm>
#include <cmath>

namespace slotscope::views {

CellRange clampRange(CellRange range, int64_t total) {
  if (total <= 0) return {0, 1};
  const int64_t width = std::clamp(range.second - range.first, std::min(kLeastCells, total), total);
  const int64_t first = std::clamp<int64_t>(range.first, 0, total - width);
  return {first, first + width};
}

CellRange zoomRange(CellRange range, double anchor, double factor, int64_t total) {
  range = clampRange(range, total);
  const int64_t old_width = range.second - range.first;
  int64_t width = std::llround(double(old_width) / factor);
  if (factor > 1) width = std::min(width, old_width - 1);
  if (factor < 1) width = std::max(width, old_width + 1);
  width = std::clamp(width, std::min(kLeastCells, total), std::max<int64_t>(total, 1));
  if (width == old_width) return range;
  const double share = std::clamp((anchor - double(range.first)) / double(old_width), 0.0, 1.0);
  const int64_t first = std::llround(anchor - share * double(width));
  return clampRange({first, first + width}, total);
}

CellRange panRange(CellRange range, int64_t by, int64_t total) {
  return clampRange({range.first + by, range.second + by}, total);
}

CellRange centreRange(int64_t centre, int64_t width, int64_t total) {
  const int64_t first = centre - width / 2;
  return clampRange({first, first + width}, total);
}

double wheelFactor(double units) { return std::pow(1.25, units / 120); }

int64_t tickStep(double cell_width, double least) {
  for (int64_t decade = 1; decade < int64_t(1e15); decade *= 10)
    for (const int64_t m : {1, 2, 5}) {
      if (m == 2 && decade >= 10) continue;
      if (double(m * decade) * cell_width >= least) return m * decade;
    }
  return int64_t(1e15);
}

HeatmapGeometry HeatmapGeometry::make(const QRectF& area, CellRange tokens, CellRange rows, double scale,
                                      bool pane) {
  HeatmapGeometry g;
  g.area = area;
  g.scale = scale;
  g.pane = pane;
  g.first = tokens.first, g.last = std::max(tokens.second, tokens.first + 1);
  g.row_first = rows.first, g.row_last = std::max(rows.second, rows.first + 1);
  const double width = std::max(1.0, area.width() - (kLeft + (pane ? kPaneRight : kRight)) * scale);
  const bool strip = width / double(g.last - g.first) >= kTokenStripFrom * scale;
  const double bottom = pane ? (strip ? kPaneBottomWithTokens : kPaneBottom) : strip ? kBottomWithTokens : kBottom;
  const double height = std::max(1.0, area.height() - (kTop + bottom) * scale);
  g.plot = QRectF(area.left() + kLeft * scale, area.top() + kTop * scale, width, height);
  return g;
}

int64_t HeatmapGeometry::tokenAt(double at) const {
  return std::clamp(int64_t(std::floor(tokenPosition(at))), first, last - 1);
}

int64_t HeatmapGeometry::rowAt(double at) const {
  return std::clamp(int64_t(std::floor(rowPosition(at))), row_first, row_last - 1);
}

HeatmapGeometry::Part HeatmapGeometry::partAt(const QPointF& p) const {
  if (!area.contains(p)) return Part::Nothing;
  const bool in_rows = p.y() >= plot.top() && p.y() < plot.bottom();
  const bool in_columns = p.x() >= plot.left() && p.x() < plot.right();
  if (in_rows && in_columns) return Part::Cells;
  if (in_rows && p.x() < plot.left()) return Part::SlotMargin;
  if (in_rows) return Part::EslMargin;
  if (in_columns && p.y() >= plot.bottom()) return Part::TokenStrip;
  if (p.y() < plot.top() && p.x() >= plot.right()) return pane ? Part::Nothing : Part::EslTitle;
  return in_columns ? Part::Spans : Part::Nothing;
}

}  // namespace slotscope::views
