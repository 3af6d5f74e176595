// The word for an answer, and which spans are drawn in the retrieval colour.
#include <QtTest>

#include "views/answer_verdict.h"
#include "views/token_cells.h"

using namespace slotscope;
using namespace slotscope::views;

class TestVerdict : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void words_data() {
    QTest::addColumn<bool>("answer");
    QTest::addColumn<int>("exact");     // -1: unknown
    QTest::addColumn<double>("score");  // < 0: none
    QTest::addColumn<int>("references");
    QTest::addColumn<QString>("word");
    QTest::addColumn<bool>("good");
    QTest::newRow("no answer known") << false << -1 << -1.0 << 0 << "" << false;
    QTest::newRow("cancelled") << true << -1 << -1.0 << 1 << "" << false;
    QTest::newRow("password right") << true << 1 << -1.0 << 0 << "exact" << true;
    QTest::newRow("password wrong") << true << 0 << -1.0 << 0 << "wrong" << false;
    QTest::newRow("exact and scored") << true << 1 << 1.0 << 1 << "exact" << true;
    QTest::newRow("found among other text") << true << 0 << 1.0 << 4 << "found" << true;
    QTest::newRow("some") << true << 0 << 0.5 << 4 << "2 of 4" << false;
    QTest::newRow("a third") << true << 0 << 1.0 / 3 << 3 << "1 of 3" << false;
    QTest::newRow("none") << true << 0 << 0.0 << 4 << "not found" << false;
  }
  void words() {
    QFETCH(bool, answer);
    QFETCH(int, exact);
    QFETCH(double, score);
    QFETCH(int, references);
    QFETCH(QString, word);
    QFETCH(bool, good);
    trace::RunInfo run;
    run.has_answer = answer;
    if (exact >= 0) run.exact = exact == 1;
    if (score >= 0) run.score = score;
    run.references.assign(size_t(references), "x");
    const AnswerVerdict verdict = answerVerdict(run);
    QCOMPARE(verdict.known, !word.isEmpty());
    QCOMPARE(verdict.word, word);
    QCOMPARE(verdict.good, good);
  }

  void strongSpans() {
    trace::RunInfo run;
    run.spans = {{"needle", 0, 9}, {"key", 1, 3}};
    QVERIFY(isStrongSpan(run, "key") && isStrongSpan(run, "answer") && !isStrongSpan(run, "needle"));
    QCOMPARE(tokenSpan(run, 2), QString("key"));
    run.spans.push_back({"value", 4, 6});
    QVERIFY(!isStrongSpan(run, "key") && isStrongSpan(run, "value") && !isStrongSpan(run, "lead-in"));
    QCOMPARE(tokenSpan(run, 5), QString("value"));
    QCOMPARE(tokenSpan(run, 2), QString("key"));  // the shortest span there
    QCOMPARE(tokenSpan(run, 8), QString("needle"));
  }
};

QTEST_GUILESS_MAIN(TestVerdict)
#include "test_verdict.moc"
