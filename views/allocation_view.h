// Slot allocation by role over all layers and heads, with the prompt and the answer (design: section 9; Raven
// Figs 6, 7).
#pragma once

#include "views/painted_view.h"
#include "views/strip.h"

class QComboBox;
class QDoubleSpinBox;

namespace slotscope::views {

class AllocationView : public PaintedView {
  Q_OBJECT
 public:
  enum class Roles { TaskSpans, Brushed };
  AllocationView(SelectionModel* selection, QWidget* parent = nullptr);

  void setRun(std::shared_ptr<const RunData> run) override;
  void paintFigure(QPainter&, const QRectF&, const Theme&, const FigureOptions&) override;
  QSizeF figureSize() const override;
  QString csv() const override;
  QString figureKind() const override { return QStringLiteral("allocation"); }

  // Allocation with other roles than the trace's, layer-major over the heads of the run; empty: back to the
  // run's own. `roles` [T] colours the prompt; `name` goes into the caption ("brushed tokens 150–157").
  void setAllocations(std::vector<analysis::HeadAllocation> allocations, std::vector<uint8_t> roles,
                      const QString& name);

  struct Geometry {
    double left = 0, top = 0, strip_width = 0, strip_height = 0, step_x = 0, step_y = 0;
    int layers = 0, heads = 0;
    bool counts = true;   // there is room for the counts under each strip
    bool score = true;    // and for R at their right
    double text_top = 0;  // where the prompt begins
    double text_height = 0;
    double height = 0;
    QRectF strip(int layer, int head) const;
  };
  Geometry geometryFor(const QSizeF& size, const Theme& theme) const;

 Q_SIGNALS:
  // The user asks for another threshold; the window analyses again and hands over a new run.
  void allocationOptionsRequested(const slotscope::analysis::AllocationOptions& options);
  // Other roles: brush = half-open token range, or nothing for the task's own spans. Answer with
  // setAllocations.
  void rolesRequested(slotscope::views::AllocationView::Roles roles,
                      std::optional<std::pair<qint64, qint64>> brush);

 protected:
  bool needsHead() const override { return false; }
  QString emptyText() const override;
  void paintContent(QPainter&, const QSizeF&, const Theme&) override;
  double contentHeight(double width) const override;
  QString tipAt(const QPointF&) const override;
  QString accessibleText() const override;
  void selectionMoved(int parts) override;
  void contentChanged() override;
  bool event(QEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void mouseDoubleClickEvent(QMouseEvent*) override;
  void mouseMoveEvent(QMouseEvent*) override;
  void leaveEvent(QEvent*) override;
  void resizeEvent(QResizeEvent*) override;
  void keyPressEvent(QKeyEvent*) override;

 private:
  const analysis::HeadSummary* summaryAt(int layer, int head) const;
  const analysis::HeadAllocation* allocationAt(int layer, int head) const;
  std::pair<int, int> cellAt(const QPointF&) const;
  int slotAt(const QPointF&) const;
  void paintAll(QPainter&, const QSizeF&, const Theme&, bool selection, bool count_from_one) const;
  void paintCounts(QPainter&, const QRectF& strip, const analysis::HeadAllocation&, const Theme&,
                   bool score) const;
  double paintText(QPainter*, double left, double top, double width, double height, const Theme&) const;
  void updateBar();
  std::vector<analysis::HeadAllocation> own_allocations_;
  std::vector<uint8_t> own_roles_;
  QString own_name_;
  LegendWidget* legend_ = nullptr;
  QLabel* score_label_ = nullptr;
  QComboBox *roles_ = nullptr, *threshold_ = nullptr;
};

}  // namespace slotscope::views
