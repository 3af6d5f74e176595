// The figure of a sweep: where its lines, bands, labels and cells are; light and dark.
#include <QImage>
#include <QTemporaryDir>
#include <cmath>

#include "tests/views/view_test.h"
#include "views/sweep_figure.h"

using namespace slotscope;
using namespace slotscope::views;
using namespace slotscope::testing;

namespace {

// Two models at 64, 256 and 1024 tokens; the second has no prompt at 1024.
std::shared_ptr<SweepData> demo(bool grid) {
  auto data = std::make_shared<SweepData>();
  auto& s = data->sweep;
  s.settings.lengths = {64, 256, 1024};
  s.settings.prompts = 4;
  if (grid) s.settings.depths = {0, 1};
  for (int m = 0; m < 2; ++m) {
    trace::SweepModel model;
    model.name = m == 0 ? "raven" : "gsa";
    model.family = model.name;
    model.layers = {{.index = 0, .family = model.family, .route_kind = m == 0 ? "sparse" : "dense", .route_heads = 1, .slots = 8, .top_k = 2}};
    for (int64_t length = 0; length < (m == 0 ? 3 : 2); ++length)
      for (int64_t depth = 0; depth < (grid ? 2 : 1); ++depth)
        for (int64_t number = 0; number < 4; ++number) {
          trace::SweepRow row;
          row.length = length, row.depth = depth, row.number = number;
          row.answer_tokens = 8;
          row.right = m == 0 || number < 2 ? 8 : 0;
          row.exact = row.right == 8;
          row.digest = "same";
          row.heads = m == 0 ? std::vector<double>{0.25, 0.8, 0.01, 0.5, 8, 0.6} : std::vector<double>{1, 1, 1, 0, 8, 0};
          model.rows.push_back(row);
        }
    s.models.push_back(model);
  }
  data->table = analysis::sweep_table(s);
  return data;
}

QImage picture(const SweepData& data, bool dark) {
  const auto figure = sweepFigure(std::make_shared<SweepData>(data));
  ExportOptions options;
  options.dark = dark;
  return renderFigure(figure, options, figure.size.toSize());
}

}  // namespace

class TestSweep : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() { Theme::apply(Theme::light()); }

  void linesAndBandsAreTheTablesNumbers() {
    const auto data = demo(false);
    const QRectF plot(100, 50, 400, 200);
    const auto panel = accuracyPanel(*data, plot, Theme::light());
    QCOMPARE(panel.lines.size(), 2);
    QCOMPARE(panel.lines[0].points.size(), 3);
    QCOMPARE(panel.lines[1].points.size(), 2);  // nothing was run at 1024
    for (const QPointF& at : panel.lines[0].points) QCOMPARE(at.y(), 50.0);
    for (const QPointF& at : panel.lines[1].points) QCOMPARE(at.y(), 150.0);
    // Logarithmic x: equal steps for 64, 256, 1024.
    const auto& p = panel.lines[0].points;
    QVERIFY(std::abs((p[1].x() - p[0].x()) - (p[2].x() - p[1].x())) < 1e-9);
    const auto interval = analysis::clopper_pearson(2, 4, 0.95);
    QVERIFY(std::abs(panel.lines[1].band[0].first - (250 - 200 * interval.high)) < 1e-9);
    QVERIFY(std::abs(panel.lines[1].band[0].second - (250 - 200 * interval.low)) < 1e-9);

    double least = 0;
    const auto esl = eslPanel(*data, plot, Theme::light(), &least);
    QCOMPARE(least, 0.01);
    QVERIFY(std::abs(esl.lines[0].points[0].y() - (250 - 200 * (1 - std::log10(0.25) / -2))) < 1e-9);
    QVERIFY(std::abs(esl.lines[0].band[0].first - (250 - 200 * (1 - std::log10(0.8) / -2))) < 1e-9);
    QVERIFY(std::abs(esl.lines[0].band[0].second - 250) < 1e-9);  // 0.01 is the foot
    QCOMPARE(esl.lines[1].points[0].y(), 50.0);
  }

  void labelsStandApartAndInside() {
    auto data = demo(false);
    for (int copy = 0; copy < 5; ++copy) {  // six lines that end in one point
      data->sweep.models.push_back(data->sweep.models[0]);
      data->sweep.models.back().name += std::to_string(copy);
    }
    data->table = analysis::sweep_table(data->sweep);
    const QRectF plot(0, 0, 300, 200);
    const auto panel = accuracyPanel(*data, plot, Theme::light());
    QVector<double> labels;
    for (const auto& line : panel.lines) labels << line.label;
    std::sort(labels.begin(), labels.end());
    QVERIFY(labels.first() >= 0 && labels.last() <= 200);
    for (int i = 1; i < labels.size(); ++i) QVERIFY2(labels[i] - labels[i - 1] >= 14.9, qPrintable(QString::number(labels[i] - labels[i - 1])));
    // And no two models are drawn on the same points.
    for (int i = 1; i < panel.lines.size(); ++i) QVERIFY(panel.lines[i].points[0].x() > panel.lines[i - 1].points[0].x());
  }

  void figureHasItsModelsInLightAndDark() {
    const auto data = demo(false);
    const auto figure = sweepFigure(data);
    QVERIFY(figure.csv.contains("\nraven,raven,64,all,4,4,1,"));
    QCOMPARE(figure.kind, QString("sweep"));
    for (const bool dark : {false, true}) {
      const Theme theme = dark ? Theme::darkTheme() : Theme::light();
      const QImage image = picture(*data, dark);
      QCOMPARE(image.pixelColor(2, 2), theme.surface);
      int a = 0, b = 0;
      for (int y = 0; y < image.height(); ++y)
        for (int x = 0; x < image.width(); ++x) a += image.pixelColor(x, y) == theme.modelA, b += image.pixelColor(x, y) == theme.modelB;
      QVERIFY2(a > 200, qPrintable(QString::number(a)));
      QVERIFY2(b > 200, qPrintable(QString::number(b)));
    }
  }

  void depthsAddAMapPerModel() {
    const auto with = demo(true), without = demo(false);
    QVERIFY(sweepFigure(with).size.height() > sweepFigure(without).size.height() + 60);
    const QImage image = picture(*with, false);
    // The colour of a cell with accuracy 1 (raven) and of one with 0.5 (gsa) are there as areas.
    const auto map = colourMap("cividis", false);
    int full = 0, half = 0;
    for (int y = image.height() / 2; y < image.height(); ++y)
      for (int x = 0; x < image.width(); ++x) full += image.pixel(x, y) == (map[255] | 0xFF000000U), half += image.pixel(x, y) == (map[128] | 0xFF000000U);
    QVERIFY2(full > 1000, qPrintable(QString::number(full)));
    QVERIFY2(half > 500, qPrintable(QString::number(half)));
  }

  void emptyFilesAreDrawnToo() {
    SweepData data;
    data.sweep.settings.lengths = {64};
    data.table = analysis::sweep_table(data.sweep);
    QVERIFY(!picture(data, false).isNull());
    data.sweep.models.push_back({.name = "none yet"});
    data.table = analysis::sweep_table(data.sweep);
    QVERIFY(!picture(data, false).isNull());
  }
};

SLOTSCOPE_VIEW_TEST(TestSweep)
#include "test_sweep.moc"
