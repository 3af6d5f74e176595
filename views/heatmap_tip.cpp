#include "views/heatmap_tip.h"

#include <QFontMetricsF>
#include <QPainter>
#include <algorithm>
#include <cmath>

#include "views/theme.h"

namespace slotscope::views {

namespace {
constexpr int kWidth = 290, kPad = 10;
int row_height() { return int(17 * Theme::current().base / 12); }
}  // namespace

HeatmapTip::HeatmapTip(QWidget* parent) : QWidget(parent) {
  setAttribute(Qt::WA_TransparentForMouseEvents);
  hide();
}

void HeatmapTip::setContent(const QString& title, const Rows& rows, const QString& formula) {
  title_ = title, rows_ = rows, formula_ = formula;
  const int lines = int(rows.size());
  resize(kWidth, kPad + row_height() + 4 + lines * row_height() + (formula.isEmpty() ? 0 : 8 + row_height()) +
                     kPad - 2);
  update();
}

void HeatmapTip::showBeside(const QRectF& cell) {
  const QRect room = parentWidget()->rect().adjusted(2, 2, -2, -2);
  double x = cell.right() + 14, y = cell.bottom() + 10;
  if (x + width() > room.right()) x = cell.left() - 14 - width();
  if (y + height() > room.bottom()) y = cell.top() - 10 - height();
  x = std::clamp(x, double(room.left()), std::max<double>(room.left(), room.right() - width()));
  y = std::clamp(y, double(room.top()), std::max<double>(room.top(), room.bottom() - height()));
  move(int(x), int(y));
  raise();
  show();
}

void HeatmapTip::paintEvent(QPaintEvent*) {
  QPainter p(this);
  const Theme& theme = Theme::current();
  p.setRenderHint(QPainter::Antialiasing, true);
  p.setPen(QPen(theme.lineStrong, 1));
  p.setBrush(theme.surface);
  p.drawRoundedRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5), 4, 4);
  const double left = kPad, right = width() - kPad;
  double y = kPad - 2;
  const auto line = [&](double h) { return QRectF(left, y, right - left, h); };
  p.setFont(theme.semibold());
  p.setPen(theme.text);
  p.drawText(line(row_height() + 2), Qt::AlignLeft | Qt::AlignVCenter,
             QFontMetricsF(p.font()).elidedText(title_, Qt::ElideRight, right - left));
  y += row_height() + 4;
  for (qsizetype i = 0; i < rows_.size(); ++i) {
    p.setFont(theme.label());
    p.setPen(theme.text2);
    p.drawText(line(row_height()), Qt::AlignLeft | Qt::AlignVCenter, rows_[i].first);
    p.setFont(i == 0 ? theme.semibold() : theme.label());
    p.setPen(theme.text);
    p.drawText(line(row_height()), Qt::AlignRight | Qt::AlignVCenter, rows_[i].second);
    y += row_height();
  }
  if (formula_.isEmpty()) return;
  p.fillRect(QRectF(left, std::round(y + 3), right - left, 1), theme.line);
  y += 6;
  p.setFont(theme.label());
  p.setPen(theme.text3);
  p.drawText(line(row_height()), Qt::AlignLeft | Qt::AlignVCenter,
             QFontMetricsF(p.font()).elidedText(formula_, Qt::ElideRight, right - left));
}

MovingBar::MovingBar(QWidget* parent) : QWidget(parent) {
  setFixedHeight(2);
  setAttribute(Qt::WA_TransparentForMouseEvents);
  hide();
}

void MovingBar::showEvent(QShowEvent*) { timer_ = startTimer(33); }
void MovingBar::hideEvent(QHideEvent*) {
  killTimer(timer_);
  timer_ = 0;
}
void MovingBar::timerEvent(QTimerEvent*) {
  at_ = (at_ + 12) % std::max(1, width() + 120);
  update();
}
void MovingBar::paintEvent(QPaintEvent*) {
  QPainter p(this);
  p.fillRect(rect(), Theme::current().line);
  p.fillRect(at_ - 120, 0, 120, 2, Theme::current().text2);
}

}  // namespace slotscope::views
