// Prompt: line breaking, hit tests, joined characters, background values against the analysis, search, brush,
// keys.
#include <QLineEdit>
#include <QSignalSpy>
#include <cmath>

#include "tests/views/demo.h"
#include "tests/views/view_test.h"
#include "views/prompt_values.h"
#include "views/prompt_view.h"

using namespace slotscope;
using namespace slotscope::views;

namespace {

// A run of the given tokens.
trace::RunInfo runOf(const std::vector<std::string>& tokens, int64_t prompt = -1) {
  trace::RunInfo run;
  run.tokens = run.planned_tokens = int64_t(tokens.size());
  run.prompt_tokens = prompt < 0 ? run.tokens : prompt;
  run.byte_offsets = {0};
  for (const auto& t : tokens) {
    run.bytes.insert(run.bytes.end(), t.begin(), t.end());
    run.byte_offsets.push_back(int64_t(run.bytes.size()));
    run.ids.push_back(int(run.ids.size()));
    run.special.push_back(t == "<bos>");
    run.roles.push_back(0);
    run.position.push_back(int64_t(run.position.size()));
  }
  return run;
}

struct OpenPrompt : PromptView {
  using PromptView::PromptView;
  using PromptView::tipAt;
};

}  // namespace

class TestPrompt : public QObject {
  Q_OBJECT
  std::shared_ptr<const RunData> run_ = testing::demoRunData();
  std::shared_ptr<const analysis::HeadData> head_ = testing::demoHead(run_->info(), 3, 0);

  void open(PromptView& view, SelectionModel& selection, int width = 746, int height = 128) {
    selection.setLimits(1, 4, 4, 64, run_->info().tokens);
    const auto& f = run_->summary.first;
    selection.request({.layer = f.layer, .head = f.head, .slot = f.slot, .token = f.token});
    view.resize(width, height);
    view.setRun(run_);
    view.setHead(head_);
    view.show();
    QVERIFY(QTest::qWaitForWindowExposed(&view));
  }

  // Every token once, in order, inside the width, found again by its own middle.
  void checkLayout(const trace::RunInfo& run, double width, bool as_written) {
    const PromptLayout layout(run, Theme::current().fixed);
    int64_t next = 0;
    const int lines = layout.lines(width, as_written);
    for (int i = 0; i < lines; ++i) {
      const auto line = layout.line(width, as_written, i);
      QVERIFY(!line.isEmpty());
      double right = 0;
      for (const auto& p : line) {
        QCOMPARE(int64_t(p.cell.first), next);
        QVERIFY(p.left >= right - 1e-6);
        right = p.left + p.width;
        next += p.cell.count;
      }
      QVERIFY2(right <= width - PromptLayout::kPad + 0.02,
               qPrintable(QStringLiteral("line %1 ends at %2 of %3").arg(i).arg(right).arg(width)));
    }
    QCOMPARE(next, run.tokens);
    for (int64_t t = 0; t < run.tokens; t += std::max<int64_t>(1, run.tokens / 300)) {
      const QRectF r = layout.rect(width, as_written, t);
      QVERIFY(r.width() > 0);
      QCOMPARE(layout.tokenAt(width, as_written, r.center()), t);
    }
    QCOMPARE(layout.tokenAt(width, as_written, {-1, 10}), int64_t(-1));
    QCOMPARE(layout.tokenAt(width, as_written, {20, 1e7}), int64_t(-1));
    QVERIFY(layout.rect(width, as_written, run.tokens).isNull());
    QVERIFY(layout.rect(width, as_written, -1).isNull());
  }

 private Q_SLOTS:
  void everyTokenOnceAtEveryWidth() {
    std::vector<std::string> odd{
        "<bos>",    "word",   " two", "\n",
        "\xE2\x86", "\xB5",   "x",    "\xF0",
        "\x9F",     "\x98",   "\x80", " ",
        "",         "\x80",   "\x07", "averyveryverylongtokenwithoutanyspaceinitatallwhichdoesnotfit",
        "tab\t",    "日本語", "\n",   "\n",
        "end"};
    for (const double width : {45.0, 75.0, 200.0, 746.0, 2000.0})
      for (const bool as_written : {false, true}) {
        checkLayout(run_->info(), width, as_written);
        checkLayout(runOf(odd, 17), width, as_written);
        checkLayout(runOf({"x"}), width, as_written);
      }
    testing::DemoRandom random{7};
    for (int round = 0; round < 40; ++round) {
      std::vector<std::string> tokens;
      for (int i = 0; i < 200; ++i) {
        std::string t;
        for (int n = random.below(6); n >= 0; --n)
          t += char(random.below(3) == 0 ? ' ' : random.below(40) == 0 ? '\n' : random.below(256));
        tokens.push_back(t);
      }
      checkLayout(runOf(tokens, random.below(200)), 40 + random.below(600), round % 2);
      if (QTest::currentTestFailed()) return;
    }
  }

  void breaksAtSpaces() {
    const auto& info = run_->info();
    const PromptLayout layout(info, Theme::current().fixed);
    for (int i = 1; i < layout.lines(746, false); ++i) {
      const auto previous = layout.line(746, false, i - 1), line = layout.line(746, false, i);
      const auto& last = previous.back().cell;
      const auto& first = line.front().cell;
      QVERIFY2(last.space_after || first.space_before, qPrintable(QStringLiteral("line %1").arg(i)));
    }
    // As written, every line break of the text ends a line.
    int breaks = 0;
    for (int64_t t = 0; t < info.tokens; ++t) breaks += info.token_bytes(t) == "\n";
    QCOMPARE(layout.lines(100000, true), breaks + 1);
    QCOMPARE(layout.lines(100000, false), 1);
  }

  void splitCharactersAreJoined() {
    const auto run = runOf({"a", "\xE2\x86", "\xB5", "b", "\xF0", "\x9F", "\x98", "\x80", "\xC3", "c"});
    const auto cells = tokenCells(run, 0, run.tokens);
    QStringList texts;
    QVector<int> counts;
    for (const auto& cell : cells) texts << cell.text, counts << cell.count;
    QCOMPARE(counts, (QVector<int>{1, 2, 1, 4, 1, 1}));
    QCOMPARE(texts[1], QString::fromUtf8("\xE2\x86\xB5"));
    QCOMPARE(texts[3], QString::fromUtf8("\xF0\x9F\x98\x80"));
    QCOMPARE(texts[4], QStringLiteral("C3…"));  // never completed: shown as its byte
    QCOMPARE(joinedTokens(run, 6), (std::pair<int64_t, int>{4, 4}));
    QCOMPARE(joinedTokens(run, 8), (std::pair<int64_t, int>{8, 1}));
    QCOMPARE(tokenName(run, 5), QString::fromUtf8("\xF0\x9F\x98\x80"));
    QCOMPARE(tokenTitle(run, 5), QString::fromUtf8("“…9F” of “\xF0\x9F\x98\x80”"));
    QCOMPARE(tokenTitle(run, 4), QString::fromUtf8("“F0…” of “\xF0\x9F\x98\x80”"));
    QCOMPARE(tokenTitle(run, 0), QString::fromUtf8("“a”"));
    QCOMPARE(tokenTitle(run, 8), QString::fromUtf8("“C3…”"));
    // A row that the tokenizer has no token for has no bytes (bad-inputs B29).
    auto padded = runOf({"a", "", "b"});
    padded.ids = {97, 32010, 98};
    QCOMPARE(tokenName(padded, 1), QStringLiteral("<unused 32010>"));
    QCOMPARE(tokenCells(padded, 0, 3)[1].text, QStringLiteral("<unused 32010>"));
    // Asking from the middle starts at the character's first token.
    QCOMPARE(tokenCells(run, 6, 8)[0].first, int64_t(4));
    QCOMPARE(tokenName(run, 0), QStringLiteral("a"));
    QCOMPARE(tokenName(runOf({" ", "\n", "\t", "\x07"}), 0), QStringLiteral("␣"));
    QCOMPARE(tokenName(runOf({"<bos>"}), 0), QStringLiteral("<bos>"));
  }

  void spansAndRoles() {
    const auto& info = run_->info();
    const auto* key = info.span("key");
    QCOMPARE(tokenSpan(info, key->begin), QStringLiteral("key"));  // inside the needle as well
    QCOMPARE(tokenSpan(info, key->begin - 1), QStringLiteral("needle"));
    QCOMPARE(tokenSpan(info, info.prompt_tokens), QStringLiteral("answer"));
    QCOMPARE(tokenSpan(info, info.prompt_tokens - 1), QStringLiteral("query"));
    QCOMPARE(tokenSpan(info, 1), QString());
    QVERIFY(isRetrieval(info, key->begin));
    QVERIFY(!isRetrieval(info, key->begin - 1));
    QVERIFY(!isRetrieval(info, 1000000));
  }

  void valuesEqualTheAnalysis() {
    const auto& info = run_->info();
    const auto& r = head_->routes;
    const int64_t query = analysis::query_token(info);
    for (const int slot : {0, 7, head_->allocation.order[0], 63}) {
      const auto values = writesIntoSlot(*head_, slot);
      QCOMPARE(int64_t(values.size()), info.tokens);
      for (int64_t t = 0; t < info.tokens; ++t) {
        double expected = 0;
        for (int k = 0; k < r.top_k; ++k)
          if (int(r.index[size_t(t * r.top_k + k)]) == slot) expected = r.strength[size_t(t * r.top_k + k)];
        QCOMPARE(values[size_t(t)], expected);
      }
    }
    const auto total = totalWrites(*head_);
    for (const int64_t t : {int64_t(0), int64_t(151), info.tokens - 1}) {
      double sum = 0;
      for (int k = 0; k < r.top_k; ++k) sum += r.strength[size_t(t * r.top_k + k)];
      QVERIFY(std::abs(total[size_t(t)] - sum) < 1e-12);
    }
    for (const int64_t t : {query, int64_t(200), int64_t(0), info.tokens - 1}) {
      const auto left = survivalOfAll(*head_, t);
      for (int64_t j = 0; j < info.tokens; ++j) {
        const double expected = analysis::survival(r, head_->writes, j, t);
        if (std::isnan(expected))
          QVERIFY(std::isnan(left[size_t(j)]));
        else
          QVERIFY2(std::abs(left[size_t(j)] - expected) <= 1e-10,
                   qPrintable(QStringLiteral("token %1 at %2: %3, not %4")
                                  .arg(j)
                                  .arg(t)
                                  .arg(left[size_t(j)])
                                  .arg(expected)));
      }
    }
    const auto reads = attributionOf(*head_, query);
    const auto expected =
        analysis::read_attribution(head_->writes, head_->reads_at(query, head_->read_heads[0]), query);
    for (size_t j = 0; j < expected.weight.size(); ++j) QCOMPARE(reads[j], std::max(0.0, expected.weight[j]));
    QVERIFY(attributionOf(*head_, 5).empty());  // nothing was captured there
  }

  void backgroundByPixels() {
    SelectionModel selection;
    OpenPrompt view(&selection);
    open(view, selection);
    const auto map = colourMap(QStringLiteral("cividis"), false);
    const auto& values = view.values();
    const double most = *std::max_element(values.begin(), values.end());
    QVERIFY(most > 0);
    selection.request({.token = 3});  // the ring away from what is looked at
    const QImage image = view.grab().toImage();
    testing::keepPicture(image, QStringLiteral("prompt"));
    int painted = 0;
    for (int64_t t = 0; t < int64_t(values.size()); ++t) {
      const QRectF r = view.tokenRects(t)[0];
      // The top left corner of the cell: glyphs of this font do not reach it.
      const QColor got = image.pixelColor(int(std::ceil(r.left())), int(r.top()));
      if (t >= 2 && t <= 4) continue;
      if (values[size_t(t)] > 0.004 * most) {
        QCOMPARE(got.rgb(), map[int(std::lround(255 * std::pow(values[size_t(t)] / most, 0.7)))]);
        ++painted;
      } else if (values[size_t(t)] == 0) {
        QCOMPARE(got.name(), Theme::current().surface.name());
      }
    }
    QCOMPARE(painted, int(head_->esl.esl[size_t(selection.current().slot)]));
    // Key tokens are underlined in red, 2 px.
    const auto* key = run_->info().span("key");
    const QRectF r = view.tokenRects(key->begin)[0];
    QCOMPARE(image.pixelColor(int(r.center().x()), int(r.bottom()) - 1).name(),
             Theme::current().retrieval.name());
    QCOMPARE(image.pixelColor(int(r.center().x()), int(r.bottom()) - 2).name(),
             Theme::current().retrieval.name());
  }

  void clickBrushAndWord() {
    SelectionModel selection;
    OpenPrompt view(&selection);
    open(view, selection);
    const auto at = [&](int64_t t) {
      return (view.tokenRects(t)[0].center() - QPointF(0, view.scrollOffset())).toPoint();
    };
    QTest::mouseClick(&view, Qt::LeftButton, {}, at(120));
    QCOMPARE(selection.current().token, qint64(120));
    QVERIFY2(view.accessibleName().contains(QStringLiteral("token 120")), qPrintable(view.accessibleName()));
    QTest::mousePress(&view, Qt::LeftButton, Qt::ShiftModifier, at(60));
    QTest::mouseMove(&view, at(50));
    QTest::mouseRelease(&view, Qt::LeftButton, Qt::ShiftModifier, at(50));
    QCOMPARE(selection.brush(), (std::optional<std::pair<qint64, qint64>>{{50, 61}}));
    QCOMPARE(selection.current().token, qint64(120));
    const auto* key = run_->info().span("key");
    QTest::mouseDClick(&view, Qt::LeftButton, {}, at(key->begin + 2));
    QCOMPARE(selection.brush(),
             (std::optional<std::pair<qint64, qint64>>{{key->begin, key->end + 1}}));  // with its full stop
    QTest::mouseMove(&view, at(33));
    QCOMPARE(selection.hoverToken(), qint64(33));
    QVERIFY(view.tipAt(view.tokenRects(key->begin)[0].center()).contains(QStringLiteral("key")));
  }

  void searchAndF3() {
    SelectionModel selection;
    OpenPrompt view(&selection);
    open(view, selection);
    selection.request({.token = 0});
    const std::string text(run_->info().bytes.begin(), run_->info().bytes.end());
    std::vector<size_t> places;
    for (size_t p = text.find("password"); p != std::string::npos; p = text.find("password", p + 1))
      places.push_back(p);
    QCOMPARE(places.size(), size_t(2));
    QCOMPARE(view.searchFor(QStringLiteral("PassWord")), 2);
    const qint64 first = qint64(places[0]) - 4,
                 second = qint64(places[1]) - 4;  // <bos> is one token of five bytes
    QCOMPARE(selection.current().token, first);
    QTest::keyClick(&view, Qt::Key_F3);
    QCOMPARE(selection.current().token, second);
    QTest::keyClick(&view, Qt::Key_F3);
    QCOMPARE(selection.current().token, first);
    QTest::keyClick(&view, Qt::Key_F3, Qt::ShiftModifier);
    QCOMPARE(selection.current().token, second);
    QCOMPARE(view.searchFor(QStringLiteral("no such words")), 0);
    QCOMPARE(view.searchFor(QString()), 0);
    QTest::keyClick(&view, Qt::Key_F, Qt::ControlModifier);
    auto* field = view.findChild<QLineEdit*>();
    QVERIFY(field && field->isVisible());
    field->setText(QStringLiteral("queen"));
    QCOMPARE(view.searchFor(QStringLiteral("queen")) > 0, true);
    view.grab();
  }

  void choices() {
    SelectionModel selection;
    OpenPrompt view(&selection);
    open(view, selection);
    QSignalSpy renamed(&view, &PromptView::choiceTextChanged);
    selection.request({.slot = 5});
    QCOMPARE(renamed.last()[0].toString(), QStringLiteral("colour: writes into slot 5"));
    for (const auto q : {PromptView::Quantity::TotalWrites, PromptView::Quantity::LeftAtQuery,
                         PromptView::Quantity::ReadBySelected, PromptView::Quantity::Surprisal}) {
      view.setQuantity(q);
      view.values();
      view.grab();
    }
    view.setQuantity(PromptView::Quantity::ReadBySelected);
    selection.request({.token = 5});
    view.values();
    QCOMPARE(view.why(), QStringLiteral("No reads were captured at token 5."));
    selection.request({.token = run_->info().prompt_tokens - 1});
    view.values();
    QCOMPARE(view.why(), QString());
    view.setQuantity(PromptView::Quantity::Surprisal);
    // Without logits only the answer is known, from its candidates.
    QTRY_VERIFY(std::isfinite(view.values()[512]));
    QVERIFY(std::abs(view.values()[512] - 1e-4) < 1e-12);
    QVERIFY(std::isnan(view.values()[100]));
    QVERIFY(view.why().contains(QStringLiteral("Logits were not captured")));
  }

  void longRunsScrollByLine() {
    auto data = std::make_shared<RunData>();
    data->own_info = std::make_shared<trace::RunInfo>(testing::demoRun(131072));
    SelectionModel selection;
    selection.setLimits(1, 1, 1, 64, data->info().tokens);
    OpenPrompt view(&selection);
    view.resize(746, 128);
    view.setRun(data);
    view.show();
    view.grab();
    QVERIFY(view.lineCount() > 1000);
    selection.request({.token = 131000});
    const QRectF r = view.tokenRects(131000)[0];
    QVERIFY(r.top() >= view.scrollOffset() &&
            r.bottom() <= view.scrollOffset() + view.contentRect().height());
    selection.request({.token = 0});
    QCOMPARE(view.scrollOffset(), 0.0);
    // Painting costs what is on screen, not what is in the run.
    QElapsedTimer timer;
    timer.start();
    for (int i = 0; i < 20; ++i) {
      view.scrollTo(20.0 * 37 * i);
      view.grab();
    }
    QVERIFY2(timer.elapsed() < 4000, qPrintable(QString::number(timer.elapsed())));
    qInfo("131072 tokens: %.1f ms a frame", timer.elapsed() / 20.0);
  }

  void csvListsEveryToken() {
    SelectionModel selection;
    OpenPrompt view(&selection);
    open(view, selection);
    int64_t t = 0;
    const auto& values = view.values();
    for (const auto& line : view.csv().split(QLatin1Char('\n'), Qt::SkipEmptyParts)) {
      if (line.startsWith(QLatin1Char('#')) || line.startsWith(QStringLiteral("token,"))) continue;
      QCOMPARE(line.section(QLatin1Char(','), 0, 0).toLongLong(), qlonglong(t));
      QCOMPARE(line.section(QLatin1Char(','), -2, -2).toDouble(), values[size_t(t)]);
      const auto bytes = run_->info().token_bytes(t);
      QCOMPARE(QByteArray::fromHex(line.section(QLatin1Char(','), -1).toLatin1()).toStdString(), std::string(bytes));
      ++t;
    }
    QCOMPARE(t, run_->info().tokens);
    QVERIFY(view.csv().contains(QStringLiteral("\",\"")));  // the comma token is quoted
    // Parts of a character: the text shows all of it, the bytes are each token's own (bad-inputs B32).
    auto split = std::make_shared<RunData>(*run_);
    split->own_info = std::make_shared<trace::RunInfo>(runOf({"a", "\xF0", "\x9F", "\x98", "\x80", "\xC3"}));
    view.setRun(split);
    view.setHead(nullptr);
    const QString csv = view.csv();
    QVERIFY2(csv.contains(QString::fromUtf8("\n2,2,\xF0\x9F\x98\x80,other,,,9f\n")), qPrintable(csv));
    QVERIFY2(csv.endsWith(QString::fromUtf8("\n5,5,C3…,other,,,c3\n")), qPrintable(csv));
  }
};

SLOTSCOPE_VIEW_TEST(TestPrompt)
#include "test_prompt.moc"
