// The panels of the value-field lab: what is painted and can be touched.
#pragma once

#include <QWidget>

#include "views/value_field_paint.h"

class QTimer;

namespace slotscope::views {

class ValueFieldView;

class ValueFieldCanvas : public QWidget {
  Q_OBJECT
 public:
  explicit ValueFieldCanvas(ValueFieldView* view);

  FieldGeometry geometryNow() const;
  // The panel that is touched at a point and its place; the large one alone where one is large. Panel -1: none.
  struct Place {
    int panel = -1;
    QRectF square;
  };
  Place placeAt(const QPointF& point, double margin = 0) const;
  // The key under a point, or -1; the selected one first.
  int keyAt(const QPointF& point) const;
  void contentChanged();  // new field or settings
  QString tipAt(const QPointF& point) const;

 protected:
  bool event(QEvent*) override;
  void paintEvent(QPaintEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void mouseMoveEvent(QMouseEvent*) override;
  void mouseReleaseEvent(QMouseEvent*) override;
  void mouseDoubleClickEvent(QMouseEvent*) override;
  void wheelEvent(QWheelEvent*) override;
  void keyPressEvent(QKeyEvent*) override;
  void contextMenuEvent(QContextMenuEvent*) override;
  void leaveEvent(QEvent*) override;
  void focusInEvent(QFocusEvent*) override;
  void focusOutEvent(QFocusEvent*) override;
  QSize minimumSizeHint() const override { return {160, 120}; }

 private:
  void hover(const QPointF& point);
  void scaleRow(int row, double factor);
  void moveBy(double x, double y);
  QString statusAt(const Place& place, const QPointF& point) const;

  ValueFieldView* view_;
  mutable FieldImages images_;
  QTimer *click_, *wheel_;
  int clicked_ = -1, dragged_ = -1, hovered_key_ = -1, hovered_panel_ = -1, wheel_rest_ = 0;
  QRectF drag_square_;
  QPointF pressed_, grip_;
  bool moved_ = false, pressed_on_panel_ = false, focus_ring_ = false;
};

}  // namespace slotscope::views
