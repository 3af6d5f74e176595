// The figure of a sweep (Raven Fig. 4): accuracy and ESL against length with all models in one picture, and a map of accuracy over
// length and depth per model where depths are a grid.
#pragma once

#include <memory>

#include "core/analysis/sweep.h"
#include "core/trace/sweep_file.h"
#include "views/export.h"

namespace slotscope::views {

struct SweepData {
  trace::Sweep sweep;
  analysis::SweepTable table;
  QString file;  // as given, for the facts
};
// Reads the file and makes its table. Throws Error.
std::shared_ptr<const SweepData> readSweep(const QString& file, double confidence = 0.95);

// What paint draws for one model of the line panels, in figure coordinates: also for tests.
struct SweepLine {
  QString name;
  QColor colour;
  QVector<QPointF> points;            // lengths without prompts are left out
  QVector<std::pair<double, double>> band;  // y of the upper and the lower end at each point
  double label = 0;                   // middle of the direct label
};
struct SweepPanel {
  QRectF plot;
  QVector<SweepLine> lines;
};
// Accuracy: 0 to 1 from bottom to top, band = the table's intervals. ESL: logarithmic from `least` (a power of ten) to 1, band = from
// the shortest to the longest slot in use.
SweepPanel accuracyPanel(const SweepData& data, const QRectF& plot, const Theme& theme);
SweepPanel eslPanel(const SweepData& data, const QRectF& plot, const Theme& theme, double* least = nullptr);

Figure sweepFigure(std::shared_ptr<const SweepData> data);

}  // namespace slotscope::views
