// One line per head of a run, and what to show first (design: section 1 point 2).
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "core/analysis/head_data.h"
#include "core/analysis/trace_access.h"

namespace slotscope::analysis {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double mean_strength(const HeadRoutes& routes) {
  double sum = 0;
  int64_t writes = 0;
  const int ranks = routes.alike() ? std::min(routes.top_k, 1) : routes.top_k;
  for (int64_t row = 0; row < routes.rows; ++row)
    for (int k = 0; k < ranks; ++k) {
      if (routes.slot_at(row, k) >= uint32_t(routes.slots) || routes.weight_at(row, k) == 0) continue;
      sum += strength_of(routes, row, k);
      ++writes;
    }
  return writes == 0 ? kNaN : sum / double(writes);
}

// Mean over the key's tokens of sum s left / sum s, over those that wrote anything.
double mean_survival(const std::vector<KeyWrite>& writes) {
  std::map<int64_t, std::pair<double, double>> tokens;  // kept, written
  for (const KeyWrite& w : writes) {
    tokens[w.token].first += w.strength * w.left;
    tokens[w.token].second += w.strength;
  }
  double sum = 0;
  int64_t count = 0;
  for (const auto& [token, part] : tokens) {
    if (part.second == 0) continue;
    sum += part.first / part.second;
    ++count;
  }
  return count == 0 ? kNaN : sum / double(count);
}

// Mean over the query heads of p over slots at one of the read tokens.
std::vector<double> mean_reads(const HeadReads& reads, size_t row, size_t slots) {
  std::vector<double> mean(slots, 0);
  for (size_t h = 0; h < reads.heads.size(); ++h)
    for (size_t i = 0; i < slots; ++i)
      mean[i] += reads.weight[(row * reads.heads.size() + h) * slots + i] / double(reads.heads.size());
  return mean;
}

double read_mass(const std::vector<KeyWrite>& writes, const std::vector<double>& reads) {
  double mass = 0;
  for (const KeyWrite& w : writes) mass += reads[size_t(w.slot)] * w.strength * w.read_left;
  return mass;
}

// The key's write with the strongest surviving read so far: p[t,i] s[j,i] exp(sum_{j<l<=t} f_l[i]).
struct Strongest {
  double read = -1;
  int slot = 0;
  int64_t token = 0;
  void offer(const KeyWrite& w, double value) {
    if (!(value > read)) return;
    read = value;
    slot = w.slot;
    token = w.token;
  }
};

struct Candidate {
  Strongest in_retrieval_only, anywhere;
};

// At most this many reads from the query on are looked at for the first selection: the answer, not a long
// continuation.
constexpr size_t kMostReads = 64;
constexpr int64_t kMostRuledSlots = int64_t(1) << 23;

class Summariser {
 public:
  Summariser(const trace::Trace& trace, int run, const AllocationOptions& allocation, const EslOptions& esl,
             const std::vector<uint8_t>* roles)
      : trace_(trace),
        run_(run),
        info_(run_info(trace, run)),
        allocation_(allocation),
        esl_(esl),
        roles_(roles ? *roles : info_.roles),
        query_(query_token(info_)),
        key_(key_tokens(info_, roles)) {
    // In a trace that ends before the query nothing is known "at the query".
    query_reached_ = query_ >= 0 && info_.prompt_tokens <= info_.tokens;
  }

  RunSummary run(std::span<const int> layers, Progress* progress) {
    RunSummary out;
    out.run = run_;
    out.layers = int(info_.layers.size());
    if (progress) progress->begin_stage("reading routes", int64_t(info_.layers.size()));
    for (size_t i = 0; i < info_.layers.size(); ++i) {
      if (progress)
        progress->set_detail("layer " + std::to_string(i + 1) + " of " + std::to_string(info_.layers.size()));
      if (!layers.empty() && std::find(layers.begin(), layers.end(), info_.layers[i].index) == layers.end())
        continue;
      const trace::LayerSpec& spec = layer_spec(trace_, run_, info_.layers[i].index);
      const std::string why = why_no_routes(trace_, run_, spec);
      const int heads = int(std::max<int64_t>(spec.route_heads > 0 ? spec.route_heads : spec.heads, 1));
      out.heads = std::max(out.heads, heads);
      for (int head = 0; head < heads; ++head) {
        if (progress && progress->cancel_requested()) return {.run = run_};
        candidates_.emplace_back();
        out.head_list.push_back(summarise_head(spec, head, why));
      }
      if (progress) progress->set(int64_t(i) + 1);
    }
    sort_by_score(out);
    choose_first(out);
    return out;
  }

 private:
  HeadSummary summarise_head(const trace::LayerSpec& spec, int head, const std::string& why) {
    HeadSummary s;
    s.layer = spec.index;
    s.head = head;
    s.mixer = spec.family;
    s.why = why;
    s.mean_write_strength = s.key_survival = s.read_mass_on_key = s.allocation.head_score =
        s.statistics.gini = kNaN;
    if (s.why.empty() && head_place(spec, "captured_route_heads", head) < 0)
      s.why = "not captured: run again with head " + std::to_string(head);
    // A slot per token in every head of a large model, or a damaged number of slots that no stored route vouches for: what is
    // kept of each slot (about 40 bytes) would not fit.
    const int64_t slots = spec.route_kind == "append" ? std::max(spec.slots, info_.tokens) : spec.slots;
    if (s.why.empty() && spec.route_kind != "sparse" && kept_slots_ + slots > kMostRuledSlots)
      s.why = "more than " + std::to_string(kMostRuledSlots) + " slots in one overview: open the head itself";
    if (!s.why.empty()) return s;
    if (spec.route_kind != "sparse") kept_slots_ += slots;
    s.has_routes = true;
    const HeadRoutes routes = trace_.routes(run_, spec.index, head);
    std::vector<uint32_t> writes = head_counters(trace_, run_, spec, "esl", head);
    std::vector<uint32_t> selections = head_counters(trace_, run_, spec, "selected", head);
    const bool counted = writes.empty();
    if (counted) {
      writes = count_writes(routes);
      selections = count_selections(routes);
    }
    s.esl = analyse_esl(writes, selections, counted ? routes.rows : routes.tokens, esl_);
    s.allocation = allocate(routes, roles_, allocation_);
    s.statistics = routing_statistics(routes, head_margin(trace_, run_, spec, head),
                                      head_ties(trace_, run_, spec, head), writes);
    s.mean_write_strength = mean_strength(routes);
    if (query_reached_ && !key_.empty()) read_key(spec, head, routes, s);
    return s;
  }

  // What is left of the key at the query, how much of it is read there, and the strongest surviving read at
  // the query and at the answer tokens after it: a key token is mostly read when its own character is due,
  // not at the query.
  void read_key(const trace::LayerSpec& spec, int head, const HeadRoutes& routes, HeadSummary& s) {
    const std::vector<KeyWrite> writes = key_writes(routes, key_, query_);
    s.key_survival = mean_survival(writes);
    if (!routes.no_reads.empty()) s.read_mass_on_key = matrix_read_mass(spec, head);
    const size_t slots = size_t(routes.slots);
    std::vector<double> later(slots, 0);  // sum of f over (query, t]
    const std::vector<int64_t> tokens = read_tokens(trace_, run_, spec);
    const auto at = std::find_if(tokens.begin(), tokens.end(), [&](int64_t t) { return t >= query_; });
    HeadReads reads;
    if (at != tokens.end()) {
      const int64_t count = std::min<int64_t>(tokens.end() - at, kMostReads);
      reads = head_reads(trace_, run_, spec, head, at - tokens.begin(), count);
    }
    if (reads.heads.empty() || reads.token.empty())
      return offer_all(writes, std::vector<double>(slots, 1), later, s);
    int64_t reached = query_;
    for (size_t i = 0; i < reads.token.size(); ++i) {
      const std::vector<double> p = mean_reads(reads, i, slots);
      if (reads.token[i] == query_) s.read_mass_on_key = read_mass(writes, p);
      for (; reached < std::min(reads.token[i], info_.tokens - 1); ++reached)
        add_gates(routes, reached + 1, later);
      offer_all(writes, p, later, s);
    }
  }

  // Of a matrix state: sum of A[query, j] over the key's tokens, mean of the query heads. NaN where query and key were not
  // captured and where every channel has a row of its own.
  double matrix_read_mass(const trace::LayerSpec& spec, int head) const {
    std::string why;
    const auto reads = load_matrix_reads(trace_, run_, spec, head, why);
    if (!reads || reads->per_channel() || reads->skip_varies()) return kNaN;
    if (!reads->token.empty() && !std::binary_search(reads->token.begin(), reads->token.end(), query_)) return kNaN;
    double mass = 0;
    for (const int h : reads->heads) {
      const Attribution a = read_attribution(*reads, h, query_);
      for (const int64_t j : key_) mass += a.weight[size_t(j)] / double(reads->heads.size());
    }
    return mass;
  }

  static void add_gates(const HeadRoutes& routes, int64_t token, std::vector<double>& later) {
    const int64_t row = row_of(routes, token);
    if (row < 0 || !routes.has_decay())
      return;  // not captured: taken as unchanged, it only steers what is shown first
    for (int k = 0; k < routes.top_k; ++k)
      if (const size_t slot = routes.slot_at(row, k); slot < later.size() && routes.weight_at(row, k) != 0)
        later[slot] += routes.decay(row, k) * routes.weight_at(row, k);
  }

  void offer_all(const std::vector<KeyWrite>& writes, const std::vector<double>& p,
                 const std::vector<double>& later, const HeadSummary& s) {
    Candidate& c = candidates_.back();
    for (const KeyWrite& w : writes) {
      const size_t slot = size_t(w.slot);
      const double read = w.strength * (std::isnan(w.read_left) ? 1 : w.read_left) * std::exp(later[slot]) * p[slot];
      c.anywhere.offer(w, read);
      if (s.allocation.slot_class[slot] == SlotClass::retrieval) c.in_retrieval_only.offer(w, read);
    }
  }

  static void sort_by_score(RunSummary& out) {
    out.by_score.resize(out.head_list.size());
    std::iota(out.by_score.begin(), out.by_score.end(), 0);
    const auto score = [&](int i) {
      const double v = out.head_list[size_t(i)].allocation.head_score;
      return std::isnan(v) ? -1 : v;
    };
    std::stable_sort(out.by_score.begin(), out.by_score.end(),
                     [&](int a, int b) { return score(a) > score(b); });
  }

  void choose_first(RunSummary& out) const {
    out.first.token = std::max<int64_t>(info_.tokens - 1, 0);
    if (!out.by_score.empty() && !key_.empty()) {
      const int best = out.by_score.front();
      if (!std::isnan(out.head_list[size_t(best)].allocation.head_score)) return choose_read(out, best);
    }
    const HeadSummary* uneven = nullptr;
    for (const HeadSummary& s : out.head_list)
      if (s.has_routes &&
          (!uneven || std::isnan(uneven->statistics.gini) || s.statistics.gini > uneven->statistics.gini))
        uneven = &s;
    if (!uneven) return;
    out.first.layer = uneven->layer;
    out.first.head = uneven->head;
    if (!uneven->esl.order.empty()) out.first.slot = uneven->esl.order.front();
  }

  // The strongest surviving read in retrieval-only slots, or anywhere when the key wrote to none.
  void choose_read(RunSummary& out, int position) const {
    const HeadSummary& s = out.head_list[size_t(position)];
    const Candidate& c = candidates_[size_t(position)];
    out.first.layer = s.layer;
    out.first.head = s.head;
    if (!s.esl.order.empty()) out.first.slot = s.esl.order.front();
    out.first.token = key_.back();
    const Strongest& best = c.in_retrieval_only.read >= 0 ? c.in_retrieval_only : c.anywhere;
    if (best.read < 0) return;
    out.first.slot = best.slot;
    out.first.token = best.token;
  }

  const trace::Trace& trace_;
  int run_;
  const trace::RunInfo& info_;
  AllocationOptions allocation_;
  EslOptions esl_;
  const std::vector<uint8_t>& roles_;
  int64_t query_;
  std::vector<int64_t> key_;
  bool query_reached_ = false;
  int64_t kept_slots_ = 0;  // of layers without stored routes
  std::vector<Candidate> candidates_;  // beside head_list
};

}  // namespace

RunSummary summarise(const trace::Trace& trace, int run, const AllocationOptions& allocation,
                     const EslOptions& esl, Progress* progress, const std::vector<uint8_t>* roles,
                     std::span<const int> layers) {
  return Summariser(trace, run, allocation, esl, roles).run(layers, progress);
}

}  // namespace slotscope::analysis
