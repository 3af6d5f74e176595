// The only way to qcustomplot.h, from .cpp files of views/ alone. The project is compiled with QT_NO_KEYWORDS because `slots` is
// a word of its own science; QCustomPlot's header still writes Qt's keywords, so they exist for its length only.
#pragma once

#include <QObject>

#define signals Q_SIGNALS
#define slots Q_SLOTS
#define emit Q_EMIT
#define foreach Q_FOREACH
#include <qcustomplot.h>
#undef signals
#undef slots
#undef emit
#undef foreach
