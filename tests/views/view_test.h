// main() of the view tests: no display needed, the fonts of the pictures, light theme. SLOTSCOPE_VIEW_TEST(Class) at the end.
#pragma once

#include <QApplication>
#include <QtTest>

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
