// Accuracy, ESL and head scores of a sweep against length and depth.
#include "core/analysis/sweep.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

namespace slotscope::analysis {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
using trace::SweepRow;
using trace::SweepValue;

// P(X >= right) of a binomial with `count` draws of probability p, summed from the small end.
double upper_tail(int64_t right, int64_t count, double p) {
  if (right <= 0) return 1;
  if (p <= 0) return 0;
  if (p >= 1) return 1;
  double sum = 0;
  for (int64_t k = count; k >= right; --k)
    sum += std::exp(std::lgamma(double(count) + 1) - std::lgamma(double(k) + 1) - std::lgamma(double(count - k) + 1) +
                    double(k) * std::log(p) + double(count - k) * std::log1p(-p));
  return std::min(sum, 1.0);
}

// The p at which P(X >= right) is `tail`; the tail grows with p.
double solve(int64_t right, int64_t count, double tail) {
  double low = 0, high = 1;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (upper_tail(right, count, middle) < tail ? low : high) = middle;
  }
  return (low + high) / 2;
}

struct Mean {
  double sum = 0;
  int64_t count = 0;
  void add(double v) {
    if (!std::isnan(v)) sum += v, ++count;
  }
  double value() const { return count > 0 ? sum / double(count) : kNaN; }
};

SweepCell cell_of(const std::vector<const SweepRow*>& rows, const std::vector<std::pair<int, int>>& heads, double confidence,
                  const AllocationOptions& options) {
  SweepCell cell;
  Mean answer, of[trace::kSweepValues];
  std::vector<Mean> scores(heads.size());
  for (const SweepRow* row : rows) {
    ++cell.prompts;
    cell.exact += row->exact;
    answer.add(row->answer_tokens > 0 ? double(row->right) / double(row->answer_tokens) : kNaN);
    for (size_t h = 0; h < heads.size(); ++h)
      for (size_t q = 0; q < size_t(trace::kSweepValues); ++q) {
        const double v = row->heads[h * size_t(trace::kSweepValues) + q];
        of[q].add(v);
        if (SweepValue(q) == SweepValue::head_score) scores[h].add(v);
      }
  }
  cell.accuracy = cell.prompts > 0 ? double(cell.exact) / double(cell.prompts) : kNaN;
  cell.interval = clopper_pearson(cell.exact, cell.prompts, confidence);
  cell.answer_right = answer.value();
  const auto mean = [&](SweepValue v) { return of[size_t(v)].value(); };
  cell.esl_mean = mean(SweepValue::esl_mean);
  cell.esl_longest = mean(SweepValue::esl_longest);
  cell.esl_shortest = mean(SweepValue::esl_shortest);
  cell.esl_gini = mean(SweepValue::esl_gini);
  cell.slots_used = mean(SweepValue::slots_used);
  cell.head_score = kNaN;
  for (size_t h = 0; h < heads.size(); ++h) {
    const double score = scores[h].value();
    cell.retrieval_heads += score >= options.retrieval_head;
    if (!std::isnan(score) && !(score <= cell.head_score))  // the first of equal ones; anything beats NaN
      cell.head_score = score, cell.best_layer = heads[h].first, cell.best_head = heads[h].second;
  }
  return cell;
}

using Place = std::tuple<int64_t, int64_t, int64_t>;
Place place_of(const SweepRow& row) { return {row.length, row.depth, row.number}; }

// Whether the models saw the same prompts, and all of them.
void compare_prompts(const trace::Sweep& sweep, std::vector<std::string>& notes) {
  std::map<Place, std::string> first;
  int64_t other = 0;
  for (const auto& model : sweep.models) {
    if (int64_t(model.rows.size()) < sweep.settings.total())
      notes.push_back(model.name + ": " + std::to_string(model.rows.size()) + " of " + std::to_string(sweep.settings.total()) +
                      " prompts done");
    for (const SweepRow& row : model.rows) {
      const auto [at, fresh] = first.emplace(place_of(row), row.digest);
      other += !fresh && at->second != row.digest;
    }
  }
  if (other > 0)
    notes.push_back("the models did not see the same token ids in " + std::to_string(other) +
                    " cases: their tokenizers differ, so lengths are in each model's own tokens");
}

std::string number(double v) {
  if (!std::isfinite(v)) return "";
  char text[40];
  const auto [end, error] = std::to_chars(text, text + sizeof text, v);
  return error == std::errc() ? std::string(text, end) : "";
}

std::string csv_text(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

}  // namespace

Interval clopper_pearson(int64_t right, int64_t count, double confidence) {
  Interval out;
  if (count <= 0 || right < 0 || right > count) return out;
  const double tail = (1 - confidence) / 2;
  if (right > 0) out.low = solve(right, count, tail);
  if (right < count) out.high = solve(right + 1, count, 1 - tail);
  return out;
}

SweepTable sweep_table(const trace::Sweep& sweep, double confidence, const AllocationOptions& options) {
  SweepTable table;
  table.confidence = confidence;
  const auto& s = sweep.settings;
  for (const auto& model : sweep.models) {
    SweepModelTable out{.name = model.name, .family = model.family};
    const auto heads = model.heads();
    bool routed = false, measured = false;
    for (const auto& layer : model.layers) {
      measured |= layer.why.empty();
      routed |= layer.why.empty() && layer.route_kind == "sparse";
      if (!layer.why.empty()) out.why.push_back("layer " + std::to_string(layer.index) + ": " + layer.why);
    }
    out.by_rule = measured && !routed;
    const size_t depths = s.depths.size();
    std::vector<std::vector<const SweepRow*>> by_length(s.lengths.size()), by_cell(s.lengths.size() * depths);
    for (const SweepRow& row : model.rows) {
      by_length.at(size_t(row.length)).push_back(&row);
      if (depths > 0) by_cell.at(size_t(row.length) * depths + size_t(row.depth)).push_back(&row);
    }
    for (size_t l = 0; l < by_length.size(); ++l) {
      out.lengths.push_back(cell_of(by_length[l], heads, confidence, options));
      out.lengths.back().length = s.lengths[l];
    }
    for (size_t c = 0; c < by_cell.size(); ++c) {
      out.grid.push_back(cell_of(by_cell[c], heads, confidence, options));
      out.grid.back().length = s.lengths[c / depths];
      out.grid.back().depth = s.depths[c % depths];
    }
    table.models.push_back(std::move(out));
  }
  compare_prompts(sweep, table.notes);
  return table;
}

std::string sweep_csv(const trace::Sweep& sweep, const SweepTable& table) {
  const auto& s = sweep.settings;
  std::string text = "# task: " + s.task + "\n# length_counts: " + s.length_counts + "\n# haystack: " + csv_text(s.haystack) +
                     "\n# prompts: " + std::to_string(s.prompts) + " per length and depth\n# seed: " + std::to_string(s.seed) +
                     "\n# dtype: " + s.dtype + "\n# interval: Clopper-Pearson, " + number(table.confidence) +
                     "\n# esl: writes with r != 0 divided by tokens, means over prompts, heads and slots\n"
                     "model,family,length,depth,prompts,exact,accuracy,low,high,answer_right,esl_mean,esl_longest,esl_shortest,esl_gini,"
                     "slots_used,best_layer,best_head,head_score,retrieval_heads,by_rule\n";
  const auto line = [&](const SweepModelTable& m, const SweepCell& c) {
    text += csv_text(m.name) + "," + csv_text(m.family) + "," + std::to_string(c.length) + "," + (c.depth < 0 ? "all" : number(c.depth)) +
            "," + std::to_string(c.prompts) + "," + std::to_string(c.exact);
    for (const double v : {c.accuracy, c.interval.low, c.interval.high, c.answer_right, c.esl_mean, c.esl_longest, c.esl_shortest,
                           c.esl_gini, c.slots_used})
      text += "," + number(v);
    text += "," + (c.best_layer < 0 ? "" : std::to_string(c.best_layer)) + "," + (c.best_head < 0 ? "" : std::to_string(c.best_head)) +
            "," + number(c.head_score) + "," + std::to_string(c.retrieval_heads) + "," + (m.by_rule ? "1" : "0") + "\n";
  };
  for (const auto& model : table.models) {
    for (const auto& cell : model.lengths) line(model, cell);
    for (const auto& cell : model.grid) line(model, cell);
  }
  return text;
}

}  // namespace slotscope::analysis
