// A value field as a result file (resources/result-format.md, kind "ramnet-valuefield"), and back.
#pragma once

#include <memory>
#include <string>

#include "core/analysis/value_field.h"
#include "core/trace/result_file.h"

namespace slotscope::analysis {

inline constexpr const char* kValueFieldKind = "ramnet-valuefield";

// Parameters: settings (field_settings_json), and the plainest of them by name. Datasets: x, y [G] query coordinates, row [R]
// beta / beta*, key_position [N,2], key_value [N,C], reference [y,x,channel], field [row,column,y,x,channel], read_mass
// [row,column,y,x], rmse, mean_read_mass, mean_write_mass, empty_cells, written_slots [row,column], and per RAM-Net panel
// memory/R_C/mass, state; per quantised panel memory/R_C/stored_position, stored_value.
trace::Result field_result(const ValueField&);

// Throws Error naming `file` where a dataset is missing or does not have the sizes that the settings say. The numbers are the
// file's own, nothing is computed again.
std::shared_ptr<const ValueField> field_of_result(const trace::Result&, const std::string& file);

}  // namespace slotscope::analysis
