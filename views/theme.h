// Every colour and size of the program (design: sections 3 to 5). Views read it from Theme::current(); none has literals.
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
  QFont ui, fixed;       // body size B
  bool printRoles = false;

  static Theme light();
  static Theme darkTheme();
  static const Theme& current();
  // Sets the application's palette, style sheet and font, and makes `theme` current; views repaint on PaletteChange.
  static void apply(const Theme& theme);

  QPalette palette() const;
  QString styleSheet() const;
  QColor roleColour(analysis::SlotClass) const;
  QColor regimeColour(analysis::Regime) const;
  QFont label() const;   // B-1
  QFont micro() const;   // B-2, never below 10 px
  QFont title() const;   // 14 semibold
};

// Sequential maps: "cividis" (on paper in the light theme), "viridis", "magma", "batlow", "grey". 256 colours, low to high.
QVector<QRgb> colourMap(const QString& name, bool dark, bool reverse = false, bool softLowEnd = true);
QStringList colourMapNames();
QColor mix(const QColor& a, const QColor& b, double shareOfA);

}  // namespace slotscope::views
