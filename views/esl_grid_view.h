// Effective sequence length of every head as small multiples: heads across, layers down (design: section 9;
// Raven Fig. 8).
#pragma once

#include "views/esl_paint.h"
#include "views/painted_view.h"

class QComboBox;

namespace slotscope::views {

class EslGridView : public PaintedView {
  Q_OBJECT
 public:
  EslGridView(SelectionModel* selection, QWidget* parent = nullptr);

  void paintFigure(QPainter&, const QRectF&, const Theme&, const FigureOptions&) override;
  QSizeF figureSize() const override;
  QString csv() const override;
  QString figureKind() const override { return QStringLiteral("esl-grid"); }

  void setByClass(bool by_class);
  void setOwnMaximum(bool own);  // y: each cell's own maximum instead of shared 0-1

  struct Geometry {
    bool small = false;  // more than 6 x 4 cells: 90 x 56 without text
    double left = 0, top = 0, cell_width = 0, cell_height = 0, step_x = 0, step_y = 0, height = 0;
    int layers = 0, heads = 0;
    QRectF cell(int layer, int head) const;
  };
  // For a content area of this width (and height, which large cells fill).
  Geometry geometryFor(const QSizeF& size, const Theme& theme = Theme::current()) const;

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
  void keyPressEvent(QKeyEvent*) override;

 private:
  const analysis::HeadSummary* summaryAt(int layer, int head) const;
  std::pair<int, int> cellAt(const QPointF&) const;  // layer, head; (-1, -1) outside
  void paintGrid(QPainter&, const QSizeF&, const Theme&, bool selection, bool count_from_one,
                 double scale) const;
  void paintCell(QPainter&, const QRectF&, const analysis::HeadSummary*, const Geometry&, const Theme&,
                 bool x_labels, bool y_labels, double scale) const;
  void updateBar();
  QVector<LegendItem> legend(const Theme&) const;
  bool by_class_ = false, own_maximum_ = false;
  LegendWidget* legend_ = nullptr;
  QComboBox *bars_ = nullptr, *scale_ = nullptr;
};

}  // namespace slotscope::views
