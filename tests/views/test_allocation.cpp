// Allocation: strips by pixels, hit tests, role text, thresholds, CSV against the analysis.
#include <QComboBox>
#include <QPainter>
#include <QSignalSpy>
#include <cmath>

#include "tests/views/demo.h"
#include "tests/views/view_test.h"
#include "views/allocation_view.h"
#include "views/role_text.h"
#include "views/strip.h"

using namespace slotscope;
using namespace slotscope::views;

namespace {

struct OpenAllocation : AllocationView {
  using AllocationView::AllocationView;
  using AllocationView::tipAt;
};

analysis::HeadAllocation someAllocation() {
  // 8 slots: 2 retrieval, 3 shared, 2 other, 1 empty.
  analysis::HeadAllocation a;
  a.written = {10, 0, 100, 4, 25, 3, 9, 64};
  a.retrieval = {3, 0, 5, 4, 0, 3, 1, 0};
  using C = analysis::SlotClass;
  a.slot_class = {C::shared, C::empty, C::shared, C::retrieval, C::other, C::retrieval, C::shared, C::other};
  a.order = {3, 5, 2, 0, 6, 7, 4, 1};
  a.counts[0] = 2, a.counts[1] = 3, a.counts[2] = 2, a.counts[3] = 1;
  a.max_written = 100;
  a.specialisation = {0.3, std::nan(""), 0.05, 1, 0, 1, 0.1, 0};
  a.head_score = 0.36;
  a.retrieval_head = true;
  return a;
}

QString joined(const QVector<RoleLine>& lines) {
  QStringList out;
  for (const auto& line : lines) {
    QString text;
    for (const auto& run : line.runs) text += run.text;
    out << text;
  }
  return out.join(QLatin1Char('\n'));
}

}  // namespace

class TestAllocation : public QObject {
  Q_OBJECT
  std::shared_ptr<const RunData> run_ = testing::demoRunData();
  std::shared_ptr<const analysis::HeadData> head_ = testing::demoHead(run_->info(), 3, 0);

  void open(AllocationView& view, SelectionModel& selection, int width = 1266, int height = 690) {
    selection.setLimits(1, 4, 4, 64, run_->info().tokens);
    selection.request({.layer = 3, .head = 0, .slot = 5});
    view.resize(width, height);
    view.setRun(run_);
    view.setHead(head_);
    view.show();
    QVERIFY(QTest::qWaitForWindowExposed(&view));
  }

 private Q_SLOTS:
  void stripColumnsByPixel() {
    const auto a = someAllocation();
    const auto& theme = Theme::current();
    for (const int width : {8, 64, 100, 289}) {
      QImage image(width + 20, 60, QImage::Format_RGB32);
      image.fill(Qt::yellow);
      QPainter painter(&image);
      const QRectF rect(10, 10, width, 40);
      paintAllocationStrip(painter, rect, a, theme, -1);
      painter.end();
      for (int at = 0; at < 8; ++at) {
        const auto [left, right] = stripColumn(rect, 8, at);
        for (int x = int(left); x < int(right); ++x) {
          if (x <= 10 || x >= 10 + width - 1) continue;  // frame
          const QColor got = image.pixelColor(x, 30);
          QCOMPARE(got.name(), stripColour(a, a.order[size_t(at)], theme).name());
          QCOMPARE(stripSlotAt(rect, a, x + 0.5), a.order[size_t(at)]);
        }
      }
      QCOMPARE(image.pixelColor(10, 30).name(), theme.lineStrong.name());
      QCOMPARE(image.pixelColor(10 + width - 1, 30).name(), theme.lineStrong.name());
      QCOMPARE(image.pixelColor(9, 30), QColor(Qt::yellow));  // nothing outside
      QCOMPARE(image.pixelColor(10 + width, 30), QColor(Qt::yellow));
      QCOMPARE(stripSlotAt(rect, a, 9.9), -1);
      QCOMPARE(stripSlotAt(rect, a, 10.0 + width), -1);
    }
  }

  void shadeIsTheSquareRoot() {
    QCOMPARE(stripShade(100, 100), 1.0);
    QCOMPARE(stripShade(25, 100), 0.18 + 0.82 * 0.5);
    QCOMPARE(stripShade(0, 100), 0.0);
    QCOMPARE(stripShade(5, 0), 0.0);
    const auto a = someAllocation();
    const auto& theme = Theme::current();
    QCOMPARE(stripColour(a, 5, theme), theme.retrieval);  // three writes of a hundred, yet full colour
    QCOMPARE(stripColour(a, 2, theme).name(), theme.shared.name());
    QCOMPARE(stripColour(a, 4, theme).name(), mix(theme.other, theme.surface, 0.59).name());
    QCOMPARE(stripColour(a, 1, theme), theme.surface);
  }

  void oneRetrievalSlotOf256StaysVisible() {
    analysis::HeadAllocation a;
    a.written.assign(256, 7);
    a.retrieval.assign(256, 0);
    a.slot_class.assign(256, analysis::SlotClass::other);
    a.slot_class[77] = analysis::SlotClass::retrieval;
    a.order = {77};
    for (int i = 0; i < 256; ++i)
      if (i != 77) a.order.push_back(i);
    a.counts[0] = 1, a.counts[2] = 255;
    a.max_written = 7;
    QImage image(44, 30, QImage::Format_RGB32);
    image.fill(Qt::white);
    QPainter painter(&image);
    paintAllocationStrip(painter, QRectF(2, 2, 40, 26), a, Theme::current(), -1);
    painter.end();
    QCOMPARE(image.pixelColor(3, 15).name(), Theme::current().retrieval.name());
  }

  void tickMarksTheSlot() {
    const auto a = someAllocation();
    QImage image(120, 60, QImage::Format_RGB32);
    image.fill(Qt::white);
    QPainter painter(&image);
    const QRectF rect(10, 20, 80, 30);
    paintAllocationStrip(painter, rect, a, Theme::current(), 0);  // slot 0 is the fourth column: 40..50
    painter.end();
    int pixels = 0;
    for (int y = 0; y < 20; ++y)
      for (int x = 0; x < 120; ++x)
        if (image.pixelColor(x, y).name() == Theme::current().selection.name()) {
          ++pixels;
          QVERIFY(x >= 40 && x < 50 && y >= 15);
        }
    QCOMPARE(pixels, 15);
  }

  void clicksSelectLayerHeadAndSlot() {
    SelectionModel selection;
    OpenAllocation view(&selection);
    open(view, selection);
    const auto g = view.geometryFor(view.contentRect().size(), Theme::current());
    QVERIFY(g.counts && g.score);
    for (const auto& [layer, head, at] : {std::tuple{0, 0, 3}, {3, 0, 0}, {2, 2, 40}, {1, 3, 63}}) {
      const auto& a = run_->summary.head_list[size_t(layer * 4 + head)].allocation;
      const QRectF strip = g.strip(layer, head);
      const auto [left, right] = stripColumn(strip, 64, at);
      QTest::mouseClick(
          &view, Qt::LeftButton, {},
          (QPointF((left + right) / 2, strip.center().y()) + view.contentRect().topLeft()).toPoint());
      QCOMPARE(selection.current().layer, layer);
      QCOMPARE(selection.current().head, head);
      QCOMPARE(selection.current().slot, a.order[size_t(at)]);
    }
    const QString tip = view.tipAt({g.strip(3, 0).left() + 2, g.strip(3, 0).center().y()});
    QVERIFY2(tip.contains(QStringLiteral("retrieval only")), qPrintable(tip));
    QVERIFY(tip.contains(QStringLiteral("100.0")));  // all its writers are retrieval tokens
    QTest::keyClick(&view, Qt::Key_Right);
    QCOMPARE(selection.current().layer, 2);
    QTest::keyClick(&view, Qt::Key_Up);
    QCOMPARE(selection.current().head, 2);
    QVERIFY2(view.accessibleName().contains(QStringLiteral("layer 2 head 2")),
             qPrintable(view.accessibleName()));
    QTest::mouseMove(
        &view, (QPointF(g.strip(2, 2).left() + 2, g.strip(2, 2).center().y()) + view.contentRect().topLeft())
                   .toPoint());
    QCOMPARE(selection.hoverSlot(), run_->summary.head_list[10].allocation.order[0]);
  }

  void pictureHasRedWhereTheHeadHasRetrievalSlots() {
    SelectionModel selection;
    OpenAllocation view(&selection);
    open(view, selection);
    const QImage image = view.grab().toImage();
    testing::keepPicture(image, QStringLiteral("allocation"));
    const auto g = view.geometryFor(view.contentRect().size(), Theme::current());
    for (const auto& s : run_->summary.head_list) {
      const QRectF strip = g.strip(s.layer, s.head).translated(view.contentRect().topLeft());
      int red = 0;
      for (int x = int(strip.left()) + 1; x < int(strip.right()) - 1; ++x)
        red += image.pixelColor(x, int(strip.center().y())).name() == Theme::current().retrieval.name();
      const double expected = s.allocation.counts[0] * strip.width() / 64;
      QVERIFY2(std::abs(red - expected) <= 2, qPrintable(QStringLiteral("L%1H%2: %3 red pixels for %4 slots")
                                                             .arg(s.layer)
                                                             .arg(s.head)
                                                             .arg(red)
                                                             .arg(s.allocation.counts[0])));
    }
  }

  void roleTextKeepsTheKeyWhole() {
    const auto& info = run_->info();
    for (const int columns : {24, 60, 140})
      for (const int lines : {2, 3}) {
        const auto text = roleText(info, info.roles, info.prompt_tokens, columns, lines);
        QVERIFY(text.size() <= lines);
        QString red;
        for (const auto& line : text) {
          int length = 0;
          for (const auto& run : line.runs) {
            if (run.retrieval) red += run.text;
            length += int(run.text.size());
          }
          QVERIFY2(length <= columns + 1, qPrintable(joined(text)));  // a space may hang over
        }
        QVERIFY2(red == QStringLiteral("DNxril3R"), qPrintable(joined(text)));
        bool in_one_line = false;
        for (const auto& line : text)
          for (const auto& run : line.runs)
            in_one_line = in_one_line || run.text == QStringLiteral("DNxril3R");
        QVERIFY(in_one_line);
        if (columns == 140) {
          QVERIFY2(joined(text).startsWith(QStringLiteral("<bos>")), qPrintable(joined(text)));
          QVERIFY2(joined(text)
                       .remove(QLatin1Char('\n'))
                       .contains(QStringLiteral("The password is DNxril3R. Remember it.")),
                   qPrintable(joined(text)));
          QVERIFY(joined(text).trimmed().endsWith(QStringLiteral("Now tell me the password =")));
          QVERIFY(joined(text).contains(QChar(0x2026)));
          QVERIFY(!joined(text).contains(QChar(0x21B5)));
        }
      }
    // A short prompt is shown as it is.
    const auto small = testing::demoRun(90);
    const auto all = roleText(small, small.roles, small.prompt_tokens, 140, 3);
    QVERIFY(!joined(all).contains(QChar(0x2026)));
  }

  void roleTextOfALongPrompt() {
    const auto info = testing::demoRun(131072);
    QElapsedTimer timer;
    timer.start();
    const auto text = roleText(info, info.roles, info.prompt_tokens, 150, 3);
    QVERIFY(timer.elapsed() < 1000);
    QVERIFY(joined(text).contains(QStringLiteral("DNxril3R")));
    QVERIFY(text.size() <= 3);
  }

  void controlsAskForAnotherAnalysis() {
    SelectionModel selection;
    OpenAllocation view(&selection);
    open(view, selection);
    QComboBox *threshold = nullptr, *roles = nullptr;
    const auto boxes = view.findChildren<QComboBox*>();
    for (auto* box : boxes) {
      if (box->accessibleName() == QStringLiteral("Threshold")) threshold = box;
      if (box->accessibleName() == QStringLiteral("Roles from")) roles = box;
    }
    QVERIFY(threshold && roles);
    QCOMPARE(threshold->currentText(), QStringLiteral("strict, 0 %"));
    QCOMPARE(roles->currentText(), QStringLiteral("task spans: key + answer"));
    QSignalSpy asked(&view, &AllocationView::allocationOptionsRequested);
    Q_EMIT threshold->activated(4);
    QCOMPARE(asked.count(), 1);
    QCOMPARE(asked[0][0].value<analysis::AllocationOptions>().threshold, 0.1);
    QSignalSpy other(&view, &AllocationView::rolesRequested);
    selection.setBrush(std::pair<qint64, qint64>{10, 14});
    Q_EMIT roles->activated(1);
    QCOMPARE(other.count(), 1);
    // What comes back is drawn, listed and named.
    std::vector<uint8_t> brushed(size_t(run_->info().tokens), 0);
    for (size_t t = 10; t < 14; ++t) brushed[t] = 1;
    auto a = analysis::allocate(head_->routes, brushed);
    a.layer = 3, a.head = 0;
    view.setAllocations({a}, brushed, QStringLiteral("brushed tokens 10–13"));
    QVERIFY(view.csv().contains(QStringLiteral("# roles: brushed tokens 10–13\n")));
    QCOMPARE(view.csv().count(QStringLiteral("\n3,0,")), 64);
    QCOMPARE(view.csv().count(QStringLiteral("\n2,0,")), 0);
  }

  void csvEqualsTheAnalysis() {
    SelectionModel selection;
    OpenAllocation view(&selection);
    open(view, selection);
    int row = 0;
    for (const auto& line : view.csv().split(QLatin1Char('\n'), Qt::SkipEmptyParts)) {
      if (line.startsWith(QLatin1Char('#')) || line.startsWith(QStringLiteral("layer,"))) continue;
      const auto cell = line.split(QLatin1Char(','));
      QCOMPARE(cell.size(), 10);
      const auto& a = run_->summary.head_list[size_t(row / 64)].allocation;
      const auto slot = size_t(a.order[size_t(row % 64)]);
      QCOMPARE(cell[3].toInt(), int(slot));
      QCOMPARE(cell[4], slotClassName(a.slot_class[slot]));
      QCOMPARE(cell[5].toLongLong(), qlonglong(a.written[slot]));
      QCOMPARE(cell[6].toLongLong(), qlonglong(a.retrieval[slot]));
      if (!std::isnan(a.specialisation[slot])) QCOMPARE(cell[7].toDouble(), a.specialisation[slot]);
      if (!std::isnan(a.head_score)) QCOMPARE(cell[8].toDouble(), a.head_score);
      ++row;
    }
    QCOMPARE(row, 16 * 64);
    QVERIFY(view.csv().contains(QStringLiteral("# exact: 1\n")));
  }

  void messagesAboutOneHeadLeaveTheRunAlone() {
    SelectionModel selection;
    OpenAllocation view(&selection);
    open(view, selection);
    const QImage before = view.grab().toImage();
    view.setHead(nullptr);
    view.setMessage(QStringLiteral("Layer 2 is attention: it has no slots."));
    QCOMPARE(view.grab().toImage(), before);
    view.setRun(nullptr);
    QVERIFY(view.grab().toImage() != before);
    QVERIFY(view.accessibleName().contains(QStringLiteral("Nothing is open")));
  }

  void legendKeepsItsMeaningInNarrowBars() {
    LegendWidget legend(nullptr);
    legend.setItems(
        {{LegendItem::Square, Qt::red, QStringLiteral("retrieval only"), QStringLiteral("retrieval")},
         {LegendItem::Square, Qt::blue, QStringLiteral("shared"), {}}});
    const double full = legendWidth(legend.items(), Theme::current());
    QCOMPARE(legend.fitting(full + 1)[0].text, QStringLiteral("retrieval only"));
    QCOMPARE(legend.fitting(full - 1)[0].text, QStringLiteral("retrieval"));
    QCOMPARE(legend.fitting(full - 1).size(), 2);
    QCOMPARE(legend.fitting(80).size(), 1);
    QCOMPARE(legend.fitting(3).size(), 0);
  }

  void manyLayersFit() {
    auto run = std::make_shared<RunData>();
    run->own_info = run_->own_info;
    run->summary.layers = 24, run->summary.heads = 16;
    for (int layer = 0; layer < 24; ++layer)
      for (int head = 0; head < 16; ++head) {
        analysis::HeadSummary s = run_->summary.head_list[size_t(layer % 4 * 4 + head % 4)];
        s.layer = layer, s.head = head;
        if (layer == 5) s = {.layer = layer, .head = head, .why = "attention"};
        run->summary.head_list.push_back(s);
      }
    SelectionModel selection;
    selection.setLimits(1, 24, 16, 64, 520);
    OpenAllocation view(&selection);
    view.resize(1266, 690);
    view.setRun(run);
    view.show();
    const auto g = view.geometryFor(view.contentRect().size(), Theme::current());
    QVERIFY(g.strip(23, 15).right() <= view.contentRect().width());
    QVERIFY(!g.counts);
    testing::keepPicture(view.grab().toImage(), QStringLiteral("allocation-24x16"));
  }
};

SLOTSCOPE_VIEW_TEST(TestAllocation)
#include "test_allocation.moc"
