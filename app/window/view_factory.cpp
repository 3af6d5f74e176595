#include "app/window/view_factory.h"

#include "app/window/stub_view.h"

namespace slotscope::app {

const QList<ViewKind>& viewKinds() {
  static const QList<ViewKind> kinds = {
      {"heatmap", "Heatmap", "Slots by tokens, coloured by what was written"},
      {"esl", "ESL", "Effective sequence length of one head, with regimes and fit"},
      {"esl-grid", "ESL grid", "Effective sequence length of all layers and heads"},
      {"allocation", "Allocation", "Which slots hold retrieval tokens, others, or both"},
  };
  return kinds;
}

QString viewTitle(const QString& kind) {
  for (const ViewKind& k : viewKinds())
    if (kind == k.kind) return k.title;
  return kind;
}

views::View* makeView(const QString& kind, views::SelectionModel* selection, views::Worker*, QWidget* parent) {
  return new StubView(kind, selection, parent);
}

}  // namespace slotscope::app
