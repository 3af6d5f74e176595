// The tooltip of a heatmap cell (design: section 13 "Tooltips"): name, values right-aligned, a rule, formula
// and source.
#pragma once

#include <QVector>
#include <QWidget>
#include <utility>

namespace slotscope::views {

class HeatmapTip : public QWidget {
 public:
  explicit HeatmapTip(QWidget* parent);
  using Rows = QVector<std::pair<QString, QString>>;
  void setContent(const QString& title, const Rows& rows, const QString& formula);
  // Beside `cell` (parent coordinates), inside of the parent and not over the cell.
  void showBeside(const QRectF& cell);

 protected:
  void paintEvent(QPaintEvent*) override;

 private:
  QString title_, formula_;
  Rows rows_;
};

// A 2 px bar that moves while something is being fetched (design: sections 6 and 13).
class MovingBar : public QWidget {
 public:
  explicit MovingBar(QWidget* parent);

 protected:
  void paintEvent(QPaintEvent*) override;
  void timerEvent(QTimerEvent*) override;
  void showEvent(QShowEvent*) override;
  void hideEvent(QHideEvent*) override;

 private:
  int timer_ = 0, at_ = 0;
};

}  // namespace slotscope::views
