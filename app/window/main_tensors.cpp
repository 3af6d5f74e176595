// Views of the opened checkpoint: one tensor at a time, and its routing-slot card.
#include "app/window/checkpoint_panel.h"
#include "app/window/docks.h"
#include "app/window/main_window.h"
#include "app/window/memory_card.h"
#include "views/tensor_view.h"

namespace slotscope::app {

void MainWindow::connectTensors() {
  TensorReader* reader = controller_->tensorReader();
  connect(checkpoint_panel_, &CheckpointPanel::tensorChosen, this, &MainWindow::chooseTensor);
  connect(checkpoint_panel_, &CheckpointPanel::weightsChosen, controller_.get(), &Controller::chooseWeights);
  const auto each = [this](const std::function<void(views::TensorView*)>& what) {
    for (views::View* view : allViews())
      if (auto* tensor = qobject_cast<views::TensorView*>(view)) what(tensor);
  };
  connect(reader, &TensorReader::changed, this,
          [reader, each] { each([reader](auto* view) { reader->tell(view); }); });
  connect(reader, &TensorReader::progressed, this, [each](double fraction, const QString& stage) {
    each([&](auto* view) { view->setProgress(fraction, stage); });
  });
}

void MainWindow::connectTensorView(views::TensorView* view) {
  TensorReader* reader = controller_->tensorReader();
  connect(view, &views::TensorView::cancelRequested, reader, &TensorReader::cancel);
  connect(view, &views::TensorView::readRequested, reader, &TensorReader::readAgain);
  connect(view, &views::TensorView::scaleRequested, reader, &TensorReader::setSymmetricLog);
  connect(view, &views::TensorView::chooseRequested, this, [this] {
    showPanel("panel.checkpoint");
    checkpoint_panel_->showPage(CheckpointPanel::Tensors);
  });
  connect(view, &views::TensorView::tensorRequested, this, [this](const QString& name) {
    const auto& open = controller_->checkpoint();
    if (!open) return;
    const auto& tensors = open->checkpoint->tensors();
    const auto* found = open->checkpoint->find(name.toStdString());
    if (!found) return;
    const int tensor = int(found - tensors.data());
    checkpoint_panel_->selectTensor(tensor);
    chooseTensor(tensor, true);
  });
  reader->tell(view);
}

void MainWindow::fillCard(views::MemoryCardView* view) {
  const auto& open = controller_->checkpoint();
  view->setCard(open ? memoryCard(*open) : views::MemoryCardData{},
                !open         ? QString("No checkpoint is open: its folder says what its memory is.")
                : !open->info ? "This checkpoint cannot be run: " + open->why
                              : QString());
}

// A click or Enter brings the view; moving through the list changes what a view on screen shows and never
// takes the place of another.
void MainWindow::chooseTensor(int tensor, bool open) {
  auto* view = findView("tensor");
  if (!view && !open) return;
  if (!view) {
    addView("tensor");
  } else if (open) {
    for (Dock* d : view_area_->docks())
      if (d->body() == view) d->show(), d->raise(), current_dock_ = d;
  } else if (view->visibleRegion().isEmpty()) {
    return;
  }
  controller_->tensorReader()->read(tensor);
}

}  // namespace slotscope::app
