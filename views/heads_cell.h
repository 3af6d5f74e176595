// One head as a small picture (design: section 8), and the geometry of the layers x heads grid. Shared by the
// navigator on the screen, its tooltips and exported figures.
#pragma once

#include <QRectF>
#include <QString>

#include "views/heads_view.h"

class QPainter;

namespace slotscope::views {

struct HeadsGeometry {
  QRectF area;
  int layers = 0, heads = 0;
  double left = 27, top = 16, gap = 6;  // room for the labels
  double cell_width = 45, cell_height = 40;
  bool squares = false;  // cells would be too small for a picture

  // Cells fill the width of `area`; heights 40 to 72 as the room allows. Below 30 x 22 they become squares of
  // at least 10.
  static HeadsGeometry make(const QRectF& area, int layers, int heads, double scale);
  QRectF cell(int layer, int head) const {
    return {area.left() + left + head * (cell_width + gap), area.top() + top + layer * (cell_height + gap),
            cell_width, cell_height};
  }
  QSizeF contentSize() const {
    return {left + heads * (cell_width + gap), top + layers * (cell_height + gap)};
  }
};

// Value of a head in a picture that is one number, 0..1 on the map, with its text; NaN: undefined.
struct HeadNumber {
  double place = 0, value = 0;
  QString text;
};
HeadNumber headNumber(const analysis::RunSummary& summary, const analysis::HeadSummary& head,
                      HeadsView::Picture picture);

// The picture inside `rect`: strip over a 5 px score bar, ESL curve, or one number; a hatch for heads without
// routes.
void paintHeadCell(QPainter& painter, const QRectF& rect, const analysis::RunSummary& summary,
                   const analysis::HeadSummary& head, HeadsView::Picture picture, int selected_slot,
                   const Theme& theme);
// A plain square for grids that are too fine for pictures: allocation shows the retrieval score, ESL curve
// the Gini index.
void paintHeadSquare(QPainter& painter, const QRectF& rect, const analysis::RunSummary& summary,
                     const analysis::HeadSummary& head, HeadsView::Picture picture, const Theme& theme);
void paintHeadsLabels(QPainter& painter, const HeadsGeometry& geometry, int layer, int head,
                      const Theme& theme);
void paintHeadsRing(QPainter& painter, const QRectF& cell, const Theme& theme);
// retrieval | shared | other with squares; returns its height.
double paintHeadsLegend(QPainter& painter, const QPointF& at, const Theme& theme);

}  // namespace slotscope::views
