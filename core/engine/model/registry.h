// Families by model_type. A new family is one row here and one file that describes and builds it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/engine/model/causal_lm.h"
#include "core/engine/model/weights.h"
#include "core/engine/session.h"

namespace slotscope::engine {

struct Family {
  const char* model_type;
  // From config.json, names and shapes only.
  ModelInfo (*describe)(const formats::Checkpoint&, const std::string& flavour);
  // Reads the weights. Facts that only values can tell are added to `info`.
  std::unique_ptr<CausalLM> (*build)(const formats::Checkpoint&, const std::string& flavour, const Weights&,
                                     ModelInfo& info);
};

const std::vector<Family>& families();
// By config.json's model_type. Throws Error with the list of known types.
const Family& family_of(const formats::Checkpoint&);

ModelInfo describe_raven(const formats::Checkpoint&, const std::string& flavour);
std::unique_ptr<CausalLM> build_raven(const formats::Checkpoint&, const std::string& flavour, const Weights&,
                                      ModelInfo& info);

}  // namespace slotscope::engine
