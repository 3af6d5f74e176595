#include "app/window/wrap_delegate.h"

#include <QHeaderView>
#include <QPainter>
#include <QTextLayout>
#include <QTreeView>
#include <algorithm>
#include <cmath>

#include "app/window/icons.h"
#include "views/theme.h"

namespace slotscope::app {

using views::Theme;

namespace {

constexpr int kPad = 3, kIcon = 18;

// Lays `text` out in at most `lines` lines and returns its height; draws it when there is a painter.
double wrapped(const QString& text, const QFont& font, double width, int lines, QPainter* painter,
               const QPointF& at) {
  QString shown = text.size() <= 2000 ? text : text.left(2000);
  QTextLayout layout(shown, font);
  QTextOption option;
  option.setWrapMode(QTextOption::WrapAtWordBoundaryOrAnywhere);
  layout.setTextOption(option);
  layout.beginLayout();
  double height = 0;
  for (int n = 0; n < lines; ++n) {
    QTextLine line = layout.createLine();
    if (!line.isValid()) break;
    line.setLineWidth(std::max(20.0, width));
    line.setPosition({0, height});
    height += line.height();
  }
  layout.endLayout();
  if (!painter) return height;
  const QTextLine last = layout.lineCount() ? layout.lineAt(layout.lineCount() - 1) : QTextLine();
  const bool cut = last.isValid() && last.textStart() + last.textLength() < text.size();
  for (int n = 0; n < layout.lineCount(); ++n)
    if (!cut || n + 1 < layout.lineCount()) layout.lineAt(n).draw(painter, at);
  if (cut) {
    painter->setFont(font);
    const QString rest = text.mid(last.textStart(), 400);
    painter->drawText(QRectF(at.x(), at.y() + last.y(), width, last.height()),
                      int(Qt::AlignLeft | Qt::AlignTop),
                      QFontMetricsF(font).elidedText(rest, Qt::ElideRight, width));
  }
  return height;
}

}  // namespace

WrapDelegate::WrapDelegate(QAbstractItemView* view, int lines)
    : QStyledItemDelegate(view), view_(view), lines_(lines) {
  if (auto* tree = qobject_cast<QTreeView*>(view))
    QObject::connect(tree->header(), &QHeaderView::sectionResized, this,
                     [this] { Q_EMIT sizeHintChanged(view_->model()->index(0, 0)); });
}

int WrapDelegate::widthOf(const QModelIndex& index) const {
  int width = view_->viewport()->width();
  if (auto* tree = qobject_cast<QTreeView*>(view_)) {
    // A name without a value has the whole row (the view's own list of spans comes too late for its first
    // layout).
    const bool spanned = index.column() == 0 && index.siblingAtColumn(1).data().toString().isEmpty();
    if (!spanned) width = tree->columnWidth(index.column());
    if (index.column() == 0)
      for (QModelIndex up = index; up.isValid(); up = up.parent()) width -= tree->indentation();
  }
  return width - 2 * kPad - (index.data(Qt::DecorationRole).isValid() ? kIcon : 0);
}

void WrapDelegate::paint(QPainter* painter, const QStyleOptionViewItem& option,
                         const QModelIndex& index) const {
  const Theme& t = Theme::current();
  const bool selected = option.state & QStyle::State_Selected;
  painter->save();
  if (selected)
    painter->fillRect(option.rect, t.selectionRow);
  else if (option.state & QStyle::State_MouseOver)
    painter->fillRect(option.rect, t.hoverFill);
  QRect area = option.rect.adjusted(kPad, 2, -kPad, 0);
  if (const QVariant name = index.data(Qt::DecorationRole); name.isValid()) {
    const QVariant colour = index.data(Qt::UserRole);
    const double ratio = view_->devicePixelRatioF();
    painter->drawPixmap(QRect(area.left(), area.top(), 14, 14),
                        iconPixmap(name.toString().toUtf8().constData(),
                                   colour.isValid() ? colour.value<QColor>() : t.warn, 14, ratio));
    area.setLeft(area.left() + kIcon);
  }
  const QVariant foreground = index.data(Qt::ForegroundRole), own = index.data(Qt::FontRole);
  painter->setPen(selected ? t.selection : foreground.isValid() ? foreground.value<QColor>() : t.text);
  wrapped(index.data().toString(), own.isValid() ? own.value<QFont>() : option.font, area.width(), lines_,
          painter, area.topLeft());
  painter->restore();
}

QSize WrapDelegate::sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const {
  const QVariant own = index.data(Qt::FontRole);
  const QFont font = own.isValid() ? own.value<QFont>() : option.font;
  const double height = wrapped(index.data().toString(), font, widthOf(index), lines_, nullptr, {});
  const double least = QFontMetricsF(font).lineSpacing();
  const bool free = qobject_cast<QTreeView*>(view_) != nullptr;  // a tree asks for column widths too
  return {
      free ? int(std::min(4000.0, QFontMetricsF(font).horizontalAdvance(index.data().toString().left(400)))) +
                 2 * kPad + 2
           : 40,
      int(std::ceil(std::max(height, least))) + 4};
}

}  // namespace slotscope::app
