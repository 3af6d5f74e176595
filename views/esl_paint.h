// Bars of effective sequence length: one paint function for the ESL view, its references and the cells of the
// ESL grid.
#pragma once

#include <QColor>
#include <QPointF>
#include <QRectF>
#include <QString>
#include <QVector>

#include "core/analysis/allocation.h"
#include "core/analysis/esl.h"

class QPainter;

namespace slotscope::views {

struct Theme;

struct EslPanel {
  const analysis::EslResult* esl = nullptr;
  const analysis::HeadAllocation* allocation = nullptr;  // for bars coloured by slot class
  bool by_class = false;
  bool in_tokens = false;  // y axis: tokens instead of 0-1
  double y_max = 1;        // normalised
  int selected_slot = -1, hover_slot = -1;
  bool cuts = true;
  double pixel = 1;  // bar edges are floored to this; exported figures have finer pixels

  int slots() const { return esl ? int(esl->esl.size()) : 0; }
  double normalised(int slot) const;  // ESL / T; 0 for an empty run
};

QString regimeName(analysis::Regime regime);  // long, intermediate, short, uniform, empty

// Colour of a bar: regime or class colour, mixed 12 % with white in the light theme.
QColor eslBarColour(const EslPanel& panel, int slot, const Theme& theme);
// Rectangle of bar `at` (sorted position) inside the plot area; edges on whole pixels, 1 px gap from 6 px.
QRectF eslBar(const EslPanel& panel, const QRectF& plot, int at);
// Sorted position under x, or -1.
int eslBarAt(const EslPanel& panel, const QRectF& plot, double x);
double eslY(const EslPanel& panel, const QRectF& plot, double normalised);
// Bars, cuts and fit inside `plot`; no axes, no text.
void paintEslBars(QPainter& painter, const EslPanel& panel, const QRectF& plot, const Theme& theme,
                  double fit_width);
// "fit c·e^(−i/λ)   c = 1.051   λ = 7.1 slots   R² = 0.988"; "" when there is no fit.
QString fitText(const analysis::EslFit& fit);

// Ticks at a round step so that at most `most` intervals lie in [0, top]; `whole`: the step is at least 1 and
// whole.
QVector<double> roundTicks(double top, int most, bool whole);
// Slot ticks: 0, step, ... and always the last slot; the step divides `slots` when a power of two does.
QVector<double> slotTicks(int slots, double width, double least_gap);

}  // namespace slotscope::views
