#include "app/window/status_line.h"

#include <QHBoxLayout>
#include <QLabel>
#include <QPainter>
#include <QTime>
#include <QToolButton>
#include <cmath>

#include "app/window/icons.h"
#include "views/theme.h"

namespace slotscope::app {

using views::Theme;

JobBar::JobBar(QWidget* parent) : QWidget(parent) { setFixedSize(120, 5); }

void JobBar::setFraction(double f) {
  fraction_ = f;
  update();
}

void JobBar::paintEvent(QPaintEvent*) {
  const Theme& t = Theme::current();
  QPainter p(this);
  p.setRenderHint(QPainter::Antialiasing);
  p.setPen(Qt::NoPen);
  p.setBrush(t.line);
  p.drawRoundedRect(QRectF(rect()), 2.5, 2.5);
  p.setBrush(t.text2);
  QRectF bar(rect());
  if (fraction_ >= 0) {
    bar.setWidth(width() * fraction_);
  } else {
    const double phase = (QTime::currentTime().msecsSinceStartOfDay() % 1400) / 1400.0;
    bar = QRectF((width() + 40) * phase - 40, 0, 40, height()).intersected(QRectF(rect()));
  }
  p.drawRoundedRect(bar, 2.5, 2.5);
}

StatusLine::StatusLine(QWidget* parent) : QFrame(parent) {
  setProperty("ui", "status-bar");
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(10, 0, 10, 0);
  row->setSpacing(10);
  hover_ = new QLabel(this);
  hover_->setTextFormat(Qt::PlainText);
  hover_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  brush_ = new QLabel(this);
  brush_->setProperty("ui", "text2");
  const auto button = [&](const QString& name) {
    auto* b = new QToolButton(this);
    b->setProperty("ui", "status");
    b->setAccessibleName(name);
    b->setFocusPolicy(Qt::TabFocus);
    return b;
  };
  job_ = button("Running job");
  bar_ = new JobBar(this);
  cancel_ = button("Cancel");
  cancel_->setToolTip("Cancel (Ctrl+.)");
  cancel_->setFixedSize(18, 18);
  reduction_ = button("Reduction in force");
  device_ = button("Device");
  row->addWidget(hover_, 1);
  row->addWidget(brush_);
  row->addWidget(job_);
  row->addWidget(bar_);
  row->addWidget(cancel_);
  row->addWidget(reduction_);
  row->addWidget(device_);
  connect(job_, &QToolButton::clicked, this, &StatusLine::jobClicked);
  connect(cancel_, &QToolButton::clicked, this, [this] { Q_EMIT cancelJob(job_id_); });
  connect(reduction_, &QToolButton::clicked, this, &StatusLine::reductionClicked);
  connect(device_, &QToolButton::clicked, this, &StatusLine::deviceClicked);
  setJob(nullptr);
  setReduction({});
  setDevice({});
  setBrush({});
  restyle();
}

void StatusLine::restyle() {
  const Theme& t = Theme::current();
  setFixedHeight(int(std::lround(24 * t.base / 12)));
  for (QWidget* w :
       {static_cast<QWidget*>(hover_), static_cast<QWidget*>(brush_), static_cast<QWidget*>(job_),
        static_cast<QWidget*>(reduction_), static_cast<QWidget*>(device_)})
    w->setFont(t.label());
  cancel_->setIcon(icon("close", t.text2));
  cancel_->setIconSize({12, 12});
}

void StatusLine::setHover(const QString& text) { hover_->setText(text); }
void StatusLine::setBrush(const QString& text) {
  brush_->setText(text);
  brush_->setVisible(!text.isEmpty());
}
void StatusLine::setReduction(const QString& text) {
  reduction_->setText(text);
  reduction_->setVisible(!text.isEmpty());
}
void StatusLine::setDevice(const QString& text) {
  device_->setText(text);
  device_->setVisible(!text.isEmpty());
}
QString StatusLine::hover() const { return hover_->text(); }
QString StatusLine::reduction() const { return reduction_->text(); }
QString StatusLine::device() const { return device_->text(); }
QString StatusLine::jobText() const { return job_->isVisibleTo(this) ? job_->text() : QString(); }

void StatusLine::setJob(const Job* job) {
  job_id_ = job ? job->id : 0;
  job_->setVisible(job);
  bar_->setVisible(job);
  cancel_->setVisible(job);
  if (!job) return;
  const QString text = JobModel::describe(*job);
  job_->setText(text.isEmpty() ? job->name : job->name + " · " + text);
  bar_->setFraction(JobModel::fraction(*job));
  cancel_->setEnabled(!job->progress->cancel_requested());
}

}  // namespace slotscope::app
