#include "views/list_widgets.h"

#include <QClipboard>
#include <QContextMenuEvent>
#include <QCoreApplication>
#include <QGuiApplication>
#include <QKeyEvent>
#include <QMenu>
#include <QPainter>
#include <algorithm>

namespace slotscope::views {

QString oneLine(const QString& text) {
  const auto plain = [](QChar c) {
    return c.category() != QChar::Other_Control && c.category() != QChar::Other_Format &&
           c.category() != QChar::Separator_Line && c.category() != QChar::Separator_Paragraph;
  };
  if (std::all_of(text.begin(), text.end(), plain)) return text;
  QString line;
  for (const QChar c : text) {
    if (plain(c))
      line += c;
    else if (c == '\n')
      line += QChar(0x21B5);
    else
      line += QString("\\u%1").arg(uint(c.unicode()), 4, 16, QChar('0'));
  }
  return line;
}

QString wrappedTip(const QString& text) {
  constexpr qsizetype width = 80, most = 1200;
  QString whole = text.size() <= most ? text : text.left(most / 2) + QChar(0x2026) + text.right(most / 2);
  QString lines;
  for (const QString& line : whole.split('\n'))
    for (qsizetype at = 0; at == 0 || at < line.size(); at += width)
      lines += (lines.isEmpty() ? "" : "\n") + line.mid(at, width);
  return lines;
}

ElidedLabel::ElidedLabel(QWidget* parent) : QLabel(parent) {
  setTextFormat(Qt::PlainText);
  setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
}

void ElidedLabel::setFullText(const QString& text) {
  full_ = text;
  setText(oneLine(text));
  setToolTip(text.isEmpty() ? QString() : wrappedTip(text));
  setAccessibleName(text);
}

QSize ElidedLabel::sizeHint() const { return {40, fontMetrics().height() + 2}; }
QSize ElidedLabel::minimumSizeHint() const { return {20, fontMetrics().height() + 2}; }

void ElidedLabel::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.setPen(palette().color(foregroundRole()));
  // A name of 10,000 characters: elidedText takes time that grows with its length.
  const QString shown =
      text().size() <= 2000 ? text() : text().left(1000) + QChar(0x2026) + text().right(1000);
  painter.drawText(contentsRect(), int(Qt::AlignLeft | Qt::AlignVCenter),
                   fontMetrics().elidedText(shown, Qt::ElideMiddle, contentsRect().width()));
}

void ElidedLabel::contextMenuEvent(QContextMenuEvent* event) {
  if (full_.isEmpty()) return;
  auto* menu = new QMenu(this);
  menu->setAttribute(Qt::WA_DeleteOnClose);
  menu->addAction("Copy", this, [this] { QGuiApplication::clipboard()->setText(full_); });
  menu->popup(event->globalPos());
}

namespace {

class CopyKeys : public QObject {
 public:
  CopyKeys(QAbstractItemView* view, std::function<QString(const QModelIndex&)> text)
      : QObject(view), view_(view), text_(std::move(text)) {
    view->installEventFilter(this);
  }
  QString selected() const {
    QModelIndexList rows;
    for (const QModelIndex& i : view_->selectionModel()->selectedIndexes())
      if (const QModelIndex row = i.siblingAtColumn(0); !rows.contains(row)) rows << row;
    if (rows.isEmpty() && view_->currentIndex().isValid()) rows << view_->currentIndex();
    std::sort(rows.begin(), rows.end(), [this](const QModelIndex& a, const QModelIndex& b) {
      return view_->visualRect(a).top() < view_->visualRect(b).top();
    });
    QStringList lines;
    for (const QModelIndex& row : rows) lines << text_(row);
    return lines.join('\n');
  }

 protected:
  bool eventFilter(QObject*, QEvent* event) override {
    if (event->type() != QEvent::ShortcutOverride && event->type() != QEvent::KeyPress) return false;
    auto* key = static_cast<QKeyEvent*>(event);
    if (key->matches(QKeySequence::Copy)) {
      event->accept();
      if (event->type() == QEvent::KeyPress) QGuiApplication::clipboard()->setText(selected());
      return true;
    }
    if (event->type() != QEvent::KeyPress || passing_) return false;
    switch (key->key()) {
      case Qt::Key_Up:
      case Qt::Key_Down:
      case Qt::Key_Left:
      case Qt::Key_Right:
      case Qt::Key_Home:
      case Qt::Key_End:
      case Qt::Key_PageUp:
      case Qt::Key_PageDown: {
        if (key->modifiers() & Qt::AltModifier) return false;
        passing_ = true;
        QCoreApplication::sendEvent(view_, event);
        passing_ = false;
        event->accept();
        return true;
      }
      default:
        return false;
    }
  }

 private:
  QAbstractItemView* view_;
  std::function<QString(const QModelIndex&)> text_;
  bool passing_ = false;
};

}  // namespace

void makeCopyable(QAbstractItemView* view, const QString& label,
                  std::function<QString(const QModelIndex&)> text,
                  std::function<void(QMenu*, const QModelIndex&)> more) {
  auto* keys = new CopyKeys(view, text);
  view->setContextMenuPolicy(Qt::CustomContextMenu);
  QObject::connect(view, &QWidget::customContextMenuRequested, view, [=](const QPoint& at) {
    const QModelIndex index = view->indexAt(at);
    if (!index.isValid()) return;
    auto* menu = new QMenu(view);
    menu->setAttribute(Qt::WA_DeleteOnClose);
    if (more) more(menu, index);
    menu->addAction(label, view, [keys, text, view, index] {
      const bool part = view->selectionModel()->isSelected(index);
      QGuiApplication::clipboard()->setText(part ? keys->selected() : text(index));
    });
    menu->popup(view->viewport()->mapToGlobal(at));
  });
}

}  // namespace slotscope::views
