// What the painted views share: the 36 px view bar with legend, scrolling, the states of section 13 of the
// design (empty, loading, message with one button), tooltips and the keyboard focus ring. A subclass draws
// its content and answers for its geometry.
#pragma once

#include <QElapsedTimer>
#include <QPixmap>
#include <QVector>
#include <utility>

#include "views/view.h"

class QHBoxLayout;
class QLabel;
class QPushButton;
class QScrollBar;
class QTimer;

namespace slotscope::views {

struct LegendItem {
  enum Mark { Square, Line, Outline } mark = Square;
  QColor colour;
  QString text;
  QString brief;  // used where the whole legend does not fit; empty: text
};
// Draws items from left to right starting at `left`, centred on `middle`; returns the x after the last one.
double paintLegend(QPainter& painter, double left, double middle, const QVector<LegendItem>& items,
                   const Theme& theme);
double legendWidth(const QVector<LegendItem>& items, const Theme& theme);

// Rich text of a tooltip: a semibold first line, name/value rows, a rule, then formula and source (design:
// section 13).
QString tipText(const QString& title, const QVector<std::pair<QString, QString>>& rows, const QString& source,
                const Theme& theme);

// The summary of one head, or null when this layer has no such head.
const analysis::HeadSummary* findHead(const analysis::RunSummary& summary, int layer, int head);
// Diagonal lines for what was not captured.
void paintHatch(QPainter& painter, const QRectF& area, const Theme& theme);
// An icon-like tick or cross in a 14 x 14 box around `middle`.
void paintVerdict(QPainter& painter, const QPointF& middle, bool good, const QColor& colour);

class LegendWidget : public QWidget {
 public:
  explicit LegendWidget(QWidget* parent) : QWidget(parent) {}
  void setItems(QVector<LegendItem> items);
  const QVector<LegendItem>& items() const { return items_; }
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return {0, 26}; }
  // What is drawn at this width: all in full, all brief, or as many as fit.
  QVector<LegendItem> fitting(double width) const;

 protected:
  void paintEvent(QPaintEvent*) override;

 private:
  QVector<LegendItem> items_;
};

class PaintedView : public View {
  Q_OBJECT
 public:
  PaintedView(SelectionModel* selection, QWidget* parent);

  void setRun(std::shared_ptr<const RunData> run) override;
  void setHead(std::shared_ptr<const analysis::HeadData> head) override;
  void setMessage(const QString& text, const QString& button = {}) override;
  void setLoading(bool loading, const QString& stage = {}) override;

  // The area that content is drawn into, in widget coordinates (without view bar and scroll bar).
  QRectF contentRect() const;
  double scrollOffset() const;
  void scrollTo(double y);

 protected:
  static constexpr int kBarHeight = 36;

  QHBoxLayout* viewBar();  // made at the first call
  QLabel* barLabel(const QString& text);
  // False for views of the whole run: what concerns one head (its message, its absence) leaves them as they
  // are.
  virtual bool needsHead() const { return true; }
  // Why there is nothing to draw; empty when paintContent can draw.
  virtual QString emptyText() const = 0;
  // The ground of a figure, and on it why there is nothing to draw: then true.
  bool paintGround(QPainter& painter, const QRectF& area, const Theme& theme) const;
  // Draws with the content's top left at (0, 0) and the given size; already scrolled.
  virtual void paintContent(QPainter& painter, const QSizeF& size, const Theme& theme) = 0;
  // Height that the content wants at this width; more than there is room for gives a scroll bar. 0: fills the
  // room.
  virtual double contentHeight(double width) const;
  // Tooltip and status text at a content position; "" for none.
  virtual QString tipAt(const QPointF& position) const;
  // Selection, brush or hover moved: the default repaints and renews the accessible name.
  virtual void selectionMoved(int parts);
  virtual void hoverMoved();
  virtual QString accessibleText() const = 0;
  virtual void contentChanged();  // new run or head: renews scroll range and accessible name, repaints

  QPointF toContent(const QPointF& widget) const;
  void updateScroll();
  void ensureVisible(double top, double bottom);
  void refreshAccessibility();

  bool event(QEvent* event) override;
  void changeEvent(QEvent* event) override;
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;
  void focusInEvent(QFocusEvent* event) override;
  void focusOutEvent(QFocusEvent* event) override;

 private:
  void keepPicture();
  void styleScroll();
  void placeChildren();
  bool fading() const;
  QWidget* bar_ = nullptr;
  QHBoxLayout* bar_layout_ = nullptr;
  QScrollBar* scroll_ = nullptr;
  QPushButton* button_ = nullptr;
  QTimer* moving_ = nullptr;
  QElapsedTimer loading_since_;
  QPixmap last_picture_;
  int wheel_rest_ = 0;
  bool focus_ring_ = false;
};

}  // namespace slotscope::views
