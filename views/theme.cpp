#include "views/theme.h"

#include <QApplication>
#include <QEvent>
#include <QFontDatabase>
#include <QStyleFactory>
#include <QWidget>
#include <algorithm>
#include <cmath>
#include <optional>

namespace slotscope::views {

namespace {

std::optional<Theme>& stored() {
  static std::optional<Theme> theme;
  return theme;
}

void set_fonts(Theme& t) {
  t.ui = QFontDatabase::systemFont(QFontDatabase::GeneralFont);
  t.fixed = QFontDatabase::systemFont(QFontDatabase::FixedFont);
  t.fixed.setStyleHint(QFont::Monospace);
  t.setBase(12);
}

QFont sized(QFont font, double pixels, bool semibold = false) {
  font.setPixelSize(std::max(1, int(std::lround(pixels))));
  if (semibold) font.setWeight(QFont::DemiBold);
  return font;
}

}  // namespace

Theme Theme::light() {
  Theme t;
  t.window = 0xECEEF2, t.surface = 0xFFFFFF, t.plot = 0xFAFBFC, t.header = 0xF6F7F9;
  t.line = 0xD3D8E0, t.lineStrong = 0xA9B1BD;
  t.text = 0x171B22, t.text2 = 0x545D6B, t.text3 = 0x6E7787;
  t.ink = 0x171B22, t.onInk = 0xFFFFFF;
  t.ok = 0x1A7F4B, t.warn = 0x8A5A00, t.error = 0xB42318;
  t.selection = 0xA3109B, t.selectionChipText = 0xFFFFFF, t.selectionRow = 0xF7E6F6;
  t.hover = 0x171B22, t.hoverFill = 0xE6E9EF;
  t.fit = 0x1B2A6B, t.modelA = 0x01665E, t.modelB = 0x8C510A;
  t.spanWash = 0xE9ECF1, t.separator = 0xC3CAD4, t.timelineOther = 0x98A2B0, t.nan = 0xFF00C8;
  t.setPrintRoles(false);
  set_fonts(t);
  return t;
}

Theme Theme::darkTheme() {
  Theme t;
  t.dark = true;
  t.window = 0x0F1216, t.surface = 0x171B21, t.plot = 0x12161B, t.header = 0x1D222A;
  t.line = 0x2C333D, t.lineStrong = 0x4A5462;
  t.text = 0xE6E9EE, t.text2 = 0xA3ADBA, t.text3 = 0x8590A0;
  t.ink = 0xE6E9EE, t.onInk = 0x12151A;
  t.ok = 0x4CC38A, t.warn = 0xE3B341, t.error = 0xFF7B72;
  t.selection = 0xF38BEF, t.selectionChipText = 0x1A0F1A, t.selectionRow = 0x3A2A3C;
  t.hover = 0xE6E9EE, t.hoverFill = 0x232A33;
  t.fit = 0xC9D4FF, t.modelA = 0x5AB4AC, t.modelB = 0xD8A657;
  t.spanWash = 0x2A313B, t.separator = 0x39424E, t.timelineOther = 0x66717F, t.nan = 0xFF00C8;
  t.setPrintRoles(false);
  set_fonts(t);
  return t;
}

void Theme::setPrintRoles(bool on) {
  printRoles = on;
  if (on) {
    retrieval = 0xFF3B3B, shared = 0x0000FF, other = 0x00E000;
  } else if (dark) {
    retrieval = 0xF4683C, shared = 0x4A86F0, other = 0x5FDCAE;
  } else {
    retrieval = 0xD2401A, shared = 0x2A62C9, other = 0x2BA878;
  }
  // Text keeps its own green on light: the role's is too pale to read, the printed one more so.
  otherText = dark ? other : QColor(0x197449);
}

void Theme::setBase(double pixels) {
  base = std::clamp(pixels, 9.6, 24.0);
  ui = sized(ui, base);
  fixed = sized(fixed, base);
}

void Theme::setFamilies(const QString& ui_family, const QString& fixed_family) {
  if (!ui_family.isEmpty()) ui.setFamilies({ui_family});
  if (!fixed_family.isEmpty()) fixed.setFamilies({fixed_family});
}

const Theme& Theme::current() {
  if (!stored()) stored() = light();
  return *stored();
}

void Theme::apply(const Theme& theme) {
  stored() = theme;
  if (!qobject_cast<QApplication*>(QCoreApplication::instance())) return;
  static bool fusion = false;
  if (!fusion) {
    QApplication::setStyle(QStyleFactory::create(QStringLiteral("Fusion")));
    fusion = true;
  }
  QApplication::setFont(theme.ui);
  QApplication::setPalette(theme.palette());
  qApp->setStyleSheet(theme.styleSheet());
  // Qt does not tell everybody (same palette, style sheet in between), but role colours or sizes may have
  // changed too.
  for (QWidget* w : QApplication::allWidgets()) {
    QEvent event(QEvent::PaletteChange);
    QApplication::sendEvent(w, &event);
  }
}

QPalette Theme::palette() const {
  QPalette p;
  const auto all = [&](QPalette::ColorRole role, const QColor& c) { p.setColor(QPalette::All, role, c); };
  all(QPalette::Window, window);
  all(QPalette::WindowText, text);
  all(QPalette::Base, surface);
  all(QPalette::AlternateBase, header);
  all(QPalette::Text, text);
  all(QPalette::Button, surface);
  all(QPalette::ButtonText, text);
  all(QPalette::BrightText, error);
  all(QPalette::ToolTipBase, surface);
  all(QPalette::ToolTipText, text);
  all(QPalette::PlaceholderText, text3);
  all(QPalette::Highlight, selectionRow);
  all(QPalette::HighlightedText, selection);
  all(QPalette::Link, shared);
  all(QPalette::LinkVisited, shared);
  all(QPalette::Light, dark ? hoverFill : surface);
  all(QPalette::Midlight, header);
  all(QPalette::Mid, line);
  all(QPalette::Dark, lineStrong);
  all(QPalette::Shadow, dark ? QColor(0x050608) : lineStrong);
  for (const auto role :
       {QPalette::WindowText, QPalette::Text, QPalette::ButtonText, QPalette::HighlightedText})
    p.setColor(QPalette::Disabled, role, text3);
  return p;
}

QString Theme::styleSheet() const {
  QString sheet = QStringLiteral(R"(
QFrame[ui="panel"] { background: %surface; border: 1px solid %line; border-radius: 4px; }
QFrame[ui="card"] { background: %surface; border: 1px solid %line; border-radius: 6px; }
QFrame[ui="title"] { background: %header; border: none; border-bottom: 1px solid %line;
  border-top-left-radius: 4px; border-top-right-radius: 4px; }
QFrame[ui="bar"] { background: %surface; border: none; border-bottom: 1px solid %line; }
QFrame[ui="selection-bar"] { background: %header; border: none; border-bottom: 1px solid %line; }
QFrame[ui="status-bar"], QStatusBar { background: %header; border: none; border-top: 1px solid %line; }
QStatusBar::item { border: none; }
QFrame[ui="chip"] { background: %surface; border: 1px solid %line; border-radius: 4px; }
QFrame[ui="banner"] { background: %surface; border: 1px solid %error; border-left: 4px solid %error; border-radius: 4px; }
QFrame[ui="banner-warn"] { background: %surface; border: 1px solid %warn; border-left: 4px solid %warn; border-radius: 4px; }
QLabel[ui="text2"] { color: %text2; } QLabel[ui="text3"] { color: %text3; }
QLabel[ui="title"] { font-size: %titlepx; font-weight: 600; } QLabel[ui="semibold"] { font-weight: 600; }
QLabel[ui="error"] { color: %error; } QLabel[ui="warn"] { color: %warn; } QLabel[ui="ok"] { color: %ok; }
QPushButton, QToolButton[ui="button"] { background: %surface; color: %text; border: 1px solid %line; border-radius: 4px;
  padding: 0 10px; min-height: 24px; }
QPushButton:hover, QToolButton[ui="button"]:hover { background: %hoverfill; }
QPushButton:pressed, QToolButton[ui="button"]:pressed { background: %line; }
QPushButton:checked { background: %hoverfill; border-color: %linestrong; }
QPushButton:disabled, QToolButton:disabled { color: %text3; }
QPushButton:focus, QToolButton:focus { border: 2px solid %selection; padding: 0 9px; min-height: 22px; }
QPushButton[ui="primary"] { background: %ink; color: %onink; border: 1px solid %ink; font-weight: 600; }
QPushButton[ui="primary"]:hover { background: %inkhover; }
QPushButton[ui="primary"]:disabled { background: %line; border-color: %line; color: %text3; }
QPushButton[ui="quiet"], QToolButton[ui="quiet"] { background: transparent; color: %text2; border: 1px solid transparent;
  border-radius: 4px; padding: 0 4px; min-height: 20px; }
QPushButton[ui="quiet"]:hover, QToolButton[ui="quiet"]:hover { background: %hoverfill; }
QPushButton[ui="quiet"]:focus, QToolButton[ui="quiet"]:focus { border: 2px solid %selection; padding: 0 3px; min-height: 18px; }
QToolButton[ui="quiet"]::menu-indicator, QPushButton[ui="quiet"]::menu-indicator { image: none; width: 0; }
QPushButton[ui="segment"], QToolButton[ui="segment"] { background: %surface; color: %text; border: 1px solid %line;
  border-radius: 0; padding: 0 8px; min-height: 24px; }
QPushButton[ui="segment"]:hover, QToolButton[ui="segment"]:hover { background: %hoverfill; }
QPushButton[ui="segment"]:checked, QToolButton[ui="segment"]:checked { background: %ink; color: %onink; border-color: %ink; }
QPushButton[ui="segment"]:focus, QToolButton[ui="segment"]:focus { border: 2px solid %selection; padding: 0 7px; }
QPushButton[ui="chip"], QToolButton[ui="chip"] { background: %surface; color: %text; border: 1px solid %line; border-radius: 4px;
  padding: 0 8px; min-height: 26px; font-weight: 600; text-align: left; }
QPushButton[ui="chip"]:focus, QToolButton[ui="chip"]:focus { border: 2px solid %selection; padding: 0 7px; min-height: 24px; }
QToolButton[ui="stepper"] { background: transparent; border: none; border-radius: 3px; padding: 0; min-width: 16px; max-width: 16px;
  min-height: 20px; max-height: 20px; }
QToolButton[ui="stepper"]:hover { background: %hoverfill; }
QToolButton[ui="stepper"]:focus { border: 2px solid %selection; }
QTabWidget::pane { border: 1px solid %line; background: %surface; }
QTabBar { background: transparent; }
QTabBar::tab { background: %header; color: %text2; border: 1px solid transparent; border-bottom: 1px solid %line;
  padding: 5px 14px; min-height: 18px; }
QTabBar::tab:hover { background: %hoverfill; }
QTabBar::tab:selected { background: %surface; color: %text; font-weight: 600; border: 1px solid %line; border-bottom: none;
  border-top: 2px solid %selection; }
QTabBar::tab:focus { color: %selection; }
QMainWindow::separator { background: transparent; width: 6px; height: 6px; }
QMainWindow::separator:hover { background: %line; }
QMenuBar { background: %header; border: none; } QMenuBar::item { background: transparent; padding: 4px 10px; }
QMenuBar::item:selected { background: %hoverfill; }
QToolTip { background: %surface; color: %text; border: 1px solid %linestrong; padding: 4px 6px; }
)");
  const auto put = [&](const char* key, const QString& value) { sheet.replace(QLatin1String(key), value); };
  // Longer names first: %linestrong must not be read as %line.
  put("%surface", surface.name()), put("%linestrong", lineStrong.name()), put("%line", line.name());
  put("%header", header.name()), put("%text2", text2.name()), put("%text3", text3.name()),
      put("%text", text.name());
  put("%titlepx", QStringLiteral("%1px").arg(int(std::lround(base + 2))));
  put("%hoverfill", hoverFill.name()), put("%inkhover", mix(ink, surface, 0.85).name());
  put("%ink", ink.name()), put("%onink", onInk.name()), put("%selection", selection.name());
  put("%error", error.name()), put("%warn", warn.name()), put("%ok", ok.name());
  return sheet;
}

QColor Theme::roleColour(analysis::SlotClass c) const {
  switch (c) {
    case analysis::SlotClass::retrieval:
      return retrieval;
    case analysis::SlotClass::shared:
      return shared;
    case analysis::SlotClass::other:
      return other;
    case analysis::SlotClass::empty:
      break;
  }
  return surface;
}

QColor Theme::roleTextColour(analysis::SlotClass c) const {
  if (c == analysis::SlotClass::other) return otherText;
  return c == analysis::SlotClass::empty ? text2 : roleColour(c);
}

QColor Theme::regimeColour(analysis::Regime r) const {
  switch (r) {
    case analysis::Regime::long_range:
      return other;
    case analysis::Regime::intermediate:
      return shared;
    case analysis::Regime::short_range:
      return retrieval;
    case analysis::Regime::uniform:
      return timelineOther;
    case analysis::Regime::empty:
      break;
  }
  return surface;
}

QFont Theme::label() const { return sized(ui, base - 1); }
QFont Theme::micro() const { return sized(ui, std::max(10.0, base - 2)); }
QFont Theme::title() const { return sized(ui, base + 2, true); }
QFont Theme::semibold() const { return sized(ui, base, true); }
QFont Theme::labelSemibold() const { return sized(ui, base - 1, true); }

QColor mix(const QColor& a, const QColor& b, double share_of_a) {
  const auto f = [&](int x, int y) { return int(std::lround(x * share_of_a + y * (1 - share_of_a))); };
  return QColor(f(a.red(), b.red()), f(a.green(), b.green()), f(a.blue(), b.blue()));
}

double contrast(const QColor& a, const QColor& b) {
  const auto linear = [](double c) { return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4); };
  const auto luminance = [&](const QColor& c) {
    return 0.2126 * linear(c.redF()) + 0.7152 * linear(c.greenF()) + 0.0722 * linear(c.blueF());
  };
  const double x = luminance(a), y = luminance(b);
  return (std::max(x, y) + 0.05) / (std::min(x, y) + 0.05);
}

}  // namespace slotscope::views
