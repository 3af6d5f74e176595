// The families of the registry, one file each.
#pragma once

#include "core/engine/model/family.h"

namespace slotscope::engine {

std::unique_ptr<FamilyModel> read_raven(const formats::Checkpoint&, const std::string& flavour);
std::unique_ptr<FamilyModel> read_gsa(const formats::Checkpoint&, const std::string& flavour);
std::unique_ptr<FamilyModel> read_abc(const formats::Checkpoint&, const std::string& flavour);
std::unique_ptr<FamilyModel> read_gla(const formats::Checkpoint&, const std::string& flavour);
std::unique_ptr<FamilyModel> read_retnet(const formats::Checkpoint&, const std::string& flavour);
std::unique_ptr<FamilyModel> read_linear_attn(const formats::Checkpoint&, const std::string& flavour);
std::unique_ptr<FamilyModel> read_delta_net(const formats::Checkpoint&, const std::string& flavour);
std::unique_ptr<FamilyModel> read_gated_deltanet(const formats::Checkpoint&, const std::string& flavour);
std::unique_ptr<FamilyModel> read_kda(const formats::Checkpoint&, const std::string& flavour);
std::unique_ptr<FamilyModel> read_mom(const formats::Checkpoint&, const std::string& flavour);
std::unique_ptr<FamilyModel> read_mamba2(const formats::Checkpoint&, const std::string& flavour);
std::unique_ptr<FamilyModel> read_mamba(const formats::Checkpoint&, const std::string& flavour);
std::unique_ptr<FamilyModel> read_forgetting_transformer(const formats::Checkpoint&, const std::string& flavour);
std::unique_ptr<FamilyModel> read_transformer(const formats::Checkpoint&, const std::string& flavour);

}  // namespace slotscope::engine
