// Router raster: tokens x slots, filled where written, this head's real routes between the two ends of the axis that routed
// memories lie on, dense and FIFO (spec: raven-analysis, "Figures", 1; Raven Fig. 1).
#pragma once

#include <QImage>
#include <vector>

#include "core/analysis/raster.h"
#include "views/painted_view.h"

class QComboBox;

namespace slotscope::views {

class RasterView : public PaintedView {
  Q_OBJECT
 public:
  RasterView(SelectionModel* selection, QWidget* parent = nullptr);

  void setRun(std::shared_ptr<const RunData> run) override;
  void paintFigure(QPainter&, const QRectF&, const Theme&, const FigureOptions&) override;
  QSizeF figureSize() const override;
  QString csv() const override;
  QString figureKind() const override { return QStringLiteral("raster"); }

  // A head of another trace with the same axis of tokens, at the right of this one: a measured router takes the place of the
  // reference of its kind (dense, ring). Cleared by setRun.
  void addBeside(std::shared_ptr<const RunData> run, std::shared_ptr<const analysis::HeadData> head);
  // Tokens shown; 0: as many as the visible token range has, at most kMostRasterTokens.
  void setTokens(int64_t tokens);
  std::pair<int64_t, int64_t> window() const { return {first_, last_}; }

  struct Panel {
    QString title, subtitle;
    analysis::Raster raster;
    std::shared_ptr<const RunData> run;  // of a measured one
    std::shared_ptr<const analysis::HeadData> head;
    mutable QImage image;
    mutable bool image_dark = false;
  };
  const std::vector<Panel>& panels() const { return panels_; }
  QVector<QRectF> plotsFor(const QRectF& area, const Theme& theme) const;

 protected:
  QString emptyText() const override;
  void paintContent(QPainter&, const QSizeF&, const Theme&) override;
  QString tipAt(const QPointF&) const override;
  QString accessibleText() const override;
  void contentChanged() override;
  void selectionMoved(int parts) override;
  void changeEvent(QEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void mouseMoveEvent(QMouseEvent*) override;
  void mouseDoubleClickEvent(QMouseEvent*) override;
  void leaveEvent(QEvent*) override;

 private:
  struct Beside {
    std::shared_ptr<const RunData> run;
    std::shared_ptr<const analysis::HeadData> head;
  };
  struct Hit {
    int panel = -1;
    int slot = -1;
    int64_t token = -1;
  };
  void rebuild();
  void addMeasured(std::shared_ptr<const RunData> run, std::shared_ptr<const analysis::HeadData> head);
  Hit hitAt(const QPointF&) const;
  const QImage& imageOf(const Panel&, const Theme&) const;
  void paintPanels(QPainter&, const QRectF&, const Theme&, bool marks, const FigureOptions&) const;
  QVector<LegendItem> legend(const Theme&) const;

  std::vector<Beside> beside_;
  std::vector<Panel> panels_;
  int64_t tokens_ = 128, first_ = 0, last_ = 0;
  LegendWidget* legend_ = nullptr;
  QComboBox* width_ = nullptr;
};

}  // namespace slotscope::views
