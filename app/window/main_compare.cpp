// Comparison of the window's run with a second trace (design: section 12).
#include <QFileDialog>
#include <QMenu>
#include <QPushButton>
#include <QScopedValueRollback>
#include <QTimer>

#include "app/window/banner.h"
#include "app/window/docks.h"
#include "app/window/locations.h"
#include "app/window/main_window.h"
#include "app/window/second_trace.h"
#include "app/window/selection_bar.h"
#include "app/window/side_panels.h"
#include "views/compare_model.h"
#include "views/compare_view.h"
#include "views/differences_view.h"
#include "views/overlap_view.h"

namespace slotscope::app {

void MainWindow::buildCompare() {
  compare_model_ = std::make_unique<views::CompareModel>(&selection_, controller_->drawWorker());
  second_ = std::make_unique<SecondTrace>(controller_->jobs(), this);
  connect(second_.get(), &SecondTrace::runChanged, compare_model_.get(), &views::CompareModel::setOtherRun);
  connect(second_.get(), &SecondTrace::headChanged, compare_model_.get(), &views::CompareModel::setOtherHead);
  connect(compare_model_.get(), &views::CompareModel::otherHeadWanted, second_.get(), &SecondTrace::loadHead);
  connect(second_.get(), &SecondTrace::loadingChanged, this, [this](bool loading, const QString& stage) {
    for (views::View* view : allViews())
      if (auto* compare = qobject_cast<views::CompareView*>(view)) compare->setOtherLoading(loading, stage);
  });
  connect(second_.get(), &SecondTrace::problem, this, [this](const Problem& p) {
    banners_->add(p);
    log_->add("Error: " + p.summary);
  });
  connect(second_.get(), &SecondTrace::opened, this, [this](const QString& path) {
    remember(path, "trace");
    log_->add("Second trace " + path);
  });
}

// Views that show both, and the panel of differences.
void MainWindow::connectCompareView(views::CompareView* view) {
  view->setModel(compare_model_.get());
  connect(view, &views::CompareView::secondTraceRequested, this, &MainWindow::askForSecond);
}

// The overlap takes the second trace's weights beside its own; opening one from there leaves the layout as it is.
void MainWindow::connectOverlapView(views::OverlapView* view) {
  view->setOther(second_->runData());
  connect(second_.get(), &SecondTrace::runChanged, view, [view](const auto& run, const QString&) { view->setOther(run); });
  connect(view, &views::OverlapView::secondTraceRequested, this, [this] {
    auto* dialog = new QFileDialog(this, "Open a second trace", {}, "Traces (*.h5 *.hdf5 *.h5.part);;All files (*)");
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->setFileMode(QFileDialog::ExistingFile);
    connect(dialog, &QFileDialog::fileSelected, this, [this](const QString& path) {
      second_->setOptions(controller_->allocationOptions(), controller_->eslOptions());
      second_->open(path, 0);
    });
    dialog->open();
  });
}

void MainWindow::askForSecond() {
  auto* dialog = new QFileDialog(this, "Open a second trace", {}, "Traces (*.h5 *.hdf5 *.h5.part);;All files (*)");
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->setFileMode(QFileDialog::ExistingFile);
  connect(dialog, &QFileDialog::fileSelected, this, [this](const QString& path) { compareWith(path); });
  dialog->open();
}

void MainWindow::compareWith(const QString& path, int run) {
  second_->setOptions(controller_->allocationOptions(), controller_->eslOptions());
  second_->open(path, run);
  setComparing(true);
}

// Runs of this session, and files.
void MainWindow::fillCompareMenu(QMenu* menu) {
  menu->clear();
  menu->addAction("Open a second trace…", this, &MainWindow::askForSecond);
  QAction* close = menu->addAction("Close the second trace", this, [this] { second_->close(); });
  close->setEnabled(second_->runData() != nullptr);
  menu->addSeparator();
  for (const auto& trace : controller_->sessionTraces())
    for (int i = 0; i < std::min(trace->trace->run_count(), 32); ++i) {
      const QString name = traceModelName(*trace->trace) + " · " + QString::fromStdString(trace->trace->run(i).name);
      QAction* action = menu->addAction(QString(name).replace('&', "&&"), this, [this, trace, i] {
        second_->setOptions(controller_->allocationOptions(), controller_->eslOptions());
        second_->show(trace->trace, i);
        setComparing(true);
      });
      action->setEnabled(trace != controller_->trace() || i != controller_->currentRun());
    }
}

bool MainWindow::comparing() const {
  for (Dock* d : view_area_->docks())
    if (d->open() && qobject_cast<views::CompareView*>(d->body())) return true;
  return false;
}

void MainWindow::placeDifferences() {
  Dock* differences = panels_->find("panel.differences");
  Dock* inspector = panels_->find("panel.inspector");
  if (differences->isFloating()) return;
  if (panels_->dockWidgetArea(inspector) != Qt::NoDockWidgetArea && inspector->open())
    panels_->tabifyDockWidget(inspector, differences);
  else if (panels_->dockWidgetArea(differences) == Qt::NoDockWidgetArea)
    panels_->addDockWidget(Qt::RightDockWidgetArea, differences);
  differences->show();
  differences->raise();
}

// Both heatmaps need the width: in a window of usual size the panels around them make room, and come back.
void MainWindow::setComparing(bool on) {
  const QScopedValueRollback<bool> guard(switching_, true);  // hiding panels is no closing of the comparison
  if (!on) {
    const QByteArray before = std::exchange(before_compare_, {});
    if (!before.isEmpty()) {
      restoreLayout(before);
    } else {
      for (Dock* d : view_area_->docks())
        if (qobject_cast<views::CompareView*>(d->body())) d->close();
      panels_->find("panel.differences")->hide();
    }
    refreshComparing();
    return;
  }
  if (!comparing() && before_compare_.isEmpty()) {
    before_compare_ = layoutState();
    if (!defaultLayoutIsWide())
      for (Dock* d : panels_->docks())
        if (!d->isFloating()) d->hide();
  }
  Dock* compare = nullptr;
  for (Dock* d : view_area_->docks())
    if (qobject_cast<views::CompareView*>(d->body())) compare = d;
  if (!compare) compare = addView("compare");
  compare->show();
  placeDifferences();
  const auto raise = [this, compare] {
    compare->raise();
    current_dock_ = compare;
    Dock* differences = panels_->find("panel.differences");
    differences->raise();
    const double scale = views::Theme::current().base / 12;
    panels_->resizeDocks({differences}, {int(std::lround((wide_ ? 380 : 300) * scale))}, Qt::Horizontal);
    refreshComparing();
  };
  raise();
  QTimer::singleShot(0, compare, raise);
}

void MainWindow::refreshComparing() {
  const bool on = comparing();
  bar_->compare->setChecked(on);
  // Its tab was closed: what made room for it comes back.
  if (!on && !switching_ && !before_compare_.isEmpty()) QTimer::singleShot(0, this, [this] {
    if (!comparing()) setComparing(false);
  });
}

// Traces that were dropped on the comparison are its B.
QStringList MainWindow::secondAt(const QPoint& position, const QStringList& paths) const {
  QWidget* at = childAt(position);
  while (at && !qobject_cast<views::CompareView*>(at) && !qobject_cast<views::DifferencesView*>(at)) at = at->parentWidget();
  if (!at) return {};
  QStringList traces;
  for (const QString& path : paths)
    if (kindOfPath(path) != PathKind::checkpoint && !isPromptFile(path)) traces << path;
  return traces;
}

}  // namespace slotscope::app
