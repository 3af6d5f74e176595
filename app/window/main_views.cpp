// Views in their docks: made, connected, pinned, given what is open.
#include <QClipboard>
#include <QGuiApplication>
#include <QMenu>
#include <QTimer>

#include "app/window/docks.h"
#include "app/window/locations.h"
#include "app/window/main_window.h"
#include "app/window/pin.h"
#include "app/window/second_trace.h"
#include "app/window/selection_bar.h"
#include "app/window/status_line.h"
#include "app/window/view_factory.h"
#include "views/allocation_view.h"
#include "views/compare_model.h"
#include "views/compare_view.h"
#include "views/esl_view.h"
#include "views/heads_view.h"
#include "views/heatmap_view.h"
#include "views/inspector_view.h"
#include "views/memory_card_view.h"
#include "views/output_view.h"
#include "views/overlap_view.h"
#include "views/prompt_view.h"
#include "views/tensor_view.h"
#include "views/theory_lab_view.h"
#include "views/value_field_view.h"

namespace slotscope::app {

namespace {

// The panel's main choice, at the right of its title.
template <class ChoosingView>
void connectChoice(views::View* view, Dock* dock) {
  auto* choosing = qobject_cast<ChoosingView*>(view);
  if (!choosing) return;
  const auto show = [dock](const QString& text) { dock->title()->setChoice(text + QStringLiteral(" ▾")); };
  QObject::connect(choosing, &ChoosingView::choiceTextChanged, dock, show);
  QObject::connect(dock->title(), &TitleBar::choiceClicked, choosing,
                   [choosing](const QPoint& at) { choosing->choiceMenu()->popup(at); });
  show(choosing->choiceText());
}

}  // namespace

QList<views::View*> MainWindow::allViews() const {
  QList<views::View*> all;
  for (const auto& view : panel_views_)
    if (view) all.append(view);
  for (Dock* dock : view_area_->docks())
    if (auto* view = qobject_cast<views::View*>(dock->body())) all.append(view);
  return all;
}

views::View* MainWindow::findView(const QString& kind) const {
  for (views::View* view : allViews())
    if (view->figureKind() == kind) return view;
  return nullptr;
}

views::View* MainWindow::currentView() const {
  if (current_dock_ && current_dock_->open()) return qobject_cast<views::View*>(current_dock_->body());
  for (Dock* dock : view_area_->docks())
    if (dock->open() && !dock->visibleRegion().isEmpty()) return qobject_cast<views::View*>(dock->body());
  return nullptr;
}

void MainWindow::connectView(views::View* view, Dock* dock) {
  connect(view, &views::View::statusText, this, [this, view](const QString& text) {
    last_statused_ = view;
    status_->setHover(text);
  });
  connect(view, &views::View::reductionText, this, [this, view](const QString& text) {
    view->setProperty("reduction", text);
    if (view == currentView()) status_->setReduction(text);
  });
  connect(view, &views::View::openViewRequested, this, [this](const QString& kind) {
    if (kind == "figure") return exportFigure();
    if (views::View* known = findView(kind)) {
      for (Dock* d : view_area_->docks())
        if (d->body() == known) d->show(), d->raise(), current_dock_ = d;
      known->setFocus();
    } else {
      addView(kind);
    }
  });
  connect(view, &views::View::messageAction, this, [this] {
    if (controller_->runData())
      runOrCancel();
    else
      askForCheckpoint();
  });
  connectChoice<views::PromptView>(view, dock);
  connectChoice<views::InspectorView>(view, dock);
  if (auto* allocation = qobject_cast<views::AllocationView*>(view)) {
    connect(allocation, &views::AllocationView::allocationOptionsRequested, controller_.get(),
            &Controller::setAllocationOptions);
    connect(allocation, &views::AllocationView::rolesRequested, this,
            [this](views::AllocationView::Roles, std::optional<std::pair<qint64, qint64>> brush) {
              if (brush)
                controller_->setRoleRanges({*brush}, false);
              else
                controller_->setRoleRanges({}, true);
            });
  }
  if (auto* esl = qobject_cast<views::EslView*>(view)) {
    connect(esl, &views::EslView::eslOptionsRequested, controller_.get(), &Controller::setEslOptions);
    const auto measured = [this, esl] { esl->setMeasured(controller_->eslReferences()); };
    connect(controller_.get(), &Controller::tracesChanged, esl, measured);
    measured();
  }
  connectChoice<views::HeadsView>(view, dock);
  if (auto* heads = qobject_cast<views::HeadsView*>(view))
    connect(heads, &views::HeadsView::pinnedHeatmapRequested, this,
            [this](int layer, int head) { pinView(addView("heatmap"), layer, head); });
  if (auto* heatmap = qobject_cast<views::HeatmapView*>(view))
    connect(heatmap, &views::HeatmapView::figureRequested, this, &MainWindow::exportFigure);
  if (auto* tensor = qobject_cast<views::TensorView*>(view)) connectTensorView(tensor);
  if (auto* compare = qobject_cast<views::CompareView*>(view)) connectCompareView(compare);
  if (auto* overlap = qobject_cast<views::OverlapView*>(view)) connectOverlapView(overlap);
  if (auto* card = qobject_cast<views::MemoryCardView*>(view)) fillCard(card);
  if (auto* lab = qobject_cast<views::ValueFieldView*>(view)) {  // as it was left, in this session and the last one
    lab->restore(settings()->value("labs/value-field").toByteArray());
    connect(lab, &views::ValueFieldView::stateChanged, this,
            [](const QByteArray& state) { settings()->setValue("labs/value-field", state); });
  }
  if (auto* lab = qobject_cast<views::TheoryLabView*>(view)) {  // as it was left, in this session and the last one
    lab->restore(settings()->value("labs/theory").toByteArray());
    connect(lab, &views::TheoryLabView::stateChanged, this,
            [](const QByteArray& state) { settings()->setValue("labs/theory", state); });
  }
  dock->fill_menu = [this, view, dock](QMenu* menu) {
    if (auto* map = qobject_cast<views::HeatmapView*>(view)) {
      map->fillMenu(menu);
      menu->addSeparator();
    }
    if (auto* lab = qobject_cast<views::ValueFieldView*>(view)) lab->fillMenu(menu);
    const bool one_head = showsOneHead(view->figureKind());
    if (dock->kind() == Dock::Kind::view && one_head) {
      if (dock->property("pinned").toBool())
        menu->addAction("Unpin", this, [this, dock] { unpinView(dock); });
      else
        menu->addAction("Pin this layer and head", this, [this, dock] {
          pinView(dock, selection_.current().layer, selection_.current().head);
        });
    }
    menu->addAction("Copy as picture", this, [this, dock] {
      if (dock->kind() == Dock::Kind::view) current_dock_ = dock;
      copyPicture();
    });
    menu->addAction("Copy data as CSV", this, [view] { QGuiApplication::clipboard()->setText(view->csv()); });
    menu->addAction("Export figure…", this, &MainWindow::exportFigure);
    menu->addSeparator();
  };
}

void MainWindow::replaceView(Dock* dock, views::SelectionModel* own) {
  const QString kind = dock->id().section('.', 1, 1);
  auto* before = qobject_cast<views::View*>(dock->body());
  views::View* view = makeView(kind, own ? own : &selection_, controller_->drawWorker(), dock);
  if (own) own->setParent(view);  // goes with its view
  auto *from = qobject_cast<views::HeatmapView*>(before), *to = qobject_cast<views::HeatmapView*>(view);
  if (from && to) {
    to->setQuantity(from->quantity());
    to->setSort(from->sort());
    to->setColours(from->colours());
    to->setHideEmptySlots(from->hidesEmptySlots());
  }
  dock->setBody(view);
  connectView(view, dock);
  if (const auto& run = controller_->runData()) {
    view->setRun(run);
    showRoles(view);
    if (own)
      fillPinned(view);
    else
      view->setHead(controller_->headData());
  }
  view->show();
  view_area_->refreshLater();
}

void MainWindow::pinView(Dock* dock, int layer, int head) {
  dock->setWindowTitle(
      QString("%1 · L%2·H%3").arg(viewTitle(dock->id().section('.', 1, 1))).arg(layer).arg(head));
  dock->setProperty("pinned", true);
  replaceView(dock, new PinnedSelection(&selection_, layer, head));
}

void MainWindow::unpinView(Dock* dock) {
  const QString number = dock->id().section('.', 2, 2);
  dock->setWindowTitle(viewTitle(dock->id().section('.', 1, 1)) + (number == "1" ? QString() : " " + number));
  dock->setProperty("pinned", false);
  replaceView(dock, nullptr);
}

void MainWindow::fillPinned(views::View* view) {
  auto* own = view->findChild<PinnedSelection*>(QString(), Qt::FindDirectChildrenOnly);
  const auto& run = controller_->runData();
  if (!own || !run) return;
  const auto [heads, slot_count] = controller_->layerLimits(own->layer());
  own->follow(run->trace->run_count(), int(run->info().layers.size()), heads, slot_count, run->info().tokens);
  controller_->loadHead(own->layer(), own->head(), view, [view, own](auto data, const QString& why) {
    if (data && view->headData() == nullptr && !data->allocation.order.empty())
      own->request({.slot = data->allocation.order.front()});
    view->setHead(data);
    view->setMessage(why);
  });
}

Dock* MainWindow::addView(const QString& kind) {
  int number = 1;
  while (view_area_->find(QString("view.%1.%2").arg(kind).arg(number))) ++number;
  // Identity "view.heatmap.1"; the name carries the number from the second on.
  const QString title = number == 1 ? viewTitle(kind) : QString("%1 %2").arg(viewTitle(kind)).arg(number);
  Dock* dock = view_area_->add(QString("view.%1.%2").arg(kind).arg(number), title);
  views::View* view = makeView(kind, &selection_, controller_->drawWorker(), dock);
  dock->setBody(view);
  connectView(view, dock);
  connect(dock, &QDockWidget::visibilityChanged, this, [this, dock](bool visible) {
    if (visible && !adapting_) current_dock_ = dock;
    dock->setProperty("shown", visible);
    QTimer::singleShot(0, this, &MainWindow::adaptToLabs);
    showReduction();
  });
  Dock* beside = nullptr;
  for (Dock* d : view_area_->docks())
    if (d != dock && d->open() && !d->isFloating() && (!beside || d == current_dock_)) beside = d;
  if (beside)
    view_area_->tabifyDockWidget(beside, dock);
  else
    view_area_->addDockWidget(Qt::TopDockWidgetArea, dock);
  dock->show();
  if (!adapting_) QTimer::singleShot(0, dock, [dock] { dock->raise(); });
  if (controller_->runData()) {
    view->setRun(controller_->runData());
    showRoles(view);
    view->setHead(controller_->headData());
  } else {
    showNothingOpen(view);
  }
  updateEmptyHint();
  return dock;
}

void MainWindow::showReduction() {
  const auto* view = currentView();
  status_->setReduction(view ? view->property("reduction").toString() : QString());
}

void MainWindow::goToView(int index) {
  QList<Dock*> open;
  for (Dock* d : view_area_->docks())
    if (d->open()) open.append(d);
  if (index < 0 || index >= open.size()) return;
  open[index]->raise();
  current_dock_ = open[index];
  if (open[index]->body()) open[index]->body()->setFocus(Qt::ShortcutFocusReason);
}

void MainWindow::showPanel(const QString& id) {
  if (Dock* dock = panels_->find(id)) {
    dock->show();
    dock->raise();
  }
}

void MainWindow::updateEmptyHint() {
  bool any = false;
  for (Dock* d : view_area_->docks()) any = any || d->open();
  empty_hint_->setVisible(!any);
  if (!any) {
    empty_hint_->setGeometry(view_area_->rect());
    empty_hint_->raise();
  }
}

void MainWindow::showRun(std::shared_ptr<const views::RunData> run) {
  bar_->setRun(run);
  compare_model_->setRun(run);
  if (run) second_->setOptions(controller_->allocationOptions(), controller_->eslOptions());
  for (views::View* view : allViews()) {
    if (run)
      view->setMessage({});
    else
      showNothingOpen(view);
    view->setRun(run);
    showRoles(view);
    fillPinned(view);
    if (auto* output = qobject_cast<views::OutputView*>(view))
      output->setTokenNames(run ? controller_->tokenNames() : nullptr);
  }
  status_->setHover({});  // what was under the cursor is gone
  status_->setDevice(run ? run->device_text : QString());
  if (!run) status_->setReduction({});
  refreshTitle();
}

// What a view says while there is no trace: what to do, or that it is being done.
void MainWindow::showNothingOpen(views::View* view) {
  if (controller_->running()) return view->setMessage("The prompt is running.");
  view->setMessage("Open a trace, or run a prompt.",
                   panel_views_.contains(view) ? QString() : QStringLiteral("Open checkpoint folder…"));
}

// Other roles than the trace's own are named in the allocation view.
void MainWindow::showRoles(views::View* view) {
  auto* allocation = qobject_cast<views::AllocationView*>(view);
  const auto& run = controller_->runData();
  if (!allocation || !run || controller_->roleName().isEmpty()) return;
  std::vector<analysis::HeadAllocation> allocations;
  for (const auto& head : run->summary.head_list) allocations.push_back(head.allocation);
  allocation->setAllocations(std::move(allocations), run->info().roles, controller_->roleName());
}

void MainWindow::showHead(std::shared_ptr<const analysis::HeadData> head, const QString& message,
                          const QString& button) {
  bar_->setHead(head);
  compare_model_->setHead(head, message);
  for (views::View* view : allViews()) {
    if (view->findChild<PinnedSelection*>(QString(), Qt::FindDirectChildrenOnly)) continue;  // has its own
    view->setHead(head);
    view->setMessage(message, button);
  }
}
}  // namespace slotscope::app
