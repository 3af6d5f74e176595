#include "app/window/view_factory.h"

#include "views/address_view.h"
#include "views/allocation_view.h"
#include "views/compare_view.h"
#include "views/differences_view.h"
#include "views/esl_grid_view.h"
#include "views/esl_view.h"
#include "views/heads_view.h"
#include "views/heatmap_view.h"
#include "views/inspector_view.h"
#include "views/memory_card_view.h"
#include "views/output_view.h"
#include "views/overlap_view.h"
#include "views/prompt_view.h"
#include "views/raster_view.h"
#include "views/tensor_view.h"
#include "views/theory_lab_view.h"
#include "views/value_field_view.h"

namespace slotscope::app {

const QList<ViewKind>& viewKinds() {
  static const QList<ViewKind> kinds = {
      {"heatmap", "Heatmap", "Slots by tokens, coloured by what was written"},
      {"esl", "ESL", "Effective sequence length of one head, with regimes and fit"},
      {"esl-grid", "ESL grid", "Effective sequence length of all layers and heads"},
      {"allocation", "Allocation", "Which slots hold retrieval tokens, others, or both"},
      {"compare", "Compare A/B", "Two traces of one prompt, side by side or as a difference", false},
      {"raster", "Router raster", "Which slots each token writes, between dense and FIFO", false},
      {"overlap", "Address overlap", "How the addresses of the tokens meet, beside induced weights and a second model's attention", false},
      {"addresses", "Addresses", "Slots that tokens write and read, factor marginals, one address in digits, mass per slot", false},
      {"value-field", "Value field", "What attention, quantised keys and RAM-Net memories answer to every query: a laboratory without a trace", false, true},
      {"card", "Routing-slot card", "Router, content, decay, readout and state size of the opened checkpoint", false},
      {"tensor", "Tensor", "Values, statistics and histogram of one tensor of the checkpoint", false},
      {"theory", "Theory lab", "RAM-Net's address kernel against the exponential, with its limits and bounds; needs no trace", false, true},
  };
  return kinds;
}

QString viewTitle(const QString& kind) {
  for (const ViewKind& k : viewKinds())
    if (kind == k.kind) return k.title;
  return kind;
}

bool isLab(const QString& kind) {
  for (const ViewKind& k : viewKinds())
    if (kind == k.kind) return k.lab;
  return false;
}

std::optional<views::CompareLayout> compareLayout(const std::string& name) {
  using views::CompareLayout;
  if (name == "stacked") return CompareLayout::stacked;
  if (name == "side-by-side") return CompareLayout::side_by_side;
  if (name == "overlay") return CompareLayout::overlay;
  if (name == "difference") return CompareLayout::difference;
  return std::nullopt;
}

bool showsOneHead(const QString& kind) { return kind == "heatmap" || kind == "esl" || kind == "raster" || kind == "overlap" || kind == "addresses"; }

views::View* makeView(const QString& kind, views::SelectionModel* selection, views::Worker* draw,
                      QWidget* parent) {
  if (kind == "heatmap") return new views::HeatmapView(selection, draw, parent);
  if (kind == "compare") return new views::CompareView(selection, draw, parent);
  if (kind == "differences") return new views::DifferencesView(selection, parent);
  if (kind == "heads") return new views::HeadsView(selection, parent);
  if (kind == "esl") return new views::EslView(selection, parent);
  if (kind == "esl-grid") return new views::EslGridView(selection, parent);
  if (kind == "allocation") return new views::AllocationView(selection, parent);
  if (kind == "card") return new views::MemoryCardView(parent);
  if (kind == "addresses") return new views::AddressView(selection, draw, parent);
  if (kind == "overlap") return new views::OverlapView(selection, draw, parent);
  if (kind == "raster") return new views::RasterView(selection, parent);
  if (kind == "prompt") return new views::PromptView(selection, parent);
  if (kind == "inspector") return new views::InspectorView(selection, parent);
  if (kind == "output") return new views::OutputView(selection, parent);
  if (kind == "value-field") return new views::ValueFieldView(draw, parent);
  if (kind == "tensor") return new views::TensorView(parent);
  if (kind == "theory") return new views::TheoryLabView(draw, parent);
  return nullptr;
}

}  // namespace slotscope::app
