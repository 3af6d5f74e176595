#include "app/window/pin.h"

#include <QScopedValueRollback>

namespace slotscope::app {

using views::SelectionModel;

PinnedSelection::PinnedSelection(SelectionModel* shared, int layer, int head, QObject* parent)
    : SelectionModel(parent), shared_(shared), layer_(layer), head_(head) {
  const auto once = [this](auto&& tell) {
    if (busy_) return;
    const QScopedValueRollback<bool> guard(busy_, true);
    tell();
  };
  connect(shared, &SelectionModel::changed, this, [this, once](const views::Selection& s, int parts) {
    once([&] {
      if (parts & (Token | Run)) request({.run = s.run, .token = s.token}, true);
    });
  });
  connect(this, &SelectionModel::changed, this, [this, once](const views::Selection& s, int parts) {
    once([&] {
      // Another head cannot be chosen here; its slots are not the shared head's.
      if (s.layer != layer_ || s.head != head_) request({.layer = layer_, .head = head_}, true);
      if (parts & Token) shared_->request({.token = s.token});
    });
  });
  connect(shared, &SelectionModel::hoverChanged, this,
          [this, once](int, qint64 token) { once([&] { setHover(-1, token); }); });
  connect(this, &SelectionModel::hoverChanged, this,
          [this, once](int, qint64 token) { once([&] { shared_->setHover(-1, token); }); });
  connect(shared, &SelectionModel::brushChanged, this,
          [this, once] { once([&] { setBrush(shared_->brush()); }); });
  connect(this, &SelectionModel::brushChanged, this,
          [this, once] { once([&] { shared_->setBrush(brush()); }); });
  connect(shared, &SelectionModel::tokenRangeChanged, this,
          [this, once](qint64 a, qint64 b) { once([&] { setTokenRange(a, b, true); }); });
  connect(this, &SelectionModel::tokenRangeChanged, this,
          [this, once](qint64 a, qint64 b) { once([&] { shared_->setTokenRange(a, b); }); });
}

void PinnedSelection::follow(int runs, int layers, int heads, int slots, qint64 tokens) {
  const QScopedValueRollback<bool> guard(busy_, true);
  setLimits(runs, layers, heads, slots, tokens);
  const views::Selection s = shared_->current();
  request({.run = s.run, .layer = layer_, .head = head_, .token = s.token}, true);
  setTokenRange(shared_->tokenRange().first, shared_->tokenRange().second, true);
  setBrush(shared_->brush());
}

}  // namespace slotscope::app
