// Two traces side by side (design: section 12): what is linked, what lines up, what is said where something is
// missing, keyboard and accessible texts, differences by value.
#include <QLabel>
#include <QPainter>
#include <QPushButton>

#include "tests/views/demo.h"
#include "tests/views/view_test.h"
#include "views/compare_header.h"
#include "views/compare_view.h"
#include "views/differences_view.h"
#include "views/format.h"
#include "views/heatmap_view.h"

using namespace slotscope;
using namespace slotscope::views;
using analysis::Quantity;

namespace {

std::shared_ptr<RunData> second(int64_t tokens = 520) {
  auto run = std::make_shared<RunData>(*testing::demoRunData(tokens));
  run->model_name = QStringLiteral("raven-other");
  return run;
}

// Changes what the run says of itself.
template <class Change>
std::shared_ptr<RunData> changed(std::shared_ptr<RunData> run, Change change) {
  auto info = std::make_shared<trace::RunInfo>(run->info());
  change(*info);
  run->own_info = info;
  return run;
}

// The first `tokens` tokens, as a run that was stopped leaves them.
void cutAt(trace::RunInfo& info, int64_t tokens) {
  info.tokens = tokens;
  info.ids.resize(size_t(tokens));
  info.roles.resize(size_t(tokens));
  info.special.resize(size_t(tokens));
  info.byte_offsets.resize(size_t(tokens) + 1);
  info.bytes.resize(size_t(info.byte_offsets.back()));
  info.output_ids.clear();
  info.exact.reset();
}

// Two bytes per token: other tokens, same text.
void pairUp(trace::RunInfo& info) {
  trace::RunInfo out = info;
  out.ids.clear(), out.roles.clear(), out.special.clear(), out.char_begin.clear(), out.char_end.clear();
  out.byte_offsets = {0};
  out.output_ids.clear();
  for (int64_t t = 0; t < info.prompt_tokens;) {
    const int64_t end = t == 0 ? 1 : std::min(info.prompt_tokens, t + 2);
    out.ids.push_back(1000 + int(t));
    out.roles.push_back(info.roles[size_t(t)]);
    out.special.push_back(info.special[size_t(t)]);
    out.char_begin.push_back(info.char_begin[size_t(t)]);
    out.char_end.push_back(info.char_end[size_t(end - 1)]);
    out.byte_offsets.push_back(info.byte_offsets[size_t(end)]);
    t = end;
  }
  out.tokens = out.planned_tokens = out.prompt_tokens = int64_t(out.ids.size());
  out.bytes.resize(size_t(out.byte_offsets.back()));
  const Span key = *info.span("key");
  out.spans = {{"key", (key.begin + 1) / 2, (key.end + 1) / 2}};
  info = out;
}

struct Bench {
  SelectionModel selection;
  CompareModel model{&selection};
  CompareView view{&selection, nullptr};
  DifferencesView differences{&selection};
  std::shared_ptr<const RunData> a, b;
  QVector<std::pair<int, int>> wanted;  // heads of B that were asked for

  explicit Bench(QSize size = {960, 664}, std::shared_ptr<const RunData> other = second()) : a(testing::demoRunData()) {
    view.setModel(&model);
    differences.setModel(&model);
    view.resize(size);
    differences.resize(300, 640);
    QObject::connect(&model, &CompareModel::otherHeadWanted, &view, [this](int layer, int head) {
      wanted.push_back({layer, head});
      if (b) model.setOtherHead(testing::demoHead(b->info(), layer, head, 64, 8, layer == 3 && head == 0 ? 10 : 3));
    });
    selection.setLimits(1, 4, 4, 64, a->info().tokens);
    const auto& first = a->summary.first;
    selection.request({.layer = first.layer, .head = first.head, .slot = first.slot, .token = first.token});
    view.setRun(a);
    differences.setRun(a);
    model.setRun(a);
    const auto head = testing::demoHead(a->info());
    view.setHead(head);
    model.setHead(head);
    if (other) b = other, model.setOtherRun(other);
    view.show();
    differences.show();
    draw();
  }
  void draw() {
    QApplication::processEvents();
    view.drawNow();
    QApplication::processEvents();
  }
  QImage grab() {
    draw();
    return view.grab().toImage().convertToFormat(QImage::Format_RGB32);
  }
  void click(HeatmapView* pane, qint64 token, int slot) {
    const QPointF at = pane->plotGeometry().cell(token, pane->rows().row_of[size_t(slot)]).center();
    QTest::mouseClick(pane->plotWidget(), Qt::LeftButton, {}, at.toPoint());
  }
  const DifferencesView::Row* row(const QString& name) {
    static QVector<DifferencesView::Row> rows;
    rows = differences.rows();
    for (const auto& r : rows)
      if (r.name == name) return &r;
    return nullptr;
  }
};

}  // namespace

class TestCompare : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void secondStartsOnItsBestHead() {
    Bench t;
    QCOMPARE(t.wanted, (QVector<std::pair<int, int>>{{3, 0}}));
    QCOMPARE(t.model.selectionB()->current().layer, 3);
    QCOMPARE(t.model.selectionB()->current().slot, t.b->summary.first.slot);
    // One click: same index. And back.
    t.selection.request({.layer = 1, .head = 2});
    t.model.setHead(testing::demoHead(t.a->info(), 1, 2));
    QVERIFY(!t.view.headerB()->sameIndexButton()->isHidden());
    QVERIFY(t.view.headerB()->bestHeadButton()->isHidden());
    t.view.headerB()->sameIndexButton()->click();
    QCOMPARE(t.wanted.back(), (std::pair<int, int>{1, 2}));
    QVERIFY(t.view.headerB()->sameIndexButton()->isHidden());
    QCOMPARE(t.model.b().head->layer, 1);
    QCOMPARE(t.model.b().head->head, 2);
    t.view.headerB()->bestHeadButton()->click();
    QCOMPARE(t.wanted.back(), (std::pair<int, int>{3, 0}));
    // A keeps its own.
    QCOMPARE(t.selection.current().layer, 1);
  }

  // A dense family has no retrieval-only slots in any head: the one that reads the key most is the best.
  void bestHeadOfADenseFamily() {
    auto other = second();
    for (auto& head : other->summary.head_list) {
      head.allocation.head_score = 0;
      head.read_mass_on_key = head.layer == 1 && head.head == 2 ? 0.899 : std::nan("");
    }
    Bench t({960, 664}, other);
    QCOMPARE(t.wanted, (QVector<std::pair<int, int>>{{1, 2}}));
    QVERIFY(t.view.headerB()->bestHeadButton()->isHidden());
    for (auto& head : other->summary.head_list) head.read_mass_on_key = std::nan("");
    QCOMPARE(t.model.bestHead(), (std::pair<int, int>{3, 0}));
  }

  void tokensAreLinked() {
    Bench t;
    QVERIFY(t.model.tokens().same_tokens);
    const int slot = t.model.a().head->allocation.order[3];
    t.click(t.view.paneA(), 211, slot);
    QCOMPARE(t.selection.current().token, 211);
    QCOMPARE(t.selection.current().slot, slot);
    QCOMPARE(t.model.selectionB()->current().token, 211);
    t.click(t.view.paneB(), 77, 5);
    QCOMPARE(t.selection.current().token, 77);
    QCOMPARE(t.model.selectionA()->current().token, 77);
    QCOMPARE(t.model.selectionB()->current().slot, 5);
    t.selection.request({.token = 300});
    QCOMPARE(t.model.selectionB()->current().token, 300);
    // Unlinked: tokens still are, zoom is not.
    t.model.setLinked(false);
    t.view.paneA()->setTokenRange({100, 200});
    QCOMPARE(t.model.selectionA()->tokenRange(), (std::pair<qint64, qint64>{100, 200}));
    QCOMPARE(t.selection.tokenRange(), (std::pair<qint64, qint64>{100, 200}));
    QCOMPARE(t.model.selectionB()->tokenRange(), (std::pair<qint64, qint64>{0, 520}));
    t.selection.request({.token = 150});
    QCOMPARE(t.model.selectionB()->current().token, 150);
    t.model.setLinked(true);
    QCOMPARE(t.model.selectionB()->tokenRange(), (std::pair<qint64, qint64>{100, 200}));
    t.view.paneB()->setTokenRange({40, 90});
    QCOMPARE(t.selection.tokenRange(), (std::pair<qint64, qint64>{40, 90}));
  }

  // The same head on both sides: every slot that is read goes with itself.
  void slotsAreLinkedByReads() {
    Bench t;
    QVERIFY(t.model.match().why.empty());
    for (const auto& pair : t.model.match().pairs) QCOMPARE(pair.a, pair.b);
    const int slot = t.model.match().pairs.back().a;
    t.selection.request({.slot = slot});
    QCOMPARE(t.model.selectionB()->current().slot, slot);
    const int other = t.model.match().pairs.front().b;
    t.click(t.view.paneB(), 40, other);
    QCOMPARE(t.selection.current().slot, other);
    t.selection.setHover(slot, 44);
    QCOMPARE(t.model.selectionB()->hoverSlot(), slot);
    QCOMPARE(t.model.selectionB()->hoverToken(), 44);
    t.model.setLinked(false);
    t.selection.request({.slot = slot});
    QCOMPARE(t.model.selectionB()->current().slot, other);
  }

  void axesLineUp() {
    Bench t;
    const auto a = t.view.paneA()->plotGeometry(), b = t.view.paneB()->plotGeometry();
    QCOMPARE(a.plot.left(), b.plot.left());
    QCOMPARE(a.plot.right(), b.plot.right());
    QCOMPARE(t.view.keyPlotRect().left(), a.plot.left());
    QCOMPARE(t.view.keyPlotRect().right(), a.plot.right());
    // The rows share the height, and A stands above B.
    QVERIFY(std::abs(a.plot.height() - b.plot.height()) <= 1);
    const auto top = [&](QWidget* w) { return w->mapTo(&t.view, QPoint(0, 0)).y(); };
    QVERIFY(top(t.view.headerA()) < top(t.view.paneA()->plotWidget()));
    QVERIFY(top(t.view.paneA()->plotWidget()) < top(t.view.headerB()));
    QVERIFY(top(t.view.headerB()) < top(t.view.keyPlot()));
    QCOMPARE(t.view.headerA()->height(), 26);
    t.view.setLayoutKind(CompareLayout::side_by_side);
    t.draw();
    QCOMPARE(top(t.view.headerA()), top(t.view.headerB()));
    QVERIFY(std::abs(t.view.paneA()->width() - t.view.paneB()->width()) <= 1);
  }

  void aShorterRunKeepsTheAxis() {
    Bench t({960, 664}, changed(second(), [](trace::RunInfo& info) { cutAt(info, 300); }));
    QVERIFY(t.model.tokens().same_tokens);
    QCOMPARE(t.model.axisTokens(), 520);
    QCOMPARE(t.view.paneB()->plotGeometry().last, t.view.paneA()->plotGeometry().last);
    QVERIFY(t.view.headerB()->details().contains(QStringLiteral("ends at token 300 of 520")));
    t.selection.request({.token = 299});
    QVERIFY(t.model.otherTokenMarked());
    t.selection.request({.token = 300});
    QVERIFY(!t.model.otherTokenMarked());
    QVERIFY(t.view.accessibleDescription().contains(QStringLiteral("no token corresponds")));
    // The missing part is hatched: not the plain ground of what was not routed.
    const QImage image = t.grab();
    const auto g = t.view.paneB()->plotGeometry();
    int other = 0;
    for (double x = g.x(310); x < g.x(510); x += 1) {
      const QPoint at = t.view.paneB()->plotWidget()->mapTo(&t.view, QPointF(x, g.plot.top() + 12).toPoint());
      other += image.pixelColor(at) != Theme::current().plot;
    }
    QVERIFY2(other > 20, qPrintable(QString::number(other)));
    // The other way round: what B has more of is there, and A is hatched.
    t.click(t.view.paneB(), 10, 3);
    QCOMPARE(t.selection.current().token, 10);
  }

  void otherTokensAreLinkedByCharacter() {
    Bench t({960, 664}, changed(second(), pairUp));
    QVERIFY(!t.model.tokens().same_tokens);
    QCOMPARE(t.view.bannerText(), QStringLiteral("Different tokens (512 in A, 257 in B): linked by character offset."));
    t.selection.request({.token = 101});
    QCOMPARE(t.model.selectionB()->current().token, 51);
    t.click(t.view.paneB(), 60, 3);
    QCOMPARE(t.selection.current().token, 119);
    t.view.paneA()->setTokenRange({101, 201});
    QCOMPARE(t.model.selectionB()->tokenRange(), (std::pair<qint64, qint64>{51, 101}));
    QVERIFY(t.view.whyNot(CompareLayout::difference).contains(QStringLiteral("same tokens")));
  }

  void nothingToCompareWith() {
    Bench t({960, 664}, nullptr);
    QSignalSpy asked(&t.view, &CompareView::secondTraceRequested);
    auto* button = t.view.paneB()->findChild<QPushButton*>();
    for (auto* b : t.view.paneB()->findChildren<QPushButton*>())
      if (b->text() == QStringLiteral("Open a second trace…")) button = b;
    QVERIFY(button && button->isVisible());
    button->click();
    QCOMPARE(asked.count(), 1);
    QVERIFY(t.differences.accessibleName().contains(QStringLiteral("No second trace is open")));
    QVERIFY(t.view.accessibleDescription().contains(QStringLiteral("no second trace is open")));
    QVERIFY(t.view.csv().isEmpty());
    t.grab();
  }

  // What core says about a head without routes stands where the map would be and in the plot of the key.
  void aHeadWithoutRoutesSaysWhy() {
    Bench t;
    const QString why = QStringLiteral("layer 1: attention has no routes");
    t.model.setOtherHead(nullptr, why);
    bool said = false;
    for (auto* label : t.view.paneB()->findChildren<QLabel*>()) said = said || (label->isVisible() && label->text() == why);
    QVERIFY(said);
    QCOMPARE(QString::fromStdString(t.model.b().key.why), why);
    QCOMPARE(t.row(QStringLiteral("slots used"))->b, QStringLiteral("–"));
    QCOMPARE(t.row(QStringLiteral("still there"))->b, QStringLiteral("–"));
    QVERIFY(t.view.whyNot(CompareLayout::difference).contains(QStringLiteral("two heads")));
    t.grab();
  }

  void rangesSeparateOrShared() {
    Bench t;
    QVERIFY(t.view.sharedRanges());  // one family
    const auto limits = [](const HeatmapView* pane) { return std::pair(pane->colourScale().low, pane->colourScale().high); };
    t.model.chooseOther(0, 1);
    t.draw();
    QCOMPARE(limits(t.view.paneA()), limits(t.view.paneB()));
    const auto both = limits(t.view.paneA());
    t.view.setSharedRanges(false);
    const auto a = limits(t.view.paneA()), b = limits(t.view.paneB());
    QVERIFY(a != b);
    QCOMPARE(both, (std::pair<double, double>{std::min(a.first, b.first), std::max(a.second, b.second)}));
    t.view.setQuantity(Quantity::route_weight);
    QCOMPARE(t.view.paneA()->quantity(), Quantity::route_weight);
    QCOMPARE(t.view.paneB()->quantity(), Quantity::route_weight);
    QVERIFY(t.view.headerA()->details().startsWith(QStringLiteral("range ")));
  }

  void keyboard() {
    Bench t;
    t.selection.request({.token = 100});
    QTest::keyClick(t.view.paneB(), Qt::Key_Right);
    QCOMPARE(t.selection.current().token, 101);
    QTest::keyClick(&t.view, Qt::Key_Left, Qt::ShiftModifier);
    QCOMPARE(t.selection.current().token, 91);
    t.wanted.clear();
    QTest::keyClick(t.view.paneB(), Qt::Key_BracketRight);
    QCOMPARE(t.wanted, (QVector<std::pair<int, int>>{{3, 1}}));
    QCOMPARE(t.selection.current().head, 0);
    QTest::keyClick(t.view.paneA(), Qt::Key_C);
    QCOMPARE(t.view.quantity(), Quantity::route_weight);
    QCOMPARE(t.view.paneB()->quantity(), Quantity::route_weight);
    QTest::keyClick(t.view.paneA(), Qt::Key_Plus);
    QVERIFY(t.model.selectionB()->tokenRange() != (std::pair<qint64, qint64>{0, 520}));
    QCOMPARE(t.model.selectionA()->tokenRange(), t.model.selectionB()->tokenRange());
    QTest::keyClick(t.view.paneB(), Qt::Key_0);
    QCOMPARE(t.selection.tokenRange(), (std::pair<qint64, qint64>{0, 520}));
  }

  void keyCurveIsWhatTheTableSays() {
    Bench t;
    const auto& key = t.model.a().key;
    QVERIFY(!key.left.empty());
    QCOMPARE(key.query, t.a->info().prompt_tokens - 1);
    QCOMPARE(t.row(QStringLiteral("still there"))->a, share(key.at_query));
    QVERIFY(t.view.accessibleDescription().contains(share(key.at_query)));
    // A click in the plot selects the token under it.
    const QRectF plot = t.view.keyPlotRect();
    QTest::mouseClick(t.view.keyPlot(), Qt::LeftButton, {}, QPointF(plot.left() + plot.width() / 2, plot.center().y()).toPoint());
    QVERIFY(std::abs(t.selection.current().token - 260) <= 1);
  }

  void differencesByValue() {
    auto other = changed(second(), [](trace::RunInfo& info) {
      info.output_text = "DNxrilJ0", info.exact = false;
      // Steps 6 and 7 say something else.
      for (const auto& [step, byte, p] : {std::tuple(6, 'J', 0.601), std::tuple(7, '0', 0.466)}) {
        info.output_ids[size_t(step)] = byte;
        info.ids[size_t(info.prompt_tokens + step)] = byte;
        info.bytes[size_t(info.byte_offsets[size_t(info.prompt_tokens + step)])] = uint8_t(byte);
        info.top_ids[size_t(step) * 4] = byte, info.top_logprob[size_t(step) * 4] = std::log(p);
      }
    });
    Bench t({960, 664}, other);
    QVERIFY(t.model.tokens().same_tokens);
    using Mark = DifferencesView::Row::Mark;
    QCOMPARE(t.row(QStringLiteral("answered"))->a, QStringLiteral("DNxril3R"));
    QCOMPARE(t.row(QStringLiteral("answered"))->b, QStringLiteral("DNxrilJ0"));
    QVERIFY(t.row(QStringLiteral("answered"))->mark_a == Mark::right);
    QVERIFY(t.row(QStringLiteral("answered"))->mark_b == Mark::wrong);
    QCOMPARE(t.row(QStringLiteral("least certain step"))->a, QStringLiteral("1.000"));
    QCOMPARE(t.row(QStringLiteral("least certain step"))->b, QStringLiteral("0.466"));
    QCOMPARE(t.row(QStringLiteral("slots used"))->a, QString::number(t.model.a().head->statistics.used));
    QCOMPARE(t.row(QStringLiteral("mean ESL / T"))->a, QStringLiteral("0.125"));
    const QString step = QString::number(t.a->info().prompt_tokens + 6) + QStringLiteral("   3");
    QVERIFY(t.row(step));
    QCOMPARE(t.row(step)->a, QStringLiteral("3 1.000"));
    QCOMPARE(t.row(step)->b, QStringLiteral("J 0.601"));
    QVERIFY(t.row(step)->mark_a == Mark::none && t.row(step)->mark_b == Mark::wrong);
    // Up and Down go through the steps; the accessible name tells the one that is selected.
    t.selection.request({.token = t.a->info().prompt_tokens + 5});
    QTest::keyClick(&t.differences, Qt::Key_Down);
    QCOMPARE(t.selection.current().token, t.a->info().prompt_tokens + 6);
    QVERIFY2(t.differences.accessibleName().contains(step + QStringLiteral(": 3 1.000 and J 0.601, B wrong")),
             qPrintable(t.differences.accessibleName()));
    QTest::keyClick(&t.differences, Qt::Key_Up);
    QCOMPARE(t.selection.current().token, t.a->info().prompt_tokens + 5);
    testing::keepPicture(t.differences.grab().toImage(), QStringLiteral("differences"));
    QVERIFY(t.differences.csv().contains(QStringLiteral("Answer,answered,DNxril3R,DNxrilJ0")));
  }

  // A − B of one head with itself is 0 wherever it wrote; of two heads it is what their cells say.
  void difference() {
    Bench t;
    QVERIFY(t.view.whyNot(CompareLayout::difference).isEmpty());
    t.view.setLayoutKind(CompareLayout::difference);
    t.draw();
    QVERIFY(t.view.panePair()->isVisible() && !t.view.paneA()->isVisible());
    const SlotGrid* grid = t.view.panePair()->shownGrid();
    QVERIFY(grid);
    QCOMPARE(grid->finite_cells, qint64(t.model.a().head->writes.token.size()));
    QVERIFY(grid->min == 0 && grid->max == 0);
    QVERIFY2(t.view.pairNote().startsWith(QStringLiteral("no difference")), qPrintable(t.view.pairNote()));
    t.model.chooseOther(2, 2);
    t.draw();
    grid = t.view.panePair()->shownGrid();
    const auto& pairs = t.model.paired().pair;
    QCOMPARE(grid->rows, int(pairs.size()));
    QCOMPARE(grid->columns, 520);
    const auto& a = *t.model.a().head;
    const auto& b = *t.model.b().head;
    int wrong = 0;
    for (int r = 0; r < grid->rows; ++r)
      for (int c = 0; c < grid->columns; ++c) {
        const auto x = pairs[size_t(r)].a < 0 ? std::nullopt : cellValue(a, Quantity::write_strength, pairs[size_t(r)].a, c, 0);
        const auto y = pairs[size_t(r)].b < 0 ? std::nullopt : cellValue(b, Quantity::write_strength, pairs[size_t(r)].b, c, 0);
        const size_t at = size_t(r) * 520 + size_t(c);
        const bool finite = grid->state[at] == analysis::Cell::finite;
        wrong += finite != (x || y) || (finite && !(std::abs(double(grid->value[at]) - (x.value_or(0) - y.value_or(0))) <= 2e-7));
      }
    QCOMPARE(wrong, 0);
    // The same in the data, in double precision.
    const QStringList lines = t.view.csv().split(QLatin1Char('\n')).filter(QStringLiteral("A-B,"));
    QCOMPARE(lines.size(), int(grid->finite_cells));
    const QStringList some = lines[lines.size() / 2].split(QLatin1Char(','));
    const QStringList slots_of = some[2].split(QLatin1Char('|'));
    const auto in_a = cellValue(a, Quantity::write_strength, slots_of[0].toInt(), some[1].toInt(), 0),
               in_b = cellValue(b, Quantity::write_strength, slots_of[1].toInt(), some[1].toInt(), 0);
    QCOMPARE(some[3].toDouble(), in_a.value_or(0) - in_b.value_or(0));
    // Colours: the limits are symmetric, brown for more in B, teal for more in A.
    const ColourScale scale = t.view.panePair()->colourScale();
    QCOMPARE(scale.low, -scale.high);
    QVERIFY(t.view.pairNote().startsWith(QStringLiteral("rows matched by read overlap: ")));
    int row = -1, column = -1;
    for (int r = 0; r < grid->rows && row < 0; ++r)
      for (int c = 0; c < grid->columns && row < 0; ++c)
        if (double(grid->value[size_t(r) * 520 + size_t(c)]) > 0.8 * scale.high) row = r, column = c;
    QVERIFY(row >= 0);
    t.selection.request({.token = 5});
    const QImage image = t.grab();
    const auto g = t.view.panePair()->plotGeometry();
    const QPointF at = g.cell(column, row).center();
    const QColor seen = image.pixelColor(t.view.panePair()->plotWidget()->mapTo(&t.view, at.toPoint()));
    QVERIFY2(seen.green() > seen.red() && seen.blue() > seen.red(), qPrintable(seen.name()));
    testing::keepPicture(image, QStringLiteral("compare_difference"));
    // A click selects the slots of both.
    QTest::mouseClick(t.view.panePair()->plotWidget(), Qt::LeftButton, {}, at.toPoint());
    QCOMPARE(t.selection.current().token, column);
    QCOMPARE(t.selection.current().slot, pairs[size_t(row)].a);
    QCOMPARE(t.model.selectionB()->current().slot, pairs[size_t(row)].b);
    QVERIFY(t.view.panePair()->cellText(row, column).contains(QStringLiteral("A − B ")));
    // The keyboard moves in it.
    QTest::keyClick(&t.view, Qt::Key_Right);
    QCOMPARE(t.selection.current().token, column + 1);
    // The axis stays that of the key below.
    QCOMPARE(t.view.keyPlotRect().left(), g.plot.left());
    QCOMPARE(t.view.keyPlotRect().right(), g.plot.right());
    // Other slots: no difference any more, back to what can be drawn.
    t.model.setOtherHead(testing::demoHead(t.b->info(), 2, 2, 32, 4, 3));
    QCOMPARE(t.view.layoutKind(), CompareLayout::stacked);
    QCOMPARE(t.view.whyNot(CompareLayout::difference), QStringLiteral("A − B needs equal slot counts: A has 64, B has 32"));
  }

  void overlay() {
    Bench t;
    t.model.setOtherHead(testing::demoHead(t.b->info(), 2, 2, 32, 4, 3));  // slot counts need not agree
    t.view.setLayoutKind(CompareLayout::overlay);
    QCOMPARE(t.view.layoutKind(), CompareLayout::overlay);
    t.selection.request({.token = 5});
    const QImage image = t.grab();
    testing::keepPicture(image, QStringLiteral("compare_overlay"));
    const auto g = t.view.panePair()->plotGeometry();
    const auto& pairs = t.model.paired().pair;
    int teal = 0, brown = 0, teal_wrong = 0, brown_wrong = 0;
    for (size_t r = 0; r < pairs.size(); ++r)
      for (int64_t c = 20; c < 500; c += 3) {
        const bool in_a = pairs[r].a >= 0 && cellValue(*t.model.a().head, Quantity::write_strength, pairs[r].a, c, 0);
        const bool in_b = pairs[r].b >= 0 && cellValue(*t.model.b().head, Quantity::write_strength, pairs[r].b, c, 0);
        if (in_a == in_b) continue;
        const QPointF at = g.cell(c, int64_t(r)).center();
        const QColor seen = image.pixelColor(t.view.panePair()->plotWidget()->mapTo(&t.view, at.toPoint()));
        if (in_a) ++teal, teal_wrong += !(seen.green() > seen.red());
        if (in_b) ++brown, brown_wrong += !(seen.red() > seen.blue());
      }
    QVERIFY(teal > 100 && brown > 100);
    // A cell is 1.6 pixels wide: some pixels show its neighbour.
    QVERIFY2(teal_wrong < teal / 5 && brown_wrong < brown / 5,
             qPrintable(QStringLiteral("%1 of %2, %3 of %4").arg(teal_wrong).arg(teal).arg(brown_wrong).arg(brown)));
    // As a figure too.
    QImage figure(1000, 640, QImage::Format_RGB32);
    QPainter painter(&figure);
    t.view.paintFigure(painter, QRectF(0, 0, 1000, 640), testing::pictureTheme(), {});
    painter.end();
    testing::keepPicture(figure, QStringLiteral("compare_overlay_figure"));
    t.view.setLayoutKind(CompareLayout::stacked);
    QVERIFY(t.view.paneA()->isVisible() && !t.view.panePair()->isVisible());
  }

  // The order of A's rows, through the matching.
  void sortAsA() {
    Bench t;
    t.view.paneB()->setSort(HeatmapSort::as_a);
    QCOMPARE(t.view.paneB()->rows().slot.size(), t.view.paneA()->rows().slot.size());
    for (size_t r = 0; r < t.model.match().pairs.size(); ++r)
      QCOMPARE(t.view.paneB()->rows().slot[r], t.view.paneA()->rows().slot[r]);  // the same head
    t.view.paneA()->setSort(HeatmapSort::slot);
    QCOMPARE(t.view.paneB()->rows().slot.front(), 0);
  }

  void csvHoldsBothAndTheKey() {
    Bench t;
    t.view.paneA()->setTokenRange({150, 160});
    const QString csv = t.view.csv();
    QVERIFY(csv.contains(QStringLiteral("# model_a: raven-passkey\n")));
    QVERIFY(csv.contains(QStringLiteral("# model_b: raven-other\n")));
    qint64 in_a = 0, in_b = 0;
    for (const QString& line : csv.split(QLatin1Char('\n'))) {
      in_a += line.startsWith(QStringLiteral("A,"));
      in_b += line.startsWith(QStringLiteral("B,"));
    }
    QCOMPARE(in_a, 80);  // ten tokens of eight writes
    QCOMPARE(in_b, 80);
    const auto& key = t.model.a().key;
    QVERIFY(csv.contains(QStringLiteral("key left A,%1,,1\n").arg(key.first)) ||
            csv.contains(QStringLiteral("key left A,%1,,").arg(key.first)));
  }

  void oneToken() {
    auto other = changed(second(), [](trace::RunInfo& info) { cutAt(info, 1); });
    Bench t({960, 664}, other);
    QCOMPARE(t.model.tokens().tokens_b, 1);
    t.selection.request({.token = 0});
    QVERIFY(t.model.otherTokenMarked());
    t.grab();
    QCOMPARE(QString::fromStdString(t.model.b().key.why), QStringLiteral("the run ends before the key"));
  }

  void picture_data() {
    QTest::addColumn<bool>("dark");
    QTest::newRow("compare_light") << false;
    QTest::newRow("compare_dark") << true;
  }
  void picture() {
    QFETCH(bool, dark);
    Theme::apply(testing::pictureTheme(dark));
    Bench t;
    t.model.chooseOther(2, 2);
    const QImage image = t.grab();
    const QString name = QString::fromLatin1(QTest::currentDataTag());
    testing::keepPicture(image, name);
    Theme::apply(testing::pictureTheme());
    if (!dark)
      testing::comparePicture(image, QStringLiteral(SLOTSCOPE_SOURCE_DIR "/tests/views/pictures/") + name + QStringLiteral(".png"));
  }
};

SLOTSCOPE_VIEW_TEST(TestCompare)
#include "test_compare.moc"
