// Where docks go: the default and the wide layout, small windows, saved layouts (design: section 2).
#include <QDataStream>
#include <QInputDialog>
#include <QMenu>
#include <QScreen>
#include <QTimer>

#include "app/window/docks.h"
#include "app/window/locations.h"
#include "app/window/main_window.h"
#include "app/window/view_factory.h"
#include "views/theme.h"

namespace slotscope::app {

namespace {
constexpr int state_version = 1;
constexpr int wide_from = 1700, narrow_below = 1180;
}  // namespace

bool MainWindow::defaultLayoutIsWide() const { return width() >= wide_from; }

void MainWindow::placePanels(bool) {
  const auto panel = [this](const char* id) { return panels_->find(QString("panel.") + id); };
  for (Dock* d : panels_->docks()) {
    d->setFloating(false);
    panels_->removeDockWidget(d);
  }
  panels_->addDockWidget(Qt::LeftDockWidgetArea, panel("run"));
  panels_->splitDockWidget(panel("run"), panel("heads"), Qt::Vertical);
  for (const char* id : {"checkpoint", "jobs", "log"}) panels_->tabifyDockWidget(panel("run"), panel(id));
  panels_->addDockWidget(Qt::RightDockWidgetArea, panel("inspector"));
  if (narrow_)
    panels_->tabifyDockWidget(panel("inspector"), panel("output"));
  else
    panels_->splitDockWidget(panel("inspector"), panel("output"), Qt::Vertical);
  panels_->addDockWidget(Qt::BottomDockWidgetArea, panel("prompt"));
  panels_->tabifyDockWidget(panel("inspector"), panel("differences"));
  for (Dock* d : panels_->docks()) d->setVisible(d != panel("differences"));
  panel("run")->raise();
  panel("inspector")->raise();
}

void MainWindow::placeViews(bool wide) {
  // One view of each kind; more of them are closed.
  const auto standard = [](const Dock* d) {
    for (const ViewKind& kind : viewKinds())
      if (d->id() == QString("view.%1.1").arg(kind.kind)) return kind.standard;
    return false;
  };
  for (Dock* d : QList<Dock*>(view_area_->docks()))
    if (!standard(d)) view_area_->remove(d);
  for (const ViewKind& kind : viewKinds())
    if (kind.standard && !view_area_->find(QString("view.%1.1").arg(kind.kind))) addView(kind.kind);
  for (Dock* d : view_area_->docks())
    if (d->property("pinned").toBool()) unpinView(d);
  const auto view = [this](const char* kind) { return view_area_->find(QString("view.%1.1").arg(kind)); };
  for (Dock* d : view_area_->docks()) {
    d->setFloating(false);
    view_area_->removeDockWidget(d);
  }
  view_area_->addDockWidget(Qt::TopDockWidgetArea, view("heatmap"));
  if (wide) {
    view_area_->addDockWidget(Qt::BottomDockWidgetArea, view("esl"));
    view_area_->splitDockWidget(view("esl"), view("allocation"), Qt::Horizontal);
    view_area_->tabifyDockWidget(view("esl"), view("esl-grid"));
  } else {
    Dock* before = view("heatmap");
    for (const char* kind : {"esl", "esl-grid", "allocation"}) {
      view_area_->tabifyDockWidget(before, view(kind));
      before = view(kind);
    }
  }
  for (Dock* d : view_area_->docks()) d->show();
  view("esl")->raise();
  view("heatmap")->raise();
  current_dock_ = view("heatmap");
}

void MainWindow::sizeDocks(bool wide) {
  const double scale = views::Theme::current().base / 12;
  const auto px = [&](double v) { return int(std::lround(v * scale)); };
  const auto panel = [this](const char* id) -> QDockWidget* { return panels_->find(QString("panel.") + id); };
  const int left = px(wide ? 320 : 232), right = px(wide ? 380 : narrow_ ? 248 : 276);
  const int height = panels_->height();
  // Small windows: Run scrolls, Heads keeps two ranks, Output three steps.
  const int run = std::min(px(319), std::max(px(150), height - px(height < 640 ? 320 : 377)));
  const int output = px(wide ? 280 : height < 640 ? 142 : 182);
  panels_->resizeDocks({panel("run"), panel("inspector")}, {left, right}, Qt::Horizontal);
  panels_->resizeDocks({panel("run"), panel("heads")}, {run, std::max(px(100), height - 6 - run)},
                       Qt::Vertical);
  if (!narrow_)
    panels_->resizeDocks({panel("inspector"), panel("output")},
                         {std::max(px(120), height - 6 - output), output}, Qt::Vertical);
  panels_->resizeDocks({panel("prompt")}, {px(wide ? 124 : 158)}, Qt::Vertical);
  if (!wide) return;
  const auto view = [this](const char* kind) -> QDockWidget* {
    return view_area_->find(QString("view.%1.1").arg(kind));
  };
  const int inner = std::max(px(300), height - px(124) - 6);
  view_area_->resizeDocks({view("heatmap"), view("esl")}, {inner - 6 - px(440), px(440)}, Qt::Vertical);
  const int width = std::max(px(400), panels_->width() - left - right - 12);
  view_area_->resizeDocks({view("esl"), view("allocation")}, {width * 4 / 9, width * 5 / 9}, Qt::Horizontal);
}

void MainWindow::restoreDefaultLayout() {
  adapting_ = true;
  narrow_ = width() < narrow_below;
  wide_ = defaultLayoutIsWide();
  placePanels(wide_);
  placeViews(wide_);
  loading_layout_.clear();
  adapting_ = false;
  showReduction();
  if (!isVisible()) return;
  // Twice: the first division is made with the sizes of the old layout.
  sizeDocks(wide_);
  QTimer::singleShot(0, this, [this] { sizeDocks(wide_); });
}

void MainWindow::adaptToSize() {
  const bool narrow = width() < narrow_below;
  if (narrow == narrow_ || adapting_ || !placed_) return;
  narrow_ = narrow;
  Dock* inspector = panels_->find("panel.inspector");
  Dock* output = panels_->find("panel.output");
  if (inspector->isFloating() || output->isFloating()) return;
  adapting_ = true;
  if (narrow) {
    panels_->tabifyDockWidget(inspector, output);
    inspector->raise();
  } else if (panels_->tabifiedDockWidgets(inspector).contains(output)) {
    // Both taken out first: beside a dock that was tabbed it would become a tab again.
    panels_->removeDockWidget(output);
    panels_->removeDockWidget(inspector);
    panels_->addDockWidget(Qt::RightDockWidgetArea, inspector);
    inspector->show();
    panels_->splitDockWidget(inspector, output, Qt::Vertical);
    output->show();
  }
  adapting_ = false;
  QTimer::singleShot(0, this, [this] { sizeDocks(wide_); });
}

QByteArray MainWindow::layoutState() const {
  QByteArray state;
  QDataStream out(&state, QIODevice::WriteOnly);
  QStringList views;
  for (Dock* d : view_area_->docks()) views << d->id();
  out << quint32(state_version) << wide_ << views << panels_->saveState(state_version)
      << view_area_->saveState(state_version);
  return state;
}

bool MainWindow::restoreLayout(const QByteArray& state) {
  QDataStream in(state);
  quint32 version = 0;
  bool wide = false;
  QStringList views;
  QByteArray outer, inner;
  in >> version >> wide >> views >> outer >> inner;
  if (in.status() != QDataStream::Ok || version != state_version || views.size() > 64) return false;
  adapting_ = true;
  for (Dock* d : QList<Dock*>(view_area_->docks()))
    if (!views.contains(d->id())) view_area_->remove(d);
  // In this order: addView numbers them as they were numbered.
  QStringList wanted = views;
  wanted.sort();
  for (const QString& id : wanted) {
    const QString kind = id.section('.', 1, 1);
    if (viewTitle(kind) == kind) continue;  // a kind of another version
    for (int tries = 0; tries < 20 && !view_area_->find(id); ++tries) addView(kind);
  }
  const bool ok =
      panels_->restoreState(outer, state_version) & view_area_->restoreState(inner, state_version);
  wide_ = wide;
  adapting_ = false;
  panels_->refreshLater();
  view_area_->refreshLater();
  updateEmptyHint();
  return ok;
}

void MainWindow::fillLayouts() {
  if (!layouts_menu_) return;
  layouts_menu_->clear();
  layouts_menu_->addAction("Save layout as…", this, &MainWindow::saveLayoutAs);
  const auto stored = settings();
  stored->beginGroup("layouts");
  const QStringList names = stored->childKeys();
  if (names.isEmpty()) return;
  auto* rename = new QMenu("Rename", layouts_menu_);
  auto* remove = new QMenu("Delete", layouts_menu_);
  layouts_menu_->addSeparator();
  for (const QString& name : names) {
    layouts_menu_->addAction(
        name, this, [this, name] { restoreLayout(settings()->value("layouts/" + name).toByteArray()); });
    rename->addAction(name, this, [this, name] {
      bool ok = false;
      const QString to = QInputDialog::getText(this, "Rename layout", "Name", QLineEdit::Normal, name, &ok)
                             .trimmed()
                             .replace('/', '-');
      if (!ok || to.isEmpty() || to == name) return;
      const auto s = settings();
      s->setValue("layouts/" + to, s->value("layouts/" + name));
      s->remove("layouts/" + name);
      fillLayouts();
    });
    remove->addAction(name, this, [this, name] {
      settings()->remove("layouts/" + name);
      fillLayouts();
    });
  }
  layouts_menu_->addSeparator();
  layouts_menu_->addMenu(rename);
  layouts_menu_->addMenu(remove);
}

void MainWindow::saveLayoutAs() {
  bool ok = false;
  const QString name = QInputDialog::getText(this, "Save layout", "Name", QLineEdit::Normal, {}, &ok)
                           .trimmed()
                           .replace('/', '-');
  if (!ok || name.isEmpty()) return;
  settings()->setValue("layouts/" + name, layoutState());
  fillLayouts();
}

void MainWindow::toggleFullView() {
  if (!before_full_.isEmpty()) {
    restoreLayout(before_full_);
    before_full_.clear();
    return;
  }
  if (!currentView()) return;
  before_full_ = layoutState();
  Dock* kept = current_dock_;
  for (Dock* d : panels_->docks())
    if (!d->isFloating()) d->hide();
  for (Dock* d : view_area_->docks())
    if (d != kept && !d->isFloating()) d->hide();
}

}  // namespace slotscope::app
