// The histogram of one tensor: where bars and ticks are, what is counted, what is copied and exported.
#include <QClipboard>
#include <QGuiApplication>
#include <QPushButton>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QToolButton>

#include "tests/views/view_test.h"
#include "views/export.h"
#include "views/tensor_histogram_view.h"
#include "views/tensor_view.h"

using namespace slotscope::views;
using namespace slotscope::testing;

namespace {

TensorHistogram sample() {
  TensorHistogram h;
  h.checkpoint = "demo";
  h.tensor = "layers.0.w";
  h.dtype = "F32";
  h.shape = "10 × 11";
  h.elements = 110;
  h.finite = 106;
  h.nan = 3;
  h.negative_infinity = 1;
  h.zeros = 5;
  h.minimum = -1;
  h.maximum = 3;
  h.minimum_text = "-1";
  h.maximum_text = "3";
  h.mean = 0.25;
  h.deviation = 0.5;
  h.l2 = 6;
  h.quantiles = {{0.25, 0.1}, {0.5, 0.2}};
  h.edges = {-1, 0, 1, 2, 3};
  h.counts = {5, 100, 0, 1};
  return h;
}

int pixelsOf(const QImage& image, const QColor& colour) {
  int n = 0;
  for (int y = 0; y < image.height(); ++y)
    for (int x = 0; x < image.width(); ++x) n += (image.pixel(x, y) & 0xFFFFFF) == (colour.rgb() & 0xFFFFFF);
  return n;
}

}  // namespace

class TestTensor : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void numbersAreWrittenAsElsewhere() {
    QCOMPARE(valueText(0), QString("0"));
    QCOMPARE(valueText(-0.01234567), QString("−0.01235"));
    QCOMPARE(valueText(1234567), QString("1234567"));
    QCOMPARE(valueText(1.5e-7), QString("1.5e−7"));
    QCOMPARE(valueText(-2e30), QString("−2e30"));
    QCOMPARE(valueText(NAN), QString("–"));
    QCOMPARE(valueText(-INFINITY), QString("−∞"));
    QCOMPARE(valueText(0.9999999), QString("1"));
  }

  void barsAreProportionalToCounts() {
    TensorHistogramView view;
    view.setHistogram(sample());
    const QRectF plot(50, 10, 400, 208);
    // 104 % of the highest count fills the plot.
    QCOMPARE(view.bar(plot, 1).height(), 200.0);
    QCOMPARE(view.bar(plot, 0).height(), 10.0);
    QCOMPARE(view.bar(plot, 2).height(), 0.0);
    QCOMPARE(view.bar(plot, 3).height(), 2.0);
    QCOMPARE(view.bar(plot, 1).left(), 150.0);
    QCOMPARE(view.bar(plot, 1).width(), 99.0);  // one pixel of surface between bars
    for (int bin = 0; bin < 4; ++bin) QCOMPARE(view.binAt(plot, 50 + 100 * bin + 50), bin);
    QCOMPARE(view.binAt(plot, 49), -1);
    QCOMPARE(view.binAt(plot, 450), -1);
    // Equal factors are equal heights when counts are logarithmic, and one element is seen.
    view.setLogCounts(true);
    TensorHistogram h = sample();
    h.counts = {1, 10, 100, 1000};
    view.setHistogram(h);
    const double step = view.bar(plot, 1).height() - view.bar(plot, 0).height();
    QVERIFY(view.bar(plot, 0).height() >= 5);
    for (int bin = 1; bin < 3; ++bin)
      QVERIFY(!(std::abs(view.bar(plot, bin + 1).height() - view.bar(plot, bin).height() - step) > 1.01));
  }

  void ticksLieAtRoundValues() {
    TensorHistogramView view;
    view.setHistogram(sample());
    const QRectF plot(0, 0, 400, 200);
    QCOMPARE(view.xOf(plot, -1), 0.0);
    QCOMPARE(view.xOf(plot, 0), 100.0);
    QCOMPARE(view.xOf(plot, 3), 400.0);
    QCOMPARE(view.ticks(plot, 60), (QVector<double>{-1, 0, 1, 2, 3}));
    TensorHistogram log = sample();
    log.edges = {-100, -1, 0, 1, 100};
    log.symmetric_log = true;
    log.unit = 0.1;
    view.setHistogram(log);
    QCOMPARE(view.xOf(plot, 0), 200.0);
    for (const double v : {0.01, 0.5, 7.0, 99.0})  // symmetric
      QVERIFY(!(std::abs(view.xOf(plot, v) + view.xOf(plot, -v) - 400) > 1e-9));
    const auto ticks = view.ticks(plot, 40);
    QVERIFY(ticks.contains(0) && ticks.contains(100) && ticks.contains(-100) && ticks.contains(1));
    for (qsizetype i = 1; i < ticks.size(); ++i)
      QVERIFY(!(view.xOf(plot, ticks[i]) - view.xOf(plot, ticks[i - 1]) < 40));
  }

  // Ends that are far apart, next to each other, equal or huge neither hang nor divide by nothing.
  void oddRanges() {
    const std::pair<double, double> ranges[] = {{-1.7e308, 1.7e308}, {1, 1},           {1, 1 + 1e-15},
                                                {0, 5e-324},         {9e15, 9e15 + 2}, {-1e-40, 1e-40},
                                                {-9.2e18, 9.2e18}};
    for (const bool log : {false, true})
      for (const auto& [low, high] : ranges) {
        TensorHistogram h = sample();
        h.edges = {low, low / 2 + high / 2, high};
        h.counts = {1, 105};
        h.minimum = low, h.maximum = high, h.mean = high;
        h.symmetric_log = log;
        h.unit = log ? std::max(std::abs(low), std::abs(high)) / 1000 : 0;
        TensorHistogramView view;
        view.resize(640, 320);
        view.setHistogram(h);
        const QRectF plot(0, 0, 400, 200);
        QVERIFY(view.ticks(plot, 60).size() <= 200);
        for (const double v : {low, high}) QVERIFY(std::isfinite(view.xOf(plot, v)));
        QVERIFY(!view.grab().isNull());
      }
  }

  void whatIsNotFiniteIsCountedInWords() {
    TensorHistogramView view;
    view.resize(700, 320);
    view.setHistogram(sample());
    QVERIFY2(view.accessibleName().contains("3 NaN, 1 −∞"), qPrintable(view.accessibleName()));
    const auto rows = view.statisticsRows();
    QVERIFY(rows.contains({"NaN", "3"}) && rows.contains({"−∞", "1"}) && rows.contains({"median", "0.2"}));
    QVERIFY(rows.contains({"minimum", "−1"}) && rows.contains({"mean", "0.25"}));
    TensorHistogram none = sample();
    none.finite = 0, none.elements = 4, none.edges.clear(), none.counts.clear();
    view.setHistogram(none);
    QVERIFY2(view.accessibleName().contains("finite"), qPrintable(view.accessibleName()));
    // Nothing that is not known is drawn as zero.
    view.clear({});
    QVERIFY(view.csv().isEmpty());
    QCOMPARE(pixelsOf(view.grab().toImage(), Theme::current().timelineOther), 0);
  }

  void bothThemesAndTheFigure() {
    for (const bool dark : {false, true}) {
      Theme::apply(pictureTheme(dark));
      TensorHistogramView view;
      view.resize(760, 300);
      view.setHistogram(sample());
      view.show();
      const QImage image = view.grab().toImage();
      QVERIFY(pixelsOf(image, Theme::current().timelineOther) > 2'000);
      QVERIFY(pixelsOf(image, Theme::current().text2) + pixelsOf(image, Theme::current().text) > 50);
      keepPicture(image, dark ? "tensor-histogram-dark" : "tensor-histogram-light");
    }
    Theme::apply(pictureTheme());
    QTemporaryDir folder;
    TensorView view;
    TensorFacts facts;
    facts.name = "layers.0.w";
    view.setFacts(facts);
    view.setHistogram(sample());
    const QString png = folder.filePath("tensor.png");
    const QStringList files = exportFigure(view, png, {});
    QCOMPARE(files.size(), 2);
    const QImage image(png);
    QCOMPARE(image.size(), QSize(2000, 1000));  // 640 x 320 at 300 dpi
    QVERIFY(pixelsOf(image, pictureTheme().timelineOther) > 20'000);
    keepPicture(image, "tensor-figure");
    // The data beside it can be read back.
    QFile csv(folder.filePath("tensor.csv"));
    QVERIFY(csv.open(QIODevice::ReadOnly));
    const QString text = QString::fromUtf8(csv.readAll());
    QVERIFY(text.contains("# tensor: layers.0.w\n") && text.contains("# nan: 3\n"));
    const auto lines = text.mid(text.indexOf("low,high")).split('\n', Qt::SkipEmptyParts);
    QCOMPARE(lines.size(), 5);
    quint64 sum = 0;
    for (int i = 1; i < 5; ++i) sum += lines[i].section(',', 2, 2).toULongLong();
    QCOMPARE(sum, quint64(106));
    QCOMPARE(lines[2], QString("0,1,100"));
  }

  void keysAndCopies() {
    TensorHistogramView view;
    view.resize(700, 320);
    view.setHistogram(sample());
    view.show();
    QSignalSpy status(&view, &View::statusText);
    QTest::keyClick(&view, Qt::Key_Right);
    QTest::keyClick(&view, Qt::Key_Right);
    QVERIFY2(view.accessibleName().contains("0 to 1   100 of 106"), qPrintable(view.accessibleName()));
    QCOMPARE(status.size(), 2);
    QTest::keyClick(&view, Qt::Key_C, Qt::ControlModifier);
    QCOMPARE(QGuiApplication::clipboard()->text(), QString("0 to 1   100 of 106 elements"));
    QTest::keyClick(&view, Qt::Key_End);
    QVERIFY(view.accessibleName().contains("2 to 3   1 of 106"));
    QTest::keyClick(&view, Qt::Key_Right);
    QVERIFY(view.accessibleName().contains("2 to 3   1 of 106"));
  }

  void theViewKeepsFactsAndNumbersApart() {
    TensorView view;
    view.resize(700, 500);
    view.show();
    QVERIFY(view.message().contains("Choose a tensor"));
    TensorFacts facts;
    facts.name = QString(10'000, 'x');
    facts.lines = QStringList{"2 · F32"};
    facts.shares_with = "other";
    facts.sharing = "Shares memory, same values as";
    view.setFacts(facts);
    QVERIFY(view.minimumSizeHint().width() < 700);  // a long name asks for no width
    view.setHistogram(sample());
    QSignalSpy other(&view, &TensorView::tensorRequested);
    for (auto* button : view.findChildren<QToolButton*>())
      if (button->text().contains("same values as other")) button->click();
    QCOMPARE(other.size(), 1);
    QCOMPARE(other[0][0].toString(), QString("other"));
    // A new tensor: no number of the old one stays.
    facts.name = "next";
    view.setFacts(facts);
    QVERIFY(view.csv().isEmpty());
    view.setProgress(0.4, "reading tensor");
    QVERIFY(view.reading() && view.cancelButton()->isVisible());
    QCOMPARE(view.message(), QString("reading tensor"));
    view.setStopped("It failed.", "Try again");
    QVERIFY(!view.reading() && !view.cancelButton()->isVisible());
    QCOMPARE(view.message(), QString("It failed."));
  }
};

SLOTSCOPE_VIEW_TEST(TestTensor)
#include "test_tensor.moc"
