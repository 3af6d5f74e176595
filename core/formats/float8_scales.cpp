#include "core/formats/float8_scales.h"

#include <algorithm>

#include "core/formats/utf8.h"

namespace slotscope::formats {
namespace {

const TensorInfo* find_name(const std::vector<TensorInfo>& tensors, const std::string& name) {
  const auto at = std::lower_bound(tensors.begin(), tensors.end(), name,
                                   [](const TensorInfo& t, const std::string& n) { return t.name < n; });
  return at != tensors.end() && at->name == name ? &*at : nullptr;
}

std::string count_of(size_t n) { return std::to_string(n) + (n == 1 ? " FP8 tensor" : " FP8 tensors"); }

}  // namespace

const TensorInfo* find_scale(const std::vector<TensorInfo>& tensors, const TensorInfo& tensor) {
  for (const char* end : {"_scale", "_scale_inv", "_scales", ".scale", ".scale_inv"})
    if (const TensorInfo* found = find_name(tensors, tensor.name + end)) return found;
  const auto dot = tensor.name.rfind('.');
  if (dot == std::string::npos) return nullptr;
  const std::string module = tensor.name.substr(0, dot + 1), own = tensor.name.substr(dot + 1);
  // "scale" alone belongs to the weight: a bias beside it has none.
  for (const std::string& name : {"scale_" + own, own == "weight" ? std::string("scale") : std::string(),
                                  own == "weight" ? std::string("scale_inv") : std::string()})
    if (!name.empty())
      if (const TensorInfo* found = find_name(tensors, module + name)) return found;
  return nullptr;
}

Float8Words float8_words(const std::vector<TensorInfo>& tensors) {
  size_t bare = 0, scaled = 0;
  const TensorInfo* first = nullptr;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.dtype != DType::f8_e4m3 && tensor.dtype != DType::f8_e5m2) continue;
    if (find_scale(tensors, tensor)) {
      ++scaled;
    } else {
      if (!first) first = &tensor;
      ++bare;
    }
  }
  Float8Words words;
  if (bare)
    words.warning = count_of(bare) + " without a scale ('" + printable(first->name) + "'" + (bare > 1 ? ", ..." : "") +
                    "): the values may need a factor that is not stored";
  if (scaled) words.note = count_of(scaled) + " with scales: values are shown as stored, no scale is applied";
  return words;
}

}  // namespace slotscope::formats
