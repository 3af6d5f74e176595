// Docks of panels and views with their own title bars (design: section 2 "Docking"). Panels that share one
// place show their names in one title bar; views show tabs.
#pragma once

#include <QDockWidget>
#include <QFrame>
#include <QMainWindow>
#include <functional>

class QHBoxLayout;
class QLabel;
class QMenu;
class QToolButton;

namespace slotscope::app {

class Dock;

// 28 px: names at the left (the shown one semibold), at the right one quiet choice and the menu "...".
class TitleBar : public QFrame {
  Q_OBJECT
 public:
  TitleBar(Dock* dock);
  // The docks of this place, in order; the shown one is `dock` itself.
  void setGroup(const QList<Dock*>& group);
  // The panel's main choice, "allocation ▾"; an empty text hides it.
  void setChoice(const QString& text);
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override;
  void restyle();

 Q_SIGNALS:
  void choiceClicked(const QPoint& global);
  void addClicked(const QPoint& global);  // views only

 private:
  Dock* dock_;
  QHBoxLayout* names_;
  QToolButton *choice_, *add_, *more_;
  QList<Dock*> group_;
};

class Dock : public QDockWidget {
  Q_OBJECT
 public:
  enum class Kind { panel, view };
  Dock(Kind kind, const QString& id, const QString& title, QMainWindow* host);
  Kind kind() const { return kind_; }
  QString id() const { return objectName(); }
  void setBody(QWidget* body);
  QWidget* body() const { return body_; }
  TitleBar* title() const { return title_; }
  // Fills the menu "..." (and the tab's context menu).
  std::function<void(QMenu*)> fill_menu;
  void showMenu(const QPoint& global);
  bool open() const;  // shown or behind another tab
  // Views in a tabbed place hide their title bar: the tab is their title.
  void setTabbed(bool tabbed);

 private:
  Kind kind_;
  QWidget* body_ = nullptr;
  QFrame* frame_;
  TitleBar* title_;
  QWidget* no_title_;
};

// Keeps title bars and tabs of one dock host in step with what is tabbed with what.
class DockHost : public QMainWindow {
  Q_OBJECT
 public:
  DockHost(Dock::Kind kind, QWidget* parent = nullptr);
  Dock* add(const QString& id, const QString& title);  // not placed yet
  void remove(Dock* dock);
  const QList<Dock*>& docks() const { return docks_; }
  Dock* find(const QString& id) const;
  void refreshLater();
  void restyle();
  QMenu* createPopupMenu() override { return nullptr; }  // the window's own menus do this

 Q_SIGNALS:
  void addViewClicked(const QPoint& global);
  void layoutTouched();  // the user moved, floated, closed or opened something

 protected:
  bool eventFilter(QObject*, QEvent*) override;
  void resizeEvent(QResizeEvent*) override;

 private:
  void refresh();
  void dressTabBars();
  Dock::Kind kind_;
  QList<Dock*> docks_;
  bool pending_ = false;
};

}  // namespace slotscope::app
