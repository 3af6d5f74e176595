// Painting of token-to-token matrices: plot with both token axes, spans, divergence bars, small pictures. The same on screen and
// in figures.
#pragma once

#include <QImage>
#include <QPainter>

#include "views/heatmap_data.h"
#include "views/heatmap_paint.h"
#include "views/overlap_data.h"

namespace slotscope::views {

struct MatrixGeometry {
  QRectF area, plot;          // square plot
  CellRange rows{0, 1}, columns{0, 1};
  double scale = 1;
  QVector<QRectF> side;       // small pictures, squares
  bool bars = false;          // divergences at the right of the plot

  // `side`: how many small pictures are wanted; fewer where there is no room.
  static MatrixGeometry make(const QRectF& area, CellRange rows, CellRange columns, double scale, int side, bool bars);
  double cellWidth() const { return plot.width() / double(columns.second - columns.first); }
  double rowHeight() const { return plot.height() / double(rows.second - rows.first); }
  double x(double s) const { return plot.left() + (s - double(columns.first)) * cellWidth(); }
  double y(double t) const { return plot.top() + (t - double(rows.first)) * rowHeight(); }
  double column(double at) const { return double(columns.first) + (at - plot.left()) / cellWidth(); }
  double row(double at) const { return double(rows.first) + (at - plot.top()) / rowHeight(); }
};

struct MatrixScene {
  MatrixGeometry geometry;
  const Theme* theme = nullptr;
  const trace::RunInfo* run = nullptr;  // may be null
  const OverlapPicture* picture = nullptr;
  const analysis::SlotGrid* grid = nullptr;  // maximum or mean
  const QImage* image = nullptr;             // of `grid`
  const QVector<QImage>* side = nullptr;
  QVector<QString> side_name;
  int side_hover = -1;
  bool count_from_one = false, marks = true;
  int64_t selected = -1, hover_row = -1, hover_column = -1;
};

// An image of a grid drawn over the window of its geometry, clipped to it; the upper triangle stays ground.
void paintMatrix(QPainter& painter, const MatrixScene& scene);

// Name of what is shown and its colours with their limits, in a strip over a figure.
void paintMatrixLegend(QPainter& painter, const QRectF& strip, const QString& name, const ColourScale& scale, const QVector<QRgb>& map,
                       const Theme& theme);

}  // namespace slotscope::views
