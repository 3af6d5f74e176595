// Address views: accesses, factor marginals, digits and masses on screen, in words and as CSV; what is missing.
#include <QComboBox>
#include <QTemporaryDir>
#include <QToolButton>
#include <cmath>

#include "tests/views/ramnet_run.h"
#include "tests/views/view_test.h"
#include "views/address_view.h"
#include "views/format.h"

using namespace slotscope;
using namespace slotscope::views;

namespace {

struct OpenAddresses : AddressView {
  using AddressView::AddressView;
  using AddressView::tipAt;
};

}  // namespace

class TestAddresses : public QObject {
  Q_OBJECT
  static constexpr int64_t kTokens = 60;
  QTemporaryDir folder_;
  testing::AddressProblem problem_ = testing::make_problem(3, 3, 6, kTokens, 1, 31);
  std::shared_ptr<const RunData> run_;
  std::shared_ptr<const analysis::HeadData> head_;  // head 1: with CAPE
  std::shared_ptr<const analysis::Addresses> addresses_;

  std::shared_ptr<const RunData> runOf(const testing::MadeRun& made, const char* name) {
    return testing::ramnetRun(folder_.filePath(QString::fromLatin1(name)), made);
  }
  void open(AddressView& view, SelectionModel& selection, int width = 900, int height = 560) {
    selection.setLimits(1, 2, 2, 27, kTokens);
    selection.request({.layer = 0, .head = 1, .slot = 13, .token = 41});
    view.resize(width, height);
    view.setRun(run_);
    view.setHead(head_);
    view.show();
    QVERIFY(QTest::qWaitForWindowExposed(&view));
    view.drawNow();
  }
  QVector<QStringList> lines(const AddressView& view) {
    QVector<QStringList> out;
    bool header = true;
    for (const QString& line : view.csv().split(QLatin1Char('\n'), Qt::SkipEmptyParts))
      if (!line.startsWith(QLatin1Char('#')) && !std::exchange(header, false)) out << line.split(QLatin1Char(','));
    return out;
  }
  QColor at(const QImage& shot, const QPointF& content) { return shot.pixelColor(content.toPoint() + QPoint(0, 36)); }

 private Q_SLOTS:
  void initTestCase() {
    auto made = testing::made_run(problem_, {0}, std::vector<double>(2 * kTokens, 0));
    made.spans = {{"needle", 10, 20}, {"key", 14, 17}};
    run_ = runOf(made, "a.h5");
    head_ = analysis::load_head(*run_->trace, 0, 0, 1);
    addresses_ = analysis::load_addresses(*run_->trace, 0, 0, 1, nullptr, head_);
  }

  void accessesInTwoColours() {
    SelectionModel selection;
    OpenAddresses view(&selection, nullptr);
    open(view, selection);
    selection.request({.slot = 26, .token = 0});
    const QImage shot = view.grab().toImage();
    const QRectF plot = view.plotFor(QRectF(QPointF(0, 0), view.contentRect().size()), 1);
    const auto& theme = Theme::current();
    int seen[4] = {0, 0, 0, 0};
    for (int64_t t = 2; t < kTokens; ++t)
      for (int slot = 0; slot < 26; ++slot) {
        const double w = problem_.w[size_t(t)][size_t(slot)], r = problem_.r[size_t(t)][size_t(slot)];
        const QColor colour = at(shot, plot.topLeft() + QPointF((double(t) + 0.5) * plot.width() / kTokens, (slot + 0.5) * plot.height() / 27));
        const int kind = (w > 0) + 2 * (r > 0);
        ++seen[kind];
        if (kind == 0) QCOMPARE(colour, theme.plot);
        // The nearest of the three pure hues, whatever the depth.
        const QColor pure[] = {theme.plot, theme.retrieval, theme.other, theme.shared};
        const auto hue = [](const QColor& c) { return c.hsvHueF(); };
        if (kind > 0) QVERIFY2(std::abs(hue(colour) - hue(pure[kind])) < 0.04, qPrintable(QStringLiteral("token %1 slot %2: %3").arg(t).arg(slot).arg(colour.name())));
      }
    QVERIFY(seen[0] > 500 && seen[1] > 100 && seen[2] > 100 && seen[3] > 20);
  }

  void accessesAsCsvWithDigits() {
    SelectionModel selection;
    OpenAddresses view(&selection, nullptr);
    open(view, selection);
    const auto rows = lines(view);
    QCOMPARE(rows.size(), qsizetype(kTokens * 12));
    for (const auto& f : rows) {
      const int64_t t = f[1].toLongLong(), slot = f[3].toLongLong();
      QCOMPARE(f[6].toDouble(), (f[0] == QStringLiteral("write") ? problem_.w : problem_.r)[size_t(t)][size_t(slot)]);
      QCOMPARE(f[5].toLongLong(), ((slot - t) % 27 + 27) % 27);  // CAPE +1 undone
      QCOMPARE(f[4], QStringLiteral("%1 %2 %3").arg(slot % 3).arg(slot / 3 % 3).arg(slot / 9));
    }
    view.setTokens({10, 20});
    view.setSlots({5, 15});
    int expected = 0;
    for (int64_t t = 10; t < 20; ++t)
      for (int slot = 5; slot < 15; ++slot) expected += (problem_.w[size_t(t)][size_t(slot)] > 0) + (problem_.r[size_t(t)][size_t(slot)] > 0);
    QCOMPARE(lines(view).size(), qsizetype(expected));
    view.setDecoded(true);
    for (const auto& f : lines(view)) QVERIFY(f[5].toInt() >= 5 && f[5].toInt() < 15);
  }

  void factorsAreMarginalsOfTheKeptMass() {
    SelectionModel selection;
    OpenAddresses view(&selection, nullptr);
    open(view, selection);
    view.setMode(AddressMode::factors);
    for (const bool write : {true, false}) {
      view.setWriteFactors(write);
      const auto rows = lines(view);
      QCOMPARE(rows.size(), qsizetype(kTokens * 9));
      double sum = 0;
      for (const auto& f : rows) {
        QCOMPARE(f[0], write ? QStringLiteral("write") : QStringLiteral("read"));
        const int64_t t = f[1].toLongLong();
        const auto m = analysis::factor_marginals(*addresses_, t, write);
        QCOMPARE(float(f[4].toDouble()), float(m[size_t(f[2].toInt() * 3 + f[3].toInt())]));
        if (t == 41 && f[2] == QStringLiteral("0")) sum += f[4].toDouble();
      }
      double kept = 0;
      for (const double v : (write ? problem_.w : problem_.r)[41]) kept += v;
      QVERIFY(std::abs(sum - kept) < 1e-6 && kept < 1);
    }
    QVERIFY(view.csv().contains(QStringLiteral("what Top-K left out is not in it")));
    // The colour of one cell: read marginal of factor 1, code 2 at token 30.
    selection.request({.token = 0});
    const QImage shot = view.grab().toImage();
    const QRectF plot = view.plotFor(QRectF(QPointF(0, 0), view.contentRect().size()), 1);
    const double strip = (plot.height() - 12) / 3;
    const QColor colour = at(shot, {plot.left() + 30.5 * plot.width() / kTokens, plot.top() + strip + 6 + strip * 2.5 / 3});
    const double value = analysis::factor_marginals(*addresses_, 30, false)[5];
    const QColor expected(colourMap(QStringLiteral("cividis"), false)[int(std::lround(value * 255))]);
    QVERIFY2(std::abs(colour.red() - expected.red()) <= 2 && std::abs(colour.blue() - expected.blue()) <= 2, qPrintable(colour.name() + expected.name()));
  }

  void digitsOfTheSelectedToken() {
    SelectionModel selection;
    OpenAddresses view(&selection, nullptr);
    open(view, selection);
    view.setMode(AddressMode::digits);
    QCOMPARE(view.picture()->token, int64_t(41));
    QCOMPARE(view.picture()->marginal[1], analysis::factor_marginals(*addresses_, 41, true));
    QCOMPARE(view.picture()->kept[0], analysis::kept_mass(*addresses_, 41, false));
    const auto rows = lines(view);
    QCOMPARE(rows.size(), qsizetype(12));
    QCOMPARE(rows[7][3].toLongLong(), qint64(addresses_->read_slot_at(41, 1)));
    // A click on a rank selects its slot.
    const QRectF area(QPointF(0, 0), view.contentRect().size());
    QTest::mouseClick(&view, Qt::LeftButton, Qt::NoModifier, view.rankRow(area, 1, true, 2).center().toPoint() + QPoint(0, 36));
    QCOMPARE(selection.current().slot, int(addresses_->read_slot_at(41, 2)));
    selection.request({.token = 7});
    QTRY_COMPARE(view.picture()->token, int64_t(7));
    QVERIFY(view.accessibleName().contains(QStringLiteral("token 7 writes slot %1 with %2").arg(
        QString::fromStdString(analysis::slot_name(addresses_->code, addresses_->write->slot_at(7, 0))), strength(addresses_->write->weight_at(7, 0), 4))));
  }

  void massOfEverySlot() {
    SelectionModel selection;
    OpenAddresses view(&selection, nullptr);
    open(view, selection);
    view.setMode(AddressMode::mass);
    std::string why;
    const auto mass = analysis::mass_after(*addresses_, 41, why);
    QCOMPARE(view.picture()->mass.mass, mass);
    QVERIFY(view.picture()->mass.replayed);
    for (const auto& f : lines(view)) QCOMPARE(f[3].toDouble(), mass[size_t(f[1].toInt())]);
    // The bar of the selected slot ends at its mass.
    const QImage shot = view.grab().toImage();
    const QRectF plot = view.plotFor(QRectF(QPointF(0, 0), view.contentRect().size()), 1);
    const double x = plot.left() + 13.4 * plot.width() / 27;
    double top = plot.bottom();
    while (top > plot.top() && at(shot, {x, top - 2}) == Theme::current().selection) --top;
    const double most = *std::max_element(mass.begin(), mass.end()), share = (plot.bottom() - top) / plot.height();
    // The axis ends at a round number above the largest mass.
    const double axis = mass[13] / share;
    QVERIFY(axis >= most * 0.99 && axis <= most * 1.6);
    const QString tip = view.tipAt({x, plot.center().y()});
    QVERIFY2(tip.contains(QStringLiteral("13 (1·1·1)")) && tip.contains(strength(mass[13], 4)), qPrintable(tip));
    QTest::mouseClick(&view, Qt::LeftButton, Qt::NoModifier, QPoint(int(plot.left() + 20.5 * plot.width() / 27), int(plot.center().y()) + 36));
    QCOMPARE(selection.current().slot, 20);
  }

  void zoomModesAndSelection() {
    SelectionModel selection;
    OpenAddresses view(&selection, nullptr);
    open(view, selection);
    selection.setTokenRange(20, 36);
    QCOMPARE(view.tokenWindow(), (CellRange{20, 36}));
    view.drawNow();
    QCOMPARE(view.picture()->access.columns, 16);
    const QRectF plot = view.plotFor(QRectF(QPointF(0, 0), view.contentRect().size()), 1);
    QTest::mouseClick(&view, Qt::LeftButton, Qt::NoModifier, QPoint(int(plot.left() + 3.5 * plot.width() / 16), int(plot.top() + 9.5 * plot.height() / 27) + 36));
    QCOMPARE(selection.current().token, qint64(23));
    QCOMPARE(selection.current().slot, 9);
    QTest::keyClick(&view, Qt::Key_0);
    QCOMPARE(view.tokenWindow(), (CellRange{0, kTokens}));
    QCOMPARE(selection.tokenRange(), (std::pair<qint64, qint64>{0, kTokens}));
    for (const auto mode : {AddressMode::factors, AddressMode::digits, AddressMode::mass, AddressMode::access}) {
      QTest::keyClick(&view, Qt::Key_C);
      QCOMPARE(view.mode(), mode);
      QVERIFY(view.picture() && view.picture()->failed.isEmpty());
    }
  }

  void whatIsMissing() {
    auto made = testing::made_run(testing::make_problem(2, 3, 4, 20, 0, 3), {0}, std::vector<double>(40, 0));
    made.layers[0].fields.clear();
    const auto run = runOf(made, "none.h5");
    SelectionModel selection;
    OpenAddresses view(&selection, nullptr);
    QVERIFY(view.accessibleName().contains(QStringLiteral("Nothing is open")));
    view.setRun(run);
    view.setHead(analysis::load_head(*run->trace, 0, 0, 0));
    QVERIFY2(view.accessibleName().contains(QStringLiteral("--capture route,addresses")), qPrintable(view.accessibleName()));
    QVERIFY(view.csv().isEmpty());
    view.setMode(AddressMode::mass);
    QVERIFY2(view.accessibleName().contains(QStringLiteral("gamma")), qPrintable(view.accessibleName()));
    // A routed memory: accesses, but no digits.
    made.layers[0].attributes.clear();
    made.layers[0].family = "raven";
    const auto raven = runOf(made, "raven.h5");
    view.setRun(raven);
    view.setMode(AddressMode::access);
    view.setHead(analysis::load_head(*raven->trace, 0, 0, 0));
    QVERIFY(view.picture()->failed.isEmpty());
    for (const auto& f : lines(view)) QCOMPARE(f[0], QStringLiteral("write"));
    view.setMode(AddressMode::digits);
    QVERIFY(view.accessibleName().contains(QStringLiteral("no digits")));
  }

  void inAWorker() {
    SelectionModel selection;
    Worker worker;
    OpenAddresses view(&selection, &worker);
    selection.setLimits(1, 2, 2, 27, kTokens);
    view.resize(900, 560);
    view.setRun(run_);
    view.setHead(head_);
    view.show();
    QTRY_VERIFY(view.picture() && !view.busy());
    for (int i = 0; i < 20; ++i) view.setTokens({i, 40 + i});
    QTRY_COMPARE(view.picture()->access.first_token, int64_t(19));
  }

  void pictures_data() {
    QTest::addColumn<int>("mode");
    QTest::addColumn<bool>("dark");
    for (int mode = 0; mode < kAddressModes; ++mode)
      QTest::newRow(qPrintable(addressModeName(AddressMode(mode)))) << mode << (mode % 2 == 1);
  }
  void pictures() {
    QFETCH(int, mode);
    QFETCH(bool, dark);
    Theme::apply(testing::pictureTheme(dark));
    SelectionModel selection;
    OpenAddresses view(&selection, nullptr);
    open(view, selection, 860, 480);
    view.setMode(AddressMode(mode));
    const QString name = QStringLiteral("addresses_") + addressModeName(AddressMode(mode)).toLower();
    const QImage image = view.grab().toImage();
    Theme::apply(testing::pictureTheme(false));
    testing::keepPicture(image, name);
    testing::comparePicture(image, QStringLiteral(SLOTSCOPE_SOURCE_DIR "/tests/views/pictures/%1.png").arg(name));
  }
};

SLOTSCOPE_VIEW_TEST(TestAddresses)
#include "test_addresses.moc"
