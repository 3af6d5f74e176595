// What the window adds to the theme's style sheet: dock frames, tabs, status buttons.
#pragma once

#include <QString>

namespace slotscope::views {
struct Theme;
}
namespace slotscope::app {
QString windowStyleSheet(const views::Theme& theme);
}  // namespace slotscope::app
