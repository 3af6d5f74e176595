#include "views/heads_grid.h"

#include <QBuffer>
#include <QContextMenuEvent>
#include <QFocusEvent>
#include <QHelpEvent>
#include <QKeyEvent>
#include <QMenu>
#include <QMouseEvent>
#include <QPainter>
#include <QScrollArea>
#include <QScrollBar>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "views/format.h"

namespace slotscope::views {

HeadsGrid::HeadsGrid(HeadsView* view) : QWidget(view), view_(view) {
  setMouseTracking(true);
  setFocusPolicy(Qt::StrongFocus);
  setAccessibleName(QStringLiteral("Heads, layers by heads"));
  preview_.setSingleShot(true);
  preview_.setInterval(150);
  connect(&preview_, &QTimer::timeout, this, [this] {
    if (hover_ < 0 || !view_->run_) return;
    const auto& head = view_->run_->summary.head_list[size_t(hover_)];
    Q_EMIT view_->headPreview(head.layer, head.head);
  });
}

HeadsGeometry HeadsGrid::geometryFor(const QSizeF& room) const {
  const auto& run = view_->runData();
  const double k = Theme::current().base / 12;
  return HeadsGeometry::make(QRectF(QPointF(0, 4 * k), room), run ? run->summary.layers : 0,
                             run ? run->summary.heads : 0, k);
}

int HeadsGrid::positionAt(const QPointF& p) const {
  const auto& run = view_->runData();
  if (!run) return -1;
  const HeadsGeometry g = geometry();
  const double half = g.gap / 2;
  for (int l = 0; l < g.layers; ++l)
    for (int h = 0; h < g.heads; ++h)
      if (g.cell(l, h).adjusted(-half, -half, half, half).contains(p)) return view_->positionOf(l, h);
  return -1;
}

void HeadsGrid::reveal() {
  if (!view_->run_) return;
  const auto& s = view_->selection_->current();
  const QRectF c = geometry().cell(s.layer, s.head);
  view_->grid_area_->ensureVisible(int(c.center().x()), int(c.center().y()), int(c.width()), int(c.height()));
}

void HeadsGrid::paintEvent(QPaintEvent*) {
  QPainter p(this);
  const Theme& theme = Theme::current();
  p.fillRect(rect(), theme.surface);
  const auto& run = view_->runData();
  if (!run || run->summary.head_list.empty()) {
    p.setPen(theme.text2);
    p.drawText(rect().adjusted(10, 0, -10, 0), Qt::AlignCenter | Qt::TextWordWrap,
               view_->message_.isEmpty() ? QStringLiteral("No run is open.") : view_->message_);
    return;
  }
  HeadsGeometry g = geometry();
  const auto& s = view_->selection_->current();
  for (const auto& head : run->summary.head_list) {
    const QRectF c = g.cell(head.layer, head.head);
    if (!c.intersects(QRectF(visibleRegion().boundingRect()))) continue;
    const bool selected = head.layer == s.layer && head.head == s.head;
    if (g.squares)
      paintHeadSquare(p, c, run->summary, head, view_->picture_, theme);
    else
      paintHeadCell(p, c, run->summary, head, view_->picture_, -1, theme);
    if (view_->kept_.contains(int(&head - run->summary.head_list.data()))) {
      const QPointF corner[3] = {c.topRight(), c.topRight() + QPointF(-7, 0), c.topRight() + QPointF(0, 7)};
      p.setPen(Qt::NoPen);
      p.setBrush(theme.ink);
      p.drawPolygon(corner, 3);
    }
    if (!selected && hover_ >= 0 && &head == &run->summary.head_list[size_t(hover_)]) {
      p.setBrush(Qt::NoBrush);
      p.setPen(QPen(theme.hover, 1.5));
      p.drawRect(c.adjusted(-1, -1, 1, 1));
    }
  }
  if (s.layer < g.layers && s.head < g.heads) paintHeadsRing(p, g.cell(s.layer, s.head), theme);
  // Labels stay while the cells scroll under them.
  const double dx = view_->grid_area_->horizontalScrollBar()->value();
  if (dx > 0) p.fillRect(QRectF(dx, 0, g.left - 3, height()), theme.surface);
  HeadsGeometry labels = g;
  paintHeadsLabels(p, labels, s.layer, s.head, theme);
  if (dx > 0) {
    p.fillRect(QRectF(dx, 0, g.left - 3, height()), theme.surface);
    labels.area.translate(dx, 0);
    labels.heads = 0;
    paintHeadsLabels(p, labels, s.layer, s.head, theme);
  }
  if (!g.squares && view_->picture_ == HeadsView::Picture::allocation)
    paintHeadsLegend(p, {g.left, g.area.top() + g.contentSize().height() + 1}, theme);
  if (focus_ring_) {
    p.setRenderHint(QPainter::Antialiasing, true);
    p.setBrush(Qt::NoBrush);
    p.setPen(QPen(theme.selection, 2));
    p.drawRoundedRect(QRectF(visibleRegion().boundingRect()).adjusted(1, 1, -1, -1), 3, 3);
  }
}

QString HeadsGrid::tip(int position) const {
  const auto& run = *view_->run_;
  const auto& head = run.summary.head_list[size_t(position)];
  const Theme& theme = Theme::current();
  QString text = QStringLiteral("<div style='white-space:nowrap'><b>Layer %1 · head %2</b>")
                     .arg(head.layer)
                     .arg(head.head);
  if (!head.has_routes)
    return text +
           QStringLiteral("<br>%1</div>")
               .arg(QString::fromStdString(head.why.empty() ? "not captured" : head.why).toHtmlEscaped());
  QString picture;
  if (geometry().squares) {  // squares show one number; the tooltip shows the head
    QImage image(QSize(160, 60) * 2, QImage::Format_ARGB32_Premultiplied);
    image.setDevicePixelRatio(2);
    image.fill(theme.surface);
    QPainter p(&image);
    paintHeadCell(p, QRectF(0, 0, 160, 60), run.summary, head, view_->picture_, -1, theme);
    p.end();
    QByteArray png;
    QBuffer buffer(&png);
    buffer.open(QIODevice::WriteOnly);
    image.save(&buffer, "PNG");
    picture = QStringLiteral("<br><img width='160' height='60' src='data:image/png;base64,%1'>")
                  .arg(QString::fromLatin1(png.toBase64()));
  }
  const auto row = [&](const QString& name, const QString& value) {
    return QStringLiteral("<tr><td style='color:%1'>%2</td><td align='right'>&nbsp;&nbsp;%3</td></tr>")
        .arg(theme.text2.name(), name, value);
  };
  const auto& c = head.allocation.counts;
  text += picture + QStringLiteral("<table>");
  text += row(QStringLiteral("retrieval score"), strength(head.allocation.head_score));
  text += row(QStringLiteral("retrieval only, shared, other, empty"),
              QStringLiteral("%1, %2, %3, %4").arg(c[0]).arg(c[1]).arg(c[2]).arg(c[3]));
  text += row(QStringLiteral("mean write strength"), strength(head.mean_write_strength));
  text += row(QStringLiteral("key still there at query"), share(head.key_survival));
  text += row(QStringLiteral("entropy"), QStringLiteral("%1 nats").arg(strength(head.statistics.entropy, 2)));
  return text + QStringLiteral(
                    "</table><hr><span style='color:%1'>retrieval score: share of the key's write strength "
                    "in retrieval-only slots (ours)</span></div>")
                    .arg(theme.text3.name());
}

bool HeadsGrid::event(QEvent* event) {
  if (event->type() == QEvent::ToolTip) {
    auto* help = static_cast<QHelpEvent*>(event);
    const int at = positionAt(help->pos());
    if (at >= 0)
      QToolTip::showText(help->globalPos(), tip(at), this);
    else
      QToolTip::hideText();
    return true;
  }
  return QWidget::event(event);
}

void HeadsGrid::mousePressEvent(QMouseEvent* event) {
  const int at = positionAt(event->position());
  if (event->button() != Qt::LeftButton || at < 0) return;
  if (event->modifiers() & Qt::ControlModifier)
    view_->toggleKept(at);
  else
    view_->select(at);
}

void HeadsGrid::mouseMoveEvent(QMouseEvent* event) {
  const int at = positionAt(event->position());
  if (at == hover_) return;
  if (hover_ >= 0 && at < 0) Q_EMIT view_->headPreview(-1, -1);
  hover_ = at;
  update();
  if (at < 0) {
    preview_.stop();
    Q_EMIT view_->statusText(QString());
    return;
  }
  preview_.start();
  const auto& head = view_->run_->summary.head_list[size_t(at)];
  QString text = QStringLiteral("layer %1 head %2   ").arg(head.layer).arg(head.head);
  text += head.has_routes ? QStringLiteral("retrieval score %1").arg(strength(head.allocation.head_score))
                          : QString::fromStdString(head.why);
  Q_EMIT view_->statusText(text);
}

void HeadsGrid::mouseDoubleClickEvent(QMouseEvent* event) {
  const int at = positionAt(event->position());
  if (at < 0 || event->button() != Qt::LeftButton) return;
  view_->select(at);
  const auto& head = view_->run_->summary.head_list[size_t(at)];
  Q_EMIT view_->pinnedHeatmapRequested(head.layer, head.head);
}

void HeadsGrid::leaveEvent(QEvent*) {
  if (hover_ >= 0) Q_EMIT view_->headPreview(-1, -1);
  hover_ = -1;
  preview_.stop();
  Q_EMIT view_->statusText(QString());
  update();
}

// Straight to the view: on the way up the scroll area would take the arrows for itself.
void HeadsGrid::keyPressEvent(QKeyEvent* event) { view_->keyPressEvent(event); }

void HeadsGrid::contextMenuEvent(QContextMenuEvent* event) { view_->choiceMenu()->popup(event->globalPos()); }

void HeadsGrid::focusInEvent(QFocusEvent* event) {
  focus_ring_ = event->reason() == Qt::TabFocusReason || event->reason() == Qt::BacktabFocusReason ||
                event->reason() == Qt::ShortcutFocusReason;
  update();
}

void HeadsGrid::focusOutEvent(QFocusEvent*) {
  focus_ring_ = false;
  update();
}

}  // namespace slotscope::views
