// Slot heatmap (design: section 6): arithmetic, values against brute force, what is on the screen, mouse and
// keyboard, B45, B47.
#include <QBuffer>
#include <QPainter>
#include <QPdfWriter>
#include <QPushButton>
#include <QSvgGenerator>
#include <cmath>
#include <limits>

#include "tests/views/demo.h"
#include "tests/views/view_test.h"
#include "views/colour_range.h"
#include "views/format.h"
#include "views/heatmap_view.h"
#include "views/timeline_view.h"

using namespace slotscope;
using namespace slotscope::views;
using analysis::Quantity;
using analysis::SlotClass;

namespace {

// A view with its selection, on the demo run unless told otherwise.
struct Bench {
  SelectionModel selection;
  HeatmapView view{&selection, nullptr};
  std::shared_ptr<const RunData> run;
  std::shared_ptr<const analysis::HeadData> head;

  explicit Bench(QSize size = {746, 500}) : Bench(testing::demoRunData(), nullptr, size) {}
  Bench(std::shared_ptr<const RunData> r, std::shared_ptr<const analysis::HeadData> h,
        QSize size = {746, 500})
      : run(std::move(r)), head(h ? h : testing::demoHead(run->info())) {
    selection.setLimits(1, 4, 4, head->writes.slots, run->info().tokens);
    const auto& first = run->summary.first;
    selection.request({.layer = first.layer, .head = first.head, .slot = first.slot, .token = first.token});
    view.resize(size);
    view.setRun(run);
    view.setHead(head);
    view.show();
    QApplication::processEvents();
    view.drawNow();
  }
  QImage grab() {
    QApplication::processEvents();
    view.drawNow();
    QApplication::processEvents();
    return view.grab().toImage();
  }
  // Middle of a cell in plot coordinates.
  QPointF at(int64_t token, int slot) const {
    return view.plotGeometry().cell(token, view.rows().row_of[size_t(slot)]).center();
  }
  QColor pixel(const QImage& image, const QPointF& plot) const {
    return image.pixelColor(view.plotWidget()->mapTo(&view, plot.toPoint()));
  }
  void mouse(QEvent::Type type, const QPointF& at, Qt::MouseButton button = Qt::LeftButton,
             Qt::KeyboardModifiers keys = {}) {
    QWidget* plot = view.plotWidget();
    const Qt::MouseButtons held =
        type == QEvent::MouseButtonRelease ? Qt::MouseButtons() : Qt::MouseButtons(button);
    QMouseEvent event(type, at, plot->mapToGlobal(at), type == QEvent::MouseMove ? Qt::NoButton : button,
                      held, keys);
    QApplication::sendEvent(plot, &event);
  }
  void click(const QPointF& at, Qt::KeyboardModifiers keys = {}) {
    mouse(QEvent::MouseButtonPress, at, Qt::LeftButton, keys);
    mouse(QEvent::MouseButtonRelease, at, Qt::LeftButton, keys);
  }
  void drag(const QPointF& from, const QPointF& to, Qt::MouseButton button = Qt::LeftButton,
            Qt::KeyboardModifiers keys = {}) {
    mouse(QEvent::MouseButtonPress, from, button, keys);
    mouse(QEvent::MouseMove, (from + to) / 2, button, keys);
    mouse(QEvent::MouseMove, to, button, keys);
    mouse(QEvent::MouseButtonRelease, to, button, keys);
  }
  void hover(const QPointF& at) { mouse(QEvent::MouseMove, at, Qt::NoButton); }
  void wheel(const QPointF& at, int units, Qt::KeyboardModifiers keys = {}) {
    QWidget* plot = view.plotWidget();
    QWheelEvent event(at, plot->mapToGlobal(at), {}, {0, units}, Qt::NoButton, keys, Qt::NoScrollPhase,
                      false);
    QApplication::sendEvent(plot, &event);
  }
  void key(int key, Qt::KeyboardModifiers keys = {}) { QTest::keyClick(&view, Qt::Key(key), keys); }
  const Selection& now() const { return selection.current(); }
};

// A head whose every cell is routed: strengths are the matrix, [rows = tokens][columns = slots].
std::shared_ptr<const analysis::HeadData> matrixHead(const trace::RunInfo& run,
                                                     const std::vector<std::vector<double>>& strength,
                                                     int slots) {
  auto data = std::make_shared<analysis::HeadData>();
  HeadRoutes& r = data->routes;
  r.slots = r.top_k = slots;
  r.rows = r.tokens = int64_t(strength.size());
  for (const auto& row : strength)
    for (int s = 0; s < slots; ++s) {
      r.index.push_back(uint32_t(s));
      r.weight.push_back(1.0 / slots);
      r.strength.push_back(row[size_t(s)]);
    }
  data->writes = analysis::group_writes(r);
  data->esl =
      analysis::analyse_esl(std::vector<uint32_t>(size_t(slots), uint32_t(strength.size())), {}, r.tokens);
  data->allocation = analysis::allocate(r, run.roles);
  return data;
}

std::shared_ptr<const RunData> plainRun(int64_t tokens) {
  auto data = std::make_shared<RunData>();
  auto info = std::make_shared<trace::RunInfo>();
  info->tokens = info->planned_tokens = info->prompt_tokens = tokens;
  info->byte_offsets = {0};
  for (int64_t t = 0; t < tokens; ++t) {
    info->bytes.push_back(uint8_t('a' + t % 26));
    info->byte_offsets.push_back(t + 1);
    info->roles.push_back(0), info->special.push_back(0), info->position.push_back(t),
        info->ids.push_back(int32_t('a' + t % 26));
  }
  data->own_info = info;
  data->summary.first = {0, 0, -1, 0};
  return data;
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                 kInf = std::numeric_limits<double>::infinity();

// `slots` slots, one weak write per token in slot t mod slots, and one strong write.
std::shared_ptr<const analysis::HeadData> oneHotCell(int64_t tokens, int slots, int64_t token, int slot,
                                                     const trace::RunInfo& run) {
  auto data = std::make_shared<analysis::HeadData>();
  HeadRoutes& r = data->routes;
  r.slots = slots, r.top_k = 1, r.rows = r.tokens = tokens;
  std::vector<uint32_t> esl(size_t(slots), 0);
  for (int64_t t = 0; t < tokens; ++t) {
    const bool hot = t == token;
    const uint32_t s = hot ? uint32_t(slot) : uint32_t(t % (slots - 1) + (t % (slots - 1) >= slot ? 1 : 0));
    r.index.push_back(s);
    r.weight.push_back(1);
    r.strength.push_back(hot ? 1.0 : 0.001);
    ++esl[s];
  }
  data->writes = analysis::group_writes(r);
  data->esl = analysis::analyse_esl(esl, {}, tokens);
  data->allocation = analysis::allocate(r, run.roles);
  return data;
}

}  // namespace

class TestHeatmap : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void rangeArithmetic() {
    QCOMPARE(clampRange({-5, 5}, 100), CellRange(0, 10));
    QCOMPARE(clampRange({95, 105}, 100), CellRange(90, 100));
    QCOMPARE(clampRange({10, 11}, 100), CellRange(10, 14));  // never below 4 cells
    QCOMPARE(clampRange({0, 9}, 3), CellRange(0, 3));        // or all there is
    QCOMPARE(clampRange({0, 9}, 0), CellRange(0, 1));
    QCOMPARE(zoomRange({0, 500}, 250, 1.25, 500), CellRange(50, 450));
    QCOMPARE(zoomRange({50, 450}, 250, 0.8, 500), CellRange(0, 500));
    QCOMPARE(zoomRange({10, 14}, 12, 1.25, 500), CellRange(10, 14));
    QCOMPARE(zoomRange({10, 15}, 12, 1.01, 500).second - zoomRange({10, 15}, 12, 1.01, 500).first,
             int64_t(4));  // moves at least one
    QCOMPARE(panRange({10, 20}, -15, 100), CellRange(0, 10));
    QCOMPARE(centreRange(152, 64, 520), CellRange(120, 184));
    QCOMPARE(centreRange(3, 64, 520), CellRange(0, 64));
    QVERIFY(std::abs(wheelFactor(120) - 1.25) < 1e-12);
    QVERIFY(std::abs(wheelFactor(40) * wheelFactor(80) - 1.25) < 1e-12);
    // Whatever is asked for, the result is inside, not empty, and the anchor stays where it was (within a
    // cell).
    testing::DemoRandom random{7};
    for (int i = 0; i < 5000; ++i) {
      const int64_t total = 1 + random.below(100000), a = random.below(int(total)),
                    w = 1 + random.below(int(total));
      const CellRange range = clampRange({a, a + w}, total);
      QVERIFY(range.first >= 0 && range.second <= total &&
              range.second - range.first >= std::min<int64_t>(4, total));
      const double share = random.unit(),
                   anchor = double(range.first) + share * double(range.second - range.first);
      const double factor = random.unit() < 0.5 ? 1.25 : 0.8;
      const CellRange z = zoomRange(range, anchor, factor, total);
      QVERIFY(z.first >= 0 && z.second <= total && z.second - z.first >= std::min<int64_t>(4, total));
      if (z.first > 0 && z.second < total)
        QVERIFY(std::abs((anchor - double(z.first)) / double(z.second - z.first) - share) *
                    double(z.second - z.first) <=
                1.0);
    }
  }

  // Reduced columns are at least a pixel wide and hold every visible token, whatever the sizes.
  void wholeColumnsFit() {
    testing::DemoRandom random{5};
    for (int i = 0; i < 20000; ++i) {
      const int pixels = 4 + random.below(4000);
      const int64_t first = random.below(200000), visible = 1 + random.below(400000);
      const int64_t k = tokensPerColumn(visible, pixels);
      const CellRange w = wholeColumns({first, first + visible}, k);
      QVERIFY(w.first <= first && w.second >= first + visible);
      QCOMPARE((w.second - w.first) % k, int64_t(0));
      if (k > 1)
        QVERIFY((w.second - w.first) / k <= pixels);
      else
        QVERIFY(visible <= pixels);
    }
  }

  void ticks() {
    QCOMPARE(tickStep(1.09), int64_t(100));
    QCOMPARE(tickStep(17), int64_t(5));
    QCOMPARE(tickStep(100), int64_t(1));
    QCOMPARE(tickStep(6), int64_t(10));
    QCOMPARE(tickStep(2), int64_t(50));
    QCOMPARE(tickStep(0.0043), int64_t(50000));
    for (double w = 0.001; w < 200; w *= 1.07) QVERIFY(double(tickStep(w)) * w >= 60);
  }

  void geometry() {
    const auto g = HeatmapGeometry::make(QRectF(0, 0, 746, 410), {0, 520}, {0, 64});
    QCOMPARE(g.plot, QRectF(100, 24, 746 - 178, 410 - 24 - 40));
    const auto close = HeatmapGeometry::make(QRectF(0, 0, 746, 410), {128, 191}, {0, 64});
    QVERIFY(close.tokenStrip());
    QCOMPARE(close.plot.bottom(), 410.0 - 46);
    QVERIFY(HeatmapGeometry::make(QRectF(0, 0, 178 + 9 * 20, 400), {0, 20}, {0, 4}).tokenStrip());
    QVERIFY(!HeatmapGeometry::make(QRectF(0, 0, 178 + 8.9 * 20, 400), {0, 20}, {0, 4}).tokenStrip());
    // Every cell's middle is that cell.
    for (int64_t t = 128; t < 191; ++t)
      for (int64_t r = 0; r < 64; ++r) {
        const QPointF m = close.cell(t, r).center();
        QCOMPARE(close.tokenAt(m.x()), t);
        QCOMPARE(close.rowAt(m.y()), r);
        QVERIFY(close.partAt(m) == HeatmapGeometry::Part::Cells);
      }
    QVERIFY(close.partAt({50, 100}) == HeatmapGeometry::Part::SlotMargin);
    QVERIFY(close.partAt({700, 100}) == HeatmapGeometry::Part::EslMargin);
    QVERIFY(close.partAt({700, 10}) == HeatmapGeometry::Part::EslTitle);
    QVERIFY(close.partAt({300, 390}) == HeatmapGeometry::Part::TokenStrip);
    QVERIFY(close.partAt({300, 10}) == HeatmapGeometry::Part::Spans);
  }

  void timelineAlignsWithHeatmap() {
    Bench b;
    const QRectF plot = b.view.plotGeometry().plot, track = b.view.timeline()->track();
    QCOMPARE(track.left(), plot.left());
    QCOMPARE(track.right(), plot.right());
    QCOMPARE(b.view.timeline()->height(), 52);
  }

  void demoIsAsDescribed() {
    Bench b;
    const auto& c = b.head->allocation.counts;
    QCOMPARE(c[0], 10);
    QCOMPARE(c[1], 23);
    QCOMPARE(c[2], 19);
    QCOMPARE(c[3], 12);
    QCOMPARE(b.run->info().tokens, int64_t(520));
    QCOMPARE(b.run->info().prompt_tokens, int64_t(512));
  }

  void sorting() {
    const auto run = testing::demoRun();
    const auto head = testing::demoHead(run);
    const auto& w = head->writes;
    const auto first = [&](int s) {
      return w.begin[size_t(s) + 1] > w.begin[size_t(s)] ? w.token[size_t(w.begin[size_t(s)])] : w.tokens;
    };
    const auto last = [&](int s) {
      return w.begin[size_t(s) + 1] > w.begin[size_t(s)] ? w.token[size_t(w.begin[size_t(s) + 1] - 1)] : -1;
    };
    const auto esl = [&](int s) { return head->esl.esl[size_t(s)]; };
    const int64_t query = run.prompt_tokens - 1;
    const auto p = readsAt(*head, query);
    QVERIFY(!p.empty());
    using Less = std::function<bool(int, int)>;
    const std::pair<HeatmapSort, Less> cases[] = {
        {HeatmapSort::esl, [&](int a, int b) { return esl(a) >= esl(b); }},
        {HeatmapSort::first_use, [&](int a, int b) { return first(a) <= first(b); }},
        {HeatmapSort::last_use, [&](int a, int b) { return last(a) >= last(b); }},
        {HeatmapSort::slot, [&](int a, int b) { return a < b; }},
        {HeatmapSort::read_weight, [&](int a, int b) { return p[size_t(a)] >= p[size_t(b)]; }},
        {HeatmapSort::class_then_esl,
         [&](int a, int b) {
           const auto ka = head->allocation.slot_class[size_t(a)],
                      kb = head->allocation.slot_class[size_t(b)];
           return ka != kb ? ka < kb : esl(a) >= esl(b);
         }},
    };
    for (const auto& [sort, in_order] : cases) {
      const HeatmapRows rows = sortRows(*head, sort, query, false);
      QCOMPARE(rows.slot.size(), size_t(64));
      for (size_t i = 1; i < 64; ++i)
        QVERIFY2(in_order(rows.slot[i - 1], rows.slot[i]), qPrintable(QString::number(int(sort))));
      for (size_t i = 0; i < 64; ++i) QCOMPARE(rows.row_of[size_t(rows.slot[i])], int64_t(i));
    }
    const HeatmapRows hidden = sortRows(*head, HeatmapSort::class_then_esl, query, true);
    QCOMPARE(hidden.slot.size(), size_t(52));
    QCOMPARE(hidden.groups.size(), size_t(3));
    QCOMPARE(hidden.groups[1].end - hidden.groups[1].begin, int64_t(23));
    int gone = 0;
    for (const int64_t r : hidden.row_of) gone += r < 0;
    QCOMPARE(gone, 12);
  }

  // Values under the cursor against sums written out from the routes.
  void cellValues() {
    const auto run = testing::demoRun();
    const auto head = testing::demoHead(run);
    const auto& r = head->routes;
    const int64_t ref = 300;
    const auto p = readsAt(*head, run.prompt_tokens - 1);
    int checked = 0;
    for (int64_t t = 0; t < r.rows; t += 7)
      for (int s = 0; s < r.slots; ++s) {
        int rank = -1;
        for (int k = 0; k < r.top_k; ++k)
          if (int(r.index[size_t(t * r.top_k + k)]) == s) rank = k;
        const auto strength = cellValue(*head, Quantity::write_strength, s, t, ref);
        QCOMPARE(strength.has_value(), rank >= 0);
        if (rank < 0) continue;
        const size_t at = size_t(t * r.top_k + rank);
        QCOMPARE(*strength, r.strength[at]);
        QCOMPARE(*cellValue(*head, Quantity::route_weight, s, t, ref), r.weight[at]);
        QVERIFY(std::abs(*cellValue(*head, Quantity::log_gate, s, t, ref) -
                         r.log_decay[size_t(t)] * r.weight[at]) <= 1e-12);
        // left of this write at ref: product of what every later write to the slot keeps
        double keep = 0, keep_query = 0;
        for (int64_t l = t + 1; l < r.rows; ++l)
          for (int k = 0; k < r.top_k; ++k)
            if (int(r.index[size_t(l * r.top_k + k)]) == s) {
              const double f = r.log_decay[size_t(l)] * r.weight[size_t(l * r.top_k + k)];
              if (l <= ref) keep += f;
              if (l <= run.prompt_tokens - 1) keep_query += f;
            }
        const auto left = cellValue(*head, Quantity::survival_at, s, t, ref);
        QCOMPARE(left.has_value(), t <= ref);
        if (left) QVERIFY(std::abs(*left - std::exp(keep)) <= 1e-9);
        const auto a = cellValue(*head, Quantity::read_attribution, s, t, run.prompt_tokens - 1);
        QCOMPARE(a.has_value(), t < run.prompt_tokens);
        if (a) QVERIFY(std::abs(*a - p[size_t(s)] * r.strength[at] * std::exp(keep_query)) <= 1e-9);
        ++checked;
      }
    QVERIFY(checked > 500);
    QVERIFY(!cellValue(*head, Quantity::write_strength, -1, 0, 0));
    QVERIFY(!cellValue(*head, Quantity::write_strength, 64, 0, 0));
    // Pictures agree with the values under the cursor, for every quantity.
    for (const Quantity q :
         {Quantity::write_strength, Quantity::route_weight, Quantity::log_gate, Quantity::survival_at,
          Quantity::survival_of, Quantity::read_weight, Quantity::read_attribution}) {
      GridJob job;
      job.head = head, job.quantity = q, job.tokens = {0, run.tokens},
      job.reference = q == Quantity::read_attribution ? run.prompt_tokens - 1 : ref;
      for (int s = 0; s < 64; ++s) job.rows.push_back(63 - s);
      const SlotGrid grid = makeGrid(job);
      QCOMPARE(grid.columns, 520);
      QCOMPARE(grid.rows, 64);
      int finite = 0;
      for (int row = 0; row < 64; ++row)
        for (int t = 0; t < 520; ++t) {
          const auto v = cellValue(*head, q, 63 - row, t, job.reference);
          const size_t at = size_t(row) * 520 + size_t(t);
          QCOMPARE(grid.state[at] == analysis::Cell::finite, v.has_value());
          if (v)
            QVERIFY2(std::abs(double(grid.value[at]) - *v) <= 1e-6 * std::max(1.0, std::abs(*v)),
                     qPrintable(quantityName(q)));
          finite += v.has_value();
        }
      QVERIFY2(finite > 0, qPrintable(quantityName(q)));
    }
  }

  void statusText() {
    Bench b;
    QSignalSpy spy(&b.view, &View::statusText);
    // A strong write of the key.
    const auto& r = b.head->routes;
    const int64_t t = b.run->info().span("key")->begin + 1;
    const int slot = int(r.index[size_t(t * r.top_k)]);
    b.hover(b.at(t, slot));
    QVERIFY(!spy.isEmpty());
    const QString text = spy.last().first().toString();
    const double s = r.strength[size_t(t * r.top_k)];
    QVERIFY2(text.startsWith(
                 QStringLiteral("slot %1 × token %2 “N”   s = %3").arg(slot).arg(t).arg(strength(s, 4))),
             qPrintable(text));
    const auto left = cellValue(*b.head, Quantity::survival_at, slot, t, 511);
    QVERIFY2(text.endsWith(QStringLiteral("left at query ") + share(*left)), qPrintable(text));
    QCOMPARE(b.selection.hoverSlot(), slot);
    QCOMPARE(b.selection.hoverToken(), qint64(t));
    // Not routed says so.
    int free = 0;
    while (cellValue(*b.head, Quantity::write_strength, free, t, 0)) ++free;
    QVERIFY(b.view.cellText(free, t).endsWith(QStringLiteral("not routed")));
  }

  void clicking() {
    Bench b;
    QSignalSpy spy(&b.selection, &SelectionModel::changed);
    b.click(b.at(300, 17));
    QCOMPARE(b.now().token, qint64(300));
    QCOMPARE(b.now().slot, 17);
    QCOMPARE(spy.count(), 1);
    const auto g = b.view.plotGeometry();
    b.click({60, b.at(0, 40).y()});  // margin: slot only
    QCOMPARE(b.now().slot, 40);
    QCOMPARE(b.now().token, qint64(300));
    b.click({g.x(100.5), g.plot.bottom() + 14});  // strip: token only
    QCOMPARE(b.now().token, qint64(100));
    QCOMPARE(b.now().slot, 40);
    b.click({g.plot.right() + 20, g.plot.top() - 10});  // title of the bars
    QVERIFY(b.grab() != QImage());
    b.click(b.at(5, 3), Qt::NoModifier);
    QCOMPARE(b.now().token, qint64(5));
  }

  void zoomAndPan() {
    Bench b;
    QCOMPARE(b.view.tokenRange(), CellRange(0, 520));
    b.wheel(b.at(260, 10), 120);
    QCOMPARE(b.view.tokenRange().second - b.view.tokenRange().first, int64_t(416));
    // Three small deltas make one notch, not three steps.
    const CellRange before = b.view.rowRange();
    b.wheel(b.at(260, 10), 120, Qt::ControlModifier);
    QCOMPARE(b.view.rowRange().second - b.view.rowRange().first, int64_t(51));
    QVERIFY(b.view.rowRange() != before);
    b.wheel({50, b.at(260, 10).y()}, -120);  // over the left margin: slots
    QCOMPARE(b.view.rowRange(), CellRange(0, 64));
    const CellRange t = b.view.tokenRange();
    b.wheel(b.at(260, 10), -120, Qt::ShiftModifier);
    QCOMPARE(b.view.tokenRange().second - b.view.tokenRange().first, t.second - t.first);
    QVERIFY(b.view.tokenRange().first > t.first);
    // A drag moves what is under the cursor with it.
    const QPointF from = b.at(260, 10);
    const CellRange at = b.view.tokenRange();
    const double cell = b.view.plotGeometry().cellWidth();
    b.drag(from, from + QPointF(-20 * cell, 0));
    QCOMPARE(b.view.tokenRange().first, std::min<int64_t>(at.first + 20, 520 - (at.second - at.first)));
    QCOMPARE(b.now().token, b.run->summary.first.token);  // a drag selects nothing
    // Double click on a write: 64 tokens around it; on nothing: everything.
    b.view.zoomToAll();
    const auto& r = b.head->routes;
    const int slot = int(r.index[size_t(200 * r.top_k)]);
    b.mouse(QEvent::MouseButtonDblClick, b.at(200, slot));
    QCOMPARE(b.view.tokenRange(), CellRange(168, 232));
    b.key(Qt::Key_Escape);
    QCOMPARE(b.view.tokenRange(), CellRange(0, 520));
    // Rubber band.
    const auto g = b.view.plotGeometry();
    b.drag({g.x(100.5), g.y(10.5)}, {g.x(200.5), g.y(30.5)}, Qt::RightButton);
    QCOMPARE(b.view.tokenRange(), CellRange(100, 201));
    QCOMPARE(b.view.rowRange(), CellRange(10, 31));
    // Never below 4 x 4.
    for (int i = 0; i < 60; ++i)
      b.wheel(b.view.plotGeometry().plot.center(), 120),
          b.wheel(b.view.plotGeometry().plot.center(), 120, Qt::ControlModifier);
    QCOMPARE(b.view.tokenRange().second - b.view.tokenRange().first, int64_t(4));
    QCOMPARE(b.view.rowRange().second - b.view.rowRange().first, int64_t(4));
  }

  void smallWheelDeltasAddUp() {
    Bench b;
    b.view.setTokenRange({100, 108});
    const QPointF middle = b.view.plotGeometry().plot.center();
    for (int i = 0; i < 7; ++i) b.wheel(middle, 8);
    const int64_t width = b.view.tokenRange().second - b.view.tokenRange().first;
    QVERIFY(width == 8 || width == 7);  // 56 units are less than half a notch
    for (int i = 0; i < 8; ++i) b.wheel(middle, 8);
    QCOMPARE(b.view.tokenRange().second - b.view.tokenRange().first, int64_t(6));  // 120 units: 8 / 1.25
  }

  void keyboard() {
    Bench b;
    const auto& info = b.run->info();
    b.selection.request({.slot = 5, .token = 100});
    b.key(Qt::Key_Right);
    QCOMPARE(b.now().token, qint64(101));
    b.key(Qt::Key_Left, Qt::ShiftModifier);
    QCOMPARE(b.now().token, qint64(91));
    const int64_t row = b.view.rows().row_of[5];
    b.key(Qt::Key_Down);
    QCOMPARE(b.view.rows().row_of[size_t(b.now().slot)], std::min<int64_t>(63, row + 1));
    b.key(Qt::Key_Up, Qt::ShiftModifier);
    QCOMPARE(b.view.rows().row_of[size_t(b.now().slot)],
             std::max<int64_t>(0, std::min<int64_t>(63, row + 1) - 10));
    b.key(Qt::Key_Home);
    QCOMPARE(b.now().token, qint64(0));
    b.key(Qt::Key_End);
    QCOMPARE(b.now().token, qint64(519));
    b.key(Qt::Key_K);
    QCOMPARE(b.now().token, qint64(info.span("key")->begin));
    b.key(Qt::Key_K);
    QCOMPARE(b.now().token, qint64(info.span("key")->begin + 1));
    b.key(Qt::Key_Right, Qt::ControlModifier);  // next of the same role
    QCOMPARE(b.now().token, qint64(info.span("key")->begin + 2));
    b.key(Qt::Key_Q);
    QCOMPARE(b.now().token, qint64(511));
    b.key(Qt::Key_A);
    QCOMPARE(b.now().token, qint64(512));
    b.key(Qt::Key_W);
    const auto& w = b.head->writes;
    QCOMPARE(b.now().token, qint64(w.token[size_t(w.begin[size_t(b.now().slot) + 1] - 1)]));
    b.selection.request({.token = info.span("key")->begin});
    b.key(Qt::Key_R);
    double best = -1;
    qint64 reader = -1;
    for (const int64_t t : b.head->read_token) {
      const double a =
          analysis::read_attribution(w, readsAt(*b.head, t), t).weight[size_t(info.span("key")->begin)];
      if (a > best) best = a, reader = t;
    }
    QCOMPARE(b.now().token, reader);
    b.key(Qt::Key_BracketRight);
    QCOMPARE(b.now().head, 1);
    b.key(Qt::Key_PageUp);
    QCOMPARE(b.now().layer, 2);
    b.selection.request({.token = 260});
    b.key(Qt::Key_Plus);
    QCOMPARE(b.view.tokenRange().second - b.view.tokenRange().first, int64_t(416));
    b.key(Qt::Key_0);
    QCOMPARE(b.view.tokenRange(), CellRange(0, 520));
    b.view.setRowRange({0, 10});
    b.key(Qt::Key_0, Qt::ControlModifier | Qt::AltModifier);
    QCOMPARE(b.view.rowRange(), CellRange(0, 64));
    b.key(Qt::Key_S);
    QVERIFY(b.view.sort() == HeatmapSort::esl);
    b.key(Qt::Key_C);
    QVERIFY(b.view.quantity() == Quantity::route_weight);
    b.key(Qt::Key_L);
    QVERIFY(b.view.colours().scale == RangeScale::log);
    b.selection.setBrush(std::pair<qint64, qint64>{3, 9});
    b.view.setTokenRange({0, 50});
    b.key(Qt::Key_Escape);
    QVERIFY(!b.selection.brush());
    QCOMPARE(b.view.tokenRange(), CellRange(0, 50));
    b.key(Qt::Key_Escape);
    QCOMPARE(b.view.tokenRange(), CellRange(0, 520));
  }

  void selectionComesIntoView() {
    Bench b;
    b.view.setTokenRange({0, 64});
    b.view.setRowRange({0, 8});
    b.selection.request({.slot = b.view.rows().slot[40], .token = 400});
    QVERIFY(b.view.tokenRange().first <= 400 && b.view.tokenRange().second > 400);
    QCOMPARE(b.view.tokenRange().second - b.view.tokenRange().first, int64_t(64));
    QVERIFY(b.view.rowRange().first <= 40 && b.view.rowRange().second > 40);
  }

  void choicesThatDoNotApply() {
    auto run = testing::demoRun();
    auto data = std::make_shared<analysis::HeadData>(*testing::demoHead(run));
    data->read_token.clear(), data->read_weight.clear(), data->read_heads.clear();
    data->routes.log_decay.clear();
    data->writes = analysis::group_writes(data->routes);
    QStringList open;
    for (const auto& c : quantityChoices(data.get()))
      if (c.why.isEmpty())
        open << c.name;
      else
        QVERIFY(c.why.contains(QStringLiteral("run again")) || c.why.contains(QStringLiteral("Compare")));
    QCOMPARE(open, QStringList({QStringLiteral("write strength s"), QStringLiteral("route weight r")}));
    for (const auto& c : sortChoices(data.get(), 3))
      QCOMPARE(c.why.isEmpty(), c.value < int(HeatmapSort::read_weight));
  }

  // --- what is on the screen ---

  void everyWriteIsDrawnWhereItBelongs() {
    Bench b({178 + 520 * 2, 37 + 24 + 40 + 64 * 6 + 53});
    b.selection.request({.slot = 0, .token = 0});
    const QImage image = b.grab();
    testing::keepPicture(image, QStringLiteral("heatmap_two_pixels"));
    const auto map = colourMap("cividis", false);
    int wrong = 0, seen = 0;
    for (int64_t t = 4; t < 520; ++t)
      for (int s = 0; s < 64; ++s) {
        if (s == b.now().slot || b.view.rows().row_of[size_t(s)] < 2) continue;  // lines of the selection
        const auto v = cellValue(*b.head, Quantity::write_strength, s, t, 0);
        const QColor expected =
            v ? QColor(map[int(std::lround(b.view.colourScale().place(double(float(*v))) * 255))])
              : Theme::light().plot;
        const QPointF m = b.at(t, s);
        const int64_t row = b.view.rows().row_of[size_t(s)];
        if (std::abs(row - b.view.rows().row_of[size_t(b.now().slot)]) <= 1) continue;
        ++seen;
        wrong += b.pixel(image, m) != expected;
      }
    QVERIFY(seen > 30000);
    QCOMPARE(wrong, 0);
  }

  void hotCellSurvivesReduction() {
    const auto run = plainRun(131072);
    testing::DemoRandom random{11};
    for (int trial = 0; trial < 12; ++trial) {
      const int64_t token = trial == 0 ? 0 : trial == 1 ? 131071 : int64_t(random.next() % 131072);
      const int slot = trial == 2 ? 255 : random.below(256);
      Bench b(run, oneHotCell(131072, 256, token, slot, run->info()), {746, 500});
      b.view.setSort(HeatmapSort::slot);
      b.selection.request({.slot = slot < 128 ? 200 : 40, .token = token < 65536 ? 100000 : 20000});
      const QImage image = b.grab();
      const QColor hot = QColor(colourMap("cividis", false).back());
      const auto g = b.view.plotGeometry();
      // The column and row of the pixel that shows it, give or take the one beside it.
      bool found = false;
      for (int dx = -1; dx <= 1 && !found; ++dx)
        for (int dy = -1; dy <= 1 && !found; ++dy) {
          const QPointF at(std::clamp(g.x(double(token) + 0.5) + dx, g.plot.left(), g.plot.right() - 1),
                           std::clamp(g.y(slot + 0.5) + dy, g.plot.top(), g.plot.bottom() - 1));
          found = b.pixel(image, {std::floor(at.x()), std::floor(at.y())}) == hot;
        }
      QVERIFY2(found, qPrintable(QStringLiteral("token %1 slot %2").arg(token).arg(slot)));
      QVERIFY2(b.view.currentReduction().contains(QStringLiteral("tokens per column")),
               qPrintable(b.view.currentReduction()));
      // What is pointed at is what is seen.
      b.hover({g.x(double(token) + 0.5), g.y(slot + 0.5)});
      QCOMPARE(b.selection.hoverToken(), qint64(token));
    }
  }

  void reductionIsNamed() {
    Bench b;
    QCOMPARE(b.view.currentReduction(), QStringLiteral("all 520 tokens drawn, no reduction"));
    b.view.setTokenRange({100, 200});
    QCOMPARE(b.view.currentReduction(), QStringLiteral("all cells drawn, no reduction"));
    const auto run = plainRun(131072);
    Bench big(run, oneHotCell(131072, 16, 77, 3, run->info()));
    const int width = int(big.view.plotGeometry().plot.width());
    const int64_t per = (131072 + width - 3) / (width - 2);  // whole columns at both edges
    QCOMPARE(big.view.currentReduction(), QStringLiteral("max of %1 tokens per column").arg(per));
    big.view.setPooling(analysis::Pooling::mean);
    QVERIFY(big.view.currentReduction().startsWith(QStringLiteral("mean of")));
  }

  void changingTheRangeOnlyRecolours() {
    Bench b;
    const SlotGrid* grid = b.view.shownGrid();
    QVERIFY(grid);
    const QImage before = b.grab();
    ColourSettings c = b.view.colours();
    c.mode = RangeMode::typed, c.low = 0, c.high = 0.05;
    b.view.setColours(c);
    QCOMPARE(b.view.shownGrid(), grid);
    QVERIFY(b.grab() != before);
    QCOMPARE(b.view.colourScale().high, 0.05);
    c.scale = RangeScale::log;
    b.view.setColours(c);
    QCOMPARE(b.view.shownGrid(), grid);
    QCOMPARE(b.view.colourScale().place(0.05), 1.0);
  }

  void colourScales() {
    SlotGrid g;
    for (const float v : {0.001f, 0.1f, 1.0f})
      g.value.push_back(v), g.state.push_back(analysis::Cell::finite), ++g.finite_cells;
    g.min = 0.001, g.max = 1, g.rows = 1, g.columns = 3;
    ColourSettings c;
    c.mode = RangeMode::min_max;
    ColourScale s = ColourScale::make(g, nullptr, c);
    QCOMPARE(float(s.low), 0.001f);
    QCOMPARE(s.place(s.low), 0.0);
    QCOMPARE(s.place(1), 1.0);
    QVERIFY(std::isnan(s.place(kNan)));
    QCOMPARE(s.place(kInf), 1.0);
    c.scale = RangeScale::log;
    s = ColourScale::make(g, nullptr, c);
    QVERIFY(std::abs(s.place(0.031622776) - 0.5) < 1e-6);  // sqrt(0.001)
    QCOMPARE(s.place(0), 0.0);
    QCOMPARE(s.place(-5), 0.0);
    for (const RangeScale scale : {RangeScale::linear, RangeScale::log, RangeScale::symlog}) {
      c.scale = scale;
      s = ColourScale::make(g, nullptr, c);
      double last = -1;
      for (int i = 0; i <= 100; ++i) {
        QVERIFY(std::abs(s.place(s.value(i / 100.0)) - i / 100.0) < 1e-9);
        QVERIFY(s.place(s.value(i / 100.0)) > last);
        last = s.place(s.value(i / 100.0));
      }
    }
    // Amounts below zero run from zero outwards.
    for (float& v : g.value) v = -v;
    c.scale = RangeScale::linear, c.mode = RangeMode::percentile;
    s = ColourScale::make(g, nullptr, c);
    QVERIFY(s.downwards);
    QCOMPARE(s.place(-1), 1.0);
    QCOMPARE(s.place(0), 0.0);
    QCOMPARE(limitText(s.left()), QStringLiteral("0"));
    QCOMPARE(limitText(s.right()), QStringLiteral("−1.00"));
    QCOMPARE(limitText(0.0021), QStringLiteral("0.0021"));
    QCOMPARE(limitText(0.036), QStringLiteral("0.036"));
    QCOMPARE(limitText(0.34), QStringLiteral("0.34"));
    QCOMPARE(limitText(3.2e-5), QStringLiteral("3.2e−5"));
    QCOMPARE(limitText(1234.4), QStringLiteral("1234"));
    double v = 0;
    QVERIFY(parseNumber(QStringLiteral(" −3.2e-5 "), &v) && v == -3.2e-5);
    QVERIFY(!parseNumber(QStringLiteral("inf"), &v) && !parseNumber(QStringLiteral("1,5"), &v));
  }

  // B45: NaN, infinity, flat data.
  void notANumber_data() {
    QTest::addColumn<double>("special");
    QTest::addColumn<double>("special2");
    QTest::addColumn<double>("rest");
    QTest::newRow("one NaN") << kNan << 0.5 << 0.5;
    QTest::newRow("both infinities") << kInf << -kInf << 0.5;
    QTest::newRow("all NaN") << kNan << kNan << kNan;
    QTest::newRow("all 7") << 7.0 << 7.0 << 7.0;
    QTest::newRow("huge") << 1e38 << 0.25 << 0.5;
  }
  void notANumber() {
    QFETCH(double, special);
    QFETCH(double, special2);
    QFETCH(double, rest);
    const auto run = plainRun(4);
    std::vector<std::vector<double>> m(4, std::vector<double>(4, rest));
    if (std::isfinite(rest) && rest != 7) m[0][1] = 0.25, m[3][2] = 0.75;
    m[1][2] = special;
    m[2][3] = special2;
    Bench b(run, matrixHead(run->info(), m, 4));
    b.view.setSort(HeatmapSort::slot);
    b.selection.request({.slot = 0, .token = 0});
    const QImage image = b.grab();
    testing::keepPicture(
        image, QStringLiteral("b45_") +
                   QString::fromLatin1(QTest::currentDataTag()).replace(QLatin1Char(' '), QLatin1Char('_')));
    const auto map = colourMap("cividis", false);
    const auto colour = [&](int64_t t, int s) { return b.pixel(image, b.at(t, s) + QPointF(25, 12)); };
    const Theme theme = Theme::light();
    auto* bar = b.view.findChild<ColourBar*>();
    QVERIFY(bar);
    const auto has_pink = [&](int64_t t, int s) {
      const QRectF cell =
          b.view.plotGeometry().cell(t, b.view.rows().row_of[size_t(s)]).adjusted(4, 4, -4, -4);
      for (double x = cell.left(); x < cell.right(); ++x)
        for (double y = cell.top(); y < cell.bottom(); ++y)
          if (b.pixel(image, {x, y}) == theme.nan) return true;
      return false;
    };
    if (std::isnan(rest)) {
      QVERIFY(!b.view.colourScale().valid);
      QCOMPARE(bar->badText(), QStringLiteral("16 NaN"));
      QVERIFY(has_pink(0, 0) && has_pink(3, 3));
      // "no finite values" stands in the middle, on the surface colour, in error colour.
      const QPointF middle = b.view.plotGeometry().plot.center();
      int ink = 0, ground = 0;
      for (int x = -50; x <= 50; ++x)
        for (int y = -8; y <= 8; ++y)
          ink += b.pixel(image, middle + QPointF(x, y)) == theme.error,
              ground += b.pixel(image, middle + QPointF(x, y)) == theme.surface;
      QVERIFY(ink > 60 && ground > 600);
      return;
    }
    QVERIFY(b.view.colourScale().valid);
    QVERIFY(std::isfinite(b.view.colourScale().low) && std::isfinite(b.view.colourScale().high));
    if (std::isnan(special)) {
      QCOMPARE(bar->badText(), QStringLiteral("1 NaN"));
      QVERIFY(has_pink(1, 2));
      QVERIFY(!has_pink(2, 3));
      QVERIFY(b.view.cellText(2, 1).contains(QStringLiteral("s = NaN")));
      b.view.selectFirstNan();
      QCOMPARE(b.now().slot, 2);
      QCOMPARE(b.now().token, qint64(1));
    } else if (std::isinf(special)) {
      QCOMPARE(bar->badText(), QStringLiteral("2 ∞"));
      QCOMPARE(colour(1, 2), QColor(map.back()));  // the map's end colours ...
      QCOMPARE(colour(2, 3), QColor(map.front()));
      QVERIFY(b.pixel(image, b.at(1, 2)) != QColor(map.back()));  // ... with a triangle
      QVERIFY(b.pixel(image, b.at(2, 3)) != QColor(map.front()));
      QCOMPARE(b.view.colourScale().high, 0.75);
    } else if (rest == 7) {
      QVERIFY(b.view.colourScale().low < 7 && b.view.colourScale().high > 7 &&
              b.view.colourScale().high - 7 < 0.5);
      QCOMPARE(colour(1, 1), QColor(map[128]));
      QCOMPARE(colour(3, 3), QColor(map[128]));
    } else {
      QCOMPARE(colour(1, 2), QColor(map.back()));
      QCOMPARE(colour(3, 3), QColor(map.front()));  // not black, not transparent
      QVERIFY(b.view.cellText(2, 1).contains(QStringLiteral("1.0e38")));
    }
  }

  void nothingToDraw() {
    // 0 tokens
    const auto none = plainRun(0);
    auto empty = std::make_shared<analysis::HeadData>();
    empty->routes.slots = 4, empty->routes.top_k = 1;
    empty->writes = analysis::group_writes(empty->routes);
    empty->allocation.slot_class.assign(4, SlotClass::empty);
    Bench b(none, empty);
    QVERIFY(!b.grab().isNull());
    b.key(Qt::Key_Right), b.key(Qt::Key_Plus), b.key(Qt::Key_W), b.hover({300, 100}), b.click({300, 100}),
        b.wheel({300, 100}, 120);
    QVERIFY(b.view.csv().contains(QStringLiteral("token,slot,value")));
    // no head, no run
    b.view.setHead(nullptr);
    b.key(Qt::Key_Right);
    b.view.setRun(nullptr);
    QVERIFY(!b.grab().isNull());
    // one token
    const auto one = plainRun(1);
    Bench c(one, matrixHead(one->info(), {{0.5, 0.25, 0.1, 1}}, 4));
    const QImage image = c.grab();
    testing::keepPicture(image, QStringLiteral("heatmap_one_token"));
    QCOMPARE(c.pixel(image, c.at(0, 3) + QPointF(30, 12)), QColor(colourMap("cividis", false).back()));
    QImage figure(748, 412, QImage::Format_RGB32);
    QPainter p(&figure);
    c.view.paintFigure(p, figure.rect(), Theme::light(), {});
    // a message
    Bench d;
    d.view.setMessage(QStringLiteral("No reads were captured."), QStringLiteral("Run again with reads"));
    QSignalSpy spy(&d.view, &View::messageAction);
    for (auto* button : d.view.findChildren<QPushButton*>())
      if (button->text() == QStringLiteral("Run again with reads")) button->click();
    QCOMPARE(spy.count(), 1);
  }

  // B47: 40,000 columns at one pixel per token: the last one is there.
  void figureWith40000Columns() {
    const auto run = plainRun(40000);
    Bench b(run, oneHotCell(40000, 256, 39999, 100, run->info()));
    b.view.setSort(HeatmapSort::slot);
    b.view.setFigurePixelsPerToken(1);
    const QSizeF size = b.view.figureSize();
    QCOMPARE(size.width(), 40178.0);
    QVERIFY(size.height() >= 256 + 24 + 40);
    const QColor hot = QColor(colourMap("cividis", false).back());
    const auto g = HeatmapGeometry::make(QRectF(QPointF(0, 0), size), {0, 40000}, {0, 256});
    QCOMPARE(g.cellWidth(), 1.0);
    // As an exporter does it: in tiles narrower than the raster engine's coordinates.
    for (const double from : {0.0, 32000.0, 39000.0}) {
      QImage tile(1178, int(size.height()), QImage::Format_RGB32);
      tile.fill(Qt::white);
      QPainter p(&tile);
      p.translate(-from, 0);
      b.view.paintFigure(p, QRectF(QPointF(0, 0), size), Theme::light(), {.caption = false, .legend = false});
      p.end();
      testing::keepPicture(tile, QStringLiteral("b47_%1").arg(int(from)));
      const int y = int(g.y(100.5));
      int hits = 0;
      for (int x = 0; x < tile.width(); ++x)
        if (tile.pixelColor(x, y) == hot) {
          ++hits;
          QCOMPARE(int64_t(std::floor(g.tokenPosition(x + from + 0.5))), int64_t(39999));
        }
      QCOMPARE(hits, from == 39000.0 ? 1 : 0);
    }
  }

  void vectorFigures() {
    const auto run = plainRun(40000);
    Bench b(run, oneHotCell(40000, 256, 12345, 100, run->info()));
    QByteArray svg;
    {
      QBuffer out(&svg);
      out.open(QIODevice::WriteOnly);
      QSvgGenerator generator;
      generator.setOutputDevice(&out);
      generator.setSize({748, 412});
      generator.setViewBox(QRect(0, 0, 748, 412));
      QPainter p(&generator);
      p.setRenderHint(QPainter::LosslessImageRendering);
      b.view.paintFigure(p, QRectF(0, 0, 748, 412), Theme::light(), {});
    }
    QCOMPARE(svg.count("<image"), 1);
    QVERIFY(svg.count("<text") > 5);
    QVERIFY(svg.contains("token position (max of"));  // a reduction is named on the axis
    QVERIFY(svg.size() < 5'000'000);
    QByteArray pdf;
    {
      QBuffer out(&pdf);
      out.open(QIODevice::WriteOnly);
      QPdfWriter writer(&out);
      writer.setResolution(1200);
      writer.setPageSize(QPageSize(QSizeF(748 * 0.75, 412 * 0.75), QPageSize::Point));
      writer.setPageMargins(QMarginsF());
      QPainter p(&writer);
      p.setRenderHint(QPainter::LosslessImageRendering);
      p.scale(1200 / 96.0, 1200 / 96.0);
      b.view.paintFigure(p, QRectF(0, 0, 748, 412), Theme::light(), {});
    }
    QVERIFY(pdf.contains("/Subtype /Image"));
    QVERIFY(!pdf.contains("/DCTDecode"));  // lossless
    QVERIFY(pdf.contains("/Type /Font"));  // text stays text
    QVERIFY2(pdf.size() < 5'000'000, qPrintable(QString::number(pdf.size())));
  }

  void csvHoldsTheData() {
    Bench b;
    b.view.setTokenRange({100, 110});
    const QStringList lines = b.view.csv().split(QLatin1Char('\n'), Qt::SkipEmptyParts);
    int rows = 0;
    for (const QString& line : lines) {
      if (line.startsWith(QLatin1Char('#')) || line.startsWith(QStringLiteral("token"))) continue;
      const QStringList f = line.split(QLatin1Char(','));
      QCOMPARE(f.size(), 3);
      const auto v = cellValue(*b.head, Quantity::write_strength, f[1].toInt(), f[0].toLongLong(), 0);
      QVERIFY(v && f[2].toDouble() == *v);  // reads back as the same number
      ++rows;
    }
    QCOMPARE(rows, 80);  // 10 tokens x top-8
    QVERIFY(lines.contains(QStringLiteral("# layer: 3")));
  }

  void spanNames() {
    const auto name = [](const char* text, bool retrieval, double wanted, double width) {
      SpanName n;
      n.text = QString::fromLatin1(text), n.retrieval = retrieval, n.wanted = wanted, n.width = width;
      return n;
    };
    auto placed = placeSpanNames({name("needle", false, 491, 37), name("key", true, 502, 22),
                                  name("query", false, 873, 32), name("answer", true, 886, 45)},
                                 346, 912);
    QCOMPARE(placed.size(), 4);
    for (qsizetype i = 1; i < placed.size(); ++i)
      QVERIFY(placed[i].left >= placed[i - 1].left + placed[i - 1].width + 8 - 1e-9);
    QCOMPARE(placed[0].left, 491.0);
    QCOMPARE(placed[1].left, 536.0);
    QCOMPARE(placed[3].left, 912.0 - 45);
    // No room for all: key and answer stay.
    placed = placeSpanNames({name("needle", false, 0, 60), name("key", true, 5, 30),
                             name("query", false, 8, 60), name("answer", true, 10, 45)},
                            0, 90);
    QStringList left;
    for (const auto& n : placed) left << n.text;
    QCOMPARE(left, QStringList({QStringLiteral("key"), QStringLiteral("answer")}));
  }

  void joinedBytes() {
    auto info = std::make_shared<trace::RunInfo>();
    const std::string text = "a\xF0\x9F\x98\x80z\xC3";
    info->tokens = info->prompt_tokens = int64_t(text.size());
    info->byte_offsets = {0};
    for (size_t i = 0; i < text.size(); ++i)
      info->bytes.push_back(uint8_t(text[i])), info->byte_offsets.push_back(int64_t(i) + 1),
          info->special.push_back(0);
    const auto labels = tokenLabels(*info, 0, info->tokens);
    QCOMPARE(labels.size(), 4);
    QCOMPARE(labels[1].count, 4);
    QCOMPARE(labels[1].text, QString::fromUtf8("\xF0\x9F\x98\x80"));
    QCOMPARE(labels[2].text, QStringLiteral("z"));
    QCOMPARE(labels[3].text, QStringLiteral("C3…"));
  }

  void tooltipAfterAMoment() {
    Bench b({1264, 690});
    b.view.setTokenRange({130, 194});
    const auto& r = b.head->routes;
    const int64_t t = b.run->info().span("key")->begin + 3;
    b.hover(b.at(t, int(r.index[size_t(t * r.top_k)])));
    auto* tip = b.view.findChild<QWidget*>(QStringLiteral("heatmap-tip"));
    QVERIFY(tip);
    QVERIFY(!tip->isVisible());
    QTRY_VERIFY_WITH_TIMEOUT(tip->isVisible(), 2000);
    testing::keepPicture(b.grab(), QStringLiteral("heatmap_tooltip"));
    b.hover({20, 5});
    QVERIFY(!tip->isVisible());
  }

  void workerDrawsTheSame() {
    const auto run = plainRun(20000);
    const auto head = oneHotCell(20000, 64, 4321, 9, run->info());
    Bench plain(run, head);
    Worker worker;
    SelectionModel selection;
    selection.setLimits(1, 1, 1, 64, 20000);
    selection.request({.slot = plain.now().slot, .token = plain.now().token});
    HeatmapView view(&selection, &worker);
    view.resize(746, 500);
    view.setRun(run);
    view.setHead(head);
    view.show();
    QTRY_VERIFY(!worker.busy() && view.shownGrid());
    QTest::qWait(100);
    QCOMPARE(view.currentReduction(), plain.view.currentReduction());
    QCOMPARE(view.grab().toImage(), plain.grab());
  }

  // Stored pictures, each looked at beside design/main-light-1280, main-dark-1280 and heatmap-detail.
  void pictures_data() {
    QTest::addColumn<bool>("dark");
    QTest::addColumn<bool>("close");
    QTest::newRow("heatmap_light") << false << false;
    QTest::newRow("heatmap_dark") << true << false;
    QTest::newRow("heatmap_detail_light") << false << true;
    QTest::newRow("heatmap_detail_dark") << true << true;
  }
  void pictures() {
    QFETCH(bool, dark);
    QFETCH(bool, close);
    Theme::apply(testing::pictureTheme(dark));
    Bench b(close ? QSize(1264, 690) : QSize(746, 500));
    const int64_t key = b.run->info().span("key")->begin;
    if (close) b.view.setTokenRange({key - 22, key + 42}), b.view.setRowRange({0, 38});
    const QImage image = b.grab().convertToFormat(QImage::Format_RGB32);
    const QString name = QString::fromLatin1(QTest::currentDataTag());
    testing::keepPicture(image, name);
    Theme::apply(testing::pictureTheme());
    testing::comparePicture(image,
                            QStringLiteral(SLOTSCOPE_SOURCE_DIR "/tests/views/pictures/%1.png").arg(name));
  }
};

SLOTSCOPE_VIEW_TEST(TestHeatmap)
#include "test_heatmap.moc"
