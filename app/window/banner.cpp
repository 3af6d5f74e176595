#include "app/window/banner.h"

#include <QClipboard>
#include <QEvent>
#include <QGuiApplication>
#include <QHBoxLayout>
#include <QLabel>
#include <QPushButton>
#include <QTimer>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>

#include "app/window/icons.h"
#include "views/theme.h"

namespace slotscope::app {

using views::Theme;

BannerArea::BannerArea(QWidget* parent) : QWidget(parent) {
  auto* outer = new QVBoxLayout(this);
  outer->setContentsMargins(6, 6, 6, 0);
  frame_ = new QFrame(this);
  frame_->setObjectName("banner");
  outer->addWidget(frame_);
  auto* column = new QVBoxLayout(frame_);
  column->setContentsMargins(10, 5, 6, 5);
  column->setSpacing(4);
  auto* row = new QHBoxLayout;
  row->setSpacing(8);
  column->addLayout(row);
  icon_ = new QLabel(frame_);
  icon_->setFixedSize(16, 16);
  text_ = new QLabel(frame_);
  text_->setObjectName("bannerText");
  text_->setWordWrap(true);
  text_->setTextFormat(Qt::PlainText);
  text_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  text_->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Preferred);
  row->addWidget(icon_);
  row->addWidget(text_, 1);
  const auto button = [&](const QString& label) {
    auto* b = new QPushButton(label, frame_);
    b->setProperty("ui", "quiet");
    row->addWidget(b);
    return b;
  };
  more_ = button({});
  action_ = button({});
  show_details_ = button("Details");
  copy_ = button("Copy");
  show_details_->setCheckable(true);
  close_ = new QToolButton(frame_);
  close_->setProperty("ui", "quiet");
  close_->setToolTip("Dismiss");
  close_->setAccessibleName("Dismiss");
  row->addWidget(close_);
  details_ = new QLabel(frame_);
  details_->setTextFormat(Qt::PlainText);
  details_->setWordWrap(true);
  details_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  details_->setProperty("ui", "text2");
  details_->setContentsMargins(24, 0, 0, 4);
  column->addWidget(details_);

  connect(close_, &QToolButton::clicked, this, [this] {
    if (!problems_.empty()) problems_.erase(problems_.begin());
    refresh();
  });
  connect(more_, &QPushButton::clicked, this, [this] {
    std::rotate(problems_.begin(), problems_.begin() + 1, problems_.end());
    refresh();
  });
  connect(show_details_, &QPushButton::toggled, details_, &QLabel::setVisible);
  connect(copy_, &QPushButton::clicked, this, [this] {
    if (!problems_.empty())
      QGuiApplication::clipboard()->setText(problems_.front().summary + "\n" + problems_.front().details);
  });
  connect(action_, &QPushButton::clicked, this, [this] {
    if (problems_.empty()) return;
    const auto act = problems_.front().on_action;
    problems_.erase(problems_.begin());
    refresh();
    if (act) act();
  });
  refresh();
}

void BannerArea::add(const Problem& problem) {
  if (!problem.key.isEmpty())
    std::erase_if(problems_, [&](const Problem& p) { return p.key == problem.key; });
  problems_.insert(problems_.begin(), problem);
  if (problems_.size() > 50) problems_.pop_back();
  show_details_->setChecked(false);
  refresh();
}

void BannerArea::removeKey(const QString& key) {
  std::erase_if(problems_, [&](const Problem& p) { return p.key == key; });
  refresh();
}

void BannerArea::clear() {
  problems_.clear();
  refresh();
}

QString BannerArea::text() const { return text_->text(); }

void BannerArea::restyle() { refresh(); }

void BannerArea::refresh() {
  setVisible(!problems_.empty());
  if (problems_.empty()) return;
  const Theme& t = Theme::current();
  const Problem& p = problems_.front();
  const bool is_error = p.level == Problem::Level::error;
  frame_->setProperty("level", is_error ? "error" : "warning");
  frame_->setStyleSheet(QString("QFrame#banner { background: %1; border: 1px solid %2; border-left: 4px "
                                "solid %2; border-radius: 4px; }")
                            .arg(t.surface.name(), (is_error ? t.error : t.warn).name()));
  icon_->setPixmap(iconPixmap("warning", is_error ? t.error : t.warn, 16, devicePixelRatioF()));
  icon_->setToolTip(is_error ? "Error" : "Warning");
  icon_->setAccessibleName(is_error ? "Error" : "Warning");
  text_->setText((is_error ? "Error: " : "") + p.summary);
  text_->setAccessibleName(text_->text());
  details_->setText(p.details);
  details_->setVisible(show_details_->isChecked());
  show_details_->setVisible(!p.details.isEmpty() && p.details != p.summary);
  action_->setVisible(!p.action.isEmpty());
  action_->setText(p.action);
  more_->setVisible(problems_.size() > 1);
  more_->setText(QString("%1 more").arg(problems_.size() - 1));
  close_->setIcon(icon("close", t.text2));
}

QuietNote::QuietNote(QWidget* parent) : QFrame(parent) {
  setProperty("ui", "card");
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(12, 8, 12, 8);
  label_ = new QLabel(this);
  row->addWidget(label_);
  timer_ = new QTimer(this);
  timer_->setSingleShot(true);
  timer_->setInterval(6000);
  connect(timer_, &QTimer::timeout, this, &QWidget::hide);
  parent->installEventFilter(this);
  hide();
}

void QuietNote::say(const QString& text) {
  label_->setText(text);
  adjustSize();
  place();
  raise();
  show();
  timer_->start();
}

void QuietNote::place() {
  move(parentWidget()->width() - width() - 16, parentWidget()->height() - height() - 36);
}

bool QuietNote::eventFilter(QObject* object, QEvent* event) {
  if (event->type() == QEvent::Resize && isVisible()) place();
  return QFrame::eventFilter(object, event);
}

}  // namespace slotscope::app
