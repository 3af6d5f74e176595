// slotscope: the desktop program.
#include <QApplication>

#include "app/window/main_window.h"

int main(int argc, char** argv) {
  QApplication app(argc, argv);
  slotscope::app::MainWindow window;
  window.show();
  return app.exec();
}
