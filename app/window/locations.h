// Where the program finds its own files and keeps its settings.
#pragma once

#include <QSettings>
#include <QString>
#include <memory>

namespace slotscope::app {

QString version();
// resources/<relative> of the source tree or of an installation; empty when there is none. Looked for in the
// environment's SLOTSCOPE_RESOURCES, beside the program (../share/slotscope, ../resources) and in the source
// tree it was built from.
QString resource(const QString& relative);
// The bundled checkpoint folder, or empty.
QString bundledCheckpoint();

// Settings of this user; SLOTSCOPE_SETTINGS names another file. With volatileSettings() nothing is read or
// written (pictures).
std::unique_ptr<QSettings> settings();
void useVolatileSettings();
bool volatileSettings();

}  // namespace slotscope::app
