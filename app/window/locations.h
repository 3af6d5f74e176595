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

// What a path is opened as. Files are told by their names: a folder, .safetensors, torch.save files (.bin, .pt,
// .pth, .ckpt) and index files are checkpoints; .h5, .hdf5 and .part are traces.
enum class PathKind { checkpoint, trace, neither };
PathKind kindOfPath(const QString& path);
// Name filters of the dialog for weights files.
QString weightsFilter();

// Settings of this user; SLOTSCOPE_SETTINGS names another file. With volatileSettings() nothing is read or
// written (pictures).
std::unique_ptr<QSettings> settings();
void useVolatileSettings();
bool volatileSettings();

}  // namespace slotscope::app
