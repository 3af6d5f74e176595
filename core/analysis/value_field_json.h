// Settings of a value field as text, the form in which result files, saved windows and --settings hold them.
#pragma once

#include <string>
#include <string_view>

#include "core/analysis/value_field.h"

namespace slotscope::analysis {

// {"space": "torus", "tau": 2.0, "grid": 128, "channels": 1, "keys": [{"at": [x, y], "value": [v]}], "rows": [1.0],
//  "columns": [{"kind": "ramnet", "codes": 4, "top_k": 16, ...}]}: what differs from the defaults, keys and columns in order.
// Infinite numbers are the texts "inf" and "-inf". Read back, it is equal to the settings, bit for bit.
std::string field_settings_json(const FieldSettings&);

// Throws Error (usage) that names `source` and what is wrong: broken JSON, a name that is not known, a value of another kind,
// what field_problem says. Absent members have their defaults.
FieldSettings parse_field_settings(std::string_view json, const std::string& source);

}  // namespace slotscope::analysis
