// Labs: views that need no trace. In a small window the panels about runs give way while a lab is in front.
#include <QTimer>
#include <utility>

#include "app/window/docks.h"
#include "app/window/main_window.h"
#include "app/window/view_factory.h"
#include "views/theme.h"
#include "views/theory_lab_view.h"
#include "views/value_field_view.h"

namespace slotscope::app {

namespace {
constexpr int kRoom = 1240;  // of the view area, so that a lab has its controls, panels and numbers side by side
}

void MainWindow::openLab(const QString& kind) {
  for (Dock* d : view_area_->docks())
    if (d->id().section('.', 1, 1) == kind) {
      d->show();
      d->raise();
      current_dock_ = d;
      if (d->body()) d->body()->setFocus(Qt::OtherFocusReason);
      return;
    }
  addView(kind);
}

void MainWindow::openInLab(const QString& path, const QString& lab) {
  openLab(lab);
  views::View* view = findView(lab);
  if (auto* theory = qobject_cast<views::TheoryLabView*>(view)) theory->openFile(path);
  if (auto* field = qobject_cast<views::ValueFieldView*>(view)) field->openFile(path);
}

void MainWindow::adaptToLabs() {
  if (adapting_ || !isVisible()) return;
  bool shown = false;
  for (Dock* d : view_area_->docks())
    shown = shown || (isLab(d->id().section('.', 1, 1)) && d->open() && !d->isFloating() && d->property("shown").toBool());
  if (!shown) return bringPanelsBack();
  if (!lab_hidden_.isEmpty() || !before_full_.isEmpty() || view_area_->width() >= kRoom * views::Theme::current().base / 12) return;
  for (Dock* d : panels_->docks()) {
    if (!d->open() || d->isFloating()) continue;
    if (!d->visibleRegion().isEmpty()) lab_raised_.append(d);
    lab_hidden_.append(d);
  }
  for (const auto& d : lab_hidden_) d->hide();
}

void MainWindow::bringPanelsBack() {
  if (lab_hidden_.isEmpty()) return;
  const auto hidden = std::exchange(lab_hidden_, {}), raised = std::exchange(lab_raised_, {});
  for (const auto& d : hidden)
    if (d) d->show();
  for (const auto& d : raised)
    if (d) d->raise();
}

}  // namespace slotscope::app
