// The menus: everything the program does, with its shortcut (design: section 14).
#include <QActionGroup>
#include <QClipboard>
#include <QFileDialog>
#include <QFileInfo>
#include <QGuiApplication>
#include <QMenu>
#include <QMenuBar>
#include <QMessageBox>

#include "app/window/banner.h"
#include "app/window/docks.h"
#include "app/window/locations.h"
#include "app/window/main_window.h"
#include "app/window/run_panel.h"
#include "app/window/selection_bar.h"
#include "app/window/side_panels.h"
#include "app/window/view_factory.h"
#include "views/export.h"
#include "views/figure_dialog.h"
#include "views/format.h"
#include "views/theme.h"

namespace slotscope::app {

namespace {

// A key that belongs to the focused control first is written in the menu but handled as an ordinary key
// press.
QString withKey(const char* text, const char* key) {
  return QString("%1\t%2").arg(QString::fromUtf8(text), QString::fromUtf8(key));
}

}  // namespace

void MainWindow::buildMenus() {
  buildFileMenu(menus_->addMenu("&File"));

  QMenu* edit = menus_->addMenu("&Edit");
  edit->addAction("Copy value under selection", QKeySequence::Copy, this, &MainWindow::copyValue);
  edit->addAction("Copy view as picture", QKeySequence("Ctrl+Shift+C"), this, &MainWindow::copyPicture);
  edit->addSeparator();
  edit->addAction("Find token…", QKeySequence("Ctrl+F"), this, [this] { passToPrompt(Qt::Key_F, Qt::ControlModifier); });
  edit->addAction("Find next", QKeySequence("F3"), this, [this] { passToPrompt(Qt::Key_F3, Qt::NoModifier); });
  edit->addSeparator();
  edit->addAction("Use brush as retrieval tokens", this, [this] { useBrushAsRoles(true); });
  edit->addAction("Use the trace's own roles", this, [this] { controller_->setRoleRanges({}, true); });
  edit->addAction(withKey("Clear brush, then zoom to everything", "Esc"), this, [this] {
    if (selection_.brush())
      selection_.setBrush(std::nullopt);
    else
      zoomAll();
  });

  buildViewMenu(menus_->addMenu("&View"));

  QMenu* run = menus_->addMenu("&Run");
  run->addAction("Run", QKeySequence("Ctrl+R"), this, [this] {
    if (!controller_->running()) controller_->run(run_panel_->settings());
  });
  run->addAction("Cancel", QKeySequence("Ctrl+."), this, [this] {
    if (controller_->running())
      controller_->cancelRun();
    else
      controller_->jobs()->cancelAll();
  });
  run->addSeparator();
  run->addAction("Password prompt with default settings", this, [this] { run_panel_->setSettings({}); });

  buildMoveMenu(menus_->addMenu("&Analyse"));

  QMenu* figure = menus_->addMenu("F&igure");
  figure->addAction("Export figure…", QKeySequence("Ctrl+E"), this, &MainWindow::exportFigure);
  figure->addAction("Copy view as picture", this, &MainWindow::copyPicture);
  figure->addAction("Copy view's data as CSV", this, [this] {
    if (auto* view = currentView()) QGuiApplication::clipboard()->setText(view->csv());
  });

  QMenu* window = menus_->addMenu("&Window");
  view_list_menu_ = window;
  connect(window, &QMenu::aboutToShow, this, [this] { fillViewMenu(view_list_menu_); });

  QMenu* help = menus_->addMenu("&Help");
  help->addAction("Keys", QKeySequence::HelpContents, this, [this] {
    auto* box = new QMessageBox(QMessageBox::NoIcon, "Keys", {}, QMessageBox::Close, this);
    box->setAttribute(Qt::WA_DeleteOnClose);
    box->setTextFormat(Qt::RichText);
    static const char* rows[][2] = {{"Left, Right", "token −1, +1 (Shift: 10, Ctrl: next of the same role)"},
                                    {"Up, Down", "slot in the current order (Shift: 10)"},
                                    {"[ ]", "head −1, +1"},
                                    {"{ } or PgUp, PgDn", "layer −1, +1"},
                                    {"Home, End", "first, last token"},
                                    {"K, Q, A", "key, query, answer (K again: next key token)"},
                                    {"W, R", "last writer of the slot, strongest reader of the token"},
                                    {"B", "best head (again: next best)"},
                              {"S, C, L", "next sort, next quantity, log range of the heatmap"},
                              {"Space, .", "play or pause, speed"},
                              {"Ctrl+F, F3", "search the prompt, next match"},
                                    {"+ − 0", "zoom tokens in, out, all"},
                                    {"Esc", "clear the brush, then zoom to everything"},
                                    {"Ctrl+D", "compare with a second trace, and back"},
                                    {"Alt+Left, Alt+Right", "selection history"},
                                    {"Ctrl+R, Ctrl+.", "run, cancel"},
                                    {"F6, Shift+F6", "next, previous panel"},
                                    {"F11", "current view fills the window"},
                                    {"Shift+drag", "brush a range of tokens"},
                                    {"Wheel", "zoom at the cursor (Ctrl: slots, Shift: pan)"}};
    QString text = "<table cellspacing=4>";
    for (const auto& row : rows)
      text += QString("<tr><td><b>%1</b></td><td>%2</td></tr>")
                  .arg(QString::fromUtf8(row[0]), QString::fromUtf8(row[1]));
    box->setText(text + "</table>");
    box->open();
  });
  help->addAction("About Slotscope", this, [this] {
    auto* box = new QMessageBox(
        QMessageBox::NoIcon, "About Slotscope",
        QString("Slotscope %1\nSee what the memory of a sequence model did.\n\nGPL-3.0-or-later")
            .arg(version()),
        QMessageBox::Close, this);
    box->setAttribute(Qt::WA_DeleteOnClose);
    box->open();
  });
}

void MainWindow::buildFileMenu(QMenu* menu) {
  const auto ask = [this](const QString& title, QFileDialog::FileMode mode, const QString& filter) {
    auto* dialog = new QFileDialog(this, title, {}, filter);
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->setFileMode(mode);
    connect(dialog, &QFileDialog::fileSelected, this, &MainWindow::openPath);
    dialog->open();
  };
  menu->addAction("Open checkpoint folder…", QKeySequence("Ctrl+O"), this, &MainWindow::askForCheckpoint);
  menu->addAction("Open weights file…", this, [ask] {
    ask("Open weights file", QFileDialog::ExistingFile, weightsFilter());
  });
  menu->addAction("Open trace…", QKeySequence("Ctrl+Shift+O"), this, [ask] {
    ask("Open trace", QFileDialog::ExistingFile, "Traces (*.h5 *.hdf5 *.h5.part);;All files (*)");
  });
  menu->addAction("Import prompts…", QKeySequence("Ctrl+I"), this, &MainWindow::askForPrompts);
  menu->addAction("Open bundled checkpoint and run its prompt", this, &MainWindow::openBundled);
  recent_menu_ = menu->addMenu("Open recent");
  fillRecent();
  menu->addAction("Reload", QKeySequence("F5"), this, [this] { controller_->reload(); });
  menu->addSeparator();
  menu->addAction("Save trace as…", QKeySequence("Ctrl+S"), this, &MainWindow::saveTraceAs);
  menu->addSeparator();
  menu->addAction("Quit", QKeySequence::Quit, this, &QWidget::close);
}

void MainWindow::fillRecent() {
  if (!recent_menu_) return;
  recent_menu_->clear();
  const QStringList recent = settings()->value("recent").toStringList();
  for (const QString& line : recent) {
    const QString path = line.section('|', 1);
    QAction* action = recent_menu_->addAction(path, this, [this, path] { openPath(path); });
    action->setEnabled(QFileInfo::exists(path));
  }
  if (recent.isEmpty()) recent_menu_->addAction("Nothing was opened yet")->setEnabled(false);
  recent_menu_->addSeparator();
  recent_menu_->addAction("Clear list", this, [this] {
    settings()->remove("recent");
    fillRecent();
  });
}

void MainWindow::buildViewMenu(QMenu* menu) {
  QMenu* add = menu->addMenu("New view");
  for (const ViewKind& kind : viewKinds())
    add->addAction(kind.title, this, [this, k = QString(kind.kind)] { addView(k); })->setToolTip(kind.tip);
  menu->addAction("New view of this kind", QKeySequence("Ctrl+T"), this,
                  [this] { addView(currentView() ? currentView()->figureKind() : QString("heatmap")); });
  menu->addAction("Close view", QKeySequence("Ctrl+W"), this, [this] {
    if (current_dock_ && current_dock_->open()) current_dock_->close();
  });
  menu->addAction("Current view fills the window", QKeySequence("F11"), this, &MainWindow::toggleFullView);
  menu->addSeparator();
  QMenu* panels = menu->addMenu("Panels");
  int number = 1;
  for (const char* id : {"run", "checkpoint", "heads", "inspector", "output", "prompt", "jobs", "log", "differences"}) {
    Dock* dock = panels_->find(QString("panel.") + id);
    QAction* action = dock->toggleViewAction();
    action->setShortcut(QKeySequence(QString("Ctrl+Shift+%1").arg(number++)));
    panels->addAction(action);
    connect(action, &QAction::triggered, dock, [dock](bool on) {
      if (on) dock->raise();
    });
  }
  panels->addActions({});
  for (QAction* a : panels->actions()) addAction(a);  // also with the menu closed
  menu->addAction("Next panel", QKeySequence("F6"), this, [this] { cyclePanels(1); });
  menu->addAction("Previous panel", QKeySequence("Shift+F6"), this, [this] { cyclePanels(-1); });
  menu->addAction("Restore default layout", this, &MainWindow::restoreDefaultLayout);
  layouts_menu_ = menu->addMenu("Layouts");
  fillLayouts();
  menu->addSeparator();

  QMenu* theme = menu->addMenu("Theme");
  auto* themes = new QActionGroup(this);
  const std::pair<const char*, ThemeChoice> choices[] = {
      {"Light", ThemeChoice::light}, {"Dark", ThemeChoice::dark}, {"System", ThemeChoice::system}};
  for (const auto& [name, choice] : choices) {
    QAction* action = theme->addAction(name, this, [this, c = choice] { setThemeChoice(c); });
    action->setCheckable(true);
    action->setChecked(choice == theme_choice_);
    themes->addAction(action);
  }
  QMenu* roles = menu->addMenu("Role colours");
  auto* role_group = new QActionGroup(this);
  for (const bool printed : {false, true}) {
    QAction* action = roles->addAction(printed ? "As printed in the paper" : "Safe for colour-blind readers",
                                       this, [this, printed] { setPrintRoles(printed); });
    action->setCheckable(true);
    action->setChecked(printed == print_roles_);
    role_group->addAction(action);
  }
  QMenu* size = menu->addMenu("Text size");
  size->addAction("Larger", QKeySequence("Ctrl++"), this, [this] { setTextScale(text_scale_ + 0.1); });
  size->addAction("Smaller", QKeySequence("Ctrl+-"), this, [this] { setTextScale(text_scale_ - 0.1); });
  size->addAction("Normal", QKeySequence("Ctrl+0"), this, [this] { setTextScale(1); });
  QAction* equal = new QAction(this);  // the key of "+" without Shift
  equal->setShortcut(QKeySequence("Ctrl+="));
  connect(equal, &QAction::triggered, this, [this] { setTextScale(text_scale_ + 0.1); });
  addAction(equal);

  for (int i = 0; i < 9; ++i) {
    auto* go = new QAction(this);
    go->setShortcut(QKeySequence(QString("Ctrl+%1").arg(i + 1)));
    connect(go, &QAction::triggered, this, [this, i] { goToView(i); });
    addAction(go);
  }
}

void MainWindow::buildMoveMenu(QMenu* menu) {
  menu->addAction("Back", QKeySequence("Alt+Left"), &selection_, &views::SelectionModel::back);
  menu->addAction("Forward", QKeySequence("Alt+Right"), &selection_, &views::SelectionModel::forward);
  menu->addSeparator();
  menu->addAction(withKey("Best head by retrieval score", "B"), this, [this] { controller_->bestHead(); });
  menu->addAction(withKey("Key token", "K"), this, [this] { jumpToSpan("key"); });
  menu->addAction(withKey("Query token", "Q"), this, [this] { jumpToSpan("query"); });
  menu->addAction(withKey("Answer token", "A"), this, [this] { jumpToSpan("answer"); });
  menu->addAction(withKey("Last writer of the slot", "W"), this, [this] { controller_->lastWriter(); });
  menu->addAction(withKey("Strongest reader of the token", "R"), this,
                  [this] { controller_->strongestReader(); });
  menu->addSeparator();
  menu->addAction(withKey("Zoom in at the selection", "+"), this, [this] { zoomTokens(1 / 1.5); });
  menu->addAction(withKey("Zoom out", "−"), this, [this] { zoomTokens(1.5); });
  menu->addAction(withKey("Zoom to all tokens", "0"), this, [this] { zoomAll(); });
  menu->addSeparator();
  menu->addAction("Compare with a second trace", QKeySequence("Ctrl+D"), this, [this] { setComparing(!comparing()); });
  QMenu* with = menu->addMenu("Compare with");
  connect(with, &QMenu::aboutToShow, this, [this, with] { fillCompareMenu(with); });
  menu->addSeparator();
  for (const ViewKind& kind : viewKinds())
    if (kind.lab) menu->addAction(kind.title, this, [this, k = QString(kind.kind)] { openLab(k); })->setToolTip(kind.tip);
  menu->addSeparator();
  QMenu* roles = menu->addMenu("Retrieval tokens from");
  roles->addAction("Task spans: key and answer", this, [this] { controller_->setRoleRanges({}, true); });
  roles->addAction("Brush", this, [this] { useBrushAsRoles(true); });
}

void MainWindow::fillViewMenu(QMenu* menu) {
  menu->clear();
  int number = 1;
  for (Dock* dock : view_area_->docks()) {
    if (!dock->open()) {
      menu->addAction("Open " + dock->windowTitle(), this, [dock] { dock->show(), dock->raise(); });
      continue;
    }
    const int at = number++;
    QAction* action = menu->addAction(
        withKey(dock->windowTitle().toUtf8().constData(), QString("Ctrl+%1").arg(at).toUtf8().constData()),
        this, [this, at] { goToView(at - 1); });
    action->setCheckable(true);
    action->setChecked(dock == current_dock_);
  }
}

void MainWindow::showAddMenu(const QPoint& global) {
  auto* menu = new QMenu(this);
  menu->setAttribute(Qt::WA_DeleteOnClose);
  menu->setToolTipsVisible(true);
  for (const ViewKind& kind : viewKinds())
    menu->addAction(kind.title, this,
                    [this, k = QString(kind.kind)] {
                      // One that was closed comes back before another is made.
                      for (Dock* d : view_area_->docks())
                        if (!d->open() && d->id().section('.', 1, 1) == k) {
                          d->show();
                          d->raise();
                          return;
                        }
                      addView(k);
                    })
        ->setToolTip(kind.tip);
  menu->popup(global);
}

void MainWindow::saveTraceAs() {
  if (!controller_->trace()) return;
  auto* dialog = new QFileDialog(this, "Save trace as", {}, "Traces (*.h5)");
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->setAcceptMode(QFileDialog::AcceptSave);
  dialog->setDefaultSuffix("h5");
  dialog->selectFile(controller_->modelName() + ".h5");
  connect(dialog, &QFileDialog::fileSelected, controller_.get(), &Controller::saveTrace);
  dialog->open();
}

void MainWindow::copyPicture() {
  views::View* view = currentView();
  if (!view) return;
  views::ExportOptions options;
  const QSizeF size = view->figureSize();
  const double ratio = std::min(2.0, 16'000 / std::max(size.width(), size.height()));
  QGuiApplication::clipboard()->setImage(
      views::renderFigure(views::figureOf(*view), options, (size * ratio).toSize()));
  note_->say("Copied " + view->figureKind() + " as a picture");
}

void MainWindow::copyValue() {
  const auto& head = controller_->headData();
  if (!head) return;
  const views::Selection s = selection_.current();
  QString text =
      QString("layer %1 head %2 slot %3 token %4").arg(s.layer).arg(s.head).arg(s.slot).arg(s.token);
  const HeadRoutes& r = head->routes;
  const auto row_at =
      r.token.empty() ? r.token.end() : std::lower_bound(r.token.begin(), r.token.end(), s.token);
  const int64_t row = r.token.empty()                                 ? s.token
                      : row_at != r.token.end() && *row_at == s.token ? row_at - r.token.begin()
                                                                      : -1;
  bool routed = false;
  for (int k = 0; row >= 0 && row < r.rows && k < r.top_k; ++k) {
    if (int(r.slot_at(row, k)) != s.slot) continue;
    routed = true;
    text += QString("\tr %1").arg(views::strength(r.weight_at(row, k), 6));
    if (r.has_strength()) text += QString("\ts %1").arg(views::strength(r.strength_at(row, k), 6));
    if (r.has_decay()) text += QString("\ta %1").arg(views::signedNumber(r.decay(row, k), 6));
  }
  if (row < 0)
    text += "\tnot captured";
  else if (!routed)
    text += "\tnot routed";
  QGuiApplication::clipboard()->setText(text);
}

void MainWindow::exportFigure() {
  QVector<std::pair<QString, views::View*>> offered;
  const views::Selection s = selection_.current();
  const QString place = QString(" · L%1·H%2").arg(s.layer).arg(s.head);
  for (Dock* d : view_area_->docks())
    if (auto* view = qobject_cast<views::View*>(d->body())) {
      const bool one_head = showsOneHead(view->figureKind());
      offered.append({one_head ? d->windowTitle() + place : d->windowTitle(), view});
    }
  for (const auto& view : panel_views_)
    if (view) offered.append({view->figureKind().left(1).toUpper() + view->figureKind().mid(1), view.data()});
  if (offered.isEmpty()) return;
  auto* dialog =
      new views::FigureDialog(offered, currentView() ? currentView() : offered.front().second, this);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  const auto stored = settings();
  const QString folder = stored->value("figureFolder").toString();
  if (!folder.isEmpty()) dialog->setFolder(folder);
  connect(dialog, &views::FigureDialog::exported, this, [this](const QStringList& files) {
    if (files.isEmpty()) return;
    settings()->setValue("figureFolder", QFileInfo(files.front()).absolutePath());
    note_->say("Wrote " + QFileInfo(files.front()).fileName() + (files.size() > 1 ? " and its data" : ""));
    log_->add("Wrote " + files.join(", "));
  });
  dialog->open();
}

}  // namespace slotscope::app
