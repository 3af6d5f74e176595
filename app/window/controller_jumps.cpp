// Jumps of the selection that need the analysis: best head, last writer, strongest reader.
#include <span>

#include "app/window/controller.h"

namespace slotscope::app {

void Controller::bestHead() {
  if (!run_data_ || run_data_->summary.by_score.empty()) return;
  const auto& s = run_data_->summary;
  const views::Selection now = selection_->current();
  const auto at_place = [&](size_t place) -> const analysis::HeadSummary& {
    return s.head_list[size_t(s.by_score[place % s.by_score.size()])];
  };
  // Again: the head chosen last is still selected.
  const auto& last = at_place(best_place_);
  size_t place = last.layer == now.layer && last.head == now.head ? best_place_ + 1 : 0;
  for (size_t tries = 0; tries < s.by_score.size(); ++tries, ++place) {
    if (!at_place(place).has_routes) continue;
    best_place_ = place % s.by_score.size();
    selection_->request({.layer = at_place(place).layer, .head = at_place(place).head});
    return;
  }
}

void Controller::lastWriter() {
  if (!head_data_) return;
  const auto& w = head_data_->writes;
  const int slot = selection_->current().slot;
  if (slot < 0 || slot >= w.slots) return;
  const int64_t first = w.first(slot), last = w.last(slot);
  if (first == last) {
    Q_EMIT note(QString("Nothing was written into slot %1").arg(slot));
    return;
  }
  // The write before the selected token; from the first one on, the last of all again.
  int64_t at = last - 1;
  for (int64_t i = last - 1; i >= first; --i)
    if (w.token_at(i) < selection_->current().token) {
      at = i;
      break;
    }
  selection_->request({.token = qint64(w.token_at(at))});
}

void Controller::strongestReader() {
  if (!head_data_) return;
  if (head_data_->read_token.empty() || head_data_->read_heads.empty()) {
    Q_EMIT note(head_data_->no_attribution.empty() ? QString("No reads were captured")
                                                   : QString::fromStdString(head_data_->no_attribution));
    return;
  }
  const qint64 token = selection_->current().token;
  analysis_.post("reader", this, [this, head = head_data_, token, slot = selection_->current().slot]() -> views::Worker::Done {
    double best = -1;
    int64_t reader = -1;
    for (size_t i = 0; i < head->read_token.size(); ++i) {
      if (head->read_token[i] <= token) continue;
      for (const int h : head->read_heads) {
        const auto a = head->attribution(head->read_token[i], h, slot);
        if (size_t(token) < a.weight.size() && std::abs(a.weight[size_t(token)]) > best) {
          best = std::abs(a.weight[size_t(token)]);
          reader = head->read_token[i];
        }
      }
    }
    return [this, head, token, reader] {
      if (head != head_data_ || token != selection_->current().token) return;
      if (reader < 0)
        Q_EMIT note(QString("No captured read after token %1").arg(token));
      else
        selection_->request({.token = qint64(reader)});
    };
  });
}
}  // namespace slotscope::app
