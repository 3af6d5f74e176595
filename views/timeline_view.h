// Timeline (design: section 7): overview of all tokens, the visible window as a frame, the selected token as
// a playhead.
#pragma once

#include <QTimer>
#include <vector>

#include "views/view.h"

namespace slotscope::views {

class TimelineView : public View {
  Q_OBJECT
 public:
  enum class Quantity { writes, surprisal };
  static constexpr int kHeight = 52;

  TimelineView(SelectionModel* selection, QWidget* parent = nullptr);
  void setRun(std::shared_ptr<const RunData> run) override;
  void setHead(std::shared_ptr<const analysis::HeadData> head) override;
  void paintFigure(QPainter&, const QRectF&, const Theme&, const FigureOptions&) override;
  QSizeF figureSize() const override { return {748, kHeight}; }
  QString csv() const override;
  QString figureKind() const override { return QStringLiteral("timeline"); }
  QSize sizeHint() const override { return {600, kHeight}; }
  QSize minimumSizeHint() const override { return {240, kHeight}; }

  // Values [T] of the track; NaN where unknown.
  const std::vector<double>& values() const { return values_; }
  bool playing() const { return timer_.isActive(); }
  int tokensPerSecond() const { return speed_; }
  QRectF track() const;  // in widget coordinates
  double x(double token) const;
  qint64 tokenAt(double x) const;

 public Q_SLOTS:
  void setPlaying(bool on);
  void nextSpeed();
  void setQuantity(slotscope::views::TimelineView::Quantity quantity);

 protected:
  void paintEvent(QPaintEvent*) override;
  void focusInEvent(QFocusEvent*) override;
  void focusOutEvent(QFocusEvent*) override;
  void changeEvent(QEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void mouseMoveEvent(QMouseEvent*) override;
  void mouseReleaseEvent(QMouseEvent*) override;
  void mouseDoubleClickEvent(QMouseEvent*) override;
  void leaveEvent(QEvent*) override;
  void wheelEvent(QWheelEvent*) override;
  void keyPressEvent(QKeyEvent*) override;
  void contextMenuEvent(QContextMenuEvent*) override;

 private:
  enum class Drag { None, Frame, Left, Right, Knob, Brush };
  enum class Button { None, Back, Play, Forward, Speed };
  void computeValues();
  void tick();
  QRectF buttonRect(Button, const QRectF& area) const;
  Button buttonAt(const QPointF&) const;
  void paintButtons(QPainter&, const QRectF& area, const Theme&) const;
  void paintTrack(QPainter&, const QRectF& area, const Theme&, bool selection);
  void paintText(QPainter&, const QRectF& area, const Theme&) const;
  Drag dragAt(const QPointF&) const;
  qint64 tokens() const;

  Quantity quantity_ = Quantity::writes;
  std::vector<double> values_;
  std::vector<float> column_max_, column_retrieval_;  // per pixel of the track, cached
  int column_width_ = -1;
  double largest_ = 0;
  QTimer timer_;
  int speed_ = 8;
  Drag drag_ = Drag::None;
  double press_x_ = 0, wheel_rest_ = 0;
  qint64 press_token_ = 0;
  std::pair<qint64, qint64> press_range_{0, 1};
  bool dragged_ = false;
  Button hover_button_ = Button::None;
  bool focus_ring_ = false;  // focus came by keyboard
};

}  // namespace slotscope::views
