// The chips of the selection bar (design: section 3): a number with two steppers, edited in place; a list
// with a filter.
#pragma once

#include <QFrame>
#include <QPointer>
#include <QPushButton>
#include <QToolButton>
#include <functional>
#include <vector>

class QLineEdit;
class QLabel;

namespace slotscope::app {

// "Layer 3 < >". Wheel steps (120 units a step), click on the value edits it, Up and Down step when it has
// the focus.
class StepChip : public QFrame {
  Q_OBJECT
 public:
  StepChip(const QString& label, int width, QWidget* parent = nullptr);

  // What is shown; `text` after the number, such as “x”. applies = false: "–", and `why` as tooltip.
  void setValue(qint64 value, const QString& text = {}, bool applies = true, const QString& why = {});
  // Values run from 0 to count - 1.
  void setCount(qint64 count);
  qint64 value() const { return value_; }
  QString shownText() const;  // "152 “x”", "–"
  void setBaseFont(double pixels);
  // Opens the editor, as a click on the value does.
  void edit();

 Q_SIGNALS:
  void stepRequested(int steps);          // -1, +1, ...
  void textEntered(const QString& text);  // from the editor, not yet understood
  void menuRequested(const QPoint& global);

 protected:
  void paintEvent(QPaintEvent*) override;
  void resizeEvent(QResizeEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void wheelEvent(QWheelEvent*) override;
  void keyPressEvent(QKeyEvent*) override;
  void contextMenuEvent(QContextMenuEvent*) override;
  void changeEvent(QEvent*) override;
  bool eventFilter(QObject*, QEvent*) override;

 private:
  QRect valueRect() const;
  void refresh();
  void finishEdit(bool commit);
  QString label_, text_;
  qint64 value_ = 0, count_ = 0;
  bool applies_ = false;
  int design_width_, wheel_ = 0;
  QToolButton *less_, *more_;
  QPointer<QLineEdit> editor_;
};

// One row of a list chip.
struct ListEntry {
  QString title, detail;  // "raven-passkey", "raven · /data/models"
  QString badge;          // "A", "B" or empty
  bool current = false;
  bool heading = false;  // not selectable
  std::function<void()> choose;
};

// A bold name with a chevron; click opens a list with a filter.
class ListChip : public QPushButton {
  Q_OBJECT
 public:
  ListChip(int width, QWidget* parent = nullptr);
  void setShown(const QString& text);
  // Asked for the rows when the list opens.
  std::function<std::vector<ListEntry>()> entries;
  void setBaseFont(double pixels);
  QSize sizeHint() const override;

 protected:
  void paintEvent(QPaintEvent*) override;

 private:
  void openList();
  QString shown_;
  int design_width_;
};

}  // namespace slotscope::app
