// Routing-slot card, its formulas, and the router raster: texts, numbers, geometry, pixels, CSV.
#include <QSignalSpy>
#include <cmath>

#include "tests/views/demo.h"
#include "tests/views/view_test.h"
#include "views/math_text.h"
#include "views/memory_card_view.h"
#include "views/raster_view.h"

using namespace slotscope;
using namespace slotscope::views;

namespace {

struct OpenRaster : RasterView {
  using RasterView::accessibleText;
  using RasterView::emptyText;
  using RasterView::RasterView;
  using RasterView::tipAt;
};
struct OpenCard : MemoryCardView {
  using MemoryCardView::accessibleText;
  using MemoryCardView::contentHeight;
  using MemoryCardView::emptyText;
  using MemoryCardView::MemoryCardView;
};

MemoryCardRow row(const QString& layers, int n, const QString& kind, qint64 heads, qint64 slots, qint64 top_k, qint64 bytes) {
  MemoryCardRow r;
  r.layers = layers, r.layer_count = n, r.mixer = kind == QStringLiteral("sparse") ? QStringLiteral("raven") : QStringLiteral("attention");
  r.route_kind = kind;
  r.router = {QStringLiteral("r_t = norm(top_{8}(σ(W_r x_t)))"), QStringLiteral("top-8 of 64, sigmoid")};
  r.content = {QStringLiteral("(k_t, v_t)"), QStringLiteral("k, v")};
  r.decay = {QStringLiteral("S_t[i] = exp(a_t r_t[i]) S_{t−1}[i] + (1 − exp(a_t r_t[i])) (k_t, v_t)"), QStringLiteral("scalar per head x route")};
  r.readout = {QStringLiteral("o_t = softmax(q_t K_t^⊤) V_t"), QStringLiteral("softmax over all slots")};
  r.heads = r.route_heads = heads, r.slots = slots, r.top_k = top_k, r.d_k = r.d_v = 32, r.state_bytes = bytes;
  return r;
}

MemoryCardData raven() {
  return {QStringLiteral("raven-passkey"), QStringLiteral("raven · 4 layers · 1 000 000 parameters"),
          {row(QStringLiteral("0–3"), 4, QStringLiteral("sparse"), 4, 64, 8, 65536)}};
}

QStringList dataLines(const QString& csv) {
  QStringList lines;
  for (const auto& line : csv.split(QLatin1Char('\n'), Qt::SkipEmptyParts))
    if (!line.startsWith(QLatin1Char('#'))) lines << line;
  return lines;
}

}  // namespace

class TestCard : public QObject {
  Q_OBJECT
  std::shared_ptr<const RunData> run_ = testing::demoRunData();
  std::shared_ptr<const analysis::HeadData> head_ = testing::demoHead(run_->info(), 3, 0);

 private Q_SLOTS:
  void formulas() {
    QCOMPARE(mathHtml("r_t[i]"), QStringLiteral("<i>r</i><sub><i>t</i></sub>[<i>i</i>]"));
    QCOMPARE(mathHtml("S_{t-1} exp(a)"), QStringLiteral("<i>S</i><sub><i>t</i>-1</sub> exp(<i>a</i>)"));
    QCOMPARE(mathHtml("2^{-5-h}"), QStringLiteral("2<sup>-5-<i>h</i></sup>"));
    QCOMPARE(mathHtml("a<b & c"), QStringLiteral("<i>a</i>&lt;<i>b</i> &amp; <i>c</i>"));
    QCOMPARE(mathHtml("x_{a_b"), QStringLiteral("<i>x</i><sub><i>a</i><sub><i>b</i></sub></sub>"));
    QCOMPARE(mathHtml("x_"), QStringLiteral("<i>x</i>_"));
    QCOMPARE(mathPlain("σ(f_t)^{1/τ} S_{t}"), QStringLiteral("σ(f_t)^(1/τ) S_t"));
    QString deep;
    for (int i = 0; i < 100'000; ++i) deep += QStringLiteral("_{");
    QVERIFY(!mathHtml(deep).isEmpty());  // neither slow nor deep
  }

  void raisedAndLoweredTextIsDrawn() {
    QImage image(300, 60, QImage::Format_RGB32);
    image.fill(Qt::white);
    QPainter painter(&image);
    const QFont font = Theme::current().ui;
    const double one = paintRichText(&painter, {0, 0, 300, 60}, mathHtml("x_t^{2}"), font, Qt::black);
    QVERIFY(one > 10 && one < 40);
    QVERIFY(paintRichText(nullptr, {0, 0, 40, 60}, mathHtml("alpha beta gamma delta"), font, Qt::black) > 1.5 * one);
    int dark = 0;
    for (int y = 0; y < 60; ++y)
      for (int x = 0; x < 300; ++x) dark += qGray(image.pixel(x, y)) < 100;
    QVERIFY(dark > 20);
  }

  void stateSizes() {
    OpenCard view;
    QCOMPARE(view.emptyText(), QStringLiteral("No checkpoint is open."));
    view.setCard(raven());
    QCOMPARE(view.stateText().replace(QChar(0xA0), QLatin1Char(' ')), QStringLiteral("262 kB for one prompt, however long"));
    auto mixed = raven();
    mixed.rows.push_back(row(QStringLiteral("4"), 1, QStringLiteral("append"), 4, 0, 1, 1000));
    view.setCard(mixed);
    QCOMPARE(view.stateText().replace(QChar(0xA0), QLatin1Char(' ')), QStringLiteral("262 kB for one prompt and 1 kB for each token: 131 MB after 131 072"));
    view.setCard({QStringLiteral("llama"), {}, {row(QStringLiteral("0, 2"), 2, QStringLiteral("append"), 4, 0, 1, 1000)}});
    QCOMPARE(view.stateText().replace(QChar(0xA0), QLatin1Char(' ')), QStringLiteral("2 kB for each token: 262 MB after 131 072"));
    view.setCard({}, QStringLiteral("This checkpoint cannot be run: because"));
    QCOMPARE(view.emptyText(), QStringLiteral("This checkpoint cannot be run: because"));
  }

  void cardOnScreenAndInFigures() {
    OpenCard view;
    auto mixed = raven();
    mixed.rows.push_back(row(QStringLiteral("4–7"), 4, QStringLiteral("ring"), 2, 32, 1, 4096));
    mixed.rows.push_back(row(QStringLiteral("8"), 1, QStringLiteral("append"), 4, 0, 1, 1000));
    view.setCard(mixed);
    view.resize(900, 560);
    view.show();
    QVERIFY(QTest::qWaitForWindowExposed(&view));
    testing::keepPicture(view.grab().toImage(), QStringLiteral("card"));
    QVERIFY(view.contentHeight(400) > view.contentHeight(900));  // cells wrap
    QVERIFY(view.accessibleText().contains(QStringLiteral("router top-8 of 64, sigmoid")));
    const QStringList lines = dataLines(view.csv());
    QCOMPARE(lines.size(), 4);
    QVERIFY(lines[1].startsWith(QStringLiteral("0–3,raven,sparse,")));
    QVERIFY(lines[1].endsWith(QStringLiteral(",4,4,64,8,32,32,65536,0")));
    QVERIFY(lines[2].endsWith(QStringLiteral(",2,2,32,1,32,32,4096,0")));
    QVERIFY(lines[3].endsWith(QStringLiteral(",4,4,0,1,32,32,1000,1")));
    QImage figure(view.figureSize().toSize(), QImage::Format_RGB32);
    QPainter painter(&figure);
    view.paintFigure(painter, QRectF(QPointF(0, 0), view.figureSize()), Theme::light(), {});
    testing::keepPicture(figure, QStringLiteral("card-figure"));
    QCOMPARE(figure.pixelColor(2, 2), Theme::light().surface);
  }

  void rasterShowsTheRoutes() {
    SelectionModel selection;
    OpenRaster view(&selection);
    QVERIFY(!view.emptyText().isEmpty());
    selection.setLimits(1, 4, 4, 64, run_->info().tokens);
    selection.request({.layer = 3, .head = 0, .slot = 5, .token = 150});
    view.resize(960, 420);
    view.setRun(run_);
    view.setHead(head_);
    view.show();
    QVERIFY(QTest::qWaitForWindowExposed(&view));
    QCOMPARE(view.panels().size(), size_t(3));
    QCOMPARE(view.window(), std::make_pair(int64_t(86), int64_t(214)));
    QCOMPARE(view.panels()[0].title, QStringLiteral("Dense"));
    QCOMPARE(view.panels()[2].title, QStringLiteral("FIFO"));
    QVERIFY(view.panels()[1].subtitle.startsWith(QStringLiteral("measured, ")));
    // CSV holds exactly the writes of the window.
    int64_t writes = 0;
    const auto& routes = head_->routes;
    for (int64_t token = 86; token < 214; ++token)
      for (int k = 0; k < routes.top_k; ++k) writes += routes.weight[size_t(token * routes.top_k + k)] != 0;
    int64_t measured = 0, fifo = 0, dense = 0;
    for (const QString& line : dataLines(view.csv())) {
      measured += line.contains(QStringLiteral(",measured,"));
      fifo += line.startsWith(QStringLiteral("FIFO,rule,"));
      dense += line.startsWith(QStringLiteral("Dense,rule,"));
    }
    QCOMPARE(measured, writes);
    QCOMPARE(fifo, int64_t(128));
    QCOMPARE(dense, int64_t(128) * 64);
    testing::keepPicture(view.grab().toImage(), QStringLiteral("raster"));
    // Pixels of the figure: each cell's middle has the colour of its mark.
    QImage figure(1500, 700, QImage::Format_RGB32);
    QPainter painter(&figure);
    FigureOptions plain;
    plain.caption = plain.legend = false;
    view.paintFigure(painter, QRectF(0, 0, 1500, 700), Theme::light(), plain);
    const auto plots = view.plotsFor(QRectF(0, 0, 1500, 700), Theme::light());
    const auto& r = view.panels()[1].raster;
    int checked = 0;
    for (int64_t c = 0; c < r.tokens(); c += 3)
      for (int slot = 0; slot < r.slots; slot += 2) {
        const QPointF at(plots[1].left() + (double(c) + 0.5) * plots[1].width() / double(r.tokens()),
                         plots[1].top() + (slot + 0.5) * plots[1].height() / r.slots);
        const bool red = run_->info().roles[size_t(r.first + c)] == 1;
        const QColor expected = r.at(slot, c) != analysis::Raster::written ? Theme::light().plot
                                : red                                      ? Theme::light().retrieval
                                                                           : Theme::light().text;
        QCOMPARE(figure.pixelColor(int(at.x()), int(at.y())), expected);
        ++checked;
      }
    QVERIFY(checked > 1000);
  }

  void rasterFollowsSelectionAndRange() {
    SelectionModel selection;
    OpenRaster view(&selection);
    selection.setLimits(1, 4, 4, 64, run_->info().tokens);
    selection.setTokenRange(0, 520);
    view.setRun(run_);
    view.setHead(head_);
    QCOMPARE(view.window(), std::make_pair(int64_t(0), int64_t(128)));
    selection.request({.token = 100});
    QCOMPARE(view.window().first, int64_t(0));  // still inside: the picture stays
    selection.request({.token = 519});
    QCOMPARE(view.window(), std::make_pair(int64_t(392), int64_t(520)));
    view.setTokens(0);
    QCOMPARE(view.window(), std::make_pair(int64_t(0), int64_t(520)));
    selection.setTokenRange(30, 60);
    QCOMPARE(view.window(), std::make_pair(int64_t(30), int64_t(60)));
    // A click selects the slot and the token under it.
    view.resize(960, 420);
    view.show();
    QVERIFY(QTest::qWaitForWindowExposed(&view));
    const QRectF content = view.contentRect();
    const QRectF plot = view.plotsFor(QRectF(QPointF(0, 0), content.size()), Theme::current())[1];
    QTest::mouseClick(&view, Qt::LeftButton, {}, (content.topLeft() + plot.topLeft() +
                      QPointF(10.5 * plot.width() / 30, 20.5 * plot.height() / 64)).toPoint());
    QCOMPARE(selection.current().token, qint64(40));
    QCOMPARE(selection.current().slot, 20);
    QVERIFY(view.tipAt(plot.center()).contains(QStringLiteral("token")));
  }

  void otherRoutersStandBeside() {
    SelectionModel selection;
    OpenRaster view(&selection);
    selection.setLimits(1, 4, 4, 64, run_->info().tokens);
    view.setRun(run_);
    view.setHead(head_);
    auto other = std::make_shared<RunData>(*run_);
    other->model_name = QStringLiteral("gsa");
    auto info = std::make_shared<trace::RunInfo>(run_->info());
    info->layers.clear();
    for (int i = 0; i < 4; ++i) info->layers.push_back({.index = i, .family = "gsa", .route_kind = "dense", .slots = 64, .top_k = 64});
    other->own_info = info;
    view.addBeside(other, head_);
    QCOMPARE(view.panels().size(), size_t(3));  // the dense reference gave way to a real one
    QVERIFY(view.panels()[1].title.startsWith(QStringLiteral("gsa · layer 3")));
    QCOMPARE(view.panels()[2].title, QStringLiteral("FIFO"));
    view.setRun(run_);
    view.setHead(head_);
    QCOMPARE(view.panels()[0].title, QStringLiteral("Dense"));
  }
};

SLOTSCOPE_VIEW_TEST(TestCard)
#include "test_card.moc"
