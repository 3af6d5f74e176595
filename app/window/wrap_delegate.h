// Rows of lists and trees that wrap their text.
#pragma once

#include <QStyledItemDelegate>

class QAbstractItemView;

namespace slotscope::app {

// Rows as high as their wrapped text; long words break anywhere. At most `lines` lines, then "…".
class WrapDelegate : public QStyledItemDelegate {
 public:
  explicit WrapDelegate(QAbstractItemView* view, int lines = 6);
  void paint(QPainter*, const QStyleOptionViewItem&, const QModelIndex&) const override;
  QSize sizeHint(const QStyleOptionViewItem&, const QModelIndex&) const override;

 private:
  int widthOf(const QModelIndex&) const;
  QAbstractItemView* view_;
  int lines_;
};

}  // namespace slotscope::app
