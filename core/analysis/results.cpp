#include "core/analysis/results.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "core/analysis/trace_access.h"

namespace slotscope::analysis {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::vector<SlotReport> report_slots(const HeadData& data, int64_t query, bool query_reached) {
  std::vector<SlotReport> out(size_t(data.routes.slots));
  const int64_t end = data.routes.tokens - 1;
  for (int i = 0; i < data.routes.slots; ++i) {
    const size_t at = size_t(i);
    SlotReport& s = out[at];
    s.slot = i;
    s.esl = data.esl.esl[at];
    s.selected = data.esl.selected.empty() ? s.esl : data.esl.selected[at];
    s.normalised_esl = data.esl.tokens > 0 ? double(s.esl) / double(data.esl.tokens) : kNaN;
    s.regime = data.esl.regime[at];
    s.slot_class = data.allocation.slot_class[at];
    s.written = data.allocation.written[at];
    s.retrieval = data.allocation.retrieval[at];
    s.specialisation = data.allocation.specialisation[at];
    const int64_t first = data.writes.first(i), last = data.writes.last(i);
    if (first != last) {
      s.first_write = data.writes.token_at(first);
      s.last_write = data.writes.token_at(last - 1);
    }
    if (data.writes.shared && i > 0) {  // all slots are written alike, and so they hold the same
      s.tokens_held = out[0].tokens_held;
      s.tokens_held_at_query = out[0].tokens_held_at_query;
      s.retained = out[0].retained;
      continue;
    }
    s.tokens_held = tokens_held(data.writes, i, end);
    s.tokens_held_at_query = query_reached ? tokens_held(data.writes, i, query) : kNaN;
    for (const double share : retained(data.writes, i, end)) s.retained += share;
  }
  return out;
}

std::vector<KeyTokenReport> report_key(const HeadData& data, const std::vector<int64_t>& key, int64_t query) {
  std::vector<KeyTokenReport> out;
  const std::vector<KeyWrite> writes = key_writes(data.routes, key, query);
  size_t at = 0;
  for (const int64_t token : key) {
    KeyTokenReport k{.token = token};
    double kept = 0;
    const bool captured = row_of(data.routes, token) >= 0;
    for (; at < writes.size() && writes[at].token == token; ++at) {
      k.slots.push_back(writes[at]);
      k.written += writes[at].strength;
      kept += writes[at].strength * writes[at].left;
    }
    if (!captured) k.written = kNaN;
    k.survival = !captured || k.written == 0 ? kNaN : kept / k.written;
    out.push_back(std::move(k));
  }
  return out;
}

ReadReport report_read(const HeadData& data, int64_t token, int head, const std::vector<int64_t>& key,
                       const std::vector<uint8_t>& roles, int top_tokens) {
  ReadReport r{.token = token, .head = head};
  const Attribution a = data.attribution(token, head);
  if (a.weight.empty()) {
    r.on_key = r.on_retrieval = r.read_of_nothing = kNaN;
    return r;
  }
  r.read_of_nothing = a.read_of_nothing;
  for (const int64_t t : key)
    if (t <= token) r.on_key += a.weight[size_t(t)];
  std::vector<ReadTokenWeight> all;
  for (size_t t = 0; t < a.weight.size(); ++t) {
    if (t < roles.size() && roles[t] == 1) r.on_retrieval += a.weight[t];
    if (a.weight[t] > 0 || a.weight[t] < 0) all.push_back({int64_t(t), a.weight[t]});
  }
  const size_t keep = std::min(all.size(), size_t(std::max(top_tokens, 0)));
  std::partial_sort(all.begin(), all.begin() + int64_t(keep), all.end(), [](const auto& x, const auto& y) {
    const double p = std::abs(x.weight), q = std::abs(y.weight);  // rows of matrix states are signed
    return p != q ? p > q : x.token < y.token;
  });
  all.resize(keep);
  r.top = std::move(all);
  return r;
}

// The read tokens to attribute: the query and what follows it first, then the earlier ones.
std::vector<int64_t> chosen_reads(const std::vector<int64_t>& tokens, int64_t run_tokens, int64_t query,
                                  int most) {
  std::vector<int64_t> out;
  for (const bool from_query : {true, false})
    for (const int64_t t : tokens)
      if (t >= 0 && t < run_tokens && (t >= query) == from_query && int(out.size()) < most) out.push_back(t);
  return out;
}

}  // namespace

AnalysisReport analyse(const trace::Trace& trace, int run, const AnalyseOptions& options,
                       Progress* progress) {
  const trace::RunInfo& info = run_info(trace, run);
  const std::vector<uint8_t>* roles = options.roles.empty() ? nullptr : &options.roles;
  const std::vector<uint8_t>& used_roles = roles ? *roles : info.roles;
  AnalysisReport out;
  out.run = run;
  out.name = info.name;
  out.tokens = info.tokens;
  out.planned_tokens = info.planned_tokens;
  out.prompt_tokens = info.prompt_tokens;
  out.query = query_token(info);
  out.query_reached = out.query >= 0 && info.prompt_tokens <= info.tokens;
  out.key_tokens = key_tokens(info, roles);
  out.retrieval_tokens = std::count(
      used_roles.begin(), used_roles.begin() + std::min<int64_t>(info.tokens, int64_t(used_roles.size())), 1);
  out.allocation = options.allocation;
  out.esl = options.esl;
  if (!out.query_reached)
    out.notes.push_back("the trace ends before the query: nothing is known at the query");
  for (const int layer : options.layers) layer_spec(trace, run, layer);

  const RunSummary summary =
      summarise(trace, run, options.allocation, options.esl, progress, roles, options.layers);
  out.layers = summary.layers;
  out.first = summary.first;
  if (summary.head_list.empty() && summary.layers > 0) return out;
  if (progress) progress->begin_stage("analysing heads", int64_t(summary.head_list.size()));
  std::set<std::string> notes;
  for (const HeadSummary& s : summary.head_list) {
    if (progress && progress->cancel_requested()) {
      out.heads.clear();
      return out;
    }
    HeadReport h;
    h.summary = s;
    if (s.has_routes) {
      if (progress)
        progress->set_detail("layer " + std::to_string(s.layer) + " head " + std::to_string(s.head));
      const auto data =
          load_head(trace, run, s.layer, s.head, options.allocation, options.esl, nullptr, roles);
      h.slots = data->routes.slots;
      h.top_k = data->routes.top_k;
      h.captured_tokens = data->routes.rows;
      h.selections_known = data->esl.selected.size() == data->esl.esl.size();
      h.slot = report_slots(*data, out.query, out.query_reached);
      for (const SlotReport& slot : h.slot) h.underflowed += int64_t(slot.selected) - int64_t(slot.esl);
      if (out.query_reached) h.key = report_key(*data, out.key_tokens, out.query);
      const auto reads = chosen_reads(data->read_token, info.tokens, out.query, options.max_reads);
      if (data->attribution_by_slot())
        notes.insert(s.mixer + ": every slot has read weights of its own, so there are no reads of a head as a whole");
      for (const int64_t token : data->attribution_by_slot() ? std::vector<int64_t>() : reads)
        for (const int head : data->read_heads)
          h.reads.push_back(report_read(*data, token, head, out.key_tokens, used_roles, options.top_tokens));
      if (reads.size() < data->read_token.size())
        notes.insert("read attribution for " + std::to_string(reads.size()) + " of " +
                     std::to_string(data->read_token.size()) + " read tokens");
      if (h.captured_tokens < info.tokens)
        notes.insert("routes of " + std::to_string(h.captured_tokens) + " of " + std::to_string(info.tokens) +
                     " tokens were captured: classes and strengths cover those only");
    }
    out.heads.push_back(std::move(h));
    if (progress) progress->add(1);
  }
  out.notes.insert(out.notes.end(), notes.begin(), notes.end());
  out.by_score = summary.by_score;
  for (const int i : out.by_score)
    if (out.heads[size_t(i)].summary.allocation.retrieval_head) out.retrieval_heads.push_back(i);
  return out;
}

}  // namespace slotscope::analysis
