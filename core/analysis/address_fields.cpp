#include "core/analysis/address_fields.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/analysis/grid_pool.h"
#include "core/analysis/trace_access.h"
#include "core/error.h"

namespace slotscope::analysis {
namespace {

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
bool stopped(Progress* progress) { return progress && progress->cancel_requested(); }

// The first row whose token is at least t.
int64_t row_from(const Addresses& a, int64_t t) {
  const auto& token = a.write->token;
  if (token.empty()) return std::clamp<int64_t>(t, 0, a.rows());
  return std::lower_bound(token.begin(), token.end(), t) - token.begin();
}

int ranks(const Addresses& a, bool write) { return write ? a.write->top_k : a.reads(); }
uint32_t slot_of(const Addresses& a, int64_t row, int k, bool write) {
  return write ? a.write->slot_at(row, k) : a.read_slot_at(row, k);
}
double weight_of(const Addresses& a, int64_t row, int k, bool write) {
  return write ? a.write->weight_at(row, k) : a.read_weight_at(row, k);
}

int64_t shown_slot(const Addresses& a, int64_t row, uint32_t slot, bool decoded) {
  return decoded ? a.code.decoded(slot, a.position[size_t(row)], a.slots()) : int64_t(slot);
}

void require_code(const Addresses& a) {
  if (!a.code.known())
    throw Error({.item = "layer " + std::to_string(a.write->layer), .found = "its slots are no product code: they have no digits"});
  if (int64_t(a.code.factors) * a.code.codes > kMostCodes)
    throw Error({.item = "layer " + std::to_string(a.write->layer),
                 .found = std::to_string(a.code.factors) + " factors of " + std::to_string(a.code.codes) + " codes are too many to draw",
                 .expected = "at most " + std::to_string(kMostCodes) + " codes in all"});
}

void add_marginals(const Addresses& a, int64_t row, bool write, double* to) {
  const int codes = a.code.codes;
  for (int k = 0; k < ranks(a, write); ++k) {
    const uint32_t slot = slot_of(a, row, k, write);
    if (slot >= uint32_t(a.slots())) continue;
    int64_t rest = shown_slot(a, row, slot, true);
    for (int digit = 0; digit < a.code.factors; ++digit, rest /= codes) {
      const int u = a.code.factor0_least ? digit : a.code.factors - 1 - digit;
      to[u * codes + int(rest % codes)] += weight_of(a, row, k, write);
    }
  }
}

}  // namespace

AccessGrid access_grid(const Addresses& a, std::pair<int64_t, int64_t> slots, std::pair<int64_t, int64_t> tokens, int max_rows,
                       int max_columns, bool decoded, Progress* progress) {
  AccessGrid g;
  g.first_slot = std::clamp<int64_t>(slots.first, 0, a.slots());
  g.last_slot = std::clamp<int64_t>(slots.second, g.first_slot, a.slots());
  g.first_token = std::clamp<int64_t>(tokens.first, 0, a.tokens());
  g.last_token = std::clamp<int64_t>(tokens.second, g.first_token, a.tokens());
  const int64_t height = g.last_slot - g.first_slot, width = g.last_token - g.first_token;
  if (height == 0 || width == 0) return g;
  g.slots_per_row = divide_up(height, std::clamp(max_rows, 1, 8192));
  g.tokens_per_column = divide_up(width, std::clamp(max_columns, 1, 8192));
  g.rows = int(divide_up(height, g.slots_per_row));
  g.columns = int(divide_up(width, g.tokens_per_column));
  g.read.assign(size_t(g.rows) * size_t(g.columns), 0);
  g.write = g.read;
  g.missing.assign(size_t(g.columns), 1);
  const int64_t end = row_from(a, g.last_token);
  for (int64_t row = row_from(a, g.first_token); row < end; ++row) {
    if (row % 4096 == 0 && stopped(progress)) return {};
    const size_t column = size_t((a.write->token_of(row) - g.first_token) / g.tokens_per_column);
    g.missing[column] = 0;
    for (const bool write : {true, false}) {
      if (!write && !a.own_reads) break;
      for (int k = 0; k < ranks(a, write); ++k) {
        const uint32_t slot = slot_of(a, row, k, write);
        if (slot >= uint32_t(a.slots())) continue;
        const int64_t at = shown_slot(a, row, slot, decoded);
        if (at < g.first_slot || at >= g.last_slot) continue;
        double w = weight_of(a, row, k, write);
        if (!std::isfinite(w)) w = 1;
        float& cell = (write ? g.write : g.read)[size_t((at - g.first_slot) / g.slots_per_row) * size_t(g.columns) + column];
        cell = std::max(cell, float(w));
        double& most = write ? g.max_write : g.max_read;
        most = std::max(most, w);
      }
    }
  }
  return g;
}

std::vector<double> factor_marginals(const Addresses& a, int64_t row, bool write) {
  require_code(a);
  std::vector<double> out(size_t(a.code.factors) * size_t(a.code.codes), 0);
  if (row >= 0 && row < a.rows()) add_marginals(a, row, write, out.data());
  return out;
}

SlotGrid marginal_grid(const Addresses& a, bool write, int64_t first, int64_t last, int max_columns, Progress* progress) {
  require_code(a);
  const int rows = a.code.factors * a.code.codes;
  first = std::clamp<int64_t>(first, 0, a.tokens());
  last = std::clamp<int64_t>(last, first, a.tokens());
  SlotGrid grid = empty_grid(rows, first, last, rows, std::clamp(max_columns, 1, 8192), 1);
  if (grid.rows == 0) return grid;
  const int64_t step = int64_t(grid.tokens_per_column);
  Totals totals;
  std::vector<double> sum(size_t(rows), 0);
  int64_t row = row_from(a, first);
  for (int64_t column = 0; column < grid.columns; ++column) {
    if (stopped(progress)) return {};
    std::fill(sum.begin(), sum.end(), 0);
    int64_t count = 0;
    for (const int64_t end = std::min(first + (column + 1) * step, last); row < a.rows() && a.write->token_of(row) < end; ++row, ++count)
      add_marginals(a, row, write, sum.data());
    for (int r = 0; r < rows && count > 0; ++r) {
      CellPool pool;
      pool.add(sum[size_t(r)] / double(count));
      totals.add(pool);
      put(grid, r, column, pool, Pooling::mean, false);
    }
  }
  totals.store(grid);
  grid.reduction = step == 1 ? "every token drawn, no reduction" : "mean of " + std::to_string(step) + " tokens per column";
  return grid;
}

double kept_mass(const Addresses& a, int64_t row, bool write) {
  double sum = 0;
  for (int k = 0; k < ranks(a, write); ++k) sum += weight_of(a, row, k, write);
  return sum;
}

SlotMass slot_mass(const trace::Trace& trace, int run, const Addresses& a, int64_t token) {
  SlotMass out;
  const trace::LayerSpec& layer = layer_spec(trace, run, a.write->layer);
  const std::string at = "layers/" + std::to_string(layer.index) + "/";
  const trace::RunInfo& info = run_info(trace, run);
  const auto *mass = info.find(at + "mass"), *tokens = info.find(at + "state_token");
  const int64_t place = head_place(layer, "captured_route_heads", a.write->head);
  std::vector<int64_t> states;
  if (a.rule.known && mass && tokens && mass->shape.size() == 3 && mass->shape[2] == a.slots() && place >= 0 && place < mass->shape[1])
    states = trace.read_int(run, tokens->path);
  states.resize(std::min(states.size(), mass && !mass->shape.empty() ? size_t(mass->shape[0]) : 0));
  int64_t best = -1;
  for (size_t i = 0; i < states.size(); ++i)
    if (states[i] <= token && (best < 0 || states[i] > states[size_t(best)])) best = int64_t(i);
  if (best < 0 || states[size_t(best)] != token) {
    out.mass = mass_after(a, token, out.why);
    out.token = token;
    out.replayed = true;
    if (!out.mass.empty() || best < 0) return out;
  }
  out = {.mass = trace.read_head(run, mass->path, int(place), best, 1), .token = states[size_t(best)]};
  if (int64_t(out.mass.size()) != a.slots())
    throw Error({.file = trace.path().string(), .item = mass->path, .found = std::to_string(out.mass.size()) + " masses",
                 .expected = std::to_string(a.slots())});
  return out;
}

}  // namespace slotscope::analysis
