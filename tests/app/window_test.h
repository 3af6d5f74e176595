// What the window's tests share: settings of their own, waiting, and one trace of the bundled checkpoint per
// program.
#pragma once

#include <QApplication>
#include <QDir>
#include <QDirIterator>
#include <QTemporaryDir>
#include <QtTest>
#include <functional>

#include "app/window/controller.h"
#include "app/window/main_window.h"
#include "app/window/run_panel.h"

namespace slotscope::testing {

inline QString sourceFile(const QString& relative) {
  return QStringLiteral(SLOTSCOPE_SOURCE_DIR) + "/" + relative;
}
inline QString bundled() { return sourceFile("resources/checkpoints/raven-passkey"); }

// Waits, with events, until `done` or the time is over.
inline bool waitFor(const std::function<bool()>& done, int ms = 120'000) {
  QElapsedTimer timer;
  timer.start();
  while (!done()) {
    if (timer.elapsed() > ms) return false;
    QTest::qWait(5);
  }
  return true;
}

// All that was asked for has arrived: nothing runs, the summary and the head are there.
inline bool settle(app::MainWindow& window, int ms = 120'000) {
  return waitFor([&] { return window.controller()->settled(); }, ms) &&
         (QTest::qWait(20), waitFor([&] { return window.controller()->settled(); }, ms));
}

// A folder with its own settings file; every test program starts from nothing.
class Scratch {
 public:
  Scratch() { qputenv("SLOTSCOPE_SETTINGS", folder_.filePath("settings.ini").toUtf8()); }
  QString file(const QString& name) const { return folder_.filePath(name); }

 private:
  QTemporaryDir folder_;
};

// A password prompt of 512 tokens, run and saved; made once per program.
inline QString passkeyTrace(const Scratch& scratch, qint64 length = 512) {
  const QString file = scratch.file(QString("passkey-%1.h5").arg(length));
  if (QFileInfo::exists(file)) return file;
  views::SelectionModel selection;
  app::Controller controller(&selection);
  controller.openCheckpoint(bundled());
  if (!waitFor(
          [&] { return controller.checkpoint() && controller.checkpoint()->info && controller.settled(); }))
    return {};
  app::RunSettings settings;
  settings.length = length;
  controller.run(settings);
  if (!waitFor([&] { return !controller.running() && controller.trace() && controller.settled(); }))
    return {};
  controller.saveTrace(file);
  waitFor([&] { return controller.settled(); });
  return QFileInfo::exists(file) ? file : QString();
}

}  // namespace slotscope::testing
