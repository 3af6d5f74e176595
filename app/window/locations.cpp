#include "app/window/locations.h"

#include <QCoreApplication>
#include <QDir>
#include <QFileInfo>
#include <QTemporaryDir>

namespace slotscope::app {

namespace {
bool settings_are_volatile = false;
}

QString version() { return QStringLiteral(SLOTSCOPE_VERSION); }

QString resource(const QString& relative) {
  QStringList roots;
  if (const QString named = qEnvironmentVariable("SLOTSCOPE_RESOURCES"); !named.isEmpty()) roots << named;
  if (QCoreApplication::instance()) {
    const QString beside = QCoreApplication::applicationDirPath();
    roots << beside + "/../share/slotscope" << beside + "/../resources";
  }
  roots << QStringLiteral(SLOTSCOPE_RESOURCES_DIR);
  for (const QString& root : roots) {
    const QFileInfo info(QDir(root).filePath(relative));
    if (info.exists()) return info.canonicalFilePath();
  }
  return {};
}

PathKind kindOfPath(const QString& path) {
  const QFileInfo info(path);
  if (info.isDir()) return PathKind::checkpoint;
  const QString name = info.fileName().toLower();
  for (const char* suffix : {".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".index.json"})
    if (name.endsWith(QLatin1String(suffix))) return PathKind::checkpoint;
  for (const char* suffix : {".h5", ".hdf5", ".part"})
    if (name.endsWith(QLatin1String(suffix))) return PathKind::trace;
  return PathKind::neither;
}

QString weightsFilter() {
  return QStringLiteral("Weights (*.safetensors *.bin *.pt *.pth *.ckpt *.index.json);;All files (*)");
}

QString bundledCheckpoint() { return resource("checkpoints/raven-passkey"); }

std::unique_ptr<QSettings> settings() {
  if (settings_are_volatile) {
    // Gone with the program: every picture starts from the same state.
    static QTemporaryDir folder;
    return std::make_unique<QSettings>(folder.filePath("settings.ini"), QSettings::IniFormat);
  }
  if (const QString named = qEnvironmentVariable("SLOTSCOPE_SETTINGS"); !named.isEmpty())
    return std::make_unique<QSettings>(named, QSettings::IniFormat);
  return std::make_unique<QSettings>(QSettings::IniFormat, QSettings::UserScope, "slotscope", "slotscope");
}

void useVolatileSettings() { settings_are_volatile = true; }
bool volatileSettings() { return settings_are_volatile; }

}  // namespace slotscope::app
