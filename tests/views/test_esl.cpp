// ESL view and grid: geometry, colours by pixels, cuts, references, hit tests, CSV against the analysis.
#include <QPushButton>
#include <QSignalSpy>
#include <cmath>

#include "tests/views/demo.h"
#include "tests/views/view_test.h"
#include "views/esl_grid_view.h"
#include "views/esl_view.h"
#include "views/strip.h"

using namespace slotscope;
using namespace slotscope::views;

namespace {

struct OpenEsl : EslView {
  using EslView::EslView;
  using EslView::tipAt;
};
struct OpenGrid : EslGridView {
  using EslGridView::EslGridView;
  using EslGridView::tipAt;
};

analysis::EslResult someEsl() {
  const std::vector<uint32_t> esl{4, 90, 0, 61, 33, 1, 12, 100}, selected{5, 90, 0, 61, 33, 1, 12, 100};
  return analysis::analyse_esl(esl, selected, 100);
}

std::shared_ptr<analysis::HeadData> headWith(const analysis::EslResult& esl) {
  auto head = std::make_shared<analysis::HeadData>();
  head->layer = 2, head->head = 1;
  head->routes.slots = int(esl.esl.size());
  head->routes.tokens = esl.tokens;
  head->esl = esl;
  head->allocation.slot_class.assign(esl.esl.size(), analysis::SlotClass::shared);
  return head;
}

QStringList dataLines(const QString& csv) {
  QStringList lines;
  for (const auto& line : csv.split(QLatin1Char('\n'), Qt::SkipEmptyParts))
    if (!line.startsWith(QLatin1Char('#'))) lines << line;
  return lines;
}

}  // namespace

class TestEsl : public QObject {
  Q_OBJECT
  std::shared_ptr<const RunData> run_ = testing::demoRunData();
  std::shared_ptr<const analysis::HeadData> head_ = testing::demoHead(run_->info(), 3, 0);

  template <class V>
  void open(V& view, SelectionModel& selection, int width, int height) {
    selection.setLimits(1, 4, 4, 64, run_->info().tokens);
    selection.request({.layer = 3, .head = 0, .slot = 5});
    view.resize(width, height);
    view.setRun(run_);
    view.setHead(head_);
    view.show();
    QVERIFY(QTest::qWaitForWindowExposed(&view));
  }

 private Q_SLOTS:
  void fitWording() {
    analysis::EslFit fit{1.0512, 7.12, 0.9881, true};
    QCOMPARE(fitText(fit).simplified(), QStringLiteral("fit c·e^(−i/λ) c = 1.051 λ = 7.1 slots R² = 0.988"));
    fit.lambda = INFINITY, fit.r2 = std::nan("");
    QCOMPARE(fitText(fit).simplified(), QStringLiteral("fit c·e^(−i/λ) c = 1.051 λ = ∞ R² = –"));
    QCOMPARE(fitText({}), QString());
  }

  void barsTileThePlot() {
    const auto esl = someEsl();
    EslPanel p;
    p.esl = &esl;
    for (const double width : {8.0, 61.0, 640.0, 1001.0}) {
      const QRectF plot(57, 15, width, 300);
      double previous = std::floor(plot.left());
      for (int at = 0; at < 8 && width >= 16; ++at) {
        const QRectF bar = eslBar(p, plot, at);
        QCOMPARE(bar.left(), std::floor(bar.left()));
        QCOMPARE(bar.left(), previous);  // no hole, no overlap
        previous = std::floor(plot.left() + (at + 1) * width / 8);
        const double gap = width / 8 >= 6 ? 1 : 0;
        QCOMPARE(bar.right(), std::max(bar.left() + 1, previous - gap));
        const double value = p.normalised(esl.order[size_t(at)]);
        if (value > 0) QVERIFY(std::abs(bar.height() - value * 300) <= 1);
        QCOMPARE(eslBarAt(p, plot, bar.left() + 0.5), at);
      }
      QCOMPARE(eslBarAt(p, plot, plot.left() - 1), -1);
      QCOMPARE(eslBarAt(p, plot, plot.right()), -1);
    }
    // One write of 100 000 still shows.
    auto rare = esl;
    rare.tokens = 100000;
    p.esl = &rare;
    QVERIFY(eslBar(p, QRectF(0, 0, 640, 300), 6).height() >= 1);
  }

  void ticksAreRound() {
    QCOMPARE(roundTicks(1, 5, false), (QVector<double>{0, 0.2, 0.4, 0.6000000000000001, 0.8, 1}));
    QCOMPARE(roundTicks(501, 5, true), (QVector<double>{0, 200, 400}));
    QCOMPARE(roundTicks(3, 5, true), (QVector<double>{0, 1, 2, 3}));
    QCOMPARE(roundTicks(0, 5, true), (QVector<double>{0}));
    QCOMPARE(roundTicks(std::nan(""), 5, true), (QVector<double>{0}));
    QCOMPARE(slotTicks(64, 740, 42), (QVector<double>{0, 8, 16, 24, 32, 40, 48, 56, 64}));
    QCOMPARE(slotTicks(1, 300, 42), (QVector<double>{0, 1}));
    QCOMPARE(slotTicks(0, 300, 42), (QVector<double>{}));
    const auto odd = slotTicks(100, 740, 42);
    QCOMPARE(odd.back(), 100.0);
  }

  void colourOfBars() {
    SelectionModel selection;
    OpenEsl view(&selection);
    open(view, selection, 812, 410);
    const QImage image = view.grab().toImage();
    const auto& theme = Theme::current();
    EslPanel p;
    p.esl = &head_->esl;
    const QRectF plot = view.layoutFor(QRectF(QPointF(0, 0), view.contentRect().size()), theme).plots[0];
    int seen[3] = {0, 0, 0};
    for (int at = 0; at < 20; ++at) {
      const int slot = head_->esl.order[size_t(at)];
      const QRectF bar = eslBar(p, plot, at).translated(view.contentRect().topLeft());
      if (bar.height() < 8) break;
      const auto regime = head_->esl.regime[size_t(slot)];
      const QColor expected = mix(Qt::white, theme.regimeColour(regime), 0.12);
      // Low in the bar, left half: away from the fit curve, the cuts and the grid.
      const QColor got = image.pixelColor(int(bar.left()) + 2, int(bar.bottom()) - 3);
      QCOMPARE(got.name(), expected.name());
      ++seen[int(regime)];
    }
    QVERIFY(seen[0] > 0 && seen[1] > 0 && seen[2] > 0);
    QCOMPARE(theme.regimeColour(analysis::Regime::long_range), theme.other);
    QCOMPARE(theme.regimeColour(analysis::Regime::short_range), theme.retrieval);

    view.setByClass(true);
    const QImage by_class = view.grab().toImage();
    p.allocation = &head_->allocation;
    p.by_class = true;
    const QRectF bar = eslBar(p, plot, 0).translated(view.contentRect().topLeft());
    QCOMPARE(by_class.pixelColor(int(bar.left()) + 2, int(bar.bottom()) - 3).name(),
             mix(Qt::white, theme.roleColour(head_->allocation.slot_class[size_t(head_->esl.order[0])]), 0.12)
                 .name());
  }

  void clickAndKeysSelect() {
    SelectionModel selection;
    OpenEsl view(&selection);
    open(view, selection, 812, 410);
    const QRectF plot = view.layoutFor(QRectF(QPointF(0, 0), view.contentRect().size()), Theme::current())
                            .plots[0]
                            .translated(view.contentRect().topLeft());
    EslPanel p;
    p.esl = &head_->esl;
    for (const int at : {0, 11, 63}) {
      QTest::mouseClick(&view, Qt::LeftButton, {},
                        QPoint(int(eslBar(p, plot, at).left()) + 3, int(plot.bottom()) - 3));
      QCOMPARE(selection.current().slot, head_->esl.order[size_t(at)]);
    }
    QTest::keyClick(&view, Qt::Key_Up);
    QCOMPARE(selection.current().slot, head_->esl.order[62]);
    QTest::keyClick(&view, Qt::Key_Up, Qt::ShiftModifier);
    QCOMPARE(selection.current().slot, head_->esl.order[52]);
    QTest::keyClick(&view, Qt::Key_Down);
    QCOMPARE(selection.current().slot, head_->esl.order[53]);
    QVERIFY2(view.accessibleName().contains(QStringLiteral("slot %1,").arg(head_->esl.order[53])),
             qPrintable(view.accessibleName()));
    QTest::mouseMove(&view, QPoint(int(plot.left()) + 3, int(plot.bottom()) - 3));
    QCOMPARE(selection.hoverSlot(), head_->esl.order[0]);
  }

  void draggedCutsAnalyseAgain() {
    SelectionModel selection;
    OpenEsl view(&selection);
    open(view, selection, 812, 410);
    const QRectF plot = view.layoutFor(QRectF(QPointF(0, 0), view.contentRect().size()), Theme::current())
                            .plots[0]
                            .translated(view.contentRect().topLeft());
    EslPanel p;
    p.esl = &head_->esl;
    QSignalSpy asked(&view, &EslView::eslOptionsRequested);
    const int x = int(plot.right()) - 40;
    const int from = int(std::round(eslY(p, plot, head_->esl.cut_high))), to = int(plot.top() + 60);
    QTest::mousePress(&view, Qt::LeftButton, {}, QPoint(x, from));
    QTest::mouseMove(&view, QPoint(x, to));
    QTest::mouseRelease(&view, Qt::LeftButton, {}, QPoint(x, to));
    QCOMPARE(asked.count(), 1);
    const auto wanted = asked[0][0].value<analysis::EslOptions>();
    double low = 1, high = 0;
    for (const auto n : head_->esl.esl)
      if (n > 0)
        low = std::min(low, n / double(head_->esl.tokens)),
        high = std::max(high, n / double(head_->esl.tokens));
    const double at = (plot.bottom() - to) / plot.height();
    QVERIFY(std::abs(wanted.high - std::clamp((at - low) / (high - low), 0.0, 1.0)) < 0.005);
    QCOMPARE(wanted.low, analysis::EslOptions{}.low);
    const auto again = analysis::analyse_esl(head_->esl.esl, head_->esl.selected, head_->esl.tokens, wanted);
    QVERIFY(again.regime == view.result().regime);
    QCOMPARE(view.result().cut_high, again.cut_high);
    QVERIFY(again.regime != head_->esl.regime);
    // Cuts never pass each other.
    view.setCuts({0.4, 0.5});
    const int low_y = int(std::round(eslY(p, plot, view.result().cut_low)));
    QTest::mousePress(&view, Qt::LeftButton, {}, QPoint(x, low_y));
    QTest::mouseMove(&view, QPoint(x, int(plot.top())));
    QTest::mouseRelease(&view, Qt::LeftButton, {}, QPoint(x, int(plot.top())));
    QVERIFY(view.cuts().low <= view.cuts().high);
  }

  void tooltipNamesBothCounts() {
    SelectionModel selection;
    OpenEsl view(&selection);
    selection.setLimits(1, 4, 4, 8, 100);
    const auto head = headWith(someEsl());
    view.resize(812, 410);
    view.setRun(run_);
    view.setHead(head);
    view.show();
    EslPanel p;
    p.esl = &head->esl;
    const QRectF plot =
        view.layoutFor(QRectF(QPointF(0, 0), view.contentRect().size()), Theme::current()).plots[0];
    const auto tip = [&](int slot) {
      const int at =
          int(std::find(head->esl.order.begin(), head->esl.order.end(), slot) - head->esl.order.begin());
      return view.tipAt({eslBar(p, plot, at).left() + 1, plot.bottom() - 2});
    };
    QVERIFY2(tip(0).contains(QStringLiteral("4 by weight, 5 selected")), qPrintable(tip(0)));
    QVERIFY(!tip(1).contains(QStringLiteral("by weight")));
    QVERIFY(tip(1).contains(QStringLiteral("90 of 100 tokens")));
    QVERIFY(tip(1).contains(QStringLiteral("Def. 4")));
  }

  void csvEqualsTheAnalysis() {
    SelectionModel selection;
    OpenEsl view(&selection);
    open(view, selection, 812, 410);
    const auto lines = dataLines(view.csv());
    QCOMPARE(lines.size(), 65);
    QCOMPARE(
        lines[0],
        QStringLiteral("rank,slot,esl,esl_normalised,selected,regime,slot_class,fit,ssm_theory,swa_theory"));
    double ring = 0;
    for (int at = 0; at < 64; ++at) {
      const auto cell = lines[at + 1].split(QLatin1Char(','));
      QCOMPARE(cell.size(), 10);
      const auto slot = size_t(head_->esl.order[size_t(at)]);
      QCOMPARE(cell[1].toInt(), int(slot));
      QCOMPARE(cell[2].toUInt(), head_->esl.esl[slot]);
      QCOMPARE(cell[3].toDouble(), head_->esl.esl[slot] / 520.0);
      QCOMPARE(cell[6], slotClassName(head_->allocation.slot_class[slot]));
      if (head_->esl.esl[slot] > 0)
        QCOMPARE(cell[7].toDouble(), head_->esl.fit.c * std::exp(-at / head_->esl.fit.lambda));
      else
        QVERIFY(cell[7].isEmpty());
      QCOMPARE(cell[8].toDouble(), 1.0);
      ring += cell[9].toDouble() * 520;
    }
    // Every token writes exactly one slot of the ring.
    QVERIFY(std::abs(ring - 520) < 1e-9);
    QVERIFY(view.csv().startsWith(QStringLiteral("# model: raven-passkey\n")));
    QVERIFY(view.csv().contains(QStringLiteral("# layer: 3\n")));
  }

  void referencesLineUp() {
    SelectionModel selection;
    OpenEsl view(&selection);
    open(view, selection, 1100, 380);
    view.setReferences(true);
    const auto layout = view.layoutFor(QRectF(0, 0, 1100, 344), Theme::current());
    QCOMPARE(layout.plots.size(), 3);
    for (int i = 1; i < 3; ++i) {
      QCOMPARE(layout.plots[i].size(), layout.plots[0].size());
      QCOMPARE(layout.plots[i].top(), layout.plots[0].top());
      QVERIFY(layout.plots[i].left() > layout.plots[i - 1].right());
    }
    const QImage image = view.grab().toImage();
    const QColor grey = mix(Qt::white, Theme::current().regimeColour(analysis::Regime::uniform), 0.12);
    const QPointF middle = layout.plots[1].center() + view.contentRect().topLeft();
    QCOMPARE(image.pixelColor(middle.toPoint()).name(), grey.name());  // dense: full height
    QVERIFY(image.pixelColor((layout.plots[2].center() + view.contentRect().topLeft()).toPoint()) != grey);
  }

  void gridCellsAreEqualAndHit() {
    SelectionModel selection;
    OpenGrid view(&selection);
    open(view, selection, 1266, 690);
    const auto g = view.geometryFor(view.contentRect().size());
    QVERIFY(!g.small);
    for (int layer = 0; layer < 4; ++layer)
      for (int head = 0; head < 4; ++head) {
        const QRectF cell = g.cell(layer, head);
        QCOMPARE(cell.size(), g.cell(0, 0).size());
        QCOMPARE(cell.left(), std::floor(cell.left()));
        QVERIFY(view.contentRect().contains(cell.translated(view.contentRect().topLeft())));
        QTest::mouseClick(&view, Qt::LeftButton, {},
                          (cell.center() + view.contentRect().topLeft()).toPoint());
        QCOMPARE(selection.current().layer, layer);
        QCOMPARE(selection.current().head, head);
      }
    QSignalSpy deeper(&view, &View::openViewRequested);
    QTest::mouseDClick(&view, Qt::LeftButton, {},
                       (g.cell(1, 2).center() + view.contentRect().topLeft()).toPoint());
    QCOMPARE(deeper.count(), 1);
    QCOMPARE(deeper[0][0].toString(), QStringLiteral("esl"));
    QTest::keyClick(&view, Qt::Key_Up);
    QCOMPARE(selection.current().layer, 2);
    QTest::keyClick(&view, Qt::Key_Left);
    QCOMPARE(selection.current().head, 2);
    QVERIFY2(view.accessibleName().contains(QStringLiteral("layer 2 head 2")),
             qPrintable(view.accessibleName()));
    // The frame of the selected cell is magenta on all four sides.
    const QImage image = view.grab().toImage();
    const QRectF cell = g.cell(2, 2).translated(view.contentRect().topLeft());
    QCOMPARE(image.pixelColor(int(cell.center().x()), int(cell.bottom()) + 1).name(),
             Theme::current().selection.name());
    QCOMPARE(image.pixelColor(int(cell.left()), int(cell.center().y())).name(),
             Theme::current().selection.name());
  }

  void manyHeadsScrollAndAttentionIsNamed() {
    auto run = std::make_shared<RunData>();
    run->own_info = run_->own_info;
    run->summary.layers = 24, run->summary.heads = 16;
    for (int layer = 0; layer < 24; ++layer)
      for (int head = 0; head < (layer % 4 == 3 ? 1 : 16); ++head) {
        analysis::HeadSummary s;
        s.layer = layer, s.head = head;
        if (layer % 4 == 3)
          s.why = layer == 3 ? "attention" : "not captured: run again with layer " + std::to_string(layer);
        else
          s.has_routes = true, s.esl = head_->esl, s.allocation = head_->allocation;
        run->summary.head_list.push_back(s);
      }
    SelectionModel selection;
    selection.setLimits(1, 24, 16, 64, 520);
    OpenGrid view(&selection);
    view.resize(1266, 690);
    view.setRun(run);
    view.show();
    const auto g = view.geometryFor(view.contentRect().size());
    QVERIFY(g.small);
    QVERIFY(g.height > view.contentRect().height());
    QCOMPARE(g.cell_height, 56.0);
    QVERIFY(g.cell(0, 15).right() <= view.contentRect().width());
    QVERIFY(view.tipAt(g.cell(3, 0).center()).contains(QStringLiteral("attention")));
    QVERIFY(view.tipAt(g.cell(7, 0).center()).contains(QStringLiteral("run again with layer 7")));
    QCOMPARE(view.scrollOffset(), 0.0);
    selection.request({.layer = 23, .head = 0});
    QVERIFY(view.scrollOffset() > 0);  // the selected cell comes into view
    QVERIFY(g.cell(23, 0).bottom() - view.scrollOffset() <= view.contentRect().height() + 1);
    testing::keepPicture(view.grab().toImage(), QStringLiteral("grid-24x16"));
  }

  void gridCsv() {
    SelectionModel selection;
    OpenGrid view(&selection);
    open(view, selection, 1266, 690);
    const auto lines = dataLines(view.csv());
    QCOMPARE(lines.size(), 1 + 16 * 64);
    const auto cell = lines[1 + 12 * 64 + 7].split(QLatin1Char(','));
    const auto& esl = run_->summary.head_list[12].esl;
    QCOMPARE(cell[0].toInt(), 3);
    QCOMPARE(cell[3].toInt(), esl.order[7]);
    QCOMPARE(cell[4].toUInt(), esl.esl[size_t(esl.order[7])]);
    QCOMPARE(cell[10].toDouble(), esl.fit.lambda);
  }

  void emptyAndTiny() {
    SelectionModel selection;
    OpenEsl view(&selection);
    view.resize(300, 200);
    view.show();
    view.grab();
    QVERIFY(view.accessibleName().contains(QStringLiteral("Nothing is open")));
    QCOMPARE(view.csv(), QString());
    const auto one = analysis::analyse_esl(std::vector<uint32_t>{1}, std::vector<uint32_t>{1}, 1);
    view.setRun(run_);
    view.setHead(headWith(one));
    view.grab();
    const auto none = analysis::analyse_esl(std::vector<uint32_t>{0, 0}, {}, 0);
    view.setHead(headWith(none));
    view.grab();
    view.setMessage(QStringLiteral("No reads were captured."), QStringLiteral("Run again with reads"));
    QSignalSpy pressed(&view, &View::messageAction);
    auto* button = view.findChild<QPushButton*>();
    QVERIFY(button && button->isVisible());
    QTest::mouseClick(button, Qt::LeftButton);
    QCOMPARE(pressed.count(), 1);
  }
};

SLOTSCOPE_VIEW_TEST(TestEsl)
#include "test_esl.moc"
