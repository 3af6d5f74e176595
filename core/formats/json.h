// JSON of other people's files: depth limit, duplicate keys, Infinity and NaN as Python writes them, numbers
// beyond a double (spec: building "Others"; bad-inputs B05, B13, B22).
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace slotscope::formats {

inline constexpr int kJsonDepthLimit = 100;

struct JsonOptions {
  std::string file;               // for messages
  bool nonfinite = false;         // Infinity, -Infinity, NaN and 1e9999 are numbers
  bool refuse_duplicates = true;  // else the last value counts and `duplicates` tells
  int depth_limit = kJsonDepthLimit;
};

// Parses a whole document. Throws Error with the byte position for broken JSON, invalid UTF-8, or nesting
// beyond the limit; for a repeated key when those are refused. `duplicates` (may be null) gets "key 'a.b'
// appears twice".
nlohmann::json parse_json(std::string_view text, const JsonOptions& options,
                          std::vector<std::string>* duplicates = nullptr);

// Copy of `text` in which every Infinity, NaN and overflowing number outside strings is replaced by a string
// of the same length, so that byte positions stay; `values` gets (ordinal among all strings and keys of the
// document, value).
std::string replace_nonfinite(std::string_view text, std::vector<std::pair<size_t, double>>& values);

// Throws Error naming `file` and the byte position when `text` is no valid UTF-8.
void require_utf8(std::string_view text, const std::string& file, const std::string& item);

// The whole file; Error when it cannot be read, is no regular file or is over `limit` bytes.
std::string read_text_file(const std::filesystem::path& path, uint64_t limit);

std::string thousands(uint64_t n);  // "100,000,000"

}  // namespace slotscope::formats
