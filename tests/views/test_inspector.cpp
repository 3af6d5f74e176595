// Inspector and Output: every number against formulas written out here, orders, rows, wording, keys.
#include <QSignalSpy>
#include <cmath>
#include <random>

#include "tests/views/demo.h"
#include "tests/views/view_test.h"
#include "views/inspector_view.h"
#include "views/output_view.h"
#include "views/surprisal.h"

using namespace slotscope;
using namespace slotscope::views;

namespace {

struct OpenInspector : InspectorView {
  using InspectorView::InspectorView;
  using InspectorView::tipAt;
};
struct OpenOutput : OutputView {
  using OutputView::OutputView;
  using OutputView::tipAt;
};

// Sum of the log gates of `slot` over tokens a < l <= b, straight from the routes.
double gates(const HeadRoutes& r, int slot, int64_t a, int64_t b) {
  double sum = 0;
  for (int64_t l = a + 1; l <= b; ++l)
    for (int k = 0; k < r.top_k; ++k)
      if (int(r.index[size_t(l * r.top_k + k)]) == slot)
        sum += r.decay(l, k) * r.weight[size_t(l * r.top_k + k)];
  return sum;
}

bool near(double a, double b, double tolerance = 1e-10) {
  return std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b));
}

}  // namespace

class TestInspector : public QObject {
  Q_OBJECT
  std::shared_ptr<const RunData> run_ = testing::demoRunData();
  std::shared_ptr<const analysis::HeadData> head_ = testing::demoHead(run_->info(), 3, 0);

  void open(InspectorView& view, SelectionModel& selection, int width = 274, int height = 477) {
    selection.setLimits(1, 4, 4, 64, run_->info().tokens);
    const auto& f = run_->summary.first;
    selection.request({.layer = f.layer, .head = f.head, .slot = f.slot, .token = f.token});
    view.resize(width, height);
    view.setRun(run_);
    view.setHead(head_);
    view.show();
    QVERIFY(QTest::qWaitForWindowExposed(&view));
  }

 private Q_SLOTS:
  void slotNumbers() {
    const auto& r = head_->routes;
    for (const int slot : {head_->allocation.order[0], 3, 40, 63})
      for (const int64_t reference : {int64_t(511), int64_t(519), int64_t(160)}) {
        const auto facts = slotFacts(*head_, slot, reference, RowOrder::Position);
        QCOMPARE(facts.writes, int64_t(head_->esl.esl[size_t(slot)]));
        size_t row = 0;
        double sum = 0, squares = 0;
        for (int64_t t = 0; t < r.rows; ++t)
          for (int k = 0; k < r.top_k; ++k) {
            const auto at = size_t(t * r.top_k + k);
            if (int(r.index[at]) != slot) continue;
            QVERIFY(row < facts.writers.size());
            const auto& w = facts.writers[row++];
            QCOMPARE(w.token, t);
            QCOMPARE(w.strength, r.strength[at]);
            QCOMPARE(w.after, t > reference);
            if (t > reference) {
              QVERIFY(std::isnan(w.left));
              continue;
            }
            const double left = std::exp(gates(r, slot, t, reference));
            QVERIFY2(near(w.left, left), qPrintable(QStringLiteral("%1 %2").arg(w.left).arg(left)));
            sum += r.strength[at] * left;
            squares += std::pow(r.strength[at] * left, 2);
          }
        QCOMPARE(row, facts.writers.size());
        if (squares > 0) QVERIFY(near(facts.tokens_held, sum * sum / squares, 1e-8));
        if (reference >= 511) {
          QVERIFY(facts.read.has_value());
          QCOMPARE(*facts.read, head_->reads_at(reference, 0)[size_t(slot)]);
        } else {
          QVERIFY(!facts.read.has_value());
        }
      }
  }

  void tokenNumbers() {
    const auto& r = head_->routes;
    const int64_t query = analysis::query_token(run_->info());
    QCOMPARE(query, int64_t(511));
    for (const int64_t token : {int64_t(152), int64_t(0), int64_t(300), int64_t(515)}) {
      const auto facts = tokenFacts(*head_, token, query, RowOrder::Position);
      QCOMPARE(int(facts.slots.size()), r.top_k);
      double left = 0, all = 0;
      for (int k = 0; k < r.top_k; ++k) {
        const auto at = size_t(token * r.top_k + k);
        QCOMPARE(facts.slots[size_t(k)].slot, int(r.index[at]));
        QCOMPARE(facts.slots[size_t(k)].strength, r.strength[at]);
        const double keep = std::exp(gates(r, int(r.index[at]), token, query));
        if (token <= query) QVERIFY(near(facts.slots[size_t(k)].left, keep));
        QCOMPARE(facts.slots[size_t(k)].after, token > query);
        left += r.strength[at] * keep;
        all += r.strength[at];
      }
      if (token <= query)
        QVERIFY(near(facts.survival, left / all));
      else
        QVERIFY(std::isnan(facts.survival));
      // Readers against the whole attribution row.
      QVERIFY(facts.reads_captured);
      size_t expected = 0;
      for (const int64_t t : head_->read_token) expected += t > token;
      QCOMPARE(facts.readers.size(), expected);
      double last = INFINITY;
      for (const auto& reader : facts.readers) {
        QVERIFY(reader.token > token);
        const auto a = analysis::read_attribution(head_->writes, head_->reads_at(reader.token, reader.head),
                                                  reader.token);
        QVERIFY(near(reader.weight, a.weight[size_t(token)]));
        QVERIFY(reader.weight <= last);
        last = reader.weight;
      }
    }
  }

  void largestOfSeveralQueryHeads() {
    auto head = std::make_shared<analysis::HeadData>(*head_);
    head->read_heads = {0, 1};
    const size_t slots = 64, tokens = head_->read_token.size();
    head->read_weight.assign(tokens * 2 * slots, 0.0);
    std::mt19937 random(3);
    for (double& p : head->read_weight) p = double(random() % 1000) / 1e5;
    const auto facts = tokenFacts(*head, 152, 511, RowOrder::Strength);
    for (const auto& reader : facts.readers) {
      double weight[2];
      for (int h = 0; h < 2; ++h)
        weight[h] = analysis::read_attribution(head->writes, head->reads_at(reader.token, h), reader.token)
                        .weight[152];
      QVERIFY(near(reader.weight, std::max(weight[0], weight[1])));
      QCOMPARE(reader.head, weight[1] > weight[0] ? 1 : 0);
    }
  }

  void ordersAndUnknowns() {
    const int slot = head_->allocation.order[12];
    const auto by_strength = slotFacts(*head_, slot, 511, RowOrder::Strength).writers;
    for (size_t i = 1; i < by_strength.size(); ++i)
      QVERIFY(by_strength[i - 1].strength >= by_strength[i].strength);
    const auto by_left = slotFacts(*head_, slot, 511, RowOrder::Left).writers;
    for (size_t i = 1; i < by_left.size(); ++i)
      QVERIFY(std::isnan(by_left[i].left) || by_left[i - 1].left >= by_left[i].left);
    QCOMPARE(by_left.size(), by_strength.size());
    // No decay captured: nothing is said about what is left.
    auto head = std::make_shared<analysis::HeadData>(*head_);
    head->routes.log_decay.clear();
    head->routes.strength.clear();
    head->writes = analysis::group_writes(head->routes);
    const auto facts = slotFacts(*head, slot, 511, RowOrder::Strength);
    QVERIFY(std::isnan(facts.tokens_held));
    QVERIFY(std::isnan(facts.writers[0].left) && std::isnan(facts.writers[0].strength));
    const auto token = tokenFacts(*head, 152, 511, RowOrder::Strength);
    QVERIFY(std::isnan(token.survival));
    QVERIFY(!token.reads_captured && token.readers.empty());
    QVERIFY(slotFacts(*head_, -1, 511, RowOrder::Left).writers.empty());
    QVERIFY(slotFacts(*head_, 64, 511, RowOrder::Left).writers.empty());
    QVERIFY(tokenFacts(*head_, 520, 511, RowOrder::Left).slots.empty());
  }

  void rowsSelect() {
    SelectionModel selection;
    OpenInspector view(&selection);
    open(view, selection);
    const auto find = [&](InspectorView::Row::Kind kind, int n) {
      for (const auto& row : view.rows())
        if (row.kind == kind && n-- == 0) return row;
      return InspectorView::Row{};
    };
    const auto click = [&](const QRectF& area) {
      QTest::mouseClick(&view, Qt::LeftButton, {},
                        (area.center() - QPointF(0, view.scrollOffset())).toPoint());
    };
    const auto slot_row = find(InspectorView::Row::Slot, 2);
    const int before = selection.current().slot;
    QVERIFY(int(slot_row.value) != before);
    click(slot_row.area);
    QCOMPARE(selection.current().slot, int(slot_row.value));
    const auto writer = find(InspectorView::Row::Writer, 1);
    click(writer.area);
    QCOMPARE(selection.current().token, qint64(writer.value));
    // Five slots and the rest on demand.
    int shown = 0;
    for (const auto& row : view.rows()) shown += row.kind == InspectorView::Row::Slot;
    QCOMPARE(shown, 5);
    const auto more = find(InspectorView::Row::MoreSlots, 0);
    QCOMPARE(more.value, int64_t(3));
    click(more.area);
    shown = 0;
    for (const auto& row : view.rows()) shown += row.kind == InspectorView::Row::Slot;
    QCOMPARE(shown, 8);
    QVERIFY(view.tipAt(find(InspectorView::Row::Slot, 0).area.center())
                .contains(QStringLiteral("write strength")));
    view.grab();
  }

  void keysWalkTheRows() {
    SelectionModel selection;
    OpenInspector view(&selection);
    open(view, selection);
    QTest::keyClick(&view, Qt::Key_Down);
    QTest::keyClick(&view, Qt::Key_Down);
    const auto row = view.rows()[1];
    QCOMPARE(row.kind, InspectorView::Row::Writer);
    QVERIFY2(view.accessibleName().contains(QStringLiteral("written by token %1").arg(row.value)),
             qPrintable(view.accessibleName()));
    QTest::keyClick(&view, Qt::Key_Return);
    QCOMPARE(selection.current().token, qint64(row.value));
  }

  void referenceChoices() {
    SelectionModel selection;
    OpenInspector view(&selection);
    open(view, selection, 380, 1000);
    QCOMPARE(view.referenceToken(), int64_t(511));
    QCOMPARE(view.choiceText(), QStringLiteral("at query"));
    view.setReference(InspectorView::Reference::End);
    QCOMPARE(view.referenceToken(), int64_t(519));
    QVERIFY(view.csv().contains(QStringLiteral("# reference_token: 519\n")));
    view.setReference(InspectorView::Reference::SelectedToken);
    QCOMPARE(view.referenceToken(), int64_t(selection.current().token));
    QCOMPARE(view.choiceText(), QStringLiteral("at token %1").arg(selection.current().token));
    testing::keepPicture(view.grab().toImage(), QStringLiteral("inspector-at-token"));
    QVERIFY2(view.accessibleName().contains(QStringLiteral("retrieval only")),
             qPrintable(view.accessibleName()));
  }

  void csvEqualsTheFacts() {
    SelectionModel selection;
    OpenInspector view(&selection);
    open(view, selection);
    const auto& s = selection.current();
    const auto slot = slotFacts(*head_, s.slot, 511, RowOrder::Strength);
    const auto token = tokenFacts(*head_, s.token, 511, RowOrder::Strength);
    size_t writers = 0, went = 0, readers = 0;
    for (const auto& line : view.csv().split(QLatin1Char('\n'), Qt::SkipEmptyParts)) {
      const auto cell = line.split(QLatin1Char(','));
      if (cell[0] == QStringLiteral("writer")) QCOMPARE(cell[4].toDouble(), slot.writers[writers++].strength);
      if (cell[0] == QStringLiteral("slot")) QCOMPARE(cell[5].toDouble(), token.slots[went++].left);
      if (cell[0] == QStringLiteral("reader")) QCOMPARE(cell[6].toDouble(), token.readers[readers++].weight);
    }
    QCOMPARE(writers, slot.writers.size());
    QCOMPARE(went, token.slots.size());
    QCOMPARE(readers, token.readers.size());
  }

  void attentionSaysWhy() {
    auto run = std::make_shared<RunData>(*run_);
    run->summary.head_list[0].has_routes = false;
    run->summary.head_list[0].why = "attention";
    SelectionModel selection;
    selection.setLimits(1, 4, 4, 64, 520);
    OpenInspector view(&selection);
    view.resize(274, 477);
    view.setRun(run);
    view.setHead(nullptr);
    view.show();
    view.grab();
    QVERIFY2(view.accessibleName().contains(QStringLiteral("attention")), qPrintable(view.accessibleName()));
    QVERIFY(view.rows().isEmpty());
  }

  void output() {
    SelectionModel selection;
    selection.setLimits(1, 4, 4, 64, 520);
    OpenOutput view(&selection);
    view.resize(274, 152);
    view.setRun(run_);
    view.show();
    const auto steps = view.steps();
    QCOMPARE(steps.size(), 9);
    QCOMPARE(steps[0].position, int64_t(512));
    QCOMPARE(steps[0].chosen, QStringLiteral("D"));
    QVERIFY(near(steps[0].p, std::exp(-1e-4)));
    QCOMPARE(steps[8].position, int64_t(520));
    QCOMPARE(steps[8].chosen, QStringLiteral("#257"));  // never fed, so the trace has no text for it
    QCOMPARE(steps[0].others.size(), 3);
    view.setTokenNames([](int32_t id) { return id == 257 ? QStringLiteral("<eos>") : QString(); });
    QCOMPARE(view.steps()[8].chosen, QStringLiteral("<eos>"));
    QVERIFY2(view.accessibleName().contains(QStringLiteral("exact")), qPrintable(view.accessibleName()));
    QTest::mouseClick(&view, Qt::LeftButton, {}, view.stepRect(3, 274).center().toPoint());
    QCOMPARE(selection.current().token, qint64(515));
    QTest::keyClick(&view, Qt::Key_Up);
    QCOMPARE(selection.current().token, qint64(514));
    QVERIFY(view.tipAt(view.stepRect(0, 274).center()).contains(QStringLiteral("D")));
    // The step that the selected token predicts carries a wash.
    selection.request({.token = 512});
    const QImage image = view.grab().toImage();
    const QRectF predicted = view.stepRect(1, 274), own = view.stepRect(0, 274);
    QCOMPARE(image.pixelColor(int(predicted.left()) + 3, int(predicted.center().y())).name(),
             Theme::current().hoverFill.name());
    QCOMPARE(image.pixelColor(int(own.left()) + 3, int(own.center().y())).name(),
             Theme::current().selectionRow.name());
  }

  void wrongAnswerNamesTheExpectedOne() {
    auto info = testing::demoRun();
    info.exact = false;
    info.output_text = "DNxril3X";
    auto run = std::make_shared<RunData>();
    run->own_info = std::make_shared<trace::RunInfo>(info);
    SelectionModel selection;
    OpenOutput view(&selection);
    view.resize(274, 200);
    view.setRun(run);
    view.show();
    testing::keepPicture(view.grab().toImage(), QStringLiteral("output-wrong"));
    QVERIFY2(view.accessibleName().contains(QStringLiteral("wrong, expected DNxril3R")),
             qPrintable(view.accessibleName()));
    // No expected answer: no verdict.
    info.has_answer = false;
    run = std::make_shared<RunData>();
    run->own_info = std::make_shared<trace::RunInfo>(info);
    view.setRun(run);
    QVERIFY(!view.accessibleName().contains(QStringLiteral("wrong")));
  }

  void surprisalOfCandidates() {
    const auto& info = run_->info();
    QVERIFY(near(candidateSurprisal(info, 512), 1e-4));
    QVERIFY(std::isnan(candidateSurprisal(info, 100)));
    QVERIFY(std::isnan(candidateSurprisal(info, 521)));
  }
};

SLOTSCOPE_VIEW_TEST(TestInspector)
#include "test_inspector.moc"
