// Runs from the window: cancel, failure, closing in the middle, awkward prompts, saving.
#include <QSignalSpy>

#include "app/window/banner.h"
#include "app/window/selection_bar.h"
#include "app/window/status_line.h"
#include "tests/app/window_test.h"

using namespace slotscope;
using namespace slotscope::app;
using namespace slotscope::testing;

class TestRuns : public QObject {
  Q_OBJECT
  Scratch scratch_;

  std::unique_ptr<MainWindow> openModel() {
    auto window = std::make_unique<MainWindow>();
    window->resize(1280, 800);
    window->show();
    window->openPath(bundled());
    if (!waitFor([&] { return window->controller()->checkpoint() && window->controller()->settled(); }))
      return nullptr;
    return window;
  }
  static int runJob(MainWindow& w) {
    for (int i = 0; i < w.controller()->jobs()->rowCount(); ++i)
      if (w.controller()->jobs()->index(i).data().toString().startsWith("Run "))
        return w.controller()->jobs()->idAt(w.controller()->jobs()->index(i));
    return 0;
  }

 private Q_SLOTS:
  void jobsEndOnce() {
    JobModel jobs;
    QSignalSpy ended(&jobs, &JobModel::ended);
    const int id = jobs.start("One", std::make_shared<Progress>());
    QVERIFY(jobs.anyRunning());
    QVERIFY(jobs.end(id, JobState::cancelled, "cancelled"));
    QVERIFY(!jobs.end(id, JobState::finished, "finished"));
    QVERIFY(!jobs.end(id, JobState::failed, "failed"));
    QVERIFY(!jobs.end(id + 1, JobState::finished, "unknown"));
    QCOMPARE(ended.count(), 1);
    QCOMPARE(jobs.index(0).data(JobModel::StateRole).toInt(), int(JobState::cancelled));
    QCOMPARE(jobs.index(0).data(JobModel::TextRole).toString(), QString("cancelled"));
    QVERIFY(!jobs.anyRunning());
    auto progress = std::make_shared<Progress>();
    const int second = jobs.start("Two", progress);
    progress->begin_stage("running", 200);
    progress->set_detail("layer 2 of 4");
    progress->set(50);
    QCOMPARE(JobModel::fraction(*jobs.find(second)), 0.25);
    QCOMPARE(JobModel::describe(*jobs.find(second)), QString("running · layer 2 of 4 · 25%"));
    jobs.cancel(second);
    QVERIFY(progress->cancel_requested());
    QVERIFY(jobs.find(second)->state == JobState::running);  // until its worker answers
    QVERIFY(JobModel::describe(*jobs.find(second)).contains("stopping"));
  }

  void cancelEndsSoonAndKeepsWhatWasRun() {
    auto window = openModel();
    QVERIFY(window);
    RunSettings settings;
    settings.length = 60'000;
    QSignalSpy ended(window->controller()->jobs(), &JobModel::ended);
    window->controller()->run(settings);
    QVERIFY(window->controller()->running());
    QCOMPARE(window->bar()->run->text(), QString("Cancel"));
    const int job = runJob(*window);
    // Wait until tokens go through the layers.
    QVERIFY(waitFor([&] {
      const auto s = window->controller()->jobs()->find(job)->progress->snapshot();
      return s.stage == "running" && s.done > 0;
    }));
    QVERIFY(window->status()->jobText().contains("Run password"));
    QElapsedTimer timer;
    timer.start();
    window->controller()->cancelRun();
    QVERIFY(waitFor([&] { return !window->controller()->running(); }, 20'000));
    const qint64 took = timer.elapsed();
    qInfo("cancelled after %lld ms", took);
    QVERIFY2(took < 5'000, "a second is promised; five times that is the guard");
    QCOMPARE(window->controller()->jobs()->find(job)->state, JobState::cancelled);
    QCOMPARE(std::count_if(ended.begin(), ended.end(),
                           [&](const auto& call) { return call.at(0).toInt() == job; }),
             1);
    QCOMPARE(window->bar()->run->text(), QString("Run"));
    QVERIFY(window->banners()->count() == 0);  // cancelling is no error
    // What was run can be opened, and says that it is not all.
    QVERIFY(window->controller()->jobs()->find(job)->result.contains("kept"));
    window->controller()->jobs()->find(job)->open();
    QVERIFY(waitFor([&] { return window->controller()->runData() && window->controller()->settled(); }));
    const auto& info = window->controller()->runData()->info();
    QVERIFY(info.tokens > 0 && info.tokens < 60'000);
    QCOMPARE(window->banners()->count(), 1);
    QCOMPARE(int(window->banners()->current()->level), int(Problem::Level::warning));
    QVERIFY2(window->banners()->text().contains("ends at token"), qPrintable(window->banners()->text()));
    // And the next run works, with the model that is loaded.
    settings.length = 128;
    window->controller()->run(settings);
    QVERIFY(waitFor([&] { return !window->controller()->running() && window->controller()->settled(); }));
    QCOMPARE(window->controller()->runData()->info().prompt_tokens, int64_t(128));
    QCOMPARE(window->banners()->count(), 0);
  }

  void closingWhileARunIsOn() {
    auto window = openModel();
    QVERIFY(window);
    RunSettings settings;
    settings.length = 60'000;
    window->controller()->run(settings);
    const int job = runJob(*window);
    QVERIFY(waitFor(
        [&] { return window->controller()->jobs()->find(job)->progress->snapshot().stage == "running"; }));
    QElapsedTimer timer;
    timer.start();
    window->close();
    window.reset();
    QVERIFY2(timer.elapsed() < 10'000, "closing waited for the run");
  }

  void theGuiThreadIsNeverBlocked() {
    auto window = openModel();
    QVERIFY(window);
    qint64 worst = 0;
    QElapsedTimer since;
    since.start();
    QTimer beat;
    beat.setInterval(10);
    connect(&beat, &QTimer::timeout, this, [&] { worst = std::max(worst, since.restart()); });
    RunSettings settings;
    settings.length = 4'096;
    beat.start();
    window->controller()->run(settings);
    QVERIFY(waitFor([&] { return !window->controller()->running(); }));
    qInfo("longest pause of the GUI thread during a run: %lld ms", worst);
    QVERIFY2(worst < 1'500, "the GUI thread was blocked during a run");
    QVERIFY(settle(*window));
  }

  void awkwardPrompts_data() {
    QTest::addColumn<int>("mode");
    QTest::addColumn<QString>("text");
    QTest::addColumn<int>("tokens");  // prompt tokens; 0: refused
    QTest::addColumn<QString>("word");
    QTest::newRow("one token") << 2 << "256" << 1 << "";
    QTest::newRow("ids with brackets and spaces") << 2 << "[256, 84\n104 101]" << 4 << "";
    QTest::newRow("an id that does not exist") << 2 << "256, 99999" << 0 << "99999";
    QTest::newRow("no ids") << 2 << "" << 0 << "";
    QTest::newRow("words as ids") << 2 << "256, cat" << 0 << "cat";
    QTest::newRow("text") << 0 << "The password" << 13 << "";
    QTest::newRow("text of bytes") << 0 << "é\n\t" << 5 << "";
  }
  void awkwardPrompts() {
    QFETCH(int, mode);
    QFETCH(QString, text);
    QFETCH(int, tokens);
    QFETCH(QString, word);
    auto window = openModel();
    QVERIFY(window);
    RunSettings settings;
    settings.mode = RunSettings::Mode(mode);
    (mode == 0 ? settings.text : settings.ids) = text;
    settings.generate = 0;
    window->controller()->run(settings);
    QVERIFY(waitFor([&] { return !window->controller()->running() && window->controller()->settled(); }));
    if (tokens == 0) {
      QCOMPARE(window->banners()->count(), 1);
      QVERIFY2(window->banners()->text().contains(word), qPrintable(window->banners()->text()));
      QVERIFY(!window->controller()->runData());
    } else {
      QVERIFY2(window->banners()->count() == 0, qPrintable(window->banners()->text()));
      QCOMPARE(window->controller()->runData()->info().tokens, int64_t(tokens));
      QVERIFY(!window->grab().isNull());
    }
  }

  void aWrongSettingIsABannerAndTheNextRunWorks() {
    auto window = openModel();
    QVERIFY(window);
    RunSettings settings;
    settings.length = 64;
    settings.capture = "no_such_field";
    window->controller()->run(settings);
    QVERIFY(waitFor([&] { return !window->controller()->running() && window->banners()->count() == 1; }));
    QVERIFY2(window->banners()->text().contains("no_such_field"), qPrintable(window->banners()->text()));
    QCOMPARE(window->controller()->jobs()->find(runJob(*window))->state, JobState::failed);
    settings = {};
    settings.length = 128;
    window->controller()->run(settings);
    QVERIFY(waitFor([&] { return window->controller()->headData() && window->controller()->settled(); }));
    QCOMPARE(window->controller()->jobs()->find(runJob(*window))->state, JobState::finished);
  }

  void runsWithoutRoutesSaySo() {
    auto window = openModel();
    QVERIFY(window);
    RunSettings settings;
    settings.length = 128;
    settings.capture = "esl,selected";
    window->controller()->run(settings);
    QVERIFY(waitFor([&] { return window->controller()->runData() && window->controller()->settled(); }));
    QVERIFY(!window->controller()->headData());
    QVERIFY(!window->grab().isNull());
  }

  void tracesAreSavedAndKeptInTheSession() {
    auto window = openModel();
    QVERIFY(window);
    RunSettings settings;
    settings.length = 128;
    window->controller()->run(settings);
    QVERIFY(waitFor([&] { return window->controller()->headData() && window->controller()->settled(); }));
    const auto first = window->controller()->trace();
    const QString target = scratch_.file("saved.h5");
    window->controller()->saveTrace(target);
    QVERIFY(settle(*window));
    QCOMPARE(first->saved_as, target);
    QFile a(target), b(first->path);
    QVERIFY(a.open(QIODevice::ReadOnly) && b.open(QIODevice::ReadOnly));
    QCOMPARE(a.readAll(), b.readAll());
    // A place that cannot be written: said, and nothing is left there.
    window->controller()->saveTrace("/nowhere/at/all.h5");
    QVERIFY(waitFor([&] { return window->banners()->count() == 1; }));
    QVERIFY(window->banners()->text().contains("/nowhere/at/all.h5"));
    settings.seed = 10;
    window->controller()->run(settings);
    QVERIFY(waitFor([&] {
      return !window->controller()->running() && window->controller()->trace() != first &&
             window->controller()->settled();
    }));
    QCOMPARE(window->controller()->sessionTraces().size(), size_t(2));
    window->controller()->showTrace(first);
    QVERIFY(waitFor([&] { return window->controller()->headData() && window->controller()->settled(); }));
    QCOMPARE(window->controller()->trace(), first);
  }

  void estimatesFollowTheSettings() {
    auto window = openModel();
    QVERIFY(window);
    QVERIFY(settle(*window));
    const QString before = window->runPanel()->estimateText();
    QVERIFY2(before.startsWith("about "), qPrintable(before));
    RunSettings settings;
    settings.length = 8'192;
    window->runPanel()->setSettings(settings);
    QVERIFY(settle(*window));
    QVERIFY(window->runPanel()->estimateText() != before);
    settings.capture = "nothing_known";
    window->runPanel()->setSettings(settings);
    QVERIFY(settle(*window));
    QVERIFY(window->runPanel()->estimateText().contains("nothing_known"));
    // What the panel shows is what it gives back.
    settings = {};
    settings.length = 777, settings.depth = -1, settings.seed = 3, settings.dtype = "float64";
    window->runPanel()->setSettings(settings);
    QCOMPARE(window->runPanel()->settings(), settings);
  }
};

QTEST_MAIN(TestRuns)
#include "test_runs.moc"
