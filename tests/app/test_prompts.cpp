// Import of prompts: the list of rows, runs of one trace, the prompt chip, and what is odd, long or broken.
#include <QDropEvent>
#include <QLineEdit>
#include <QListWidget>
#include <QMimeData>
#include <QPushButton>
#include <QScrollBar>
#include <QSignalSpy>
#include <QTableView>

#include "app/window/banner.h"
#include "app/window/docks.h"
#include "app/window/locations.h"
#include "app/window/prompts_dialog.h"
#include "app/window/selection_bar.h"
#include "core/formats/prompt.h"
#include "core/formats/tokenizer.h"
#include "tests/app/window_test.h"

using namespace slotscope;
using namespace slotscope::app;
using namespace slotscope::testing;

class TestPrompts : public QObject {
  Q_OBJECT
  Scratch scratch_;

  static void save(QWidget& widget, const QString& name) {
    const QString folder = qEnvironmentVariable("SLOTSCOPE_PICTURES");
    if (!folder.isEmpty()) widget.grab().save(folder + "/" + name + ".png");
  }
  QString write(const QString& name, const QByteArray& bytes) {
    QFile file(scratch_.file(name));
    if (!file.open(QIODevice::WriteOnly) || file.write(bytes) != bytes.size()) return {};
    return file.fileName();
  }
  // Password prompts as rows: the bundled model answers them.
  QString passwords(int count, std::vector<formats::Prompt>* prompts = nullptr) {
    const auto tokenizer = formats::Tokenizer::load(bundled().toStdString());
    QByteArray lines;
    for (int i = 0; i < count; ++i) {
      const auto p = formats::make_passkey(*tokenizer, {.length = 200, .seed = uint64_t(i)});
      lines += "{\"prompt\": \"" + QByteArray::fromStdString(p.text) + "\", \"answer\": \"" +
               QByteArray::fromStdString(p.answer) + "\"}\n";
      if (prompts) prompts->push_back(p);
    }
    return write("passwords.jsonl", lines);
  }
  std::unique_ptr<MainWindow> openModel(ThemeChoice theme = ThemeChoice::light) {
    auto window = std::make_unique<MainWindow>();
    window->setThemeChoice(theme);
    window->resize(1280, 800);
    window->show();
    window->openPath(bundled());
    if (!waitFor([&] { return window->controller()->checkpoint() && window->controller()->settled(); }))
      return nullptr;
    return window;
  }
  static bool listed(MainWindow& w) {
    return waitFor([&] { return w.promptsDialog() && w.promptsDialog()->model()->listed(); });
  }
  static QString cell(MainWindow& w, int row, int column) {
    return w.promptsDialog()->model()->index(row, column).data().toString();
  }

 private Q_SLOTS:
  void initTestCase() { useVolatileSettings(); }

  void rowsAreListedChosenAndRun() {
    std::vector<formats::Prompt> made;
    const QString file = passwords(5, &made);
    auto window = openModel();
    QVERIFY(window);
    window->openPath(file);
    QVERIFY(listed(*window));
    PromptsDialog& dialog = *window->promptsDialog();
    QCOMPARE(dialog.model()->rowCount(), 5);
    QVERIFY(waitFor([&] { return dialog.model()->tokens(4) >= 0; }));
    for (int i = 0; i < 5; ++i) {
      QCOMPARE(cell(*window, i, PromptRowsModel::RowColumn), QString::number(i));
      QVERIFY(QString::fromStdString(made[size_t(i)].text)
                  .startsWith(cell(*window, i, PromptRowsModel::TextColumn).chopped(1)));
      QCOMPARE(cell(*window, i, PromptRowsModel::TokensColumn), QString("200"));
      QCOMPARE(cell(*window, i, PromptRowsModel::AnswerColumn),
               QString::fromStdString(made[size_t(i)].answer));
    }
    QCOMPARE(dialog.chosen(), std::vector<int64_t>{0});
    // What is typed in the Run panel is chosen in the list, and the other way round.
    RunSettings settings = window->runPanel()->settings();
    QCOMPARE(int(settings.mode), int(RunSettings::Mode::file));
    QCOMPARE(settings.rows, QString("0"));
    QLineEdit* rows = nullptr;
    for (QLineEdit* edit : window->runPanel()->findChildren<QLineEdit*>())
      if (edit->accessibleName() == "Rows") rows = edit;
    QVERIFY(rows);
    rows->setText("1:3,4");
    QCOMPARE(dialog.chosen(), (std::vector<int64_t>{1, 2, 4}));
    dialog.table()->selectRow(3);
    QCOMPARE(window->runPanel()->settings().rows, QString("3"));
    dialog.choose("1,3");
    QCOMPARE(dialog.runButton()->text(), QString("Run 2 rows"));
    dialog.runButton()->click();
    QVERIFY(window->controller()->running());
    QVERIFY(!dialog.runButton()->isEnabled());
    QVERIFY(waitFor([&] { return window->controller()->headData() && window->controller()->settled(); }));
    QVERIFY2(window->banners()->count() == 0, qPrintable(window->banners()->text()));
    QVERIFY(dialog.runButton()->isEnabled());
    const auto& trace = *window->controller()->trace()->trace;
    QCOMPARE(trace.run_count(), 2);
    for (int i = 0; i < 2; ++i) {
      const auto& run = trace.run(i);
      QCOMPARE(run.text, made[i == 0 ? 1 : 3].text);
      QCOMPARE(run.output_text, made[i == 0 ? 1 : 3].answer);
      QVERIFY(run.score && *run.score == 1);
    }
  }

  void switchingRunsKeepsTheHead() {
    const QString file = passwords(3);
    auto window = openModel();
    QVERIFY(window);
    RunSettings settings;
    settings.mode = RunSettings::Mode::file;
    settings.prompts = file;
    window->controller()->run(settings);
    QVERIFY(waitFor([&] { return window->controller()->headData() && window->controller()->settled(); }));
    QCOMPARE(window->controller()->trace()->trace->run_count(), 3);
    window->selection()->request({.layer = 1, .head = 2, .slot = 5, .token = 40});
    QVERIFY(waitFor([&] { return window->controller()->headData() && window->controller()->settled(); }));
    const auto entries = window->bar()->prompt()->entries();
    QCOMPARE(entries.size(), size_t(3));
    QVERIFY(entries[0].current && !entries[1].current);
    QVERIFY2(entries[2].detail.contains("tokens, exact"), qPrintable(entries[2].detail));
    entries[2].choose();
    QVERIFY(waitFor([&] {
      return window->controller()->currentRun() == 2 && window->controller()->headData() &&
             window->controller()->settled();
    }));
    const auto now = window->selection()->current();
    QCOMPARE(now.run, 2);
    QCOMPARE(now.layer, 1);
    QCOMPARE(now.head, 2);
    QCOMPARE(now.slot, 5);
    QCOMPARE(now.token, qint64(40));
    QCOMPARE(window->controller()->headData()->run, 2);
    QCOMPARE(window->controller()->headData()->layer, 1);
    QVERIFY(window->bar()->prompt()->entries()[2].current);
  }

  void theChipHasAFilterForManyRuns() {
    const QString file = passwords(12);
    auto window = openModel();
    QVERIFY(window);
    RunSettings settings;
    settings.mode = RunSettings::Mode::file;
    settings.prompts = file;
    settings.generate = 0;
    window->controller()->run(settings);
    QVERIFY(waitFor([&] { return window->controller()->headData() && window->controller()->settled(); }));
    window->bar()->prompt()->click();
    QFrame* popup = nullptr;
    for (QFrame* frame : window->bar()->prompt()->findChildren<QFrame*>())
      if (frame->isWindow()) popup = frame;
    QVERIFY(popup);
    auto* list = popup->findChild<QListWidget*>();
    auto* filter = popup->findChild<QLineEdit*>();
    QVERIFY(list && filter && filter->isVisible());
    QCOMPARE(list->count(), 12);
    filter->setText("· 11");
    int shown = 0;
    for (int i = 0; i < list->count(); ++i) shown += !list->item(i)->isHidden();
    QCOMPARE(shown, 1);
    QTest::keyClick(filter, Qt::Key_Return);
    QVERIFY(
        waitFor([&] { return window->controller()->currentRun() == 11 && window->controller()->settled(); }));
  }

  void thousandsOfRows() {
    QByteArray lines;
    for (int i = 0; i < 10'000; ++i)
      lines += "{\"prompt\": \"row " + QByteArray::number(i) + " of many\", \"answer\": \"many\"}\n";
    const QString file = write("many.jsonl", lines);
    auto window = openModel();
    QVERIFY(window);
    QElapsedTimer timer;
    timer.start();
    window->openPath(file);
    QVERIFY(waitFor([&] { return window->promptsDialog() && window->promptsDialog()->model()->usable(0); }));
    qInfo("10 000 rows: the first is there after %lld ms", timer.elapsed());
    QVERIFY(listed(*window));
    PromptsDialog& dialog = *window->promptsDialog();
    QCOMPARE(dialog.model()->rowCount(), 10'000);
    // Tokens are counted where one looks, not everywhere.
    QVERIFY(waitFor([&] { return dialog.model()->tokens(0) > 0; }));
    QCOMPARE(dialog.model()->tokens(5'000), qint64(-1));
    dialog.table()->scrollTo(dialog.table()->model()->index(9'999, 0));
    QVERIFY(waitFor([&] { return dialog.model()->tokens(9'999) > 0; }));
    QCOMPARE(dialog.model()->tokens(5'000), qint64(-1));
    dialog.filter()->setText("row 777 ");
    QCOMPARE(dialog.table()->model()->rowCount(), 1);
    dialog.filter()->setText("nothing like it");
    QCOMPARE(dialog.table()->model()->rowCount(), 0);
    dialog.filter()->clear();
    // All of them at once are more than a trace should hold unasked.
    RunSettings settings = window->runPanel()->settings();
    settings.rows.clear();
    window->controller()->run(settings);
    QVERIFY(waitFor([&] { return !window->controller()->running() && window->banners()->count() == 1; }));
    QVERIFY2(window->banners()->text().contains("10000 rows"), qPrintable(window->banners()->text()));
  }

  void oddAndBrokenRows() {
    const QString file =
        write("odd.jsonl",
              "{\"prompt\": \"The code is 1.\\nWhich?\", \"answer\": \"2\"}\n{\"prompt\": 7}\n"
              "{\"prompt\": \"" +
                  QByteArray(200'000, 'x') + "\"}\n");
    auto window = openModel();
    QVERIFY(window);
    window->openPath(file);
    QVERIFY(listed(*window));
    PromptsDialog& dialog = *window->promptsDialog();
    QVERIFY(dialog.model()
                ->index(0, PromptRowsModel::AnswerColumn)
                .data(Qt::ToolTipRole)
                .toString()
                .contains("not in the prompt"));
    QVERIFY(!dialog.model()->usable(1));
    QVERIFY(cell(*window, 1, PromptRowsModel::TextColumn).contains("line 2"));
    QVERIFY(cell(*window, 2, PromptRowsModel::TextColumn).size() < 200);
    dialog.table()->selectAll();
    QCOMPARE(dialog.chosen(), (std::vector<int64_t>{0, 2}));
    dialog.choose("0");
    dialog.runButton()->click();
    QVERIFY(waitFor([&] { return window->controller()->runData() && window->controller()->settled(); }));
    QCOMPARE(window->banners()->count(), 1);
    QVERIFY2(window->banners()->text().contains("'2' is not in the prompt"),
             qPrintable(window->banners()->text()));
    QCOMPARE(int(window->banners()->current()->level), int(Problem::Level::warning));
  }

  void whatIsNoFileOfPromptsIsABanner() {
    auto window = openModel();
    QVERIFY(window);
    for (const auto& [name, bytes, word] : {std::tuple{"a.jsonl", QByteArray(), "empty"},
                                            std::tuple{"b.jsonl", QByteArray("{\"x\":1}\n"), "keys x"},
                                            std::tuple{"c.jsonl", QByteArray("\x1F\x8B\x08"), "gunzip"},
                                            std::tuple{"d.json", QByteArray("{"), "not valid JSON"}}) {
      const QString file = write(name, bytes);
      window->openPath(file);
      QVERIFY(waitFor([&, w = QString(word)] { return window->banners()->text().contains(w); }));
      QVERIFY2(window->banners()->text().contains(name), qPrintable(window->banners()->text()));
    }
    QVERIFY(!window->promptsDialog());
  }

  void droppedFilesAreImported() {
    const QString file = passwords(2);
    auto window = openModel();
    QVERIFY(window);
    QMimeData data;
    data.setUrls({QUrl::fromLocalFile(file)});
    QDragEnterEvent enter(QPoint(400, 300), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(window.get(), &enter);
    QVERIFY(enter.isAccepted());
    QDropEvent drop(QPointF(400, 300), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(window.get(), &drop);
    QVERIFY(drop.isAccepted());
    QVERIFY(listed(*window));
    QCOMPARE(window->promptsDialog()->model()->rowCount(), 2);
  }

  void withoutACheckpointRowsAreListedAndNotRun() {
    const QString file = passwords(2);
    MainWindow window;
    window.resize(1280, 800);
    window.show();
    window.openPath(file);
    QVERIFY(listed(window));
    QVERIFY(!window.promptsDialog()->runButton()->isEnabled());
    QVERIFY(window.promptsDialog()->runButton()->toolTip().contains("checkpoint"));
    QCOMPARE(cell(window, 0, PromptRowsModel::TokensColumn), QString("–"));
    window.openPath(bundled());
    QVERIFY(waitFor([&] { return window.promptsDialog()->model()->tokens(1) == 200; }));
    QVERIFY(window.promptsDialog()->runButton()->isEnabled());
  }

  void pictures_data() {
    QTest::addColumn<int>("theme");
    QTest::newRow("light") << int(ThemeChoice::light);
    QTest::newRow("dark") << int(ThemeChoice::dark);
  }
  // A row of lm-eval: key and value are told apart, the value has the retrieval colour, the verdict is the
  // score's.
  void pictures() {
    QFETCH(int, theme);
    const QString tag = QTest::currentDataTag();
    auto window = openModel(ThemeChoice(theme));
    QVERIFY(window);
    window->openPath(sourceFile("tests/data/prompts/niah_single_1.jsonl"));
    QVERIFY(listed(*window));
    QVERIFY(waitFor([&] { return window->promptsDialog()->model()->tokens(2) >= 0; }));
    window->promptsDialog()->choose("0:3");
    QTest::qWait(200);
    save(*window->promptsDialog(), "prompts-dialog-" + tag);
    window->promptsDialog()->close();
    RunSettings settings = window->runPanel()->settings();
    settings.rows.clear();
    settings.generate = 12;
    window->controller()->run(settings);
    QVERIFY(waitFor([&] { return window->controller()->headData() && window->controller()->settled(); }));
    QVERIFY2(window->banners()->count() == 0, qPrintable(window->banners()->text()));
    const auto& run = window->controller()->runData()->info();
    QVERIFY(run.score && *run.score == 0);
    QVERIFY(window->findView("heatmap"));
    window->findView("heatmap")->setFocus();
    window->selection()->request({.token = 0});
    QTest::keyClick(window->findView("heatmap"), Qt::Key_K);
    QCOMPARE(window->selection()->current().token, qint64(run.span("value")->begin));
    QTest::qWait(300);
    settle(*window);
    save(*window, "prompts-run-" + tag);
    bool verdict = false;
    for (views::View* view : window->allViews())
      if (view->figureKind() == "output")
        verdict = view->csv().contains("score") && view->accessibleName().contains("not found");
    QVERIFY(verdict);
  }
};

QTEST_MAIN(TestPrompts)
#include "test_prompts.moc"
