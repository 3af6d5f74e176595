#include "app/window/icons.h"

#include <QFile>
#include <QPainter>
#include <QSvgRenderer>

#include "views/theme.h"

// A resource inside a static library must be asked for, outside of any namespace.
static void loadResource() { Q_INIT_RESOURCE(slotscope_icons); }

namespace slotscope::app {

QPixmap iconPixmap(const QString& name, const QColor& colour, int size, double ratio) {
  static const bool loaded = [] {
    loadResource();
    return true;
  }();
  Q_UNUSED(loaded);
  QFile file(QStringLiteral(":/slotscope/icons/%1.svg").arg(name));
  if (!file.open(QIODevice::ReadOnly)) return {};
  QByteArray text = file.readAll();
  text.replace("currentColor", colour.name().toUtf8());
  QSvgRenderer renderer(text);
  QPixmap pixmap(QSize(size, size) * ratio);
  pixmap.fill(Qt::transparent);
  QPainter painter(&pixmap);
  painter.setRenderHint(QPainter::Antialiasing);
  renderer.render(&painter, QRectF(0, 0, size * ratio, size * ratio));
  painter.end();
  pixmap.setDevicePixelRatio(ratio);
  return pixmap;
}

QIcon icon(const QString& name, const QColor& colour, int size) {
  const QColor faint = views::Theme::current().text3;
  QIcon result;
  for (const double ratio : {1.0, 2.0}) {
    result.addPixmap(iconPixmap(name, colour, size, ratio));
    result.addPixmap(iconPixmap(name, faint, size, ratio), QIcon::Disabled);
  }
  return result;
}

QIcon icon(const QString& name) { return icon(name, views::Theme::current().text); }

}  // namespace slotscope::app
