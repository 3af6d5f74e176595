// Heads navigator (design: section 8) and timeline (section 7).
#include <QListWidget>
#include <QMenu>
#include <QPainter>
#include <cmath>

#include "tests/views/demo.h"
#include "tests/views/view_test.h"
#include "views/heads_grid.h"
#include "views/timeline_view.h"

using namespace slotscope;
using namespace slotscope::views;

namespace {

struct Heads {
  SelectionModel selection;
  std::shared_ptr<const RunData> run;
  HeadsView view{&selection};
  explicit Heads(std::shared_ptr<const RunData> r = testing::demoRunData(), QSize size = {230, 370})
      : run(std::move(r)) {
    const auto& s = run->summary;
    selection.setLimits(1, s.layers, s.heads, 64, run->info().tokens);
    selection.request(
        {.layer = s.first.layer, .head = s.first.head, .slot = s.first.slot, .token = s.first.token});
    view.resize(size);
    view.setRun(run);
    view.show();
    QApplication::processEvents();
  }
  HeadsGrid* grid() { return view.findChild<HeadsGrid*>(); }
  QListWidget* ranks() { return view.findChild<QListWidget*>(); }
  QPoint cell(int layer, int head) { return grid()->geometry().cell(layer, head).center().toPoint(); }
  void send(QEvent::Type type, QPoint at, Qt::MouseButton button, Qt::KeyboardModifiers keys = {}) {
    QMouseEvent event(type, at, grid()->mapToGlobal(QPointF(at)), button, button, keys);
    QApplication::sendEvent(grid(), &event);
  }
};

// A run of the given shape; heads of layer 1 were not captured.
std::shared_ptr<const RunData> wideRun(int layers, int heads) {
  auto data = std::make_shared<RunData>(*testing::demoRunData());
  const auto line = data->summary.head_list[12];
  data->summary.layers = layers, data->summary.heads = heads;
  data->summary.head_list.clear();
  data->summary.by_score.clear();
  for (int l = 0; l < layers; ++l)
    for (int h = 0; h < heads; ++h) {
      auto copy = line;
      copy.layer = l, copy.head = h, copy.has_routes = l != 1;
      if (l == 1) copy.why = "not captured: run again with layer 1";
      copy.allocation.head_score = double((l * 7 + h * 3) % 11) / 11;
      data->summary.head_list.push_back(copy);
    }
  data->summary.first = {};
  return data;
}

struct Line {
  SelectionModel selection;
  std::shared_ptr<const RunData> run = testing::demoRunData();
  std::shared_ptr<const analysis::HeadData> head = testing::demoHead(run->info());
  TimelineView view{&selection};
  Line() {
    selection.setLimits(1, 4, 4, 64, run->info().tokens);
    selection.request({.token = 100});
    view.resize(746, 52);
    view.setRun(run);
    view.setHead(head);
    view.show();
    QApplication::processEvents();
  }
  void send(QEvent::Type type, QPointF at, Qt::MouseButton button = Qt::LeftButton,
            Qt::KeyboardModifiers keys = {}) {
    const Qt::MouseButtons held =
        type == QEvent::MouseButtonRelease ? Qt::MouseButtons() : Qt::MouseButtons(button);
    QMouseEvent event(type, at, view.mapToGlobal(at), type == QEvent::MouseMove ? Qt::NoButton : button, held,
                      keys);
    QApplication::sendEvent(&view, &event);
  }
  void drag(QPointF from, QPointF to, Qt::KeyboardModifiers keys = {}) {
    send(QEvent::MouseButtonPress, from, Qt::LeftButton, keys);
    send(QEvent::MouseMove, to, Qt::LeftButton, keys);
    send(QEvent::MouseButtonRelease, to, Qt::LeftButton, keys);
  }
  QPointF at(double token, double dy = 18) const { return {view.x(token + 0.5), view.track().top() + dy}; }
};

}  // namespace

class TestHeads : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void geometry() {
    // The panel of design/main-light-1280: 4 x 4 cells about 45 wide and 40 high.
    const auto g = HeadsGeometry::make(QRectF(0, 0, 230, 210), 4, 4, 1);
    QVERIFY(!g.squares);
    QVERIFY(g.cell_width >= 43 && g.cell_width <= 46);
    QVERIFY(g.cell_height >= 40 && g.cell_height <= 46);
    QCOMPARE(g.cell(2, 1).left() - g.cell(2, 0).right(), 6.0);
    QCOMPARE(HeadsGeometry::make(QRectF(0, 0, 320, 900), 4, 4, 1).cell_height, 72.0);
    const auto fine = HeadsGeometry::make(QRectF(0, 0, 230, 210), 24, 16, 1);
    QVERIFY(fine.squares);
    QVERIFY(fine.cell_width >= 10);
    QCOMPARE(fine.cell_width, fine.cell_height);
    const auto many = HeadsGeometry::make(QRectF(0, 0, 230, 210), 4, 64, 1);
    QCOMPARE(many.cell_width, 10.0);  // scrolls instead of shrinking further
    QVERIFY(many.contentSize().width() > 230);
  }

  void rankedByScore() {
    Heads h;
    const auto& list = h.run->summary.head_list;
    for (size_t i = 1; i < h.view.ranking().size(); ++i) {
      const double a = h.view.scoreOf(h.view.ranking()[i - 1]), b = h.view.scoreOf(h.view.ranking()[i]);
      QVERIFY(std::isnan(b) || a >= b);
    }
    QCOMPARE(h.ranks()->count(), 16);
    const auto& best = list[size_t(h.view.ranking().front())];
    QCOMPARE(h.ranks()->item(0)->text(), QStringLiteral("L%1·H%2").arg(best.layer).arg(best.head));
    h.view.setScore(HeadsView::Score::gini);
    QVERIFY(list[size_t(h.view.ranking().front())].statistics.gini >=
            list[size_t(h.view.ranking().back())].statistics.gini);
    // A click in the list selects.
    h.ranks()->setCurrentRow(5);
    const auto& sixth = list[size_t(h.view.ranking()[5])];
    QCOMPARE(h.selection.current().layer, sixth.layer);
    QCOMPARE(h.selection.current().head, sixth.head);
    // A selection made elsewhere moves the list, and asks for nothing.
    QSignalSpy spy(&h.selection, &SelectionModel::changed);
    h.selection.request({.layer = 2, .head = 1});
    QCOMPARE(spy.count(), 1);
    QCOMPARE(h.ranks()->currentItem()->text(), QStringLiteral("L2·H1"));
  }

  void clicking() {
    Heads h;
    h.send(QEvent::MouseButtonPress, h.cell(1, 2), Qt::LeftButton);
    QCOMPARE(h.selection.current().layer, 1);
    QCOMPARE(h.selection.current().head, 2);
    for (int l = 0; l < 4; ++l)
      for (int k = 0; k < 4; ++k) QCOMPARE(h.grid()->positionAt(h.cell(l, k)), l * 4 + k);
    QCOMPARE(h.grid()->positionAt({2, 2}), -1);
    QSignalSpy kept(&h.view, &HeadsView::keptChanged), pinned(&h.view, &HeadsView::pinnedHeatmapRequested);
    h.send(QEvent::MouseButtonPress, h.cell(0, 3), Qt::LeftButton, Qt::ControlModifier);
    QCOMPARE(h.view.kept(), QSet<int>{3});
    QCOMPARE(h.selection.current().layer, 1);  // keeping does not select
    h.send(QEvent::MouseButtonPress, h.cell(0, 3), Qt::LeftButton, Qt::ControlModifier);
    QVERIFY(h.view.kept().isEmpty());
    QCOMPARE(kept.count(), 2);
    h.send(QEvent::MouseButtonDblClick, h.cell(2, 3), Qt::LeftButton);
    QCOMPARE(pinned.count(), 1);
    QCOMPARE(pinned[0][0].toInt(), 2);
    QCOMPARE(pinned[0][1].toInt(), 3);
    QSignalSpy preview(&h.view, &HeadsView::headPreview);
    h.send(QEvent::MouseMove, h.cell(0, 0), Qt::NoButton);
    QVERIFY(preview.isEmpty());  // after 150 ms only
    QTRY_COMPARE_WITH_TIMEOUT(preview.count(), 1, 1000);
  }

  void keyboard() {
    Heads h;
    h.selection.request({.layer = 1, .head = 1});
    QTest::keyClick(h.grid(), Qt::Key_Right);
    QCOMPARE(h.selection.current().head, 2);
    QTest::keyClick(h.grid(), Qt::Key_Down);
    QCOMPARE(h.selection.current().layer, 2);
    QTest::keyClick(h.grid(), Qt::Key_Left);
    QTest::keyClick(h.grid(), Qt::Key_Up);
    QCOMPARE(h.selection.current().head, 1);
    QCOMPARE(h.selection.current().layer, 1);
    const auto& list = h.run->summary.head_list;
    QTest::keyClick(h.grid(), Qt::Key_B);
    const auto& best = list[size_t(h.view.ranking()[0])];
    QCOMPARE(h.selection.current().layer * 4 + h.selection.current().head, best.layer * 4 + best.head);
    QTest::keyClick(h.grid(), Qt::Key_B);
    const auto& second = list[size_t(h.view.ranking()[1])];
    QCOMPARE(h.selection.current().layer * 4 + h.selection.current().head, second.layer * 4 + second.head);
  }

  void choices() {
    Heads h;
    QCOMPARE(h.view.choiceText(), QStringLiteral("allocation"));
    QSignalSpy spy(&h.view, &HeadsView::choiceTextChanged);
    h.view.setPicture(HeadsView::Picture::entropy);
    QCOMPARE(spy.count(), 1);
    QStringList enabled;
    for (QAction* a : h.view.choiceMenu()->actions())
      if (a->isEnabled() && !a->isSeparator()) enabled << a->text();
    QVERIFY(enabled.contains(QStringLiteral("ESL curve")) && enabled.contains(QStringLiteral("Gini of ESL")));
    QVERIFY(!enabled.contains(QStringLiteral("difference A − B")));
    // One number per head lies in 0..1 of the map.
    for (const auto picture : {HeadsView::Picture::mean_strength, HeadsView::Picture::entropy,
                               HeadsView::Picture::read_mass_on_key})
      for (const auto& head : h.run->summary.head_list) {
        const HeadNumber n = headNumber(h.run->summary, head, picture);
        QVERIFY(std::isnan(n.place) || (n.place >= 0 && n.place <= 1));
      }
  }

  void whatIsDrawn() {
    Heads h;
    const QImage image = h.view.grab().toImage();
    const auto g = h.grid()->geometry();
    const Theme theme = Theme::light();
    // Layer 3 head 0: the strip begins in full retrieval colour, its share is 10 of 64 slots.
    const QRectF c = g.cell(3, 0);
    const QPoint origin = h.grid()->mapTo(&h.view, QPoint(0, 0));
    const auto pixel = [&](double x, double y) { return image.pixelColor(origin + QPoint(int(x), int(y))); };
    QCOMPARE(pixel(c.left() + 3, c.top() + 10), theme.retrieval);
    QVERIFY(pixel(c.left() + c.width() * 14 / 64, c.top() + 10) != theme.retrieval);
    QCOMPARE(pixel(c.right() - 4, c.top() + 10), theme.surface);  // empty slots
    // The score bar's length is the score.
    const double score = h.run->summary.head_list[12].allocation.head_score;
    int red = 0;
    for (int x = 0; x < int(c.width()); ++x) red += pixel(c.left() + x, c.bottom() - 3) == theme.retrieval;
    QVERIFY2(std::abs(red - score * c.width()) <= 2.5, qPrintable(QString::number(red)));
    // Ring outside of the selected cell.
    QCOMPARE(pixel(c.center().x(), c.top() - 2), theme.selection);
    QCOMPARE(pixel(g.cell(3, 1).center().x(), g.cell(3, 1).top() - 2), theme.surface);
  }

  void fineGridsAndMissingHeads() {
    Heads h(wideRun(24, 16), {230, 500});
    QVERIFY(h.grid()->geometry().squares);
    const QImage image = h.view.grab().toImage();
    testing::keepPicture(image, QStringLiteral("heads_24x16"));
    QVERIFY(std::isnan(h.view.scoreOf(16)));  // layer 1 was not captured
    QVERIFY(std::isnan(h.view.scoreOf(h.view.ranking().back())));
    Heads small(wideRun(4, 4));
    const QImage hatched = small.view.grab().toImage();
    testing::keepPicture(hatched, QStringLiteral("heads_hatched"));
    const QRectF c = small.grid()->geometry().cell(1, 1);
    const QPoint origin = small.grid()->mapTo(&small.view, QPoint(0, 0));
    int line = 0, other = 0;
    for (int x = 2; x < int(c.width()) - 2; ++x)
      for (int y = 2; y < int(c.height()) - 2; ++y) {
        const QColor p = hatched.pixelColor(origin + QPoint(int(c.left()) + x, int(c.top()) + y));
        line += p == Theme::light().line, other += p != Theme::light().line && p != Theme::light().surface;
      }
    QVERIFY(line > 100);
    QCOMPARE(other, 0);
  }

  void emptyAndFigure() {
    SelectionModel selection;
    HeadsView view(&selection);
    view.resize(230, 300);
    view.show();
    QVERIFY(!view.grab().isNull());
    QTest::keyClick(&view, Qt::Key_B);
    Heads h;
    QImage figure(h.view.figureSize().toSize(), QImage::Format_RGB32);
    QPainter p(&figure);
    h.view.paintFigure(p, figure.rect(), Theme::light(), {});
    p.end();
    testing::keepPicture(figure, QStringLiteral("heads_figure"));
    int red = 0;
    for (int y = 0; y < figure.height(); ++y)
      for (int x = 0; x < figure.width(); ++x) red += figure.pixelColor(x, y) == Theme::light().retrieval;
    QVERIFY(red > 200);
    QCOMPARE(h.view.csv().split(QLatin1Char('\n'), Qt::SkipEmptyParts).size(), 2 + 16);
  }

  // --- timeline ---

  void totals() {
    Line l;
    const auto& r = l.head->routes;
    for (int64_t t = 0; t < 520; ++t) {
      double sum = 0;
      for (int k = 0; k < r.top_k; ++k) sum += r.strength[size_t(t * r.top_k + k)];
      QVERIFY(std::abs(l.view.values()[size_t(t)] - sum) <= 1e-12);
    }
    for (int64_t t = 0; t < 520; t += 13) QCOMPARE(l.view.tokenAt(l.view.x(double(t) + 0.5)), qint64(t));
  }

  void timelineMouse() {
    Line l;
    l.send(QEvent::MouseButtonPress, l.at(300)), l.send(QEvent::MouseButtonRelease, l.at(300));
    QCOMPARE(l.selection.current().token, qint64(300));
    l.selection.setTokenRange(100, 200);
    l.drag(l.at(150), l.at(200));  // the frame moves with the drag
    QCOMPARE(l.selection.tokenRange().second - l.selection.tokenRange().first, qint64(100));
    QVERIFY(std::abs(l.selection.tokenRange().first - 150) <= 1);
    QCOMPARE(l.selection.current().token, qint64(300));
    const auto before = l.selection.tokenRange();
    l.drag({l.view.x(double(before.second)), l.view.track().top() + 18},
           {l.view.x(double(before.second) + 40), l.view.track().top() + 18});
    QCOMPARE(l.selection.tokenRange().first, before.first);
    QVERIFY(std::abs(l.selection.tokenRange().second - before.second - 40) <= 1);
    l.drag(l.at(20), l.at(30), Qt::ShiftModifier);
    QVERIFY(l.selection.brush());
    QCOMPARE(*l.selection.brush(), (std::pair<qint64, qint64>(20, 31)));
    l.send(QEvent::MouseButtonDblClick, l.at(400));
    QCOMPARE(l.selection.tokenRange(), (std::pair<qint64, qint64>(0, 520)));
    // The knob.
    l.drag({l.view.x(300.5), l.view.track().top() - 1}, {l.view.x(310.5), l.view.track().top() - 1});
    QCOMPARE(l.selection.current().token, qint64(310));
  }

  void playing() {
    Line l;
    QCOMPARE(l.view.tokensPerSecond(), 8);
    for (int expected : {30, 120, 1, 4, 8}) {
      l.view.nextSpeed();
      QCOMPARE(l.view.tokensPerSecond(), expected);
    }
    l.view.nextSpeed(), l.view.nextSpeed();
    QTest::keyClick(&l.view, Qt::Key_Space);
    QVERIFY(l.view.playing());
    QTRY_VERIFY_WITH_TIMEOUT(l.selection.current().token >= 108, 3000);
    QTest::keyClick(&l.view, Qt::Key_Space);
    QVERIFY(!l.view.playing());
    l.selection.request({.token = 517});
    l.view.setPlaying(true);
    QTRY_VERIFY_WITH_TIMEOUT(!l.view.playing(), 3000);  // stops at the end
    QCOMPARE(l.selection.current().token, qint64(519));
  }

  void timelinePicture() {
    Line l;
    const QImage image = l.view.grab().toImage();
    const Theme theme = Theme::light();
    const QRectF r = l.view.track();
    // Playhead in selection colour, the key's writes in retrieval red above the others.
    QCOMPARE(image.pixelColor(int(l.view.x(100.5)), int(r.center().y())), theme.selection);
    const auto* key = l.run->info().span("key");
    int red = 0;
    for (int y = int(r.top()); y < int(r.bottom()); ++y)
      red += image.pixelColor(int(l.view.x(double(key->begin) + 3)), y) == theme.retrieval;
    QVERIFY(red > 18);
  }

  void pictures_data() {
    QTest::addColumn<bool>("dark");
    QTest::newRow("heads_light") << false;
    QTest::newRow("heads_dark") << true;
  }
  void pictures() {
    QFETCH(bool, dark);
    Theme::apply(testing::pictureTheme(dark));
    Heads h;
    const QImage image = h.view.grab().toImage().convertToFormat(QImage::Format_RGB32);
    const QString name = QString::fromLatin1(QTest::currentDataTag());
    testing::keepPicture(image, name);
    Theme::apply(testing::pictureTheme());
    testing::comparePicture(image,
                            QStringLiteral(SLOTSCOPE_SOURCE_DIR "/tests/views/pictures/%1.png").arg(name));
  }
};

SLOTSCOPE_VIEW_TEST(TestHeads)
#include "test_heads.moc"
