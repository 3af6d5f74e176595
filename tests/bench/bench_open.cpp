// How long a trace takes to be on screen: bench_open TRACE.h5. Prints milliseconds from the start of main()
// until the window is shown, until the trace's text is in it, until the first head is drawn, and until all
// heads are analysed.
#include <QApplication>
#include <QElapsedTimer>
#include <QTimer>
#include <cstdio>

#include "app/window/controller.h"
#include "app/window/locations.h"
#include "app/window/main_window.h"

int main(int argc, char** argv) {
  QElapsedTimer timer;
  timer.start();
  if (argc < 2) {
    std::fprintf(stderr, "usage: bench_open TRACE.h5\n");
    return 2;
  }
  if (!qEnvironmentVariableIsSet("QT_QPA_PLATFORM")) qputenv("QT_QPA_PLATFORM", "offscreen");
  QApplication application(argc, argv);
  slotscope::app::useVolatileSettings();
  slotscope::app::MainWindow window;
  window.resize(1280, 800);
  window.show();
  QApplication::processEvents();
  std::printf("window shown        %6lld ms\n", timer.elapsed());
  auto* controller = window.controller();
  bool text = false, head = false;
  QObject::connect(controller, &slotscope::app::Controller::runChanged, &window, [&](const auto& run) {
    if (run && !text)
      std::printf("text of %lld tokens %6lld ms\n", (long long)run->info().tokens, timer.elapsed());
    text = text || run != nullptr;
  });
  QObject::connect(controller, &slotscope::app::Controller::headChanged, &window, [&](const auto& data) {
    if (data && !head)
      QTimer::singleShot(0, &window, [&] { std::printf("first head          %6lld ms\n", timer.elapsed()); });
    head = head || data != nullptr;
  });
  window.openPath(QString::fromLocal8Bit(argv[1]));
  qint64 longest = 0;
  QElapsedTimer beat;
  beat.start();
  QTimer pulse;
  pulse.setInterval(5);
  QObject::connect(&pulse, &QTimer::timeout, &window, [&] {
    longest = std::max(longest, beat.restart());
    if (head && controller->settled()) QApplication::quit();
  });
  pulse.start();
  QTimer::singleShot(120'000, &application, [&] { QApplication::exit(1); });
  const int rc = QApplication::exec();
  std::printf("all heads           %6lld ms\nlongest pause of the GUI thread %lld ms\n", timer.elapsed(),
              longest);
  return rc;
}
