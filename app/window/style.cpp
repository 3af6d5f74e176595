#include "app/window/style.h"

#include <cmath>

#include "views/theme.h"

namespace slotscope::app {

QString windowStyleSheet(const views::Theme& t) {
  QString sheet = QStringLiteral(R"(
#mainWindow, DockHost, slotscope--app--DockHost { background: @window; }
QFrame#panelTitle { background: @header; border: 1px solid @line; border-top-left-radius: 4px; border-top-right-radius: 4px; }
QFrame#panelBody { background: @surface; border: 1px solid @line; border-top: none; border-bottom-left-radius: 4px;
  border-bottom-right-radius: 4px; }
QFrame#viewTitle { background: transparent; border: none; }
QFrame#viewBody { background: @surface; border: 1px solid @line; border-top-right-radius: 4px; border-bottom-left-radius: 4px;
  border-bottom-right-radius: 4px; }
QLabel#viewTab { background: @surface; color: @text; border: 1px solid @line; border-top: 2px solid @selection; border-bottom: none;
  padding: 0 16px; }
QLabel#panelName { background: transparent; }
QToolButton#otherName { color: @text2; padding: 0 2px; border: none; }
QToolButton#otherName:hover { color: @text; background: @hoverfill; }
QTabBar#panelTabs { max-height: 0px; }
QTabBar#panelTabs::tab { height: 0px; min-height: 0px; width: 0px; padding: 0px; margin: 0px; border: none; }
QTabBar#viewTabs::tab { background: transparent; color: @text2; border: 1px solid transparent; border-top: 2px solid transparent;
  padding: 0 15px; height: @tabpx; min-height: 0px; font-weight: normal; }
QTabBar#viewTabs::tab:selected { background: @surface; color: @text; font-weight: 600; border: 1px solid @line; border-bottom: none;
  border-top: 2px solid @selection; }
QTabBar#viewTabs::tab:hover:!selected { background: @hoverfill; }
QToolButton[ui="status"] { background: transparent; border: none; color: @text2; padding: 0 2px; }
QToolButton[ui="status"]:hover { color: @text; background: @hoverfill; border-radius: 3px; }
QToolButton[ui="status"]:disabled { color: @text3; }
QScrollArea, QScrollArea > QWidget > QWidget { background: @surface; border: none; }
)");
  const auto put = [&](const char* key, const QString& value) { sheet.replace(QLatin1String(key), value); };
  put("@window", t.window.name());
  put("@header", t.header.name());
  put("@line", t.line.name());
  put("@surface", t.surface.name());
  put("@text2", t.text2.name());
  put("@text3", t.text3.name());
  put("@text", t.text.name());
  put("@selection", t.selection.name());
  put("@hoverfill", t.hoverFill.name());
  put("@tabpx", QStringLiteral("%1px").arg(int(std::lround(28 * t.base / 12))));
  return sheet;
}

}  // namespace slotscope::app
