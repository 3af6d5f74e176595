// The value-field lab: what it shows are the fields' numbers; keys dragged, added, removed; state there and back; pictures.
#include <QClipboard>
#include <QComboBox>
#include <QDoubleSpinBox>
#include <QGuiApplication>
#include <QImage>
#include <QPainter>
#include <QSignalSpy>
#include <QSpinBox>
#include <QTemporaryDir>
#include <cmath>
#include <numbers>

#include "core/analysis/value_field_file.h"
#include "core/analysis/value_field_json.h"
#include "tests/views/view_test.h"
#include "views/value_field_canvas.h"
#include "views/value_field_controls.h"
#include "views/value_field_view.h"

using namespace slotscope;
using namespace slotscope::views;
using namespace slotscope::testing;

namespace {

constexpr double kTurn = 2 * std::numbers::pi;

// The lab as large as in the design's picture, every field computed at once.
std::unique_ptr<ValueFieldView> lab(Worker* worker = nullptr) {
  auto view = std::make_unique<ValueFieldView>(worker);
  view->resize(1264, 690);
  view->show();
  QCoreApplication::processEvents();
  return view;
}

QPointF pointOf(const ValueFieldView& view, int panel, size_t key) {
  const auto& s = view.state().settings;
  return fieldPoint(s, fieldGeometry(s, QRectF(const_cast<ValueFieldView&>(view).canvas()->rect()), Theme::current()).panels[panel], s.keys[key].x, s.keys[key].y);
}

void drag(QWidget* at, const QPointF& from, const QPointF& to) {
  QTest::mousePress(at, Qt::LeftButton, {}, from.toPoint());
  for (int step = 1; step <= 4; ++step) {
    const QPoint middle = (from + (to - from) * step / 4).toPoint();
    QMouseEvent move(QEvent::MouseMove, middle, at->mapToGlobal(middle), Qt::NoButton, Qt::LeftButton, {});
    QCoreApplication::sendEvent(at, &move);
  }
  QTest::mouseRelease(at, Qt::LeftButton, {}, to.toPoint());
}

QImage picture(ValueFieldView& view) {
  QImage image(view.size(), QImage::Format_RGB32);
  view.render(&image);
  return image;
}

bool near(double a, double b, double tol) { return std::abs(a - b) <= tol; }

}  // namespace

class TestValueField : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void cleanup() { Theme::apply(pictureTheme()); }

  void showsTheComputedField() {
    auto view = lab();
    QVERIFY(view->settled());
    const auto expected = analysis::value_field(analysis::find_field_preset("paper")->make());
    QCOMPARE(view->field()->panels.size(), expected->panels.size());
    for (size_t i = 0; i < expected->panels.size(); ++i) QVERIFY(view->field()->panels[i]->value == expected->panels[i]->value);
    // Pixels are the values' colours, the top row is phi_1 near 2 pi.
    const auto& s = view->state().settings;
    const QImage image = fieldImage(s, expected->at(1, 3));
    const auto map = colourMap("viridis", true, false, false);
    for (const auto& [x, y] : {std::pair{0, 0}, {127, 5}, {64, 100}}) {
      const double v = expected->at(1, 3).value[size_t(y * 128 + x)];
      QCOMPARE(image.pixel(x, 127 - y), map[int(std::lround(255 * v))] | 0xFF000000U);
    }
    QCOMPARE(fieldCaption(s, expected->at(0, 2), 2), QStringLiteral("RMSE %1   mass 0.87").arg(expected->at(0, 2).rmse, 0, 'f', 3));
    QCOMPARE(fieldCaption(s, expected->at(0, 0), 0), QString("reference"));
    QVERIFY2(view->canvas()->accessibleName().contains("β = 2 β*, d 16 · K 256 mass-aware: RMSE 0.046 mass 1.00"), qPrintable(view->canvas()->accessibleName()));
  }

  void pointsAndQueriesAreInverse() {
    for (const char* preset : {"paper", "figure-1"}) {
      const auto s = analysis::find_field_preset(preset)->make();
      const QRectF panel(100, 50, 148, 148);
      for (const QPointF& at : {QPointF(101, 51), QPointF(170.5, 99.25), QPointF(247, 197)}) {
        const QPointF q = fieldQuery(s, panel, at), back = fieldPoint(s, panel, q.x(), q.y());
        QVERIFY(near(back.x(), at.x(), 1e-9) && near(back.y(), at.y(), 1e-9));
      }
    }
    const auto torus = analysis::find_field_preset("paper")->make();
    // Over the edge of the torus one comes back on the other side; phi_1 grows upwards.
    const QPointF q = fieldQuery(torus, QRectF(0, 0, 100, 100), QPointF(110, 25));
    QVERIFY(near(q.x(), 0.1 * kTurn, 1e-12) && near(q.y(), 0.75 * kTurn, 1e-12));
  }

  void crossIsExactAndLinked() {
    auto view = lab();
    const QPointF at = fieldGeometry(view->state().settings, QRectF(view->canvas()->rect()), Theme::current()).panels[8].center() + QPointF(20, 11);
    QTest::mouseMove(view->canvas(), at.toPoint());
    QMouseEvent move(QEvent::MouseMove, at, view->canvas()->mapToGlobal(at), Qt::NoButton, Qt::NoButton, {});
    QCoreApplication::sendEvent(view->canvas(), &move);
    QVERIFY(view->state().cross.has_value());
    const auto& s = view->state().settings;
    const auto expected = analysis::value_field_at(s, view->state().cross->x(), view->state().cross->y());
    QCOMPARE(view->crossValues(), expected);
    QCOMPARE(expected.size(), size_t(19));
    QCOMPARE(view->shownRow(), 1);
    const QStringList lines = view->controls()->crossText().split('\n');
    QCOMPARE(lines.size(), 7);
    QVERIFY(lines[0].startsWith(QStringLiteral("φ₀ = ")));
    // Panel 8 is row 1, column 2.
    QCOMPARE(lines[3], QStringLiteral("d 4 · K 4\t%1").arg(expected[1 + 8], 0, 'f', 3));
  }

  void draggedKeysMoveAndFieldsFollow() {
    auto view = lab();
    const auto before = view->state().settings.keys[2];
    const QPointF from = pointOf(*view, 7, 2), to = from + QPointF(23, -14);
    drag(view->canvas(), from, to);
    const auto& s = view->state().settings;
    QCOMPARE(view->state().selected, 2);
    QVERIFY(view->state().edited);
    const double side = fieldGeometry(s, QRectF(view->canvas()->rect()), Theme::current()).size;
    const auto turn = [](double a) { return a - kTurn * std::floor(a / kTurn); };
    QVERIFY2(near(s.keys[2].x, turn(before.x + 23 * kTurn / side), 1.5 * kTurn / side), qPrintable(QString::number(s.keys[2].x)));
    QVERIFY(near(s.keys[2].y, turn(before.y + 14 * kTurn / side), 1.5 * kTurn / side));
    QVERIFY(view->settled());
    QCOMPARE(int(view->field()->x.size()), 128);
    const auto expected = analysis::value_field(s);
    for (size_t i = 0; i < expected->panels.size(); ++i) QVERIFY(view->field()->panels[i]->value == expected->panels[i]->value);
    // One undo brings the key back.
    view->undo();
    QVERIFY(view->state().settings.keys[2] == before);
    QVERIFY(!view->canUndo());
  }

  void draggingIsQuickAndCoalesced() {
    Worker worker;
    auto view = lab(&worker);
    QTRY_VERIFY(view->settled());
    QSignalSpy fields(view.get(), &ValueFieldView::fieldChanged);
    for (int i = 0; i < 200; ++i) view->moveKey(0, QPointF(0.01 * i, 1), true);
    QTRY_VERIFY(!worker.busy());
    QCOMPARE(int(view->field()->x.size()), ValueFieldView::kQuickGrid);
    QVERIFY(!view->settled());
    QVERIFY2(fields.count() < 100, qPrintable(QString::number(fields.count())));  // most were never computed
    QCOMPARE(view->field()->settings.keys[0].x, 1.99);  // but the last one was
    view->finishQuick();
    QTRY_VERIFY(view->settled());
    QCOMPARE(int(view->field()->x.size()), 128);
    QCOMPARE(view->field()->settings.keys[0].x, 1.99);
  }

  void keysAreAddedAndRemoved() {
    auto view = lab();
    const QRectF panel = view->canvas()->geometryNow().panels[0];
    QPointF free;
    for (double x = 10; x < panel.width() && free.isNull(); x += 7)
      if (view->canvas()->keyAt(panel.topLeft() + QPointF(x, 70)) < 0) free = panel.topLeft() + QPointF(x, 70);
    QTest::mouseDClick(view->canvas(), Qt::LeftButton, {}, free.toPoint());
    QCOMPARE(view->state().settings.keys.size(), size_t(13));
    QCOMPARE(view->state().selected, 12);
    const auto& key = view->state().settings.keys[12];
    const QPointF query = fieldQuery(view->state().settings, panel, free.toPoint());
    QVERIFY(near(key.x, query.x(), 1e-12) && near(key.y, query.y(), 1e-12));
    QCOMPARE(key.value[0], analysis::spare_value(analysis::find_field_preset("paper")->make().keys, 1)[0]);
    QCOMPARE(view->field()->settings.keys.size(), size_t(13));
    // The double click did not open the panel.
    QTest::qWait(QApplication::doubleClickInterval() + 50);
    QCOMPARE(view->state().large, -1);
    QTest::keyClick(view->canvas(), Qt::Key_Delete);
    QCOMPARE(view->state().settings.keys.size(), size_t(12));
    QVERIFY(view->field()->settings.keys == analysis::find_field_preset("paper")->make().keys);
    QTest::keyClick(view->canvas(), Qt::Key_Delete);  // nothing is selected
    QCOMPARE(view->state().settings.keys.size(), size_t(12));
    // The last key stays.
    view->change([](FieldState& state) { state.settings.keys.resize(1); });
    view->removeKey(0);
    QCOMPARE(view->state().settings.keys.size(), size_t(1));
  }

  void keyboardMovesKeysAndTheCross() {
    auto view = lab();
    view->canvas()->setFocus();
    QTest::keyClick(view->canvas(), Qt::Key_PageDown);
    QCOMPARE(view->state().selected, 0);
    const double x = view->state().settings.keys[0].x;
    QTest::keyClick(view->canvas(), Qt::Key_Right);
    QVERIFY(near(view->state().settings.keys[0].x, x + kTurn / 64, 1e-12));
    QTRY_VERIFY(view->settled());
    QTest::keyClick(view->canvas(), Qt::Key_Escape);
    QCOMPARE(view->state().selected, -1);
    QTest::keyClick(view->canvas(), Qt::Key_Up, Qt::ShiftModifier);
    QVERIFY(view->state().cross.has_value());
    QTest::keyClick(view->canvas(), Qt::Key_Insert);
    QCOMPARE(view->state().settings.keys.size(), size_t(13));
    QTest::keyClick(view->canvas(), Qt::Key_Plus);
    QCOMPARE(view->state().settings.rows[0], 0.54);
  }

  void clickOpensAPanelLarge() {
    auto view = lab();
    const QRectF panel = view->canvas()->geometryNow().panels[9];
    QPointF free = panel.center();
    for (double x = 10; x < panel.width(); x += 7)
      if (view->canvas()->keyAt(panel.topLeft() + QPointF(x, 40)) < 0) free = panel.topLeft() + QPointF(x, 40);
    QTest::mouseClick(view->canvas(), Qt::LeftButton, {}, free.toPoint());
    QTRY_COMPARE(view->state().large, 9);
    keepPicture(picture(*view), "value-field-large");
    // Keys are dragged in the large panel too.
    const QRectF square = largeFieldPanel(QRectF(view->canvas()->rect()), Theme::current());
    const auto& s = view->state().settings;
    const QPointF from = fieldPoint(s, square, s.keys[0].x, s.keys[0].y);
    QCOMPARE(view->canvas()->keyAt(from), 0);
    const double y = s.keys[0].y;
    drag(view->canvas(), from, from + QPointF(0, 30));
    QVERIFY(near(view->state().settings.keys[0].y, y - 30 * kTurn / square.height(), 2 * kTurn / square.height()));
    QTest::keyClick(view->canvas(), Qt::Key_Escape);
    QCOMPARE(view->state().large, -1);
  }

  void wheelChangesItsRow() {
    auto view = lab();
    const QPointF at = view->canvas()->geometryNow().panels[7].center();
    QWheelEvent wheel(at, view->canvas()->mapToGlobal(at), {}, QPoint(0, 240), Qt::NoButton, {}, Qt::NoScrollPhase, false);
    QCoreApplication::sendEvent(view->canvas(), &wheel);
    QVERIFY(view->state().settings.rows == (std::vector<double>{0.5, 1.17, 2}));
    QTRY_VERIFY(view->settled());
    QVERIFY(view->field()->settings.rows == (std::vector<double>{0.5, 1.17, 2}));
    // Over full attention there is no beta to change.
    const QPointF reference = view->canvas()->geometryNow().panels[6].center();
    QWheelEvent other(reference, view->canvas()->mapToGlobal(reference), {}, QPoint(0, 240), Qt::NoButton, {}, Qt::NoScrollPhase, false);
    QCoreApplication::sendEvent(view->canvas(), &other);
    QVERIFY(view->state().settings.rows == (std::vector<double>{0.5, 1.17, 2}));
  }

  void controlsChangeTheField() {
    auto view = lab();
    auto* tau = view->controls()->findChild<QDoubleSpinBox*>();
    QVERIFY(tau);
    for (auto* box : view->controls()->findChildren<QDoubleSpinBox*>())
      if (box->accessibleName() == "Temperature tau") tau = box;
    tau->setValue(0.5);
    QCOMPARE(view->field()->beta_star, 2.0);
    for (auto* box : view->controls()->findChildren<QSpinBox*>())
      if (box->accessibleName() == "count") box->setValue(20);
    QCOMPARE(view->field()->settings.keys.size(), size_t(20));
    for (auto* box : view->controls()->findChildren<QSpinBox*>())
      if (box->accessibleName() == "factors U") box->setValue(1);
    QVERIFY(view->field()->settings.space == analysis::FieldSpace::plane);
    QCOMPARE(view->field()->settings.keys.size(), size_t(20));
    QCOMPARE(view->field()->settings.columns[3].top_k, int64_t(16));  // all of the 16 codes now
    for (auto* box : view->controls()->findChildren<QComboBox*>())
      if (box->accessibleName() == "values") {
        box->setCurrentIndex(1);
        Q_EMIT box->activated(1);
      }
    QCOMPARE(view->field()->settings.channels, 3);
    QCOMPARE(view->field()->at(0, 1).value.size(), size_t(128 * 128 * 3));
    keepPicture(picture(*view), "value-field-plane-rgb");
  }

  void badChangesAreRefused() {
    auto view = lab();
    const FieldState before = view->state();
    view->change([](FieldState& state) { state.settings.columns[1].codes = 1; });
    QVERIFY(view->state().settings == before.settings);
    view->change([](FieldState& state) { state.settings.rows = {}; });
    QVERIFY(view->state().settings == before.settings);
    view->change([](FieldState& state) { state.settings.tau = std::nan(""); });
    QVERIFY(view->state().settings == before.settings);
    for (const char* text : {"", "{", "[]", "{\"format\": \"other\"}", "{\"format\": \"slotscope-value-field\", \"version\": 2}",
                             "{\"format\": \"slotscope-value-field\", \"version\": 1, \"settings\": \"{}\"}"})
      QVERIFY2(!view->restore(text), text);
    QVERIFY(view->state().settings == before.settings);
  }

  void stateComesBack() {
    auto view = lab();
    view->change([](FieldState& state) {
      state = fieldStateOf(*analysis::find_field_preset("figure-1"));
      state.settings.keys[1].x = 0.1 + 0.2, state.edited = true;
      state.settings.columns[3].beta_write = std::numeric_limits<double>::infinity();
    });
    view->setCross(QPointF(0.25, 1.0 / 3));
    view->selectKey(1);
    view->setLarge(3);
    const QByteArray json = view->saved();
    auto other = lab();
    QVERIFY(other->restore(json));
    QVERIFY(other->state().settings == view->state().settings);
    QVERIFY(other->state().cross == view->state().cross);
    QCOMPARE(other->state().selected, 1);
    QCOMPARE(other->state().large, 3);
    QVERIFY(other->state().edited);
    QCOMPARE(other->saved(), json);
    for (size_t i = 0; i < 4; ++i) QVERIFY(other->field()->panels[i]->value == view->field()->panels[i]->value);
    // Files: the state, the command line's settings, a result.
    QTemporaryDir folder;
    QVERIFY(view->saveFile(folder.filePath("state.json")));
    auto third = lab();
    QVERIFY(third->openFile(folder.filePath("state.json")));
    QCOMPARE(third->saved(), json);
    QFile settings(folder.filePath("settings.json"));
    QVERIFY(settings.open(QIODevice::WriteOnly));
    settings.write(QByteArray::fromStdString(analysis::field_settings_json(view->state().settings)));
    settings.close();
    auto fourth = lab();
    QVERIFY(fourth->openFile(settings.fileName()));
    QVERIFY(fourth->state().settings == view->state().settings);
    trace::write_result(folder.filePath("field.h5").toStdString(), analysis::field_result(*view->field()), false);
    auto fifth = lab();
    QVERIFY(fifth->openFile(folder.filePath("field.h5")));
    QVERIFY(fifth->state().settings == view->state().settings);
    QVERIFY(!fifth->openFile(folder.filePath("none.json")));
    QVERIFY(fifth->state().settings == view->state().settings);
  }

  void figureAndCsvHaveTheFullGrid() {
    auto view = lab();
    view->moveKey(0, QPointF(1, 1), true);  // a drag that goes on: 64 queries on screen
    QCOMPARE(int(view->field()->x.size()), 64);
    const QString csv = view->csv();
    const auto expected = analysis::value_field(view->state().settings);
    QCOMPARE(csv.count('\n') - csv.count("\n#") - 1, 1 + 128 * 128);
    const auto lines = csv.split('\n');
    const auto first = std::find_if(lines.begin(), lines.end(), [](const QString& l) { return l.startsWith("phi_0,"); });
    QVERIFY(first != lines.end());
    const auto fields = (first + 1 + 5 * 128 + 7)->split(',');
    QCOMPARE(fields.size(), 2 + 1 + 18);
    QCOMPARE(fields[0].toDouble(), expected->x[7]);
    QCOMPARE(fields[1].toDouble(), expected->y[5]);
    QCOMPARE(fields[3 + 16].toDouble(), expected->panels[16]->value[5 * 128 + 7]);
    ExportOptions options;
    const QImage image = renderFigure(figureOf(*view), options, view->figureSize().toSize());
    QVERIFY(!image.isNull());
    keepPicture(image, "value-field-figure");
  }

  void everyPresetIsDrawn() {
    auto view = lab();
    for (const auto& preset : analysis::field_presets()) {
      view->setState(fieldStateOf(preset));
      QVERIFY(view->settled());
      keepPicture(picture(*view), QStringLiteral("value-field-preset-") + preset.name);
    }
    for (const auto& set : analysis::field_column_sets())
      for (int large = 0; large < 3; ++large) {
        view->change([&](FieldState& state) { state = firstFieldState(), state.settings.columns = set.make(state.settings.space), state.columns = set.name; });
        view->setLarge(large + 1);
        QVERIFY(!picture(*view).isNull());
      }
    view->resize(300, 200);
    QVERIFY(!picture(*view).isNull());
  }

  void looksAsItShould() {
    for (const bool dark : {false, true}) {
      Theme::apply(pictureTheme(dark));
      auto view = lab();
      view->setCross(QPointF(4.965, 2.272));
      keepPicture(picture(*view), dark ? "value-field-dark" : "value-field");
      // The stored ones are smaller: fields do not pack well.
      view->change([](FieldState& state) { state.settings.rows = {1}, state.settings.columns.erase(state.settings.columns.begin() + 4, state.settings.columns.end()); });
      view->resize(720, 400);
      QCoreApplication::processEvents();
      const QImage image = picture(*view);
      keepPicture(image, dark ? "value_field_dark" : "value_field_light");
      comparePicture(image, QStringLiteral(SLOTSCOPE_SOURCE_DIR "/tests/views/pictures/value_field_%1.png").arg(dark ? "dark" : "light"));
    }
  }
};

SLOTSCOPE_VIEW_TEST(TestValueField)
#include "test_value_field.moc"
