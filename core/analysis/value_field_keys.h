// Keys to look at value fields with, and the sets of panels of the papers' figures (spec: ramnet 3).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/analysis/value_field.h"

namespace slotscope::analysis {

enum class FieldLayoutKind {
  spread,  // far from each other: each key is the farthest of 32 draws from those before it (Mitchell 1991)
  random,
  ring,    // torus: around (pi, pi), radius 0.6 pi; plane: on the unit circle
  grid,    // centres of a grid as square as it gets
};
struct FieldLayout {
  FieldLayoutKind kind = FieldLayoutKind::spread;
  int count = 12;
  uint64_t seed = 4;
  bool rgb = false;
  bool operator==(const FieldLayout&) const = default;
};
// In the plane keys lie in the unit disc (grid: in the square of side 1.6). Values: evenly spaced from 0 to 1 (RGB: hues around
// the circle), dealt out by the seed, so that every part of the colour map is used. The same on every machine. Throws Error
// (usage) for a count outside 1 .. kMostFieldKeys.
std::vector<FieldKey> field_keys(FieldSpace, const FieldLayout&);

// The value of a new key among others: the middle of the widest gap between their values (RGB: hues); for an empty list 0.5.
std::array<double, 3> spare_value(const std::vector<FieldKey>&, int channels);

// A named choice of columns.
struct FieldColumns {
  const char *name, *title, *tip;  // "paper", "paper set", "..."
  std::vector<FieldPanel> (*make)(FieldSpace);
};
const std::vector<FieldColumns>& field_column_sets();
const FieldColumns* find_field_columns(std::string_view name);

// A whole figure.
struct FieldPreset {
  const char *name, *title, *tip;
  FieldSettings (*make)();
};
// "paper": Figure 4 with tau = 1/8, whose fields have clear regions; "paper-smooth": tau = 2, the migration's; "figure-1": the
// predictors over a plane of queries; and others.
const std::vector<FieldPreset>& field_presets();
const FieldPreset* find_field_preset(std::string_view name);

}  // namespace slotscope::analysis
