// Everything that the value-field lab shows, as it is saved.
#pragma once

#include <QByteArray>
#include <QPointF>
#include <QString>
#include <optional>

#include "core/analysis/value_field_keys.h"

namespace slotscope::views {

struct FieldState {
  analysis::FieldSettings settings;
  analysis::FieldLayout layout;  // where the keys came from
  bool edited = false;           // since then keys were moved, added or removed by hand
  QString columns;               // the set that the columns came from; "": by hand
  std::optional<QPointF> cross;  // query coordinates
  int large = -1;                // panel shown large, [rows, columns]
  int selected = -1;             // key
};
FieldState fieldStateOf(const analysis::FieldPreset&);
FieldState firstFieldState();  // the preset "paper"

// JSON. Reading what cannot be read throws Error with the reason.
QByteArray fieldStateJson(const FieldState&);
FieldState parseFieldState(const QByteArray& json);

}  // namespace slotscope::views
