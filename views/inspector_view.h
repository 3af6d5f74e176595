// The selected slot and the selected token in numbers (design: section 10).
#pragma once

#include "views/inspector_data.h"
#include "views/painted_view.h"
#include "views/surprisal.h"

class QMenu;

namespace slotscope::views {

class InspectorView : public PaintedView {
  Q_OBJECT
 public:
  enum class Reference { Query, EndOfPrompt, End, SelectedToken };
  InspectorView(SelectionModel* selection, QWidget* parent = nullptr);

  void setRun(std::shared_ptr<const RunData> run) override;
  void setHead(std::shared_ptr<const analysis::HeadData> head) override;
  void paintFigure(QPainter&, const QRectF&, const Theme&, const FigureOptions&) override;
  QSizeF figureSize() const override { return {380, 700}; }
  QString csv() const override;
  QString figureKind() const override { return QStringLiteral("inspector"); }

  void setReference(Reference reference);
  int64_t referenceToken() const;
  QString choiceText() const;  // "at query", for the title bar
  QMenu* choiceMenu();
  void setWritersOrder(RowOrder order);
  void setSlotsOrder(RowOrder order);

  // One clickable line of the drawn list, in content coordinates.
  struct Row {
    enum Kind { Writer, Slot, Reader, MoreWriters, MoreSlots, MoreReaders, SortWriters, SortSlots } kind;
    QRectF area;
    int64_t value = 0;  // token or slot; for sort rows the RowOrder
    QString text;       // what "copy value" copies
  };
  const QVector<Row>& rows() const;

 Q_SIGNALS:
  void choiceTextChanged(const QString& text);

 protected:
  QString emptyText() const override;
  void paintContent(QPainter&, const QSizeF&, const Theme&) override;
  double contentHeight(double width) const override;
  QString tipAt(const QPointF&) const override;
  QString accessibleText() const override;
  void selectionMoved(int parts) override;
  void contentChanged() override;
  bool event(QEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void mouseMoveEvent(QMouseEvent*) override;
  void leaveEvent(QEvent*) override;
  void keyPressEvent(QKeyEvent*) override;
  void contextMenuEvent(QContextMenuEvent*) override;

 private:
  struct Pen;  // painter, edges and the moving position while drawing
  void refresh();
  double layout(QPainter*, double width, double room, const Theme&, bool marks, QVector<Row>* rows) const;
  void slotBlock(Pen&) const;
  void tokenBlock(Pen&) const;
  void curves(Pen&, double room) const;
  void requestSurprisal();
  QString referenceName() const;
  void activate(const Row&);
  const Row* rowAt(const QPointF&) const;
  Reference reference_ = Reference::Query;
  RowOrder writers_order_ = RowOrder::Strength, slots_order_ = RowOrder::Strength;
  bool all_writers_ = false, all_slots_ = false, all_readers_ = false;
  SlotFacts slot_;
  TokenFacts token_;
  SurprisalReader reader_;
  bool valid_ = false;
  mutable QVector<Row> rows_;
  mutable double rows_width_ = -1;
  int current_row_ = -1;  // keyboard
  QMenu* menu_ = nullptr;
};

}  // namespace slotscope::views
