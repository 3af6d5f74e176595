#include "core/engine/model/registry.h"

#include "core/formats/config.h"

namespace slotscope::engine {

const std::vector<Family>& families() {
  static const std::vector<Family> list = {{"raven", describe_raven, build_raven}};
  return list;
}

const Family& family_of(const formats::Checkpoint& checkpoint) {
  std::vector<std::string> known;
  for (const Family& family : families()) known.push_back(family.model_type);
  const std::string type = formats::require_model_type(formats::Config(checkpoint), known);
  for (const Family& family : families())
    if (type == family.model_type) return family;
  return families().front();  // require_model_type returns one of the known types
}

}  // namespace slotscope::engine
