// The families of the registry, one file each.
#pragma once

#include "core/engine/model/family.h"

namespace slotscope::engine {

std::unique_ptr<FamilyModel> read_raven(const formats::Checkpoint&, const std::string& flavour);
std::unique_ptr<FamilyModel> read_gsa(const formats::Checkpoint&, const std::string& flavour);
std::unique_ptr<FamilyModel> read_abc(const formats::Checkpoint&, const std::string& flavour);
std::unique_ptr<FamilyModel> read_transformer(const formats::Checkpoint&, const std::string& flavour);

}  // namespace slotscope::engine
