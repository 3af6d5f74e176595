// Every view on every kind of layer: dense, ring, append and routed memories, hybrids. Whatever is chosen there is either
// something drawn or a sentence that says why not. With SLOTSCOPE_PICTURES set to a folder every state is saved there.
#include <QProcess>

#include "app/window/locations.h"
#include "tests/app/window_test.h"
#include "views/esl_view.h"
#include "views/heatmap_data.h"
#include "views/heatmap_view.h"

using namespace slotscope;
using namespace slotscope::app;
using namespace slotscope::testing;

class TestFamilies : public QObject {
  Q_OBJECT
  Scratch scratch_;

  // "ramnet PDMA": there is no golden case of this family. First writes with state_eps 0 keep nothing: log decays of -infinity.
  QString folder(const QString& name) {
    if (!name.startsWith("ramnet")) return sourceFile("tests/golden/models/" + name);
    const QString made = scratch_.file(QString(name).replace(' ', '_'));
    QProcess cli;
    cli.start(QCoreApplication::applicationDirPath() + "/slotscope-cli",
              {"make", made, "--preset", "ramnet-tiny", "--set", "vocab_size=53", "--set", "ramnet.state_eps=0", "--set",
               "ramnet.update_rule=" + name.section(' ', 1).toLower(), "--no-tokenizer", "--quiet"});
    return cli.waitForFinished(120'000) && cli.exitCode() == 0 ? made : QString();
  }

  // 80 tokens of a golden case through the command line, with everything that read attribution needs.
  QString trace(const QString& name) {
    const QString file = scratch_.file(QString(name).replace(' ', '_') + ".h5");
    QStringList ids;
    for (int i = 0; i < 80; ++i) ids << QString::number((i * 17 + 3) % 53);
    QProcess cli;
    cli.start(QCoreApplication::applicationDirPath() + "/slotscope-cli",
              {"run", folder(name), "--ids", ids.join(','), "--capture",
               "route,attribution,margin,ties", "--out", file});
    return cli.waitForFinished(120'000) && cli.exitCode() == 0 ? file : QString();
  }

 private Q_SLOTS:
  void initTestCase() { useVolatileSettings(); }

  void everyViewShowsSomethingOrSaysWhy_data() {
    QTest::addColumn<int>("undefined");  // quantities of layer 0 that say why they are not there
    // Of write strength, route weight, log gate, two kinds of survival, read weight, read attribution.
    QTest::newRow("gsa_hybrid") << 0;
    QTest::newRow("abc_default") << 0;
    QTest::newRow("transformer_default") << 0;
    QTest::newRow("transformer_swa_T80") << 0;
    QTest::newRow("fox_default") << 0;
    QTest::newRow("raven_fla_hybrid_list") << 0;
    QTest::newRow("ramnet GSU") << 0;
    QTest::newRow("ramnet PDMA") << 0;
    QTest::newRow("linear_elu") << 1;       // read weight
    QTest::newRow("retnet_default") << 1;   // read weight
    QTest::newRow("mamba2_default") << 1;   // read weight
    QTest::newRow("gla_default") << 4;      // log gate, survival, read weight
    QTest::newRow("delta_default") << 4;    // the same
    QTest::newRow("gdn_default") << 4;      // the same
    QTest::newRow("kda_default") << 4;      // the same
    QTest::newRow("mamba_default") << 5;    // and read attribution as slots x tokens
    QTest::newRow("mom_default") << 5;      // and read attribution as slots x tokens
  }

  void everyViewShowsSomethingOrSaysWhy() {
    QFETCH(int, undefined);
    const QString name = QTest::currentDataTag(), file = trace(name);
    QVERIFY(!file.isEmpty());
    MainWindow window;
    window.resize(1280, 800);
    window.show();
    window.openPath(file);
    QVERIFY(waitFor([&] { return window.controller()->headData() != nullptr; }));
    QVERIFY(settle(window));
    for (const char* kind : {"esl", "esl-grid", "allocation", "heatmap"}) {
      window.addView(kind);
      QVERIFY(settle(window));
      const QString folder = qEnvironmentVariable("SLOTSCOPE_PICTURES");
      if (!folder.isEmpty()) window.grab().save(folder + "/" + name + "-" + kind + ".png");
    }
    auto* heatmap = qobject_cast<views::HeatmapView*>(window.findView("heatmap"));
    auto* esl = qobject_cast<views::EslView*>(window.findView("esl"));
    QVERIFY(heatmap && esl);
    esl->setReferences(true);
    const int layers = int(window.controller()->runData()->info().layers.size());
    for (int layer = 0; layer < layers; ++layer) {
      window.selection()->request({.layer = layer, .head = 0, .slot = 1, .token = 79});
      QVERIFY(waitFor([&] {
        return window.controller()->headData() && window.controller()->headData()->layer == layer;
      }));
      QVERIFY(settle(window));
      const auto head = window.controller()->headData();
      int missing = 0;
      for (const views::HeatmapChoice& choice : views::quantityChoices(head.get())) {
        if (choice.value < 0) continue;  // a difference of two runs
        heatmap->setQuantity(analysis::Quantity(choice.value));
        QVERIFY(settle(window));
        window.grab();
        QVERIFY(!heatmap->csv().isEmpty());
        if (!choice.why.isEmpty()) {
          ++missing;
          QVERIFY2(choice.why.size() > 30, qPrintable(choice.why));
          continue;
        }
        const auto cells = views::valueSamples(*head, analysis::Quantity(choice.value), 79);
        // A ring's log gates are -inf, FoX has none of its own but they are 0: cells all the same.
        QVERIFY2(cells.finite_cells + cells.inf_cells > 0, qPrintable(choice.name));
      }
      if (layer == 0) QCOMPARE(missing, undefined);
      QVERIFY(!esl->csv().isEmpty());
      QVERIFY(!head->esl.esl.empty() && head->esl.used > 0);
    }
  }
};

QTEST_MAIN(TestFamilies)
#include "test_families.moc"
