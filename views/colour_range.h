// The colour bar of a view bar and the editor that opens from it (design: section 6 "Colour range editor").
// Changing the range only recolours.
#pragma once

#include <QFrame>
#include <QWidget>
#include <vector>

#include "views/heatmap_data.h"

class QComboBox;
class QLineEdit;
class QToolButton;

namespace slotscope::views {

// What both of them show.
struct ColourState {
  ColourSettings settings;
  ColourScale scale;
  QVector<QRgb> colours;               // 256
  std::vector<int64_t> histogram;      // over the whole range of the data, on the scale's own axis
  double data_low = 0, data_high = 1;  // ends of the histogram
  qint64 finite = 0, nan = 0, inf = 0;
};
// Histogram over places 0..1 of `scale`, so that it fits the bar below it also on logarithmic scales.
std::vector<int64_t> placedHistogram(const SlotGrid& samples, const ColourScale& scale, int bins);

// Histogram 10 px over a 12 px bar, limits at both sides, "3 NaN" in error colour when there are any.
class ColourBar : public QWidget {
  Q_OBJECT
 public:
  explicit ColourBar(QWidget* parent);
  void setState(const ColourState& state);
  const ColourState& state() const { return state_; }
  QSize sizeHint() const override;
  QRectF barRect() const;
  QString badText() const;  // "3 NaN", "3 NaN, 2 ∞", ""

 Q_SIGNALS:
  void clicked();
  void badClicked();
  void rangeDragged(double low, double high);

 protected:
  void paintEvent(QPaintEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void mouseMoveEvent(QMouseEvent*) override;
  void mouseReleaseEvent(QMouseEvent*) override;
  void keyPressEvent(QKeyEvent*) override;

 private:
  QRectF badRect() const;
  ColourState state_;
  double press_x_ = 0, press_low_ = 0, press_high_ = 1;
  bool dragged_ = false, low_end_ = false, pressed_ = false;
};

// 300 x 176, a popup: stays until Esc or a click outside.
class ColourRangeEditor : public QFrame {
  Q_OBJECT
 public:
  explicit ColourRangeEditor(QWidget* parent);
  void setState(const ColourState& state);
  void openAt(const QPoint& top_right_global);
  QRectF histogramRect() const;
  QRectF stripRect() const;

 Q_SIGNALS:
  void changed(const slotscope::views::ColourSettings& settings);

 protected:
  void paintEvent(QPaintEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void mouseMoveEvent(QMouseEvent*) override;
  void mouseReleaseEvent(QMouseEvent*) override;
  void changeEvent(QEvent*) override;

 private:
  double handleX(bool high) const;
  void typed();
  void restyle();
  ColourState state_;
  QToolButton *min_max_, *percentile_, *visible_, *log_, *symlog_, *reverse_, *soft_;
  QComboBox* map_;
  QLineEdit *low_, *high_;
  int dragging_ = 0;  // 1 low, 2 high
};

// "0.363", "−9.4", "3.2e−5" or "1e-3" as typed; false when it is no finite number.
bool parseNumber(const QString& text, double* value);

}  // namespace slotscope::views
