// Figures as files: PNG at a chosen resolution, SVG and PDF with text as text, CSV. Needs a QGuiApplication
// (offscreen will do).
#pragma once

#include <QSizeF>
#include <QString>
#include <QStringList>
#include <functional>

#include "views/caption.h"

namespace slotscope::views {

struct ExportOptions {
  double dpi = 300;      // PNG only: pixels = size x dpi / 96
  QSizeF size;           // logical pixels at 96 dpi; empty: the figure's natural size
  bool dark = false;     // figures are light unless asked otherwise
  bool force = false;    // replace existing files
  bool csv = true;       // the data beside the figure: NAME.csv
  FigureOptions figure;  // selection marks off, caption on
};

// Anything that can be drawn.
struct Figure {
  std::function<void(QPainter&, const QRectF&, const Theme&, const FigureOptions&)> paint;
  QSizeF size{640, 400};
  QString kind, title;
  QString csv;  // may be empty
  Facts facts;  // goes into the file's metadata
};
Figure figureOf(View& view);

// Limits checked before anything is drawn or written.
constexpr int kLargestPngSide = 1'000'000;         // what PNG readers accept
constexpr qint64 kLargestPngPixels = 400'000'000;  // 1.6 GB while drawing
QSize pngSize(const Figure& figure, const ExportOptions& options);

// Writes `path` by its suffix (png, svg, pdf, csv) and, unless csv = false, NAME.csv beside it. Each file is
// written under another name and renamed, so a failure leaves what was there. Returns the paths written.
// Throws slotscope::Error: unknown suffix or bad size (usage), existing file without force, too large, cannot
// write (names the file, the sizes and a way out).
QStringList exportFigure(const Figure& figure, const QString& path, const ExportOptions& options);
QStringList exportFigure(View& view, const QString& path, const ExportOptions& options);

// The figure as a picture of the given pixel size for previews and the clipboard; at most 32,767 wide and
// high.
QImage renderFigure(const Figure& figure, const ExportOptions& options, const QSize& pixels);

}  // namespace slotscope::views
