// Colours, colour maps, number formats (design: sections 4 and 5). Expected values are the design's own.
#include <array>
#include <cmath>
#include <limits>

#include "tests/views/view_test.h"
#include "views/format.h"

using namespace slotscope;
using namespace slotscope::views;

namespace {

using Triple = std::array<double, 3>;

Triple linear(const QColor& c) {
  const auto f = [](double v) { return v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4); };
  return {f(c.redF()), f(c.greenF()), f(c.blueF())};
}

Triple times(const std::array<Triple, 3>& m, const Triple& v) {
  Triple r{};
  for (size_t i = 0; i < 3; ++i)
    for (size_t j = 0; j < 3; ++j) r[i] += m[i][j] * v[j];
  return r;
}

Triple lab(Triple rgb) {
  for (double& v : rgb) v = std::clamp(v, 0.0, 1.0);
  Triple x = times({{{0.4124564, 0.3575761, 0.1804375},
                     {0.2126729, 0.7151522, 0.0721750},
                     {0.0193339, 0.1191920, 0.9503041}}},
                   rgb);
  x[0] /= 0.95047, x[2] /= 1.08883;
  for (double& v : x) v = v > 216.0 / 24389 ? std::cbrt(v) : (24389.0 / 27 * v + 16) / 116;
  return {116 * x[1] - 16, 500 * (x[0] - x[1]), 200 * (x[1] - x[2])};
}

double distance(const Triple& a, const Triple& b) {
  return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}

// Dichromacies after Machado, Oliveira, Fernandes 2009 (severity 1), on linear RGB; the first is normal
// sight.
const std::array<std::array<Triple, 3>, 4> kSights = {{
    {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}},
    {{{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}}},
    {{{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}}},
    {{{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}}},
}};

double lightness(QRgb c) { return lab(linear(QColor(c)))[0]; }

}  // namespace

class TestTheme : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void contrast_data() {
    QTest::addColumn<QColor>("colour");
    QTest::addColumn<QColor>("ground");
    QTest::addColumn<double>("at_least");
    QTest::addColumn<double>("stated");  // 0: only a least ratio is stated
    for (const Theme& t : {Theme::light(), Theme::darkTheme()}) {
      const char* name = t.dark ? "dark" : "light";
      const auto row = [&](const char* what, const QColor& c, double least, double stated = 0) {
        QTest::addRow("%s %s", name, what) << c << t.surface << least << stated;
      };
      row("text", t.text, 7, t.dark ? 14.2 : 17.3);
      row("text 2", t.text2, 4.5, t.dark ? 7.6 : 6.7);
      row("text 3", t.text3, 4.5, t.dark ? 5.3 : 4.5);
      row("ok", t.ok, 5), row("warn", t.warn, 5), row("error", t.error, 5);
      row("retrieval", t.retrieval, 3), row("shared", t.shared, 3), row("other", t.other, 3);
      row("other as text", t.otherText, 4.5), row("retrieval as text", t.retrieval, 4.5),
          row("shared as text", t.shared, 4.5);
      row("selection", t.selection, 4.5), row("fit", t.fit, 4.5), row("model A", t.modelA, 4.5),
          row("model B", t.modelB, 4.5);
      QTest::addRow("%s ink", name) << t.ink << t.onInk << 7.0 << 0.0;
      QTest::addRow("%s selected row", name) << t.selection << t.selectionRow << 4.5 << 0.0;
      QTest::addRow("%s chip", name) << t.selection << t.selectionChipText << 4.5 << 0.0;
    }
  }
  void contrast() {
    QFETCH(QColor, colour);
    QFETCH(QColor, ground);
    QFETCH(double, at_least);
    QFETCH(double, stated);
    const double ratio = views::contrast(colour, ground);
    QVERIFY2(ratio >= at_least, qPrintable(QString::number(ratio)));
    if (stated > 0) QVERIFY2(std::abs(ratio - stated) <= 0.06, qPrintable(QString::number(ratio)));
  }

  void contrastFormula() {
    QCOMPARE(views::contrast(Qt::black, Qt::white), 21.0);
    QCOMPARE(views::contrast(Qt::red, Qt::red), 1.0);
  }

  void roleDistances() {
    for (const Theme& t : {Theme::light(), Theme::darkTheme()})
      for (const auto& sight : kSights) {
        const std::array<Triple, 3> seen = {lab(times(sight, linear(t.retrieval))),
                                            lab(times(sight, linear(t.shared))),
                                            lab(times(sight, linear(t.other)))};
        for (size_t i = 0; i < 3; ++i) {
          const double d = distance(seen[i], seen[(i + 1) % 3]);
          QVERIFY2(d >= 26, qPrintable(QString::number(d)));
        }
      }
  }

  void printedRoles() {
    Theme t = Theme::light();
    t.setPrintRoles(true);
    QCOMPARE(t.retrieval, QColor(0xFF3B3B));
    QCOMPARE(t.shared, QColor(0x0000FF));
    QCOMPARE(t.other, QColor(0x00E000));
    QVERIFY(views::contrast(t.otherText, t.surface) >= 4.5);
    t.setPrintRoles(false);
    QCOMPARE(t.retrieval, QColor(0xD2401A));
  }

  void regimesAndRoles() {
    const Theme t = Theme::light();
    QCOMPARE(t.regimeColour(analysis::Regime::long_range), t.other);
    QCOMPARE(t.regimeColour(analysis::Regime::intermediate), t.shared);
    QCOMPARE(t.regimeColour(analysis::Regime::short_range), t.retrieval);
    QCOMPARE(t.roleColour(analysis::SlotClass::retrieval), t.retrieval);
    QCOMPARE(t.roleColour(analysis::SlotClass::empty), t.surface);
  }

  void sizes() {
    Theme t = Theme::light();
    QCOMPARE(t.ui.pixelSize(), 12);
    QCOMPARE(t.label().pixelSize(), 11);
    QCOMPARE(t.micro().pixelSize(), 10);
    QCOMPARE(t.title().pixelSize(), 14);
    t.setBase(9.6);
    QCOMPARE(t.micro().pixelSize(), 10);
    t.setBase(24);
    QCOMPARE(t.micro().pixelSize(), 22);
    QCOMPARE(t.fixed.pixelSize(), 24);
  }

  void applyRepaintsEvenWhenOnlyRolesChange() {
    struct Probe : QWidget {
      int changes = 0;
      void changeEvent(QEvent* e) override { changes += e->type() == QEvent::PaletteChange; }
    } probe;
    Theme t = testing::pictureTheme();
    Theme::apply(t);
    probe.changes = 0;
    t.setPrintRoles(true);
    Theme::apply(t);
    QVERIFY(probe.changes > 0);
    QCOMPARE(Theme::current().retrieval, QColor(0xFF3B3B));
    probe.changes = 0;
    Theme::apply(testing::pictureTheme(true));
    QVERIFY(probe.changes > 0);
    QCOMPARE(qApp->palette().color(QPalette::Base), QColor(0x171B21));
    QVERIFY(!qApp->styleSheet().contains(QLatin1Char('%')));
    Theme::apply(testing::pictureTheme());
  }

  void mapEnds() {
    const auto ends = [](const QVector<QRgb>& m) {
      return std::pair{QColor(m.front()).name(), QColor(m.back()).name()};
    };
    using P = std::pair<QString, QString>;
    for (const QString& name : colourMapNames()) QCOMPARE(colourMap(name, false).size(), 256);
    QCOMPARE(ends(colourMap("cividis", false)), P("#f1ecd3", "#00224e"));
    QCOMPARE(ends(colourMap("cividis", false, true)), P("#00224e", "#f1ecd3"));
    QCOMPARE(ends(colourMap("cividis", false, false, false)), P("#fee838", "#00224e"));
    QCOMPARE(ends(colourMap("cividis", true, false, false)), P("#00224e", "#fee838"));
    QCOMPARE(ends(colourMap("viridis", true, false, false)), P("#440154", "#fde725"));
    QCOMPARE(ends(colourMap("magma", true, false, false)), P("#000004", "#fcfdbf"));
    QCOMPARE(ends(colourMap("batlow", true, false, false)), P("#011959", "#faccfa"));
    QCOMPARE(ends(colourMap("no such map", false)), P("#f1ecd3", "#00224e"));
    // Dark: drawn from 12 % upwards: just past the second of ten stops, at 12 % x 9 = 1.08 stops.
    QCOMPARE(colourMap("cividis", true).front(), mix(QColor(0x3B496C), QColor(0x123570), 0.08).rgb());
    // The middle of the paper map lies half way between its fifth and sixth stop.
    QVERIFY(distance(lab(linear(QColor(colourMap("cividis", false)[128]))),
                     lab(linear(mix(QColor(0x8A8678), QColor(0x707173), 0.5)))) < 1);
    QCOMPARE(QColor(divergingMap(false).front()).name(), QStringLiteral("#8c510a"));
    QCOMPARE(QColor(divergingMap(false).back()).name(), QStringLiteral("#01665e"));
  }

  void moreIsFurtherFromTheBackground() {
    for (const QString& name : colourMapNames())
      for (const bool dark : {false, true}) {
        const auto map = colourMap(name, dark);
        for (int i = 16; i < 256; i += 16) {
          const double step = lightness(map[i]) - lightness(map[i - 16]);
          QVERIFY2(dark ? step > 0 : step < 0, qPrintable(name + QString::number(i)));
        }
        // The lowest write still differs from "not routed".
        const Theme t = dark ? Theme::darkTheme() : Theme::light();
        const double d = distance(lab(linear(QColor(map.front()))), lab(linear(t.plot)));
        QVERIFY2(d >= 8, qPrintable(name + QString::number(d)));
      }
  }

  void numbers_data() {
    QTest::addColumn<QString>("got");
    QTest::addColumn<QString>("expected");
    const double nan = std::numeric_limits<double>::quiet_NaN(),
                 inf = std::numeric_limits<double>::infinity();
    const auto row = [](const QString& got, const char* expected) {
      QTest::addRow("%s", expected) << got << QString::fromUtf8(expected);
    };
    row(strength(0.3634), "0.363");
    row(strength(0.6980, 4), "0.6980");
    row(strength(0.6980124, 6), "0.698012");
    row(strength(3.2e-5), "3.2e−5");
    row(strength(0.00049), "4.9e−4");
    row(strength(9.96e-5), "1.0e−4");
    row(strength(0.0005), "0.001");
    row(strength(0.0), "0");
    row(strength(-0.0), "0");
    row(strength(1), "1.000");
    row(strength(-9.44, 2), "−9.44");
    row(strength(-1e-7), "−1.0e−7");
    row(strength(1e38), "1.0e38");
    row(strength(nan), "–");
    row(strength(-inf), "−∞");
    row(share(0.393), "39.3\u2009%");
    row(share(1), "100.0\u2009%");
    row(share(0.39, 0), "39\u2009%");
    row(share(nan), "–");
    row(barShare(0.393), "39%");
    row(barShare(0.005), "0.5%");
    row(barShare(0.0999), "10%");
    row(barShare(1), "100%");
    row(barShare(0), "0%");
    row(count(9999), "9999");
    row(count(10000), "10\u202F000");
    row(count(131072), "131\u202F072");
    row(count(1234567), "1\u202F234\u202F567");
    row(count(-9999), "−9999");
    row(count(-10000), "−10\u202F000");
    row(bytes(512), "512\u00A0B");
    row(bytes(21000000), "21\u00A0MB");
    row(bytes(999999), "1\u00A0MB");
    row(bytes(1400000000), "1.4\u00A0GB");
    row(bytes(31000000000), "31\u00A0GB");
    row(seconds(0.42), "0.4 s");
    row(seconds(4.2), "4 s");
    row(seconds(59.7), "1:00");
    row(seconds(72), "1:12");
    row(seconds(3723), "1:02:03");
    row(signedNumber(-9.441, 2), "−9.44");
    row(signedNumber(-0.001, 2), "0.00");
    row(signedNumber(inf, 2), "∞");
  }
  void numbers() {
    QFETCH(QString, got);
    QFETCH(QString, expected);
    QCOMPARE(got, expected);
  }

  void tokens_data() {
    QTest::addColumn<QByteArray>("bytes");
    QTest::addColumn<QString>("expected");
    const auto row = [](const QByteArray& b, const char* expected) {
      QTest::addRow("%s", expected) << b << QString::fromUtf8(expected);
    };
    row("x", "x");
    row(" the", "␣the");
    row("\n\t", "↵⇥");
    row("\x07", "\\x07");
    row(QByteArray("\0", 1), "\\x00");
    row("\x7f", "\\x7F");
    row("\r", "\\x0D");
    row("<bos>", "<bos>");
    row("é", "é");
    row("日本", "日本");
    row("\xF0\x9F", "F0 9F…");
    row("\x98\x80", "…98 80");
    row("a\xF0\x9F\x98", "a F0 9F 98…");
    row("\xFF", "FF");
    row("\xC0\xAF", "C0 AF");
    row("\xED\xA0\x80", "ED A0 80…");
    row("\u202E", "\\u202E");
    row("\u0085", "\\u0085");
    row("", "");
  }
  void tokens() {
    QFETCH(QByteArray, bytes);
    QFETCH(QString, expected);
    QCOMPARE(tokenText({bytes.constData(), size_t(bytes.size())}), expected);
  }
};

SLOTSCOPE_VIEW_TEST(TestTheme)
#include "test_theme.moc"
