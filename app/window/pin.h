// A pinned view keeps its layer and head while the selection moves on; hover, token, brush and visible tokens
// stay linked (design: section 3 "Pin").
#pragma once

#include <QObject>

#include "views/selection.h"

namespace slotscope::app {

// The selection of one pinned view: layer, head and slot of its own, the rest in step with the window's
// selection.
class PinnedSelection : public views::SelectionModel {
  Q_OBJECT
 public:
  PinnedSelection(views::SelectionModel* shared, int layer, int head, QObject* parent = nullptr);
  int layer() const { return layer_; }
  int head() const { return head_; }
  // What exists in the pinned head: slots of its layer, tokens of the run.
  void follow(int runs, int layers, int heads, int slots, qint64 tokens);

 private:
  views::SelectionModel* shared_;
  int layer_, head_;
  bool busy_ = false;  // one side is telling the other
};

}  // namespace slotscope::app
