// What a sweep was asked for against what its file holds.
#include <vector>

#include "core/formats/config.h"
#include "core/sweep/sweep.h"

namespace slotscope::sweep {
namespace {

std::string text_of(const std::vector<int64_t>& list) {
  std::string text;
  for (const int64_t n : list) text += (text.empty() ? "" : ",") + std::to_string(n);
  return text;
}

std::string text_of(const std::vector<double>& list) {
  std::string text;
  for (const double n : list) text += (text.empty() ? "" : ",") + formats::number_text(n);
  return text.empty() ? "uniform" : text;
}

}  // namespace

std::string difference(const trace::SweepSettings& wanted, const trace::SweepSettings& stored) {
  const auto named = [](const trace::SweepSettings& s) {
    return std::vector<std::pair<const char*, std::string>>{
        {"--task", s.task},
        {"--lengths", text_of(s.lengths)},
        {"--length-counts", s.length_counts},
        {"--depths", text_of(s.depths)},
        {"--seeds", std::to_string(s.prompts)},
        {"--seed", std::to_string(s.seed)},
        {"--haystack", s.haystack},
        {"the text of --haystack", s.haystack_digest},
        {"--no-bos", s.bos ? "not given" : "given"},
        {"--device", s.device},
        {"--dtype", s.dtype},
        {"--router-dtype", s.router_dtype},
        {"--tf32", s.tf32 ? "given" : "not given"},
        {"--layers", s.layers.empty() ? "all" : s.layers},
        {"--threshold", formats::number_text(s.threshold)},
        {"--tau", formats::number_text(s.tau)}};
  };
  const auto a = named(wanted), b = named(stored);
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].second != b[i].second) return std::string(a[i].first) + ": " + a[i].second + ", the file has " + b[i].second;
  return "";
}

}  // namespace slotscope::sweep
