// FP8 weights and the scales that quantised checkpoints store beside them.
#pragma once

#include <string>
#include <vector>

#include "core/formats/checkpoint.h"

namespace slotscope::formats {

// The tensor that holds the scale of `tensor` under one of the usual names ("X.weight_scale", "X.weight_scale_inv",
// "X.scale_weight", "X.scale" ... beside "X.weight"), or null. `tensors` is sorted by name.
const TensorInfo* find_scale(const std::vector<TensorInfo>& tensors, const TensorInfo& tensor);

// What a person must know about the FP8 tensors among `tensors` (sorted by name): `warning` when some have no scale, so that
// their values may lack a factor; `note` when some have one, which is not applied to the values that are shown. Empty: nothing.
struct Float8Words {
  std::string warning, note;
};
Float8Words float8_words(const std::vector<TensorInfo>& tensors);

}  // namespace slotscope::formats
