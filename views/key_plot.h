// "Is the key still there?": what two heads still hold of the key's writes, on the token axis of the heatmaps
// above (design: section 12). One paint function for the screen and for figures.
#pragma once

#include <QRectF>
#include <QString>

#include "views/compare_model.h"
#include "views/heatmap_geometry.h"

class QPainter;

namespace slotscope::views {

struct Theme;

struct KeyPlotScene {
  const CompareModel* model = nullptr;
  CellRange tokens{0, 1};   // visible, on A's axis
  int64_t selected = -1, hovered = -1;  // tokens of A; -1: none
  bool count_from_one = false;
  bool title = true;  // the header row; else the caller draws it
};
constexpr double kKeyPlotHeight = 178, kCompareHeader = 26;

// "Raven" or "GSA" where the families differ, else the models' own names.
QString shortName(const CompareModel& model, bool b);
// The reason where a curve is missing: "B: log decay was not captured"; "" where it is not.
QString keyReason(const CompareSide& side, const QString& letter);
// Where the axis lies inside `area`; aligned with the plots of HeatmapGeometry in the same width.
QRectF keyPlotArea(const QRectF& area, const KeyPlotScene& scene, double scale);
void paintKeyPlot(QPainter& painter, const QRectF& area, const KeyPlotScene& scene, const Theme& theme);
// A badge with a letter, 18 x 16, centred on `middle` (design: section 4).
void paintBadge(QPainter& painter, const QRectF& box, const QString& letter, const QColor& colour, const Theme& theme);
// Token of A under x.
int64_t keyTokenAt(const QRectF& plot, const KeyPlotScene& scene, double x);

}  // namespace slotscope::views
