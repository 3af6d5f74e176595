// What the fields of a row mean in each format (spec: prompts). Inside core/formats.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/formats/prompt_import.h"

namespace slotscope::formats {

// Joins several references to the one text that a trace shows as expected answer.
inline constexpr std::string_view kReferenceSeparator = ", ";

struct RowPlace {
  const std::filesystem::path& file;
  int64_t row = 0, line = 0;
  bool single = false;                                    // the whole file is this row
  std::string item(const std::string& field = {}) const;  // "line 3: outputs", "row 2: outputs"
};

// The format that the keys of a row say. Throws Error that lists the keys and the known layouts.
PromptFormat detect_layout(const RowPlace& place, const nlohmann::json& row);
// The row as `format` (not automatic, not text) reads it. Throws Error naming file, line, field, found and
// expected.
PromptRow layout_row(const RowPlace& place, const nlohmann::json& row, PromptFormat format);

}  // namespace slotscope::formats
