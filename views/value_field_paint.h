// Drawing of value fields: the grid of panels on screen and in figures, and one panel large with what is stored (design: section
// 12; RAM-Net Figures 1 and 4).
#pragma once

#include <QImage>
#include <QRectF>
#include <QVector>
#include <map>
#include <memory>
#include <optional>

#include "core/analysis/value_field.h"
#include "views/export.h"

namespace slotscope::views {

// Where everything is, for an area; all panels are squares of one size.
struct FieldGeometry {
  QRectF area;
  int rows = 0, columns = 0;
  double size = 0;
  QVector<QRectF> panels;  // [rows, columns]
  double header = 0;       // height above the first row
  double bottom = 0;       // of the last caption and the line below all panels
  const QRectF& panel(int row, int column) const { return panels[row * columns + column]; }
  // The panel at a point, [row, columns]; -1: none. `margin`: keys at an edge reach over it.
  int at(const QPointF& point, double margin = 0) const;
};
FieldGeometry fieldGeometry(const analysis::FieldSettings&, const QRectF& area, const Theme&);
// The least height in which all panels have `size`, at this width.
double fieldHeight(const analysis::FieldSettings&, double width, const Theme&);
QSizeF fieldFigureSize(const analysis::FieldSettings&);
// One large panel and, at its right, room for what is stored.
QRectF largeFieldPanel(const QRectF& area, const Theme&);

// Query coordinates <-> points of a panel (y upwards). On the torus a point outside is wrapped, in the plane clamped.
QPointF fieldPoint(const analysis::FieldSettings&, const QRectF& panel, double x, double y);
QPointF fieldQuery(const analysis::FieldSettings&, const QRectF& panel, const QPointF& point);

// 0..1, or the range of the keys' values where they leave it.
std::pair<double, double> fieldRange(const analysis::FieldSettings&);
QColor fieldColour(const analysis::FieldSettings&, const double* value);
QImage fieldImage(const analysis::FieldSettings&, const analysis::FieldResult&);  // [G x G], top row = largest y

QString fieldTitle(const analysis::FieldSettings&, size_t column);  // one line
QString fieldRowText(double row);                                    // "β = 0.5 β*"
QString fieldCaption(const analysis::FieldSettings&, const analysis::FieldResult&, size_t column);  // "RMSE 0.200   mass 1.00"
QString fieldFacts(const analysis::FieldSettings&);                  // under a figure

struct FieldMarks {
  const std::vector<analysis::FieldKey>* keys = nullptr;  // drawn where they are now; null: the field's own
  std::optional<QPointF> cross;                           // query coordinates
  int selected = -1, hovered = -1;                        // keys
  int focused = -1;                                       // panel
  bool fine = true;                                       // false: a quick field of few queries, drawn smooth
};
// Images of panels, kept as long as their fields live.
class FieldImages {
 public:
  const QImage& of(const analysis::FieldSettings&, const std::shared_ptr<const analysis::FieldResult>&);
  void forgetOthers(const analysis::ValueField&);

 private:
  std::map<std::shared_ptr<const analysis::FieldResult>, QImage> images_;
};

void paintField(QPainter&, const FieldGeometry&, const analysis::ValueField&, const Theme&, const FieldMarks&, FieldImages&);
// Frame, ends of both axes, keys and cross of one panel that stands alone.
void paintFieldMarks(QPainter&, const QRectF& panel, const analysis::FieldSettings&, const Theme&, const FieldMarks&);
// One panel with codes, slots (area: mass, colour: value) or stored keys, and the numbers at its right.
void paintLargeField(QPainter&, const QRectF& area, const analysis::ValueField&, int panel, const Theme&, const FieldMarks&, FieldImages&);
// "value 0 [bar] 1", right-aligned at `right`.
void paintFieldLegend(QPainter&, double right, double middle, const analysis::FieldSettings&, const Theme&);

QString fieldCsv(const analysis::ValueField&);
// The figure of a field: on paper as in the window.
void paintFieldFigure(QPainter&, const QRectF& area, const Theme&, const FigureOptions&, const analysis::ValueField&, const FieldMarks&);
Figure valueFieldFigure(std::shared_ptr<const analysis::ValueField>);

}  // namespace slotscope::views
