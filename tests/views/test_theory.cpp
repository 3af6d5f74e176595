// Theory lab: what is shown is what core computes, dragging, keys, copying, states in files, figures.
#include <QClipboard>
#include <QComboBox>
#include <QDoubleSpinBox>
#include <QFile>
#include <QGuiApplication>
#include <QLabel>
#include <QPushButton>
#include <QSignalSpy>
#include <QSlider>
#include <QSpinBox>
#include <QTableWidget>
#include <QTemporaryDir>
#include <cmath>

#include "core/analysis/divergence.h"
#include "core/analysis/theory_result.h"
#include "core/error.h"
#include "tests/views/view_test.h"
#include "views/caption.h"
#include "views/export.h"
#include "views/theory_controls.h"
#include "views/theory_lab_view.h"
#include "views/worker.h"

using namespace slotscope;
using namespace slotscope::views;
using namespace slotscope::testing;

namespace {

// The widget of the given accessible name.
template <class W>
W* field(TheoryLabView& view, const char* name) {
  for (W* w : view.controls()->findChildren<W*>())
    if (w->accessibleName() == QString::fromUtf8(name)) return w;
  return nullptr;
}

int rowOf(TheoryLabView& view, const char* name) {
  for (int i = 0; i < view.table()->rowCount(); ++i)
    if (view.table()->item(i, 0)->text() == QString::fromUtf8(name)) return i;
  return -1;
}

// The number that a click on this row copies.
double copied(TheoryLabView& view, const char* name) {
  const int row = rowOf(view, name);
  if (row < 0) return std::nan("");
  QGuiApplication::clipboard()->setText("nothing");
  view.table()->scrollToItem(view.table()->item(row, 1));
  QTest::mouseClick(view.table()->viewport(), Qt::LeftButton, {}, view.table()->visualItemRect(view.table()->item(row, 1)).center());
  bool ok = false;
  const double value = QGuiApplication::clipboard()->text().toDouble(&ok);
  return ok ? value : std::nan("");
}

struct Lab {
  TheoryLabView view;
  explicit Lab(int width = 1260, int height = 640, Worker* worker = nullptr) : view(worker) {
    view.resize(width, height);
    view.show();
    (void)QTest::qWaitForWindowExposed(&view);
  }
};

int pixelsOf(const QImage& image, const QColor& colour, const QRect& where) {
  int n = 0;
  for (int y = where.top(); y <= where.bottom(); ++y)
    for (int x = where.left(); x <= where.right(); ++x) n += (image.pixel(x, y) & 0xFFFFFF) == (colour.rgb() & 0xFFFFFF);
  return n;
}

}  // namespace

class TestTheory : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void numbersAreThoseOfCore() {
    Lab lab;
    for (const auto& [name, state] : theoryPresets()) {
      lab.view.setState(state);
      const auto n = analysis::kernel_numbers(state.input());
      QCOMPARE(copied(lab.view, "κ"), n.kappa);
      QCOMPARE(copied(lab.view, "κ brute force"), std::exp(analysis::log_kappa_brute_force(state.input())));
      QCOMPARE(copied(lab.view, "target"), n.target);
      QCOMPARE(copied(lab.view, "log error"), n.log_error);
      QCOMPARE(copied(lab.view, "M"), n.bounds.radius);
      QCOMPARE(copied(lab.view, "ξ"), n.bounds.xi);
      QCOMPARE(copied(lab.view, "κ, d → ∞"), n.kappa_infinite);
      QCOMPARE(copied(lab.view, "κ, hard write"), n.kappa_hard);
      QCOMPARE(copied(lab.view, "β_w"), state.write * analysis::beta_star(state.factors()));
      if (n.bounds.bound)
        QCOMPARE(copied(lab.view, "bound"), *n.bounds.bound);
      else
        QCOMPARE(lab.view.table()->item(rowOf(lab.view, "bound"), 1)->text(), QString("none: ξ ≥ 1"));
      const auto attention = analysis::attention_weights(state.q, lab.view.data().keys, 2 / (state.input().beta_read * state.input().beta_write));
      QCOMPARE(copied(lab.view, "mass-aware"), analysis::js_divergence(attention, analysis::cumulative_weights(state.input(), lab.view.data().keys)));
      QVERIFY2(lab.view.accessibleName().contains(QString("d = %1 codes").arg(state.codes)), qPrintable(name));
    }
    // The reference's numbers, as the table shows them (spec 2.1, case u2-dp4-x1).
    lab.view.setState({});
    QCOMPARE(lab.view.table()->item(rowOf(lab.view, "κ"), 1)->text(), QString("1.313835443"));
    QCOMPARE(lab.view.table()->item(rowOf(lab.view, "target"), 1)->text(), QString("1.363425114"));
    QCOMPARE(lab.view.table()->item(rowOf(lab.view, "slots"), 1)->text(), QString("16"));
  }

  void ctrlCCopiesRows() {
    Lab lab;
    lab.view.table()->setCurrentCell(rowOf(lab.view, "ξ"), 1);
    lab.view.table()->setFocus();
    QTest::keyClick(lab.view.table(), Qt::Key_C, Qt::ControlModifier);
    QCOMPARE(QGuiApplication::clipboard()->text().trimmed(), QString("ξ\t") + QString::number(lab.view.data().numbers.bounds.xi, 'g', 17));
    lab.view.canvas()->setFocus();
    QTest::keyClick(lab.view.canvas(), Qt::Key_C, Qt::ControlModifier);  // all of them
    QCOMPARE(QGuiApplication::clipboard()->text(), lab.view.numbersText());
    QVERIFY(lab.view.numbersText().contains(QString("κ\t") + QString::number(lab.view.data().numbers.kappa, 'g', 17)));
  }

  void controlsMoveTheState() {
    Lab lab;
    QSignalSpy told(&lab.view, &TheoryLabView::stateChanged);
    field<QSpinBox>(lab.view, "Codes per factor d")->setValue(8);
    field<QSpinBox>(lab.view, "Factors U")->setValue(3);
    QCOMPARE(lab.view.state().codes, 8);
    QCOMPARE(lab.view.state().factors(), 3);
    QCOMPARE(lab.view.state().q, (std::vector<double>{0.6, -0.2, 0.1, 0.7, -0.7, 0.1}));  // a turned copy of the last block
    field<QSlider>(lab.view, "β of reads, in β*, slider")->setValue(100);
    QCOMPARE(lab.view.state().read, std::sqrt(10.0));
    QCOMPARE(lab.view.state().write, std::sqrt(10.0));  // linked
    field<QSlider>(lab.view, "β of reads, in β*, slider")->setValue(0);
    QCOMPARE(lab.view.state().read, 1.0);
    auto unlinked = lab.view.state();
    unlinked.linked = false;
    lab.view.setState(unlinked);
    field<QDoubleSpinBox>(lab.view, "β of writes, in β*")->setValue(2.5);
    QCOMPARE(lab.view.state().read, 1.0);
    QCOMPARE(lab.view.state().write, 2.5);
    field<QDoubleSpinBox>(lab.view, "angle of k")->setValue(90);
    QCOMPARE(lab.view.state().k[0], 0.0);  // quarter turns are exact
    QCOMPARE(lab.view.state().k[1], std::hypot(0.5, 0.3));
    field<QDoubleSpinBox>(lab.view, "length of q")->setValue(0);
    QCOMPARE(std::hypot(lab.view.state().q[0], lab.view.state().q[1]), 0.0);
    QTRY_COMPARE(told.count(), 1);  // once, when the hand rests
    QCOMPARE(parseTheory(told[0][0].toByteArray(), {}), lab.view.state());
  }

  void betaZeroIsTheLimit() {
    Lab lab;
    field<QDoubleSpinBox>(lab.view, "β of reads, in β*")->setValue(0);
    QCOMPARE(lab.view.data().numbers.kappa, 1.0);
    QCOMPARE(lab.view.data().numbers.log_error, 0.0);
    QVERIFY(lab.view.data().sweep_x.empty());
    QVERIFY(!lab.view.grab().isNull());
    QVERIFY(lab.view.csv().contains("numbers,κ,,1\n"));
  }

  void vectorsAreDragged() {
    Lab lab;
    TheoryCanvas* canvas = lab.view.canvas();
    const TheoryLayout l = canvas->layoutNow();
    const QPoint from = l.point(0.6, -0.2).toPoint(), to = l.point(-0.5, 0.75).toPoint();
    QTest::mousePress(canvas, Qt::LeftButton, {}, from);
    QTest::mouseMove(canvas, to);
    QTest::mouseRelease(canvas, Qt::LeftButton, {}, to);
    const QPointF where = l.vector(to);
    QVERIFY(std::abs(lab.view.state().q[0] - where.x()) < 1e-9 && std::abs(lab.view.state().q[1] - where.y()) < 1e-9);
    QCOMPARE(lab.view.state().q[2], 0.1);  // the other factor stays
    QCOMPARE(lab.view.data().numbers.kappa, analysis::kernel_numbers(lab.view.state().input()).kappa);
    // Shift keeps the length.
    const TheoryLayout again = canvas->layoutNow();
    const double length = std::hypot(0.5, 0.3);
    QTest::mousePress(canvas, Qt::LeftButton, Qt::ShiftModifier, again.point(0.5, 0.3).toPoint());
    QMouseEvent move(QEvent::MouseMove, again.point(0, 1.4), canvas->mapToGlobal(again.point(0, 1.4)), Qt::NoButton, Qt::LeftButton, Qt::ShiftModifier);
    QApplication::sendEvent(canvas, &move);
    QTest::mouseRelease(canvas, Qt::LeftButton);
    QVERIFY(std::abs(std::hypot(lab.view.state().k[0], lab.view.state().k[1]) - length) < 1e-12);
    QVERIFY(std::abs(lab.view.state().k[0]) < 1e-9 && lab.view.state().k[1] > 0);
    // Beside both tips nothing is taken.
    const TheoryState before = lab.view.state();
    QTest::mousePress(canvas, Qt::LeftButton, {}, again.point(-1, -1).toPoint());
    QTest::mouseMove(canvas, again.point(0.2, 0.2).toPoint());
    QTest::mouseRelease(canvas, Qt::LeftButton);
    QCOMPARE(lab.view.state(), before);
  }

  void betaIsDraggedAndPairsAreTaken() {
    Lab lab;
    TheoryCanvas* canvas = lab.view.canvas();
    const TheoryLayout l = canvas->layoutNow();
    const QPoint at(int(l.beta.x.at(3)), int(l.beta.plot.center().y()));
    QTest::mouseClick(canvas, Qt::LeftButton, {}, at);
    QVERIFY(std::abs(lab.view.state().read - l.beta.x.value(at.x())) < 1e-12);
    QCOMPARE(lab.view.state().read, lab.view.state().write);
    const TheoryLayout now = canvas->layoutNow();
    const auto& cloud = lab.view.data().cloud;
    const size_t pair = 17;
    const QPointF point(now.pairs.x.at(cloud.q_dot_k[pair]), now.pairs.y.at(cloud.log_error[pair]));
    const int taken = theoryPairAt(lab.view.data(), now, point.toPoint());
    QVERIFY(taken >= 0);
    const std::vector<double> q(cloud.q.begin() + taken * 4, cloud.q.begin() + taken * 4 + 4);
    const double error = cloud.log_error[size_t(taken)];
    QTest::mouseClick(canvas, Qt::LeftButton, {}, point.toPoint());
    QCOMPARE(lab.view.state().q, q);
    QCOMPARE(lab.view.data().numbers.log_error, error);
    // A picture of a factor chooses it.
    QTest::mouseClick(canvas, Qt::LeftButton, {}, canvas->layoutNow().thumbs[1].center().toPoint());
    QCOMPARE(lab.view.state().factor, 1);
  }

  void keysTurnAndMove() {
    Lab lab;
    TheoryCanvas* canvas = lab.view.canvas();
    canvas->setFocus();
    QTest::keyClick(canvas, Qt::Key_K);
    const double angle = std::atan2(0.3, 0.5);
    QTest::keyClick(canvas, Qt::Key_Left, Qt::ShiftModifier);
    QVERIFY(std::abs(std::atan2(lab.view.state().k[1], lab.view.state().k[0]) - angle - 10 * M_PI / 180) < 1e-12);
    QTest::keyClick(canvas, Qt::Key_Up);
    QVERIFY(std::abs(std::hypot(lab.view.state().k[0], lab.view.state().k[1]) - std::hypot(0.5, 0.3) - 0.01) < 1e-12);
    QTest::keyClick(canvas, Qt::Key_BracketRight);
    QCOMPARE(lab.view.state().factor, 1);
    QTest::keyClick(canvas, Qt::Key_Plus);
    QVERIFY(std::abs(lab.view.state().read - 1.02) < 1e-12);
    QCOMPARE(lab.view.state().q, (std::vector<double>{0.6, -0.2, 0.1, 0.7}));
  }

  void statesComeBack() {
    QTemporaryDir folder;
    TheoryState odd;
    odd.codes = 7;
    odd.q = {0.1, 1.0 / 3, -1e-17, 2e5}, odd.k = {-0.25, 1e-300, 0.7, -0.1};
    odd.read = 1.58, odd.write = 1.0 / 7, odd.linked = false, odd.factor = 1;
    odd.pair_kind = analysis::PairKind::turned_key, odd.pairs = 33, odd.seed = 18446744073709551615u, odd.keys = 9;
    QCOMPARE(parseTheory(theoryJson(odd), {}), odd);  // to the last bit
    for (const auto& [name, state] : theoryPresets()) QCOMPARE(parseTheory(theoryJson(state), {}), state);
    Lab lab, other;
    lab.view.setState(odd);
    QVERIFY(lab.view.saveFile(folder.filePath("state.json")));
    QVERIFY(other.view.openFile(folder.filePath("state.json")));
    QCOMPARE(other.view.state(), odd);
    QVERIFY(other.view.restore(theoryJson({})));
    QCOMPARE(other.view.state(), TheoryState{});
    QVERIFY(!other.view.restore("{}"));
    QCOMPARE(other.view.state(), TheoryState{});
    QVERIFY(!other.view.saveFile(folder.filePath("no/such/folder.json")));
    // A file of slotscope-cli ramnet theory --out.
    const analysis::KernelInput input{6, {0.6, -0.2}, {0.5, 0.3}, 0.123456789, 3.25};
    trace::write_result(folder.filePath("t.h5").toStdString(),
                        analysis::theory_result(input, {.multiples = {1, 2}, .pairs = 44, .kind = analysis::PairKind::random_blocks, .seed = 5}), false);
    QVERIFY(other.view.openFile(folder.filePath("t.h5")));
    QCOMPARE(other.view.state().input().beta_read, input.beta_read);
    QCOMPARE(other.view.state().input().beta_write, input.beta_write);
    QCOMPARE(other.view.data().numbers.log_kappa, analysis::kernel_numbers(input).log_kappa);
    QCOMPARE(other.view.state().pairs, 44);
  }

  void badStatesAreNamed_data() {
    QTest::addColumn<QByteArray>("json");
    QTest::addColumn<QStringList>("says");
    const auto with = [](const char* key, const char* value) {
      QByteArray text = theoryJson({});
      const auto at = text.indexOf(QByteArray("\"") + key + "\":");
      const auto begin = text.indexOf(':', at) + 1;
      // Arrays hold commas: up to the end of the line where the value closes.
      auto end = text.indexOf(text.at(begin + 1) == '[' ? "]" : "\n", begin);
      if (text.at(begin + 1) == '[') ++end; else if (text.at(end - 1) == ',') --end;
      return text.left(begin) + " " + value + text.mid(end);
    };
    const auto row = [&](const char* key, const char* value, const QStringList& says) {
      QTest::newRow(qPrintable(QString("%1 %2").arg(key, value))) << with(key, value) << QStringList(says + QStringList{key});
    };
    QTest::newRow("empty") << QByteArray() << QStringList{"byte", "JSON"};
    QTest::newRow("list") << QByteArray("[1]") << QStringList{"format"};
    row("format", "\"other\"", {"other", "slotscope-theory"});
    row("version", "2", {"2", "1"});
    row("codes", "1", {"1", "2 to 256"});
    row("codes", "4.5", {"whole"});
    row("codes", "\"4\"", {"\"4\""});
    row("q", "[1, 2, 3]", {"3 numbers", "two numbers for each"});
    row("q", "[]", {"0 numbers"});
    row("q", "[1e9, 0, 0, 0]", {"number 0", "1e6"});
    row("k", "[1, 2]", {"2 numbers", "4, as many as q"});
    row("beta_read_over_beta_star", "-1", {"-1"});
    row("beta_read_over_beta_star", "1e-9", {"1e-09", "1e-6"});
    row("factor", "2", {"2"});
    row("pairs", "1000000", {"1000000"});
    row("seed", "\"x\"", {"x", "whole number"});
    row("keys", "1", {"1"});
    QTest::newRow("pair_kind") << with("pair_kind", "\"odd\"") << QStringList{"odd", "turned-key"};
  }
  void badStatesAreNamed() {
    QFETCH(QByteArray, json);
    QFETCH(QStringList, says);
    QString text;
    try {
      parseTheory(json, "f.json");
    } catch (const Error& e) {
      text = QString::fromUtf8(e.what());
    }
    for (const QString& word : says) QVERIFY2(text.contains(word), qPrintable(word + " in: " + text));
    TheoryLabView view;
    QTemporaryDir folder;
    QFile file(folder.filePath("bad.json"));
    QVERIFY(file.open(QIODevice::WriteOnly) && file.write(json) == json.size());
    file.close();
    QVERIFY(!view.openFile(file.fileName()));
    QCOMPARE(view.state(), TheoryState{});
  }

  void largeCodesAreWalkedInTheBackground() {
    Worker worker;
    Lab lab(1260, 640, &worker);
    TheoryState state;
    state.codes = 8;
    state.setFactors(6);  // 262 144
    lab.view.setState(state);
    QVERIFY(!lab.view.data().log_brute_force);
    QVERIFY(lab.view.table()->item(rowOf(lab.view, "κ brute force"), 1)->text().contains("addresses"));
    QTRY_VERIFY_WITH_TIMEOUT(lab.view.data().log_brute_force.has_value(), 30'000);
    QVERIFY(std::abs(*lab.view.data().log_brute_force - lab.view.data().numbers.log_kappa) < 1e-11);
    QCOMPARE(copied(lab.view, "κ brute force"), std::exp(*lab.view.data().log_brute_force));
  }

  // Everything that can be chosen is drawn without a number that reaches the painter and cannot be drawn.
  void extremesAreDrawn() {
    Lab lab(900, 520);
    for (const int codes : {2, 3, 16, 17, 256})
      for (const double multiple : {0.0, 1e-6, 1.0, 1e6})
        for (const double length : {0.0, 1e-12, 1.0, 1e6}) {
          TheoryState state;
          state.codes = codes;
          state.q = {length, 0, -length, 0}, state.k = {-length, 0, 0, length};
          state.read = multiple, state.write = 1, state.linked = false;
          state.pairs = 20;
          lab.view.setState(state);
          QVERIFY(!lab.view.grab().isNull());
          const auto& n = lab.view.data().numbers;
          QVERIFY(!std::isnan(n.kappa) && !std::isnan(n.bounds.xi));
          const TheoryLayout l = lab.view.canvas()->layoutNow();
          for (const PlotScale* scale : {&l.beta.x, &l.beta.y, &l.pairs.x, &l.pairs.y, &l.weights.y}) {
            QVERIFY(scale->high > scale->low && std::isfinite(scale->high - scale->low));
            QVERIFY(scale->ticks(40).size() <= 200);
          }
        }
    TheoryState many;
    many.setFactors(16);
    many.keys = 64;
    lab.view.setState(many);
    QCOMPARE(lab.view.canvas()->layoutNow().thumbs.size(), 16);
    QVERIFY(!lab.view.grab().isNull());
  }

  void axesMeanWhatTheySay() {
    PlotScale linear{-1, 3, 100, 500, false}, log{0.1, 10, 0, 400, true};
    QCOMPARE(linear.at(0), 200.0);
    QCOMPARE(linear.value(300), 1.0);
    QCOMPARE(log.at(1), 200.0);
    QVERIFY(std::abs(log.value(400) - 10) < 1e-12);
    QCOMPARE(linear.ticks(90), (QVector<double>{-1, 0, 1, 2, 3}));
    QCOMPARE(log.ticks(40), (QVector<double>{0.1, 0.2, 0.5, 1, 2, 5, 10}));
  }

  void pictureHasItsParts() {
    Lab lab;
    const QImage image = lab.view.canvas()->grab().toImage();
    const TheoryLayout l = lab.view.canvas()->layoutNow();
    const Theme& theme = Theme::current();
    const auto near = [&](const QPointF& at) { return QRect(int(at.x()) - 3, int(at.y()) - 3, 7, 7); };
    QVERIFY(pixelsOf(image, theoryReadColour(theme), near(l.point(0.6, -0.2))) > 20);   // the tips
    QVERIFY(pixelsOf(image, theoryWriteColour(theme), near(l.point(0.5, 0.3))) > 20);
    const auto& d = lab.view.data();
    QVERIFY(pixelsOf(image, theme.selection, near({l.beta.x.at(1), l.beta.y.at(d.numbers.log_kappa)})) > 20);
    QVERIFY(pixelsOf(image, theme.selection, near({l.pairs.x.at(d.numbers.q_dot_k), l.pairs.y.at(d.numbers.log_error)})) > 20);
    // The closed form's curve passes where core says.
    const size_t i = 130;
    QVERIFY(pixelsOf(image, theme.fit, near({l.beta.x.at(d.sweep_x[i]), l.beta.y.at(d.sweep.log_kappa[i])})) >= 4);
    // The bar of attention ends at its weight.
    const double weight = d.weights[0].weight[3];
    const int x = int(l.weights.x.at(3.5) + 0.38 * l.weights.plot.width() / 6 * 0.95);
    const int y = int(std::lround(l.weights.y.at(weight)));
    QVERIFY(image.pixelColor(x, y - 4) == theme.surface && image.pixelColor(x, y + 4) != theme.surface);
  }

  void figuresAndData() {
    QTemporaryDir folder;
    TheoryState state;
    state.read = state.write = 1.58;
    TheoryLabView view;
    view.setState(state);
    ExportOptions options;
    for (const char* name : {"a.png", "a.svg", "a.pdf"}) {
      options.force = true;
      QVERIFY(QFile::exists(exportFigure(view, folder.filePath(name), options).front()));
    }
    QFile svg(folder.filePath("a.svg"));
    QVERIFY(svg.open(QIODevice::ReadOnly));
    const QString drawn = QString::fromUtf8(svg.readAll());
    QVERIFY(drawn.contains("log error against q·k") && drawn.contains("Weights over 6 keys"));  // text stays text
    QFile csv(folder.filePath("a.csv"));
    QVERIFY(csv.open(QIODevice::ReadOnly));
    const QString data = QString::fromUtf8(csv.readAll());
    const auto& n = view.data().numbers;
    QVERIFY(data.contains("numbers,κ,," + csvNumber(n.kappa) + "\n"));
    QVERIFY(data.contains("numbers,bound,," + csvNumber(*n.bounds.bound) + "\n"));
    QVERIFY(data.contains("# beta_read: " + csvNumber(1.58)));
    QCOMPARE(data.count("beta over beta_star,log_kappa,"), 161);
    QCOMPARE(data.count("pairs by q.k,log_error,"), 400);
    QCOMPARE(data.count("weights over keys,"), 5 * 6);
    QCOMPARE(theoryFigure(state).csv, data);
  }

  void storedPictures_data() {
    QTest::addColumn<bool>("dark");
    QTest::newRow("light") << false;
    QTest::newRow("dark") << true;
  }
  void storedPictures() {
    QFETCH(bool, dark);
    TheoryState state;
    state.read = state.write = 1.58;
    ExportOptions options;
    options.dark = dark;
    options.figure.selection = true;
    const QImage image = renderFigure(theoryFigure(state), options, QSize(900, 660)).convertToFormat(QImage::Format_RGB32);
    const QString name = dark ? "theory_dark" : "theory_light";
    keepPicture(image, name);
    comparePicture(image, QStringLiteral(SLOTSCOPE_SOURCE_DIR) + "/tests/views/pictures/" + name + ".png");
  }
};

SLOTSCOPE_VIEW_TEST(TestTheory)
#include "test_theory.moc"
