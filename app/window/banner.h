// The place under the selection bar where problems are said: one at a time, newest first, "2 more" (design:
// section 13).
#pragma once

#include <QFrame>
#include <vector>

#include "app/window/problem.h"

class QLabel;
class QPushButton;
class QToolButton;

namespace slotscope::app {

class BannerArea : public QWidget {
  Q_OBJECT
 public:
  explicit BannerArea(QWidget* parent = nullptr);
  void add(const Problem& problem);
  void removeKey(const QString& key);
  void clear();
  int count() const { return int(problems_.size()); }
  const Problem* current() const { return problems_.empty() ? nullptr : &problems_.front(); }
  QString text() const;
  void restyle();

 private:
  void refresh();
  std::vector<Problem> problems_;  // newest first
  QFrame* frame_;
  QLabel *icon_, *text_, *details_;
  QPushButton *more_, *action_, *show_details_, *copy_;
  QToolButton* close_;
};

// A quiet note at the bottom right for six seconds, never a dialog.
class QuietNote : public QFrame {
  Q_OBJECT
 public:
  explicit QuietNote(QWidget* parent);
  void say(const QString& text);

 private:
  void place();
  bool eventFilter(QObject*, QEvent*) override;
  QLabel* label_;
  class QTimer* timer_;
};

}  // namespace slotscope::app
