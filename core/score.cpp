#include "core/score.h"

#include <algorithm>
#include <limits>

namespace slotscope {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
  return out;
}

}  // namespace

const char* metric_name(ScoreMetric metric) {
  return metric == ScoreMetric::any ? "string_match_part" : "string_match_all";
}

ScoreMetric metric_from(std::string_view name) {
  return name == "string_match_part" ? ScoreMetric::any : ScoreMetric::all;
}

double reference_score(const std::vector<std::string>& references, std::string_view output,
                       ScoreMetric metric) {
  if (references.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::string said = lower(output);
  for (char& c : said)
    if (static_cast<unsigned char>(c) < 0x20) c = '\n';
  const auto found = std::count_if(references.begin(), references.end(), [&](const std::string& reference) {
    return said.find(lower(reference)) != std::string::npos;
  });
  if (metric == ScoreMetric::any) return found > 0 ? 1 : 0;
  return double(found) / double(references.size());
}

}  // namespace slotscope
