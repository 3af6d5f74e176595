// The names of everything that can be captured, and the rules of --capture, --layers, --heads and --tokens
// (spec: architecture, "Capture and command line semantics"). A field name is the last part of the dataset's path.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace slotscope {

struct FieldInfo {
  std::string_view name;         // "route_index"
  std::string_view axes;         // "T,H_r,K"
  std::string_view description;  // one line, goes into the dataset's `description` attribute
};

// Every field of every family, in the order of resources/trace-format.md.
const std::vector<FieldInfo>& known_fields();
const FieldInfo* find_field(std::string_view name);

// Comma-separated names or globs ("route,esl,h*") -> field names without repeats, in known_fields() order.
// "route" = route_index + route_weight + selected + esl; "attribution" = what read attribution is made of in any family;
// "addresses" = what the views of RAM-Net's addresses show.
// Throws Error(usage) with the list for a name that matches nothing.
std::vector<std::string> expand_fields(std::string_view patterns);

// '*' and '?' globs on the whole text.
bool glob_match(std::string_view pattern, std::string_view text);

// "0,2-3" -> {0,2,3}, sorted, without repeats. Throws Error(usage) naming `option` for anything else or an index >= limit
// (limit < 0: no upper bound).
std::vector<int> parse_index_list(std::string_view text, std::string_view option, int limit);

// "A:B[,C:D]" half-open token ranges, sorted and merged. Throws Error(usage) naming `option`.
std::vector<std::pair<int64_t, int64_t>> parse_ranges(std::string_view text, std::string_view option);

}  // namespace slotscope
