#include "views/heatmap_data.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "views/format.h"

namespace slotscope::views {

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct QuantityText {
  Quantity quantity;
  const char *name, *symbol, *formula;
};
const QuantityText kQuantities[] = {
    {Quantity::write_strength, "write strength s", "s", "s = 1 − exp(a·r)     Raven, section 3"},
    {Quantity::route_weight, "route weight r", "r", "r = route weight     Raven, section 3"},
    {Quantity::log_gate, "log decay a·r", "a·r", "f = a·r     Raven, section 3"},
    {Quantity::survival_at, "left at selected token", "left", "left = exp(Σ a·r) over later tokens"},
    {Quantity::survival_of, "left of selected token", "left", "left = exp(Σ a·r) over later tokens"},
    {Quantity::read_weight, "read weight p", "p", "p = softmax over slots     Raven, section 3"},
    {Quantity::read_attribution, "read attribution", "A[t,j]", "A[t,j] = Σᵢ p·s·exp(Σ a·r)     (ours)"},
};

const QuantityText& text_of(Quantity q) {
  for (const auto& t : kQuantities)
    if (t.quantity == q) return t;
  return kQuantities[0];
}

// Entries of slot `slot` with token in [first, last).
std::pair<int64_t, int64_t> entries(const analysis::SlotWrites& w, int slot, int64_t first, int64_t last) {
  return {w.entries_until(slot, first - 1), w.entries_until(slot, last - 1)};
}

// Value of write `e` of `slot`; nothing when the quantity is undefined for it.
std::optional<double> write_value(const HeadData& head, Quantity q, int slot, size_t e, int64_t reference,
                                  double p) {
  const auto& w = head.writes;
  switch (q) {
    case Quantity::write_strength:
      return w.strength.empty() ? std::nullopt : std::optional(w.strength[e]);
    case Quantity::route_weight:
      return w.weight_at(int64_t(e));
    case Quantity::log_gate:
      return w.has_gates ? std::optional(w.log_gate[e]) : std::nullopt;
    case Quantity::survival_at:
      if (!w.has_gates || w.token_at(int64_t(e)) > reference) return std::nullopt;
      return std::exp(w.log_keep_between(slot, w.token_at(int64_t(e)), reference));
    case Quantity::read_attribution:
      if (!w.has_gates || w.strength.empty() || w.token_at(int64_t(e)) > reference) return std::nullopt;
      return p * w.strength[e] * std::exp(w.log_read_keep_between(slot, w.token_at(int64_t(e)), reference));
    default:
      return std::nullopt;
  }
}

void add_sample(SlotGrid& g, double v) {
  const auto state = std::isnan(v)   ? analysis::Cell::nan
                     : std::isinf(v) ? (v > 0 ? analysis::Cell::pos_inf : analysis::Cell::neg_inf)
                                     : analysis::Cell::finite;
  g.nan_cells += state == analysis::Cell::nan;
  g.inf_cells += state == analysis::Cell::pos_inf || state == analysis::Cell::neg_inf;
  if (state == analysis::Cell::finite) {
    g.min = g.finite_cells ? std::min(g.min, v) : v;
    g.max = g.finite_cells ? std::max(g.max, v) : v;
    ++g.finite_cells;
  }
  g.value.push_back(state == analysis::Cell::finite ? float(v) : std::numeric_limits<float>::quiet_NaN());
  g.state.push_back(state);
}

}  // namespace

QString quantityName(Quantity q) { return QString::fromUtf8(text_of(q).name); }
QString quantitySymbol(Quantity q) { return QString::fromUtf8(text_of(q).symbol); }
QString quantityFormula(Quantity q) { return QString::fromUtf8(text_of(q).formula); }

namespace {
// A row of weights belongs to one value channel where channels differ (Mamba): slots x tokens has no such picture.
bool rows_differ(const HeadData& head) { return head.attribution_by_slot(); }

std::string attribution_missing(const HeadData& head, const analysis::GridRequest& request) {
  if (!head.no_attribution.empty() && !head.routes.no_reads.empty()) return head.no_attribution;
  if (rows_differ(head))
    return "every slot is read with weights of its own: the prompt's colours and the inspector show those of the selected "
           "slot";
  return head.matrix ? "" : analysis::missing_quantity(head.routes, request);
}

bool needsReads(Quantity q) { return q == Quantity::read_weight || q == Quantity::read_attribution; }
}  // namespace

bool needsReference(Quantity q) {
  return q == Quantity::survival_at || q == Quantity::survival_of || q == Quantity::read_attribution;
}

QString marginName(MarginKind kind) {
  switch (kind) {
    case MarginKind::esl:
      return QStringLiteral("ESL");
    case MarginKind::tokens_held:
      return QStringLiteral("held");
    case MarginKind::read_weight:
      return QStringLiteral("read p");
    case MarginKind::last_write:
      return QStringLiteral("last write");
  }
  return {};
}

QVector<HeatmapChoice> quantityChoices(const HeadData* head) {
  const QString no_reads = QStringLiteral("not captured: run again with read_weight");
  QVector<HeatmapChoice> all;
  for (const auto& t : kQuantities) {
    QString why;
    if (head) {
      // Why a quantity is undefined or missing is said in one place, core/analysis.
      analysis::GridRequest request;
      request.quantity = t.quantity;
      request.reference = head->routes.token_of(0);
      request.read_weight.resize(size_t(head->routes.slots));
      why = QString::fromStdString(t.quantity == Quantity::read_weight         ? head->routes.no_reads
                                   : t.quantity == Quantity::read_attribution ? attribution_missing(*head, request)
                                                                              : analysis::missing_quantity(head->routes, request));
      if (why.isEmpty() && needsReads(t.quantity) && head->read_token.empty()) why = no_reads;
    }
    all.push_back({int(t.quantity), QString::fromUtf8(t.name), why});
  }
  all.push_back({-1, QStringLiteral("A − B"), QStringLiteral("a difference needs two runs in Compare")});
  return all;
}

QString emptyReason(const HeadData& head, Quantity quantity, int64_t reference) {
  for (const HeatmapChoice& choice : quantityChoices(&head))
    if (choice.value == int(quantity) && !choice.why.isEmpty())
      return choice.name + QStringLiteral(": ") + choice.why;
  if (quantity == Quantity::read_attribution && readsAt(head, reference).empty() && matrixRow(head, reference).empty())
    return QStringLiteral("no reads were captured at token %1").arg(count(reference));
  if (quantity == Quantity::read_weight) return QStringLiteral("no reads were captured at these tokens");
  return QStringLiteral("nothing is routed here");
}

QVector<HeatmapChoice> sortChoices(const HeadData* head, int64_t token, bool follows_a) {
  QString reads;
  if (head && readsAt(*head, token).empty())
    reads = head->read_token.empty() ? QStringLiteral("not captured: run again with read_weight")
                                     : QStringLiteral("no reads were captured at the selected token");
  return {{int(HeatmapSort::class_then_esl), QStringLiteral("class, then ESL"), {}},
          {int(HeatmapSort::esl), QStringLiteral("ESL"), {}},
          {int(HeatmapSort::first_use), QStringLiteral("first use"), {}},
          {int(HeatmapSort::last_use), QStringLiteral("last use"), {}},
          {int(HeatmapSort::slot), QStringLiteral("slot number"), {}},
          {int(HeatmapSort::read_weight), QStringLiteral("read weight"), reads},
          {int(HeatmapSort::as_a), QStringLiteral("as A"),
           follows_a ? QString() : QStringLiteral("an order to follow needs two runs in Compare")}};
}

HeatmapRows rowsInOrder(const HeadData& head, std::vector<int> slots) {
  HeatmapRows rows;
  rows.slot = std::move(slots);
  rows.row_of.assign(size_t(head.writes.slots), -1);
  for (size_t r = 0; r < rows.slot.size(); ++r)
    if (rows.slot[r] >= 0 && size_t(rows.slot[r]) < rows.row_of.size()) rows.row_of[size_t(rows.slot[r])] = int64_t(r);
  return rows;
}

HeatmapRows sortRows(const HeadData& head, HeatmapSort sort, int64_t token, bool hide_empty) {
  const auto& w = head.writes;
  const size_t slots = size_t(w.slots);
  const auto esl = [&](int s) {
    return size_t(s) < head.esl.esl.size() ? int64_t(head.esl.esl[size_t(s)]) : int64_t(0);
  };
  const auto kind = [&](int s) {
    return size_t(s) < head.allocation.slot_class.size() ? head.allocation.slot_class[size_t(s)]
                                                         : analysis::SlotClass::empty;
  };
  const auto begin = [&](int s) { return w.first(s); };
  const auto end = [&](int s) { return w.last(s); };
  std::vector<double> key(slots, 0);
  const auto reads = sort == HeatmapSort::read_weight ? readsAt(head, token) : std::vector<double>();
  for (size_t i = 0; i < slots; ++i) {
    const int s = int(i);
    const bool used = end(s) > begin(s);
    switch (sort) {
      case HeatmapSort::class_then_esl:
      case HeatmapSort::as_a:
      case HeatmapSort::esl:
        key[i] = -double(esl(s));
        break;
      case HeatmapSort::first_use:
        key[i] = used ? double(w.token_at(begin(s))) : double(w.tokens);
        break;
      // Written last on top.
      case HeatmapSort::last_use:
        key[i] = used ? -double(w.token_at(end(s) - 1)) : 1;
        break;
      case HeatmapSort::slot:
        break;
      case HeatmapSort::read_weight:
        key[i] = reads.empty() || std::isnan(reads[i]) ? 0 : -reads[i];
        break;
    }
  }
  HeatmapRows rows;
  for (size_t i = 0; i < slots; ++i)
    if (!hide_empty || kind(int(i)) != analysis::SlotClass::empty) rows.slot.push_back(int(i));
  const bool by_class = sort == HeatmapSort::class_then_esl || sort == HeatmapSort::as_a;
  std::stable_sort(rows.slot.begin(), rows.slot.end(), [&](int a, int b) {
    if (by_class && kind(a) != kind(b)) return kind(a) < kind(b);
    return key[size_t(a)] < key[size_t(b)];
  });
  rows.row_of.assign(slots, -1);
  for (size_t r = 0; r < rows.slot.size(); ++r) rows.row_of[size_t(rows.slot[r])] = int64_t(r);
  if (by_class)
    for (size_t r = 0; r < rows.slot.size(); ++r) {
      if (rows.groups.empty() || rows.groups.back().kind != kind(rows.slot[r]))
        rows.groups.push_back({kind(rows.slot[r]), int64_t(r), int64_t(r)});
      rows.groups.back().end = int64_t(r) + 1;
    }
  return rows;
}

std::vector<double> readsAt(const HeadData& head, int64_t token) { return head.mean_reads_at(token); }

std::vector<double> matrixRow(const HeadData& head, int64_t token) {
  std::vector<double> mean;
  if (!head.matrix || rows_differ(head)) return mean;
  for (const int h : head.read_heads) {
    const auto a = head.attribution(token, h);
    if (a.weight.empty()) return {};
    mean.resize(a.weight.size(), 0);
    for (size_t j = 0; j < mean.size(); ++j) mean[j] += a.weight[j] / double(head.read_heads.size());
  }
  return mean;
}

std::optional<double> cellValue(const HeadData& head, Quantity q, int slot, int64_t token,
                                int64_t reference) {
  const auto& w = head.writes;
  if (slot < 0 || slot >= w.slots) return std::nullopt;
  if (q == Quantity::read_weight) {
    const auto p = readsAt(head, token);
    return p.empty() ? std::nullopt : std::optional(p[size_t(slot)]);
  }
  if (q == Quantity::survival_of) {
    const auto [from, to] = entries(w, slot, reference, reference + 1);
    if (from == to || !w.has_gates || token < reference) return std::nullopt;
    return std::exp(w.log_keep_between(slot, reference, token));
  }
  const auto [from, to] = entries(w, slot, token, token + 1);
  if (from == to) return std::nullopt;
  double p = 0;
  if (q == Quantity::read_attribution && head.matrix) {
    const auto row = matrixRow(head, reference);
    return size_t(token) < row.size() ? std::optional(row[size_t(token)]) : std::nullopt;
  }
  if (q == Quantity::read_attribution) {
    const auto reads = readsAt(head, reference);
    if (reads.empty()) return std::nullopt;
    p = reads[size_t(slot)];
  }
  return write_value(head, q, slot, size_t(from), reference, p);
}

std::vector<double> marginValues(const HeadData& head, MarginKind kind, int64_t token) {
  const auto& w = head.writes;
  std::vector<double> values(size_t(w.slots), kNan);
  const auto reads = kind == MarginKind::read_weight ? readsAt(head, token) : std::vector<double>();
  for (int s = 0; s < w.slots; ++s) {
    double& v = values[size_t(s)];
    const int64_t end = w.last(s);
    switch (kind) {
      case MarginKind::esl:
        v = size_t(s) < head.esl.esl.size() ? double(head.esl.esl[size_t(s)]) : kNan;
        break;
      case MarginKind::tokens_held:
        v = w.shared && s > 0 ? values[0]  // written alike, they hold the same
            : w.has_gates && !w.strength.empty() ? analysis::tokens_held(w, s, w.tokens - 1)
                                                 : kNan;
        break;
      case MarginKind::read_weight:
        v = reads.empty() ? kNan : reads[size_t(s)];
        break;
      case MarginKind::last_write:
        v = end > w.first(s) ? double(w.token_at(end - 1)) : kNan;
        break;
    }
  }
  return values;
}

namespace {

// Read weights exist at few tokens: their columns are filled, everything else is "not routed". Pools as core
// does: the first of NaN, +inf, -inf, finite wins, and the largest finite value.
SlotGrid read_grid(const GridJob& job) {
  const HeadData& head = *job.head;
  SlotGrid g;
  g.first = job.tokens.first, g.last = job.tokens.second;
  const int64_t tokens = g.last - g.first, rows = int64_t(job.rows.size());
  if (tokens <= 0 || rows <= 0) return g;
  const auto divide_up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const int64_t per_column = std::max({divide_up(tokens, job.max_columns), job.per_column, int64_t(1)});
  const int64_t per_row = divide_up(rows, job.max_rows);
  g.tokens_per_column = double(per_column), g.slots_per_row = double(per_row);
  g.columns = int(divide_up(tokens, per_column)), g.rows = int(divide_up(rows, per_row));
  const size_t cells = size_t(g.columns) * size_t(g.rows);
  g.value.assign(cells, std::numeric_limits<float>::quiet_NaN());
  g.state.assign(cells, analysis::Cell::not_routed);
  const auto order = [](analysis::Cell c) {
    return c == analysis::Cell::not_routed ? 9 : c == analysis::Cell::finite ? 8 : int(c);
  };
  for (const int64_t t : head.read_token) {
    if (t < g.first || t >= g.last) continue;
    const auto p = readsAt(head, t);
    if (p.empty()) continue;
    for (size_t r = 0; r < job.rows.size(); ++r) {
      if (job.rows[r] < 0 || size_t(job.rows[r]) >= p.size()) continue;
      SlotGrid one;
      add_sample(one, p[size_t(job.rows[r])]);
      g.nan_cells += one.nan_cells, g.inf_cells += one.inf_cells;
      if (one.finite_cells) {
        g.min = g.finite_cells ? std::min(g.min, one.min) : one.min;
        g.max = g.finite_cells ? std::max(g.max, one.max) : one.max;
        ++g.finite_cells;
      }
      const size_t at = r / size_t(per_row) * size_t(g.columns) + size_t((t - g.first) / per_column);
      const int a = order(one.state[0]), b = order(g.state[at]);
      if (a < b || (a == b && one.state[0] == analysis::Cell::finite && one.value[0] > g.value[at]))
        g.state[at] = one.state[0], g.value[at] = one.value[0];
    }
  }
  const std::string reads = std::to_string(head.read_token.size()) + " read tokens drawn";
  g.reduction = per_column > 1 ? reads + ", max of " + std::to_string(per_column) + " tokens per column"
                               : reads + ", no reduction";
  if (per_row > 1) g.reduction += ", max of " + std::to_string(per_row) + " slots per row";
  return g;
}

}  // namespace

SlotGrid makeGrid(const GridJob& job) {
  if (job.tokens.second <= job.tokens.first || job.rows.empty() || job.head->writes.tokens <= 0) return {};
  if (job.quantity == Quantity::read_weight) return read_grid(job);
  analysis::GridRequest request;
  request.quantity = job.quantity;
  request.pooling = job.pooling;
  request.rows = job.rows;
  request.first = job.tokens.first, request.last = job.tokens.second;
  request.max_columns = job.max_columns, request.max_rows = job.max_rows;
  request.tokens_per_column = job.per_column;
  request.reference = job.reference;
  if (job.quantity == Quantity::read_attribution) {
    request.read_weight = readsAt(*job.head, job.reference);
    request.attribution = matrixRow(*job.head, job.reference);
    if (request.read_weight.empty() && request.attribution.empty()) return {};
  }
  return analysis::reduce(job.head->routes, job.head->writes, request);
}

SlotGrid valueSamples(const HeadData& head, Quantity q, int64_t reference) {
  SlotGrid g;
  const auto& w = head.writes;
  if (q == Quantity::survival_of) {
    GridJob job;
    job.head =
        std::shared_ptr<const HeadData>(std::shared_ptr<const HeadData>(), &head);  // borrowed for this call
    job.quantity = q, job.reference = reference, job.tokens = {0, w.tokens};
    for (int s = 0; s < w.slots; ++s) job.rows.push_back(s);
    return makeGrid(job);
  }
  if (q == Quantity::read_weight) {
    for (const int64_t t : head.read_token)
      for (const double v : readsAt(head, t)) add_sample(g, v);
  } else if (q == Quantity::read_attribution && head.matrix) {
    for (const double v : matrixRow(head, reference)) add_sample(g, v);
  } else {
    const auto p = q == Quantity::read_attribution ? readsAt(head, reference) : std::vector<double>();
    if (q == Quantity::read_attribution && p.empty()) return g;
    // Slots that are written alike have the same values, but for the read weights.
    const int slots = w.shared && p.empty() ? std::min(w.slots, 1) : w.slots;
    for (int s = 0; s < slots; ++s)
      for (int64_t e = w.first(s); e < w.last(s); ++e)
        if (const auto v = write_value(head, q, s, size_t(e), reference, p.empty() ? 0 : p[size_t(s)]))
          add_sample(g, *v);
  }
  g.rows = 1;
  g.columns = int(g.value.size());
  return g;
}

std::pair<int, int64_t> firstNan(const HeadData& head, Quantity q, int64_t reference) {
  std::pair<int, int64_t> best{-1, -1};
  const auto consider = [&](int slot, int64_t token) {
    if (best.second < 0 || token < best.second) best = {slot, token};
  };
  if (q == Quantity::read_attribution && head.matrix) {
    const auto row = matrixRow(head, reference);
    for (size_t j = 0; j < row.size(); ++j)
      if (std::isnan(row[j])) return {0, int64_t(j)};
    return best;
  }
  if (q == Quantity::read_weight || q == Quantity::survival_of) {
    for (const int64_t t : q == Quantity::read_weight ? head.read_token : std::vector<int64_t>{reference})
      for (int s = 0; s < head.writes.slots; ++s)
        if (const auto v = cellValue(head, q, s, t, reference); v && std::isnan(*v)) consider(s, t);
    return best;
  }
  const auto& w = head.writes;
  const auto p = q == Quantity::read_attribution ? readsAt(head, reference) : std::vector<double>();
  for (int s = 0; s < w.slots; ++s)
    for (int64_t e = w.first(s); e < w.last(s); ++e) {
      const auto v = write_value(head, q, s, size_t(e), reference, p.empty() ? 0 : p[size_t(s)]);
      if (v && std::isnan(*v)) {
        consider(s, w.token_at(e));
        break;
      }
    }
  return best;
}

int64_t tokensPerColumn(int64_t visible, int pixels) {
  if (visible <= std::max(1, pixels)) return 1;
  const int64_t room = std::max(1, pixels - 2);  // two columns of play for wholeColumns
  return (visible + room - 1) / room;
}

CellRange wholeColumns(CellRange visible, int64_t per_column) {
  const int64_t first = visible.first / per_column * per_column;
  return {first, first + (visible.second - first + per_column - 1) / per_column * per_column};
}

CellRange fetchRange(CellRange visible, int64_t per_column, int64_t total) {
  const int64_t margin = (visible.second - visible.first) / 4;
  const int64_t first = std::max<int64_t>(0, visible.first - margin) / per_column * per_column;
  const int64_t last = (std::min(total, visible.second + margin) + per_column - 1) / per_column * per_column;
  return {first, std::min(total, last)};
}

// --- colour ---

ColourScale ColourScale::make(const SlotGrid& samples, const SlotGrid* visible,
                              const ColourSettings& settings) {
  ColourScale c;
  c.scale = settings.scale;
  const bool from_visible = settings.mode == RangeMode::visible && visible && visible->finite_cells > 0;
  const auto range = analysis::colour_range(from_visible ? *visible : samples,
                                            settings.mode == RangeMode::percentile ? 0.999 : 1.0);
  c.valid = range.valid;
  if (!c.valid) return c;
  c.low = range.low, c.high = range.high;
  if (settings.mode == RangeMode::typed && settings.low < settings.high)
    c.low = settings.low, c.high = settings.high;
  c.downwards = c.high <= 0 && c.low < 0;
  // By default amounts begin at zero, so that twice the value is twice as far up the map.
  if (settings.mode == RangeMode::percentile && c.scale != RangeScale::log) {
    if (c.low > 0 && c.low <= 0.05 * c.high) c.low = 0;
    if (c.high < 0 && c.high >= 0.05 * c.low) c.high = 0;
  }
  if (c.scale == RangeScale::log) {
    // Only one sign has a logarithm. The end nearest to zero is cut at a millionth of the other.
    if (c.downwards) {
      c.high = std::min(c.high, c.low * 1e-6);
    } else if (c.high > 0) {
      c.low = std::max(c.low, c.high * 1e-6);
    } else {
      c.scale = RangeScale::linear;
    }
    if (!(c.low < c.high)) c.scale = RangeScale::linear;
  }
  return c;
}

namespace {
double symlog(double v, double linear) { return std::copysign(std::log10(1 + std::abs(v) / linear), v); }
}  // namespace

double ColourScale::place(double v) const {
  if (std::isnan(v)) return kNan;
  const double a = left(), b = right();
  double t = 0;
  switch (scale) {
    case RangeScale::linear:
      t = (v / 2 - a / 2) / (b / 2 - a / 2);
      break;  // halves: b - a may overflow
    case RangeScale::log:
      t = v * b <= 0 ? 0
                     : (std::log10(std::abs(v)) - std::log10(std::abs(a))) /
                           (std::log10(std::abs(b)) - std::log10(std::abs(a)));
      break;
    case RangeScale::symlog: {
      const double linear = std::max({std::abs(a), std::abs(b), 1e-300}) / 1000;
      t = (symlog(v, linear) - symlog(a, linear)) / (symlog(b, linear) - symlog(a, linear));
      break;
    }
  }
  return std::clamp(std::isnan(t) ? 0.5 : t, 0.0, 1.0);
}

double ColourScale::value(double t) const {
  const double a = left(), b = right();
  switch (scale) {
    case RangeScale::log:
      return std::copysign(std::pow(10, std::log10(std::abs(a)) * (1 - t) + std::log10(std::abs(b)) * t), b);
    case RangeScale::symlog: {
      const double linear = std::max({std::abs(a), std::abs(b), 1e-300}) / 1000;
      const double y = symlog(a, linear) * (1 - t) + symlog(b, linear) * t;
      return std::copysign(linear * (std::pow(10, std::abs(y)) - 1), y);
    }
    case RangeScale::linear:
      break;
  }
  return a * (1 - t) + b * t;
}

QString limitText(double v) {
  if (v == 0) return QStringLiteral("0");
  if (std::abs(v) >= 100 && std::abs(v) < 1e6) return signedNumber(v, 0);
  // Two significant digits at least: 0.0021, not 0.00.
  return strength(v, std::abs(v) < 0.01 ? 4 : std::abs(v) < 0.1 ? 3 : 2);
}

}  // namespace slotscope::views
