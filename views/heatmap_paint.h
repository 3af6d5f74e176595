// Painting of a slot heatmap around and over its cells: one set of functions for the screen and for exported
// figures (design: sections 3, 6, 15). Nothing here knows of widgets.
#pragma once

#include <QImage>
#include <QPainter>
#include <QString>
#include <QVector>
#include <memory>

#include "views/heatmap_data.h"
#include "views/theme.h"
#include "views/view.h"

namespace slotscope::views {

// Everything there is to draw. Plain pointers: valid for the length of a call.
struct HeatmapScene {
  HeatmapGeometry geometry;
  const Theme* theme = nullptr;
  const trace::RunInfo* run = nullptr;  // may be null: no token text, no spans
  const HeadData* head = nullptr;       // never null
  const HeatmapRows* rows = nullptr;    // never null
  const SlotGrid* grid = nullptr;       // null: nothing reduced yet
  int64_t grid_row = 0;                 // display row of the grid's first row
  ColourScale scale;
  QVector<QRgb> colours;
  MarginKind margin_kind = MarginKind::esl;
  const std::vector<double>* margin = nullptr;
  QString note;   // reduction, written on the axis of figures
  QString empty;  // why there is no cell to draw, written into the plot
  bool count_from_one = false;
  Selection selection;
  int hover_slot = -1;
  int64_t hover_token = -1;
  std::optional<CellRange> brush;
  QRectF rubber;            // rubber band of a zoom under way
  bool focus_ring = false;  // the keyboard is here
  // Of a comparison, by slot number of `rows`: names and classes instead of the head's own.
  const QVector<QString>* slot_names = nullptr;
  const std::vector<analysis::SlotClass>* slot_classes = nullptr;
  QImage blend;  // two grids drawn over each other, with the cells of `grid`; null: `grid` itself is drawn
  QString slotName(int slot) const;
};

// The grid as an image, one pixel per cell: not routed and NaN transparent, infinite cells in the end
// colours.
QImage gridImage(const SlotGrid& grid, const ColourScale& scale, const QVector<QRgb>& colours);
// Two grids of equal shape over each other: `a` in model A's colour, `b` in model B's, both where both have a cell. On the
// ground of the plot; a cell that neither has is transparent.
QImage blendImage(const SlotGrid& a, const ColourScale& scale_a, const SlotGrid& b, const ColourScale& scale_b,
                  const Theme& theme);
void paintBlend(QPainter& painter, const HeatmapScene& scene);
// Where the grid's cells lie on the screen; reaches beyond the plot when more was fetched than is visible.
QRectF gridRect(const HeatmapScene& scene);
// The image into the plot, clipped; nearest neighbour. In pieces where the painter's coordinates would
// overflow (B47).
void paintGridImage(QPainter& painter, const HeatmapScene& scene, const QImage& image);

// Below the cells: the plot's ground. Above: hatches of NaN, triangles of infinite cells, "no finite values".
void paintGround(QPainter& painter, const HeatmapScene& scene);
void paintSpecialCells(QPainter& painter, const HeatmapScene& scene);
// Name of the quantity and colour bar with its limits, in a strip as wide as the plot. Vectors only: a figure's one image is
// the map.
void paintColourLegend(QPainter& painter, const QRectF& strip, const HeatmapScene& scene, const QString& name);
// Frame, groups, class strip, row names, spans, ESL bars, ticks, token strip.
void paintOverlay(QPainter& painter, const HeatmapScene& scene);
void paintSelection(QPainter& painter, const HeatmapScene& scene);
void paintHover(QPainter& painter, const HeatmapScene& scene);

// Where names of spans go: they keep 8 px, and hide before they overlap, key and answer last. Names sorted
// from left to right.
struct SpanName {
  QString text;
  bool retrieval = false;
  double left = 0, width = 0;
  double wanted = 0;  // where it would stand alone
};
QVector<SpanName> placeSpanNames(QVector<SpanName> names, double left, double right, double gap = 8);

// Text of a token on the axis: short display form; bytes that are part of one character are drawn once over
// the joined cells.
struct TokenLabel {
  int64_t first = 0;
  int count = 1;
  QString text;
};
QVector<TokenLabel> tokenLabels(const trace::RunInfo& run, int64_t first, int64_t last);
// `t` as written on axes: its position, from 1 when asked.
inline int64_t shown(int64_t t, bool from_one) { return t + (from_one ? 1 : 0); }

// A chip on an axis: 16 high, radius 3, 11 px semibold, selection colours.
double chipWidth(const QString& text, const Theme& theme);
void paintChip(QPainter& painter, const QRectF& rect, const QString& text, const Theme& theme);

}  // namespace slotscope::views
