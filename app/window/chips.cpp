#include "app/window/chips.h"

#include <QContextMenuEvent>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QPainter>
#include <QStyledItemDelegate>
#include <QVBoxLayout>
#include <QWheelEvent>
#include <cmath>

#include "app/window/icons.h"
#include "views/theme.h"

namespace slotscope::app {

using views::Theme;

namespace {

void drawFocusRing(QPainter& p, const QRect& r) {
  p.setRenderHint(QPainter::Antialiasing);
  p.setPen(QPen(Theme::current().selection, 2));
  p.setBrush(Qt::NoBrush);
  p.drawRoundedRect(QRectF(r).adjusted(1, 1, -1, -1), 4, 4);
}

QToolButton* stepper(const QString& name, const QString& tip, QWidget* parent) {
  auto* button = new QToolButton(parent);
  button->setProperty("ui", "stepper");
  button->setFixedSize(16, 20);
  button->setIconSize({16, 16});
  button->setFocusPolicy(Qt::NoFocus);
  button->setAutoRepeat(true);
  button->setToolTip(tip);
  button->setAccessibleName(tip);
  button->setIcon(icon(name, Theme::current().text2));
  return button;
}

}  // namespace

StepChip::StepChip(const QString& label, int width, QWidget* parent)
    : QFrame(parent), label_(label), design_width_(width) {
  setFocusPolicy(Qt::StrongFocus);
  setAttribute(Qt::WA_Hover);
  less_ = stepper("chevron-left", QString("Previous %1").arg(label.toLower()), this);
  more_ = stepper("chevron-right", QString("Next %1").arg(label.toLower()), this);
  connect(less_, &QToolButton::clicked, this, [this] { Q_EMIT stepRequested(-1); });
  connect(more_, &QToolButton::clicked, this, [this] { Q_EMIT stepRequested(1); });
  setBaseFont(12);
  refresh();
}

void StepChip::setBaseFont(double pixels) {
  setFixedSize(int(std::lround(design_width_ * pixels / 12)), int(std::lround(28 * pixels / 12)));
  update();
}

QString StepChip::shownText() const {
  if (!applies_) return QStringLiteral("–");
  return text_.isEmpty() ? QString::number(value_) : QString("%1 %2").arg(value_).arg(text_);
}

void StepChip::setValue(qint64 value, const QString& text, bool applies, const QString& why) {
  value_ = value, text_ = text, applies_ = applies;
  setToolTip(applies ? QString() : why);
  refresh();
}

void StepChip::setCount(qint64 count) {
  count_ = count;
  refresh();
}

void StepChip::refresh() {
  less_->setEnabled(applies_ && value_ > 0);
  more_->setEnabled(applies_ && value_ + 1 < count_);
  setAccessibleName(label_ + " " + shownText());
  update();
}

QRect StepChip::valueRect() const {
  const QFontMetrics label(Theme::current().label());
  const int x = 9 + label.horizontalAdvance(label_) + 3;
  return QRect(x, 1, less_->x() - 4 - x, height() - 2);
}

void StepChip::paintEvent(QPaintEvent*) {
  const Theme& t = Theme::current();
  QPainter p(this);
  p.setRenderHint(QPainter::Antialiasing);
  p.setPen(t.line);
  p.setBrush(t.surface);
  p.drawRoundedRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5), 4, 4);
  p.setFont(t.label());
  p.setPen(t.text2);
  p.drawText(QRect(9, 0, width(), height()), Qt::AlignVCenter | Qt::AlignLeft, label_);
  p.setFont(t.semibold());
  p.setPen(applies_ ? t.selection : t.text3);
  const QString shown =
      QFontMetrics(t.semibold()).elidedText(shownText(), Qt::ElideRight, valueRect().width());
  p.drawText(valueRect(), Qt::AlignVCenter | Qt::AlignLeft, shown);
  if (hasFocus()) drawFocusRing(p, rect());
}

void StepChip::resizeEvent(QResizeEvent*) {
  const int y = (height() - 20) / 2;
  more_->move(width() - 5 - 16, y);
  less_->move(width() - 5 - 16 - 2 - 16, y);
  if (editor_) editor_->setGeometry(valueRect().adjusted(-3, 1, 2, -1));
}

void StepChip::edit() {
  if (!applies_ || editor_) return;
  editor_ = new QLineEdit(QString::number(value_), this);
  editor_->setFrame(false);
  editor_->setFont(Theme::current().semibold());
  editor_->setAccessibleName(label_);
  editor_->setGeometry(valueRect().adjusted(-3, 1, 2, -1));
  editor_->installEventFilter(this);
  connect(editor_, &QLineEdit::returnPressed, this, [this] { finishEdit(true); });
  editor_->show();
  editor_->selectAll();
  editor_->setFocus(Qt::OtherFocusReason);
}

void StepChip::finishEdit(bool commit) {
  if (!editor_) return;
  const QString text = editor_->text().trimmed();
  QLineEdit* editor = editor_;
  editor_ = nullptr;  // before it loses the focus, which would end the edit again
  editor->removeEventFilter(this);
  editor->hide();
  editor->deleteLater();
  setFocus(Qt::OtherFocusReason);
  if (commit && !text.isEmpty() && text != QString::number(value_)) Q_EMIT textEntered(text);
  update();
}

bool StepChip::eventFilter(QObject* object, QEvent* event) {
  if (object == editor_) {
    if (event->type() == QEvent::KeyPress && static_cast<QKeyEvent*>(event)->key() == Qt::Key_Escape) {
      finishEdit(false);
      return true;
    }
    // Escape would otherwise clear the brush before the editor sees it.
    if (event->type() == QEvent::ShortcutOverride &&
        static_cast<QKeyEvent*>(event)->key() == Qt::Key_Escape) {
      event->accept();
      return true;
    }
    if (event->type() == QEvent::FocusOut) finishEdit(true);
  }
  return QFrame::eventFilter(object, event);
}

void StepChip::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton) return QFrame::mousePressEvent(event);
  if (event->position().x() < less_->x()) edit();
  event->accept();
}

void StepChip::wheelEvent(QWheelEvent* event) {
  wheel_ += event->angleDelta().y();
  const int steps = wheel_ / 120;
  wheel_ -= steps * 120;
  if (steps) Q_EMIT stepRequested(-steps);  // wheel up goes to smaller numbers, as in a list
  event->accept();
}

void StepChip::keyPressEvent(QKeyEvent* event) {
  switch (event->key()) {
    case Qt::Key_Up:
      Q_EMIT stepRequested(-1);
      return;
    case Qt::Key_Down:
      Q_EMIT stepRequested(1);
      return;
    case Qt::Key_Return:
    case Qt::Key_Enter:
    case Qt::Key_F2:
      edit();
      return;
    default:
      QFrame::keyPressEvent(event);
  }
}

void StepChip::contextMenuEvent(QContextMenuEvent* event) { Q_EMIT menuRequested(event->globalPos()); }

void StepChip::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) {
    less_->setIcon(icon("chevron-left", Theme::current().text2));
    more_->setIcon(icon("chevron-right", Theme::current().text2));
    update();
  }
  QFrame::changeEvent(event);
}

// ---------------------------------------------------------------- list chip

namespace {

// Title, a quieter detail after it and a badge at the right.
class EntryDelegate : public QStyledItemDelegate {
 public:
  using QStyledItemDelegate::QStyledItemDelegate;
  void paint(QPainter* p, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    const Theme& t = Theme::current();
    const bool heading = index.data(Qt::UserRole + 2).toBool(),
               current = index.data(Qt::UserRole + 3).toBool();
    QRect r = option.rect;
    p->save();
    if (!heading && (option.state & (QStyle::State_Selected | QStyle::State_MouseOver)))
      p->fillRect(r.adjusted(4, 0, -4, 0),
                  option.state & QStyle::State_Selected ? t.selectionRow : t.hoverFill);
    r.adjust(12, 0, -12, 0);
    const QFont title = heading ? t.micro() : current ? t.semibold() : t.ui;
    p->setFont(title);
    p->setPen(heading ? t.text3 : current ? t.selection : t.text);
    const QString badge = index.data(Qt::UserRole + 1).toString();
    if (!badge.isEmpty()) r.setRight(r.right() - 20);
    const QString text =
        QFontMetrics(title).elidedText(index.data(Qt::DisplayRole).toString(), Qt::ElideMiddle, r.width());
    p->drawText(r, Qt::AlignVCenter | Qt::AlignLeft, text);
    const int used = QFontMetrics(title).horizontalAdvance(text) + 12;
    p->setFont(t.label());
    p->setPen(t.text3);
    const QRect rest = r.adjusted(used, 0, 0, 0);
    if (rest.width() > 24)
      p->drawText(rest, Qt::AlignVCenter | Qt::AlignRight,
                  QFontMetrics(t.label()).elidedText(index.data(Qt::UserRole).toString(), Qt::ElideMiddle,
                                                     rest.width()));
    if (!badge.isEmpty()) {
      const QRectF box(r.right() + 4, r.center().y() - 8, 18, 18);
      p->setRenderHint(QPainter::Antialiasing);
      p->setPen(Qt::NoPen);
      p->setBrush(badge == "B" ? t.modelB : t.modelA);
      p->drawEllipse(box);
      p->setPen(t.surface);
      p->drawText(box, Qt::AlignCenter, badge);
    }
    p->restore();
  }
  QSize sizeHint(const QStyleOptionViewItem&, const QModelIndex& index) const override {
    return {200, index.data(Qt::UserRole + 2).toBool() ? 22 : 26};
  }
};

}  // namespace

ListChip::ListChip(int width, QWidget* parent) : QPushButton(parent), design_width_(width) {
  setProperty("ui", "chip");
  setFocusPolicy(Qt::StrongFocus);
  setBaseFont(12);
  connect(this, &QPushButton::clicked, this, &ListChip::openList);
}

void ListChip::setBaseFont(double pixels) {
  setFixedSize(int(std::lround(design_width_ * pixels / 12)), int(std::lround(28 * pixels / 12)));
}

QSize ListChip::sizeHint() const { return size(); }

void ListChip::setShown(const QString& text) {
  shown_ = text;
  const bool elided = QFontMetrics(Theme::current().semibold()).horizontalAdvance(text) > width() - 36;
  setToolTip(elided ? text : QString());
  setAccessibleName(text);
  update();
}

void ListChip::paintEvent(QPaintEvent*) {
  const Theme& t = Theme::current();
  QPainter p(this);
  p.setRenderHint(QPainter::Antialiasing);
  p.setPen(t.line);
  p.setBrush(underMouse() && isEnabled() ? t.hoverFill : t.surface);
  p.drawRoundedRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5), 4, 4);
  p.setFont(t.semibold());
  p.setPen(shown_.startsWith(QChar(0x2013)) ? t.text3 : t.text);
  const QRect r = rect().adjusted(9, 0, -26, 0);
  p.drawText(r, Qt::AlignVCenter | Qt::AlignLeft,
             QFontMetrics(t.semibold()).elidedText(shown_, Qt::ElideMiddle, r.width()));
  p.drawPixmap(QRect(width() - 22, (height() - 16) / 2, 16, 16),
               iconPixmap("chevron-down", t.text2, 16, devicePixelRatioF()));
  if (hasFocus()) drawFocusRing(p, rect());
}

void ListChip::openList() {
  if (!entries) return;
  const std::vector<ListEntry> rows = entries();
  auto* popup = new QFrame(this, Qt::Popup);
  popup->setAttribute(Qt::WA_DeleteOnClose);
  popup->setProperty("ui", "panel");
  auto* column = new QVBoxLayout(popup);
  column->setContentsMargins(6, 6, 6, 6);
  column->setSpacing(4);
  auto* filter = new QLineEdit(popup);
  filter->setPlaceholderText("Filter");
  filter->setClearButtonEnabled(true);
  auto* list = new QListWidget(popup);
  list->setFrameShape(QFrame::NoFrame);
  list->setMouseTracking(true);
  list->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  list->setItemDelegate(new EntryDelegate(list));
  for (const ListEntry& row : rows) {
    auto* item = new QListWidgetItem(row.title, list);
    item->setData(Qt::UserRole, row.detail);
    item->setData(Qt::UserRole + 1, row.badge);
    item->setData(Qt::UserRole + 2, row.heading);
    item->setData(Qt::UserRole + 3, row.current);
    item->setToolTip(row.detail);
    if (row.heading || !row.choose) item->setFlags(Qt::ItemIsEnabled);
    if (row.current) list->setCurrentItem(item);
  }
  column->addWidget(filter);
  column->addWidget(list);
  const auto choose = [popup, list, rows] {
    const int row = list->currentRow();
    popup->close();
    if (row >= 0 && row < int(rows.size()) && rows[size_t(row)].choose) rows[size_t(row)].choose();
  };
  connect(list, &QListWidget::itemClicked, popup, choose);
  connect(list, &QListWidget::itemActivated, popup, choose);
  connect(filter, &QLineEdit::returnPressed, popup, choose);
  connect(filter, &QLineEdit::textChanged, list, [list](const QString& text) {
    int first = -1;
    for (int i = 0; i < list->count(); ++i) {
      QListWidgetItem* item = list->item(i);
      const bool match = text.isEmpty() || item->text().contains(text, Qt::CaseInsensitive) ||
                         item->data(Qt::UserRole).toString().contains(text, Qt::CaseInsensitive);
      item->setHidden(!match);
      if (match && first < 0 && item->flags().testFlag(Qt::ItemIsSelectable)) first = i;
    }
    list->setCurrentRow(first);
  });
  filter->setVisible(rows.size() > 6);
  const int height = std::min(360, 14 + int(rows.size()) * 26 + (rows.size() > 6 ? 30 : 0));
  popup->setFixedSize(380, std::max(60, height));
  popup->move(mapToGlobal(QPoint(0, this->height() + 2)));
  popup->show();
  (rows.size() > 6 ? static_cast<QWidget*>(filter) : list)->setFocus();
}

}  // namespace slotscope::app
