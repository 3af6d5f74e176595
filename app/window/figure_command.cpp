#include "app/window/launch.h"

namespace slotscope::app {
int runFigure(const FigureCommand&) { return 1; }
}  // namespace slotscope::app
