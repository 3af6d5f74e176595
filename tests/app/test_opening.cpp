// The window opens a checkpoint of 22 GB, lists its tensors and reads no weight of it.
#include "app/window/locations.h"
#include "tests/app/window_test.h"
#include "tests/cases/wide_model.h"

using namespace slotscope;
using namespace slotscope::testing;

class TestOpening : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void readsHeadersOnly() {
    const Scratch scratch;
    QTemporaryDir place;
    const auto made = wide_model(sourceFile("resources/checkpoints/raven-passkey").toStdString(), place.path().toStdString());
    if (!made) QSKIP("this file system cannot hold a sparse file of 20 GB");
    app::useVolatileSettings();
    app::MainWindow window;
    window.resize(1280, 800);
    window.show();
    window.openPath(QString::fromStdString(made->path.string()));
    QVERIFY(waitFor([&] { return window.controller()->checkpoint() && window.controller()->checkpoint()->info; }));
    QVERIFY(settle(window));
    QCOMPARE(window.controller()->checkpoint()->checkpoint->tensors().size(), made->tensors);
    const auto touched = bytes_in_memory(made->file);
    if (!touched) QSKIP("the system does not say what is in memory");
    QVERIFY(*touched >= made->header);
    QVERIFY2(*touched <= made->header + (1 << 20), qPrintable(QString::number(*touched) + " bytes in memory"));
  }
};

QTEST_MAIN(TestOpening)
#include "test_opening.moc"
