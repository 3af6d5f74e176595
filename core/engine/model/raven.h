// The Raven mixer, both flavours (spec: model-zoo 2).
#pragma once

#include <memory>

#include "core/engine/model/mixer.h"
#include "core/engine/model/weights.h"
#include "core/formats/raven_config.h"

namespace slotscope::engine {

LayerShape raven_shape(const formats::RavenConfig& config);
std::unique_ptr<Mixer> make_raven(const formats::RavenConfig& config, int layer, const Weights& weights);

}  // namespace slotscope::engine
