// Runs the cases of one suite under Qt Test: one data row per case. `--suite NAME` as in CTest; other options are Qt Test's.
#include <QtTest>

#include "tests/cases/case.h"

class Cases : public QObject {
  Q_OBJECT
 public:
  std::string suite;
  int passed = 0, failed = 0, skipped = 0;
 private Q_SLOTS:
  void run_data() {
    QTest::addColumn<int>("index");
    const auto& cases = slotscope::testing::registry();
    for (size_t i = 0; i < cases.size(); ++i)
      if (suite.empty() || cases[i].suite == suite)
        QTest::newRow((cases[i].suite + "." + cases[i].name).c_str()) << int(i);
  }
  void run() {
    QFETCH(int, index);
    const auto result = slotscope::testing::run_case(slotscope::testing::registry()[size_t(index)]);
    QByteArray text;
    for (const auto& m : result.messages) text += QByteArray::fromStdString(m) + "\n";
    (!result.passed ? failed : result.skipped ? skipped : passed)++;
    if (!result.passed) QFAIL(text.constData());
    if (result.skipped) QSKIP(text.constData());
    if (!text.isEmpty()) qInfo("%s", text.constData());
  }
};

int main(int argc, char** argv) {
  QCoreApplication app(argc, argv);
  Cases cases;
  QStringList arguments = app.arguments();
  if (const auto at = arguments.indexOf("--suite"); at >= 0 && at + 1 < arguments.size()) {
    cases.suite = arguments[at + 1].toStdString();
    arguments.remove(at, 2);
  }
  const int rc = QTest::qExec(&cases, arguments);
  // tests/run.sh adds these lines up: Qt's own totals count set-up functions as passed tests.
  printf("slotscope-totals: %d passed, %d failed, %d skipped\n", cases.passed, cases.failed, cases.skipped);
  return rc || cases.passed + cases.skipped == 0;
}

#include "qt_cases_main.moc"
