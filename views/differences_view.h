// Differences of two runs as numbers: answers, this head, the key at the query, step by step (design: section
// 12). The panel beside the comparison.
#pragma once

#include <QPointer>
#include <QVector>

#include "views/compare_model.h"
#include "views/painted_view.h"

namespace slotscope::views {

class DifferencesView : public PaintedView {
  Q_OBJECT
 public:
  explicit DifferencesView(SelectionModel* selection, QWidget* parent = nullptr);
  void setModel(CompareModel* model);

  // One line: a heading (both values empty) or a name with the values of A and B.
  struct Row {
    enum class Kind { heading, value, text, step } kind = Kind::value;
    QString name, a, b;
    enum class Mark { none, right, wrong } mark_a = Mark::none, mark_b = Mark::none;
    int64_t token = -1;  // of A, for steps
  };
  QVector<Row> rows() const;

  void paintFigure(QPainter&, const QRectF&, const Theme&, const FigureOptions&) override;
  QSizeF figureSize() const override;
  QString csv() const override;
  QString figureKind() const override { return QStringLiteral("differences"); }
  void setMessage(const QString&, const QString& = {}) override {}  // says what is missing by itself

 protected:
  bool needsHead() const override { return false; }
  QString emptyText() const override;
  void paintContent(QPainter& painter, const QSizeF& size, const Theme& theme) override;
  double contentHeight(double width) const override;
  QString tipAt(const QPointF& position) const override;
  QString accessibleText() const override;
  bool event(QEvent* event) override;
  void mousePressEvent(QMouseEvent*) override;
  void mouseMoveEvent(QMouseEvent*) override;
  void leaveEvent(QEvent*) override;
  void keyPressEvent(QKeyEvent*) override;

 private:
  void paintRows(QPainter& painter, double width, const Theme& theme, bool marks) const;
  double rowHeight(const Row& row, double scale) const;
  int rowAt(const QPointF& position) const;
  QPointer<CompareModel> model_;
};

}  // namespace slotscope::views
