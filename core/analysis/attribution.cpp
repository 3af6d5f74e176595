#include "core/analysis/attribution.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/analysis/trace_access.h"
#include "core/error.h"
#include "core/trace/layer_rule.h"

namespace slotscope::analysis {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

[[noreturn]] void refuse(std::string item, std::string found, std::string expected = {}) {
  throw Error({.item = std::move(item), .found = std::move(found), .expected = std::move(expected)});
}

int64_t row_of(const MatrixReads& m, int64_t token) {
  if (m.token.empty()) return token >= 0 && token < m.rows ? token : -1;
  const auto at = std::lower_bound(m.token.begin(), m.token.end(), token);
  return at != m.token.end() && *at == token ? at - m.token.begin() : -1;
}

// u through the gates of one row: exp(g) * u.
void decay(const MatrixReads& m, int64_t row, int channel, std::vector<double>& u) {
  const size_t n = u.size();
  if (m.per_channel()) {
    const double dt = m.step[size_t(row * m.channels + channel)];
    for (size_t i = 0; i < n; ++i) u[i] *= std::exp(dt * m.rate[size_t(channel) * n + i]);
  } else if (m.key_decay) {
    for (size_t i = 0; i < n; ++i) u[i] *= std::exp(m.log_decay[size_t(row) * n + i]);
  } else if (!m.log_decay.empty()) {
    const double keep = std::exp(m.log_decay[size_t(row)]);
    for (double& x : u) x *= keep;
  }
}

}  // namespace

bool MatrixReads::skip_varies() const {
  return std::any_of(skip.begin(), skip.end(), [&](double d) { return d != skip.front(); });
}

Attribution read_attribution(const MatrixReads& m, int query_head, int64_t t, int channel) {
  const auto head = std::find(m.heads.begin(), m.heads.end(), query_head);
  if (head == m.heads.end()) refuse("query head " + std::to_string(query_head), "does not read this memory");
  const int64_t last = row_of(m, t);
  if (last < 0) refuse("token " + std::to_string(t), "not captured");
  const int64_t channels = m.per_channel() ? m.channels : int64_t(m.skip.size());
  if ((m.per_channel() || m.skip_varies()) && (channel < 0 || channel >= channels))
    refuse("value channel " + std::to_string(channel), "not there", "0 to " + std::to_string(channels - 1));
  const size_t n = size_t(m.d_k);
  const double* q = m.query.data() + (size_t(last) * m.heads.size() + size_t(head - m.heads.begin())) * n;
  std::vector<double> u(q, q + n);
  Attribution out;
  out.weight.assign(size_t(t + 1), m.own_tokens ? 0 : kNaN);
  int64_t expected = t;
  double sum = 0;
  for (int64_t row = last; row >= 0; --row, --expected) {
    const int64_t token = m.token.empty() ? row : m.token[size_t(row)];
    if (token != expected && !m.own_tokens) break;  // what lies before a gap cannot be followed
    const double* k = m.key.data() + size_t(row) * n;
    double dot = 0;
    for (size_t i = 0; i < n; ++i) dot += u[i] * k[i];
    const double beta = m.per_channel()      ? m.step[size_t(row * m.channels + channel)]
                        : m.strength.empty() ? 1
                                             : m.strength[size_t(row)];
    out.weight[size_t(token)] = m.scale * beta * dot;
    sum += m.scale * dot;
    if (m.delta)
      for (size_t i = 0; i < n; ++i) u[i] -= beta * dot * k[i];
    decay(m, row, channel, u);
  }
  if (m.normalised) {
    if (expected >= 0) sum = kNaN;  // the divisor runs over all tokens
    for (double& a : out.weight) a /= sum + 1e-10;
  }
  if (!m.skip.empty()) out.weight[size_t(t)] += m.skip[m.skip_varies() ? size_t(channel) : 0];
  out.read_of_nothing = kNaN;
  return out;
}

Attribution read_attribution(const MemoryReads& m, int query_head, int64_t t, int e) {
  const auto head = std::find(m.heads.begin(), m.heads.end(), query_head);
  if (head == m.heads.end()) refuse("query head " + std::to_string(query_head), "does not read these memories");
  if (e < 0 || e >= m.memories) refuse("memory " + std::to_string(e), "not there", "0 to " + std::to_string(m.memories - 1));
  const MatrixReads& part = m.part[size_t(head - m.heads.begin()) * size_t(m.memories) + size_t(e)];
  if (t < 0 || t >= part.tokens) refuse("token " + std::to_string(t), "not there");
  const int64_t row = row_of(part, t);
  Attribution out{std::vector<double>(size_t(t + 1), 0), kNaN};
  if (part.rows == 0 || row < 0) return out;  // not sent there: it reads nothing of it
  out = read_attribution(part, query_head, t);
  for (double& a : out.weight) a *= m.weight[size_t(e)][size_t(row)];
  return out;
}

std::shared_ptr<const MemoryReads> load_memory_reads(const trace::Trace& trace, int run, const trace::LayerSpec& layer,
                                                     const HeadRoutes& routes, std::string& why) {
  const std::string at = "layers/" + std::to_string(layer.index) + "/";
  const trace::RunInfo& info = run_info(trace, run);
  const trace::DatasetInfo* data[4];
  const char* names[] = {"memory_query", "memory_key", "memory_decay", "memory_strength"};
  for (int i = 0; i < 4; ++i)
    if (!(data[i] = info.find(at + names[i]))) {
      why = layer.family + ": read attribution needs " + names[i] + ": run again with --capture attribution";
      return nullptr;
    }
  if (routes.rows != routes.tokens) {
    why = layer.family + ": read attribution needs every token: run again without --tokens";
    return nullptr;
  }
  const auto& shape = data[0]->shape;
  const int64_t k = routes.top_k;
  if (shape.size() != 4 || shape[0] != routes.rows || shape[2] != k || shape[3] < 1 ||
      shape[3] > trace::kMostCells / std::max<int64_t>(routes.rows * k, 1)) {
    why = layer.family + ": memory_query has another shape than the layer, or is too large: capture a shorter prompt";
    return nullptr;
  }
  const int64_t d_k = shape[3];
  auto out = std::make_shared<MemoryReads>();
  out->memories = routes.slots;
  out->weight.resize(size_t(routes.slots));
  const double scale = trace::layer_rule(layer).scale;
  for (int h = 0; h < int(layer.heads); ++h) {
    const int64_t place = head_place(layer, "captured_heads", h);
    if (place < 0 || place >= shape[1]) continue;
    std::vector<double> value[4];
    for (int i = 0; i < 4; ++i) {
      value[i] = trace.read_head(run, data[i]->path, int(place));
      if (int64_t(value[i].size()) != routes.rows * k * (i < 2 ? d_k : 1))
        throw Error({.file = trace.path().string(), .item = data[i]->path, .found = "another shape than memory_query has"});
    }
    const bool first = out->heads.empty();
    out->heads.push_back(h);
    const size_t base = out->part.size();
    out->part.resize(base + size_t(routes.slots));
    for (int64_t row = 0; row < routes.rows; ++row)
      for (int64_t rank = 0; rank < k; ++rank) {
        const uint32_t slot = routes.slot_at(row, int(rank));
        if (slot >= uint32_t(routes.slots) || routes.weight_at(row, int(rank)) == 0) continue;  // dropped (spec: 14.3)
        MatrixReads& m = out->part[base + slot];
        const int64_t e = row * k + rank;
        m.token.push_back(row);
        m.query.insert(m.query.end(), value[0].begin() + e * d_k, value[0].begin() + (e + 1) * d_k);
        m.key.insert(m.key.end(), value[1].begin() + e * d_k, value[1].begin() + (e + 1) * d_k);
        m.log_decay.push_back(value[2][size_t(e)]);
        m.strength.push_back(value[3][size_t(e)]);
        if (first) out->weight[slot].push_back(routes.weight_at(row, int(rank)));
      }
    for (size_t i = base; i < out->part.size(); ++i) {
      MatrixReads& m = out->part[i];
      m.delta = m.own_tokens = true;
      m.scale = scale;
      m.d_k = d_k;
      m.rows = int64_t(m.token.size());
      m.tokens = routes.tokens;
      m.heads = {h};
    }
  }
  if (out->heads.empty()) why = layer.family + ": no query head of this layer was captured";
  return why.empty() ? out : nullptr;
}

namespace {

class Loader {
 public:
  Loader(const trace::Trace& trace, int run, const trace::LayerSpec& layer, int head, Progress* progress)
      : trace_(trace),
        run_(run),
        layer_(layer),
        rule_(trace::layer_rule(layer)),
        at_("layers/" + std::to_string(layer.index) + "/"),
        head_(head),
        place_(trace::route_head_place(layer, head, trace.path().string())),
        progress_(progress) {}

  std::string load(MatrixReads& m) {
    if (rule_.kind == trace::RuleKind::stored)
      return rule_.family + ": read attribution is not computed for routed memories: each of them saw tokens of its own";
    if (!rule_.readout)
      return rule_.family + ": this trace was written by an earlier version, which did not say how the memory is read: run "
                            "again with --capture attribution";
    const auto* key = either("key_rot", "key");
    const auto* query = either("query_rot", "query");
    if (!key || !query) return missing("query and key");
    if (key->shape.size() != 3 || query->shape.size() != 3 || key->shape[2] != query->shape[2] ||
        key->shape[0] != query->shape[0])
      damaged(key->path, "other shapes than query has");
    m.rows = key->shape[0];
    m.d_k = key->shape[2];
    m.tokens = trace_.run(run_).tokens;
    m.delta = rule_.delta;
    m.normalised = rule_.normalised;
    m.scale = rule_.scale;
    if (find("token")) m.token = trace_.read_int(run_, at_ + "token");
    if (m.token.empty() ? m.rows != m.tokens : int64_t(m.token.size()) != m.rows)
      damaged(key->path, std::to_string(m.rows) + " rows");
    return gates(m, key->path, query);
  }

 private:
  const trace::DatasetInfo* find(const char* field) const { return trace_.run(run_).find(at_ + field); }
  const trace::DatasetInfo* either(const char* first, const char* second) const {
    const auto* data = find(first);
    return data ? data : find(second);
  }
  std::string missing(const std::string& what) const {
    return rule_.family + ": read attribution needs " + what + ": run again with --capture attribution";
  }
  std::string too_large() const {
    return rule_.family + ": query and key of so many tokens are too many numbers to hold (at most " +
           std::to_string(trace::kMostCells) + "): run again and capture fewer tokens with --tokens";
  }
  [[noreturn]] void damaged(const std::string& item, const std::string& found) const {
    throw Error({.file = trace_.path().string(), .item = item, .found = found, .expected = "the shape of the layer"});
  }
  std::vector<double> rows(const trace::DatasetInfo& data, int64_t place, int64_t expected) const {
    std::vector<double> values = trace_.read_head(run_, data.path, int(place), 0, -1, progress_);
    if (int64_t(values.size()) != expected) damaged(data.path, std::to_string(values.size()) + " numbers of a head");
    return values;
  }

  std::string gates(MatrixReads& m, const std::string& key, const trace::DatasetInfo* query) {
    const auto *decay = find("log_decay"), *strength = find("write_strength"), *rate = find("state_rate");
    const bool channels = rule_.channels;
    if (channels && (!rate || !strength)) return missing("write_strength and state_rate");
    if (!channels && !decay && rule_.decays) return missing("log_decay");
    if (!channels && !strength && !rule_.strength) return missing("write_strength");
    if (rule_.skip && !find("skip")) return missing("skip");
    const int64_t group = std::max<int64_t>(1, layer_.heads / std::max<int64_t>(1, layer_.route_heads));
    const int64_t wide = std::max<int64_t>(m.d_k * group, channels ? layer_.slots : 1);
    if (m.rows > trace::kMostCells / std::max<int64_t>(wide, 1)) return too_large();
    m.key = rows({.path = key}, place_, m.rows * m.d_k);
    read_queries(m, *query, int(group));
    if (m.heads.empty()) return missing("the query heads that read this head");
    if (channels) {
      m.channels = layer_.slots;
      m.step = rows(*strength, place_, m.rows * m.channels);
      m.rate = constant(*rate, m.channels * m.d_k);
    } else {
      if (decay) {
        m.key_decay = decay->shape.size() == 3;
        m.log_decay = rows(*decay, place_, m.key_decay ? m.rows * m.d_k : m.rows);
      } else if (rule_.keep && *rule_.keep != 1) {
        m.log_decay.assign(size_t(m.rows), std::log(*rule_.keep));
      }
      if (strength) m.strength = rows(*strength, place_, m.rows);
      else if (*rule_.strength != 1) m.strength.assign(size_t(m.rows), *rule_.strength);
    }
    if (rule_.skip) m.skip = constant(*find("skip"), layer_.slots);
    return {};
  }

  void read_queries(MatrixReads& m, const trace::DatasetInfo& query, int group) {
    std::vector<std::vector<double>> each;
    for (int h = head_ * group; h < (head_ + 1) * group; ++h) {
      const int64_t place = head_place(layer_, "captured_heads", h);
      if (place < 0 || place >= query.shape[1]) continue;
      m.heads.push_back(h);
      each.push_back(rows(query, place, m.rows * m.d_k));
    }
    for (int64_t row = 0; row < m.rows; ++row)
      for (const auto& one : each)
        m.query.insert(m.query.end(), one.begin() + row * m.d_k, one.begin() + (row + 1) * m.d_k);
  }

  // The row of this head of a dataset [H_r, ...].
  std::vector<double> constant(const trace::DatasetInfo& data, int64_t expected) const {
    std::vector<double> values = trace_.read(run_, data.path, place_, 1, progress_);
    if (int64_t(values.size()) != expected) damaged(data.path, std::to_string(values.size()) + " numbers of a head");
    return values;
  }

  const trace::Trace& trace_;
  int run_;
  const trace::LayerSpec& layer_;
  trace::LayerRule rule_;
  std::string at_;
  int head_;
  int64_t place_;
  Progress* progress_;
};

}  // namespace

std::shared_ptr<const MatrixReads> load_matrix_reads(const trace::Trace& trace, int run, const trace::LayerSpec& layer,
                                                     int head, std::string& why, Progress* progress) {
  auto reads = std::make_shared<MatrixReads>();
  why = Loader(trace, run, layer, head, progress).load(*reads);
  return why.empty() ? reads : nullptr;
}

}  // namespace slotscope::analysis
