// What a pickled value of a torch.save file describes as a tensor.
#pragma once

#include <string>

#include "core/formats/checkpoint.h"
#include "core/formats/torch_file.h"

namespace slotscope::formats {

// True for the calls that rebuild a tensor or a Parameter, whatever is in them.
bool is_torch_tensor(const PickleTree& tree, PickleId id);

// The tensor that the call `id` describes; its name is taken as it is. TensorInfo::storage is the number in
// `file`, and offset the storage's offset plus the position in it (for a packed storage: in its unpacked
// bytes). Every number is checked: shape and strides against the storage, without wrap. Throws Error naming
// the tensor. Quantised, sparse, meta and other special tensors are listed with dtype unknown, `dtype_text`
// saying what they are; they have no storage.
TensorInfo read_torch_tensor(TorchFile& file, PickleId id, std::string name);

}  // namespace slotscope::formats
