// Shapes of published models, as the config.json of a model that nobody trained.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace slotscope::formats {

struct Preset {
  const char *name, *description;
  nlohmann::ordered_json config;
};

// ramnet-340m, ramnet-tiny, raven-424m, raven-tiny.
const std::vector<Preset>& presets();

// RAM-Net's heads with CAPE, layer by layer: all heads of the first `all` layers, the first half of the heads of the next `half`
// layers, none after (spec: ramnet 1.4: 4 and 4 at every depth).
nlohmann::ordered_json cape_pattern(int64_t layers, int64_t heads, int64_t all, int64_t half);

}  // namespace slotscope::formats
