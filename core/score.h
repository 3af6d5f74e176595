// How tasks score a generated text against the references (spec: prompts, "All scoring below").
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace slotscope {

// How the references count. `all`: the share of them that the output holds (RULER string_match_all); `any`: 1
// when it holds one of them (string_match_part, the question-answering tasks).
enum class ScoreMetric { all, any };
const char* metric_name(ScoreMetric metric);     // "string_match_all", "string_match_part"
ScoreMetric metric_from(std::string_view name);  // everything else is string_match_all

// 0..1: a reference counts when it is a substring of the output, letters A-Z and a-z alike (other letters as
// they are). Control characters of the output count as newlines. NaN without references.
double reference_score(const std::vector<std::string>& references, std::string_view output,
                       ScoreMetric metric = ScoreMetric::all);

}  // namespace slotscope
