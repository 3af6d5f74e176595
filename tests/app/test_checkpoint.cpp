// The Checkpoint panel and the Tensor view: what is shown of a checkpoint, one tensor's numbers, folders that
// are odd or large.
#include <QClipboard>
#include <QComboBox>
#include <QDropEvent>
#include <QLabel>
#include <QLineEdit>
#include <QListView>
#include <QMimeData>
#include <QPushButton>
#include <QTableView>
#include <QThread>
#include <QToolButton>
#include <QTreeView>
#include <atomic>
#include <cmath>

#include "app/window/banner.h"
#include "app/window/checkpoint_panel.h"
#include "app/window/details_model.h"
#include "app/window/docks.h"
#include "app/window/locations.h"
#include "app/window/tensor_model.h"
#include "app/window/tensor_reader.h"
#include "core/error.h"
#include "core/formats/values.h"
#include "tests/app/window_test.h"
#include "tests/cases/formats/listed_checkpoint.h"
#include "views/format.h"
#include "views/tensor_view.h"

using namespace slotscope;
using namespace slotscope::app;
using namespace slotscope::testing;

namespace {

struct Stored {
  QByteArray name, dtype, shape, bytes;
};

void writeFile(const QString& path, const QByteArray& bytes) {
  QFile file(path);
  QVERIFY(file.open(QIODevice::WriteOnly));
  file.write(bytes);
}

// A safetensors file of these tensors; every name must need no escape.
void writeSafetensors(const QString& path, const QList<Stored>& tensors, const QByteArray& metadata = {}) {
  QByteArray header = "{", data;
  if (!metadata.isEmpty()) header += "\"__metadata__\":" + metadata + ",";
  for (const auto& t : tensors) {
    header += '"' + t.name + "\":{\"dtype\":\"" + t.dtype + "\",\"shape\":" + t.shape +
              ",\"data_offsets\":[" + QByteArray::number(data.size()) + "," +
              QByteArray::number(data.size() + t.bytes.size()) + "]},";
    data += t.bytes;
  }
  header.chop(1);
  header += '}';
  header = header.leftJustified((header.size() + 7) / 8 * 8, ' ');
  const quint64 size = quint64(header.size());
  writeFile(path, QByteArray(reinterpret_cast<const char*>(&size), 8) + header + data);
}

template <class T>
QByteArray bytesOf(const std::vector<T>& values) {
  return QByteArray(reinterpret_cast<const char*>(values.data()), qsizetype(values.size() * sizeof(T)));
}

std::shared_ptr<OpenCheckpoint> openOf(std::shared_ptr<const formats::Checkpoint> checkpoint) {
  auto open = std::make_shared<OpenCheckpoint>();
  open->checkpoint = std::move(checkpoint);
  open->summary = formats::summarise_listing(*open->checkpoint);
  open->name = "listed";
  return open;
}

}  // namespace

class TestCheckpoint : public QObject {
  Q_OBJECT
  Scratch scratch_;

  static void save(QWidget& window, const QString& name) {
    const QString folder = qEnvironmentVariable("SLOTSCOPE_PICTURES");
    if (!folder.isEmpty()) window.grab().save(folder + "/" + name + ".png");
  }
  std::unique_ptr<MainWindow> open(const QString& path, ThemeChoice theme = ThemeChoice::light,
                                   QSize size = {1280, 800}) {
    auto window = std::make_unique<MainWindow>();
    window->setThemeChoice(theme);
    window->resize(size);
    window->restoreDefaultLayout();
    window->show();
    window->openPath(path);
    if (!waitFor(
            [&] { return window->controller()->checkpoint() != nullptr || window->banners()->count() > 0; }))
      return nullptr;
    settle(*window);
    return window;
  }
  static views::TensorView* tensorView(MainWindow& window) {
    return qobject_cast<views::TensorView*>(window.findView("tensor"));
  }
  static int position(MainWindow& window, const char* name) {
    const auto& c = *window.controller()->checkpoint()->checkpoint;
    const auto* found = c.find(name);
    return found ? int(found - c.tensors().data()) : -1;
  }

  // A folder of one file, with or without a config.
  static void fillFolder(const QString& folder, const QByteArray& config = {}) {
    std::vector<float> ramp(60);
    for (size_t i = 0; i < ramp.size(); ++i) ramp[i] = float(i) / 8 - 2;
    std::vector<float> odd{1, NAN, 2, INFINITY, -INFINITY, 3, NAN, 0};
    writeSafetensors(folder + "/model.safetensors",
                     {{"layers.0.ramp", "F32", "[5,12]", bytesOf(ramp)},
                      {"layers.2.odd", "F32", "[8]", bytesOf(odd)},
                      {"layers.10.ids", "I64", "[4]", bytesOf<int64_t>({9007199254740993, 1, 2, 2})},
                      {"layers.10.few", "I64", "[6]", bytesOf<int64_t>({3, 1, 2, 2, 2, 3})},
                      {"empty", "F32", "[0,3]", {}},
                      {"scale", "F8_E8M0", "[2]", QByteArray(2, '\x7f')}},
                     R"({"format":"pt","note":"made by hand"})");
    if (!config.isEmpty()) writeFile(folder + "/config.json", config);
  }
  static bool choose(MainWindow& window, const char* name) {
    const int at = position(window, name);
    if (at < 0) return false;
    window.checkpointPanel()->selectTensor(at);
    Q_EMIT window.checkpointPanel()->tensorChosen(at, true);
    return settle(window);
  }
  static QString plain(QString text) {
    return text.replace(QChar(0x00A0), ' ');
  }  // sizes keep their unit with them
  // What a section of the Details page says, or an empty list.
  static QStringList section(CheckpointPanel& panel, const QString& title) {
    QStringList rows;
    for (const auto& s : panel.details()->sections())
      if (s.title.startsWith(title))
        for (const auto& row : s.rows) rows << plain(row.name + ": " + row.value);
    return rows;
  }
  static QString rowOf(const views::TensorHistogramView& view, const QString& name) {
    for (const auto& [key, value] : view.statisticsRows())
      if (key == name) return value;
    return {};
  }

 private Q_SLOTS:
  void initTestCase() { useVolatileSettings(); }

  void pictures_data() {
    QTest::addColumn<int>("theme");
    QTest::newRow("light") << int(ThemeChoice::light);
    QTest::newRow("dark") << int(ThemeChoice::dark);
  }
  void pictures() {
    QFETCH(int, theme);
    const QString tag = QTest::currentDataTag();
    auto w = open(bundled(), ThemeChoice(theme));
    QVERIFY(w);
    w->showPanel("panel.checkpoint");
    auto* panel = w->checkpointPanel();
    QTest::qWait(50);
    save(*w, "checkpoint-tensors-" + tag);
    panel->showPage(CheckpointPanel::Config);
    QTest::qWait(50);
    save(*w, "checkpoint-config-" + tag);
    panel->showPage(CheckpointPanel::Details);
    QTest::qWait(50);
    save(*w, "checkpoint-details-" + tag);
    panel->showPage(CheckpointPanel::Tensors);
    panel->selectTensor(position(*w, "model.layers.0.attn.q_proj.weight"));
    Q_EMIT panel->tensorChosen(panel->currentTensor(), true);
    QVERIFY(settle(*w));
    QTest::qWait(200);
    save(*w, "checkpoint-tensor-" + tag);
    tensorView(*w)->histogramView()->setLogCounts(true);
    w->controller()->tensorReader()->setSymmetricLog(true);
    QVERIFY(settle(*w));
    QTest::qWait(100);
    save(*w, "checkpoint-tensor-log-" + tag);
  }

  // ---- the panel

  void unknownFamiliesOpenAsAParameterList() {
    QTemporaryDir folder;
    fillFolder(folder.path(), R"({"model_type": "frobnet", "width": 12, "nested": {"a": [1, 2]}})");
    auto w = open(folder.path());
    QVERIFY(w);
    auto* panel = w->checkpointPanel();
    QVERIFY(!w->controller()->checkpoint()->info);
    QCOMPARE(panel->tensors()->shownTensors(), 6);
    QCOMPARE(panel->messages().size(), 1);
    QVERIFY2(panel->messages()[0].contains("frobnet"), qPrintable(panel->messages()[0]));
    // The configuration as it is written, since nobody reads it.
    QCOMPARE(panel->config()->rowCount(), 3);
    QStringList keys;
    for (int r = 0; r < 3; ++r)
      keys << panel->config()->index(r, 0).data().toString() + "=" +
                  panel->config()->index(r, 1).data().toString();
    QVERIFY(keys.contains("model_type=frobnet"));
    QVERIFY(keys.contains("nested={\"a\":[1,2]}"));
    QCOMPARE(section(*panel, "Files"), QStringList{"model.safetensors: 6 tensors, 354 B"});
    QVERIFY(section(*panel, "Data types").contains("F32: 3 tensors, 68 elements, 272 B"));
    QVERIFY(section(*panel, "File metadata").contains("note: made by hand"));
    QVERIFY(choose(*w, "layers.0.ramp"));
    QVERIFY(tensorView(*w));
    QCOMPARE(tensorView(*w)->histogramView()->histogram().elements, quint64(60));
    for (const ThemeChoice theme : {ThemeChoice::light, ThemeChoice::dark}) {
      w->setThemeChoice(theme);
      QTest::qWait(50);
      save(*w, theme == ThemeChoice::light ? "checkpoint-unknown-light" : "checkpoint-unknown-dark");
    }
  }

  void weightsWithoutConfig() {
    QTemporaryDir folder;
    fillFolder(folder.path());
    auto w = open(folder.filePath("model.safetensors"));
    QVERIFY(w);
    QCOMPARE(w->checkpointPanel()->tensors()->shownTensors(), 6);
    QCOMPARE(w->checkpointPanel()->config()->rowCount(), 0);
    w->checkpointPanel()->showPage(CheckpointPanel::Config);
    save(*w, "checkpoint-no-config");
  }

  void foldersWithoutWeightsSayWhatIsMissing() {
    QTemporaryDir empty, config;
    writeFile(config.filePath("config.json"), "{}");
    MainWindow window;
    window.show();
    window.openPath(empty.path());
    QVERIFY(waitFor([&] { return window.banners()->count() == 1; }));
    QVERIFY2(window.banners()->text().contains("no weights"), qPrintable(window.banners()->text()));
    window.openPath(config.path());
    QVERIFY(waitFor([&] { return window.banners()->count() == 2; }));
    QVERIFY2(window.banners()->text().contains("config.json"), qPrintable(window.banners()->text()));
    QVERIFY(!window.controller()->checkpoint());
    window.showPanel("panel.checkpoint");
    save(window, "checkpoint-nothing");
  }

  // A stale index: the banner does what its text advises.
  void aStaleIndexCanBeIgnored() {
    QTemporaryDir folder;
    writeSafetensors(folder.filePath("model-00001-of-00002.safetensors"), {{"a", "U8", "[2]", "ab"}});
    writeFile(
        folder.filePath("model.safetensors.index.json"),
        R"({"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}})");
    MainWindow window;
    window.show();
    window.openPath(folder.path());
    QVERIFY(waitFor([&] { return window.banners()->count() == 1; }));
    const Problem* problem = window.banners()->current();
    QVERIFY(problem && !problem->action.isEmpty() && problem->on_action);
    const auto act = problem->on_action;
    act();
    QVERIFY(waitFor([&] { return window.controller()->checkpoint() != nullptr; }));
    QVERIFY(window.controller()->checkpoint()->options.ignore_index);
    QCOMPARE(window.checkpointPanel()->tensors()->shownTensors(), 1);
    // Reading it again keeps the choice.
    QVERIFY(settle(window));
    const auto before = window.controller()->checkpoint();
    window.controller()->reload();
    QVERIFY(waitFor([&] { return window.controller()->checkpoint() != before; }));
    QVERIFY(window.controller()->checkpoint()->options.ignore_index);
  }

  void sharedIgnoredAndCandidates() {
    auto c = std::make_shared<ListedCheckpoint>();
    c->file_format = formats::FileFormat::torch_zip;
    c->file_list = {"/models/listed/pytorch_model.bin"};
    c->add("embed.weight", {10, 4});
    c->tie("head.weight", "embed.weight");
    auto& part = c->tie("part", "embed.weight");
    part.shape = {2, 4};
    part.bytes = 32;
    part.strides = {1, 2};
    c->sort();
    c->ignored_list = {{"ema", "averaged weights, 3 tensors", 160},
                       {"optimizer", "optimiser state, 6 tensors", 320},
                       {"epoch", "a number", 0}};
    c->note_list = {
        "weights are read from 'model', 1 of 3 candidates; not read: 'ema' (averaged weights, 3 tensors)"};
    c->warning_list = {
        "first warning of the folder",
        "second warning, with a long path /models/listed/a/b/c/d/e/f/g/h/i/j/k/l/m/pytorch_model.bin in it"};
    CheckpointPanel panel;
    panel.resize(232, 600);
    panel.show();
    panel.setCheckpoint(openOf(c));
    QVERIFY(section(panel, "Shared memory").contains("head.weight: same values as embed.weight"));
    QVERIFY(section(panel, "Shared memory").contains("part: another view of the memory of embed.weight"));
    QCOMPARE(section(panel, "Left out"),
             (QStringList{"ema: averaged weights, 3 tensors, 160 B",
                          "optimizer: optimiser state, 6 tensors, 320 B", "epoch: a number"}));
    QVERIFY(section(panel, "Data types").contains("F32: 3 tensors, 48 elements, 192 B"));
    const auto lines = panel.findChildren<QLabel*>();
    QVERIFY(std::any_of(lines.begin(), lines.end(), [](QLabel* l) {
      return plain(l->text()) == "torch.save (zip) · 3 tensors · 160 B";
    }));
    // Optimiser state is no choice; the averages are.
    QCOMPARE(panel.candidates()->count(), 2);
    QCOMPARE(panel.candidates()->itemText(0), QString("model, 1 of 2 choices"));
    QSignalSpy chosen(&panel, &CheckpointPanel::weightsChosen);
    panel.candidates()->setCurrentIndex(1);
    Q_EMIT panel.candidates()->activated(1);
    QCOMPARE(chosen.size(), 1);
    QCOMPARE(chosen[0][0].toString(), QString("ema"));
    // One row each, selectable, copied as they are.
    QCOMPARE(panel.messages().size(), 2);
    auto* list = panel.findChild<QListView*>();
    QCOMPARE(list->model()->rowCount(), 2);
    QVERIFY(list->visualRect(list->model()->index(1, 0)).height() >
            list->visualRect(list->model()->index(0, 0)).height());
    QTest::qWait(50);
    list->selectAll();
    QTest::keyClick(list, Qt::Key_C, Qt::ControlModifier);
    QCOMPARE(QGuiApplication::clipboard()->text(),
             QString("first warning of the folder\nsecond warning, with a long path "  // without the folder's own
                     "a/b/c/d/e/f/g/h/i/j/k/l/m/pytorch_model.bin in it"));
    save(panel, "panel-messages");
    panel.showPage(CheckpointPanel::Details);
    QTest::qWait(50);
    save(panel, "panel-details");
    const auto facts = TensorReader::facts(*openOf(c), 2);
    QCOMPARE(facts.name, QString("part"));
    QCOMPARE(facts.shares_with, QString("embed.weight"));
    QVERIFY(facts.sharing.contains("another view"));
    QVERIFY2(facts.lines.join('\n').contains("strides 1, 2"), qPrintable(facts.lines.join('\n')));
  }

  void layersAreInTheOrderOfNumbers() {
    auto c = std::make_shared<ListedCheckpoint>();
    for (const char* name : {"m.1.w", "m.10.w", "m.2.w", "m.norm", "m.9.a", "m.9.b"}) c->add(name, {2});
    c->sort();
    TensorModel model;
    model.setCheckpoint(c);
    const QModelIndex m = model.index(0, 0);
    QStringList names;
    for (int r = 0; r < model.rowCount(m); ++r) names << model.index(r, 0, m).data().toString();
    QCOMPARE(names, (QStringList{"1.w", "2.w", "9", "10.w", "norm"}));
    QCOMPARE(model.fullName(model.index(2, 0, m)), QString("m.9.*"));
    QCOMPARE(model.fullName(model.index(3, 0, m)), QString("m.10.w"));
    // Every tensor is found where it is, and its index leads back to it.
    for (int t = 0; t < 6; ++t) QCOMPARE(model.tensorAt(model.indexOf(t)), t);
    QCOMPARE(model.index(0, TensorModel::Size, QModelIndex()).data().toString(), views::bytes(48));
  }

  void namesOfTenThousandCharacters() {
    auto c = std::make_shared<ListedCheckpoint>();
    std::string dots, letters(10'000, 'x');
    for (int i = 0; i < 5'000; ++i) dots += "a.";
    for (int i = 0; i < 50; ++i) c->add(dots + std::to_string(i), {2});
    c->add(letters, {3});
    c->add("line\nbreak\x01", {1});
    c->add(std::string("\xE2\x80\xAE") + "evil", {1});  // right-to-left override
    c->sort();
    CheckpointPanel panel;
    panel.resize(232, 500);
    panel.show();
    QElapsedTimer timer;
    timer.start();
    panel.setCheckpoint(openOf(c));
    panel.tree()->expandAll();
    panel.filter()->setText("xxx");
    QCOMPARE(panel.tensors()->shownTensors(), 1);
    const QModelIndex row = panel.tensors()->index(0, 0);
    QCOMPARE(panel.tensors()->fullName(row).size(), 10'000);
    QVERIFY(row.data().toString().size() <= 401);
    QVERIFY(row.data(Qt::ToolTipRole).toString().size() < 2'000);
    for (const QString& line : row.data(Qt::ToolTipRole).toString().split('\n')) QVERIFY(line.size() <= 80);
    panel.filter()->clear();
    QStringList shown;
    for (int r = 0; r < panel.tensors()->rowCount(); ++r)
      shown << panel.tensors()->index(r, 0).data().toString();
    QVERIFY2(shown.contains(QString("line") + QChar(0x21B5) + "break\\u0001"),
             qPrintable(shown.join('|').left(300)));
    QVERIFY(shown.contains("\\u202eevil"));
    panel.grab();
    QVERIFY2(timer.elapsed() < 5'000, qPrintable(QString::number(timer.elapsed())));
  }

  void aHundredThousandTensorsStayFluid() {
    auto c = std::make_shared<ListedCheckpoint>();
    c->tensor_list.reserve(100'000);
    for (int layer = 0; layer < 1'000; ++layer)
      for (int expert = 0; expert < 100; ++expert)
        c->add("model.layers." + std::to_string(layer) + ".experts." + std::to_string(expert) + ".weight",
               {64, 64});
    c->sort();
    const auto open = openOf(c);
    CheckpointPanel panel;
    panel.resize(320, 700);
    panel.show();
    QElapsedTimer timer;
    const auto within = [&](const char* what, qint64 ms) {
      const qint64 spent = timer.restart();
      qInfo("%s: %lld ms", what, static_cast<long long>(spent));
      return spent <= ms;
    };
    timer.start();
    panel.setCheckpoint(open);
    QVERIFY(within("set", 2'000));
    panel.tree()->expandAll();
    panel.grab();
    QVERIFY(within("expand all and draw", 3'000));
    panel.tree()->scrollToBottom();
    panel.grab();
    QVERIFY(within("scroll to the end and draw", 500));
    for (const char* text : {"7", "77", "layers.77", "*77*weight", "nothing at all", ""}) {
      panel.filter()->setText(text);
      panel.grab();
      QVERIFY(within(text, 1'000));
    }
    QCOMPARE(panel.tensors()->shownTensors(), 100'000);
    panel.selectTensor(99'999);
    QVERIFY(within("select the last", 500));
    QCOMPARE(panel.currentTensor(), 99'999);
  }

  // ---- one tensor

  void statisticsOfATensor() {
    QTemporaryDir folder;
    fillFolder(folder.path());
    auto w = open(folder.filePath("model.safetensors"));
    QVERIFY(w);
    QCOMPARE(w->viewArea()->docks().size(), 4);  // no Tensor view until a tensor is chosen
    QVERIFY(choose(*w, "layers.2.odd"));
    auto* view = tensorView(*w);
    QVERIFY(view);
    const auto& h = view->histogramView()->histogram();
    QCOMPARE(h.elements, quint64(8));
    QCOMPARE(h.finite, quint64(4));
    QCOMPARE(h.nan, quint64(2));
    QCOMPARE(h.positive_infinity, quint64(1));
    QCOMPARE(h.negative_infinity, quint64(1));
    QCOMPARE(h.mean, 1.5);
    QCOMPARE(h.deviation, std::sqrt(5.0) / 2);  // of 0, 1, 2, 3 as a population
    quint64 counted = 0;
    for (const quint64 n : h.counts) counted += n;
    QCOMPARE(counted, quint64(4));
    QCOMPARE(rowOf(*view->histogramView(), "NaN"), QString("2"));
    QVERIFY2(plain(view->factsText()).contains("8 · F32 · 8 elements · 32 B"), qPrintable(view->factsText()));
    QVERIFY(view->factsText().contains("model.safetensors, from byte"));
    // Eight values, exactly.
    auto* table = view->previewTable()->model();
    QCOMPARE(table->rowCount(), 8);
    QCOMPARE(table->columnCount(), 1);
    QCOMPARE(table->index(0, 0).data().toString(), QString("1"));
    QCOMPARE(table->index(7, 0).data().toString(), QString("0"));

    QVERIFY(choose(*w, "layers.10.ids"));
    QCOMPARE(table->index(0, 0).data().toString(), QString("9007199254740993"));  // no double holds it
    QCOMPARE(rowOf(*view->histogramView(), "maximum"), QString("9007199254740993"));
    QVERIFY(!view->histogramView()->histogram().whole);

    QVERIFY(choose(*w, "layers.10.few"));
    const auto& few = view->histogramView()->histogram();
    QVERIFY(few.whole);
    QCOMPARE(few.counts, (QVector<quint64>{1, 3, 2}));
    QCOMPARE(few.edges, (QVector<double>{0.5, 1.5, 2.5, 3.5}));

    QVERIFY(choose(*w, "layers.0.ramp"));
    QCOMPARE(table->rowCount(), 5);
    QCOMPARE(table->columnCount(), 12);
    for (int r = 0; r < 5; ++r)
      for (int c = 0; c < 12; ++c)
        QCOMPARE(table->index(r, c).data().toString().toDouble(), double(r * 12 + c) / 8 - 2);
    // Copying a block keeps its form.
    view->previewTable()->selectionModel()->select(QItemSelection(table->index(0, 0), table->index(1, 1)),
                                                   QItemSelectionModel::ClearAndSelect);
    QTest::keyClick(view->previewTable(), Qt::Key_C, Qt::ControlModifier);
    QCOMPARE(QGuiApplication::clipboard()->text(), QString("-2\t-1.875\n-0.5\t-0.375"));

    QVERIFY(choose(*w, "empty"));
    QVERIFY2(view->histogramView()->accessibleName().contains("no elements"),
             qPrintable(view->histogramView()->accessibleName()));
    QVERIFY(choose(*w, "scale"));
    QVERIFY2(view->message().contains("F8_E8M0"), qPrintable(view->message()));
    QVERIFY(!view->reading());
    save(*w, "checkpoint-cannot-compute");
    QVERIFY(!w->controller()->jobs()->anyRunning());
    QVERIFY(settle(*w));
    // Another folder: no number of the old one stays.
    w->openPath(bundled());
    QVERIFY(waitFor([&] { return w->controller()->checkpoint()->info != nullptr; }));
    QCOMPARE(view->histogramView()->histogram().elements, quint64(0));
    QVERIFY(view->message().contains("Choose a tensor"));
  }

  void theSpacingOfBinsCanBeChanged() {
    QTemporaryDir folder;
    fillFolder(folder.path());
    auto w = open(folder.filePath("model.safetensors"));
    QVERIFY(w && choose(*w, "layers.0.ramp"));
    auto* view = tensorView(*w);
    QVERIFY(!view->histogramView()->histogram().symmetric_log);
    Q_EMIT view->histogramView()->scaleRequested(true);
    QVERIFY(settle(*w));
    const auto& h = view->histogramView()->histogram();
    QVERIFY(w->controller()->tensorReader()->symmetricLog());
    QVERIFY2(
        h.symmetric_log && h.unit > 0,
        qPrintable(
            QString("%1 %2 %3 %4").arg(view->message()).arg(h.symmetric_log).arg(h.unit).arg(h.elements)));
    quint64 counted = 0;
    for (const quint64 n : h.counts) counted += n;
    QCOMPARE(counted, quint64(60));
  }

  // "Shares memory with" leads to the other tensor, in the list too.
  void sharedTensorsAreOneClickApart() {
    QTemporaryDir folder;
    fillFolder(folder.path());
    auto w = open(folder.filePath("model.safetensors"));
    QVERIFY(w && choose(*w, "layers.0.ramp"));
    w->checkpointPanel()->filter()->setText("ramp");
    Q_EMIT tensorView(*w)->tensorRequested("layers.2.odd");
    QVERIFY(settle(*w));
    QCOMPARE(tensorView(*w)->histogramView()->histogram().tensor, QString("layers.2.odd"));
    QCOMPARE(w->checkpointPanel()->currentTensor(), position(*w, "layers.2.odd"));
    QVERIFY(w->checkpointPanel()->filter()->text().isEmpty());  // it would hide the row
  }

  // A tensor that takes long: its bar, its cancel, and another tensor that takes its place.
  void longReadingIsCancelled() {
    auto c = std::make_shared<ListedCheckpoint>();
    c->add("large", {1 << 28});
    c->add("other", {4});
    c->add("third", {4});
    std::atomic<int> slices = 0;
    c->read = [&](const formats::TensorInfo& t, uint64_t, uint64_t count) -> formats::TensorData {
      if (t.name == "large") ++slices, QThread::msleep(15);
      const auto values = std::make_shared<std::vector<float>>(count, 1.5F);
      return {std::as_bytes(std::span<const float>(*values)), values};
    };
    JobModel jobs;
    TensorReader reader(&jobs);
    views::TensorView view;
    view.resize(700, 500);
    view.show();
    connect(&reader, &TensorReader::changed, &view, [&] { reader.tell(&view); });
    connect(&reader, &TensorReader::progressed, &view, &views::TensorView::setProgress);
    connect(&view, &views::TensorView::cancelRequested, &reader, &TensorReader::cancel);
    connect(&view, &views::TensorView::readRequested, &reader, &TensorReader::readAgain);
    reader.setCheckpoint(openOf(c));
    reader.read(0);
    QVERIFY(waitFor([&] { return view.reading() && slices > 2; }, 20'000));
    QVERIFY(view.cancelButton()->isVisible());
    QCOMPARE(view.previewTable()->model()->index(0, 0).data().toString(),
             QString("1.5"));  // there before the numbers
    save(view, "tensor-reading");
    QElapsedTimer timer;
    timer.start();
    QTest::mouseClick(view.cancelButton(), Qt::LeftButton);
    QVERIFY(waitFor([&] { return !reader.busy() && !jobs.anyRunning(); }, 20'000));
    QVERIFY2(timer.elapsed() < 2'000, qPrintable(QString::number(timer.elapsed())));
    QVERIFY(!view.reading());
    // No zero is shown for what was not read.
    QVERIFY2(view.histogramView()->accessibleName().contains("not read"),
             qPrintable(view.histogramView()->accessibleName()));
    QVERIFY(view.csv().isEmpty());
    QVERIFY2(view.message().startsWith("Cancelled"), qPrintable(view.message()));
    QCOMPARE(view.histogramView()->histogram().elements, quint64(0));
    save(view, "tensor-cancelled");
    // Again, and then another tensor: the old job ends, its numbers never arrive.
    reader.readAgain();
    QVERIFY(waitFor([&] { return view.reading(); }, 20'000));
    timer.restart();
    reader.read(1);
    QVERIFY(waitFor([&] { return view.histogramView()->histogram().elements == 4; }, 20'000));
    QVERIFY2(timer.elapsed() < 2'000, qPrintable(QString::number(timer.elapsed())));
    QCOMPARE(view.histogramView()->histogram().tensor, QString("other"));
    QVERIFY(waitFor([&] { return !jobs.anyRunning(); }, 20'000));
    // Moving on faster than anything is read: the last one is what is shown.
    for (int i = 0; i < 30; ++i) reader.read(i % 2 ? 0 : 2);
    reader.read(2);
    QVERIFY(waitFor([&] { return !reader.busy() && !jobs.anyRunning(); }, 20'000));
    QCOMPARE(view.histogramView()->histogram().tensor, QString("third"));
    // What fails says so and can be tried again.
    c->read = [](const formats::TensorInfo&, uint64_t, uint64_t) -> formats::TensorData {
      throw Error({.file = "/models/listed/model.safetensors", .found = "shorter than when it was opened"});
    };
    reader.read(1);
    QVERIFY(waitFor([&] { return view.message().contains("shorter"); }, 20'000));
    QVERIFY(!jobs.anyRunning());
  }

  void valuesAreShownAtBothEnds() {
    ListedCheckpoint c;
    c.add("cube", {3, 7, 20});
    c.add("vector", {1'000});
    c.add("scalar", {});
    c.read = [](const formats::TensorInfo&, uint64_t first, uint64_t count) -> formats::TensorData {
      const auto values = std::make_shared<std::vector<float>>(count);
      for (uint64_t i = 0; i < count; ++i) (*values)[i] = float(first + i);
      return {std::as_bytes(std::span<const float>(*values)), values};
    };
    const auto cube = TensorReader::preview(c, c.tensors()[0]);
    QCOMPARE(cube.rows.size(), 12);  // 6, the gap, 5 of 21
    QCOMPARE(cube.columns.size(), 12);
    QCOMPARE(cube.rows.first(), QString("0, 0"));
    QCOMPARE(cube.rows.last(), QString("2, 6"));
    QCOMPARE(cube.columns.last(), QString("19"));
    QCOMPARE(cube.cells.first().first(), QString("0"));
    QCOMPARE(cube.cells.last().last(), QString("419"));
    QCOMPARE(cube.cells[1][2], QString("22"));
    QCOMPARE(cube.cells[6][0], QString("…"));
    QCOMPARE(cube.cells[0][6], QString("…"));
    const auto vector = TensorReader::preview(c, c.tensors()[1]);
    QCOMPARE(vector.columns, QStringList{"value"});
    QCOMPARE(vector.rows.last(), QString("999"));
    QCOMPARE(vector.cells.last().first(), QString("999"));
    const auto scalar = TensorReader::preview(c, c.tensors()[2]);
    QCOMPARE(scalar.cells.size(), 1);
    QCOMPARE(scalar.cells[0], QStringList{"0"});
  }

  // Arrows in the list change what a visible Tensor view shows and never bring one.
  void movingThroughTheListFollows() {
    QTemporaryDir folder;
    fillFolder(folder.path());
    auto w = open(folder.filePath("model.safetensors"));
    QVERIFY(w);
    w->showPanel("panel.checkpoint");
    auto* panel = w->checkpointPanel();
    panel->tree()->expandAll();
    panel->tree()->setCurrentIndex(panel->tensors()->indexOf(position(*w, "layers.0.ramp")));
    QVERIFY(settle(*w));
    QVERIFY(!tensorView(*w));
    QTest::keyClick(panel->tree(), Qt::Key_Return);
    QVERIFY(waitFor([&] { return tensorView(*w) != nullptr; }, 5'000));
    QVERIFY(settle(*w));
    QCOMPARE(tensorView(*w)->histogramView()->histogram().tensor, QString("layers.0.ramp"));
    QVERIFY(waitFor([&] { return !tensorView(*w)->visibleRegion().isEmpty(); }, 5'000));
    panel->tree()->setCurrentIndex(panel->tensors()->indexOf(position(*w, "layers.2.odd")));
    QVERIFY(settle(*w));
    QCOMPARE(tensorView(*w)->histogramView()->histogram().tensor, QString("layers.2.odd"));
    // Arrows at the list's end leave the selection of the other views alone.
    QVERIFY(w->viewArea()->find("view.tensor.1"));
    w->restoreDefaultLayout();
    QCOMPARE(w->viewArea()->docks().size(), 4);
    QVERIFY(settle(*w));
  }

  void whatCanBeDroppedAndOpened() {
    QTemporaryDir folder;
    const std::pair<const char*, PathKind> names[] = {{"a.safetensors", PathKind::checkpoint},
                                                      {"pytorch_model.bin", PathKind::checkpoint},
                                                      {"b.PT", PathKind::checkpoint},
                                                      {"consolidated.00.pth", PathKind::checkpoint},
                                                      {"last.ckpt", PathKind::checkpoint},
                                                      {"pytorch_model.bin.index.json", PathKind::checkpoint},
                                                      {"run.h5", PathKind::trace},
                                                      {"run.h5.part", PathKind::trace},
                                                      {"cat.jpg", PathKind::neither},
                                                      {"config.json", PathKind::neither}};
    for (const auto& [name, kind] : names) QCOMPARE(int(kindOfPath(folder.filePath(name))), int(kind));
    QCOMPARE(int(kindOfPath(folder.path())), int(PathKind::checkpoint));
    QVERIFY(weightsFilter().contains("*.bin") && weightsFilter().contains("*.pth") &&
            weightsFilter().contains("*.index.json"));
    fillFolder(folder.path());
    MainWindow window;
    window.show();
    QMimeData data;
    data.setUrls({QUrl::fromLocalFile(folder.path())});
    QDragEnterEvent enter(QPoint(200, 200), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(&window, &enter);
    QVERIFY(enter.isAccepted());
    QDropEvent drop(QPointF(200, 200), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(&window, &drop);
    QVERIFY(waitFor([&] { return window.controller()->checkpoint() != nullptr; }));
    QCOMPARE(window.checkpointPanel()->tensors()->shownTensors(), 6);
    // A file that is no torch file is refused by the checkpoint's reader, not by the trace's.
    writeFile(folder.filePath("weights.bin"), "this is no torch file");
    data.setUrls({QUrl::fromLocalFile(folder.filePath("weights.bin"))});
    QDragEnterEvent again(QPoint(200, 200), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(&window, &again);
    QDropEvent second(QPointF(200, 200), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
    const int before = window.banners()->count();
    QApplication::sendEvent(&window, &second);
    QVERIFY(waitFor([&] { return window.banners()->count() > before; }));
    QVERIFY2(window.banners()->text().contains("weights.bin") && !window.banners()->text().contains("HDF5"),
             qPrintable(window.banners()->text()));
  }
};

QTEST_MAIN(TestCheckpoint)
#include "test_checkpoint.moc"
