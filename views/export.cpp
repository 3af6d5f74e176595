#include "views/export.h"

#include <QBuffer>
#include <QDir>
#include <QFileInfo>
#include <QGuiApplication>
#include <QImageWriter>
#include <QPageSize>
#include <QPainter>
#include <QPdfWriter>
#include <QSaveFile>
#include <QSvgGenerator>
#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "views/qcp.h"

namespace slotscope::views {

namespace {

std::string utf8(const QString& s) { return s.toStdString(); }

[[noreturn]] void fail(const QString& file, const QString& item, const QString& found,
                       const QString& expected, const QString& advice,
                       Error::Kind kind = Error::Kind::input) {
  throw Error({.file = utf8(file),
               .item = utf8(item),
               .found = utf8(found),
               .expected = utf8(expected),
               .advice = utf8(advice)},
              kind);
}

Theme figureTheme(const ExportOptions& options) {
  Theme theme = options.dark ? Theme::darkTheme() : Theme::light();
  const Theme& now = Theme::current();
  theme.ui = now.ui;
  theme.fixed = now.fixed;
  if (now.printRoles) theme.setPrintRoles(true);
  theme.setBase(12 * options.figure.scale);
  // Glyph advances as designed, so that the layout is the same at every resolution and in every format.
  theme.ui.setHintingPreference(QFont::PreferNoHinting);
  theme.fixed.setHintingPreference(QFont::PreferNoHinting);
  return theme;
}

QSizeF figureSize(const Figure& figure, const ExportOptions& options) {
  const QSizeF size = options.size.isEmpty() ? figure.size : options.size;
  if (!(size.width() >= 16 && size.height() >= 16 && size.width() <= 1e6 && size.height() <= 1e6))
    fail({}, QStringLiteral("size"), QStringLiteral("%1 x %2").arg(size.width()).arg(size.height()),
         QStringLiteral("16 to 1 000 000 logical pixels each way"),
         QStringLiteral("Give a width and a height at 96 dpi."), Error::Kind::usage);
  return size;
}

QString describe(const Facts& facts) {
  QStringList lines;
  for (const auto& [key, value] : facts) lines << key + QStringLiteral(": ") + value;
  return lines.join(QStringLiteral("; "));
}

void paint(QPainter& painter, const Figure& figure, const QSizeF& size, const ExportOptions& options) {
  const Theme theme = figureTheme(options);
  painter.setRenderHint(QPainter::TextAntialiasing);
  painter.setRenderHint(QPainter::SmoothPixmapTransform, false);
  painter.fillRect(QRectF(QPointF(0, 0), size), theme.surface);
  FigureOptions figure_options = options.figure;
  figure_options.scale = 1;  // the theme is scaled already
  figure.paint(painter, QRectF(QPointF(0, 0), size), theme, figure_options);
}

// Draws into a picture of any size: the raster engine draws nothing beyond 32,767 device pixels, so larger
// pictures are drawn tile by tile, each with its own small coordinates, straight into the one picture's
// memory.
void paintTiles(QImage& image, const Figure& figure, const QSizeF& size, double scale_x, double scale_y,
                const ExportOptions& options) {
  constexpr int kTile = 8192;
  const Theme theme = figureTheme(options);
  image.fill(theme.surface);
  for (int y = 0; y < image.height(); y += kTile)
    for (int x = 0; x < image.width(); x += kTile) {
      const int w = std::min(kTile, image.width() - x), h = std::min(kTile, image.height() - y);
      QImage tile(image.bits() + qsizetype(y) * image.bytesPerLine() + qsizetype(x) * 4, w, h,
                  image.bytesPerLine(), image.format());
      QCPPainter painter(&tile);
      painter.setMode(QCPPainter::pmNoCaching);
      painter.translate(-x, -y);
      painter.scale(scale_x, scale_y);
      // A little more than the tile: views skip what lies outside.
      painter.setClipRect(QRectF((x - 1) / scale_x, (y - 1) / scale_y, (w + 2) / scale_x, (h + 2) / scale_y));
      paint(painter, figure, size, options);
    }
}

void commit(QSaveFile& file, const QString& path) {
  if (!file.commit())
    fail(path, QStringLiteral("figure"), file.errorString(), QStringLiteral("a file that can be written"),
         QStringLiteral("Choose another folder or free some space."));
}

void open(QSaveFile& file, const QString& path) {
  // Unbuffered: a buffer that a full disk takes half of is flushed without an error (Qt 6.4), and the stump
  // would be kept.
  if (!file.open(QIODevice::WriteOnly | QIODevice::Unbuffered))
    fail(path, QStringLiteral("figure"), file.errorString(),
         QStringLiteral("a folder that can be written to"), QStringLiteral("Choose another folder."));
}

void writeAll(QSaveFile& file, const QByteArray& data, const QString& path) {
  if (file.write(data) != data.size())
    fail(path, QStringLiteral("figure"), file.errorString(),
         QStringLiteral("%1 bytes written").arg(data.size()), QStringLiteral("Free some space."));
}

void writePng(const Figure& figure, const QString& path, const ExportOptions& options) {
  const QSize pixels = pngSize(figure, options);
  const QSizeF size = figureSize(figure, options);
  QImage image(pixels, QImage::Format_RGB32);
  if (image.isNull())
    fail(path, QStringLiteral("picture"),
         QStringLiteral("not enough memory for %1 x %2 pixels").arg(pixels.width()).arg(pixels.height()),
         QStringLiteral("%1 MB").arg(qint64(pixels.width()) * pixels.height() / 250'000),
         QStringLiteral("Lower the resolution, or write PDF or SVG."));
  paintTiles(image, figure, size, pixels.width() / size.width(), pixels.height() / size.height(), options);
  image.setDotsPerMeterX(int(std::lround(options.dpi / 0.0254)));
  image.setDotsPerMeterY(int(std::lround(options.dpi / 0.0254)));
  QSaveFile file(path);
  open(file, path);
  QImageWriter writer(&file, "png");
  writer.setText(QStringLiteral("Software"), QStringLiteral("Slotscope"));
  if (!figure.title.isEmpty()) writer.setText(QStringLiteral("Title"), figure.title);
  if (!figure.facts.isEmpty()) writer.setText(QStringLiteral("Description"), describe(figure.facts));
  if (!writer.write(image))
    fail(path, QStringLiteral("picture"), writer.errorString(), QStringLiteral("a PNG file"),
         QStringLiteral("Free some space or choose another folder."));
  commit(file, path);
}

QByteArray pdfText(const QString& text) {
  // UTF-16BE with byte order mark, as hexadecimal string.
  QByteArray out("<FEFF");
  for (const QChar c : text) out += QByteArray::number(c.unicode(), 16).rightJustified(4, '0').toUpper();
  return out + ">";
}

// Adds /Subject, /Keywords and /Producer-independent facts to a finished PDF by an incremental update (ISO
// 32000-1, 7.5.6): the writer of Qt 6.4 sets title and creator only. Leaves the data as they are when they do
// not look as expected.
QByteArray withSubject(QByteArray pdf, const Figure& figure) {
  const auto start = pdf.lastIndexOf("startxref");
  const auto trailer = pdf.lastIndexOf("trailer");
  if (start < 0 || trailer < 0) return pdf;
  const qint64 previous = pdf.mid(start + 9).trimmed().split('\n').value(0).trimmed().toLongLong();
  const QByteArray dictionary = pdf.mid(trailer, start - trailer);
  const auto number = [&](const QByteArray& key) {
    const auto at = dictionary.indexOf(key);
    return at < 0
               ? -1
               : dictionary.mid(at + key.size()).trimmed().split(' ').value(0).split('\n').value(0).toInt();
  };
  const int size = number("/Size"), root = number("/Root"), info = number("/Info");
  if (size <= 0 || root <= 0 || info <= 0 || previous <= 0) return pdf;
  if (!pdf.endsWith('\n')) pdf += '\n';
  const auto at = pdf.size();
  pdf += QByteArray::number(info) + " 0 obj\n<<\n/Title " + pdfText(figure.title) + "\n/Subject " +
         pdfText(describe(figure.facts)) + "\n/Creator " + pdfText(QStringLiteral("Slotscope")) +
         "\n/Producer " + pdfText(QStringLiteral("Qt ") + QString::fromLatin1(qVersion())) + "\n>>\nendobj\n";
  const auto table = pdf.size();
  pdf += "xref\n" + QByteArray::number(info) + " 1\n" + QByteArray::number(at).rightJustified(10, '0') +
         " 00000 n \ntrailer\n<<\n/Size " + QByteArray::number(size) + "\n/Root " + QByteArray::number(root) +
         " 0 R\n/Info " + QByteArray::number(info) + " 0 R\n/Prev " + QByteArray::number(previous) +
         "\n>>\nstartxref\n" + QByteArray::number(table) + "\n%%EOF\n";
  return pdf;
}

void writePdf(const Figure& figure, const QString& path, const ExportOptions& options) {
  const QSizeF size = figureSize(figure, options);
  QBuffer buffer;
  buffer.open(QIODevice::WriteOnly);
  {
    QPdfWriter writer(&buffer);
    writer.setTitle(figure.title);
    writer.setCreator(QStringLiteral("Slotscope"));
    writer.setPageSize(
        QPageSize(size * 0.75, QPageSize::Point, {}, QPageSize::ExactMatch));  // 96 dpi to points
    writer.setPageMargins(QMarginsF(0, 0, 0, 0));
    writer.setResolution(96 * 10);
    QCPPainter painter;
    if (!painter.begin(&writer))
      fail(path, QStringLiteral("figure"), QStringLiteral("no PDF page"),
           QStringLiteral("%1 x %2 points").arg(size.width() * 0.75).arg(size.height() * 0.75),
           QStringLiteral("Choose a smaller size."));
    painter.setMode(QCPPainter::pmVectorized);
    painter.setMode(QCPPainter::pmNoCaching);
    painter.setRenderHint(QPainter::LosslessImageRendering);
    painter.scale(10, 10);
    paint(painter, figure, size, options);
  }
  QSaveFile file(path);
  open(file, path);
  writeAll(file, withSubject(buffer.data(), figure), path);
  commit(file, path);
}

void writeSvg(const Figure& figure, const QString& path, const ExportOptions& options) {
  const QSizeF size = figureSize(figure, options);
  QBuffer buffer;
  buffer.open(QIODevice::WriteOnly);
  QSvgGenerator generator;
  generator.setOutputDevice(&buffer);
  generator.setSize(QSize(int(std::ceil(size.width())), int(std::ceil(size.height()))));
  generator.setViewBox(QRectF(QPointF(0, 0), size));
  generator.setResolution(96);
  generator.setTitle(figure.title.toHtmlEscaped());
  generator.setDescription(describe(figure.facts).toHtmlEscaped());
  {
    QCPPainter painter;
    painter.begin(&generator);
    painter.setMode(QCPPainter::pmVectorized);
    painter.setMode(QCPPainter::pmNoCaching);
    painter.setRenderHint(QPainter::LosslessImageRendering);
    paint(painter, figure, size, options);
  }
  QSaveFile file(path);
  open(file, path);
  writeAll(file, buffer.data(), path);
  commit(file, path);
}

void writeCsv(const Figure& figure, const QString& path) {
  QSaveFile file(path);
  open(file, path);
  writeAll(file, figure.csv.toUtf8(), path);
  commit(file, path);
}

void refuseExisting(const QString& path, const ExportOptions& options) {
  if (!options.force && QFileInfo::exists(path))
    fail(path, QStringLiteral("figure"), QStringLiteral("the file exists"), QStringLiteral("a new name"),
         QStringLiteral("Choose another name, or force to replace it."));
  if (QFileInfo(path).isDir())
    fail(path, QStringLiteral("figure"), QStringLiteral("a folder"), QStringLiteral("a file name"),
         QStringLiteral("Add a file name."));
  const QFileInfo folder(QFileInfo(path).absolutePath());
  if (!folder.isDir())
    fail(path, QStringLiteral("folder"), folder.filePath() + QStringLiteral(" does not exist"),
         QStringLiteral("an existing folder"), QStringLiteral("Create it or choose another one."));
}

}  // namespace

Figure figureOf(View& view) {
  Figure figure;
  figure.paint = [&view](QPainter& painter, const QRectF& area, const Theme& theme,
                         const FigureOptions& options) { view.paintFigure(painter, area, theme, options); };
  figure.size = view.figureSize();
  figure.kind = view.figureKind();
  figure.csv = view.csv();
  figure.facts = parseFacts(figure.csv);
  QStringList parts{QStringLiteral("Slotscope ") + figure.kind};
  if (const auto run = view.runData()) {
    parts << run->model_name;
    if (hasInfo(*run)) parts << QString::fromStdString(run->info().name);
  }
  if (const auto head = view.headData())
    parts << QStringLiteral("layer %1 head %2").arg(head->layer).arg(head->head);
  figure.title = parts.join(QStringLiteral(" · "));
  return figure;
}

QSize pngSize(const Figure& figure, const ExportOptions& options) {
  const QSizeF size = figureSize(figure, options);
  if (!(options.dpi >= 10 && options.dpi <= 10'000))
    fail({}, QStringLiteral("dpi"), QString::number(options.dpi), QStringLiteral("10 to 10 000"),
         QStringLiteral("Journals ask for 300 or 600."), Error::Kind::usage);
  const double width = std::round(size.width() * options.dpi / 96),
               height = std::round(size.height() * options.dpi / 96);
  if (width > kLargestPngSide || height > kLargestPngSide || width * height > double(kLargestPngPixels))
    fail({}, QStringLiteral("picture"),
         QStringLiteral("%1 x %2 pixels").arg(width, 0, 'f', 0).arg(height, 0, 'f', 0),
         QStringLiteral("at most %1 pixels each way and %2 million in all")
             .arg(kLargestPngSide)
             .arg(kLargestPngPixels / 1'000'000),
         QStringLiteral("Lower the resolution or the size, or write PDF or SVG."), Error::Kind::usage);
  return {std::max(1, int(width)), std::max(1, int(height))};
}

QStringList exportFigure(const Figure& figure, const QString& path, const ExportOptions& options) {
  const QString suffix = QFileInfo(path).suffix().toLower();
  static const QStringList known{QStringLiteral("png"), QStringLiteral("svg"), QStringLiteral("pdf"),
                                 QStringLiteral("csv")};
  if (!known.contains(suffix))
    fail(path, QStringLiteral("format"),
         suffix.isEmpty() ? QStringLiteral("no suffix") : QStringLiteral("'.%1'").arg(suffix),
         QStringLiteral(".png, .svg, .pdf or .csv"), QStringLiteral("Give the file one of these suffixes."),
         Error::Kind::usage);
  const QFileInfo info(path);
  const QString beside = info.dir().filePath(info.completeBaseName() + QStringLiteral(".csv"));
  const bool with_csv = suffix != QLatin1String("csv") && options.csv && !figure.csv.isEmpty();
  // Everything that can be refused is refused before the first byte is written.
  refuseExisting(path, options);
  if (with_csv) refuseExisting(beside, options);
  figureSize(figure, options);
  if (suffix == QLatin1String("png")) pngSize(figure, options);
  if (suffix == QLatin1String("csv") && figure.csv.isEmpty())
    fail(path, QStringLiteral("figure"), QStringLiteral("no data"), QStringLiteral("a figure with data"),
         QStringLiteral("Open a run first."));

  if (suffix == QLatin1String("png")) writePng(figure, path, options);
  if (suffix == QLatin1String("svg")) writeSvg(figure, path, options);
  if (suffix == QLatin1String("pdf")) writePdf(figure, path, options);
  if (suffix == QLatin1String("csv")) writeCsv(figure, path);
  QStringList written{path};
  if (with_csv) {
    writeCsv(figure, beside);
    written << beside;
  }
  return written;
}

QStringList exportFigure(View& view, const QString& path, const ExportOptions& options) {
  return exportFigure(figureOf(view), path, options);
}

QImage renderFigure(const Figure& figure, const ExportOptions& options, const QSize& pixels) {
  const QSizeF size = figureSize(figure, options);
  QImage image(pixels.boundedTo({32767, 32767}).expandedTo({1, 1}), QImage::Format_RGB32);
  if (image.isNull()) return image;
  paintTiles(image, figure, size, image.width() / size.width(), image.height() / size.height(), options);
  return image;
}

}  // namespace slotscope::views
