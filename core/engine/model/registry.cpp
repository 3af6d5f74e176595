#include "core/engine/model/registry.h"

#include "core/engine/model/families.h"
#include "core/formats/state_spaces.h"

namespace slotscope::engine {

const std::vector<Family>& families() {
#define SLOTSCOPE_ROW(type) {#type, read_##type},
  static const std::vector<Family> list = {SLOTSCOPE_FAMILIES(SLOTSCOPE_ROW)};
#undef SLOTSCOPE_ROW
  return list;
}

std::unique_ptr<FamilyModel> read_family(const formats::Checkpoint& checkpoint, const std::string& flavour,
                                         std::string& model_type) {
  std::vector<std::string> known;
  for (const Family& family : families()) known.push_back(family.model_type);
  model_type = formats::require_model_type(formats::model_config(checkpoint), known);
  for (const Family& family : families()) {
    if (model_type != family.model_type) continue;
    return family.read(checkpoint, flavour);
  }
  return nullptr;  // require_model_type returns one of the known types
}

std::unique_ptr<FamilyModel> read_model(const formats::Checkpoint& checkpoint, const std::string& flavour,
                                        std::string& model_type) {
  auto model = read_family(checkpoint, flavour, model_type);
  model->check_tensors(checkpoint);
  return model;
}

}  // namespace slotscope::engine
