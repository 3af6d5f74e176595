// Names that a wrapper of the model has changed: torch.compile, DistributedDataParallel, FSDP, Lightning.
#include <algorithm>
#include <array>
#include <unordered_set>

#include "core/formats/torch_weights.h"
#include "core/formats/utf8.h"

namespace slotscope::formats {
namespace {

struct Family {
  std::array<std::string_view, 7> model_types;
  std::string_view with_head, base;  // embedding of the causal LM and of the model without its head
};
// model-zoo 2 to 16. Only the embedding is asked for: every checkpoint of a family has it, whatever its
// options.
constexpr Family kFamilies[] = {
    {{"llama", "mistral", "qwen2"}, "model.embed_tokens.weight", "embed_tokens.weight"},
    {{"gpt_neox"}, "gpt_neox.embed_in.weight", "embed_in.weight"},
    {{"mamba", "mamba2"}, "backbone.embeddings.weight", "embeddings.weight"},
    {{"raven"}, "model.embeddings.weight", "embeddings.weight"},
};

// Inserted by wrappers as attributes of their own; no model calls a part of itself so.
constexpr std::array<std::string_view, 4> kWrapperParts = {"_orig_mod", "_fsdp_wrapped_module",
                                                           "_checkpoint_wrapped_module", "_forward_module"};

std::string without_wrapper_parts(std::string_view name) {
  std::string out;
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find('.', at), name.size());
    const std::string_view part = name.substr(at, end - at);
    if (std::find(kWrapperParts.begin(), kWrapperParts.end(), part) == kWrapperParts.end()) {
      if (!out.empty()) out += '.';
      out += part;
    }
    at = end + 1;
  }
  return out;
}

bool all_start_with(const std::vector<TensorInfo>& tensors, std::string_view prefix) {
  return std::all_of(tensors.begin(), tensors.end(), [&](const TensorInfo& tensor) {
    return tensor.name.size() > prefix.size() && tensor.name.starts_with(prefix);
  });
}

// The prefix before the longest known embedding name at the end of a tensor's name; empty when one stands
// there without a prefix, or there is none (`known` tells).
std::string family_prefix(const std::vector<TensorInfo>& tensors, std::string_view model_type, bool& known) {
  for (const std::string_view embedding : embedding_names(model_type))
    for (const TensorInfo& tensor : tensors) {
      if (!tensor.name.ends_with(embedding)) continue;
      const std::string_view before =
          std::string_view(tensor.name).substr(0, tensor.name.size() - embedding.size());
      if (!before.empty() && before.back() != '.') continue;
      known = true;
      return std::string(before);
    }
  return {};
}

}  // namespace

std::vector<std::string_view> embedding_names(std::string_view model_type) {
  std::vector<std::string_view> names;
  for (const bool any : {false, true}) {
    for (const Family& family : kFamilies)
      if (any || (!model_type.empty() && std::find(family.model_types.begin(), family.model_types.end(),
                                                   model_type) != family.model_types.end()))
        for (const std::string_view name : {family.with_head, family.base})
          if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    if (!names.empty()) break;
  }
  std::stable_sort(names.begin(), names.end(), [](auto a, auto b) { return a.size() > b.size(); });
  return names;
}

void strip_wrapper_names(std::vector<TensorInfo>& tensors, std::string_view model_type,
                         std::vector<std::string>& notes) {
  std::unordered_set<std::string> names;
  size_t changed = 0;
  bool possible = true;
  for (const TensorInfo& tensor : tensors) {
    const std::string name = without_wrapper_parts(tensor.name);
    changed += name != tensor.name;
    possible &= !name.empty() && names.insert(name).second;
  }
  if (changed && possible) {
    for (TensorInfo& tensor : tensors) tensor.name = without_wrapper_parts(tensor.name);
    notes.push_back("names of wrappers (_orig_mod and the like) were removed from " +
                    std::to_string(changed) + " tensor names");
  }
  bool known = false;
  std::string prefix = family_prefix(tensors, model_type, known);
  for (int levels = 0; !known && levels < 4 && !tensors.empty(); ++levels)
    if (all_start_with(tensors, prefix + "module.")) prefix += "module.";
  if (prefix.empty() || !all_start_with(tensors, prefix)) return;
  for (TensorInfo& tensor : tensors) tensor.name.erase(0, prefix.size());
  notes.push_back("the prefix '" + printable(prefix) + "' was removed from all tensor names");
}

}  // namespace slotscope::formats
