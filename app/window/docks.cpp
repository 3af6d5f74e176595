#include "app/window/docks.h"

#include <QContextMenuEvent>
#include <QHBoxLayout>
#include <QLabel>
#include <QMenu>
#include <QTabBar>
#include <QTimer>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "app/window/icons.h"
#include "views/theme.h"

namespace slotscope::app {

using views::Theme;

namespace {

// A title of height 0: Qt draws its own when a dock has none.
class NoTitle : public QWidget {
 public:
  using QWidget::QWidget;
  QSize sizeHint() const override { return {0, 0}; }
  QSize minimumSizeHint() const override { return {0, 0}; }
};

QToolButton* titleButton(const QString& name, QWidget* parent) {
  auto* button = new QToolButton(parent);
  button->setProperty("ui", "quiet");
  button->setAccessibleName(name);
  button->setToolTip(name);
  button->setFocusPolicy(Qt::TabFocus);
  return button;
}

}  // namespace

TitleBar::TitleBar(Dock* dock) : QFrame(dock), dock_(dock) {
  setObjectName(dock->kind() == Dock::Kind::view ? "viewTitle" : "panelTitle");
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(dock->kind() == Dock::Kind::view ? 0 : 11, 0, 6, 0);
  row->setSpacing(2);
  names_ = new QHBoxLayout;
  names_->setSpacing(dock->kind() == Dock::Kind::view ? 0 : 5);
  row->addLayout(names_);
  add_ = titleButton("Open another view here", this);
  add_->setVisible(dock->kind() == Dock::Kind::view);
  row->addWidget(add_);
  row->addStretch(1);
  choice_ = titleButton("Choose what is shown", this);
  choice_->hide();
  row->addWidget(choice_);
  more_ = titleButton("More", this);
  row->addWidget(more_);
  connect(more_, &QToolButton::clicked, this,
          [this] { dock_->showMenu(more_->mapToGlobal(QPoint(0, more_->height()))); });
  connect(choice_, &QToolButton::clicked, this,
          [this] { Q_EMIT choiceClicked(choice_->mapToGlobal(QPoint(0, choice_->height()))); });
  connect(add_, &QToolButton::clicked, this,
          [this] { Q_EMIT addClicked(add_->mapToGlobal(QPoint(0, add_->height()))); });
  setGroup({dock});
  restyle();
}

QSize TitleBar::sizeHint() const {
  return {120, int(std::lround((dock_->kind() == Dock::Kind::view ? 30 : 29) * Theme::current().base / 12))};
}
QSize TitleBar::minimumSizeHint() const { return {60, sizeHint().height()}; }

void TitleBar::setChoice(const QString& text) {
  choice_->setText(text);
  choice_->setVisible(!text.isEmpty());
}

void TitleBar::setGroup(const QList<Dock*>& group) {
  group_ = group;
  while (QLayoutItem* item = names_->takeAt(0)) {
    if (QWidget* w = item->widget()) w->deleteLater();
    delete item;
  }
  for (Dock* d : group) {
    if (d == dock_) {
      auto* name = new QLabel(d->windowTitle(), this);
      name->setObjectName(dock_->kind() == Dock::Kind::view ? "viewTab" : "panelName");
      name->setAttribute(Qt::WA_TransparentForMouseEvents);
      name->setFont(Theme::current().semibold());
      if (dock_->kind() == Dock::Kind::panel)
        name->setMinimumWidth(QFontMetrics(Theme::current().semibold()).horizontalAdvance(d->windowTitle()) +
                              2);
      names_->addWidget(name);
    } else {
      auto* other = titleButton("Show " + d->windowTitle(), this);
      other->setText(d->windowTitle());
      other->setFont(Theme::current().label());
      other->setFixedWidth(QFontMetrics(Theme::current().label()).horizontalAdvance(d->windowTitle()) + 6);
      other->setObjectName("otherName");
      connect(other, &QToolButton::clicked, d, [d] { d->raise(); });
      names_->addWidget(other);
    }
  }
}

void TitleBar::restyle() {
  more_->setIcon(icon("more", Theme::current().text2));
  add_->setIcon(icon("plus", Theme::current().text2));
  choice_->setFont(Theme::current().label());
  setGroup(group_);
  updateGeometry();
}

Dock::Dock(Kind kind, const QString& id, const QString& title, QMainWindow* host)
    : QDockWidget(title, host), kind_(kind) {
  setObjectName(id);
  setAllowedAreas(kind == Kind::view
                      ? Qt::AllDockWidgetAreas
                      : Qt::LeftDockWidgetArea | Qt::RightDockWidgetArea | Qt::BottomDockWidgetArea);
  frame_ = new QFrame(this);
  frame_->setObjectName(kind == Kind::view ? "viewBody" : "panelBody");
  auto* column = new QVBoxLayout(frame_);
  column->setContentsMargins(1, kind == Kind::view ? 1 : 0, 1, 1);
  column->setSpacing(0);
  setWidget(frame_);
  title_ = new TitleBar(this);
  no_title_ = new NoTitle(this);
  no_title_->hide();
  setTitleBarWidget(title_);
}

void Dock::setBody(QWidget* body) {
  if (body_) body_->deleteLater();
  body_ = body;
  frame_->layout()->addWidget(body);
}

bool Dock::open() const { return const_cast<Dock*>(this)->toggleViewAction()->isChecked(); }

void Dock::setTabbed(bool tabbed) {
  QWidget* wanted = tabbed && kind_ == Kind::view && !isFloating() ? no_title_ : title_;
  if (titleBarWidget() == wanted) return;
  titleBarWidget()->hide();
  setTitleBarWidget(wanted);
  wanted->show();
  frame_->setProperty("tabbed", tabbed);
}

void Dock::showMenu(const QPoint& global) {
  auto* menu = new QMenu(this);
  menu->setAttribute(Qt::WA_DeleteOnClose);
  if (fill_menu) fill_menu(menu);
  menu->addAction(isFloating() ? "Dock" : "Pop out", this, [this] { setFloating(!isFloating()); });
  menu->addAction("Close", this, [this] { close(); });
  menu->popup(global);
}

DockHost::DockHost(Dock::Kind kind, QWidget* parent) : QMainWindow(parent), kind_(kind) {
  setWindowFlags(Qt::Widget);
  setDocumentMode(true);
  if (kind == Dock::Kind::panel) {
    setDockOptions(AnimatedDocks | AllowNestedDocks | AllowTabbedDocks);
    setCorner(Qt::TopLeftCorner, Qt::LeftDockWidgetArea);
    setCorner(Qt::BottomLeftCorner, Qt::LeftDockWidgetArea);
    setCorner(Qt::TopRightCorner, Qt::RightDockWidgetArea);
    setCorner(Qt::BottomRightCorner, Qt::RightDockWidgetArea);
  } else {
    setDockOptions(AllowNestedDocks | AllowTabbedDocks | GroupedDragging);
    setTabPosition(Qt::AllDockWidgetAreas, QTabWidget::North);
  }
}

Dock* DockHost::add(const QString& id, const QString& title) {
  auto* dock = new Dock(kind_, id, title, this);
  docks_.append(dock);
  const auto touched = [this] {
    refreshLater();
    Q_EMIT layoutTouched();
  };
  connect(dock, &QDockWidget::visibilityChanged, this, &DockHost::refreshLater);
  connect(dock, &QDockWidget::topLevelChanged, this, touched);
  connect(dock, &QDockWidget::dockLocationChanged, this, touched);
  connect(dock->toggleViewAction(), &QAction::toggled, this, touched);
  connect(dock->title(), &TitleBar::addClicked, this, &DockHost::addViewClicked);
  return dock;
}

void DockHost::remove(Dock* dock) {
  docks_.removeAll(dock);
  removeDockWidget(dock);
  dock->deleteLater();
  refreshLater();
}

Dock* DockHost::find(const QString& id) const {
  for (Dock* d : docks_)
    if (d->id() == id) return d;
  return nullptr;
}

void DockHost::refreshLater() {
  if (pending_) return;
  pending_ = true;
  QTimer::singleShot(0, this, [this] {
    pending_ = false;
    refresh();
  });
}

void DockHost::refresh() {
  for (Dock* dock : docks_) {
    QList<Dock*> group{dock};
    if (!dock->isFloating())
      for (QDockWidget* other : tabifiedDockWidgets(dock))
        if (auto* d = qobject_cast<Dock*>(other); d && d->open() && !d->isFloating()) group.append(d);
    std::sort(group.begin(), group.end(),
              [this](Dock* a, Dock* b) { return docks_.indexOf(a) < docks_.indexOf(b); });
    if (kind_ == Dock::Kind::panel)
      dock->title()->setGroup(group);
    else
      dock->setTabbed(group.size() > 1);
  }
  dressTabBars();
}

void DockHost::dressTabBars() {
  for (QTabBar* bar : findChildren<QTabBar*>(Qt::FindDirectChildrenOnly)) {
    bar->setDrawBase(false);
    bar->setExpanding(false);
    bar->setElideMode(Qt::ElideRight);
    bar->setUsesScrollButtons(kind_ == Dock::Kind::view);
    if (kind_ == Dock::Kind::panel) continue;
    auto* plus = bar->findChild<QToolButton*>("addView");
    if (!plus) {
      plus = titleButton("Open another view here (Ctrl+T)", bar);
      plus->setObjectName("addView");
      plus->setFixedSize(24, 24);
      connect(plus, &QToolButton::clicked, this,
              [this, plus] { Q_EMIT addViewClicked(plus->mapToGlobal(QPoint(0, plus->height()))); });
      bar->installEventFilter(this);
    }
    plus->setIcon(icon("plus", Theme::current().text2));
    const QRect last = bar->count() ? bar->tabRect(bar->count() - 1) : QRect();
    plus->move(last.right() + 9, std::max(0, (bar->height() - 24) / 2));
    plus->show();
    plus->raise();
  }
}

void DockHost::restyle() {
  for (Dock* d : docks_) d->title()->restyle();
  refreshLater();
}

void DockHost::resizeEvent(QResizeEvent* event) {
  QMainWindow::resizeEvent(event);
  if (kind_ == Dock::Kind::view) refreshLater();
}

bool DockHost::eventFilter(QObject* object, QEvent* event) {
  if (auto* bar = qobject_cast<QTabBar*>(object)) {
    if (event->type() == QEvent::Resize || event->type() == QEvent::LayoutRequest ||
        event->type() == QEvent::Show)
      refreshLater();
    if (event->type() == QEvent::ContextMenu) {
      const auto* menu = static_cast<QContextMenuEvent*>(event);
      const int at = bar->tabAt(menu->pos());
      for (Dock* d : docks_)
        if (at >= 0 && bar->tabText(at) == d->windowTitle()) {
          d->showMenu(menu->globalPos());
          return true;
        }
    }
  }
  return QMainWindow::eventFilter(object, event);
}

}  // namespace slotscope::app
