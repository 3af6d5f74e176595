// The four panels of the theory lab: codebook circle, log kappa against beta, log error against q.k, weights over keys. On screen and
// in figures alike; the same geometry answers hit tests.
#pragma once

#include <QPointF>
#include <QRectF>
#include <QString>
#include <QVector>
#include <cmath>

#include "views/export.h"
#include "views/theme.h"
#include "views/theory_data.h"

class QPainter;

namespace slotscope::views {

// One axis of a plot: values low..high at pixels from..to.
struct PlotScale {
  double low = 0, high = 1, from = 0, to = 1;
  bool logarithmic = false;
  double at(double value) const;
  double value(double pixel) const;
  QVector<double> ticks(double gap) const;  // at least `gap` pixels apart
};

struct TheoryPanel {
  QRectF cell, plot;  // cell: with title and labels
  PlotScale x, y;
};

struct TheoryLayout {
  QRectF area;
  TheoryPanel circle, beta, pairs, weights;
  QVector<QRectF> thumbs;  // the other factors, by factor; empty with one factor
  double unit = 1;         // pixels of length 1 in the circle
  QPointF point(double x, double y) const { return {circle.plot.center().x() + unit * x, circle.plot.center().y() - unit * y}; }
  // The vector under a pixel.
  QPointF vector(const QPointF& at) const {
    return {(at.x() - circle.plot.center().x()) / unit, (circle.plot.center().y() - at.y()) / unit};
  }
};
// `reach`: what length the circle has to show; 0: from the data.
TheoryLayout theoryLayout(const TheoryData& data, const QRectF& area, const Theme& theme, double reach = 0);
double theoryReach(const TheoryState& state);
// What the panels need at least at this width.
double theoryHeight(double width, const Theme& theme);

struct TheoryMarks {
  bool on = true;          // hovered and chosen things are marked at all
  int pair = -1;           // hovered pair of the cloud
  double x = std::nan("");  // hovered place on the beta axis
  QChar grip;              // 'q' or 'k': has the keyboard, or is dragged
  bool focus = false;
};
void paintTheory(QPainter& painter, const TheoryData& data, const TheoryLayout& layout, const Theme& theme, const TheoryMarks& marks);

// All panels and a line of numbers below them; on screen and from files alike.
void paintTheoryFigure(QPainter& painter, const TheoryData& data, const QRectF& area, const Theme& theme, const FigureOptions& options);
// The figure of a state, as `slotscope figure` and the figure dialog export it.
Figure theoryFigure(const TheoryState& state);
inline constexpr QSizeF kTheoryFigureSize{900, 660};

// Curves of the beta panel, in drawing order.
struct TheoryCurve {
  QString name;
  const std::vector<double>* values;
  QColor colour;
  Qt::PenStyle style;
};
QVector<TheoryCurve> theoryCurves(const TheoryData& data, const Theme& theme);
QColor theoryReadColour(const Theme& theme);   // reads: q
QColor theoryWriteColour(const Theme& theme);  // writes: k
// The nearest pair of the cloud within `reach` pixels, or -1.
int theoryPairAt(const TheoryData& data, const TheoryLayout& layout, const QPointF& at, double reach = 8);

}  // namespace slotscope::views
