// Address overlap: pixels against the matrices, dials, the second trace, zoom, words, CSV, pictures.
#include <QAccessible>
#include <QComboBox>
#include <QDoubleSpinBox>
#include <QSignalSpy>
#include <QSpinBox>
#include <QTemporaryDir>
#include <QToolButton>
#include <cmath>

#include "tests/views/ramnet_run.h"
#include "tests/views/view_test.h"
#include "core/analysis/overlap_result.h"
#include "core/error.h"
#include "views/overlap_figure.h"
#include "views/overlap_view.h"

using namespace slotscope;
using namespace slotscope::views;

namespace {

struct OpenOverlap : OverlapView {
  using OverlapView::OverlapView;
  using OverlapView::tipAt;
};

}  // namespace

class TestOverlap : public QObject {
  Q_OBJECT
  static constexpr int64_t kTokens = 60;
  QTemporaryDir folder_;
  std::shared_ptr<const RunData> run_;
  std::shared_ptr<const analysis::HeadData> head_;
  std::shared_ptr<const analysis::Addresses> addresses_;

  std::shared_ptr<const RunData> runOf(const testing::MadeRun& made, const char* name) {
    return testing::ramnetRun(folder_.filePath(QString::fromLatin1(name)), made);
  }
  void open(OverlapView& view, SelectionModel& selection, int width = 1000, int height = 640) {
    selection.setLimits(1, 2, 2, 27, kTokens);
    selection.request({.layer = 0, .head = 1, .token = 41});
    view.resize(width, height);
    view.setRun(run_);
    view.setHead(head_);
    view.show();
    QVERIFY(QTest::qWaitForWindowExposed(&view));
    view.drawNow();
  }

 private Q_SLOTS:
  void initTestCase() {
    std::vector<int64_t> reads;
    for (int64_t t = 0; t < kTokens; t += 2) reads.push_back(t);
    auto made = testing::made_run(testing::make_problem(3, 3, 6, kTokens, 1, 31), reads, testing::attention_rows(reads, kTokens));
    made.spans = {{"needle", 10, 20}, {"key", 14, 17}};
    run_ = runOf(made, "a.h5");
    head_ = analysis::load_head(*run_->trace, 0, 0, 1);
    addresses_ = analysis::load_addresses(*run_->trace, 0, 0, 1, nullptr, head_);
  }

  void pixelsAreTheMatrix() {
    SelectionModel selection;
    OpenOverlap view(&selection, nullptr);
    open(view, selection);
    const auto whole = analysis::tile(*analysis::overlap_matrix(addresses_), 0, kTokens, 0, kTokens);
    const auto& g = view.picture()->grid.max;
    QCOMPARE(g.rows, int(kTokens));
    for (int64_t t = 0; t < kTokens; ++t)
      for (int64_t s = 0; s < kTokens; ++s) {
        const size_t at = size_t(t * kTokens + s);
        QCOMPARE(g.state[at] == analysis::Cell::finite, s <= t);
        if (s <= t) QCOMPARE(g.value[at], float(whole[at]));
      }
    // On the screen: the colour of each cell's middle, and the ground where s is after t.
    selection.request({.token = 0});
    const QImage shot = view.grab().toImage();
    const QRectF plot = view.geometryFor(QRectF(QPointF(0, 0), view.contentRect().size()), 1).plot;
    const auto colours = colourMap(QStringLiteral("cividis"), false);
    int strong = 0;
    for (int64_t t = 2; t < kTokens; t += 3)
      for (int64_t s = 1; s < kTokens; s += 2) {
        const QPointF middle = plot.topLeft() + QPointF((double(s) + 0.5) * plot.width() / kTokens, (double(t) + 0.5) * plot.height() / kTokens);
        const QColor seen = shot.pixelColor(middle.toPoint() + QPoint(0, 36));
        const double place = view.colourScale().place(double(float(whole[size_t(t * kTokens + s)])));
        const QColor expected = s > t ? Theme::current().plot : QColor(colours[int(std::lround(place * 255))]);
        QVERIFY2(std::abs(seen.red() - expected.red()) <= 2 && std::abs(seen.green() - expected.green()) <= 2 && std::abs(seen.blue() - expected.blue()) <= 2,
                 qPrintable(QStringLiteral("%1, %2: %3 and not %4").arg(t).arg(s).arg(seen.name(), expected.name())));
        strong += s <= t && place > 0.3;
      }
    QVERIFY(strong > 5);
  }

  void eachMatrixAndItsNormalisedRows() {
    SelectionModel selection;
    OpenOverlap view(&selection, nullptr);
    open(view, selection);
    const auto induced = analysis::induced_matrix(addresses_);
    view.setShow(MatrixKind::induced);
    const auto a = analysis::tile(*induced, 0, kTokens, 0, kTokens);
    QCOMPARE(view.picture()->grid.max.value[size_t(50 * kTokens + 12)], float(a[size_t(50 * kTokens + 12)]));
    view.setByRowSum(true);
    double sum = 0;
    for (int64_t s = 0; s <= 50; ++s) sum += a[size_t(50 * kTokens + s)];
    QCOMPARE(view.picture()->grid.max.value[size_t(50 * kTokens + 12)], float(a[size_t(50 * kTokens + 12)] / sum));
    view.setByRowSum(false);
    view.setShow(MatrixKind::difference);
    const auto d = analysis::tile(*analysis::difference(analysis::row_normalised(induced), analysis::row_normalised(analysis::overlap_matrix(addresses_))), 0, kTokens, 0, kTokens);
    QCOMPARE(view.picture()->grid.max.value[size_t(50 * kTokens + 12)], float(d[size_t(50 * kTokens + 12)]));
    QCOMPARE(view.colourScale().low, -view.colourScale().high);
    // Without a second trace its rows cannot be shown, and the list says how to get them.
    QVERIFY(view.picture()->why[size_t(MatrixKind::against)].contains(QStringLiteral("second trace")));
    QCOMPARE(view.picture()->side.size(), size_t(2));
  }

  void secondTraceGivesAttentionDifferenceAndDivergence() {
    SelectionModel selection;
    OpenOverlap view(&selection, nullptr);
    open(view, selection);
    view.setOther(run_);
    view.chooseOther(1, 1);
    const auto teacher = analysis::attention_matrix(run_->trace, 0, 1, 1);
    QCOMPARE(view.picture()->side.size(), size_t(3));
    QCOMPARE(view.picture()->js_name, QStringLiteral("JS(A, B)"));
    const auto rows = analysis::compare_rows(*analysis::induced_matrix(addresses_), *teacher, 0, kTokens);
    int compared = 0;
    for (size_t t = 0; t < size_t(kTokens); ++t) {
      const double seen = view.picture()->js[t];
      QVERIFY((std::isnan(seen) && std::isnan(rows.js[t])) || seen == rows.js[t]);
      compared += !std::isnan(seen);
    }
    QVERIFY(compared > 20);
    view.setShow(MatrixKind::against);
    const auto whole = analysis::tile(*teacher, 0, kTokens, 0, kTokens);
    const auto& g = view.picture()->grid.max;
    for (int64_t t = 0; t < kTokens; ++t)
      for (int64_t s = 0; s <= t; ++s) {
        const size_t at = size_t(t * kTokens + s);
        QCOMPARE(g.state[at] == analysis::Cell::finite, t % 2 == 0);
        if (t % 2 == 0) QCOMPARE(g.value[at], float(whole[at]));
      }
    QVERIFY(QString::fromStdString(g.reduction).contains(QStringLiteral("30 rows not captured")));
  }

  void dialsAreExactOrSayWhyNot() {
    SelectionModel selection;
    OpenOverlap view(&selection, nullptr);
    open(view, selection);
    auto* top_k = view.findChild<QSpinBox*>();
    QCOMPARE(top_k->value(), 6);
    QCOMPARE(top_k->maximum(), 6);
    top_k->setValue(2);
    QTRY_COMPARE(view.picture()->addresses->write->top_k, 2);
    const auto two = analysis::tile(*analysis::overlap_matrix(analysis::with_dials(addresses_, {.top_k = 2})), 0, kTokens, 0, kTokens);
    for (int64_t t = 0; t < kTokens; ++t)
      for (int64_t s = 0; s <= t; ++s) QCOMPARE(view.picture()->grid.max.value[size_t(t * kTokens + s)], float(two[size_t(t * kTokens + s)]));
    QComboBox* shift = nullptr;
    for (auto* box : view.findChildren<QComboBox*>())
      if (box->accessibleName() == QStringLiteral("Shift")) shift = box;
    QVERIFY(shift);
    QCOMPARE(shift->currentText(), QStringLiteral("shift +1"));
    view.setDials({.shift = 0});
    QTRY_COMPARE(view.picture()->addresses->code.shift, int64_t(0));
    QCOMPARE(shift->currentText(), QStringLiteral("no shift"));
    auto* temperature = view.findChild<QDoubleSpinBox*>();
    QVERIFY(!temperature->isEnabled());
    QVERIFY(temperature->toolTip().contains(QStringLiteral("Top-6 of 27 slots")));
    view.setDials({.temperature = 2});
    QTRY_VERIFY(view.picture()->dial_failed.contains(QStringLiteral("Top-6 of 27 slots")));
    QCOMPARE(view.picture()->addresses.get(), view.picture()->captured.get());
  }

  void zoomPanAndSelection() {
    SelectionModel selection;
    OpenOverlap view(&selection, nullptr);
    open(view, selection);
    QSignalSpy range(&selection, &SelectionModel::tokenRangeChanged);
    view.setWindow({20, 40}, {10, 30});
    QCOMPARE(range.size(), 1);
    QCOMPARE(selection.tokenRange(), (std::pair<qint64, qint64>{10, 30}));
    QCOMPARE(view.rows(), (CellRange{20, 40}));
    view.drawNow();
    const auto part = analysis::tile(*analysis::overlap_matrix(addresses_), 20, 40, 10, 30);
    QCOMPARE(view.picture()->grid.max.value[size_t(15 * 20 + 3)], float(part[15 * 20 + 3]));
    selection.setTokenRange(0, 16);  // another view zooms
    QCOMPARE(view.rows(), (CellRange{0, 16}));
    QCOMPARE(view.columns(), (CellRange{0, 16}));
    view.drawNow();
    const MatrixGeometry g = view.geometryFor(QRectF(QPointF(0, 0), view.contentRect().size()), 1);
    const auto point = [&](double t, double s) { return QPoint(int(g.x(s)), int(g.y(t)) + 36); };
    QTest::mouseClick(&view, Qt::LeftButton, Qt::NoModifier, point(9.5, 4.5));
    QCOMPARE(selection.current().token, qint64(9));
    QTest::mouseClick(&view, Qt::LeftButton, Qt::NoModifier, QPoint(int(g.x(5.5)), int(g.plot.bottom()) + 36 + 12));
    QCOMPARE(selection.current().token, qint64(5));
    QTest::keyClick(&view, Qt::Key_0);
    QCOMPARE(view.rows(), (CellRange{0, kTokens}));
    QTest::keyClick(&view, Qt::Key_Plus);
    QCOMPARE(view.rows(), (CellRange{2, 42}));
    view.setWindow({4, 20}, {4, 20});
    const MatrixGeometry h = view.geometryFor(QRectF(QPointF(0, 0), view.contentRect().size()), 1);
    QTest::mousePress(&view, Qt::LeftButton, Qt::NoModifier, QPoint(int(h.x(12)), int(h.y(12)) + 36));
    QMouseEvent move(QEvent::MouseMove, QPointF(h.x(10), h.y(12) + 36), view.mapToGlobal(QPointF(h.x(10), h.y(12) + 36)), Qt::NoButton, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(&view, &move);
    QCOMPARE(view.columns(), (CellRange{6, 22}));
    QCOMPARE(view.rows(), (CellRange{4, 20}));
    QTest::mouseRelease(&view, Qt::LeftButton, Qt::NoModifier, QPoint(int(h.x(10)), int(h.y(12)) + 36));
    QCOMPARE(selection.current().token, qint64(5));  // a pan selects nothing
  }

  void words() {
    SelectionModel selection;
    OpenOverlap view(&selection, nullptr);
    open(view, selection);
    const auto m = analysis::overlap_matrix(addresses_);
    const auto row = analysis::tile(*m, 41, 42, 0, 42);
    const int64_t best = std::max_element(row.begin(), row.end()) - row.begin();
    QVERIFY(view.accessibleName().contains(QStringLiteral("token 41 “#41” overlaps most with %1 “#%1”: %2").arg(best).arg(strengthText(row[size_t(best)]))));
    QVERIFY(view.cellText(41, best).contains(QStringLiteral("Address overlap ") + strengthText(row[size_t(best)])));
    QVERIFY(view.cellText(3, 9).contains(QStringLiteral("s is after t")));
    const MatrixGeometry g = view.geometryFor(QRectF(QPointF(0, 0), view.contentRect().size()), 1);
    const QString tip = view.tipAt({g.x(double(best) + 0.5), g.y(41.5)});
    // The slot of the first rank, as number and digits, with its weight.
    const auto slot = QString::fromStdString(analysis::slot_name(addresses_->code, addresses_->read_slot_at(41, 0)));
    QVERIFY(slot.contains(QStringLiteral("·")));
    QVERIFY2(tip.contains(slot) && tip.contains(QStringLiteral("meet in")) && tip.contains(QStringLiteral("t reads")), qPrintable(tip));
    QVERIFY(view.tipAt({g.plot.right() + 20, g.y(41.5)}).contains(QStringLiteral("nats")));
  }

  void csvHoldsEveryPair() {
    SelectionModel selection;
    OpenOverlap view(&selection, nullptr);
    open(view, selection);
    const auto whole = analysis::tile(*analysis::overlap_matrix(addresses_), 0, kTokens, 0, kTokens);
    std::vector<double> read(whole.size(), 0);
    int js = 0;
    for (const QString& line : view.csv().split(QLatin1Char('\n'))) {
      const auto f = line.split(QLatin1Char(','));
      if (f[0] == QStringLiteral("overlap")) read[size_t(f[1].toLongLong() * kTokens + f[2].toLongLong())] = f[3].toDouble();
      js += f[0] == QStringLiteral("js");
    }
    for (size_t i = 0; i < whole.size(); ++i) QCOMPARE(float(read[i]), float(whole[i]));
    QVERIFY(js > 30);
    QVERIFY(view.csv().contains(QStringLiteral("# figure: overlap")));
  }

  void whatIsMissing() {
    auto made = testing::made_run(testing::make_problem(2, 3, 4, 20, 0, 3), {0}, std::vector<double>(40, 0));
    made.layers[0].fields.clear();
    const auto run = runOf(made, "none.h5");
    SelectionModel selection;
    OpenOverlap view(&selection, nullptr);
    QVERIFY(view.accessibleName().contains(QStringLiteral("Nothing is open")));
    view.setRun(run);
    view.setHead(analysis::load_head(*run->trace, 0, 0, 0));
    view.drawNow();
    QVERIFY2(view.accessibleName().contains(QStringLiteral("--capture route,addresses")), qPrintable(view.accessibleName()));
    QVERIFY(view.csv().isEmpty());
  }

  void inAWorker() {
    SelectionModel selection;
    Worker worker;
    OpenOverlap view(&selection, &worker);
    selection.setLimits(1, 2, 2, 27, kTokens);
    view.resize(900, 600);
    view.setRun(run_);
    view.setHead(head_);
    view.show();
    QTRY_VERIFY(view.picture() && !view.busy());
    for (int i = 0; i < 20; ++i) view.setWindow({i, 40 + i}, {i, 40 + i});
    QTRY_COMPARE(view.picture()->grid.t0, int64_t(19));
    QCOMPARE(view.picture()->grid.s1, int64_t(59));
  }

  void figureOfAResult() {
    const std::string file = folder_.filePath(QStringLiteral("result.h5")).toStdString();
    analysis::write_overlap(run_->trace, {.layer = 0, .head = 1, .window = {{8, 50}}, .against = run_->trace, .against_layer = 1}, file, false);
    const auto result = trace::read_result(file);
    const auto induced = analysis::tile(*analysis::induced_matrix(addresses_), 8, 50, 8, 50);
    const Figure figure = overlapFigure(result, file, "induced");
    std::vector<double> read(induced.size(), 0);
    int js = 0;
    for (const QString& line : figure.csv.split(QLatin1Char('\n'))) {
      const auto f = line.split(QLatin1Char(','));
      if (f[0] == QStringLiteral("induced")) read[size_t((f[1].toLongLong() - 8) * 42 + f[2].toLongLong() - 8)] = f[3].toDouble();
      js += f[0] == QStringLiteral("js");
    }
    for (size_t i = 0; i < induced.size(); ++i) QCOMPARE(float(read[i]), float(induced[i]));
    QCOMPARE(js, 21);  // the rows that the second trace has
    QImage image(840, 560, QImage::Format_RGB32);
    QPainter painter(&image);
    figure.paint(painter, QRectF(0, 0, 840, 560), Theme::light(), {});
    painter.end();
    testing::keepPicture(image, QStringLiteral("overlap_result"));
    int coloured = 0;
    for (int y = 0; y < 560; ++y)
      for (int x = 0; x < 840; ++x) coloured += QColor(image.pixel(x, y)).blue() < 120;
    QVERIFY(coloured > 2000);
    try {
      overlapFigure(result, file, "nothing");
      QFAIL("no error");
    } catch (const Error& e) {
      QVERIFY(QString::fromUtf8(e.what()).contains(QStringLiteral("overlap, induced, attention")));
    }
    auto cut = result;
    for (auto& d : cut.datasets)
      if (d.name == "overlap") d.shape = {42, 41};
    try {
      overlapFigure(cut, file, "");
      QFAIL("no error");
    } catch (const Error& e) {
      QVERIFY(QString::fromUtf8(e.what()).contains(QStringLiteral("42 x 42")));
    }
  }

  // A long prompt: first the chosen matrix, then the others, with the numbers of one pass.
  void longPromptsInTwoSteps() {
    const auto run = runOf(testing::made_run(testing::make_problem(2, 2, 2, 5000, 0, 3), {0}, std::vector<double>(10000, 0)), "long.h5");
    const auto head = analysis::load_head(*run->trace, 0, 0, 0);
    SelectionModel selection;
    Worker worker;
    OpenOverlap view(&selection, &worker);
    selection.setLimits(1, 2, 2, 4, 5000);
    view.resize(900, 560);
    view.setRun(run);
    view.setHead(head);
    view.show();
    QTRY_VERIFY_WITH_TIMEOUT(view.picture() && view.picture()->side.size() == 2 && !view.busy(), 60000);
    const auto a = analysis::load_addresses(*run->trace, 0, 0, 0);
    const auto& g = view.picture()->grid;
    const auto expected = analysis::pixels(*analysis::overlap_matrix(a), {.t0 = 0, .t1 = 5000, .s0 = 0, .s1 = 5000, .max_rows = g.max.rows, .max_columns = g.max.columns});
    QVERIFY(g.max.slots_per_row > 1);
    for (size_t i = 0; i < g.max.value.size(); ++i) {
      QCOMPARE(g.max.state[i], expected.max.state[i]);
      if (g.max.state[i] == analysis::Cell::finite) QVERIFY(g.max.value[i] == expected.max.value[i] && g.mean.value[i] == expected.mean.value[i]);
    }
    const auto d = analysis::compare_rows(*analysis::overlap_matrix(a), *analysis::induced_matrix(a), view.picture()->js_token[77], view.picture()->js_token[77] + 1);
    QCOMPARE(view.picture()->js[77], d.js[0]);
  }

  void pictures_data() {
    QTest::addColumn<bool>("dark");
    QTest::newRow("light") << false;
    QTest::newRow("dark") << true;
  }
  void pictures() {
    QFETCH(bool, dark);
    Theme::apply(testing::pictureTheme(dark));
    SelectionModel selection;
    OpenOverlap view(&selection, nullptr);
    open(view, selection, 900, 560);
    view.setOther(run_);
    view.chooseOther(1, 0);
    const QString name = dark ? QStringLiteral("overlap_dark") : QStringLiteral("overlap_light");
    const QImage image = view.grab().toImage();
    Theme::apply(testing::pictureTheme(false));
    testing::keepPicture(image, name);
    testing::comparePicture(image, QStringLiteral(SLOTSCOPE_SOURCE_DIR "/tests/views/pictures/%1.png").arg(name));
  }

 private:
  static QString strengthText(double v);
};

#include "views/format.h"
QString TestOverlap::strengthText(double v) { return strength(v, 4); }

SLOTSCOPE_VIEW_TEST(TestOverlap)
#include "test_overlap.moc"
