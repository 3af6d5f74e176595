#include "core/analysis/overlap.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/analysis/divergence.h"
#include "core/analysis/trace_access.h"
#include "core/error.h"

namespace slotscope::analysis {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

[[noreturn]] void refuse(std::string item, std::string found, std::string expected = {}) {
  throw Error({.item = std::move(item), .found = std::move(found), .expected = std::move(expected)});
}

std::string place_of(const HeadRoutes& r) {
  return "layer " + std::to_string(r.layer) + " head " + std::to_string(r.head);
}

// Rows and columns are the captured tokens of the addresses.
class AddressMatrix : public TokenMatrix {
 public:
  AddressMatrix(std::shared_ptr<const Addresses> a, std::string name) : TokenMatrix(a->tokens(), std::move(name)), a_(std::move(a)) {}
  bool has_row(int64_t t) const override { return row_of(*a_->write, t) >= 0; }
  const std::vector<int64_t>& columns() const override { return a_->write->token; }

 protected:
  std::shared_ptr<const Addresses> a_;
};

class OverlapMatrix final : public AddressMatrix {
 public:
  OverlapMatrix(std::shared_ptr<const Addresses> a, OverlapKind kind, std::string name)
      : AddressMatrix(std::move(a), std::move(name)), kind_(kind) {}

  // Along the writes of every slot that t reads: as many steps as there are meetings.
  int64_t add_row(int64_t t, RowBuffer& row) const override {
    const int64_t at = row_of(*a_->write, t);
    const SlotWrites& w = *a_->writes;
    for (int k = 0; at >= 0 && k < a_->reads(); ++k) {
      const uint32_t slot = a_->read_slot_at(at, k);
      const double r = kind_ == OverlapKind::write ? strength_of(*a_->write, at, k) : a_->read_weight_at(at, k);
      if (slot >= uint32_t(w.slots) || a_->read_weight_at(at, k) == 0) continue;
      const int64_t last = w.entries_until(int(slot), std::min(t, row.last() - 1));
      for (int64_t e = w.entries_until(int(slot), row.first() - 1); e < last; ++e) {
        const double other = kind_ == OverlapKind::write ? w.strength[size_t(e)] : w.weight_at(e);
        row.add(w.token_at(e), kind_ == OverlapKind::dot ? r * other : std::min(r, other));
      }
    }
    return 0;
  }

 private:
  OverlapKind kind_;
};

class InducedMatrix final : public AddressMatrix {
 public:
  explicit InducedMatrix(std::shared_ptr<const Addresses> a) : AddressMatrix(std::move(a), "A[t,s]") {}

  int64_t add_row(int64_t t, RowBuffer& row) const override {
    const int64_t at = row_of(*a_->write, t);
    const SlotWrites& w = *a_->writes;
    const int64_t known = w.captured_from(t);
    for (int k = 0; at >= 0 && k < a_->read_k; ++k) {
      const uint32_t slot = a_->read_slot_at(at, k);
      const double p = a_->read_p_at(at, k);
      if (slot < uint32_t(w.slots) && p != 0) add_slot(int(slot), p, t, known, row);
    }
    return known;
  }

 private:
  // Backwards from t, so that a cleared slot or one that kept nothing ends the walk. The sums run over what is left between s and
  // t, not over differences from the beginning.
  void add_slot(int slot, double p, int64_t t, int64_t known, RowBuffer& row) const {
    const SlotWrites& w = *a_->writes;
    const int64_t from = w.entries_until(slot, std::max(row.first(), known) - 1);
    double later = 0;
    for (int64_t e = w.entries_until(slot, t) - 1; e >= from; --e) {
      if (w.token_at(e) < row.last()) row.add(w.token_at(e), p * w.strength[size_t(e)] * std::exp(later));
      later += w.log_gate[size_t(e)];
      if (later < -746) return;  // exp is 0: nothing written before is left
    }
  }
};

class AttributionMatrix final : public TokenMatrix {
 public:
  AttributionMatrix(std::shared_ptr<const HeadData> data, int head)
      : TokenMatrix(data->routes.tokens, "A[t,s]", data->matrix || data->memories), data_(std::move(data)), head_(head) {}
  bool has_row(int64_t t) const override {
    return std::binary_search(data_->read_token.begin(), data_->read_token.end(), t);
  }
  int64_t add_row(int64_t t, RowBuffer& row) const override {
    const Attribution a = data_->attribution(t, head_);
    int64_t known = a.weight.empty() ? row.last() : 0;
    for (int64_t s = 0; s < std::min<int64_t>(row.last(), int64_t(a.weight.size())); ++s) {
      if (std::isnan(a.weight[size_t(s)])) known = s + 1;
      else if (s >= row.first() && a.weight[size_t(s)] != 0) row.add(s, a.weight[size_t(s)]);
    }
    return known;
  }

 private:
  std::shared_ptr<const HeadData> data_;
  int head_;
};

// Reads a few rows at a time and keeps the last block.
class AttentionMatrix final : public TokenMatrix {
 public:
  AttentionMatrix(std::shared_ptr<const trace::Trace> trace, int run, const trace::LayerSpec& layer, int head)
      : TokenMatrix(trace->run(run).tokens, "attention"),
        trace_(std::move(trace)),
        run_(run),
        layer_(layer),
        head_(head),
        token_(read_tokens(*trace_, run, layer)) {
    block_ = std::clamp<int64_t>((int64_t(1) << 21) / std::max<int64_t>(layer.slots, 1), 1, 64);
  }
  bool has_row(int64_t t) const override { return std::binary_search(token_.begin(), token_.end(), t); }
  int64_t add_row(int64_t t, RowBuffer& row) const override {
    const auto at = std::lower_bound(token_.begin(), token_.end(), t);
    if (at == token_.end() || *at != t) return row.last();
    const int64_t read = at - token_.begin();
    const std::lock_guard lock(mutex_);
    if (read < first_ || read >= first_ + int64_t(kept_.token.size())) {
      first_ = read / block_ * block_;
      kept_ = head_reads(*trace_, run_, layer_, owner(), first_, block_);
    }
    const auto place = std::find(kept_.heads.begin(), kept_.heads.end(), head_);
    if (place == kept_.heads.end() || read - first_ >= int64_t(kept_.token.size())) return row.last();
    const size_t base = (size_t(read - first_) * kept_.heads.size() + size_t(place - kept_.heads.begin())) * size_t(layer_.slots);
    for (int64_t s = row.first(); s < std::min(row.last(), layer_.slots); ++s)
      if (const double p = kept_.weight[base + size_t(s)]; p != 0) row.add(s, p);
    return 0;
  }

 private:
  int owner() const { return head_ / int(std::max<int64_t>(layer_.heads / std::max<int64_t>(layer_.route_heads, 1), 1)); }
  std::shared_ptr<const trace::Trace> trace_;
  int run_;
  trace::LayerSpec layer_;
  int head_;
  std::vector<int64_t> token_;
  int64_t block_ = 1;
  mutable std::mutex mutex_;
  mutable int64_t first_ = 0;
  mutable HeadReads kept_;
};

// Rows that are made of whole rows of others need buffers of their own; those are used again.
class Buffers {
 public:
  class Lease {
   public:
    explicit Lease(Buffers& from) : from_(from) {
      const std::lock_guard lock(from_.mutex_);
      if (from_.free_.empty()) {
        buffer_ = std::make_unique<RowBuffer>();
      } else {
        buffer_ = std::move(from_.free_.back());
        from_.free_.pop_back();
      }
    }
    ~Lease() {
      const std::lock_guard lock(from_.mutex_);
      from_.free_.push_back(std::move(buffer_));
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    RowBuffer& operator*() { return *buffer_; }
    RowBuffer* operator->() { return buffer_.get(); }

   private:
    Buffers& from_;
    std::unique_ptr<RowBuffer> buffer_;
  };

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<RowBuffer>> free_;
};

class NormalisedMatrix final : public TokenMatrix {
 public:
  explicit NormalisedMatrix(std::shared_ptr<const TokenMatrix> of)
      : TokenMatrix(of->tokens(), of->name() + " / row sum", of->is_signed()), of_(std::move(of)) {}
  bool has_row(int64_t t) const override { return of_->has_row(t); }
  const std::vector<int64_t>& columns() const override { return of_->columns(); }
  int64_t add_row(int64_t t, RowBuffer& row) const override {
    Buffers::Lease whole(buffers_);
    whole->reset(0, t + 1);
    if (of_->add_row(t, *whole) > 0) return row.last();  // a part is not known, and so is the sum
    double sum = 0;
    for (const double v : whole->values()) sum += v;
    if (sum == 0) return 0;
    for (const int64_t s : whole->touched())
      if (s >= row.first() && s < row.last()) row.add(s, whole->at(s) / sum);
    return 0;
  }

 private:
  std::shared_ptr<const TokenMatrix> of_;
  mutable Buffers buffers_;
};

class DifferenceMatrix final : public TokenMatrix {
 public:
  DifferenceMatrix(std::shared_ptr<const TokenMatrix> a, std::shared_ptr<const TokenMatrix> b)
      : TokenMatrix(a->tokens(), a->name() + " - " + b->name(), true), a_(std::move(a)), b_(std::move(b)) {
    if (a_->columns().empty()) {
      columns_ = b_->columns();
    } else if (b_->columns().empty()) {
      columns_ = a_->columns();
    } else {
      std::set_intersection(a_->columns().begin(), a_->columns().end(), b_->columns().begin(), b_->columns().end(),
                            std::back_inserter(columns_));
    }
  }
  bool has_row(int64_t t) const override { return a_->has_row(t) && b_->has_row(t); }
  const std::vector<int64_t>& columns() const override { return columns_; }
  int64_t add_row(int64_t t, RowBuffer& row) const override {
    Buffers::Lease minus(buffers_);
    minus->reset(row.first(), row.last());
    const int64_t known = std::max(a_->add_row(t, row), b_->add_row(t, *minus));
    for (const int64_t s : minus->touched()) row.add(s, -minus->at(s));
    return known;
  }

 private:
  std::shared_ptr<const TokenMatrix> a_, b_;
  std::vector<int64_t> columns_;
  mutable Buffers buffers_;
};

class FirstRows final : public TokenMatrix {
 public:
  FirstRows(std::shared_ptr<const TokenMatrix> of, int64_t tokens, int64_t rows)
      : TokenMatrix(tokens, of->name(), of->is_signed()), of_(std::move(of)), rows_(std::min(rows, of_->tokens())) {}
  bool has_row(int64_t t) const override { return t < rows_ && of_->has_row(t); }
  const std::vector<int64_t>& columns() const override { return of_->columns(); }
  int64_t add_row(int64_t t, RowBuffer& row) const override { return t < rows_ ? of_->add_row(t, row) : row.last(); }

 private:
  std::shared_ptr<const TokenMatrix> of_;
  int64_t rows_;
};

class StoredMatrix final : public TokenMatrix {
 public:
  StoredMatrix(std::vector<double> values, int64_t first, int64_t n, std::string name, bool is_signed)
      : TokenMatrix(first + n, std::move(name), is_signed), values_(std::move(values)), first_(first), n_(n) {
    for (int64_t s = first; s < first + n; ++s) columns_.push_back(s);
  }
  bool has_row(int64_t t) const override { return t >= first_ && t < tokens() && !std::isnan(at(t, t)); }
  const std::vector<int64_t>& columns() const override { return columns_; }
  int64_t add_row(int64_t t, RowBuffer& row) const override {
    int64_t known = 0;
    for (int64_t s = std::max(first_, row.first()); s < row.last(); ++s) {
      const double v = at(t, s);
      if (std::isnan(v)) known = s + 1;
      else if (v != 0) row.add(s, v);
    }
    return known;
  }

 private:
  double at(int64_t t, int64_t s) const { return values_[size_t((t - first_) * n_ + s - first_)]; }
  std::vector<double> values_;
  int64_t first_, n_;
  std::vector<int64_t> columns_;
};

}  // namespace

void RowBuffer::reset(int64_t first, int64_t last) {
  for (const int64_t c : touched_) value_[size_t(c - first_)] = 0, seen_[size_t(c - first_)] = 0;
  touched_.clear();
  first_ = first;
  last_ = std::max(first, last);
  if (value_.size() < size_t(last_ - first_)) {
    value_.resize(size_t(last_ - first_), 0);
    seen_.resize(size_t(last_ - first_), 0);
  }
}

const std::vector<int64_t>& TokenMatrix::columns() const {
  static const std::vector<int64_t> all;
  return all;
}

std::shared_ptr<const TokenMatrix> overlap_matrix(std::shared_ptr<const Addresses> a, OverlapKind kind) {
  const std::string at = place_of(*a->write);
  if (kind != OverlapKind::write && !a->no_overlap.empty()) refuse(at, a->no_overlap);
  if (a->rule.known && kind != OverlapKind::dot)
    refuse(at, "the overlap of a read and a write address is sum_a r_t(a) w_s(a)", "dot");
  if (kind == OverlapKind::write && !a->write->has_strength() && !a->write->has_decay())
    refuse(at, "write strengths were not captured");
  const char* name = kind == OverlapKind::dot ? "overlap" : kind == OverlapKind::min ? "overlap (min)" : "write overlap";
  return std::make_shared<OverlapMatrix>(std::move(a), kind, name);
}

std::shared_ptr<const TokenMatrix> induced_matrix(std::shared_ptr<const Addresses> a) {
  if (!a->no_induced.empty()) refuse(place_of(*a->write), a->no_induced);
  if (!a->own_reads) refuse(place_of(*a->write), "its reads have no addresses: A is known at captured read tokens only");
  return std::make_shared<InducedMatrix>(std::move(a));
}

std::shared_ptr<const TokenMatrix> attribution_matrix(std::shared_ptr<const HeadData> data, int query_head) {
  const std::string at = "layer " + std::to_string(data->layer) + " query head " + std::to_string(query_head);
  if (!data->no_attribution.empty()) refuse(at, data->no_attribution);
  if (std::find(data->read_heads.begin(), data->read_heads.end(), query_head) == data->read_heads.end())
    refuse(at, "its reads were not captured: run again with read_weight");
  if (data->attribution_by_slot()) refuse(at, "its rows of A differ between slots: there is none of the head as a whole");
  return std::make_shared<AttributionMatrix>(std::move(data), query_head);
}

std::shared_ptr<const TokenMatrix> attention_matrix(std::shared_ptr<const trace::Trace> trace, int run, int layer,
                                                    int query_head) {
  const trace::LayerSpec& spec = layer_spec(*trace, run, layer);
  const std::string at = "layer " + std::to_string(layer) + " query head " + std::to_string(query_head);
  const auto fail = [&](std::string found) {
    throw Error({.file = trace->path().string(), .item = at, .found = std::move(found)});
  };
  if (spec.route_kind != "append") fail(spec.family + " has no slot for every token: it is no full attention");
  if (query_head < 0 || query_head >= spec.heads) fail("no such head: the layer has " + std::to_string(spec.heads));
  if (read_tokens(*trace, run, spec).empty()) fail("its attention was not captured: run again with read_weight");
  if (head_place(spec, "captured_heads", query_head) < 0) fail("it was not captured: run again with this head");
  if (spec.slots != trace->run(run).tokens)
    fail("its rows have " + std::to_string(spec.slots) + " columns, not one for each token");
  return std::make_shared<AttentionMatrix>(std::move(trace), run, spec, query_head);
}

std::shared_ptr<const TokenMatrix> recurrent_matrix(std::shared_ptr<const Addresses> a, std::shared_ptr<const HeadData> data,
                                                    int query_head) {
  if (a->own_reads && a->no_induced.empty()) return induced_matrix(std::move(a));
  if (!data) return induced_matrix(std::move(a));  // says why
  return attribution_matrix(std::move(data), query_head);
}

std::shared_ptr<const TokenMatrix> trace_matrix(std::shared_ptr<const trace::Trace> trace, int run, int layer, int query_head,
                                                Progress* progress) {
  const trace::LayerSpec& spec = layer_spec(*trace, run, layer);
  if (spec.route_kind == "append") return attention_matrix(std::move(trace), run, layer, query_head);
  if (query_head < 0 || query_head >= spec.heads)
    throw Error({.file = trace->path().string(), .item = "layer " + std::to_string(layer) + " query head " + std::to_string(query_head),
                 .found = "no such head: the layer has " + std::to_string(spec.heads)});
  const int owner = query_head / int(std::max<int64_t>(spec.heads / std::max<int64_t>(spec.route_heads, 1), 1));
  const auto data = load_head(*trace, run, layer, owner, {}, {}, progress);
  const auto addresses = data ? load_addresses(*trace, run, layer, owner, progress, data) : nullptr;
  if (!addresses) throw Error({.item = "addresses", .found = "cancelled"});
  return recurrent_matrix(addresses, data, query_head);
}

int64_t common_tokens(const trace::RunInfo& a, const trace::RunInfo& b) {
  const size_t n = std::min(a.ids.size(), b.ids.size());
  size_t same = 0;
  while (same < n && a.ids[same] == b.ids[same] && a.token_bytes(int64_t(same)) == b.token_bytes(int64_t(same))) ++same;
  return int64_t(same);
}

std::shared_ptr<const TokenMatrix> first_rows(std::shared_ptr<const TokenMatrix> of, int64_t tokens, int64_t rows) {
  if (of->tokens() == tokens && rows >= tokens) return of;
  return std::make_shared<FirstRows>(std::move(of), tokens, rows);
}

std::shared_ptr<const TokenMatrix> stored_matrix(std::vector<double> values, int64_t first, int64_t n, std::string name, bool is_signed) {
  if (first < 0 || n < 0 || n > int64_t(1) << 20 || first > int64_t(1) << 40 || int64_t(values.size()) != n * n)
    refuse(name, std::to_string(values.size()) + " values from token " + std::to_string(first), std::to_string(n) + " x " + std::to_string(n));
  return std::make_shared<StoredMatrix>(std::move(values), first, n, std::move(name), is_signed);
}

std::shared_ptr<const TokenMatrix> row_normalised(std::shared_ptr<const TokenMatrix> of) {
  return std::make_shared<NormalisedMatrix>(std::move(of));
}

std::shared_ptr<const TokenMatrix> difference(std::shared_ptr<const TokenMatrix> a, std::shared_ptr<const TokenMatrix> b) {
  if (a->tokens() != b->tokens())
    refuse("difference of " + a->name() + " and " + b->name(),
           std::to_string(a->tokens()) + " and " + std::to_string(b->tokens()) + " tokens", "the same tokens in both");
  return std::make_shared<DifferenceMatrix>(std::move(a), std::move(b));
}

std::vector<double> tile(const TokenMatrix& m, int64_t t0, int64_t t1, int64_t s0, int64_t s1, Progress* progress) {
  if (t0 < 0 || s0 < 0 || t1 < t0 || s1 < s0 || t1 > m.tokens() || s1 > m.tokens())
    refuse("tile", "rows " + std::to_string(t0) + " to " + std::to_string(t1) + ", columns " + std::to_string(s0) + " to " +
                       std::to_string(s1), "ranges within " + std::to_string(m.tokens()) + " tokens");
  if (t1 > t0 && s1 - s0 > kMostTileCells / (t1 - t0))
    refuse("tile", std::to_string(t1 - t0) + " x " + std::to_string(s1 - s0) + " cells", "at most " + std::to_string(kMostTileCells));
  const size_t width = size_t(s1 - s0);
  std::vector<double> out(size_t(t1 - t0) * width, 0);
  RowBuffer row;
  for (int64_t t = t0; t < t1; ++t) {
    if (progress && progress->cancel_requested()) return {};
    double* to = out.data() + size_t(t - t0) * width;
    const int64_t last = std::clamp(t + 1, s0, s1);
    row.reset(s0, last);
    const int64_t known = !m.has_row(t) ? last : last > s0 ? m.add_row(t, row) : 0;
    for (const int64_t s : row.touched()) to[s - s0] = row.at(s);
    for (int64_t s = s0; s < std::min(known, last); ++s) to[s - s0] = kNaN;
    if (m.columns().empty()) continue;
    for (int64_t s = s0; s < last; ++s)
      if (!std::binary_search(m.columns().begin(), m.columns().end(), s)) to[s - s0] = kNaN;
  }
  return out;
}

std::vector<double> row_sums(const TokenMatrix& m, int64_t t0, int64_t t1, Progress* progress) {
  if (t0 < 0 || t1 < t0 || t1 > m.tokens())
    refuse("row sums", "rows " + std::to_string(t0) + " to " + std::to_string(t1), "a range within " + std::to_string(m.tokens()));
  std::vector<double> out;
  RowBuffer row;
  for (int64_t t = t0; t < t1; ++t) {
    if (progress && progress->cancel_requested()) return {};
    row.reset(0, t + 1);
    double sum = m.has_row(t) && m.add_row(t, row) == 0 ? 0 : kNaN;
    for (const double v : row.values()) sum += v;
    out.push_back(sum);
  }
  return out;
}

namespace {

// The whole row, normalised; nothing where it is not known, holds negative values or is all 0 (`zero`).
std::optional<std::vector<double>> distribution(const TokenMatrix& m, int64_t t, RowBuffer& row, bool& zero) {
  row.reset(0, t + 1);
  if (m.add_row(t, row) > 0) return std::nullopt;
  for (const double v : row.values())
    if (!(v >= 0 && std::isfinite(v))) return std::nullopt;
  auto p = normalised(row.values());
  zero = !p;
  return p;
}

}  // namespace

RowDivergences compare_rows(const TokenMatrix& a, const TokenMatrix& b, int64_t t0, int64_t t1, Progress* progress) {
  if (a.tokens() != b.tokens())
    refuse("rows of " + a.name() + " and " + b.name(), std::to_string(a.tokens()) + " and " + std::to_string(b.tokens()) + " tokens",
           "the same tokens in both");
  RowDivergences out;
  out.first = std::clamp<int64_t>(t0, 0, a.tokens());
  t1 = std::clamp<int64_t>(t1, out.first, a.tokens());
  if (progress) progress->begin_stage("comparing rows", t1 - out.first);
  RowBuffer row;
  for (int64_t t = out.first; t < t1; ++t) {
    if (progress) {
      if (progress->cancel_requested()) return {};
      progress->add(1);
    }
    double js = kNaN, kl = kNaN;
    if (!a.has_row(t) || !b.has_row(t)) {
      ++out.missing;
    } else {
      bool zero_a = false, zero_b = false;
      const auto p = distribution(a, t, row, zero_a), q = distribution(b, t, row, zero_b);
      if (p && q) {
        js = js_divergence(*p, *q);
        kl = forward_kl(*q, *p);
        ++out.compared;
        out.infinite_kl += std::isinf(kl);
      } else {
        ++(zero_a ? out.zero_a : zero_b ? out.zero_b : out.undefined);
      }
    }
    out.js.push_back(js);
    out.kl.push_back(kl);
  }
  const int64_t from = std::max<int64_t>(1 - out.first, 0);  // row 0 is equal in any two causal matrices
  out.mean_js = mean_over_rows(out.js, from).mean;
  out.mean_kl = mean_over_rows(out.kl, from).mean;
  return out;
}

}  // namespace slotscope::analysis
