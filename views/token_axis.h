// The axis of tokens under a plot, as under the heatmap: token text where there is room, positions, the chip of the selected
// token; and the named spans over it (design: section 6).
#pragma once

#include <QPainter>
#include <QRectF>
#include <QString>

#include "core/trace/trace.h"
#include "views/theme.h"

namespace slotscope::views {

struct TokenAxis {
  QRectF plot;
  int64_t first = 0, last = 1;           // visible tokens
  const trace::RunInfo* run = nullptr;   // null: positions only
  const Theme* theme = nullptr;
  double scale = 1;
  int64_t selected = -1;                 // -1: no chip
  bool count_from_one = false;
  QString title = QStringLiteral("token position");

  double cell() const { return plot.width() / double(last - first); }
  double x(double token) const { return plot.left() + (token - double(first)) * cell(); }
};
// 46 px under the plot.
void paintTokenAxis(QPainter& painter, const TokenAxis& axis);
// 24 px over the plot.
void paintTokenSpans(QPainter& painter, const TokenAxis& axis);
// Two lines around a band at least 4 px wide, one through a thinner one.
void paintBand(QPainter& painter, const QRectF& plot, bool vertical, double from, double to, const QColor& colour);

}  // namespace slotscope::views
