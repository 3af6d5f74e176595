// The pieces of value_field.cpp: geometry, what each kind of panel stores.
#pragma once

#include <vector>

#include "core/analysis/value_field.h"

namespace slotscope::analysis {

// Queries: every x with every y. A point of either space is its x part followed by its y part, of `width` numbers each.
struct FieldAxes {
  std::vector<double> x, y;
  int width = 2;                // torus 2, plane 1
  std::vector<double> x_part;  // [nx, width]
  std::vector<double> y_part;  // [ny, width]
};
FieldAxes field_axes(const FieldSettings&, std::vector<double> x, std::vector<double> y);
std::vector<double> field_point(const FieldKey&, FieldSpace);  // [2 width]
FieldKey field_key(const std::vector<double>& point, FieldSpace);  // its inverse; the value is left

// [n, count] dot products of `part` [n, width] with the part of `points` [count, 2 width] that begins at `from`, times scale.
std::vector<double> part_scores(const std::vector<double>& part, int width, const std::vector<double>& points, int from,
                                double scale);

// Logits of one part for all codes, times beta: [n, codes]. Torus: c_j . part. Plane: coordinate `axis` of c_j times part.
std::vector<double> code_logits(const std::vector<double>& part, int width, int codes, int axis, double beta);

// Keys and values as a quantised panel stores them.
std::vector<FieldKey> quantised_keys(const FieldSettings&, const FieldPanel&);

// Linear attention by random features: score tables of the queries, and per feature what the keys left.
struct FieldTerms {
  std::vector<double> score_x, score_y;  // [n, F]
  std::vector<double> payload, weight;   // [F, channels], [F]
};
FieldTerms feature_terms(const FieldSettings&, const FieldPanel&, const FieldAxes&);

// A RAM-Net memory after all keys were written. beta_write as multiplied out; infinite: nearest codes.
struct FieldMemory {
  std::vector<double> mass, state;  // [M], [M, channels]
  double mean_write_mass = 0;
};
FieldMemory write_memory(const FieldSettings&, const FieldPanel&, double beta_write);

}  // namespace slotscope::analysis
