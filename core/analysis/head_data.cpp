#include "core/analysis/head_data.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/analysis/grid_pool.h"
#include "core/analysis/trace_access.h"
#include "core/error.h"

namespace slotscope::analysis {

std::vector<double> HeadData::reads_at(int64_t token, int h) const {
  const auto row = std::find(read_token.begin(), read_token.end(), token);
  const auto head = std::find(read_heads.begin(), read_heads.end(), h);
  if (row == read_token.end() || head == read_heads.end()) return {};
  const size_t slots = size_t(routes.slots);
  const size_t at =
      (size_t(row - read_token.begin()) * read_heads.size() + size_t(head - read_heads.begin())) * slots;
  if (at + slots > read_weight.size()) return {};
  return {read_weight.begin() + int64_t(at), read_weight.begin() + int64_t(at + slots)};
}

std::vector<double> HeadData::mean_reads_at(int64_t token) const {
  std::vector<double> mean;
  for (const int h : read_heads) {
    const std::vector<double> p = reads_at(token, h);
    if (p.empty()) return {};
    mean.resize(p.size(), 0);
    for (size_t i = 0; i < p.size(); ++i) mean[i] += p[i] / double(read_heads.size());
  }
  return mean;
}

Attribution HeadData::attribution(int64_t t, int h, int channel) const {
  if (memories) {
    const bool known = std::find(memories->heads.begin(), memories->heads.end(), h) != memories->heads.end() &&
                       channel >= 0 && channel < memories->memories && t >= 0 && t < routes.tokens;
    return known ? read_attribution(*memories, h, t, channel) : Attribution{};
  }
  if (matrix) {
    const bool known = std::find(matrix->heads.begin(), matrix->heads.end(), h) != matrix->heads.end() &&
                       (matrix->token.empty() || std::binary_search(matrix->token.begin(), matrix->token.end(), t));
    return known ? read_attribution(*matrix, h, t, channel) : Attribution{};
  }
  const std::vector<double> p = reads_at(t, h);
  return p.empty() || !writes.has_gates ? Attribution{} : read_attribution(writes, p, t);
}

SlotGrid HeadData::grid(const GridRequest& request, Progress* progress) const {
  if (request.quantity == Quantity::read_weight && !read_heads.empty())
    return reduce_reads(*this, read_heads.front(), align(request, routes.tokens), progress);
  return grids->reduce(routes, writes, request, progress);
}

SlotGrid reduce_reads(const HeadData& data, int h, const GridRequest& asked, Progress* progress) {
  const auto head = std::find(data.read_heads.begin(), data.read_heads.end(), h);
  if (head == data.read_heads.end())
    throw Error({.item = "layer " + std::to_string(data.layer) + " query head " + std::to_string(h),
                 .found = "its reads were not captured",
                 .advice = "Run again and capture read_weight"});
  GridRequest request = asked;
  request.quantity = Quantity::read_weight;
  const int64_t first = std::clamp<int64_t>(request.first, 0, data.routes.tokens);
  const int64_t last = std::clamp<int64_t>(request.last, 0, data.routes.tokens);
  SlotGrid grid = empty_grid(int64_t(request.rows.size()), first, last, request.max_rows, request.max_columns,
                             request.tokens_per_column);
  if (grid.rows == 0) return grid;
  Totals totals;
  std::vector<CellPool> row(size_t(grid.columns));
  const size_t slots = size_t(data.routes.slots), heads = data.read_heads.size(),
               per_row = size_t(grid.slots_per_row);
  const size_t place = size_t(head - data.read_heads.begin());
  for (int r = 0; r < grid.rows; ++r) {
    if (progress && progress->cancel_requested()) return {};
    std::fill(row.begin(), row.end(), CellPool{});
    for (size_t i = size_t(r) * per_row; i < std::min(request.rows.size(), (size_t(r) + 1) * per_row); ++i) {
      const int slot = request.rows[i];
      if (slot < 0 || size_t(slot) >= slots) continue;
      for (size_t t = 0; t < data.read_token.size(); ++t) {
        const int64_t token = data.read_token[t];
        if (token < first || token >= last) continue;
        const double p = data.read_weight[(t * heads + place) * slots + size_t(slot)];
        if (!std::isfinite(p)) ++(std::isnan(p) ? grid.nan_cells : grid.inf_cells);
        row[size_t((token - first) / int64_t(grid.tokens_per_column))].add(p);
      }
    }
    for (size_t c = 0; c < row.size(); ++c) {
      totals.add(row[c]);
      put(grid, r, int64_t(c), row[c], request.pooling, false);
    }
  }
  totals.store(grid);
  grid.reduction = std::to_string(data.read_token.size()) + " read tokens, " +
                   reduction_name(grid, request, data.routes.tokens);
  return grid;
}

namespace {

void add_matrix_reads(const trace::Trace& trace, int run, const trace::LayerSpec& spec, HeadData& data) {
  if (spec.route_kind == "sparse") {
    data.memories = load_memory_reads(trace, run, spec, data.routes, data.no_attribution);
    if (!data.memories) return;
    data.read_heads = data.memories->heads;
    for (int64_t t = std::max<int64_t>(query_token(trace.run(run)), 0);
         t < data.routes.tokens && int(data.read_token.size()) < kMostMatrixReads; ++t)
      data.read_token.push_back(t);
    return;
  }
  data.matrix = load_matrix_reads(trace, run, spec, data.head, data.no_attribution);
  if (!data.matrix) return;
  data.read_heads = data.matrix->heads;
  for (int64_t t = std::max<int64_t>(query_token(trace.run(run)), 0);
       t < data.matrix->tokens && int(data.read_token.size()) < kMostMatrixReads; ++t)
    if (data.matrix->token.empty() || std::binary_search(data.matrix->token.begin(), data.matrix->token.end(), t))
      data.read_token.push_back(t);
}

}  // namespace

std::shared_ptr<const HeadData> load_head(const trace::Trace& trace, int run, int layer, int head,
                                          const AllocationOptions& allocation, const EslOptions& esl,
                                          Progress* progress, const std::vector<uint8_t>* roles) {
  const auto stopped = [&] { return progress && progress->cancel_requested(); };
  if (progress) {
    progress->begin_stage("reading routes", 3);
    progress->set_detail("layer " + std::to_string(layer) + " head " + std::to_string(head));
  }
  const trace::RunInfo& info = run_info(trace, run);
  const trace::LayerSpec& spec = layer_spec(trace, run, layer);
  auto data = std::make_shared<HeadData>();
  data->run = run;
  data->layer = layer;
  data->head = head;
  if (stopped()) return nullptr;
  data->routes = trace.routes(run, layer, head);  // without progress: it would name stages of its own
  if (progress) progress->set(1);
  if (stopped()) return nullptr;
  data->writes = group_writes(data->routes);
  if (progress) progress->set(2);

  std::vector<uint32_t> writes = head_counters(trace, run, spec, "esl", head);
  std::vector<uint32_t> selections = head_counters(trace, run, spec, "selected", head);
  const bool counted = writes.empty();
  if (counted) {
    writes = count_writes(data->routes);
    selections = count_selections(data->routes);
  }
  data->esl = analyse_esl(writes, selections, counted ? data->routes.rows : data->routes.tokens, esl);
  data->allocation = allocate(data->routes, roles ? *roles : info.roles, allocation);
  data->statistics = routing_statistics(data->routes, head_margin(trace, run, spec, head),
                                        head_ties(trace, run, spec, head), writes);
  if (stopped()) return nullptr;
  HeadReads reads = head_reads(trace, run, spec, head);
  if (reads.weight.size() != reads.token.size() * reads.heads.size() * size_t(data->routes.slots)) reads = {};
  data->read_token = std::move(reads.token);
  data->read_heads = std::move(reads.heads);
  data->read_weight = std::move(reads.weight);
  if (!data->routes.no_reads.empty())
    add_matrix_reads(trace, run, spec, *data);
  else if (data->read_token.empty())
    data->no_attribution = "read weights were not captured: run again with read_weight";
  else if (!data->writes.has_gates && data->routes.no_survival.empty())
    data->no_attribution = "log decay was not captured: run again with log_decay";
  if (progress) progress->set(3);
  return data;
}

int64_t query_token(const trace::RunInfo& run) { return std::min(run.prompt_tokens, run.tokens) - 1; }

std::vector<int64_t> key_tokens(const trace::RunInfo& run, const std::vector<uint8_t>* roles) {
  const int64_t query = query_token(run);
  std::vector<int64_t> out;
  const bool has_value = std::any_of(run.spans.begin(), run.spans.end(), [&](const Span& span) {
    return span.name == "value" && span.begin <= query && span.end > span.begin;
  });
  if (!roles)
    for (const Span& span : run.spans)
      if (span.name == (has_value ? "value" : "key"))
        for (int64_t t = std::max<int64_t>(span.begin, 0); t < span.end && t <= query; ++t) out.push_back(t);
  if (out.empty()) {
    const std::vector<uint8_t>& from = roles ? *roles : run.roles;
    for (int64_t t = 0; t <= query && t < int64_t(from.size()); ++t)
      if (from[size_t(t)] == 1) out.push_back(t);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::vector<KeyWrite> key_writes(const HeadRoutes& routes, std::span<const int64_t> tokens, int64_t at) {
  std::vector<KeyWrite> out;
  if (tokens.empty()) return out;
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  at = std::min(at, routes.tokens - 1);
  std::vector<double> later(size_t(routes.slots), 0);  // sum of f over the rows after the current one
  bool known = routes.has_decay();
  size_t next = tokens.size();
  int64_t expected = at;
  const auto after = [&](int64_t t) {  // rows with token <= t
    return routes.token.empty()
               ? std::min(t + 1, routes.rows)
               : std::upper_bound(routes.token.begin(), routes.token.end(), t) - routes.token.begin();
  };
  for (int64_t row = after(at) - 1; row >= 0; --row) {
    const int64_t token = routes.token_of(row);
    if (token < tokens.front()) break;
    known = known && token == expected;  // a token in between was not captured: what it cleared is unknown
    expected = token - 1;
    while (next > 0 && tokens[next - 1] > token) --next;
    const bool wanted = next > 0 && tokens[next - 1] == token;
    for (int k = routes.top_k - 1; k >= 0; --k) {
      const size_t slot = routes.slot_at(row, k);
      if (slot >= size_t(routes.slots) || routes.weight_at(row, k) == 0) continue;
      if (wanted) {
        const double left = known ? std::exp(later[slot]) : unknown;
        out.push_back({token, int(slot), strength_of(routes, row, k), left, left});
      }
      if (routes.has_decay()) later[slot] += routes.decay(row, k) * routes.weight_at(row, k);
    }
  }
  std::reverse(out.begin(), out.end());
  if (routes.common_decay.empty()) return out;
  for (KeyWrite& w : out) w.left *= std::exp(common_log_keep(routes, w.token, at));
  return out;
}

}  // namespace slotscope::analysis
