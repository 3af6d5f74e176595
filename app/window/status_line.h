// The line at the bottom: hovered value | job | reduction | device (design: section 11).
#pragma once

#include <QFrame>

#include "app/window/jobs.h"

class QLabel;
class QToolButton;

namespace slotscope::app {

// 120 px bar; moves busily until the first number is known.
class JobBar : public QWidget {
  Q_OBJECT
 public:
  explicit JobBar(QWidget* parent = nullptr);
  void setFraction(double f);  // negative: busy
  QSize sizeHint() const override { return {120, 5}; }

 protected:
  void paintEvent(QPaintEvent*) override;

 private:
  double fraction_ = -1;
};

class StatusLine : public QFrame {
  Q_OBJECT
 public:
  explicit StatusLine(QWidget* parent = nullptr);
  void setHover(const QString& text);
  void setBrush(const QString& text);
  void setReduction(const QString& text);
  void setDevice(const QString& text);
  void setJob(const Job* job);  // null: none
  QString hover() const, reduction() const, device() const, jobText() const;
  void restyle();

 Q_SIGNALS:
  void cancelJob(int id);
  void jobClicked();
  void deviceClicked();
  void reductionClicked();

 private:
  QLabel *hover_, *brush_;
  QToolButton *job_, *reduction_, *device_, *cancel_;
  JobBar* bar_;
  int job_id_ = 0;
};

}  // namespace slotscope::app
