// The program as users start it: figures without a display, exit codes, a trace without its model, pictures
// of the window.
#include <QImageReader>
#include <QProcess>

#include "app/window/launch.h"
#include "core/analysis/theory_result.h"
#include "core/analysis/value_field_file.h"
#include "core/analysis/value_field_keys.h"
#include "core/trace/sweep_file.h"
#include "tests/app/window_test.h"

using namespace slotscope;
using namespace slotscope::app;
using namespace slotscope::testing;

struct Ended {
  int code = -1;
  QByteArray out, err;
};

class TestCommandLine : public QObject {
  Q_OBJECT
  Scratch scratch_;
  QString trace_;

  // With no display and no platform chosen: the program must manage by itself.
  Ended start(const QStringList& arguments, const QStringList& extra = {}) {
    QProcess process;
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    for (const char* name : {"DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"}) environment.remove(name);
    for (const QString& e : extra) environment.insert(e.section('=', 0, 0), e.section('=', 1));
    process.setProcessEnvironment(environment);
    process.start(QCoreApplication::applicationDirPath() + "/slotscope", arguments);
    if (!process.waitForFinished(120'000)) return {};
    if (process.exitStatus() != QProcess::NormalExit) return {};
    return {process.exitCode(), process.readAllStandardOutput(), process.readAllStandardError()};
  }

 private Q_SLOTS:
  void initTestCase() {
    trace_ = passkeyTrace(scratch_);
    QVERIFY(!trace_.isEmpty());
  }

  void figureOfASweep() {
    trace::Sweep sweep;
    sweep.settings.lengths = {256, 512};
    sweep.settings.prompts = 1;
    sweep.models.push_back({.name = "small-model", .family = "raven"});
    for (int64_t length = 0; length < 2; ++length)
      sweep.models[0].rows.push_back({.length = length, .answer_tokens = 7, .right = 7, .exact = true});
    const QString file = scratch_.file("sweep.h5"), out = scratch_.file("sweep.svg");
    trace::write_sweep(sweep, file.toStdString());
    const Ended e = start({"figure", file, "--out", out, "--csv"});
    QVERIFY2(e.code == 0, e.err.constData());
    QFile written(out), csv(scratch_.file("sweep.csv"));
    QVERIFY(written.open(QIODevice::ReadOnly) && csv.open(QIODevice::ReadOnly));
    QVERIFY(written.readAll().contains("small-model"));
    QVERIFY(csv.readAll().contains("small-model,raven,512,all,1,1,1,"));
    const Ended layer = start({"figure", file, "--layer", "0", "--out", scratch_.file("other.svg")});
    QCOMPARE(layer.code, 2);
    QVERIFY2(layer.err.contains("--layer"), layer.err.constData());
    const Ended kind = start({"figure", trace_, "--out", scratch_.file("none.svg")});
    QCOMPARE(kind.code, 2);
    QVERIFY2(kind.err.contains("--kind"), kind.err.constData());
  }

  void figureOfATheory() {
    const analysis::KernelInput input{4, {0.6, -0.2, 0.1, 0.7}, {0.5, 0.3, -0.4, 0.6}, 1.58, 1.58};
    const QString file = scratch_.file("theory.h5"), out = scratch_.file("theory.svg");
    trace::write_result(file.toStdString(), analysis::theory_result(input, {.multiples = {0.5, 1, 2}, .pairs = 70}), false);
    const Ended e = start({"figure", file, "--out", out, "--csv"});
    QVERIFY2(e.code == 0, e.err.constData());
    QFile written(out), csv(scratch_.file("theory.csv"));
    QVERIFY(written.open(QIODevice::ReadOnly) && csv.open(QIODevice::ReadOnly));
    QVERIFY(written.readAll().contains("log error against"));
    const QByteArray data = csv.readAll();
    QVERIFY(data.contains(QByteArray("numbers,κ,,") + QByteArray::number(analysis::kernel_numbers(input).kappa, 'g', 17).left(15)));
    QCOMPARE(data.count("pairs by q.k,log_error,"), 70);
    const Ended wrong = start({"figure", file, "--kind", "value-field", "--out", scratch_.file("x.svg")});
    QCOMPARE(wrong.code, 2);
    QVERIFY2(wrong.err.contains("theory"), wrong.err.constData());
    const Ended kind = start({"figure", trace_, "--kind", "theory", "--out", scratch_.file("x.svg")});
    QCOMPARE(kind.code, 2);
    QVERIFY2(kind.err.contains("theory of a trace"), kind.err.constData());
  }

  void figureOfAValueField() {
    analysis::FieldSettings settings = analysis::find_field_preset("paper")->make();
    settings.grid = 16;
    const auto field = analysis::value_field(settings);
    const QString file = scratch_.file("field.h5"), out = scratch_.file("field.svg");
    trace::write_result(file.toStdString(), analysis::field_result(*field), false);
    const Ended e = start({"figure", file, "--out", out, "--csv"});
    QVERIFY2(e.code == 0, e.err.constData());
    QFile written(out), csv(scratch_.file("field.csv"));
    QVERIFY(written.open(QIODevice::ReadOnly) && csv.open(QIODevice::ReadOnly));
    const QByteArray svg = written.readAll();
    for (const char* words : {"full attention", "mass-aware", "\u03b2 = 0.5 \u03b2*", "RMSE 0.2", "mass 0.87"})
      QVERIFY2(svg.contains(words), words);
    const QList<QByteArray> lines = csv.readAll().split('\n');
    const auto head = std::find_if(lines.begin(), lines.end(), [](const QByteArray& l) { return l.startsWith("phi_0,"); });
    QVERIFY(head != lines.end());
    const QList<QByteArray> row = (head + 1 + 3 * 16 + 5)->split(',');
    QCOMPARE(row.size(), qsizetype(2 + 1 + 18));
    QCOMPARE(row[3 + 9].toDouble(), field->panels[9]->value[3 * 16 + 5]);
    const Ended wrong = start({"figure", file, "--kind", "heatmap", "--out", scratch_.file("x.svg")});
    QCOMPARE(wrong.code, 2);
    QVERIFY2(wrong.err.contains("value-field"), wrong.err.constData());
    const Ended kind = start({"figure", trace_, "--kind", "value-field", "--out", scratch_.file("x.svg")});
    QCOMPARE(kind.code, 2);
    QVERIFY2(kind.err.contains("value-field of a trace"), kind.err.constData());
    const Ended layer = start({"figure", file, "--layer", "0", "--out", scratch_.file("x.svg")});
    QCOMPARE(layer.code, 2);
  }

  void figures_data() {
    QTest::addColumn<QString>("kind");
    QTest::addColumn<QString>("format");
    for (const char* kind : {"heatmap", "esl", "esl-grid", "allocation", "overlap", "addresses"})
      for (const char* format : {"png", "svg", "pdf"})
        QTest::newRow(qPrintable(QString("%1 %2").arg(kind, format))) << kind << format;
  }
  void figures() {
    QFETCH(QString, kind);
    QFETCH(QString, format);
    const QString file = scratch_.file(kind + "." + format);
    const Ended e = start({"figure", trace_, "--kind", kind, "--out", file, "--dpi", "96", "--csv"});
    QVERIFY2(e.code == 0, e.err.constData());
    QVERIFY2(e.out.contains(file.toUtf8()), e.out.constData());
    QFile written(file);
    QVERIFY(written.open(QIODevice::ReadOnly));
    const QByteArray data = written.readAll();
    if (format == "png") {
      const QImage image = QImage::fromData(data);
      QVERIFY(image.width() > 200 && image.height() > 100);
      QSet<QRgb> colours;
      for (int y = 0; y < image.height(); y += 3)
        for (int x = 0; x < image.width(); x += 3) colours.insert(image.pixel(x, y));
      QVERIFY2(colours.size() > 20, "the picture is nearly empty");
    } else if (format == "svg") {
      QVERIFY(data.contains("<svg") && data.contains("</svg>"));
      QVERIFY2(data.contains("<text"), "text must stay text");
    } else {
      QVERIFY(data.startsWith("%PDF-"));
      QVERIFY2(data.contains("/Font"), "text must stay text");
    }
    QFile csv(scratch_.file(kind + ".csv"));
    QVERIFY(csv.open(QIODevice::ReadOnly));
    const QByteArray table = csv.readAll();
    QVERIFY2(table.startsWith("# "), table.left(80).constData());
    QVERIFY2(table.contains("raven-passkey"), table.left(400).constData());
    QFile::remove(csv.fileName());
  }

  // Every layout of a comparison; each differs from the others, and the data name both sides.
  void comparisons() {
    const QString other = passkeyTrace(scratch_, 256);
    QVERIFY(!other.isEmpty());
    const QString file = scratch_.file("compare.png");
    const auto make = [&](const QString& b, const QStringList& more) {
      return start(QStringList{"figure", trace_, "--kind", "compare", "--compare", b, "--out", file, "--dpi", "96", "--csv",
                               "--force"} + more);
    };
    QVector<QImage> seen;
    for (const QStringList& more : {QStringList{}, {"--layout", "side-by-side"}, {"--layout", "overlay"}, {"--layout", "difference"},
                                    {"--layer-b", "2", "--head-b", "1"}, {"--tokens", "100:200"}, {"--quantity", "route-weight"}}) {
      const Ended e = make(trace_, more);
      QVERIFY2(e.code == 0, e.err.constData());
      const QImage image(file);
      QVERIFY(!image.isNull() && !seen.contains(image));
      seen << image;
    }
    QFile csv(scratch_.file("compare.csv"));
    QVERIFY(csv.open(QIODevice::ReadOnly));
    const QByteArray data = csv.readAll();
    for (const char* word : {"# model_a: raven-passkey", "# model_b: raven-passkey", "# tokens_linked: by position, same tokens",
                             "series,token,slot,value", "\nA,", "\nB,", "\nkey left A,", "\nkey left B,"})
      QVERIFY2(data.contains(word), word);
    // Another prompt: by characters, and said so; no difference.
    QCOMPARE(make(other, {}).code, 0);
    QFile again(scratch_.file("compare.csv"));
    QVERIFY(again.open(QIODevice::ReadOnly));
    QVERIFY(again.readAll().contains("linked by character offset"));
    Ended e = make(other, {"--layout", "difference"});
    QCOMPARE(e.code, 1);
    QVERIFY2(e.err.contains("same tokens"), e.err.constData());
    const QString picture = scratch_.file("comparing.png");
    e = start({trace_, "--compare", other, "--screenshot", picture, "--size", "1280x800"}, {"SLOTSCOPE_ENGINE=/nowhere/engine.so"});
    QVERIFY2(e.code == 0, e.err.constData());
    QCOMPARE(QImage(picture).size(), QSize(1280, 800));
  }

  void optionsOfFigures() {
    const QString file = scratch_.file("options.png");
    const auto image = [&](const QStringList& more) {
      QFile::remove(file);
      const Ended e = start(QStringList{"figure", trace_, "--kind", "heatmap", "--out", file, "--dpi", "96",
                                        "--size", "640x400"} +
                            more);
      return e.code == 0 ? QImage(file) : QImage();
    };
    const QImage plain = image({});
    QCOMPARE(plain.size(), QSize(640, 400));
    // Each of these must change the picture.
    for (const QStringList& more : {QStringList{"--layer", "0", "--head", "1"},
                                    {"--tokens", "140:170"},
                                    {"--quantity", "route-weight"},
                                    {"--map", "viridis"},
                                    {"--theme", "dark"},
                                    {"--count-from-one"},
                                    {"--selection"}}) {
      const QImage other = image(more);
      QVERIFY2(!other.isNull(), qPrintable(more.join(' ')));
      QVERIFY2(other != plain, qPrintable(more.join(' ')));
    }
    QVERIFY(image({}) == plain);  // the same twice
    const QImage fine = [&] {
      const Ended e = start(
          {"figure", trace_, "--kind", "esl", "--out", file, "--dpi", "192", "--size", "500x300", "--force"});
      return e.code == 0 ? QImage(file) : QImage();
    }();
    QCOMPARE(fine.size(), QSize(1000, 600));
    QCOMPARE(start({"figure", trace_, "--kind", "esl", "--out", file, "--dpi", "192", "--size", "500x300",
                    "--force", "--no-caption"})
                 .code,
             0);
    QVERIFY(QImage(file) != fine);
  }

  void wrongFigures_data() {
    QTest::addColumn<QStringList>("arguments");
    QTest::addColumn<int>("code");
    QTest::addColumn<QString>("word");
    const QString t = "TRACE", out = scratch_.file("wrong.png");
    QTest::newRow("no trace") << QStringList{"figure", "--kind", "esl", "--out", out} << 2 << "trace";
    QTest::newRow("unknown kind") << QStringList{"figure", t, "--kind", "pie", "--out", out} << 2 << "pie";
    QTest::newRow("unknown suffix") << QStringList{"figure", t, "--kind", "esl", "--out", "a.gif"} << 2
                                    << "a.gif";
    QTest::newRow("bad size") << QStringList{"figure", t, "--kind", "esl", "--out", out, "--size", "640"} << 2
                              << "640";
    QTest::newRow("bad dpi") << QStringList{"figure", t, "--kind", "esl", "--out", out, "--dpi", "0"} << 2
                             << "dpi";
    QTest::newRow("layer that does not exist")
        << QStringList{"figure", t, "--kind", "esl", "--out", out, "--layer", "4"} << 2 << "layers 0 to 3";
    QTest::newRow("head that does not exist")
        << QStringList{"figure", t, "--kind", "esl", "--out", out, "--head", "9"} << 2 << "0 to 3";
    QTest::newRow("run that does not exist")
        << QStringList{"figure", t, "--kind", "esl", "--out", out, "--run", "1"} << 2 << "runs 0 to 0";
    QTest::newRow("reversed tokens") << QStringList{"figure", t,   "--kind",   "heatmap",
                                                    "--out",  out, "--tokens", "9:3"}
                                     << 2 << "9:3";
    QTest::newRow("tokens beyond the end")
        << QStringList{"figure", t, "--kind", "heatmap", "--out", out, "--tokens", "9999:10000"} << 2
        << "9999";
    QTest::newRow("unknown quantity")
        << QStringList{"figure", t, "--kind", "heatmap", "--out", out, "--quantity", "love"} << 2 << "love";
    QTest::newRow("quantity of another figure")
        << QStringList{"figure", t, "--kind", "esl", "--out", out, "--quantity", "survival"} << 2
        << "heatmap";
    QTest::newRow("unknown map") << QStringList{"figure", t,   "--kind", "heatmap",
                                                "--out",  out, "--map",  "jet"}
                                 << 2 << "jet";
    QTest::newRow("missing file") << QStringList{"figure", "nowhere.h5", "--kind", "esl", "--out", out} << 1
                                  << "nowhere.h5";
    QTest::newRow("not a trace") << QStringList{"figure", sourceFile("README.md"), "--kind", "esl", "--out",
                                                out}
                                 << 1 << "README.md";
    QTest::newRow("no such folder") << QStringList{"figure", t, "--kind", "esl", "--out", "/nowhere/a.png"}
                                    << 1 << "/nowhere";
    QTest::newRow("comparison with nothing") << QStringList{"figure", t, "--kind", "compare", "--out", out} << 2 << "--compare";
    QTest::newRow("second trace of another figure")
        << QStringList{"figure", t, "--kind", "esl", "--compare", t, "--out", out} << 2 << "--kind compare";
    QTest::newRow("layout of another figure")
        << QStringList{"figure", t, "--kind", "esl", "--layout", "overlay", "--out", out} << 2 << "--kind compare";
    QTest::newRow("second trace that is none")
        << QStringList{"figure", t, "--kind", "compare", "--compare", sourceFile("README.md"), "--out", out} << 1 << "README.md";
    QTest::newRow("layer that B does not have")
        << QStringList{"figure", t, "--kind", "compare", "--compare", t, "--layer-b", "4", "--out", out} << 2 << "layers 0 to 3";
    QTest::newRow("head that B does not have")
        << QStringList{"figure", t, "--kind", "compare", "--compare", t, "--head-b", "4", "--out", out} << 2 << "heads 0 to 3";
    QTest::newRow("matrix of no name") << QStringList{"figure", t, "--kind", "overlap", "--quantity", "survival", "--out", out} << 2 << "induced";
    QTest::newRow("no second trace to compare with") << QStringList{"figure", t, "--kind", "overlap", "--quantity", "against", "--out", out} << 1 << "second trace";
    QTest::newRow("head that the other trace does not have")
        << QStringList{"figure", t, "--kind", "overlap", "--quantity", "against", "--compare", t, "--layer-b", "9", "--out", out} << 1 << "layer 9";
    QTest::newRow("slots without digits") << QStringList{"figure", t, "--kind", "addresses", "--quantity", "digits", "--out", out} << 1 << "no digits";
    QTest::newRow("unknown option") << QStringList{"--frobnicate"} << 2 << "frobnicate";
  }
  void wrongFigures() {
    QFETCH(QStringList, arguments);
    QFETCH(int, code);
    QFETCH(QString, word);
    arguments.replaceInStrings("TRACE", trace_);
    const Ended e = start(arguments);
    QVERIFY2(e.code == code, (QByteArray::number(e.code) + ": " + e.err).constData());
    QVERIFY2(e.err.contains(word.toUtf8()), e.err.constData());
    QVERIFY(!QFileInfo::exists(scratch_.file("wrong.png")));
  }

  void existingFilesAreKept() {
    const QString file = scratch_.file("kept.png");
    QFile f(file);
    QVERIFY(f.open(QIODevice::WriteOnly));
    f.write("mine");
    f.close();
    const QStringList arguments{"figure", trace_, "--kind", "esl", "--out", file, "--dpi", "96"};
    const Ended e = start(arguments);
    QCOMPARE(e.code, 1);
    QVERIFY2(e.err.contains("--force") || e.err.contains("exist"), e.err.constData());
    QVERIFY(f.open(QIODevice::ReadOnly));
    QCOMPARE(f.readAll(), QByteArray("mine"));
    QCOMPARE(start(arguments + QStringList{"--force"}).code, 0);
    QVERIFY(!QImage(file).isNull());
  }

  void helpAndVersion() {
    Ended e = start({"--help"});
    QCOMPARE(e.code, 0);
    for (const char* word : {"figure", "TRACE.h5", "slotscope-cli run", "Examples"})
      QVERIFY2(e.out.contains(word), word);
    e = start({"figure", "--help"});
    QCOMPARE(e.code, 0);
    for (const char* word :
         {"--kind", "--layer", "--head", "--tokens", "--quantity", "--map", "--theme", "--size", "--dpi",
          "--count-from-one", "--csv", "--force", "--out", "Exit codes"})
      QVERIFY2(e.out.contains(word), word);
    e = start({"--version"});
    QCOMPARE(e.code, 0);
    QVERIFY(e.out.startsWith("slotscope "));
  }

  void noDisplayIsSaid() {
    const Ended e = start({trace_});
    QCOMPARE(e.code, 1);
    QVERIFY2(e.err.contains("no display"), e.err.constData());
  }

  void aTraceOpensWithoutItsModel() {
    // Neither LibTorch nor the checkpoint: the engine's module is not even there.
    const QString file = scratch_.file("window.png");
    const Ended e = start({trace_, "--screenshot", file, "--size", "1280x800"},
                          {"SLOTSCOPE_ENGINE=/nowhere/engine.so", "SLOTSCOPE_RESOURCES=/nowhere"});
    QVERIFY2(e.code == 0, e.err.constData());
    const QImage image(file);
    QCOMPARE(image.size(), QSize(1280, 800));
  }

  void picturesOfTheBundledCheckpoint() {
    const QString file = scratch_.file("bundled.png");
    const Ended e = start({"--screenshot", file, "--size", "1280x720", "--theme", "dark"});
    QVERIFY2(e.code == 0, e.err.constData());
    QCOMPARE(QImage(file).size(), QSize(1280, 720));
  }

  void sizes() {
    QCOMPARE(parseSize("640x400"), std::pair(640, 400));
    for (const char* wrong :
         {"", "640", "x", "640x", "0x0", "-1x5", "1e3x1e3", "640x400x2", "999999999999999999999x4"})
      QVERIFY_EXCEPTION_THROWN(parseSize(wrong), std::runtime_error);
  }
};

QTEST_MAIN(TestCommandLine)
#include "test_command_line.moc"
