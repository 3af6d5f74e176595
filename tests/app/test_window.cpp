// The window end to end: the bundled checkpoint, selection, history, options, layouts, errors, drops.
#include <QBuffer>
#include <QClipboard>
#include <QDropEvent>
#include <QLineEdit>
#include <QMenuBar>
#include <QMimeData>
#include <QSettings>
#include <QSignalSpy>

#include "app/window/banner.h"
#include "app/window/checkpoint_panel.h"
#include "app/window/docks.h"
#include "app/window/locations.h"
#include "app/window/pin.h"
#include "app/window/selection_bar.h"
#include "app/window/side_panels.h"
#include "app/window/status_line.h"
#include "app/window/tensor_model.h"
#include "core/analysis/theory_result.h"
#include "tests/app/window_test.h"
#include "views/heatmap_view.h"
#include "views/theory_lab_view.h"

using namespace slotscope;
using namespace slotscope::app;
using namespace slotscope::testing;

class TestWindow : public QObject {
  Q_OBJECT
  Scratch scratch_;
  QString trace_;

  std::unique_ptr<MainWindow> openTrace() {
    auto window = std::make_unique<MainWindow>();
    window->resize(1280, 800);
    window->restoreDefaultLayout();
    window->show();
    window->openPath(trace_);
    if (!waitFor([&] { return window->controller()->headData() != nullptr; }) || !settle(*window))
      return nullptr;
    return window;
  }
  static void key(QWidget* w, Qt::Key k, Qt::KeyboardModifiers m = {}) { QTest::keyClick(w, k, m); }

 private Q_SLOTS:
  void initTestCase() {
    trace_ = passkeyTrace(scratch_);
    QVERIFY2(!trace_.isEmpty(), "the bundled checkpoint could not be run");
  }

  void resultsOpenInTheirLab() {
    const QString file = scratch_.file("theory.h5");
    const analysis::KernelInput input{6, {0.6, -0.2}, {0.5, 0.3}, 0.5, 3.25};
    trace::write_result(file.toStdString(), analysis::theory_result(input, {.multiples = {1, 2}, .pairs = 44}), false);
    auto window = openTrace();
    QVERIFY(window);
    const auto run = window->controller()->runData();
    window->openPath(file);
    QVERIFY(waitFor([&] { return window->findView("theory") != nullptr; }, 10'000) && settle(*window));
    auto* lab = qobject_cast<views::TheoryLabView*>(window->findView("theory"));
    QCOMPARE(lab->data().numbers.log_kappa, analysis::kernel_numbers(input).log_kappa);
    QCOMPARE(window->controller()->runData(), run);  // the trace stays
    QSettings(qEnvironmentVariable("SLOTSCOPE_SETTINGS"), QSettings::IniFormat).clear();
  }

  void labsTakeTheRoomOfPanelsAndKeepTheirState() {
    views::TheoryState state;
    state.codes = 9;
    {
      auto window = openTrace();
      QVERIFY(window);
      const auto open = [&] {
        int n = 0;
        for (Dock* d : window->panels()->docks()) n += d->open();
        return n;
      };
      const int before = open();
      QVERIFY(before > 4);
      window->openLab("theory");
      QVERIFY(waitFor([&] { return open() == 0; }, 5000));
      auto* lab = qobject_cast<views::TheoryLabView*>(window->findView("theory"));
      QVERIFY(lab && lab == window->currentView());
      QVERIFY(waitFor([&] { return lab->width() > 1200; }, 5000));
      lab->setState(state);
      Q_EMIT lab->stateChanged(lab->saved());
      window->goToView(0);
      QVERIFY(waitFor([&] { return open() == before; }, 5000));
      window->openLab("theory");  // the same one again
      QVERIFY(waitFor([&] { return open() == 0; }, 5000));
      QCOMPARE(window->findView("theory"), static_cast<views::View*>(lab));
      // A trace and its selection are none of the lab's.
      QCOMPARE(lab->state(), state);
      window->close();  // what is stored has the panels
      int kept = 0;
      for (Dock* d : window->panels()->docks()) kept += !d->isHidden();
      QCOMPARE(kept, before);
    }
    MainWindow next;
    next.resize(1280, 800);
    next.show();
    next.openLab("theory");
    QCOMPARE(qobject_cast<views::TheoryLabView*>(next.findView("theory"))->state(), state);
    next.restoreDefaultLayout();
    QSettings(qEnvironmentVariable("SLOTSCOPE_SETTINGS"), QSettings::IniFormat).clear();
  }

  void opensTheBundledCheckpointWithItsPromptRun() {
    MainWindow window;
    window.resize(1280, 800);
    window.show();
    window.openBundled();
    QVERIFY(waitFor([&] { return window.controller()->headData() && window.controller()->settled(); }));
    const auto& run = window.controller()->runData();
    QCOMPARE(window.bar()->model()->accessibleName(), QString("raven-passkey"));
    QCOMPARE(window.bar()->prompt()->accessibleName(), QString::fromStdString(run->info().name));
    QCOMPARE(run->info().prompt_tokens, int64_t(512));
    // The trained checkpoint answers its own prompt.
    QVERIFY(run->info().exact.has_value() && *run->info().exact);
    QCOMPARE(run->info().output_text.substr(0, run->info().answer.size()), run->info().answer);
    // The first selection is the head with the highest score, found here over again from the routes.
    double best = -1;
    int layer = -1, head = -1;
    for (int l = 0; l < 4; ++l)
      for (int h = 0; h < 4; ++h) {
        const double score = analysis::allocate(run->trace->routes(0, l, h), run->info().roles).head_score;
        if (score > best) best = score, layer = l, head = h;
      }
    QVERIFY(best > 0.1);
    QCOMPARE(window.bar()->layer->shownText(), QString::number(layer));
    QCOMPARE(window.bar()->head->shownText(), QString::number(head));
    const auto s = window.selection()->current();
    QCOMPARE(int(window.controller()->headData()->allocation.slot_class[size_t(s.slot)]),
             int(analysis::SlotClass::retrieval));
    QCOMPARE(int(run->info().roles[size_t(s.token)]), 1);
    const std::string text(run->info().token_bytes(s.token));
    QCOMPARE(window.bar()->token->shownText(),
             QString("%1 “%2”").arg(s.token).arg(QString::fromStdString(text)));
    QCOMPARE(window.status()->device(), QString("CPU · float32"));
    QCOMPARE(window.banners()->count(), 0);
    // Every job has ended, and the run as finished.
    QVERIFY(!window.controller()->jobs()->anyRunning());
    bool finished = false;
    for (int i = 0; i < window.controller()->jobs()->rowCount(); ++i)
      finished = finished || window.controller()->jobs()->index(i).data(JobModel::StateRole).toInt() ==
                                 int(JobState::finished);
    QVERIFY(finished);
  }

  void stepsAndEditsTheSelection() {
    auto window = openTrace();
    QVERIFY(window);
    auto* s = window->selection();
    auto* bar = window->bar();
    s->request({.layer = 1, .head = 1, .slot = 5, .token = 40});
    QTest::qWait(120);
    QTest::mouseClick(bar->token->findChildren<QToolButton*>().at(1), Qt::LeftButton);
    QCOMPARE(s->current().token, qint64(41));
    QTest::qWait(120);
    QTest::mouseClick(bar->layer->findChildren<QToolButton*>().at(0), Qt::LeftButton);
    QCOMPARE(s->current().layer, 0);
    QVERIFY(!bar->layer->findChildren<QToolButton*>().at(0)->isEnabled());
    // Two layers share slot number and token.
    QCOMPARE(s->current().slot, 5);
    QCOMPARE(s->current().token, qint64(41));
    // A wheel of half a step does nothing, two halves make one.
    const auto wheel = [&](QWidget* w, int units) {
      QWheelEvent event(QPointF(5, 5), w->mapToGlobal(QPointF(5, 5)), {}, {0, units}, Qt::NoButton,
                        Qt::NoModifier, Qt::NoScrollPhase, false);
      QApplication::sendEvent(w, &event);
    };
    wheel(bar->slot, -60);
    QCOMPARE(s->current().slot, 5);
    wheel(bar->slot, -60);
    QCOMPARE(s->current().slot, 6);
    // Typing a number, and a number that does not exist.
    bar->slot->edit();
    auto* editor = bar->slot->findChild<QLineEdit*>();
    QVERIFY(editor);
    editor->setText("17");
    key(editor, Qt::Key_Return);
    QCOMPARE(s->current().slot, 17);
    bar->slot->edit();
    editor = bar->slot->findChildren<QLineEdit*>().last();  // the one before goes with the next event
    editor->setText("9999");
    key(editor, Qt::Key_Return);
    QCOMPARE(s->current().slot, 63);
    // Escape leaves things as they were.
    bar->head->edit();
    editor = bar->head->findChildren<QLineEdit*>().last();
    editor->setText("3");
    key(editor, Qt::Key_Escape);
    QCOMPARE(s->current().head, 1);
    // Text jumps to its next place.
    s->request({.token = 0});
    bar->token->edit();
    editor = bar->token->findChildren<QLineEdit*>().last();
    editor->setText("\"password");
    key(editor, Qt::Key_Return);
    const auto& info = window->controller()->runData()->info();
    const std::string all(info.bytes.begin(), info.bytes.end());
    const auto place = all.find("password");
    QVERIFY(place != std::string::npos);
    QVERIFY(info.byte_offsets[size_t(s->current().token)] <= int64_t(place));
    QVERIFY(info.byte_offsets[size_t(s->current().token) + 1] > int64_t(place));
  }

  void historyGoesBackAndForward() {
    auto window = openTrace();
    QVERIFY(window);
    auto* s = window->selection();
    QTest::qWait(150);
    s->request({.token = 10});
    QTest::qWait(150);
    s->request({.layer = 2});
    QTest::qWait(150);
    QTest::mouseClick(window->bar()->back, Qt::LeftButton);
    QVERIFY(s->current().layer != 2);
    QCOMPARE(s->current().token, qint64(10));
    QVERIFY(window->bar()->forward->isEnabled());
    QTest::mouseClick(window->bar()->forward, Qt::LeftButton);
    QCOMPARE(s->current().layer, 2);
    QVERIFY(!window->bar()->forward->isEnabled());
    QVERIFY(settle(*window));
    QCOMPARE(window->controller()->headData()->layer, 2);
  }

  void keysMoveTheSelection() {
    auto window = openTrace();
    QVERIFY(window);
    auto* s = window->selection();
    QWidget* w = window.get();
    const auto& info = window->controller()->runData()->info();
    s->request({.layer = 1, .head = 1, .token = 100});
    key(w, Qt::Key_Right);
    QCOMPARE(s->current().token, qint64(101));
    key(w, Qt::Key_Left, Qt::ShiftModifier);
    QCOMPARE(s->current().token, qint64(91));
    key(w, Qt::Key_Home);
    QCOMPARE(s->current().token, qint64(0));
    key(w, Qt::Key_End);
    QCOMPARE(s->current().token, qint64(info.tokens - 1));
    QTest::keyClick(w, ']');
    QCOMPARE(s->current().head, 2);
    QTest::keyClick(w, '[');
    QCOMPARE(s->current().head, 1);
    key(w, Qt::Key_PageDown);
    QCOMPARE(s->current().layer, 2);
    const Span* span = info.span("key");
    QVERIFY(span);
    QTest::keyClick(w, 'k');
    QCOMPARE(s->current().token, qint64(span->begin));
    QTest::keyClick(w, 'k');
    QCOMPARE(s->current().token, qint64(span->begin + 1));
    QTest::keyClick(w, 'q');
    QCOMPARE(s->current().token, qint64(info.prompt_tokens - 1));
    // Ctrl+Right: the next token of the same role.
    s->request({.token = span->begin});
    key(w, Qt::Key_Right, Qt::ControlModifier);
    QCOMPARE(s->current().token, qint64(span->begin + 1));
    // Best head, and again the second best.
    s->request({.layer = 0, .head = 1});
    const auto& summary = window->controller()->runData()->summary;
    QTest::keyClick(w, 'b');
    const auto place = [&](size_t i) { return summary.head_list[size_t(summary.by_score[i])]; };
    QCOMPARE(s->current().layer, place(0).layer);
    QTest::keyClick(w, 'b');
    QCOMPARE(s->current().layer, place(1).layer);
    QCOMPARE(s->current().head, place(1).head);
    // Up and Down follow the order of the slots by class.
    s->request({.layer = 3, .head = 0});
    QVERIFY(settle(*window));
    const auto& order = window->controller()->headData()->allocation.order;
    s->request({.slot = order[0]});
    key(w, Qt::Key_Down);
    QCOMPARE(s->current().slot, order[1]);
    key(w, Qt::Key_Up);
    QCOMPARE(s->current().slot, order[0]);
    // Last writer of the slot: a token that really wrote it.
    QTest::keyClick(w, 'w');
    const auto& writes = window->controller()->headData()->writes;
    const auto first = writes.token.begin() + writes.begin[size_t(order[0])],
               last = writes.token.begin() + writes.begin[size_t(order[0]) + 1];
    QVERIFY(std::find(first, last, s->current().token) != last);
    // Zoom keeps the selected token inside, 0 shows all.
    QTest::keyClick(w, '+');
    QVERIFY(s->tokenRange().second - s->tokenRange().first < info.tokens);
    QVERIFY(s->tokenRange().first <= s->current().token && s->current().token < s->tokenRange().second);
    QTest::keyClick(w, '0');
    QCOMPARE(s->tokenRange(), (std::pair<qint64, qint64>(0, info.tokens)));
  }

  void heatmapKeysWorkFromAnywhere() {
    auto window = openTrace();
    QVERIFY(window);
    auto* heatmap = qobject_cast<views::HeatmapView*>(window->findView("heatmap"));
    QVERIFY(heatmap);
    window->bar()->layer->setFocus();
    const auto sort = heatmap->sort();
    QTest::keyClick(window.get(), 's');
    QVERIFY(heatmap->sort() != sort);
    const auto quantity = heatmap->quantity();
    QTest::keyClick(window.get(), 'c');
    QVERIFY(heatmap->quantity() != quantity);
    // In a text field letters are letters.
    auto* field = window->checkpointPanel()->findChild<QLineEdit*>();
    window->showPanel("panel.checkpoint");
    field->setFocus();
    const auto kept = heatmap->sort();
    const auto token = window->selection()->current().token;
    QTest::keyClicks(field, "skq");
    QCOMPARE(field->text(), QString("skq"));
    QCOMPARE(heatmap->sort(), kept);
    QCOMPARE(window->selection()->current().token, token);
    // A key that nobody wants does nothing.
    QTest::keyClick(window.get(), 'x');
  }

  void changingLayersLoadsTheirHeads() {
    auto window = openTrace();
    QVERIFY(window);
    for (int layer = 0; layer < 4; ++layer) window->selection()->request({.layer = layer, .head = layer});
    QVERIFY(waitFor([&] {
      return window->controller()->settled() && window->controller()->headData() &&
             window->controller()->headData()->layer == 3;
    }));
    QCOMPARE(window->controller()->headData()->head, 3);
    // The numbers shown are those of the trace's own counters.
    const auto counters = window->controller()->trace()->trace->counters(0, 3, "esl");
    QCOMPARE(window->controller()->headData()->esl.esl, counters[3]);
  }

  void optionsAreAnalysedAgain() {
    auto window = openTrace();
    QVERIFY(window);
    auto* c = window->controller();
    const auto s = window->selection()->current();
    analysis::AllocationOptions options;
    options.threshold = 0.05;
    c->setAllocationOptions(options);
    QVERIFY(
        waitFor([&] { return c->settled() && c->runData()->allocation.threshold == 0.05 && c->headData(); }));
    const auto expected = analysis::allocate(c->trace()->trace->routes(0, s.layer, s.head),
                                             c->runData()->info().roles, options);
    QCOMPARE(c->headData()->allocation.written, expected.written);
    QCOMPARE(c->headData()->allocation.order, expected.order);
    // Brushed tokens as retrieval tokens: counted over again, named, and undone.
    window->selection()->setBrush(std::pair<qint64, qint64>{20, 28});
    c->setRoleRanges({{20, 28}}, false);
    QVERIFY(waitFor([&] { return c->settled(); }));
    QCOMPARE(c->roleName(), QString("brushed tokens 20–27"));
    std::vector<uint8_t> roles(size_t(c->trace()->trace->run(0).tokens), 0);
    for (int t = 20; t < 28; ++t) roles[size_t(t)] = 1;
    const auto brushed = analysis::allocate(c->trace()->trace->routes(0, s.layer, s.head), roles, options);
    QCOMPARE(c->headData()->allocation.retrieval, brushed.retrieval);
    QCOMPARE(c->runData()->info().roles, roles);
    c->setRoleRanges({}, true);
    QVERIFY(waitFor([&] { return c->settled(); }));
    QCOMPARE(c->headData()->allocation.retrieval, expected.retrieval);
    QVERIFY(window->status() != nullptr && c->roleName().isEmpty());
  }

  void badFilesBecomeBanners_data() {
    QTest::addColumn<QString>("name");
    QTest::addColumn<QByteArray>("content");
    QTest::addColumn<QString>("word");
    QTest::newRow("folder without weights") << "empty-folder" << QByteArray() << "empty-folder";
    QTest::newRow("text as trace") << "text.h5" << QByteArray("not a trace") << "text.h5";
    QTest::newRow("LFS pointer")
        << "model.safetensors"
        << QByteArray("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 123\n")
        << "model.safetensors";
    QTest::newRow("missing") << "nowhere.h5" << QByteArray() << "nowhere.h5";
  }
  void badFilesBecomeBanners() {
    QFETCH(QString, name);
    QFETCH(QByteArray, content);
    QFETCH(QString, word);
    QTemporaryDir folder;
    const QString path = folder.filePath(name);
    if (name == "empty-folder") QDir().mkpath(path);
    if (!content.isEmpty()) {
      QFile file(path);
      QVERIFY(file.open(QIODevice::WriteOnly));
      file.write(content);
    }
    auto window = openTrace();
    QVERIFY(window);
    const auto before = window->controller()->headData();
    window->openPath(path);
    QVERIFY(waitFor([&] { return window->banners()->count() == 1; }));
    QVERIFY2(window->banners()->text().contains(word), qPrintable(window->banners()->text()));
    QCOMPARE(int(window->banners()->current()->level), int(Problem::Level::error));
    QVERIFY(!QApplication::activeModalWidget());
    // What was open stays, and the log keeps the sentence.
    QVERIFY(settle(*window));
    QCOMPARE(window->controller()->headData(), before);
    QVERIFY(window->log()->text().contains(word));
    // One at a time, newest first.
    window->openPath(folder.filePath("other.h5"));
    QVERIFY(waitFor([&] { return window->banners()->count() == 2; }));
    QVERIFY(window->banners()->text().contains("other.h5"));
  }

  void unknownFamiliesAreShownButNotRun() {
    QTemporaryDir folder;
    QFile config(folder.filePath("config.json"));
    QVERIFY(config.open(QIODevice::WriteOnly));
    config.write(R"({"model_type": "perceptron", "hidden_size": 2})");
    config.close();
    QFile weights(folder.filePath("model.safetensors"));
    QVERIFY(weights.open(QIODevice::WriteOnly));
    QByteArray header = R"({"layers.0.w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}})";
    header = header.leftJustified((header.size() + 7) / 8 * 8, ' ');
    const quint64 size = quint64(header.size());
    weights.write(reinterpret_cast<const char*>(&size), 8);
    weights.write(header + QByteArray(8, '\0'));
    weights.close();
    MainWindow window;
    window.show();
    window.openPath(folder.path());
    QVERIFY(waitFor([&] { return window.controller()->checkpoint() != nullptr; }));
    QVERIFY(!window.controller()->checkpoint()->info);
    QVERIFY(window.controller()->checkpoint()->why.contains("perceptron"));
    QVERIFY(!window.bar()->run->isEnabled());
    QCOMPARE(window.checkpointPanel()->tensors()->shownTensors(), 1);
    QVERIFY(waitFor([&] { return window.banners()->count() == 1; }));
    QVERIFY2(window.banners()->text().contains("perceptron"), qPrintable(window.banners()->text()));
    window.controller()->run({});
    QVERIFY(!window.controller()->running());
  }

  void checkpointPanelFilters() {
    MainWindow window;
    window.show();
    window.openPath(bundled());
    QVERIFY(waitFor([&] { return window.controller()->checkpoint() && window.controller()->settled(); }));
    auto* model = window.checkpointPanel()->tensors();
    const int all = model->shownTensors();
    QCOMPARE(all, int(window.controller()->checkpoint()->checkpoint->tensors().size()));
    auto* filter = window.checkpointPanel()->findChild<QLineEdit*>();
    filter->setText("*layers.0.*");
    int expected = 0;
    for (const auto& t : window.controller()->checkpoint()->checkpoint->tensors())
      expected += t.name.find("layers.0.") != std::string::npos;
    QVERIFY(expected > 0 && expected < all);
    QCOMPARE(model->shownTensors(), expected);
    QVERIFY(window.checkpointPanel()->config()->rowCount() == 0 ||
            window.checkpointPanel()->config()->columnCount() == 3);
    filter->clear();
    QCOMPARE(model->shownTensors(), all);
  }

  void dropsOpen() {
    MainWindow window;
    window.show();
    QMimeData data;
    data.setUrls({QUrl::fromLocalFile(trace_)});
    QDragEnterEvent enter(QPoint(200, 200), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(&window, &enter);
    QVERIFY(enter.isAccepted());
    QDropEvent drop(QPointF(200, 200), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(&window, &drop);
    QVERIFY(!window.controller()->trace());  // the drop returned before anything was opened
    QVERIFY(waitFor([&] { return window.controller()->headData() != nullptr; }));
    QMimeData picture;
    picture.setUrls({QUrl::fromLocalFile("/tmp/cat.jpg")});
    QDragEnterEvent again(QPoint(200, 200), Qt::CopyAction, &picture, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(&window, &again);
    QDropEvent wrong(QPointF(200, 200), Qt::CopyAction, &picture, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(&window, &wrong);
    QCOMPARE(window.banners()->count(), 1);
    QVERIFY(window.banners()->text().contains("cat.jpg"));
  }

  void layoutsAreKept() {
    auto window = openTrace();
    QVERIFY(window);
    const auto dock = [&](const char* id) { return window->viewArea()->find(id); };
    QCOMPARE(window->viewArea()->docks().size(), 4);
    Dock* second = window->addView("heatmap");
    QCOMPARE(second->windowTitle(), QString("Heatmap 2"));
    QCOMPARE(second->id(), QString("view.heatmap.2"));
    dock("view.esl.1")->close();
    window->panels()->find("panel.log")->close();
    const QByteArray state = window->layoutState();
    window->restoreDefaultLayout();
    QCOMPARE(window->viewArea()->docks().size(), 4);
    QVERIFY(dock("view.esl.1")->open());
    QVERIFY(window->panels()->find("panel.log")->open());
    QVERIFY(window->restoreLayout(state));
    QVERIFY(dock("view.heatmap.2"));
    QVERIFY(!dock("view.esl.1")->open());
    QVERIFY(!window->panels()->find("panel.log")->open());
    // Garbage is refused.
    QVERIFY(!window->restoreLayout("garbage"));
    QVERIFY(!window->restoreLayout({}));
    // Settings bring it back in the next window.
    window->saveSettings();
    window.reset();
    MainWindow next;
    QVERIFY(next.viewArea()->find("view.heatmap.2"));
    QVERIFY(!next.viewArea()->find("view.esl.1")->open());
    next.restoreDefaultLayout();
    next.saveSettings();
  }

  void pinnedViewsKeepTheirHead() {
    auto window = openTrace();
    QVERIFY(window);
    auto* s = window->selection();
    s->request({.layer = 3, .head = 0, .token = 100});
    QVERIFY(settle(*window));
    Dock* dock = window->addView("heatmap");
    window->pinView(dock, 1, 2);
    QCOMPARE(dock->windowTitle(), QString("Heatmap · L1·H2"));
    auto* view = qobject_cast<views::View*>(dock->body());
    QVERIFY(waitFor([&] { return view->headData() != nullptr; }));
    QCOMPARE(view->headData()->layer, 1);
    QCOMPARE(view->headData()->head, 2);
    QCOMPARE(s->current().layer, 3);  // the selection stays where it was
    // The selection moves on, the pinned view does not; its numbers are its own head's.
    s->request({.layer = 2, .head = 3, .token = 200});
    QVERIFY(settle(*window));
    QCOMPARE(window->controller()->headData()->layer, 2);
    QCOMPARE(view->headData()->layer, 1);
    QCOMPARE(view->headData()->esl.esl, window->controller()->trace()->trace->counters(0, 1, "esl")[2]);
    // Tokens and their range are shared both ways.
    auto* own = view->findChild<PinnedSelection*>();
    QVERIFY(own);
    QCOMPARE(own->current().token, qint64(200));
    own->request({.token = 300});
    QCOMPARE(s->current().token, qint64(300));
    QCOMPARE(s->current().layer, 2);
    s->setTokenRange(10, 90);
    QCOMPARE(own->tokenRange(), (std::pair<qint64, qint64>(10, 90)));
    own->setTokenRange(20, 60);
    QCOMPARE(s->tokenRange(), (std::pair<qint64, qint64>(20, 60)));
    // New thresholds reach it too.
    analysis::AllocationOptions options;
    options.threshold = 0.05;
    window->controller()->setAllocationOptions(options);
    QVERIFY(settle(*window));
    const auto expected = analysis::allocate(window->controller()->trace()->trace->routes(0, 1, 2),
                                             window->controller()->runData()->info().roles, options);
    QVERIFY(view->headData());
    QCOMPARE(view->headData()->allocation.order, expected.order);
    window->unpinView(dock);
    QCOMPARE(dock->windowTitle(), QString("Heatmap 2"));
    QVERIFY(settle(*window));
    QCOMPARE(qobject_cast<views::View*>(dock->body())->headData()->layer, 2);
    window->restoreDefaultLayout();
  }

  void closingAllViewsLeavesAWayBack() {
    auto window = openTrace();
    QVERIFY(window);
    for (Dock* d : window->viewArea()->docks()) d->close();
    QTest::qWait(20);
    auto* hint = window->viewArea()->findChild<QWidget*>("emptyHint");
    QVERIFY(hint && hint->isVisible());
    QCOMPARE(hint->findChildren<QPushButton*>().size(), 4);
    window->addView("allocation");
    QTest::qWait(20);
    QVERIFY(window->findView("allocation"));
    QVERIFY(!hint->isVisible());
    window->restoreDefaultLayout();
  }

  void wideAndNarrowWindows() {
    auto window = openTrace();
    QVERIFY(window);
    window->resize(1110, 700);
    QTest::qWait(50);
    auto* inspector = window->panels()->find("panel.inspector");
    QVERIFY(
        window->panels()->tabifiedDockWidgets(inspector).contains(window->panels()->find("panel.output")));
    window->resize(1280, 800);
    QTest::qWait(50);
    QVERIFY(
        !window->panels()->tabifiedDockWidgets(inspector).contains(window->panels()->find("panel.output")));
    window->resize(1900, 1100);
    window->restoreDefaultLayout();
    QTest::qWait(50);
    Dock* heatmap = window->viewArea()->find("view.heatmap.1");
    QVERIFY(
        !window->viewArea()->tabifiedDockWidgets(heatmap).contains(window->viewArea()->find("view.esl.1")));
    QVERIFY(window->viewArea()->find("view.allocation.1")->isVisible());
    window->resize(1280, 800);
    window->restoreDefaultLayout();
  }

  void themesAndTextSize() {
    auto window = openTrace();
    QVERIFY(window);
    window->setThemeChoice(ThemeChoice::dark);
    QVERIFY(views::Theme::current().dark);
    QCOMPARE(QApplication::palette().color(QPalette::Base), views::Theme::darkTheme().surface);
    window->setTextScale(1.5);
    QCOMPARE(views::Theme::current().ui.pixelSize(), 18);
    window->setTextScale(9);
    QCOMPARE(views::Theme::current().ui.pixelSize(), 24);
    window->setTextScale(1);
    window->setPrintRoles(true);
    QCOMPARE(views::Theme::current().retrieval, QColor("#FF3B3B"));
    QCOMPARE(window->banners()->count(), 1);
    window->setPrintRoles(false);
    QCOMPARE(window->banners()->count(), 0);
    window->setThemeChoice(ThemeChoice::light);
    QVERIFY(!views::Theme::current().dark);
  }

  void copiesTheValueUnderTheSelection() {
    auto window = openTrace();
    QVERIFY(window);
    const auto& head = *window->controller()->headData();
    const auto s = window->selection()->current();
    for (QAction* a : window->menus()->actions().at(1)->menu()->actions())
      if (a->shortcut() == QKeySequence(QKeySequence::Copy)) a->trigger();
    const QString text = QGuiApplication::clipboard()->text();
    double r = -1;
    for (int k = 0; k < head.routes.top_k; ++k) {
      const size_t at = size_t(s.token) * size_t(head.routes.top_k) + size_t(k);
      if (int(head.routes.index[at]) == s.slot) r = head.routes.weight[at];
    }
    QVERIFY(r > 0);
    QVERIFY2(text.contains(QString("token %1").arg(s.token)), qPrintable(text));
    QVERIFY2(text.contains(QString::number(r, 'f', 6)), qPrintable(text));
  }

  void everyMenuEntryHasItsOwnShortcut() {
    MainWindow window;
    QStringList seen;
    std::function<void(const QList<QAction*>&)> walk = [&](const QList<QAction*>& actions) {
      for (QAction* a : actions) {
        if (a->menu()) walk(a->menu()->actions());
        for (const QKeySequence& k : a->shortcuts()) {
          QVERIFY2(!seen.contains(k.toString()), qPrintable(k.toString() + " " + a->text()));
          seen << k.toString();
        }
      }
    };
    walk(window.menus()->actions());
    for (const char* wanted :
         {"Ctrl+O", "Ctrl+Shift+O", "F5",           "Ctrl+R", "Ctrl+.", "Ctrl+E", "Ctrl+Shift+C",
          "Ctrl+C", "Alt+Left",     "Alt+Right",    "Ctrl+T", "Ctrl+W", "F6",     "Shift+F6",
          "F11",    "Ctrl+Shift+1", "Ctrl+Shift+8", "Ctrl++", "Ctrl+-", "Ctrl+0"})
      QVERIFY2(seen.contains(QString::fromLatin1(wanted)), wanted);
  }
};

QTEST_MAIN(TestWindow)
#include "test_window.moc"
