// The text of the run with one quantity as background (design: section 10).
#pragma once

#include "views/painted_view.h"
#include "views/prompt_layout.h"
#include "views/surprisal.h"
#include "views/token_cells.h"

class QLineEdit;
class QMenu;

namespace slotscope::views {

class PromptView : public PaintedView {
  Q_OBJECT
 public:
  enum class Quantity { WritesIntoSlot, TotalWrites, LeftAtQuery, ReadBySelected, Surprisal };
  PromptView(SelectionModel* selection, QWidget* parent = nullptr);
  ~PromptView() override;

  void setRun(std::shared_ptr<const RunData> run) override;
  void setHead(std::shared_ptr<const analysis::HeadData> head) override;
  void paintFigure(QPainter&, const QRectF&, const Theme&, const FigureOptions&) override;
  QSizeF figureSize() const override;
  QString csv() const override;
  QString figureKind() const override { return QStringLiteral("prompt"); }

  Quantity quantity() const { return quantity_; }
  void setQuantity(Quantity quantity);
  void setAsWritten(bool on);  // line breaks of the text break lines
  QString choiceText() const;  // "colour: writes into slot 25", for the panel's title bar
  QMenu* choiceMenu();         // owned by the view
  // Background values [T] of the current quantity; NaN where it is not known. `why` says why all are unknown.
  const std::vector<double>& values() const;
  QString why() const { return why_; }

  // Rectangles of a token in content coordinates (two when its cell is split over lines); empty when it does
  // not exist.
  QVector<QRectF> tokenRects(int64_t token) const;
  int64_t tokenAt(const QPointF& content) const;  // -1: none
  int lineCount() const;
  int searchFor(const QString& text);  // number of matches; selects the first at or after the selected token
  void findNext(bool backwards = false);

 Q_SIGNALS:
  void choiceTextChanged(const QString& text);

 protected:
  bool needsHead() const override { return false; }
  QString emptyText() const override;
  void paintContent(QPainter&, const QSizeF&, const Theme&) override;
  double contentHeight(double width) const override;
  QString tipAt(const QPointF&) const override;
  QString accessibleText() const override;
  void selectionMoved(int parts) override;
  void hoverMoved() override;
  void contentChanged() override;
  bool event(QEvent*) override;
  void changeEvent(QEvent*) override;
  void resizeEvent(QResizeEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void mouseMoveEvent(QMouseEvent*) override;
  void mouseReleaseEvent(QMouseEvent*) override;
  void mouseDoubleClickEvent(QMouseEvent*) override;
  void leaveEvent(QEvent*) override;
  void keyPressEvent(QKeyEvent*) override;

 private:
  void rebuildValues() const;
  const PromptLayout& text() const;
  void paintLines(QPainter&, const PromptLayout&, double width, const Theme&, double top, double bottom,
                  bool marks) const;
  void placeSearch();
  void openSearch();
  void closeSearch();
  void requestSurprisals();
  void showToken(int64_t token);
  QString quantityName() const;
  Quantity quantity_ = Quantity::WritesIntoSlot;
  bool as_written_ = false;
  mutable std::vector<double> values_;
  mutable double maximum_ = 0;
  mutable QString why_;
  mutable bool values_valid_ = false;
  std::vector<double> surprisals_;
  SurprisalReader reader_;
  mutable std::unique_ptr<PromptLayout> text_;
  std::vector<std::pair<int64_t, int64_t>> matches_;
  qint64 brush_from_ = -1;
  bool brushing_ = false;
  QWidget* search_ = nullptr;
  QLineEdit* search_field_ = nullptr;
  class QLabel* search_count_ = nullptr;
  QMenu* menu_ = nullptr;
};

}  // namespace slotscope::views
