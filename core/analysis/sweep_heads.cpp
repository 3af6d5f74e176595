// What one prompt gives per head.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/analysis/esl.h"
#include "core/analysis/memory.h"
#include "core/analysis/sweep.h"
#include "core/error.h"

namespace slotscope::analysis {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
using trace::SweepValue;

struct Values {
  double of[trace::kSweepValues];
  Values() { std::fill(std::begin(of), std::end(of), kNaN); }
  double& operator[](SweepValue v) { return of[size_t(v)]; }
};

void put_esl(Values& out, std::span<const uint32_t> esl, int64_t tokens) {
  if (esl.empty() || tokens <= 0) return;
  double sum = 0;
  uint32_t longest = 0, shortest = 0;
  int64_t used = 0;
  for (const uint32_t n : esl) {
    sum += n;
    longest = std::max(longest, n);
    if (n == 0) continue;
    shortest = used == 0 ? n : std::min(shortest, n);
    ++used;
  }
  out[SweepValue::esl_mean] = sum / double(esl.size()) / double(tokens);
  out[SweepValue::esl_longest] = double(longest) / double(tokens);
  out[SweepValue::esl_shortest] = used > 0 ? double(shortest) / double(tokens) : kNaN;
  out[SweepValue::esl_gini] = gini(esl);
  out[SweepValue::slots_used] = double(used);
}

// Ring and append write one slot per token with r = 1: the routes that the rule stands for.
HeadRoutes by_position(const trace::SweepLayer& layer, int64_t tokens) {
  HeadRoutes routes;
  routes.layer = layer.index;
  const int64_t slots = layer.route_kind == "append" ? tokens : layer.slots;
  if (slots <= 0 || slots > std::numeric_limits<int>::max())
    throw Error({.item = "layer " + std::to_string(layer.index), .found = std::to_string(slots) + " slots"});
  routes.slots = int(slots);
  routes.top_k = 1;
  routes.rows = routes.tokens = tokens;
  for (int64_t t = 0; t < tokens; ++t) routes.index.push_back(uint32_t(t % slots));
  routes.weight.assign(size_t(tokens), 1);
  routes.strength.assign(size_t(tokens), 1);
  // As Trace::routes says of such layers: the score would be 1 in every head.
  if (layer.route_kind == "append") routes.no_score = "every token has a slot of its own";
  return routes;
}

Values by_rule(const trace::SweepLayer& layer, std::span<const uint8_t> roles, int64_t tokens, const AllocationOptions& options) {
  Values out;
  if (layer.route_kind == "dense") {
    const int64_t slots = layer.slots;
    if (slots <= 0 || tokens <= 0) return out;
    out[SweepValue::esl_mean] = out[SweepValue::esl_longest] = out[SweepValue::esl_shortest] = 1;
    out[SweepValue::esl_gini] = 0;
    out[SweepValue::slots_used] = double(slots);
    // Every slot is written by every token, so all slots are of the same class: retrieval only when (nearly) all tokens are.
    const int64_t retrieval = std::count(roles.begin(), roles.begin() + std::min<int64_t>(tokens, int64_t(roles.size())), 1);
    if (retrieval > 0) out[SweepValue::head_score] = double(retrieval) / double(tokens) >= 1 - options.tau ? 1 : 0;
    return out;
  }
  const HeadRoutes routes = by_position(layer, tokens);
  const auto esl = count_writes(routes);
  put_esl(out, esl, tokens);
  out[SweepValue::head_score] = allocate(routes, roles, options).head_score;
  return out;
}

// One head of a field [T, H_r, K].
std::vector<double> head_slice(const std::vector<double>& values, int64_t tokens, int64_t heads, int64_t columns, int64_t head) {
  std::vector<double> out;
  out.reserve(size_t(tokens * columns));
  for (int64_t t = 0; t < tokens; ++t) {
    const auto at = values.begin() + (t * heads + head) * columns;
    out.insert(out.end(), at, at + columns);
  }
  return out;
}

// Values of a layer's field, empty when it was not captured; throws when it does not cover every token.
std::vector<double> field(const trace::MemorySink& sink, int run, int layer, const char* name, int64_t expected) {
  const std::string path = "layers/" + std::to_string(layer) + "/" + name;
  if (sink.find(run, path) < 0) return {};
  auto values = sink.values(run, path);
  if (int64_t(values.size()) != expected)
    throw Error({.item = path, .found = std::to_string(values.size()) + " values", .expected = std::to_string(expected)});
  return values;
}

void sparse_layer(const trace::MemorySink& sink, int run, const trace::SweepLayer& layer, std::span<const uint8_t> roles,
                  int64_t tokens, const AllocationOptions& options, std::vector<Values>& out) {
  const int64_t heads = layer.route_heads, k = layer.top_k, cells = tokens * heads * k;
  const auto index = field(sink, run, layer.index, "route_index", cells), weight = field(sink, run, layer.index, "route_weight", cells);
  const auto strength = field(sink, run, layer.index, "write_strength", cells);
  const auto counters = field(sink, run, layer.index, "esl", heads * layer.slots);
  for (int64_t h = 0; h < heads; ++h) {
    Values values;
    if (!counters.empty()) {
      std::vector<uint32_t> esl(counters.begin() + h * layer.slots, counters.begin() + (h + 1) * layer.slots);
      put_esl(values, esl, tokens);
    }
    if (!index.empty() && !weight.empty() && !strength.empty()) {
      HeadRoutes routes;
      routes.layer = layer.index;
      routes.head = int(h);
      routes.slots = int(layer.slots);
      routes.top_k = int(k);
      routes.rows = routes.tokens = tokens;
      for (const double i : head_slice(index, tokens, heads, k, h)) routes.index.push_back(uint32_t(i));
      routes.weight = head_slice(weight, tokens, heads, k, h);
      routes.strength = head_slice(strength, tokens, heads, k, h);
      values[SweepValue::head_score] = allocate(routes, roles, options).head_score;
    }
    out.push_back(values);
  }
}

}  // namespace

std::vector<double> sweep_heads(const trace::MemorySink& sink, int run, const trace::SweepModel& model,
                                const AllocationOptions& options) {
  const int64_t tokens = sink.done.at(size_t(run));
  std::vector<uint8_t> roles;
  for (const double role : sink.values(run, "tokens/roles")) roles.push_back(uint8_t(role));
  std::vector<Values> all;
  for (const trace::SweepLayer& layer : model.layers) {
    const size_t end = all.size() + size_t(layer.route_heads);
    if (!layer.why.empty())
      all.resize(end);
    else if (layer.route_kind == "sparse")
      sparse_layer(sink, run, layer, roles, tokens, options, all);
    else
      all.resize(end, by_rule(layer, roles, tokens, options));  // the rule is the same for every head
  }
  std::vector<double> out;
  for (const Values& v : all) out.insert(out.end(), std::begin(v.of), std::end(v.of));
  return out;
}

}  // namespace slotscope::analysis
