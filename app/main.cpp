// slotscope: the desktop program.
#include <QApplication>

#include "app/window/launch.h"

int main(int argc, char** argv) {
  using namespace slotscope::app;
  const Launch launch = parseCommandLine(argc, argv);
  if (launch.exit_code) return *launch.exit_code;
  if (!choosePlatform(launch)) return 1;
  int qt_argc = 1;  // our own options are read; Qt gets none of them
  QApplication application(qt_argc, argv);
  return launch.figure ? runFigure(*launch.figure) : runWindow(launch);
}
