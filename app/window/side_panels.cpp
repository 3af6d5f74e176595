#include "app/window/side_panels.h"

#include <QMouseEvent>
#include <QPainter>
#include <QStyledItemDelegate>
#include <QTime>
#include <QVBoxLayout>

#include "app/window/icons.h"
#include "views/theme.h"

namespace slotscope::app {

using views::Theme;

namespace {

class JobDelegate : public QStyledItemDelegate {
 public:
  JobDelegate(JobModel* jobs, QObject* parent) : QStyledItemDelegate(parent), jobs_(jobs) {}

  static QRect button(const QRect& row) { return QRect(row.right() - 52, row.top() + 6, 46, 20); }

  void paint(QPainter* p, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    const Theme& t = Theme::current();
    const auto state = JobState(index.data(JobModel::StateRole).toInt());
    QRect r = option.rect.adjusted(10, 6, -10, -4);
    p->save();
    if (option.state & QStyle::State_MouseOver) p->fillRect(option.rect.adjusted(4, 0, -4, 0), t.hoverFill);
    const bool cancellable = index.data(JobModel::CancellableRole).toBool();
    const bool openable = index.data(JobModel::OpenableRole).toBool();
    QRect text = r;
    if (cancellable || openable) {
      const QRect b = button(option.rect);
      p->setFont(t.label());
      p->setPen(t.text);
      p->drawText(b, Qt::AlignCenter, cancellable ? "Cancel" : "Open");
      p->setPen(t.line);
      p->setRenderHint(QPainter::Antialiasing);
      p->drawRoundedRect(QRectF(b).adjusted(0.5, 0.5, -0.5, -0.5), 4, 4);
      text.setRight(b.left() - 6);
    }
    const char* mark = state == JobState::finished    ? "check"
                       : state == JobState::failed    ? "warning"
                       : state == JobState::cancelled ? "stop"
                                                      : nullptr;
    int x = text.left();
    if (mark) {
      const QColor colour = state == JobState::finished ? t.ok : state == JobState::failed ? t.error : t.warn;
      p->drawPixmap(QRect(x, text.top(), 16, 16), iconPixmap(mark, colour, 16, 2));
      x += 20;
    }
    p->setFont(t.semibold());
    p->setPen(t.text);
    const QRect name(x, text.top(), text.right() - x, 17);
    p->drawText(name, Qt::AlignVCenter,
                QFontMetrics(t.semibold()).elidedText(index.data().toString(), Qt::ElideRight, name.width()));
    p->setFont(t.label());
    p->setPen(t.text2);
    const QRect stage(text.left(), text.top() + 19, text.width(), 15);
    p->drawText(stage, Qt::AlignVCenter,
                QFontMetrics(t.label()).elidedText(index.data(JobModel::TextRole).toString(), Qt::ElideRight,
                                                   stage.width()));
    if (state == JobState::running) {
      const QRectF bar(r.left(), r.top() + 37, r.width(), 4);
      p->fillRect(bar, t.line);
      const double f = index.data(JobModel::FractionRole).toDouble();
      const double phase = (QTime::currentTime().msecsSinceStartOfDay() % 1400) / 1400.0;
      const QRectF done =
          f >= 0 ? QRectF(bar.left(), bar.top(), bar.width() * f, 4)
                 : QRectF(bar.left() + (bar.width() + 40) * phase - 40, bar.top(), 40, 4).intersected(bar);
      p->fillRect(done, t.text2);
    }
    p->restore();
  }
  QSize sizeHint(const QStyleOptionViewItem&, const QModelIndex& index) const override {
    return {160, JobState(index.data(JobModel::StateRole).toInt()) == JobState::running ? 54 : 46};
  }
  bool editorEvent(QEvent* event, QAbstractItemModel*, const QStyleOptionViewItem& option,
                   const QModelIndex& index) override {
    if (event->type() != QEvent::MouseButtonRelease) return false;
    if (!button(option.rect).contains(static_cast<QMouseEvent*>(event)->position().toPoint())) return false;
    act(index);
    return true;
  }
  void act(const QModelIndex& index) const {
    if (index.data(JobModel::CancellableRole).toBool())
      jobs_->cancel(jobs_->idAt(index));
    else
      jobs_->activate(index);
  }

 private:
  JobModel* jobs_;
};

}  // namespace

JobsPanel::JobsPanel(JobModel* jobs, QWidget* parent) : QWidget(parent), jobs_(jobs) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 4, 0, 4);
  list_ = new QListView(this);
  list_->setFrameShape(QFrame::NoFrame);
  list_->setModel(jobs);
  list_->setMouseTracking(true);
  list_->setAccessibleName("Jobs");
  list_->setVerticalScrollMode(QListView::ScrollPerPixel);
  auto* delegate = new JobDelegate(jobs, list_);
  list_->setItemDelegate(delegate);
  column->addWidget(list_);
  connect(list_, &QListView::activated, this, [delegate](const QModelIndex& index) { delegate->act(index); });
}

LogPanel::LogPanel(QWidget* parent) : QWidget(parent) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  text_ = new QPlainTextEdit(this);
  text_->setReadOnly(true);
  text_->setFrameShape(QFrame::NoFrame);
  text_->setMaximumBlockCount(5000);
  text_->setAccessibleName("Log");
  text_->setLineWrapMode(QPlainTextEdit::WidgetWidth);
  column->addWidget(text_);
}

void LogPanel::add(const QString& text) {
  text_->setFont(Theme::current().label());
  text_->appendPlainText(QTime::currentTime().toString("HH:mm:ss ") + text);
}

}  // namespace slotscope::app
