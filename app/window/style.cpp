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
QToolButton#otherName { color: @text2; padding: 0 1px; border: none; background: transparent; min-height: 18px; }
QToolButton#otherName:hover { color: @text; background: @hoverfill; }
#panelHost > QTabBar { max-height: 0px; min-height: 0px; }
#panelHost > QTabBar::tab, #panelHost > QTabBar::tab:selected { height: 0px; min-height: 0px; max-height: 0px; width: 0px;
  padding: 0px; margin: 0px; border: none; }
#viewHost > QTabBar::tab { background: transparent; color: @text2; border: 1px solid transparent; border-top: 2px solid transparent;
  padding: 0 15px; height: @tabpx; min-height: 0px; font-weight: normal; }
#viewHost > QTabBar::tab:selected { background: @surface; color: @text; font-weight: 600; border: 1px solid @line; border-bottom: none;
  border-top: 2px solid @selection; }
#viewHost > QTabBar::tab:hover:!selected { background: @hoverfill; }
QToolButton[ui="status"] { background: transparent; border: none; color: @text2; padding: 0 2px; }
QToolButton[ui="status"]:hover { color: @text; background: @hoverfill; border-radius: 3px; }
QToolButton[ui="status"]:disabled { color: @text3; }
QComboBox { background: @surface; color: @text; border: 1px solid @line; border-radius: 4px; padding: 0 2px 0 6px;
  min-height: 24px; }
QComboBox:hover, QSpinBox:hover, QDoubleSpinBox:hover { border-color: @linestrong; }
QComboBox:focus, QSpinBox:focus, QDoubleSpinBox:focus, QLineEdit:focus, QPlainTextEdit:focus { border: 1px solid @selection; }
QComboBox:disabled { color: @text3; }
QComboBox::drop-down { border: none; width: 20px; }
QComboBox::down-arrow { image: url(:/slotscope/icons/control-down-@theme.svg); width: 12px; height: 12px; }
QComboBox QAbstractItemView { background: @surface; border: 1px solid @linestrong; selection-background-color: @selectionrow;
  selection-color: @selection; outline: none; padding: 2px; }
QSpinBox, QDoubleSpinBox { background: @surface; color: @text; border: 1px solid @line; border-radius: 4px; padding: 0 0 0 4px;
  min-height: 24px; }
QSpinBox::up-button, QDoubleSpinBox::up-button { border: none; width: 16px; height: 12px; subcontrol-position: top right; }
QSpinBox::down-button, QDoubleSpinBox::down-button { border: none; width: 16px; height: 12px; subcontrol-position: bottom right; }
QSpinBox::up-arrow, QDoubleSpinBox::up-arrow { image: url(:/slotscope/icons/control-spin-up-@theme.svg); width: 12px; height: 12px; }
QSpinBox::down-arrow, QDoubleSpinBox::down-arrow { image: url(:/slotscope/icons/control-spin-down-@theme.svg); width: 12px;
  height: 12px; }
QLineEdit, QPlainTextEdit { background: @surface; color: @text; border: 1px solid @line; border-radius: 4px; padding: 1px 4px; }
#panelBody > QPlainTextEdit, LogPanel > QPlainTextEdit { border: none; }
QMenu { background: @surface; color: @text; border: 1px solid @linestrong; padding: 4px 0; }
QMenu::item { padding: 4px 24px 4px 22px; }
QMenu::item:selected { background: @hoverfill; }
QMenu::item:disabled { color: @text3; }
QMenu::separator { height: 1px; background: @line; margin: 4px 8px; }
QScrollBar:vertical { background: transparent; width: 10px; margin: 0; border: none; }
QScrollBar::handle:vertical { background: @linestrong; border-radius: 3px; min-height: 24px; margin: 2px; }
QScrollBar:horizontal { background: transparent; height: 10px; margin: 0; border: none; }
QScrollBar::handle:horizontal { background: @linestrong; border-radius: 3px; min-width: 24px; margin: 2px; }
QScrollBar::handle:hover { background: @text3; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; border: none; }
QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }
QHeaderView, QTableCornerButton::section { background: @surface; border: none; }
QHeaderView::section { background: @surface; color: @text2; border: none; border-bottom: 1px solid @line; padding: 2px 4px; }
QTreeView, QTableView, QListView { background: @surface; color: @text; border: none; outline: none; }
QTreeView::item, QTableView::item { padding: 1px 2px; }
QSplitter::handle { background: @line; height: 1px; }
QScrollArea { background: @surface; border: none; }
QWidget#runPanel, QWidget#checkpointPanel { background: @surface; }
)");
  const auto put = [&](const char* key, const QString& value) { sheet.replace(QLatin1String(key), value); };
  put("@window", t.window.name());
  put("@header", t.header.name());
  put("@linestrong", t.lineStrong.name());
  put("@line", t.line.name());
  put("@surface", t.surface.name());
  put("@text2", t.text2.name());
  put("@text3", t.text3.name());
  put("@text", t.text.name());
  put("@selectionrow", t.selectionRow.name());
  put("@selection", t.selection.name());
  put("@theme", t.dark ? "dark" : "light");
  put("@hoverfill", t.hoverFill.name());
  put("@tabpx", QStringLiteral("%1px").arg(int(std::lround(28 * t.base / 12))));
  return sheet;
}

}  // namespace slotscope::app
