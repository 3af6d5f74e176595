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

// One panel in words, as `--panel` takes it: a kind and its settings, separated by commas.
//   full
//   ramnet,d=4,K=16,mass-aware,divide,gamma=-2,order=reversed,seed=1,beta-read=1,beta-write=inf,eps=1e-6   (without K: all slots)
//   quantised,d=8,bits=4      quantised,k-means=16,seed=1      quantised,bits=2
//   linear,elu      linear,features=64,seed=1
// Throws Error (usage) naming the word.
FieldPanel parse_field_panel(std::string_view text, FieldSpace);

}  // namespace slotscope::analysis
