// The cells of the heads navigator as a widget.
#pragma once

#include <QTimer>
#include <QWidget>

#include "views/heads_cell.h"

namespace slotscope::views {

class HeadsGrid : public QWidget {
  Q_OBJECT
 public:
  explicit HeadsGrid(HeadsView* view);
  HeadsGeometry geometryFor(const QSizeF& room) const;
  HeadsGeometry geometry() const { return geometryFor(room_); }
  void setLayoutRoom(const QSizeF& room) { room_ = room; }
  // Position in head_list under a point, -1: none.
  int positionAt(const QPointF& p) const;
  void reveal();  // scrolls to the selected head

 protected:
  bool event(QEvent*) override;
  void paintEvent(QPaintEvent*) override;
  void focusInEvent(QFocusEvent*) override;
  void focusOutEvent(QFocusEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void mouseMoveEvent(QMouseEvent*) override;
  void mouseDoubleClickEvent(QMouseEvent*) override;
  void leaveEvent(QEvent*) override;
  void contextMenuEvent(QContextMenuEvent*) override;
  void keyPressEvent(QKeyEvent*) override;

 private:
  QString tip(int position) const;
  HeadsView* view_;
  QSizeF room_{200, 200};
  int hover_ = -1;
  QTimer preview_;
  bool focus_ring_ = false;  // focus came by keyboard
};

}  // namespace slotscope::views
