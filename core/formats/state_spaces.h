// Folders of the original state-spaces code (spec: model-zoo 7.5, 8): no model_type, other keys and defaults.
#pragma once

#include "core/formats/config.h"

namespace slotscope::formats {

// The config of a checkpoint with the keys that the families read: as it is, or, of an original mamba or mamba2 folder
// (d_model, n_layer, ssm_cfg, no model_type), renamed and with that code's defaults, and a note that says so. Throws Error
// for what that code has and the families here do not: LayerNorm blocks, MLPs, attention layers, a part of the channels
// only, other layers.
Config model_config(const Checkpoint& checkpoint);

}  // namespace slotscope::formats
