// Compares the tensors of a checkpoint with what a Raven configuration needs (spec: model-zoo 1.13, 2.2).
#pragma once

#include "core/formats/checkpoint.h"
#include "core/formats/raven_config.h"

namespace slotscope::formats {

// All expected tensors are there with these shapes and a floating dtype, and no others but ignorable ones.
// Adds notes on the stored dtypes of A_log and dt_bias (R13). Throws Error naming the tensor, the found and
// the expected shape.
void check_raven_tensors(const Checkpoint& checkpoint, RavenConfig& config);

}  // namespace slotscope::formats
