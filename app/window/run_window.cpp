// Opens the window, or takes a picture of it.
#include <QApplication>
#include <QElapsedTimer>
#include <QPixmap>
#include <QTimer>
#include <cstdio>

#include "app/window/docks.h"
#include "app/window/launch.h"
#include "app/window/locations.h"
#include "app/window/main_window.h"
#include "app/window/view_factory.h"
#include "views/compare_model.h"
#include "views/compare_view.h"

namespace slotscope::app {

namespace {

// Waits until nothing has happened for a moment: jobs, reading, drawing.
void takePicture(MainWindow& window, const Launch& launch) {
  auto* quiet = new QTimer(&window);
  auto* steady = new QElapsedTimer;
  quiet->setInterval(50);
  QObject::connect(quiet, &QTimer::timeout, &window, [&window, launch, steady] {
    if (!window.controller()->settled()) {
      steady->invalidate();
      return;
    }
    if (!steady->isValid()) steady->start();
    if (steady->elapsed() < 400) return;
    const bool ok = window.grab().save(QString::fromStdString(launch.screenshot));
    if (!ok) std::fprintf(stderr, "slotscope: %s could not be written\n", launch.screenshot.c_str());
    QApplication::exit(ok ? 0 : 1);
  });
  quiet->start();
}

}  // namespace

int runWindow(const Launch& launch) {
  if (!launch.screenshot.empty()) useVolatileSettings();
  QApplication::setApplicationName("Slotscope");
  QApplication::setApplicationVersion(version());
  MainWindow window;
  if (launch.theme == "light") window.setThemeChoice(ThemeChoice::light);
  if (launch.theme == "dark") window.setThemeChoice(ThemeChoice::dark);
  if (launch.theme == "system") window.setThemeChoice(ThemeChoice::system);
  if (!launch.screenshot.empty()) {
    if (launch.theme.empty()) window.setThemeChoice(ThemeChoice::light);
    window.resize(launch.size.first, launch.size.second);
    window.restoreDefaultLayout();
  }
  window.show();
  if (launch.paths.empty()) window.openBundled();
  for (const std::string& path : launch.paths) window.openPath(QString::fromStdString(path));
  if (!launch.compare.empty()) {
    window.compareWith(QString::fromStdString(launch.compare));
    if (const auto layout = compareLayout(launch.compare_layout))
      if (auto* view = qobject_cast<views::CompareView*>(window.findView("compare"))) view->wantLayoutKind(*layout);
  }
  if (!launch.view.empty()) {
    const QString kind = QString::fromStdString(launch.view);
    bool there = false;
    for (Dock* d : window.viewArea()->docks())
      if (d->id().section('.', 1, 1) == kind) d->raise(), there = true;
    if (!there) window.addView(kind);
  }
  if (!launch.screenshot.empty()) takePicture(window, launch);
  return QApplication::exec();
}

}  // namespace slotscope::app
