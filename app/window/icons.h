// The icons of resources/icons: 16 px grid, strokes in the text colour of the theme, so that light and dark
// share one file.
#pragma once

#include <QColor>
#include <QIcon>
#include <QPixmap>
#include <QString>

namespace slotscope::app {

// The icon's strokes in `colour`, `size` logical pixels square, sharp at `ratio` device pixels per pixel. An
// unknown name gives a null pixmap.
QPixmap iconPixmap(const QString& name, const QColor& colour, int size = 16, double ratio = 2);
// Normal state in `colour`, disabled state in the theme's third text colour.
QIcon icon(const QString& name, const QColor& colour, int size = 16);
// In the text colour of the current theme.
QIcon icon(const QString& name);

}  // namespace slotscope::app
