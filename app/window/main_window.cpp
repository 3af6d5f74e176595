#include "app/window/main_window.h"

#include <QApplication>
#include <QClipboard>
#include <QCloseEvent>
#include <QComboBox>
#include <QDragEnterEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QLabel>
#include <QMenuBar>
#include <QMessageBox>
#include <QMimeData>
#include <QPointer>
#include <QPushButton>
#include <QScrollArea>
#include <QTimer>
#include <QVBoxLayout>

#include "app/window/banner.h"
#include "app/window/checkpoint_panel.h"
#include "app/window/docks.h"
#include "app/window/icons.h"
#include "app/window/locations.h"
#include "app/window/run_panel.h"
#include "app/window/second_trace.h"
#include "app/window/selection_bar.h"
#include "app/window/side_panels.h"
#include "app/window/status_line.h"
#include "app/window/style.h"
#include "app/window/view_factory.h"
#include "views/answer_verdict.h"
#include "views/compare_model.h"
#include "views/differences_view.h"
#include "views/format.h"
#include "views/memory_card_view.h"
#include "views/output_view.h"
#include "views/theme.h"

namespace slotscope::app {

using views::Theme;

namespace {

// The system's own colours, before the program sets any.
bool systemIsDark() {
  static const bool dark = QApplication::palette().color(QPalette::Window).lightness() < 128;
  return dark;
}

}  // namespace

MainWindow::MainWindow(QWidget* parent) : QWidget(parent) {
  setObjectName("mainWindow");
  setWindowTitle("Slotscope");
  setMinimumSize(1100, 680);
  setAcceptDrops(true);
  systemIsDark();
  const auto stored = settings();
  theme_choice_ = ThemeChoice(std::clamp(stored->value("theme", int(ThemeChoice::system)).toInt(), 0, 2));
  text_scale_ = std::clamp(stored->value("textScale", 1.0).toDouble(), 0.8, 2.0);
  print_roles_ = stored->value("printRoles", false).toBool();
  controller_ = std::make_unique<Controller>(&selection_);

  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  menus_ = new QMenuBar(this);
  menus_->setNativeMenuBar(true);
  bar_ = new SelectionBar(&selection_, this);
  banners_ = new BannerArea(this);
  status_ = new StatusLine(this);
  panels_ = new DockHost(Dock::Kind::panel, this);
  view_area_ = new DockHost(Dock::Kind::view, panels_);
  panels_->setObjectName("panelHost");
  view_area_->setObjectName("viewHost");
  panels_->setCentralWidget(view_area_);
  auto* middle = new QVBoxLayout;
  middle->setContentsMargins(6, 6, 6, 6);
  middle->addWidget(panels_);
  column->addWidget(menus_);
  column->addWidget(bar_);
  column->addWidget(banners_);
  column->addLayout(middle, 1);
  column->addWidget(status_);
  note_ = new QuietNote(this);

  buildCompare();
  buildPanels();
  buildMenus();
  connectController();
  applyTheme();

  connect(&selection_, &views::SelectionModel::brushChanged, this, &MainWindow::refreshBrush);
  const QByteArray saved = stored->value("layout").toByteArray();
  if (const QByteArray geometry = stored->value("geometry").toByteArray();
      geometry.isEmpty() || !restoreGeometry(geometry)) {
    const QSize screen = this->screen() ? this->screen()->availableSize() : QSize(1280, 800);
    resize(screen.width() >= 1422 ? QSize(screen * 0.9)
                                  : QSize(1280, 800).boundedTo(screen).expandedTo(minimumSize()));
  }
  if (saved.isEmpty() || !restoreLayout(saved)) restoreDefaultLayout();
  loading_layout_ = saved;
  showRun(nullptr);
}

MainWindow::~MainWindow() {
  // The views must not hear of what the controller lets go of.
  controller_->disconnect(this);
  selection_.disconnect(this);
  // The parts go while the selection and the worker they point to still live, and none may call back:
  // QWidget's destructor would delete them after the members, and hiding them sends signals to a window that
  // is no MainWindow any more.
  second_->disconnect();
  qApp->removeEventFilter(this);
  view_area_->removeEventFilter(this);
  for (QObject* part : findChildren<QObject*>()) part->disconnect(this);
  QList<QPointer<QWidget>> parts;
  for (QWidget* part : findChildren<QWidget*>(QString(), Qt::FindDirectChildrenOnly)) parts.push_back(part);
  for (const auto& part : parts) delete part.data();
}

void MainWindow::buildPanels() {
  const auto scrolled = [this](QWidget* content) {
    auto* area = new QScrollArea(this);
    area->setWidgetResizable(true);
    area->setFrameShape(QFrame::NoFrame);
    area->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    area->setWidget(content);
    return area;
  };
  run_panel_ = new RunPanel(this);
  checkpoint_panel_ = new CheckpointPanel(this);
  jobs_panel_ = new JobsPanel(controller_->jobs(), this);
  log_ = new LogPanel(this);
  panels_->add("panel.run", "Run")->setBody(scrolled(run_panel_));
  panels_->add("panel.checkpoint", "Checkpoint")->setBody(scrolled(checkpoint_panel_));
  panels_->add("panel.jobs", "Jobs")->setBody(jobs_panel_);
  panels_->add("panel.log", "Log")->setBody(log_);
  const auto data_panel = [&](const char* kind, const char* title) {
    Dock* dock = panels_->add(QString("panel.") + kind, title);
    views::View* view = makeView(kind, &selection_, controller_->drawWorker(), dock);
    dock->setBody(view);
    panel_views_.append(view);
    connectView(view, dock);
  };
  data_panel("heads", "Heads");
  data_panel("prompt", "Prompt");
  data_panel("inspector", "Inspector");
  data_panel("output", "Output");
  data_panel("differences", "Differences");
  if (auto* view = qobject_cast<views::DifferencesView*>(panel_views_.back().data())) view->setModel(compare_model_.get());
  panels_->find("panel.differences")->hide();
  panels_->find("panel.run")->fill_menu = [this](QMenu* menu) {
    menu->addAction("Run", this, &MainWindow::runOrCancel);
    menu->addAction("Default settings", this, [this] { run_panel_->setSettings({}); });
    menu->addSeparator();
  };
  panels_->find("panel.jobs")->fill_menu = [this](QMenu* menu) {
    menu->addAction("Cancel all", this, [this] { controller_->jobs()->cancelAll(); });
    menu->addSeparator();
  };
  panels_->find("panel.log")->fill_menu = [this](QMenu* menu) {
    menu->addAction("Copy", this, [this] { QGuiApplication::clipboard()->setText(log_->text()); });
    menu->addSeparator();
  };

  empty_hint_ = new QWidget(view_area_);
  empty_hint_->setObjectName("emptyHint");
  auto* hint = new QVBoxLayout(empty_hint_);
  hint->addStretch();
  auto* text = new QLabel("No view is open.", empty_hint_);
  text->setAlignment(Qt::AlignCenter);
  hint->addWidget(text);
  for (const ViewKind& kind : viewKinds()) {
    if (!kind.standard) continue;
    auto* button = new QPushButton(QString("Open %1").arg(kind.title), empty_hint_);
    button->setToolTip(kind.tip);
    connect(button, &QPushButton::clicked, this, [this, k = QString(kind.kind)] { addView(k); });
    hint->addWidget(button, 0, Qt::AlignHCenter);
  }
  hint->addStretch();
  empty_hint_->hide();
  connect(panels_, &DockHost::layoutTouched, this, &MainWindow::fillLayouts);
  connect(view_area_, &DockHost::layoutTouched, this, &MainWindow::updateEmptyHint);
  connect(view_area_, &DockHost::layoutTouched, this, &MainWindow::refreshComparing);
  connect(view_area_, &DockHost::addViewClicked, this, &MainWindow::showAddMenu);
  view_area_->installEventFilter(this);
  qApp->installEventFilter(this);
}

// "802 tokens, found", for the list of prompts.
static QString promptDetail(const trace::RunInfo& info) {
  if (info.tokens == 0) return QStringLiteral("not run");
  const views::AnswerVerdict verdict = views::answerVerdict(info);
  return views::count(info.tokens) + " tokens" + (verdict.known ? ", " + verdict.word : QString());
}

void MainWindow::connectController() {
  Controller* c = controller_.get();
  connect(c, &Controller::checkpointChanged, this, &MainWindow::checkpointOpened);
  connect(c, &Controller::runChanged, this, &MainWindow::showRun);
  connect(c, &Controller::headChanged, this, &MainWindow::showHead);
  connect(c, &Controller::resultOpened, this, &MainWindow::openInLab);
  connect(c, &Controller::loadingChanged, this, [this](bool loading, const QString& stage) {
    for (views::View* view : allViews()) view->setLoading(loading, stage);
  });
  connect(c, &Controller::runningChanged, this, [this](bool running) {
    bar_->setRunning(running);
    if (!controller_->runData())
      for (views::View* view : allViews()) showNothingOpen(view);
    if (!running) controller_->estimate(run_panel_->settings());
  });
  connect(c, &Controller::problem, this, [this](const Problem& p) {
    banners_->add(p);
    log_->add((p.level == Problem::Level::error ? "Error: " : "Warning: ") + p.summary);
  });
  connect(c, &Controller::problemSolved, banners_, &BannerArea::removeKey);
  connect(c, &Controller::note, note_, &QuietNote::say);
  connect(c, &Controller::logged, log_, &LogPanel::add);
  connect(c, &Controller::opened, this, &MainWindow::remember);
  connect(c, &Controller::estimateChanged, run_panel_, &RunPanel::setEstimate);
  connect(c, &Controller::tokenCountChanged, run_panel_, &RunPanel::setTokenCount);
  connect(c, &Controller::devicesFound, run_panel_, &RunPanel::setDevices);
  connect(c, &Controller::settledChanged, this, &MainWindow::noteSettled);
  connect(c, &Controller::tracesChanged, this, &MainWindow::refreshTitle);
  const auto show_job = [this] { status_->setJob(controller_->jobs()->visibleJob()); };
  connect(c->jobs(), &JobModel::polled, this, show_job);
  connect(c->jobs(), &JobModel::started, this, show_job);
  connect(c->jobs(), &JobModel::ended, this, [this, show_job] {
    show_job();
    noteSettled();
  });
  connect(run_panel_, &RunPanel::settingsChanged, this,
          [this] { controller_->estimate(run_panel_->settings()); });
  connect(run_panel_, &RunPanel::textChanged, c, &Controller::countTokens);
  connect(run_panel_, &RunPanel::flavourRequested, this, [this](const QString& flavour) {
    if (controller_->checkpoint()) controller_->openCheckpoint(controller_->checkpoint()->path, flavour);
  });
  connect(bar_, &SelectionBar::runClicked, this, &MainWindow::runOrCancel);
  connect(bar_, &SelectionBar::cancelClicked, c, &Controller::cancelRun);
  connect(bar_, &SelectionBar::figureClicked, this, &MainWindow::exportFigure);
  connect(bar_->compare, &QPushButton::clicked, this, &MainWindow::setComparing);
  connect(bar_, &SelectionBar::problem, note_, &QuietNote::say);
  connect(status_, &StatusLine::cancelJob, c->jobs(), &JobModel::cancel);
  connect(status_, &StatusLine::jobClicked, this, [this] { showPanel("panel.jobs"); });
  connect(status_, &StatusLine::deviceClicked, this, [this] {
    showPanel("panel.run");
    run_panel_->device()->setFocus();
    run_panel_->device()->showPopup();
  });

  connectPrompts();
  connectTensors();

  bar_->model()->entries = [this] {
    std::vector<ListEntry> rows;
    const auto& open = controller_->checkpoint();
    if (open)
      rows.push_back(
          {open->name,
           open->info ? QString::fromStdString(open->info->family) + " · " + open->path : open->path, "",
           true, false, [this] { showPanel("panel.checkpoint"); }});
    rows.push_back({"Open checkpoint folder…", "Ctrl+O", "", false, false, [this] { askForCheckpoint(); }});
    if (const QString bundled = bundledCheckpoint(); !bundled.isEmpty() && (!open || open->path != bundled))
      rows.push_back({QFileInfo(bundled).fileName(), "bundled", "", false, false,
                      [this, bundled] { openPath(bundled); }});
    for (const QString& line : settings()->value("recent").toStringList()) {
      const QString kind = line.section('|', 0, 0), path = line.section('|', 1);
      if (kind == "checkpoint" && (!open || open->path != path))
        rows.push_back(
            {QFileInfo(path).fileName(), path, "", false, false, [this, path] { openPath(path); }});
    }
    return rows;
  };
  bar_->prompt()->entries = [this] {
    std::vector<ListEntry> rows;
    const auto add = [&](const std::shared_ptr<OpenTrace>& trace, bool current) {
      for (int i = 0; i < trace->trace->run_count(); ++i) {
        const auto& info = trace->trace->run(i);
        const bool shown = current && i == controller_->currentRun();
        rows.push_back({QString::fromStdString(info.name), promptDetail(info), "", shown,
                        false, [this, trace, i, current] {
                          if (current)  // layer, head, slot and token stay
                            selection_.request({.run = i});
                          else
                            controller_->showTrace(trace, i);
                        }});
      }
    };
    if (controller_->trace()) add(controller_->trace(), true);
    bool heading = false;
    for (const auto& trace : controller_->sessionTraces()) {
      if (trace == controller_->trace()) continue;
      if (!heading) rows.push_back({"Earlier in this session", "", "", false, true, {}});
      heading = true;
      add(trace, false);
    }
    if (rows.empty()) rows.push_back({"No prompt was run yet", "", "", false, true, {}});
    return rows;
  };
}

void MainWindow::checkpointOpened() {
  const auto& open = controller_->checkpoint();
  ModelHead head;
  head.name = open->name;
  head.folder = open->path;
  head.info = open->info;
  head.why = open->why;
  head.has_tokenizer = open->tokenizer != nullptr;
  run_panel_->setModel(head);
  // Devices are the engine's to know, and it is here now: looking at a trace alone never loads it.
  if (!devices_known_) controller_->findDevices();
  devices_known_ = true;
  checkpoint_panel_->setCheckpoint(open);
  for (views::View* view : allViews())
    if (auto* card = qobject_cast<views::MemoryCardView*>(view)) fillCard(card);
  bar_->setRunEnabled(open->info != nullptr, open->why);
  if (!open->info) showPanel("panel.checkpoint");
  refreshTitle();
  if (auto* output = qobject_cast<views::OutputView*>(findView("output")))
    output->setTokenNames(controller_->tokenNames());
  controller_->estimate(run_panel_->settings());
  tellPromptsDialog();
}

void MainWindow::refreshTitle() {
  const auto& open = controller_->checkpoint();
  const QString model = controller_->trace() ? controller_->modelName() : open ? open->name : QString();
  bar_->setModelName(model);
  QString prompt;
  if (const auto& run = controller_->runData()) prompt = QString::fromStdString(run->info().name);
  bar_->setPromptName(prompt);
  setWindowTitle(model.isEmpty()    ? "Slotscope"
                 : prompt.isEmpty() ? model + " – Slotscope"
                                    : model + " · " + prompt + " – Slotscope");
}

void MainWindow::askForCheckpoint() {
  auto* dialog = new QFileDialog(this, "Open checkpoint folder");
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->setFileMode(QFileDialog::Directory);
  connect(dialog, &QFileDialog::fileSelected, this, &MainWindow::openPath);
  dialog->open();
}

void MainWindow::runOrCancel() {
  if (controller_->running())
    controller_->cancelRun();
  else
    controller_->run(run_panel_->settings());
}

void MainWindow::openPath(const QString& path) { controller_->openPath(path); }

void MainWindow::openBundled() {
  const QString folder = bundledCheckpoint();
  if (folder.isEmpty()) {
    Problem p = warning(
        "The bundled checkpoint was not found. Set SLOTSCOPE_RESOURCES to the program's resources folder.");
    banners_->add(p);
    return;
  }
  controller_->openCheckpoint(folder, {}, true);
}

void MainWindow::noteSettled() {
  if (settle_pending_) return;
  settle_pending_ = true;
  // Results arrive as posted events: looked at after them.
  QTimer::singleShot(0, this, [this] {
    settle_pending_ = false;
    if (controller_->settled()) Q_EMIT settled();
  });
}

void MainWindow::remember(const QString& path, const QString& kind) {
  const auto stored = settings();
  QStringList recent = stored->value("recent").toStringList();
  const QString line = kind + "|" + QFileInfo(path).absoluteFilePath();
  recent.removeAll(line);
  recent.prepend(line);
  stored->setValue("recent", QStringList(recent.mid(0, 12)));
  fillRecent();
}

void MainWindow::refreshBrush() {
  const auto brush = selection_.brush();
  if (!brush) return status_->setBrush({});
  const qint64 n = brush->second - brush->first;
  status_->setBrush(QString("brush %1–%2, %3 token%4")
                        .arg(brush->first)
                        .arg(brush->second - 1)
                        .arg(n)
                        .arg(n == 1 ? "" : "s"));
}

void MainWindow::useBrushAsRoles(bool retrieval) {
  const auto brush = selection_.brush();
  if (!brush) {
    controller_->setRoleRanges({}, true);
    return;
  }
  if (retrieval) controller_->setRoleRanges({*brush}, false);
}

void MainWindow::applyTheme() {
  const bool dark =
      theme_choice_ == ThemeChoice::dark || (theme_choice_ == ThemeChoice::system && systemIsDark());
  Theme theme = dark ? Theme::darkTheme() : Theme::light();
  if (volatileSettings()) theme.setFamilies("DejaVu Sans", "DejaVu Sans Mono");
  theme.setBase(12 * text_scale_);
  theme.setPrintRoles(print_roles_);
  Theme::apply(theme);
  restyle();
}

void MainWindow::restyle() {
  const Theme& t = Theme::current();
  setStyleSheet(windowStyleSheet(t));
  menus_->setFixedHeight(int(std::lround(26 * t.base / 12)));
  bar_->restyle();
  banners_->restyle();
  status_->restyle();
  run_panel_->restyle();
  checkpoint_panel_->restyle();
  panels_->restyle();
  view_area_->restyle();
}

void MainWindow::setThemeChoice(ThemeChoice choice) {
  theme_choice_ = choice;
  settings()->setValue("theme", int(choice));
  applyTheme();
}

void MainWindow::setTextScale(double factor) {
  text_scale_ = std::clamp(factor, 0.8, 2.0);
  settings()->setValue("textScale", text_scale_);
  applyTheme();
}

void MainWindow::setPrintRoles(bool on) {
  print_roles_ = on;
  settings()->setValue("printRoles", on);
  applyTheme();
  if (on)
    banners_->add(
        warning("Role colours are as printed in the paper. They are not safe for colour-blind readers.",
                "print-roles"));
  else
    banners_->removeKey("print-roles");
}

void MainWindow::closeEvent(QCloseEvent* event) {
  if (controller_->hasUnsavedWork() && !volatileSettings()) {
    // The one question asked: what took more than a minute to make would be lost.
    QMessageBox box(QMessageBox::Question, "Slotscope", "A trace that took more than a minute is not saved.",
                    QMessageBox::NoButton, this);
    auto* save = box.addButton("Save trace as…", QMessageBox::AcceptRole);
    auto* drop = box.addButton("Close without saving", QMessageBox::DestructiveRole);
    box.addButton("Stay", QMessageBox::RejectRole);
    box.exec();
    if (box.clickedButton() == save) saveTraceAs();
    if (box.clickedButton() != drop) {
      event->ignore();
      return;
    }
  }
  bringPanelsBack();  // so that the next start has them
  saveSettings();
  controller_->jobs()->cancelAll();
  event->accept();
}

void MainWindow::saveSettings() const {
  const auto stored = settings();
  stored->setValue("geometry", saveGeometry());
  stored->setValue("layout", layoutState());
}

QStringList MainWindow::dropPaths(const QMimeData* data) const {
  QStringList paths;
  for (const QUrl& url : data->urls()) {
    if (!url.isLocalFile()) continue;
    const QString path = QFileInfo(url.toLocalFile()).absoluteFilePath();
    if (kindOfPath(path) != PathKind::neither || isPromptFile(path)) paths << path;
  }
  return paths;
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
  if (event->mimeData()->hasUrls()) event->acceptProposedAction();
}

void MainWindow::dropEvent(QDropEvent* event) {
  const QStringList paths = dropPaths(event->mimeData());
  event->acceptProposedAction();
  if (paths.isEmpty()) {
    const auto urls = event->mimeData()->urls();
    if (!urls.isEmpty())
      banners_->add(
          warning(QString("%1 is neither a checkpoint folder, a weights file (.safetensors, .bin, .pt, .pth), a trace (.h5) nor "
                          "a file of prompts (.jsonl, .json, .txt).")
                      .arg(urls.front().fileName()),
                  "drop"));
    return;
  }
  const QStringList second = secondAt(event->position().toPoint(), paths);
  // Opened after the drop has returned, so that the other program is free at once.
  QTimer::singleShot(0, this, [this, paths, second] {
    if (!second.isEmpty()) return compareWith(second.front());
    for (const QString& path : paths) openPath(path);
  });
}

void MainWindow::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  if (placed_) return;
  placed_ = true;
  // Dock sizes count once there is a window to divide.
  QTimer::singleShot(0, this, [this] {
    if (loading_layout_.isEmpty()) sizeDocks(wide_);
    if (auto* view = currentView()) view->setFocus();
  });
}

void MainWindow::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  if (view_area_) adaptToSize();
}

bool MainWindow::eventFilter(QObject* object, QEvent* event) {
  if (object == view_area_ && event->type() == QEvent::Resize) empty_hint_->setGeometry(view_area_->rect());
  if (event->type() == QEvent::FocusIn) {
    for (QObject* o = object; o; o = o->parent())
      if (auto* dock = qobject_cast<Dock*>(o)) {
        if (dock->kind() == Dock::Kind::view) {
          current_dock_ = dock;
          showReduction();
        }
        break;
      }
  }
  // Keys nobody wanted in a dock that floats end there: they belong to the selection all the same.
  if (event->type() == QEvent::KeyPress)
    if (auto* dock = qobject_cast<Dock*>(object);
        dock && dock->isFloating() && handleKey(static_cast<QKeyEvent*>(event)))
      return true;
  return QWidget::eventFilter(object, event);
}

}  // namespace slotscope::app
