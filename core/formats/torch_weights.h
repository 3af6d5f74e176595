// Which part of a torch.save file is the weights: a state_dict, or a training checkpoint with optimiser
// state, averages and settings beside them (bad-inputs B21). Reads the pickled value only, no storage.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/formats/checkpoint.h"
#include "core/formats/torch_file.h"

namespace slotscope::formats {

struct TorchWeights {
  std::vector<TensorInfo> tensors;  // names as stored, in the file's order
  std::vector<IgnoredItem> ignored;
  std::vector<std::string> notes;
};

// Everything that holds tensors is a candidate, under the path of its keys ("model", "state_dict",
// "optimizer"). The likely one is found by content first: names of a known family, names like those of
// parameters, never optimiser or random state; then averages (EMA) come after the rest, usual keys first,
// larger ones first. `wanted`: the path of the one to take, empty for the likely one. `model_type`: of
// config.json, or empty. Throws Error: no tensors, no such candidate (with the list), a tensor that does not
// fit its storage, a name that is no UTF-8 or appears twice.
TorchWeights find_torch_weights(TorchFile& file, const std::string& wanted, std::string_view model_type);

// Names of embedding tensors by which a family is known ("model.embeddings.weight"), longest first; all of
// them for a model_type that is empty or not known.
std::vector<std::string_view> embedding_names(std::string_view model_type);

// Removes what wrappers put into names: "_orig_mod" and the like anywhere; a prefix that all names have
// ("module.", "model.", "net.") only when then a known embedding name appears, or when it is "module." and
// there is none to compare with. Never makes two names equal. Notes say what was removed.
void strip_wrapper_names(std::vector<TensorInfo>& tensors, std::string_view model_type,
                         std::vector<std::string>& notes);

}  // namespace slotscope::formats
