// The model's answer with its verdict, step by step (design: section 10).
#pragma once

#include <functional>

#include "views/painted_view.h"

namespace slotscope::views {

class OutputView : public PaintedView {
  Q_OBJECT
 public:
  OutputView(SelectionModel* selection, QWidget* parent = nullptr);

  void paintFigure(QPainter&, const QRectF&, const Theme&, const FigureOptions&) override;
  QSizeF figureSize() const override;
  QString csv() const override;
  QString figureKind() const override { return QStringLiteral("output"); }

  // Text of vocabulary entries that do not occur in the run ("" when unknown); without it they show as #id.
  void setTokenNames(std::function<QString(int32_t)> names);

  struct Step {
    int64_t position = 0;  // token position that was chosen
    QString chosen;
    double p = 0;                                // NaN when not among the captured candidates
    QVector<std::pair<QString, double>> others;  // other candidates with p, best first
  };
  QVector<Step> steps() const;
  QRectF stepRect(int step, double width) const;  // content coordinates

 protected:
  bool needsHead() const override { return false; }
  QString emptyText() const override;
  void paintContent(QPainter&, const QSizeF&, const Theme&) override;
  double contentHeight(double width) const override;
  QString tipAt(const QPointF&) const override;
  QString accessibleText() const override;
  bool event(QEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void mouseMoveEvent(QMouseEvent*) override;
  void keyPressEvent(QKeyEvent*) override;

 private:
  void paintAll(QPainter&, double width, const Theme&, bool marks) const;
  QString nameOf(int32_t id) const;
  QString candidateName(size_t at) const;  // at: position in top_ids
  std::function<QString(int32_t)> names_;
  double tableTop() const;
  int stepAt(const QPointF&) const;
};

}  // namespace slotscope::views
