// Every colour and size of the program (design: sections 3 to 5). Views read it from Theme::current(); none
// has literals.
#pragma once

#include <QColor>
#include <QFont>
#include <QPalette>
#include <QString>
#include <QVector>

#include "core/analysis/allocation.h"
#include "core/analysis/esl.h"

namespace slotscope::views {

struct Theme {
  bool dark = false;
  QColor window, surface, plot, header, line, lineStrong, text, text2, text3, ink, onInk, ok, warn, error;
  QColor selection, selectionChipText, selectionRow, hover, hoverFill;
  QColor retrieval, shared, other, otherText, fit, modelA, modelB;
  QColor spanWash, separator, timelineOther, nan;
  QFont ui, fixed;   // body size B
  double base = 12;  // B in logical pixels
  bool printRoles = false;

  static Theme light();
  static Theme darkTheme();
  // The theme in force. light() until apply() was called.
  static const Theme& current();
  // Sets the application's palette, style sheet and font, and makes `theme` current; views repaint on
  // PaletteChange.
  static void apply(const Theme& theme);

  // Role colours as printed in the paper (not colour-blind safe), or our own again.
  void setPrintRoles(bool on);
  // Text size B: View > Text size is 12 x (0.8 .. 2).
  void setBase(double pixels);
  // Other font families than the system's; pictures use "DejaVu Sans", "DejaVu Sans Mono". Empty keeps what
  // is there.
  void setFamilies(const QString& ui_family, const QString& fixed_family);

  QPalette palette() const;
  // The sheet styles frames and buttons by the dynamic property "ui", to be set before a widget is shown:
  //   QFrame  "panel" (surface, border, radius 4), "title" (dock title bar), "bar" (view bar),
  //   "selection-bar", "status-bar",
  //           "chip" (selection bar chip), "card", "banner", "banner-warn"
  //   QAbstractButton  none (bordered, 26 high), "primary", "quiet" (no border), "segment" (checked = ink),
  //   "chip", "stepper" QLabel  "text2", "text3", "title", "semibold", "error", "warn", "ok"
  QString styleSheet() const;
  QColor roleColour(analysis::SlotClass) const;
  QColor regimeColour(analysis::Regime) const;
  QFont label() const;                               // B-1
  QFont micro() const;                               // B-2, never below 10 px
  QFont title() const;                               // B+2 semibold
  QFont semibold() const;                            // B semibold
  QFont labelSemibold() const;                       // B-1 semibold
  QColor roleTextColour(analysis::SlotClass) const;  // as roleColour(), dark enough for text
};

inline bool operator==(const Theme& a, const Theme& b) {
  return a.dark == b.dark && a.printRoles == b.printRoles && a.ui == b.ui && a.fixed == b.fixed;
}

// Sequential maps: "cividis" (on paper in the light theme), "viridis", "magma", "batlow", "grey". 256
// colours, low to high; more = further from the background, so light themes run from pale to dark and dark
// ones from dark to pale. softLowEnd keeps thousands of weak values quiet, yet different from "not routed". A
// value that is not an amount (value fields) uses colourMap("viridis", true, false, false) in both themes.
// Unknown names give cividis.
QVector<QRgb> colourMap(const QString& name, bool dark, bool reverse = false, bool softLowEnd = true);
QStringList colourMapNames();
// Differences, zero-centred: 256 colours from model B's end (brown) to model A's (teal).
QVector<QRgb> divergingMap(bool dark);
// WCAG contrast ratio, 1..21.
double contrast(const QColor& a, const QColor& b);
QColor mix(const QColor& a, const QColor& b, double shareOfA);

}  // namespace slotscope::views
