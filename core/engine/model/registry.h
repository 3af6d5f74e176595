// Families by model_type. A new family is one line of families.h and one file with a subclass of FamilyModel
// (resources/adding-a-family.md).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/engine/model/family.h"

namespace slotscope::engine {

struct Family {
  const char* model_type;
  ReadFamily read;
};

const std::vector<Family>& families();
// The family of a checkpoint by config.json's model_type, its keys read, its tensors not checked yet. Of a config alone
// (formats/planned_checkpoint.h) it says which tensors there will be.
std::unique_ptr<FamilyModel> read_family(const formats::Checkpoint&, const std::string& flavour, std::string& model_type);
// The model of a checkpoint: its family by config.json's model_type, its keys read, its tensors checked. Throws Error: with
// the list of known types, for unsupported options by name, for missing, unexpected and misshapen tensors.
std::unique_ptr<FamilyModel> read_model(const formats::Checkpoint&, const std::string& flavour,
                                        std::string& model_type);

}  // namespace slotscope::engine
