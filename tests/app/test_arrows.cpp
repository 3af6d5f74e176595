// Arrows go one way: app -> views -> core -> kernels. Looked at in what the programs really load (spec:
// architecture).
#include <QFile>
#include <QProcess>
#include <QRegularExpression>

#include "tests/app/window_test.h"

using namespace slotscope::testing;

class TestArrows : public QObject {
  Q_OBJECT

  // Names of the shared libraries that a program or module asks for itself.
  static QStringList needed(const QString& name) {
    QProcess process;
    process.start("readelf", {"-d", QCoreApplication::applicationDirPath() + "/" + name});
    if (!process.waitForFinished(30'000) || process.exitCode() != 0) return {};
    QStringList libraries;
    const QRegularExpression line("\\(NEEDED\\).*\\[(.+)\\]");
    for (const QString& text : QString::fromUtf8(process.readAllStandardOutput()).split('\n'))
      if (const auto match = line.match(text); match.hasMatch()) libraries << match.captured(1);
    return libraries;
  }
  static bool any(const QStringList& libraries, const char* part) {
    return std::any_of(libraries.begin(), libraries.end(),
                       [&](const QString& l) { return l.contains(part, Qt::CaseInsensitive); });
  }

 private Q_SLOTS:
  void theDesktopProgramLoadsNoLibTorch() {
    const QStringList l = needed("slotscope");
    QVERIFY(any(l, "libQt6Widgets"));
    for (const char* part : {"torch", "c10", "cuda", "cudart"}) QVERIFY2(!any(l, part), part);
  }

  void theEngineModuleLoadsNoQt() {
    const QStringList l = needed("slotscope-engine.so");
    QVERIFY(any(l, "libtorch"));
    QVERIFY(!any(l, "Qt6"));
  }

  void theHeadlessProgramLoadsNoQt() {
    const QStringList l = needed("slotscope-cli");
    QVERIFY(any(l, "libtorch"));
    for (const char* part : {"Qt6", "QCustomPlot", "libX11"}) QVERIFY2(!any(l, part), part);
  }

  void includesGoOneWay_data() {
    QTest::addColumn<QString>("folder");
    QTest::addColumn<QString>("forbidden");
    QTest::newRow("core") << "core"
                          << "\"(app|views)/|<Q[A-Z]|qcustomplot";
    QTest::newRow("formats, no torch") << "core/formats"
                                       << "<(ATen|torch|c10)/|\"core/(engine|trace|analysis)/|\"kernels/";
    QTest::newRow("trace, no torch") << "core/trace"
                                     << "<(ATen|torch|c10)/|\"core/(engine|analysis)/";
    QTest::newRow("analysis, no torch") << "core/analysis"
                                        << "<(ATen|torch|c10)/|\"core/engine/";
    QTest::newRow("kernels") << "kernels"
                             << "\"(app|views|core)/|<(ATen|torch)/|<Q[A-Z]";
    QTest::newRow("views") << "views"
                           << "\"app/|<(ATen|torch|c10)/|\"core/engine/";
    QTest::newRow("app") << "app"
                         << "<(ATen|torch|c10)/|<qcustomplot";
    QTest::newRow("headless app") << "app/cli"
                                  << "<Q[A-Z]|\"(views|app/window)/";
  }
  void includesGoOneWay() {
    QFETCH(QString, folder);
    QFETCH(QString, forbidden);
    const QRegularExpression bad("^\\s*#\\s*include\\s*(" + forbidden + ")");
    QDirIterator files(sourceFile(folder), {"*.h", "*.cpp", "*.cu"}, QDir::Files,
                       QDirIterator::Subdirectories);
    int count = 0;
    while (files.hasNext()) {
      QFile file(files.next());
      QVERIFY(file.open(QIODevice::ReadOnly));
      ++count;
      for (const QByteArray& line : file.readAll().split('\n'))
        QVERIFY2(!bad.match(QString::fromUtf8(line)).hasMatch(),
                 (file.fileName().toUtf8() + ": " + line).constData());
    }
    QVERIFY(count > 0);
  }

  void qcustomplotOnlyInSourcesOfViews() {
    for (const char* folder : {"app", "core", "views", "tests"}) {
      QDirIterator files(sourceFile(folder), {"*.h", "*.cpp"}, QDir::Files, QDirIterator::Subdirectories);
      while (files.hasNext()) {
        const QString name = files.next();
        QFile file(name);
        QVERIFY(file.open(QIODevice::ReadOnly));
        const QString text = QString::fromUtf8(file.readAll());
        if (name.endsWith("views/qcp.h")) continue;
        static const QRegularExpression direct("^#include <qcustomplot", QRegularExpression::MultilineOption);
        static const QRegularExpression through("^#include \"views/qcp.h\"",
                                                QRegularExpression::MultilineOption);
        QVERIFY2(!text.contains(direct), qPrintable(name));
        if (text.contains(through))
          QVERIFY2(name.contains("views/") && name.endsWith(".cpp"), qPrintable(name));
      }
    }
  }
};

QTEST_MAIN(TestArrows)
#include "test_arrows.moc"
