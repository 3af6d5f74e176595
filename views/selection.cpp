#include "views/selection.h"

#include <QDateTime>
#include <algorithm>

namespace slotscope::views {

SelectionModel::SelectionModel(QObject* parent) : QObject(parent) {}

void SelectionModel::setLimits(int runs, int layers, int heads, int slots, qint64 tokens) {
  runs_ = runs, layers_ = layers, heads_ = heads, slots_ = slots;
  if (tokens != tokens_) {
    tokens_ = tokens;
    token_range_ = {0, tokens};
    Q_EMIT tokenRangeChanged(0, tokens);
  }
  const Selection clamped = clamp(current_);
  if (clamped != current_) {
    current_ = clamped;
    Q_EMIT changed(current_, All);
  }
}

Selection SelectionModel::clamp(Selection s) const {
  const auto bound = [](auto v, auto n) { return std::clamp<decltype(v)>(v, 0, std::max<decltype(v)>(0, n - 1)); };
  s.run = bound(s.run, runs_);
  s.layer = bound(s.layer, layers_);
  s.head = bound(s.head, heads_);
  s.slot = bound(s.slot, slots_);
  s.token = bound(s.token, tokens_);
  return s;
}

void SelectionModel::request(const SelectionRequest& wanted, bool merge) {
  Selection next = current_;
  if (wanted.run) next.run = *wanted.run;
  if (wanted.layer) next.layer = *wanted.layer;
  if (wanted.head) next.head = *wanted.head;
  if (wanted.slot) next.slot = *wanted.slot;
  if (wanted.token) next.token = *wanted.token;
  next = clamp(next);
  const int parts = (next.run != current_.run ? Run : 0) | (next.layer != current_.layer ? Layer : 0) |
                    (next.head != current_.head ? Head : 0) | (next.slot != current_.slot ? Slot : 0) |
                    (next.token != current_.token ? Token : 0);
  if (!parts) return;
  current_ = next;
  commit(merge);
  Q_EMIT changed(current_, parts);
}

void SelectionModel::commit(bool merge) {
  const qint64 now = QDateTime::currentMSecsSinceEpoch();
  const bool same_step = !history_.empty() && (merge || now - history_[at_].at_ms < 100);
  history_.resize(history_.empty() ? 0 : at_ + 1);
  if (same_step) {
    history_[at_] = {current_, token_range_, now};
  } else {
    history_.push_back({current_, token_range_, now});
    if (history_.size() > 500) history_.erase(history_.begin());
    at_ = history_.size() - 1;
  }
  Q_EMIT historyChanged();
}

void SelectionModel::setHover(int slot, qint64 token) {
  if (slot == hover_slot_ && token == hover_token_) return;
  hover_slot_ = slot;
  hover_token_ = token;
  Q_EMIT hoverChanged(slot, token);
}

void SelectionModel::setBrush(std::optional<std::pair<qint64, qint64>> range) {
  if (range == brush_) return;
  brush_ = range;
  Q_EMIT brushChanged();
}

void SelectionModel::setTokenRange(qint64 first, qint64 last, bool merge) {
  first = std::clamp<qint64>(first, 0, std::max<qint64>(0, tokens_ - 1));
  last = std::clamp<qint64>(last, first + 1, std::max<qint64>(first + 1, tokens_));
  if (token_range_ == std::pair{first, last}) return;
  token_range_ = {first, last};
  commit(merge);
  Q_EMIT tokenRangeChanged(first, last);
}

void SelectionModel::go(size_t to) {
  at_ = to;
  const Step step = history_[at_];
  const int parts = (step.selection.run != current_.run ? Run : 0) | (step.selection.layer != current_.layer ? Layer : 0) |
                    (step.selection.head != current_.head ? Head : 0) | (step.selection.slot != current_.slot ? Slot : 0) |
                    (step.selection.token != current_.token ? Token : 0);
  current_ = clamp(step.selection);
  const bool range_moved = step.range != token_range_;
  token_range_ = step.range;
  if (parts) Q_EMIT changed(current_, parts);
  if (range_moved) Q_EMIT tokenRangeChanged(token_range_.first, token_range_.second);
  Q_EMIT historyChanged();
}

void SelectionModel::back() {
  if (canGoBack()) go(at_ - 1);
}

void SelectionModel::forward() {
  if (canGoForward()) go(at_ + 1);
}

}  // namespace slotscope::views
