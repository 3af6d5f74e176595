// What all views have in common. A view gets plain structs, follows the SelectionModel, and paints itself through
// paintFigure() on screen and in exported figures alike.
#pragma once

#include <QString>
#include <QWidget>
#include <memory>

#include "core/analysis/head_data.h"
#include "views/selection.h"
#include "views/theme.h"
#include "views/worker.h"

class QPainter;

namespace slotscope::views {

// One run of an open trace with its summary over all heads. Immutable, shared.
struct RunData {
  std::shared_ptr<const trace::Trace> trace;
  int run = 0;
  analysis::RunSummary summary;
  QString model_name;    // "raven-passkey"
  QString device_text;   // "CPU · float32"
  analysis::AllocationOptions allocation;
  analysis::EslOptions esl;
  std::shared_ptr<const trace::RunInfo> own_info;  // the run's description where there is no trace behind it (previews, tests)
  const trace::RunInfo& info() const { return own_info ? *own_info : trace->run(run); }
};

struct FigureOptions {
  bool selection = false;     // keep the selection marks
  bool caption = true;        // model, prompt, layer, head, lengths, thresholds under the figure
  bool legend = true;         // colour bar and name of the quantity over a heatmap
  bool countFromOne = false;  // axis titles as printed in the paper; files and CSV keep 0
  double scale = 1;           // text and line scale
};

class View : public QWidget {
  Q_OBJECT
 public:
  View(SelectionModel* selection, QWidget* parent);

  // Null: nothing open. A new run is followed by setHead.
  virtual void setRun(std::shared_ptr<const RunData> run);
  // Null: loading or no routes; then message() says which.
  virtual void setHead(std::shared_ptr<const analysis::HeadData> head);
  // Empty state: one sentence and, when `button` is not empty, one button that emits messageAction(). "" clears it.
  virtual void setMessage(const QString& text, const QString& button = {});
  virtual void setLoading(bool loading, const QString& stage = {});

  // Draws the figure into `area` with the given theme; no window chrome. Same code as on screen.
  virtual void paintFigure(QPainter& painter, const QRectF& area, const Theme& theme, const FigureOptions& options) = 0;
  virtual QSizeF figureSize() const { return {640, 400}; }  // natural size at 96 dpi
  virtual QString csv() const = 0;                          // the figure's data; first lines "# key: value" captions
  virtual QString figureKind() const = 0;                   // heatmap, esl, esl-grid, allocation, ...

  const std::shared_ptr<const RunData>& runData() const { return run_; }
  const std::shared_ptr<const analysis::HeadData>& headData() const { return head_; }

 Q_SIGNALS:
  void messageAction();
  void statusText(const QString& text);       // hovered value, shown at once in the status bar
  void reductionText(const QString& text);    // "max of 113 tokens per column"
  void openViewRequested(const QString& kind);  // double click goes deeper

 protected:
  SelectionModel* selection_;
  std::shared_ptr<const RunData> run_;
  std::shared_ptr<const analysis::HeadData> head_;
  QString message_, message_button_, loading_stage_;
  bool loading_ = false;
};

}  // namespace slotscope::views
