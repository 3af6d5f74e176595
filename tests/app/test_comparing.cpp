// The window with a second trace: Ctrl+D and back, opening, what goes wrong, runs of the session.
#include <QDockWidget>
#include <QDropEvent>
#include <QMenu>
#include <QMenuBar>
#include <QMimeData>

#include "app/window/banner.h"
#include "app/window/docks.h"
#include "app/window/locations.h"
#include "app/window/second_trace.h"
#include "app/window/selection_bar.h"
#include "app/window/side_panels.h"
#include "tests/app/window_test.h"
#include "views/compare_model.h"
#include "views/compare_view.h"
#include "views/differences_view.h"

using namespace slotscope;
using namespace slotscope::app;
using namespace slotscope::testing;

class TestComparing : public QObject {
  Q_OBJECT
  Scratch scratch_;
  QString trace_, other_;

  std::unique_ptr<MainWindow> make(QSize size = {1280, 800}) {
    auto window = std::make_unique<MainWindow>();
    window->resize(size);
    window->restoreDefaultLayout();
    window->show();
    window->openPath(trace_);
    waitFor([&] { return window->controller()->headData() != nullptr; });
    settle(*window);
    return window;
  }
  static views::CompareView* view(MainWindow& w) { return qobject_cast<views::CompareView*>(w.findView("compare")); }
  static bool seen(MainWindow& w, const char* panel) { return w.panels()->find(panel)->isVisible(); }

 private Q_SLOTS:
  void initTestCase() {
    useVolatileSettings();
    trace_ = passkeyTrace(scratch_);
    other_ = passkeyTrace(scratch_, 256);
    QVERIFY(!trace_.isEmpty() && !other_.isEmpty());
  }

  void thereAndBack() {
    auto w = make();
    QVERIFY(!w->comparing() && !seen(*w, "panel.differences") && seen(*w, "panel.run"));
    const int views = int(w->viewArea()->docks().size());
    w->bar()->compare->click();
    settle(*w);
    QVERIFY(w->comparing());
    QVERIFY(w->bar()->compare->isChecked());
    QVERIFY(view(*w) && view(*w)->isVisible());
    QVERIFY(seen(*w, "panel.differences"));
    QVERIFY(!seen(*w, "panel.run") && !seen(*w, "panel.prompt"));  // both maps need the width
    QVERIFY(view(*w)->width() > 900);
    // A is there already, B says what to do.
    QVERIFY(w->compareModel()->a().head == w->controller()->headData());
    QVERIFY(!w->compareModel()->b().run);
    w->bar()->compare->click();
    settle(*w);
    QVERIFY(!w->comparing() && !w->bar()->compare->isChecked());
    QVERIFY(seen(*w, "panel.run") && seen(*w, "panel.prompt") && !seen(*w, "panel.differences"));
    QCOMPARE(int(w->viewArea()->docks().size()), views);
    // Closing its tab is the same.
    w->setComparing(true);
    settle(*w);
    for (Dock* d : w->viewArea()->docks())
      if (d->body() == view(*w)) {
        d->close();
        break;
      }
    QVERIFY(waitFor([&] { return seen(*w, "panel.run"); }, 5000));
    QVERIFY(!w->comparing() && !w->bar()->compare->isChecked());
  }

  void opensASecondTrace() {
    auto w = make();
    const views::Selection before = w->selection()->current();
    w->compareWith(trace_);
    QVERIFY(waitFor([&] { return w->compareModel()->b().head != nullptr; }));
    settle(*w);
    const auto& b = w->compareModel()->b();
    QVERIFY(w->compareModel()->tokens().same_tokens);
    // The same file: the same head first, the same numbers.
    QCOMPARE(b.head->layer, w->controller()->headData()->layer);
    QCOMPARE(b.head->head, w->controller()->headData()->head);
    QCOMPARE(w->compareModel()->a().key.at_query, b.key.at_query);
    QVERIFY(b.key.at_query > 0 && b.key.at_query <= 1);
    // At the query the curve is the summary's own number.
    const auto& first = b.run->summary.first;
    for (const auto& head : b.run->summary.head_list)
      if (head.layer == first.layer && head.head == first.head) QVERIFY(std::abs(head.key_survival - b.key.at_query) <= 1e-12);
    QVERIFY(w->selection()->current() == before);  // opening B moves nothing in A
    // Another head of B, by its own picker; A stays.
    w->compareModel()->chooseOther(0, 1);
    QVERIFY(waitFor([&] { return w->compareModel()->b().head && w->compareModel()->b().head->layer == 0; }));
    QCOMPARE(w->compareModel()->b().head->head, 1);
    QVERIFY(w->selection()->current() == before);
    // Another head of A: B keeps its own.
    w->selection()->request({.layer = 1, .head = 2});
    settle(*w);
    QCOMPARE(w->compareModel()->a().head->layer, 1);
    QCOMPARE(w->compareModel()->b().head->layer, 0);
    w->compareModel()->sameIndex();
    QVERIFY(waitFor([&] { return w->compareModel()->b().head && w->compareModel()->b().head->layer == 1; }));
    // Then another prompt as B.
    w->compareWith(other_);
    QVERIFY(waitFor([&] { return w->compareModel()->b().run && w->compareModel()->b().run->info().prompt_tokens == 256; }));
    settle(*w);
    QVERIFY(!w->compareModel()->tokens().same_tokens);
    QVERIFY(view(*w)->bannerText().contains("linked by character offset"));
    w->secondTrace()->close();
    QVERIFY(!w->compareModel()->b().run);
  }

  // What goes wrong with B is said, and A goes on.
  void aSecondTraceThatIsNone() {
    auto w = make();
    const int banners = w->banners()->count();
    w->compareWith(sourceFile("README.md"));
    QVERIFY(waitFor([&] { return w->banners()->count() > banners; }));
    settle(*w);
    QVERIFY(!w->compareModel()->b().run);
    QCOMPARE(w->compareModel()->b().why, QString("The second trace could not be opened."));
    QVERIFY(w->compareModel()->a().head);
    w->compareWith("/nowhere/b.h5");
    settle(*w);
    QVERIFY(!w->compareModel()->b().run);
  }

  void dropOnTheComparison() {
    auto w = make();
    w->setComparing(true);
    settle(*w);
    QMimeData data;
    data.setUrls({QUrl::fromLocalFile(other_)});
    const QPoint at = view(*w)->mapTo(w.get(), view(*w)->rect().center());
    QDragEnterEvent enter(at, Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(w.get(), &enter);
    QDropEvent drop(at, Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(w.get(), &drop);
    QVERIFY2(waitFor([&] { return w->compareModel()->b().head != nullptr; }, 20'000), qPrintable(w->compareModel()->b().why + w->log()->text()));
    QCOMPARE(w->compareModel()->b().run->info().prompt_tokens, int64_t(256));
    QCOMPARE(w->controller()->runData()->info().prompt_tokens, int64_t(512));  // A is what it was
  }

  // Two models at once, quickly: the last one that was asked for stands.
  void hurried() {
    auto w = make();
    for (int i = 0; i < 4; ++i) w->compareWith(i % 2 ? trace_ : other_);
    settle(*w);
    QVERIFY(waitFor([&] { return w->compareModel()->b().head != nullptr; }));
    QCOMPARE(w->compareModel()->b().run->info().prompt_tokens, int64_t(512));
    for (int i = 0; i < 8; ++i) w->compareModel()->chooseOther(i % 4, i % 3);
    QVERIFY(waitFor([&] { return w->compareModel()->b().head && w->compareModel()->b().head->layer == 3; }));
    settle(*w);
    QCOMPARE(w->compareModel()->b().head->head, 7 % 3);
    w->compareWith(other_);  // and the window closes while it reads
  }
};

QTEST_MAIN(TestComparing)
#include "test_comparing.moc"
