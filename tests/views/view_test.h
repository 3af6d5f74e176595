// main() of the view tests: no display needed, the fonts of the pictures, light theme.
// SLOTSCOPE_VIEW_TEST(Class) at the end.
#pragma once

#include <QApplication>
#include <QFontInfo>
#include <QtTest>
#include <cmath>

#include "views/theme.h"

namespace slotscope::testing {

inline views::Theme pictureTheme(bool dark = false) {
  views::Theme theme = dark ? views::Theme::darkTheme() : views::Theme::light();
  theme.setFamilies(QStringLiteral("DejaVu Sans"), QStringLiteral("DejaVu Sans Mono"));
  return theme;
}

// Where tests leave pictures to be looked at: SLOTSCOPE_PICTURES, or nowhere.
inline void keepPicture(const QImage& image, const QString& name) {
  const QString folder = qEnvironmentVariable("SLOTSCOPE_PICTURES");
  if (!folder.isEmpty()) image.save(folder + QLatin1Char('/') + name + QStringLiteral(".png"));
}

// Fails unless at least 99.5 % of the pixels are within 8 levels of a stored picture that was looked at.
// Pictures are made with the DejaVu fonts; where those are missing the comparison is skipped.
inline void comparePicture(const QImage& image, const QString& file) {
  if (QFontInfo(pictureTheme().ui).family() != QStringLiteral("DejaVu Sans"))
    QSKIP("needs the font DejaVu Sans");
  const QImage stored = QImage(file).convertToFormat(QImage::Format_RGB32);
  QVERIFY2(!stored.isNull(), qPrintable(file));
  QCOMPARE(image.size(), stored.size());
  qint64 off = 0;
  for (int y = 0; y < stored.height(); ++y)
    for (int x = 0; x < stored.width(); ++x) {
      const QRgb a = image.pixel(x, y), b = stored.pixel(x, y);
      off += std::abs(qRed(a) - qRed(b)) > 8 || std::abs(qGreen(a) - qGreen(b)) > 8 ||
             std::abs(qBlue(a) - qBlue(b)) > 8;
    }
  const double share = double(off) / (double(stored.width()) * stored.height());
  QVERIFY2(share <= 0.005,
           qPrintable(QStringLiteral("%1 % of the pixels differ from %2").arg(100 * share).arg(file)));
}

template <class Test>
int runViewTest(int argc, char** argv) {
  if (!qEnvironmentVariableIsSet("QT_QPA_PLATFORM")) qputenv("QT_QPA_PLATFORM", "offscreen");
  QApplication app(argc, argv);
  views::Theme::apply(pictureTheme());
  Test test;
  return QTest::qExec(&test, argc, argv);
}

}  // namespace slotscope::testing

#define SLOTSCOPE_VIEW_TEST(Class) \
  int main(int argc, char** argv) { return slotscope::testing::runViewTest<Class>(argc, argv); }
