// Effective sequence length of one head (design: section 9; Raven Fig. 5).
#pragma once

#include "core/analysis/references.h"
#include "views/esl_paint.h"
#include "views/painted_view.h"

class QComboBox;
class QToolButton;

namespace slotscope::views {

class EslView : public PaintedView {
  Q_OBJECT
 public:
  EslView(SelectionModel* selection, QWidget* parent = nullptr);

  void setHead(std::shared_ptr<const analysis::HeadData> head) override;
  void paintFigure(QPainter&, const QRectF&, const Theme&, const FigureOptions&) override;
  QSizeF figureSize() const override { return references_ ? QSizeF(900, 380) : QSizeF(640, 400); }
  QString csv() const override;
  QString figureKind() const override { return QStringLiteral("esl"); }

  void setByClass(bool by_class);
  enum class YAxis { Shared, OwnMaximum, Tokens };  // 0-1, up to this head's longest, number of tokens
  void setYAxis(YAxis axis);
  void setReferences(bool on);
  // Measured references from open traces. The theory stands in for what is not there.
  void setMeasured(std::vector<analysis::EslReference> measured);
  void setCuts(const analysis::EslOptions& options);  // recomputes regimes here at once
  const analysis::EslOptions& cuts() const { return cuts_; }
  const analysis::EslResult& result() const { return result_; }

  struct Layout {
    QVector<QRectF> plots;  // measured; with references also SSM and SWA
    double title = 0;       // height of panel titles
  };
  Layout layoutFor(const QRectF& area, const Theme& theme) const;

 Q_SIGNALS:
  // The user moved a cut and let go: other views should use it too.
  void eslOptionsRequested(const slotscope::analysis::EslOptions& options);

 protected:
  QString emptyText() const override;
  void paintContent(QPainter&, const QSizeF&, const Theme&) override;
  QString tipAt(const QPointF&) const override;
  QString accessibleText() const override;
  void contentChanged() override;
  void hoverMoved() override;
  bool event(QEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void mouseMoveEvent(QMouseEvent*) override;
  void mouseReleaseEvent(QMouseEvent*) override;
  void keyPressEvent(QKeyEvent*) override;
  void leaveEvent(QEvent*) override;
  void contextMenuEvent(QContextMenuEvent*) override;

 private:
  EslPanel panel(bool marks) const;
  void paintPlots(QPainter&, const QRectF&, const Theme&, bool marks, const FigureOptions&) const;
  void paintReference(QPainter&, const QRectF&, const Theme&, bool ring, double scale) const;
  // The measured reference of that kind, of as many tokens as the head if there is one; null: only theory.
  const analysis::EslReference* measuredReference(bool ring) const;
  QString referenceTitle(bool ring) const;
  void paintFrame(QPainter&, const QRectF& plot, const EslPanel&, const Theme&, bool y_labels, bool y_title,
                  bool count_from_one) const;
  void updateBar();
  QVector<LegendItem> legend(const Theme&) const;
  int cutAt(const QPointF&) const;  // 0 none, 1 low, 2 high
  int slotUnder(const QPointF&) const;

  analysis::EslResult result_;
  analysis::EslOptions cuts_;
  YAxis y_axis_ = YAxis::Shared;
  std::vector<analysis::EslReference> measured_;
  bool by_class_ = false, references_ = false;
  int dragged_cut_ = 0;
  LegendWidget* legend_ = nullptr;
  QComboBox* bars_ = nullptr;
  QToolButton* references_button_ = nullptr;
};

}  // namespace slotscope::views
