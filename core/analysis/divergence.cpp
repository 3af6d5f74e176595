#include "core/analysis/divergence.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "core/error.h"

namespace slotscope::analysis {
namespace {

double checked_sum(std::span<const double> row, const char* name) {
  double sum = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    if (!(row[i] >= 0 && row[i] <= std::numeric_limits<double>::max()))
      throw Error({.item = std::string(name) + ", value " + std::to_string(i), .found = std::to_string(row[i]),
                   .expected = "a finite number, 0 or more"});
    sum += row[i];
  }
  return sum;
}

void check_pair(std::span<const double> p, std::span<const double> q, const char* name_p, const char* name_q) {
  if (p.empty() || p.size() != q.size())
    throw Error({.item = name_q, .found = std::to_string(q.size()) + " values beside " + std::to_string(p.size()) + " of the " + name_p,
                 .expected = "as many, and at least one"});
  for (const auto& [row, name] : {std::pair{p, name_p}, std::pair{q, name_q}}) {
    const double sum = checked_sum(row, name);
    if (!(std::abs(sum - 1) <= 1e-3))
      throw Error({.item = name, .found = "sum " + std::to_string(sum), .expected = "a distribution, sum 1",
                   .advice = "Normalise the row first; a row that is all zero is missing mass and has no divergence."});
  }
}

// (1 + u) log(1 + u) + (1 - u) log(1 - u) for |u| <= 1: u^2 + u^4/6 + u^6/15 + ..., never negative.
double balanced_entropy(double u) {
  u = std::abs(u);
  if (u >= 1) return 2 * std::log(2.0);
  if (u > 0.125) return (1 + u) * std::log1p(u) + (1 - u) * std::log1p(-u);
  double sum = 0, power = u * u;
  for (int k = 1; k < 20; ++k, power *= u * u) sum += power / (k * (2.0 * k - 1));
  return sum;
}

}  // namespace

std::optional<std::vector<double>> normalised(std::span<const double> row) {
  const double sum = checked_sum(row, "row");
  if (sum == 0) return std::nullopt;
  std::vector<double> out(row.begin(), row.end());
  if (std::isfinite(sum)) {
    for (double& v : out) v /= sum;
  } else {  // values near the end of the range: take the largest out first
    const double most = *std::max_element(out.begin(), out.end());
    double scaled = 0;
    for (double& v : out) scaled += v /= most;
    for (double& v : out) v /= scaled;
  }
  return out;
}

double js_divergence(std::span<const double> p, std::span<const double> q) {
  check_pair(p, q, "first distribution", "second distribution");
  // Value by value: p log(2p / (p + q)) + q log(2q / (p + q)) = (p + q) / 2 [(1 + u) log(1 + u) + (1 - u) log(1 - u)],
  // u = (p - q) / (p + q).
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const double both = p[i] + q[i];
    if (both > 0) sum += both / 4 * balanced_entropy((p[i] - q[i]) / both);
  }
  return sum;
}

double forward_kl(std::span<const double> teacher, std::span<const double> student) {
  check_pair(teacher, student, "teacher", "student");
  double sum = 0;
  for (size_t i = 0; i < teacher.size(); ++i) {
    if (teacher[i] == 0) continue;
    if (student[i] == 0) return std::numeric_limits<double>::infinity();
    sum += teacher[i] * (std::log(teacher[i]) - std::log(student[i]));
  }
  return sum;
}

RowMean mean_over_rows(std::span<const double> values, int64_t first) {
  RowMean out;
  double sum = 0;
  for (size_t t = size_t(std::max<int64_t>(first, 0)); t < values.size(); ++t) {
    if (std::isnan(values[t])) {
      ++out.skipped;
      continue;
    }
    sum += values[t];
    ++out.rows;
  }
  out.mean = out.rows == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / double(out.rows);
  return out;
}

double nmse(std::span<const double> output, std::span<const double> target) {
  if (output.empty() || output.size() != target.size())
    throw Error({.item = "output", .found = std::to_string(output.size()) + " values beside " + std::to_string(target.size()) + " of the target",
                 .expected = "as many, and at least one"});
  double gap = 0, size = 0;
  for (size_t i = 0; i < output.size(); ++i) {
    gap += (output[i] - target[i]) * (output[i] - target[i]);
    size += target[i] * target[i];
  }
  return gap / size;
}

}  // namespace slotscope::analysis
