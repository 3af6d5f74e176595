// Figures as files: sizes, markers in the last column, text and images of SVG and PDF, metadata, limits,
// refusals.
#include <sys/resource.h>
#include <QDir>
#include <QFile>
#include <QImageReader>
#include <QPainter>
#include <QProcess>
#include <QPushButton>
#include <QSignalSpy>
#include <QStandardPaths>
#include <QTemporaryDir>

#include <cmath>
#include <csignal>

#include "core/error.h"
#include "tests/views/demo.h"
#include "tests/views/view_test.h"
#include "views/allocation_view.h"
#include "views/esl_view.h"
#include "views/export.h"
#include "views/figure_dialog.h"

using namespace slotscope;
using namespace slotscope::views;

namespace {

// A map of `columns` x `rows` cells, one logical pixel each, drawn as one image; the last cell is magenta,
// the first one green.
Figure mapFigure(int columns, int rows) {
  auto image = std::make_shared<QImage>(columns, rows, QImage::Format_RGB32);
  for (int y = 0; y < rows; ++y) {
    auto* line = reinterpret_cast<QRgb*>(image->scanLine(y));
    for (int x = 0; x < columns; ++x) line[x] = qRgb((x * 7) & 255, (y * 11) & 255, (x ^ y) & 255);
  }
  image->setPixel(0, 0, qRgb(0, 255, 0));
  image->setPixel(columns - 1, rows - 1, qRgb(255, 0, 255));
  Figure figure;
  figure.paint = [image](QPainter& painter, const QRectF& area, const Theme& theme, const FigureOptions&) {
    painter.drawImage(QRectF(area.left(), area.top(), image->width(), image->height()), *image);
    painter.setPen(theme.text);
    painter.setFont(theme.label());
    if (area.height() > image->height() + 15)
      painter.drawText(QRectF(20, image->height(), 400, 20), int(Qt::AlignLeft | Qt::AlignVCenter),
                       QStringLiteral("token position Σs"));
  };
  figure.size = QSizeF(columns, rows + 20);
  figure.kind = QStringLiteral("map");
  figure.title = QStringLiteral("A map & its “name”");
  figure.csv = QStringLiteral("# model: demo\nx\n1\n");
  figure.facts = parseFacts(figure.csv);
  return figure;
}

QString errorOf(const std::function<void()>& f, Error::Kind* kind = nullptr) {
  try {
    f();
  } catch (const Error& e) {
    if (kind) *kind = e.kind();
    return QString::fromStdString(e.what());
  }
  return {};
}

QByteArray contents(const QString& path) {
  QFile file(path);
  return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
}

QString run(const QString& program, const QStringList& arguments) {
  QProcess process;
  process.start(program, arguments);
  if (!process.waitForFinished(60000)) return {};
  return QString::fromUtf8(process.readAllStandardOutput());
}

}  // namespace

class TestExport : public QObject {
  Q_OBJECT
  std::shared_ptr<const RunData> run_ = testing::demoRunData();
  std::shared_ptr<const analysis::HeadData> head_ = testing::demoHead(run_->info(), 3, 0);
  QTemporaryDir folder_;
  QString at(const QString& name) { return folder_.filePath(name); }

 private Q_SLOTS:
  void initTestCase() { QVERIFY(folder_.isValid()); }

  void pngBeyondThePaintersLimitHasItsLastColumn() {
    // B47: 256 slots x 40 000 tokens at 1 px a token.
    const Figure figure = mapFigure(40000, 256);
    ExportOptions options;
    options.dpi = 96;
    exportFigure(figure, at(QStringLiteral("wide.png")), options);
    QImageReader reader(at(QStringLiteral("wide.png")));
    reader.setAllocationLimit(0);
    const QImage image = reader.read();
    QCOMPARE(image.size(), QSize(40000, 276));
    QCOMPARE(image.pixel(39999, 255), qRgb(255, 0, 255));
    QCOMPARE(image.pixel(0, 0), qRgb(0, 255, 0));
    // Around every tile edge and beyond 32,767 the cells are the right ones.
    for (const int x : {8191, 8192, 16383, 16384, 24576, 32766, 32767, 32768, 32769, 39998})
      for (const int y : {0, 100, 255})
        QCOMPARE(image.pixel(x, y), qRgb((x * 7) & 255, (y * 11) & 255, (x ^ y) & 255));
    QCOMPARE(contents(at(QStringLiteral("wide.csv"))), figure.csv.toUtf8());
  }

  void pdfOfABigMapIsOneSmallLosslessImage() {
    const Figure figure = mapFigure(2000, 256);
    exportFigure(figure, at(QStringLiteral("map.pdf")), {});
    const auto size = QFileInfo(at(QStringLiteral("map.pdf"))).size();
    QVERIFY2(size > 1000 && size < 5'000'000, qPrintable(QString::number(size)));
    if (QStandardPaths::findExecutable(QStringLiteral("pdfimages")).isEmpty())
      QSKIP("pdfimages is not installed");
    const QString list =
        run(QStringLiteral("pdfimages"), {QStringLiteral("-list"), at(QStringLiteral("map.pdf"))});
    const auto lines = list.split(QLatin1Char('\n'), Qt::SkipEmptyParts);
    QCOMPARE(lines.size(), 3);  // two lines of heads, one image
    QVERIFY2(lines[2].contains(QStringLiteral("2000")) && lines[2].contains(QStringLiteral("image")),
             qPrintable(list));
    QVERIFY2(!lines[2].contains(QStringLiteral("jpeg")), qPrintable(list));
    run(QStringLiteral("pdfimages"),
        {QStringLiteral("-png"), at(QStringLiteral("map.pdf")), at(QStringLiteral("out"))});
    const QImage image(at(QStringLiteral("out-000.png")));
    QCOMPARE(image.size(), QSize(2000, 256));
    for (const int x : {0, 1, 999, 1999})
      for (const int y : {1, 128, 254})
        QCOMPARE(image.pixel(x, y), qRgb((x * 7) & 255, (y * 11) & 255, (x ^ y) & 255));
    QCOMPARE(image.pixel(1999, 255), qRgb(255, 0, 255));
    QVERIFY(run(QStringLiteral("pdftotext"), {at(QStringLiteral("map.pdf")), QStringLiteral("-")})
                .contains(QStringLiteral("token position Σs")));
    const QString info = run(QStringLiteral("pdfinfo"), {at(QStringLiteral("map.pdf"))});
    QVERIFY2(info.contains(QStringLiteral("A map & its “name”")), qPrintable(info));
    QVERIFY2(info.contains(QStringLiteral("model: demo")), qPrintable(info));
    QVERIFY2(info.contains(QStringLiteral("Pages:           1")), qPrintable(info));
    QVERIFY2(info.contains(QStringLiteral("1500 x 207 pts")), qPrintable(info));
  }

  void pngScalesTextAndLinesWithTheResolution() {
    SelectionModel selection;
    EslView view(&selection);
    view.setRun(run_);
    view.setHead(head_);
    ExportOptions options;
    options.dpi = 96;
    exportFigure(view, at(QStringLiteral("one.png")), options);
    options.dpi = 300;
    exportFigure(view, at(QStringLiteral("three.png")), options);
    const QImage one(at(QStringLiteral("one.png"))), three(at(QStringLiteral("three.png")));
    QCOMPARE(one.size(), QSize(640, 400));
    QCOMPARE(three.size(), QSize(2000, 1250));
    QCOMPARE(int(std::lround(three.dotsPerMeterX() * 0.0254)), 300);
    QCOMPARE(three.text(QStringLiteral("Title")),
             QStringLiteral("Slotscope esl · raven-passkey · password · 512 · layer 3 head 0"));
    QVERIFY2(three.text(QStringLiteral("Description")).contains(QStringLiteral("layer: 3; head: 0")),
             qPrintable(three.text(QStringLiteral("Description"))));
    // The same picture, so the same share of ink: nothing stayed thin, nothing was clipped.
    const auto ink = [](const QImage& image) {
      qint64 dark = 0;
      for (int y = 0; y < image.height(); ++y)
        for (int x = 0; x < image.width(); ++x) dark += 255 - qGray(image.pixel(x, y));
      return double(dark) / image.width() / image.height();
    };
    QVERIFY2(std::abs(ink(three) / ink(one) - 1) < 0.05,
             qPrintable(QStringLiteral("%1 %2").arg(ink(one)).arg(ink(three))));
    // CSV beside it, the same as the view's.
    QCOMPARE(contents(at(QStringLiteral("one.csv"))), view.csv().toUtf8());
  }

  void svgKeepsText() {
    SelectionModel selection;
    EslView view(&selection);
    view.setRun(run_);
    view.setHead(head_);
    exportFigure(view, at(QStringLiteral("esl.svg")), {});
    const QString svg = QString::fromUtf8(contents(at(QStringLiteral("esl.svg"))));
    QVERIFY(svg.contains(QStringLiteral("<text")));
    QVERIFY(svg.contains(QStringLiteral("normalised ESL")));
    QVERIFY(svg.contains(QStringLiteral("<title>Slotscope esl")));
    QVERIFY(svg.contains(QStringLiteral("<desc>model: raven-passkey")));
    QVERIFY(!svg.contains(QStringLiteral("<image")));
    // Angle brackets and ampersands of names stay text.
    Figure figure = mapFigure(20, 20);
    figure.title = QStringLiteral("a < b & c");
    exportFigure(figure, at(QStringLiteral("names.svg")), {.csv = false});
    QVERIFY2(QString::fromUtf8(contents(at(QStringLiteral("names.svg"))))
                 .contains(QStringLiteral("a &lt; b &amp; c")),
             contents(at(QStringLiteral("names.svg"))).left(600));
  }

  void selectionIsOffAndLightByDefault() {
    SelectionModel selection;
    selection.setLimits(1, 4, 4, 64, 520);
    selection.request({.layer = 3, .head = 0, .slot = head_->esl.order[30]});
    AllocationView view(&selection);
    view.setRun(run_);
    const auto magenta = [](const QImage& image, const QColor& colour) {
      int n = 0;
      for (int y = 0; y < image.height(); ++y)
        for (int x = 0; x < image.width(); ++x) n += image.pixelColor(x, y).rgb() == colour.rgb();
      return n;
    };
    ExportOptions options;
    options.dpi = 96;
    exportFigure(view, at(QStringLiteral("plain.png")), options);
    options.figure.selection = true;
    exportFigure(view, at(QStringLiteral("marked.png")), options);
    QCOMPARE(magenta(QImage(at(QStringLiteral("plain.png"))), Theme::light().selection), 0);
    QVERIFY(magenta(QImage(at(QStringLiteral("marked.png"))), Theme::light().selection) > 100);
    Theme::apply(testing::pictureTheme(true));
    exportFigure(view, at(QStringLiteral("from-dark.png")), {.dpi = 96});
    QCOMPARE(QImage(at(QStringLiteral("from-dark.png"))).pixelColor(2, 2).name(), QStringLiteral("#ffffff"));
    exportFigure(view, at(QStringLiteral("dark.png")), {.dpi = 96, .dark = true});
    QCOMPARE(QImage(at(QStringLiteral("dark.png"))).pixelColor(2, 2).name(),
             Theme::darkTheme().surface.name());
    Theme::apply(testing::pictureTheme());
  }

  void existingFilesAreRefused() {
    const QString path = at(QStringLiteral("keep.png"));
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write("mine");
    file.close();
    const Figure figure = mapFigure(20, 20);
    const QString text = errorOf([&] { exportFigure(figure, path, {}); });
    QVERIFY2(text.contains(QStringLiteral("keep.png")) && text.contains(QStringLiteral("exists")),
             qPrintable(text));
    QCOMPARE(contents(path), QByteArray("mine"));
    exportFigure(figure, path, {.force = true});
    QVERIFY(contents(path).startsWith("\x89PNG"));
    // The CSV beside a new figure counts too, and nothing is half done.
    QFile::remove(path);
    QVERIFY(errorOf([&] { exportFigure(figure, path, {}); }).contains(QStringLiteral("keep.csv")));
    QVERIFY(!QFile::exists(path));
  }

  void limitsComeBeforeWriting() {
    Figure figure = mapFigure(100, 20);
    int painted = 0;
    figure.paint = [&](QPainter&, const QRectF&, const Theme&, const FigureOptions&) { ++painted; };
    const QString path = at(QStringLiteral("huge.png"));
    Error::Kind kind = Error::Kind::input;
    ExportOptions options;
    options.size = {100000, 100000};
    options.dpi = 96;
    const QString text = errorOf([&] { exportFigure(figure, path, options); }, &kind);
    QVERIFY2(text.contains(QStringLiteral("100000 x 100000")) && text.contains(QStringLiteral("400 million")),
             qPrintable(text));
    QVERIFY(kind == Error::Kind::usage);
    options.size = {std::nan(""), 10};
    QVERIFY(errorOf([&] { exportFigure(figure, path, options); }).contains(QStringLiteral("size")));
    options.size = {10, 10};
    QVERIFY(errorOf([&] { exportFigure(figure, path, options); }).contains(QStringLiteral("16")));
    options.size = {};
    options.dpi = -1;
    QVERIFY(errorOf([&] { exportFigure(figure, path, options); }).contains(QStringLiteral("dpi")));
    options.dpi = std::nan("");
    QVERIFY(errorOf([&] { exportFigure(figure, path, options); }).contains(QStringLiteral("dpi")));
    QCOMPARE(painted, 0);
    QVERIFY(!QFile::exists(path));
  }

  void badPathsAreNamed() {
    const Figure figure = mapFigure(20, 20);
    Error::Kind kind = Error::Kind::input;
    QString text = errorOf([&] { exportFigure(figure, at(QStringLiteral("figure.bmp")), {}); }, &kind);
    QVERIFY2(
        text.contains(QStringLiteral(".bmp")) && text.contains(QStringLiteral(".png, .svg, .pdf or .csv")),
        qPrintable(text));
    QVERIFY(kind == Error::Kind::usage);
    text = errorOf([&] { exportFigure(figure, at(QStringLiteral("no/such/folder/f.png")), {}); });
    QVERIFY2(text.contains(QStringLiteral("does not exist")), qPrintable(text));
    for (const char* suffix : {"png", "svg", "pdf", "csv"}) {
      // A place where nothing can be created, whoever asks.
      QFile::link(QStringLiteral("/proc/1/no"), at(QStringLiteral("dangling.") + QLatin1String(suffix)));
      text = errorOf([&] {
        exportFigure(figure, at(QStringLiteral("dangling.") + QLatin1String(suffix)), {.csv = false});
      });
      QVERIFY2(!text.isEmpty(), suffix);
    }
    Figure empty = figure;
    empty.csv.clear();
    QVERIFY(errorOf([&] {
              exportFigure(empty, at(QStringLiteral("empty.csv")), {});
            }).contains(QStringLiteral("no data")));
  }

  void aFullDiskLeavesTheOldFile() {
    const Figure figure = mapFigure(300, 300);
    rlimit before{};
    QCOMPARE(getrlimit(RLIMIT_FSIZE, &before), 0);
    std::signal(SIGXFSZ, SIG_IGN);
    for (const char* suffix : {"png", "svg", "pdf"}) {
      const QString path = at(QStringLiteral("old.") + QLatin1String(suffix));
      QFile file(path);
      QVERIFY(file.open(QIODevice::WriteOnly));
      file.write("old");
      file.close();
      rlimit small = before;
      small.rlim_cur = 2000;
      QCOMPARE(setrlimit(RLIMIT_FSIZE, &small), 0);
      const QString text = errorOf([&] { exportFigure(figure, path, {.force = true, .csv = false}); });
      QCOMPARE(setrlimit(RLIMIT_FSIZE, &before), 0);
      QVERIFY2(text.contains(QStringLiteral("old.")),
               qPrintable(QLatin1String(suffix) + QLatin1Char(':') + text +
                          QString::number(QFileInfo(path).size())));
      QCOMPARE(contents(path), QByteArray("old"));
    }
    std::signal(SIGXFSZ, SIG_DFL);
    QCOMPARE(QDir(folder_.path()).entryList({QStringLiteral("old.*")}, QDir::Files).size(),
             3);  // and no half file beside it
  }

  void factsSurviveTheRoundTrip() {
    const Facts facts{{QStringLiteral("prompt"), QStringLiteral("two\nlines: with colon")},
                      {QStringLiteral("layer"), QStringLiteral("3")}};
    const QString csv = factLines(facts) + QStringLiteral("a,b\n# not: a fact\n");
    const Facts back = parseFacts(csv);
    QCOMPARE(back.size(), 2);
    QCOMPARE(back[0].second, QStringLiteral("two lines: with colon"));
    QCOMPARE(csvField(QStringLiteral("a,\"b\"")), QStringLiteral("\"a,\"\"b\"\"\""));
    QCOMPARE(csvNumber(0.1), QStringLiteral("0.1"));
    QCOMPARE(csvNumber(std::nan("")), QString());
    QCOMPARE(csvNumber(-INFINITY), QStringLiteral("-inf"));
    QCOMPARE(csvNumber(1.0 / 3).toDouble(), 1.0 / 3);
  }

  void dialogOffersAndWrites() {
    SelectionModel selection;
    EslView esl(&selection);
    AllocationView allocation(&selection);
    esl.setRun(run_);
    esl.setHead(head_);
    allocation.setRun(run_);
    FigureDialog dialog({{QStringLiteral("ESL"), &esl}, {QStringLiteral("Allocation"), &allocation}}, &esl);
    dialog.setFolder(folder_.path());
    QVERIFY2(dialog.path().endsWith(QStringLiteral("raven-passkey-esl-L3H0.pdf")), qPrintable(dialog.path()));
    QCOMPARE(dialog.options().size, esl.figureSize());
    QCOMPARE(dialog.options().dark, false);
    QCOMPARE(dialog.options().figure.selection, false);
    QSignalSpy written(&dialog, &FigureDialog::exported);
    dialog.show();
    for (auto* button : dialog.findChildren<QPushButton*>())
      if (button->text() == QStringLiteral("Save")) QTest::mouseClick(button, Qt::LeftButton);
    QCOMPARE(written.count(), 1);
    const auto files = written[0][0].toStringList();
    QCOMPARE(files.size(), 2);
    for (const auto& file : files) QVERIFY(QFileInfo(file).size() > 500);
  }
};

SLOTSCOPE_VIEW_TEST(TestExport)
#include "test_export.moc"
