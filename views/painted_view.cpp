#include "views/painted_view.h"

#include <QAccessible>
#include <QFrame>
#include <QHBoxLayout>
#include <QHelpEvent>
#include <QLabel>
#include <QPainter>
#include <QPushButton>
#include <QScrollBar>
#include <QTimer>
#include <QToolTip>
#include <QWheelEvent>
#include <algorithm>
#include <cmath>

namespace slotscope::views {

namespace {
constexpr int kScrollWidth = 8;
constexpr double kMark = 10, kLineMark = 20, kMarkGap = 5, kItemGap = 17;
}  // namespace

double legendWidth(const QVector<LegendItem>& items, const Theme& theme) {
  const QFontMetricsF metrics(theme.label());
  double width = 0;
  for (const auto& item : items)
    width += (item.mark == LegendItem::Line ? kLineMark : kMark) + kMarkGap +
             metrics.horizontalAdvance(item.text) + kItemGap;
  return std::max(0.0, width - kItemGap);
}

double paintLegend(QPainter& painter, double left, double middle, const QVector<LegendItem>& items,
                   const Theme& theme) {
  painter.save();
  painter.setFont(theme.label());
  const QFontMetricsF metrics(theme.label());
  for (const auto& item : items) {
    painter.setRenderHint(QPainter::Antialiasing, false);
    if (item.mark == LegendItem::Line) {
      painter.fillRect(QRectF(left, std::round(middle) - 1, kLineMark, 2), item.colour);
      left += kLineMark + kMarkGap;
    } else {
      const QRectF square(std::round(left), std::round(middle - kMark / 2), kMark, kMark);
      if (item.mark == LegendItem::Square) painter.fillRect(square, item.colour);
      if (item.mark == LegendItem::Outline) {
        painter.setPen(QPen(theme.lineStrong, 1));
        painter.setBrush(Qt::NoBrush);
        painter.drawRect(square.adjusted(0.5, 0.5, -0.5, -0.5));
      }
      left += kMark + kMarkGap;
    }
    painter.setPen(theme.text);
    const double width = metrics.horizontalAdvance(item.text);
    painter.drawText(QRectF(left, middle - 10, width + 2, 20), int(Qt::AlignLeft | Qt::AlignVCenter),
                     item.text);
    left += width + kItemGap;
  }
  painter.restore();
  return left - kItemGap;
}

QString tipText(const QString& title, const QVector<std::pair<QString, QString>>& rows, const QString& source,
                const Theme& theme) {
  QString html = QStringLiteral("<div style='max-width:290px'><b>%1</b>").arg(title.toHtmlEscaped());
  if (!rows.isEmpty()) {
    html += QStringLiteral("<table cellspacing='0' cellpadding='1' width='100%'>");
    for (const auto& [name, value] : rows)
      html += QStringLiteral("<tr><td style='color:%1'>%2&nbsp;&nbsp;</td><td align='right'>%3</td></tr>")
                  .arg(theme.text2.name(), name.toHtmlEscaped(), value.toHtmlEscaped());
    html += QStringLiteral("</table>");
  }
  if (!source.isEmpty())
    html += QStringLiteral("<hr/><span style='color:%1'>%2</span>")
                .arg(theme.text3.name(), source.toHtmlEscaped());
  return html + QStringLiteral("</div>");
}

const analysis::HeadSummary* findHead(const analysis::RunSummary& summary, int layer, int head) {
  const auto& list = summary.head_list;
  if (layer < 0 || head < 0) return nullptr;
  // Layer-major with equal head counts as a rule; otherwise look for it.
  const size_t guess = size_t(layer) * size_t(std::max(1, summary.heads)) + size_t(head);
  if (guess < list.size() && list[guess].layer == layer && list[guess].head == head) return &list[guess];
  for (const auto& s : list)
    if (s.layer == layer && s.head == head) return &s;
  return nullptr;
}

void paintHatch(QPainter& painter, const QRectF& area, const Theme& theme) {
  painter.save();
  painter.setClipRect(area, Qt::IntersectClip);
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(QPen(theme.line, 1));
  for (double x = area.left() - area.height(); x < area.right(); x += 7)
    painter.drawLine(QPointF(x, area.bottom()), QPointF(x + area.height(), area.top()));
  painter.restore();
}

void paintVerdict(QPainter& painter, const QPointF& middle, bool good, const QColor& colour) {
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(QPen(colour, 2, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
  painter.setBrush(Qt::NoBrush);
  if (good) {
    const QPointF tick[] = {middle + QPointF(-5.5, 0.5), middle + QPointF(-1.5, 4.5),
                            middle + QPointF(5.5, -4.5)};
    painter.drawPolyline(tick, 3);
  } else {
    painter.drawLine(middle + QPointF(-4.5, -4.5), middle + QPointF(4.5, 4.5));
    painter.drawLine(middle + QPointF(-4.5, 4.5), middle + QPointF(4.5, -4.5));
  }
  painter.restore();
}

void LegendWidget::setItems(QVector<LegendItem> items) {
  items_ = std::move(items);
  QStringList names;
  for (const auto& item : items_) names << item.text;
  setAccessibleName(QStringLiteral("Legend: ") + names.join(QStringLiteral(", ")));
  updateGeometry();
  update();
}

QSize LegendWidget::sizeHint() const {
  return {int(std::ceil(legendWidth(items_, Theme::current()))) + 4, 26};
}

void LegendWidget::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  paintLegend(painter, 0, height() / 2.0, fitting(width()), Theme::current());
}

QVector<LegendItem> LegendWidget::fitting(double width) const {
  const auto& theme = Theme::current();
  auto items = items_;
  if (legendWidth(items, theme) <= width) return items;
  for (auto& item : items)
    if (!item.brief.isEmpty()) item.text = item.brief;
  while (!items.isEmpty() && legendWidth(items, theme) > width) items.removeLast();
  return items;
}

PaintedView::PaintedView(SelectionModel* selection, QWidget* parent) : View(selection, parent) {
  setMouseTracking(true);
  setAttribute(Qt::WA_OpaquePaintEvent);
  scroll_ = new QScrollBar(Qt::Vertical, this);
  scroll_->hide();
  scroll_->setAttribute(Qt::WA_OpaquePaintEvent, false);
  styleScroll();
  connect(scroll_, &QScrollBar::valueChanged, this, [this] { update(); });
  button_ = new QPushButton(this);
  button_->hide();
  connect(button_, &QPushButton::clicked, this, &View::messageAction);
  moving_ = new QTimer(this);
  moving_->setInterval(33);
  connect(moving_, &QTimer::timeout, this, [this] { update(); });
  if (selection_) {
    connect(selection_, &SelectionModel::changed, this,
            [this](const Selection&, int parts) { selectionMoved(parts); });
    connect(selection_, &SelectionModel::hoverChanged, this, [this] { hoverMoved(); });
    connect(selection_, &SelectionModel::brushChanged, this, [this] { update(); });
  }
}

QHBoxLayout* PaintedView::viewBar() {
  if (!bar_layout_) {
    auto* frame = new QFrame(this);
    frame->setProperty("ui", "bar");
    bar_ = frame;
    bar_layout_ = new QHBoxLayout(frame);
    bar_layout_->setContentsMargins(10, 0, 10, 0);
    bar_layout_->setSpacing(6);
  }
  return bar_layout_;
}

QLabel* PaintedView::barLabel(const QString& text) {
  auto* label = new QLabel(text, this);
  label->setProperty("ui", "text2");
  label->setFont(Theme::current().label());
  return label;
}

QRectF PaintedView::contentRect() const {
  const double top = bar_ ? kBarHeight : 0;
  return {0, top, double(width()), std::max(0.0, height() - top)};
}

double PaintedView::scrollOffset() const { return scroll_->isVisibleTo(this) ? scroll_->value() : 0; }

void PaintedView::scrollTo(double y) { scroll_->setValue(int(std::lround(y))); }

double PaintedView::contentHeight(double) const { return 0; }
QString PaintedView::tipAt(const QPointF&) const { return {}; }

QPointF PaintedView::toContent(const QPointF& widget) const {
  const auto area = contentRect();
  return {widget.x() - area.left(), widget.y() - area.top() + scrollOffset()};
}

// A slim bar over the right padding: content never changes its width because of it.
void PaintedView::styleScroll() {
  const auto& theme = Theme::current();
  scroll_->setStyleSheet(
      QStringLiteral(
          "QScrollBar:vertical { background: transparent; width: 8px; margin: 0; }"
          "QScrollBar::handle:vertical { background: %1; border-radius: 3px; margin: 1px; min-height: 24px; }"
          "QScrollBar::handle:vertical:hover { background: %2; }"
          "QScrollBar::add-line, QScrollBar::sub-line { height: 0; }"
          "QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }")
          .arg(theme.line.name(), theme.lineStrong.name()));
}

void PaintedView::updateScroll() {
  const double top = bar_ ? kBarHeight : 0, room = std::max(0.0, height() - top);
  const bool drawn = message_.isEmpty() && emptyText().isEmpty();
  const double wanted = drawn ? contentHeight(width()) : 0;
  const bool needed = wanted > room + 0.5;
  scroll_->setVisible(needed);
  scroll_->setRange(0, needed ? std::max(0, int(std::ceil(wanted - room))) : 0);
  scroll_->setPageStep(std::max(1, int(room)));
  scroll_->setSingleStep(20);
  scroll_->setGeometry(width() - kScrollWidth, int(top), kScrollWidth, int(room));
}

void PaintedView::ensureVisible(double top, double bottom) {
  if (!scroll_->isVisibleTo(this)) return;
  const double room = contentRect().height();
  if (top < scrollOffset()) scrollTo(top);
  if (bottom > scrollOffset() + room) scrollTo(bottom - room);
}

void PaintedView::refreshAccessibility() {
  const QString text = accessibleText();
  if (text == accessibleName()) return;
  setAccessibleName(text);
  QAccessibleEvent event(this, QAccessible::NameChanged);
  QAccessible::updateAccessibility(&event);
}

void PaintedView::contentChanged() {
  placeChildren();
  refreshAccessibility();
  update();
}

void PaintedView::selectionMoved(int) {
  refreshAccessibility();
  update();
}

void PaintedView::hoverMoved() {}

void PaintedView::keepPicture() {
  if (!message_.isEmpty() || !emptyText().isEmpty() || !isVisible()) return;
  const auto area = contentRect();
  if (area.isEmpty()) return;
  const double ratio = devicePixelRatioF();
  QPixmap picture((area.size() * ratio).toSize());
  picture.setDevicePixelRatio(ratio);
  picture.fill(Theme::current().surface);
  QPainter painter(&picture);
  painter.translate(0, -scrollOffset());
  paintContent(painter, {area.width(), std::max(area.height(), contentHeight(area.width()))},
               Theme::current());
  painter.end();
  last_picture_ = picture;
}

void PaintedView::setRun(std::shared_ptr<const RunData> run) {
  if (!run) last_picture_ = {};
  View::setRun(std::move(run));
  scrollTo(0);
  contentChanged();
}

void PaintedView::setHead(std::shared_ptr<const analysis::HeadData> head) {
  if (!head && head_) keepPicture();
  View::setHead(std::move(head));
  contentChanged();
}

void PaintedView::setMessage(const QString& text, const QString& button) {
  const bool meant = !run_ || needsHead();
  View::setMessage(meant ? text : QString(), meant ? button : QString());
  contentChanged();
}

void PaintedView::setLoading(bool loading, const QString& stage) {
  if (loading && !loading_) {
    keepPicture();
    loading_since_.start();
    moving_->start();
  }
  View::setLoading(loading, stage);
  if (!loading) {
    moving_->stop();
    last_picture_ = {};
    contentChanged();
  }
}

// Short loads (another head of an open trace) must not flicker.
bool PaintedView::fading() const { return loading_ && loading_since_.elapsed() > 150; }

void PaintedView::placeChildren() {
  if (bar_) bar_->setGeometry(0, 0, width(), kBarHeight);
  updateScroll();
  const bool with_button = !message_.isEmpty() && !message_button_.isEmpty() && !loading_;
  button_->setVisible(with_button);
  if (with_button) {
    button_->setText(message_button_);
    const QSize size = button_->sizeHint();
    const auto area = contentRect();
    button_->setGeometry(int(area.center().x() - size.width() / 2.0), int(area.center().y() + 12),
                         size.width(), size.height());
  }
}

bool PaintedView::event(QEvent* event) {
  if (event->type() == QEvent::ToolTip) {
    auto* help = static_cast<QHelpEvent*>(event);
    const bool drawn = message_.isEmpty() && emptyText().isEmpty();
    const QString tip =
        drawn && contentRect().contains(help->pos()) ? tipAt(toContent(help->pos())) : QString();
    if (tip.isEmpty())
      QToolTip::hideText();
    else
      QToolTip::showText(help->globalPos(), tip, this);
    return true;
  }
  return View::event(event);
}

void PaintedView::changeEvent(QEvent* event) {
  View::changeEvent(event);
  if (event->type() == QEvent::PaletteChange || event->type() == QEvent::FontChange) {
    last_picture_ = {};
    styleScroll();
    const auto labels = bar_ ? bar_->findChildren<QLabel*>() : QList<QLabel*>();
    for (auto* label : labels) label->setFont(Theme::current().label());
    contentChanged();
  }
}

bool PaintedView::paintGround(QPainter& painter, const QRectF& area, const Theme& theme) const {
  painter.save();
  painter.fillRect(area, theme.surface);
  const QString why = emptyText();
  painter.setFont(theme.ui);
  painter.setPen(theme.text2);
  if (!why.isEmpty()) painter.drawText(area, int(Qt::AlignCenter) | Qt::TextWordWrap, why);
  painter.restore();
  return !why.isEmpty();
}

void PaintedView::paintEvent(QPaintEvent*) {
  const auto& theme = Theme::current();
  QPainter painter(this);
  painter.fillRect(rect(), theme.surface);
  const auto area = contentRect();
  const QString why = !message_.isEmpty() ? message_ : emptyText();
  if (why.isEmpty()) {
    painter.save();
    painter.setClipRect(area);
    painter.translate(area.left(), area.top() - scrollOffset());
    if (fading()) painter.setOpacity(0.6);
    paintContent(painter, {area.width(), std::max(area.height(), contentHeight(area.width()))}, theme);
    painter.restore();
  } else if (loading_ && !last_picture_.isNull()) {
    if (fading()) painter.setOpacity(0.6);
    painter.drawPixmap(area.topLeft(), last_picture_);
    painter.setOpacity(1);
  } else if (!loading_) {
    QFont font = theme.ui;
    font.setPixelSize(font.pixelSize() + 1);
    painter.setFont(font);
    painter.setPen(theme.text2);
    const double width = std::min(area.width() - 40, 460.0);
    const double bottom = area.center().y() + (button_->isVisibleTo(this) ? 0 : 20);
    const QRectF box(area.center().x() - width / 2, bottom - 200, width, 200);
    painter.drawText(box, int(Qt::AlignHCenter | Qt::AlignBottom) | Qt::TextWordWrap, why);
  }
  if (fading()) {
    // 2 px moving bar; after a second the stage in words.
    const double share = std::fmod(double(loading_since_.elapsed()) / 1400.0, 1.0), bar = area.width() / 4;
    painter.fillRect(QRectF(area.left() + share * (area.width() + bar) - bar, area.top(), bar, 2),
                     theme.text2);
    if (loading_since_.elapsed() > 1000 && !loading_stage_.isEmpty()) {
      painter.setFont(theme.label());
      const QFontMetricsF metrics(theme.label());
      const double width = metrics.horizontalAdvance(loading_stage_) + 16;
      const QRectF box(area.center().x() - width / 2, area.top() + 10, width, 22);
      painter.fillRect(box, theme.surface);
      painter.setPen(theme.text2);
      painter.drawText(box, Qt::AlignCenter, loading_stage_);
    }
  }
  if (focus_ring_) {
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setPen(QPen(theme.selection, 2));
    painter.setBrush(Qt::NoBrush);
    painter.drawRoundedRect(QRectF(rect()).adjusted(1, 1, -1, -1), 4, 4);
  }
}

void PaintedView::resizeEvent(QResizeEvent*) { placeChildren(); }

void PaintedView::wheelEvent(QWheelEvent* event) {
  if (!scroll_->isVisibleTo(this)) return event->ignore();
  if (!event->pixelDelta().isNull()) {
    scrollTo(scroll_->value() - event->pixelDelta().y());
  } else {
    wheel_rest_ += event->angleDelta().y();
    scrollTo(scroll_->value() - wheel_rest_ / 120 * 60);
    wheel_rest_ %= 120;
  }
  event->accept();
}

void PaintedView::focusInEvent(QFocusEvent* event) {
  View::focusInEvent(event);
  // A ring only for those who came by keyboard: a click shows where it went by what it selects.
  focus_ring_ = event->reason() == Qt::TabFocusReason || event->reason() == Qt::BacktabFocusReason ||
                event->reason() == Qt::ShortcutFocusReason;
  update();
}

void PaintedView::focusOutEvent(QFocusEvent* event) {
  View::focusOutEvent(event);
  focus_ring_ = false;
  update();
}

}  // namespace slotscope::views
