#include "views/compare_model.h"

#include <QScopedValueRollback>
#include <algorithm>
#include <climits>

#include "views/painted_view.h"

namespace slotscope::views {

namespace {

// Up to this many tokens matching and curves are quicker than a round trip through the worker.
constexpr int64_t kAtOnceTokens = 8192;

struct Computed {
  analysis::RowMatch match;
  analysis::KeyCurve a, b;
};

const std::vector<uint8_t>* rolesOf(const RunData& run) { return run.own_info ? &run.own_info->roles : nullptr; }

analysis::KeyCurve curveOf(const CompareSide& side) {
  if (side.run && side.head) return analysis::key_curve(*side.head, side.run->info(), rolesOf(*side.run));
  analysis::KeyCurve none;
  none.why = side.why.toStdString();
  return none;
}

// The slot through which most of the key is read at the query (p s left); the first one where that is unknown.
int bestSlot(const analysis::HeadData& head, const RunData& run) {
  const int64_t query = analysis::query_token(run.info());
  const std::vector<int64_t> key = analysis::key_tokens(run.info(), rolesOf(run));
  const std::vector<double> read = head.mean_reads_at(query);
  double most = 0;
  int best = head.allocation.order.empty() ? 0 : head.allocation.order.front();
  for (const analysis::KeyWrite& w : analysis::key_writes(head.routes, key, query)) {
    if (size_t(w.slot) >= read.size()) break;
    if (const double v = read[size_t(w.slot)] * w.strength * w.left; v > most) most = v, best = w.slot;
  }
  return best;
}

Computed compute(const CompareSide& a, const CompareSide& b, const analysis::TokenAlignment& tokens) {
  Computed out;
  out.a = curveOf(a);
  out.b = curveOf(b);
  if (a.head && b.head)
    out.match = analysis::match_rows(*a.head, *b.head, tokens);
  else
    out.match.why = "a head is missing";
  return out;
}

}  // namespace

CompareModel::CompareModel(SelectionModel* window, Worker* worker, QObject* parent)
    : QObject(parent), window_(window), worker_(worker) {
  match_.why = "a head is missing";
  connectSelections();
}

PairedRows pairRows(const analysis::HeadData& a, const analysis::HeadData& b, const analysis::RowMatch& match) {
  PairedRows out;
  out.of_a.assign(size_t(a.routes.slots), -1);
  out.of_b.assign(size_t(b.routes.slots), -1);
  out.matched = match.why.empty();
  const HeatmapRows in_a = sortRows(a, HeatmapSort::class_then_esl, 0, false), in_b = sortRows(b, HeatmapSort::class_then_esl, 0, false);
  const auto class_of = [](const analysis::HeadData& head, int slot) {
    const auto& all = head.allocation.slot_class;
    return slot >= 0 && size_t(slot) < all.size() ? all[size_t(slot)] : analysis::SlotClass::empty;
  };
  const auto add = [&](int slot_a, int slot_b, const QString& group) {
    const int at = int(out.pair.size());
    out.pair.push_back({slot_a, slot_b});
    if (slot_a >= 0) out.of_a[size_t(slot_a)] = at;
    if (slot_b >= 0) out.of_b[size_t(slot_b)] = at;
    out.names << (slot_a >= 0 && slot_b >= 0 ? QString::number(slot_a)
                  : slot_a >= 0              ? QStringLiteral("A %1").arg(slot_a)
                                             : QStringLiteral("B %1").arg(slot_b));
    const auto kind = slot_a >= 0 ? class_of(a, slot_a) : class_of(b, slot_b);
    out.classes.push_back(kind);
    out.rows.slot.push_back(at);
    out.rows.row_of.push_back(at);
    auto& groups = out.rows.groups;
    if (groups.empty() || groups.back().name != group || (group.isEmpty() && groups.back().kind != kind))
      groups.push_back({kind, at, at, group});
    groups.back().end = at + 1;
  };
  if (!out.matched) {
    for (size_t r = 0; r < std::max(in_a.slot.size(), in_b.slot.size()); ++r)
      add(r < in_a.slot.size() ? in_a.slot[r] : -1, r < in_b.slot.size() ? in_b.slot[r] : -1, {});
    return out;
  }
  for (const int slot : in_a.slot)
    if (const int partner = match.b_of_a[size_t(slot)]; partner >= 0) add(slot, partner, {});
  for (const int slot : in_a.slot)
    if (match.b_of_a[size_t(slot)] < 0) add(slot, -1, QStringLiteral("only A"));
  for (const int slot : in_b.slot)
    if (match.a_of_b[size_t(slot)] < 0) add(-1, slot, QStringLiteral("only B"));
  return out;
}

template <class Tell>
void CompareModel::once(Tell tell) {
  if (telling_) return;
  const QScopedValueRollback<bool> guard(telling_, true);
  tell();
}

void CompareModel::connectSelections() {
  connect(window_, &SelectionModel::changed, this,
          [this](const Selection&, int parts) { once([&] { followWindow(parts); }); });
  connect(&in_a_, &SelectionModel::changed, this,
          [this](const Selection&, int parts) { once([&] { movedInA(parts); }); });
  connect(&in_b_, &SelectionModel::changed, this,
          [this](const Selection&, int parts) { once([&] { movedInB(parts); }); });
  connect(&in_pair_, &SelectionModel::changed, this,
          [this](const Selection&, int parts) { once([&] { movedInPair(parts); }); });
  for (SelectionModel* one : {window_, &in_a_, &in_b_, &in_pair_}) {
    connect(one, &SelectionModel::tokenRangeChanged, this, [this, one] { once([&] { rangeFrom(one); }); });
    connect(one, &SelectionModel::hoverChanged, this, [this, one] { once([&] { hoverFrom(one); }); });
  }
  connect(window_, &SelectionModel::brushChanged, this, [this] { once([&] { in_a_.setBrush(window_->brush()); }); });
  connect(&in_a_, &SelectionModel::brushChanged, this, [this] { once([&] { window_->setBrush(in_a_.brush()); }); });
}

qint64 CompareModel::axisTokens() const {
  const qint64 own = a_.run ? a_.run->info().tokens : 0;
  return tokens_.same_tokens && b_.run ? std::max<qint64>(own, b_.run->info().tokens) : own;
}

qint64 CompareModel::otherAxisTokens() const {
  const qint64 own = b_.run ? b_.run->info().tokens : 0;
  return tokens_.same_tokens && a_.run ? std::max<qint64>(own, a_.run->info().tokens) : own;
}

bool CompareModel::familiesDiffer() const {
  if (!complete() || !a_.run->trace || !b_.run->trace) return false;
  return a_.run->trace->model().family != b_.run->trace->model().family;
}

QString CompareModel::whyNoDifference() const {
  if (!a_.head || !b_.head) return QStringLiteral("A − B needs two heads with routes");
  return QString::fromStdString(analysis::why_no_difference(*a_.head, *b_.head, tokens_, match_));
}

int CompareModel::otherHeads(int layer) const {
  if (!b_.run || layer < 0 || size_t(layer) >= b_.run->info().layers.size()) return 0;
  const auto& spec = b_.run->info().layers[size_t(layer)];
  return int(std::clamp<int64_t>(spec.route_heads > 0 ? spec.route_heads : spec.heads, 1, 65536));
}

void CompareModel::setRun(std::shared_ptr<const RunData> run) {
  const bool same = a_.run && run && a_.run->trace == run->trace && a_.run->run == run->run;
  a_.run = std::move(run);
  a_.head = nullptr;
  a_.why = a_.run ? QStringLiteral("reading routes") : QStringLiteral("No run is open.");
  if (!same) {
    runsChanged();
  } else {
    limitSelections();
    headsChanged();
  }
}

void CompareModel::setHead(std::shared_ptr<const analysis::HeadData> head, const QString& why) {
  a_.head = std::move(head);
  a_.why = why;
  headsChanged();
}

void CompareModel::setOtherRun(std::shared_ptr<const RunData> run, const QString& why) {
  b_ = {};
  b_.run = std::move(run);
  b_.why = b_.run ? QStringLiteral("reading routes") : why;
  runsChanged();
  if (b_.run) bestOther();
}

void CompareModel::setOtherHead(std::shared_ptr<const analysis::HeadData> head, const QString& why) {
  b_.head = std::move(head);
  b_.why = why;
  if (b_.head) {
    limitSelections();
    // The summary's own first slot, or the one that answers best in this head.
    const auto& first = b_.run->summary.first;
    const bool is_first = first.layer == in_b_.current().layer && first.head == in_b_.current().head;
    once([&] {
      if (is_first)
        in_b_.request({.slot = first.slot}, true);
      else
        in_b_.request({.slot = bestSlot(*b_.head, *b_.run)}, true);
    });
  }
  headsChanged();
}

void CompareModel::runsChanged() {
  ++state_;
  tokens_ = complete() ? analysis::align_tokens(a_.run->info(), b_.run->info()) : analysis::TokenAlignment{};
  limitSelections();
  headsChanged();
}

// The window's selection has limits of its own; A's here are wider only on the token axis.
void CompareModel::limitSelections() {
  once([&] {
    in_a_.setLimits(INT_MAX, INT_MAX, INT_MAX, INT_MAX, axisTokens());
    const Selection s = window_->current();
    in_a_.request({.run = s.run, .layer = s.layer, .head = s.head, .slot = s.slot, .token = s.token}, true);
    const auto layers = b_.run ? int(b_.run->info().layers.size()) : 0;
    const int layer = in_b_.current().layer;
    const int slots = b_.head ? b_.head->routes.slots : INT_MAX;
    in_b_.setLimits(INT_MAX, layers, otherHeads(layer), slots, otherAxisTokens());
    in_pair_.setLimits(INT_MAX, INT_MAX, INT_MAX, INT_MAX, axisTokens());
    markOther();
    followPair();
    rangeFrom(window_);
  });
}

void CompareModel::headsChanged() {
  const uint64_t state = ++state_;
  const auto adopt = [this](Computed c) {
    a_.key = std::move(c.a);
    b_.key = std::move(c.b);
    match_ = std::move(c.match);
    paired_ = a_.head && b_.head ? pairRows(*a_.head, *b_.head, match_) : PairedRows{};
    once([&] { followPair(); });
    Q_EMIT changed();
  };
  if (!worker_ || std::max(axisTokens(), otherAxisTokens()) <= kAtOnceTokens)
    return adopt(compute(a_, b_, tokens_));
  a_.key = b_.key = {};
  paired_ = {};
  match_ = {};
  match_.why = a_.key.why = b_.key.why = "comparing";
  Q_EMIT changed();
  worker_->post(QStringLiteral("compare"), this, [this, a = a_, b = b_, tokens = tokens_, state, adopt]() -> Worker::Done {
    auto result = std::make_shared<Computed>(compute(a, b, tokens));
    return [this, result, state, adopt] {
      if (state == state_) adopt(std::move(*result));
    };
  });
}

void CompareModel::setLinked(bool linked) {
  if (linked == linked_) return;
  linked_ = linked;
  if (linked) once([&] { rangeFrom(&in_a_); });
  Q_EMIT linkedChanged(linked);
}

void CompareModel::chooseOther(int layer, int head) {
  if (!b_.run || b_.run->info().layers.empty()) return;
  layer = std::clamp(layer, 0, int(b_.run->info().layers.size()) - 1);
  head = std::clamp(head, 0, otherHeads(layer) - 1);
  once([&] {
    in_b_.setLimits(INT_MAX, int(b_.run->info().layers.size()), otherHeads(layer), INT_MAX, otherAxisTokens());
    in_b_.request({.layer = layer, .head = head}, true);
  });
  b_.head = nullptr;
  b_.why = QStringLiteral("reading routes");
  headsChanged();
  Q_EMIT otherHeadWanted(layer, head);
}

void CompareModel::sameIndex() { chooseOther(window_->current().layer, window_->current().head); }

void CompareModel::bestOther() {
  if (!b_.run) return;
  const auto [layer, head] = bestHead();
  chooseOther(layer, head);
}

std::pair<int, int> CompareModel::bestHead() const {
  if (!b_.run) return {0, 0};
  const analysis::RunSummary& summary = b_.run->summary;
  double score = 0, mass = 0;
  const analysis::HeadSummary* reader = nullptr;
  for (const analysis::HeadSummary& head : summary.head_list) {
    if (head.allocation.head_score > score) score = head.allocation.head_score;  // NaN is not larger
    if (head.read_mass_on_key > mass) mass = head.read_mass_on_key, reader = &head;
  }
  return score > 0 || !reader ? std::pair(summary.first.layer, summary.first.head) : std::pair(reader->layer, reader->head);
}

void CompareModel::markOther() {
  const qint64 token = tokens_.b_of(in_a_.current().token);
  if (token >= 0) in_b_.request({.token = token}, true);
  const bool marked = token >= 0;
  if (marked == other_marked_) return;
  other_marked_ = marked;
  Q_EMIT otherTokenMarkedChanged(marked);
}

void CompareModel::followWindow(int parts) {
  const Selection s = window_->current();
  in_a_.request({.run = s.run, .layer = s.layer, .head = s.head, .slot = s.slot, .token = s.token}, true);
  if (parts & SelectionModel::Token) markOther();
  if (parts & SelectionModel::Slot && linked_ && size_t(s.slot) < match_.b_of_a.size())
    if (const int partner = match_.b_of_a[size_t(s.slot)]; partner >= 0) in_b_.request({.slot = partner}, true);
  followPair();
}

// Where the rows of both stand together: on A's axis, at A's slot.
void CompareModel::followPair() {
  const Selection s = in_a_.current();
  SelectionRequest wanted{.run = s.run, .layer = s.layer, .head = s.head, .token = s.token};
  if (size_t(s.slot) < paired_.of_a.size() && paired_.of_a[size_t(s.slot)] >= 0) wanted.slot = paired_.of_a[size_t(s.slot)];
  in_pair_.request(wanted, true);
}

void CompareModel::movedInPair(int parts) {
  const Selection s = in_pair_.current();
  SelectionRequest wanted;
  if (parts & SelectionModel::Layer) wanted.layer = s.layer;
  if (parts & SelectionModel::Head) wanted.head = s.head;
  if (parts & SelectionModel::Token) wanted.token = s.token;
  // A cell is one of both, also where the row was selected before.
  if (parts & (SelectionModel::Slot | SelectionModel::Token) && size_t(s.slot) < paired_.pair.size()) {
    const auto& pair = paired_.pair[size_t(s.slot)];
    if (pair.a >= 0) wanted.slot = pair.a;
    if (pair.b >= 0) in_b_.request({.slot = pair.b}, true);
  }
  window_->request(wanted);
  const Selection now = window_->current();
  in_a_.request({.layer = now.layer, .head = now.head, .slot = now.slot, .token = s.token}, true);
  if (parts & SelectionModel::Token) markOther();
}

void CompareModel::movedInA(int parts) {
  const Selection s = in_a_.current();
  SelectionRequest wanted;
  if (parts & SelectionModel::Layer) wanted.layer = s.layer;
  if (parts & SelectionModel::Head) wanted.head = s.head;
  if (parts & SelectionModel::Slot) wanted.slot = s.slot;
  if (parts & SelectionModel::Token) wanted.token = s.token;
  window_->request(wanted);
  followWindow(parts);  // also takes back what the window would not have
}

void CompareModel::movedInB(int parts) {
  const Selection s = in_b_.current();
  if (parts & (SelectionModel::Layer | SelectionModel::Head)) {
    telling_ = false;  // a new head is a step of its own
    chooseOther(s.layer, s.head);
    telling_ = true;
    return;
  }
  SelectionRequest wanted;
  if (parts & SelectionModel::Token)
    if (const qint64 token = tokens_.a_of(s.token); token >= 0) wanted.token = token;
  if (parts & SelectionModel::Slot && linked_ && size_t(s.slot) < match_.a_of_b.size())
    if (const int partner = match_.a_of_b[size_t(s.slot)]; partner >= 0) wanted.slot = partner;
  window_->request(wanted);
  in_a_.request(wanted, true);
  followPair();
  if (parts & SelectionModel::Token && !other_marked_) {
    other_marked_ = true;
    Q_EMIT otherTokenMarkedChanged(true);
  }
}

// Everything that was visible stays everything: the axis of two runs is longer than that of one.
void CompareModel::rangeFrom(SelectionModel* source) {
  const auto [first, last] = source->tokenRange();
  const qint64 own = a_.run ? a_.run->info().tokens : 0, axis = axisTokens(), other = otherAxisTokens();
  if (own <= 0) return;
  std::pair<qint64, qint64> shown{first, last};  // on A's axis
  if (source == window_ && first <= 0 && last >= own) shown = {0, axis};
  if (source == &in_b_) {
    if (!linked_) return;
    const auto mapped = tokens_.a_range(first, last);
    shown = first <= 0 && last >= other ? std::pair<qint64, qint64>{0, axis} : std::pair<qint64, qint64>(mapped);
  }
  if (source != &in_a_) in_a_.setTokenRange(shown.first, shown.second, true);
  if (source != &in_pair_) in_pair_.setTokenRange(shown.first, shown.second, true);
  if (source != &in_b_ && linked_ && other > 0) {
    const auto mapped = tokens_.b_range(shown.first, shown.second);
    const bool all = shown.first <= 0 && shown.second >= axis;
    in_b_.setTokenRange(all ? 0 : mapped.first, all ? other : mapped.second, true);
  }
  if (source != window_) window_->setTokenRange(std::min(shown.first, own - 1), std::min(shown.second, own));
}

void CompareModel::hoverFrom(SelectionModel* source) {
  int slot = source->hoverSlot();
  qint64 token = source->hoverToken();
  const auto partner = [](const std::vector<int>& map, int of) {
    return of >= 0 && size_t(of) < map.size() ? map[size_t(of)] : -1;
  };
  int row = -1;
  if (source == &in_pair_) {
    row = slot;
    slot = row >= 0 && size_t(row) < paired_.pair.size() ? paired_.pair[size_t(row)].a : -1;
  }
  if (source == &in_b_) {
    if (!linked_) return;
    slot = partner(match_.a_of_b, slot);
    token = tokens_.a_of(token);
  } else if (linked_) {
    in_b_.setHover(partner(match_.b_of_a, slot), tokens_.b_of(token));
  }
  if (source != &in_a_) in_a_.setHover(slot, token);
  if (source != &in_pair_) in_pair_.setHover(partner(paired_.of_a, slot), token);
  if (source != window_) window_->setHover(slot, token);
}

}  // namespace slotscope::views
