// The window in its states: sizes of the design at 1280x800, nothing cut off, something drawn everywhere.
// With SLOTSCOPE_PICTURES set to a folder, every state is saved there as a PNG, to be looked at beside the
// design.
#include <QDockWidget>
#include <QLabel>

#include "app/window/banner.h"
#include "app/window/docks.h"
#include "app/window/locations.h"
#include "app/window/selection_bar.h"
#include "app/window/side_panels.h"
#include "app/window/status_line.h"
#include "tests/app/window_test.h"

using namespace slotscope;
using namespace slotscope::app;
using namespace slotscope::testing;

class TestPictures : public QObject {
  Q_OBJECT
  Scratch scratch_;
  QString trace_;

  static void save(QWidget& window, const QString& name) {
    const QString folder = qEnvironmentVariable("SLOTSCOPE_PICTURES");
    if (!folder.isEmpty()) window.grab().save(folder + "/" + name + ".png");
  }
  std::unique_ptr<MainWindow> make(QSize size, ThemeChoice theme = ThemeChoice::light,
                                   const QString& open = {}) {
    auto window = std::make_unique<MainWindow>();
    window->setThemeChoice(theme);
    window->resize(size);
    window->restoreDefaultLayout();
    window->show();
    if (!open.isEmpty()) {
      window->openPath(open);
      waitFor([&] { return window->controller()->headData() || window->banners()->count(); });
    }
    settle(*window);
    QTest::qWait(200);  // pictures that are drawn a moment later
    settle(*window);
    return window;
  }
  static QRect place(MainWindow& w, QWidget* part) {
    return QRect(part->mapTo(&w, QPoint(0, 0)), part->size());
  }

 private Q_SLOTS:
  void initTestCase() {
    useVolatileSettings();
    trace_ = passkeyTrace(scratch_);
    QVERIFY(!trace_.isEmpty());
  }

  void sizesOfTheDesign() {
    auto w = make({1280, 800}, ThemeChoice::light, trace_);
    save(*w, "light-1280");
    const std::pair<const char*, QRect> expected[] = {{"panel.run", {6, 74, 232, 319}},
                                                      {"panel.heads", {6, 399, 232, 371}},
                                                      {"panel.inspector", {998, 74, 276, 508}},
                                                      {"panel.output", {998, 588, 276, 182}},
                                                      {"panel.prompt", {244, 612, 748, 158}}};
    for (const auto& [id, rect] : expected) {
      const QRect found = place(*w, w->panels()->find(id));
      const QString text = QString("%1: %2,%3 %4x%5")
                               .arg(id)
                               .arg(found.x())
                               .arg(found.y())
                               .arg(found.width())
                               .arg(found.height());
      QVERIFY2(std::abs(found.x() - rect.x()) <= 2 && std::abs(found.y() - rect.y()) <= 2 &&
                   std::abs(found.width() - rect.width()) <= 2 &&
                   std::abs(found.height() - rect.height()) <= 4,
               qPrintable(text));
    }
    QCOMPARE(w->bar()->height(), 42);
    QCOMPARE(w->status()->height(), 24);
    QCOMPARE(place(*w, w->bar()).y(), 26);
    for (const auto& [chip, width] : {std::pair<QWidget*, int>{w->bar()->model(), 146},
                                      {w->bar()->prompt(), 148},
                                      {w->bar()->layer, 98},
                                      {w->bar()->head, 96},
                                      {w->bar()->slot, 98},
                                      {w->bar()->token, 142}}) {
      QCOMPARE(chip->width(), width);
      QCOMPARE(chip->height(), 28);
    }
  }

  void states_data() {
    QTest::addColumn<QSize>("size");
    QTest::addColumn<int>("theme");
    for (const QSize size : {QSize(1280, 800), QSize(1280, 720), QSize(1100, 680), QSize(2560, 1440)})
      for (const ThemeChoice theme : {ThemeChoice::light, ThemeChoice::dark})
        QTest::newRow(qPrintable(QString("%1-%2x%3")
                                     .arg(theme == ThemeChoice::dark ? "dark" : "light")
                                     .arg(size.width())
                                     .arg(size.height())))
            << size << int(theme);
  }
  void states() {
    QFETCH(QSize, size);
    QFETCH(int, theme);
    auto w = make(size, ThemeChoice(theme), trace_);
    save(*w, QTest::currentDataTag());
    // Every view that is visible has drawn more than its background.
    for (views::View* view : w->allViews()) {
      if (view->visibleRegion().isEmpty()) continue;
      const QImage image = view->grab().toImage();
      QSet<QRgb> colours;
      for (int y = 0; y < image.height(); y += 2)
        for (int x = 0; x < image.width(); x += 2) colours.insert(image.pixel(x, y));
      QVERIFY2(colours.size() > 8, qPrintable(view->figureKind()));
    }
    // Nothing of the bar or the panels reaches over the window's edge.
    const QRect inside = w->rect();
    for (QWidget* part :
         std::initializer_list<QWidget*>{w->bar()->run, w->bar()->figure, w->status(), w->panels()})
      QVERIFY(inside.contains(place(*w, part)));
    QVERIFY(place(*w, w->bar()->token).right() < place(*w, w->bar()->search).left());
    if (size.width() < 2000 && w->viewArea()->docks().size() == 4)
      for (const char* kind : {"esl", "esl-grid", "allocation"}) {
        w->viewArea()->find(QString("view.%1.1").arg(kind))->raise();
        QTest::qWait(100);
        save(*w, QString("%1-%2").arg(QTest::currentDataTag(), kind));
      }
  }

  void emptyWindow() {
    auto w = make({1280, 800});
    save(*w, "empty");
    QCOMPARE(w->bar()->layer->shownText(), QString("–"));
    QVERIFY(!w->controller()->runData());
  }

  void errorBanner() {
    auto w = make({1280, 800}, ThemeChoice::light, trace_);
    w->openPath("/nowhere/at/all/model");
    w->openPath("/nowhere/at/all/trace.h5");
    QVERIFY(waitFor([&] { return w->banners()->count() == 2; }));
    QTest::qWait(50);
    save(*w, "error");
  }

  void checkpointPanel() {
    auto w = make({1280, 800}, ThemeChoice::light, trace_);
    w->openPath(bundled());
    QVERIFY(waitFor([&] { return w->controller()->checkpoint() && w->controller()->settled(); }));
    w->showPanel("panel.checkpoint");
    QTest::qWait(100);
    save(*w, "checkpoint");
    w->showPanel("panel.log");
    QTest::qWait(50);
    save(*w, "log");
  }

  void duringARun() {
    auto w = make({1280, 800}, ThemeChoice::light, trace_);
    w->openPath(bundled());
    QVERIFY(waitFor([&] { return w->controller()->checkpoint() && w->controller()->settled(); }));
    RunSettings settings;
    settings.length = 60'000;
    w->controller()->run(settings);
    QVERIFY(waitFor([&] { return w->status()->jobText().contains("running"); }));
    w->showPanel("panel.jobs");
    QVERIFY(waitFor([&] {
      const Job* job = w->controller()->jobs()->visibleJob();
      return job && job->progress->snapshot().done > 0;
    }));
    QTest::qWait(50);
    save(*w, "running");
    QVERIFY(w->status()->jobText().contains("Run password"));
    w->controller()->cancelRun();
    QVERIFY(waitFor([&] { return !w->controller()->running() && w->controller()->settled(); }));
    QTest::qWait(50);
    save(*w, "cancelled");
    // The partial trace.
    w->controller()->jobs()->activate(w->controller()->jobs()->index(0));
    QVERIFY(waitFor([&] {
      return w->banners()->count() == 1 && w->controller()->settled() && w->controller()->headData();
    }));
    QTest::qWait(300);
    save(*w, "partial");
  }

  void oneToken() {
    auto w = make({1280, 800});
    w->openPath(bundled());
    QVERIFY(waitFor([&] { return w->controller()->checkpoint() && w->controller()->settled(); }));
    RunSettings settings;
    settings.mode = RunSettings::Mode::ids;
    settings.ids = "256";
    settings.generate = 0;
    w->runPanel()->setSettings(settings);
    w->controller()->run(settings);
    QVERIFY(waitFor([&] { return w->controller()->headData() && w->controller()->settled(); }));
    QTest::qWait(300);
    save(*w, "one-token");
    QCOMPARE(w->bar()->token->value(), qint64(0));
  }

  void largeText() {
    auto w = make({1600, 1000}, ThemeChoice::light, trace_);
    w->setTextScale(1.5);
    w->restoreDefaultLayout();
    QTest::qWait(200);
    save(*w, "large-text");
    w->setTextScale(1);
  }

  void longNames() {
    QTemporaryDir folder;
    const QString name = folder.filePath("raven-passkey-with-a-very-long-name-of-an-experiment-2026-11-30");
    QVERIFY(QFile::link(bundled(), name));
    auto w = make({1280, 800});
    w->openPath(name);
    QVERIFY(waitFor([&] { return w->controller()->checkpoint() && w->controller()->settled(); }));
    QTest::qWait(100);
    save(*w, "long-name");
    QVERIFY(w->bar()->model()->width() == 146);
  }
};

QTEST_MAIN(TestPictures)
#include "test_pictures.moc"
