// slotscope figure: the window's figures of a trace, with no display.
#include <QApplication>
#include <QFileInfo>
#include <algorithm>
#include <cstdio>
#include <memory>

#include "app/window/launch.h"
#include "app/window/second_trace.h"
#include "app/window/view_factory.h"
#include "core/analysis/value_field_file.h"
#include "core/analysis/overlap_result.h"
#include "core/analysis/theory_result.h"
#include "core/error.h"
#include "views/address_view.h"
#include "views/compare_model.h"
#include "views/compare_view.h"
#include "views/export.h"
#include "views/heatmap_data.h"
#include "views/heatmap_view.h"
#include "views/overlap_figure.h"
#include "views/overlap_view.h"
#include "views/raster_view.h"
#include "views/sweep_figure.h"
#include "views/value_field_paint.h"
#include "views/theory_paint.h"
#include "views/view.h"

namespace slotscope::app {

namespace {

[[noreturn]] void refuse(const std::string& option, const std::string& found, const std::string& expected) {
  throw Error({.item = option, .found = found, .expected = expected}, Error::Kind::usage);
}

struct QuantityName {
  const char* name;
  analysis::Quantity quantity;
};
constexpr QuantityName quantities[] = {{"write-strength", analysis::Quantity::write_strength},
                                       {"route-weight", analysis::Quantity::route_weight},
                                       {"log-gate", analysis::Quantity::log_gate},
                                       {"survival", analysis::Quantity::survival_at},
                                       {"survival-of", analysis::Quantity::survival_of},
                                       {"read-weight", analysis::Quantity::read_weight},
                                       {"read-attribution", analysis::Quantity::read_attribution}};

void applyHeatmapOptions(views::View* view, const FigureCommand& c) {
  auto* heatmap = qobject_cast<views::HeatmapView*>(view);
  if (!heatmap) return;
  if (!c.quantity.empty())
    for (const QuantityName& q : quantities)
      if (c.quantity == q.name) heatmap->setQuantity(q.quantity);
  if (!c.map.empty()) {
    auto colours = heatmap->colours();
    colours.map = QString::fromStdString(c.map);
    heatmap->setColours(colours);
  }
  // An empty picture would pass for "nothing was written".
  const auto& head = *heatmap->headData();
  const bool no_reads = heatmap->quantity() == analysis::Quantity::read_attribution &&
                        views::readsAt(head, heatmap->reference()).empty() &&
                        views::matrixRow(head, heatmap->reference()).empty();
  for (const views::HeatmapChoice& choice : views::quantityChoices(&head))
    if (choice.value == int(heatmap->quantity()) && (no_reads || !choice.why.isEmpty()))
      throw Error({.file = c.trace,
                   .item = choice.name.toStdString(),
                   .found = (choice.why.isEmpty() ? views::emptyReason(head, heatmap->quantity(), heatmap->reference())
                                                  : choice.why)
                                .toStdString(),
                   .advice = "Choose another --quantity or --token, or run again with a wider capture"});
  heatmap->drawNow();
}

struct MatrixName {
  const char* name;
  views::MatrixKind kind;
};
constexpr MatrixName matrices[] = {{"overlap", views::MatrixKind::overlap},
                                   {"induced", views::MatrixKind::induced},
                                   {"against", views::MatrixKind::against},
                                   {"difference", views::MatrixKind::difference}};

// With --compare the second trace's weights stand beside.
void applyOverlapOptions(views::OverlapView* overlap, const FigureCommand& c) {
  overlap->resize(int(overlap->figureSize().width()), int(overlap->figureSize().height()));
  if (!c.compare.empty()) {
    const auto trace = trace::Trace::open(c.compare);
    if (c.run_b >= trace->run_count()) refuse("--run-b", std::to_string(c.run_b), "a run of " + c.compare);
    overlap->setOther(readRunData(trace, c.run_b));
    if (c.layer_b || c.head_b) overlap->chooseOther(c.layer_b.value_or(overlap->headData()->layer), c.head_b.value_or(overlap->headData()->head));
  }
  for (const MatrixName& m : matrices)
    if (c.quantity == m.name) overlap->setShow(m.kind);
  overlap->drawNow();
  const views::OverlapPicture* picture = overlap->picture();
  const QString why = !picture ? QStringLiteral("cancelled") : !picture->failed.isEmpty() ? picture->failed : picture->why[size_t(overlap->shownKind())];
  if (!picture || !picture->matrix[size_t(overlap->shownKind())])
    throw Error({.file = c.trace, .item = c.quantity.empty() ? "overlap" : c.quantity, .found = why.toStdString()});
}

constexpr const char* address_modes[] = {"access", "factors", "digits", "mass"};

void applyAddressOptions(views::AddressView* view, const FigureCommand& c) {
  view->resize(int(view->figureSize().width()), int(view->figureSize().height()));
  for (int i = 0; i < views::kAddressModes; ++i)
    if (c.quantity == address_modes[i]) view->setMode(views::AddressMode(i));
  view->drawNow();
  if (!view->picture() || !view->picture()->failed.isEmpty())
    throw Error({.file = c.trace, .item = c.quantity.empty() ? "addresses" : c.quantity,
                 .found = view->picture() ? view->picture()->failed.toStdString() : "cancelled"});
}

// The other routers show what the window would show of them first: run 0, its best head.
void applyRasterOptions(views::RasterView* raster, const FigureCommand& c, int64_t tokens) {
  if (c.tokens) {
    const long long wanted = std::min<long long>(c.tokens->second, tokens) - c.tokens->first;
    if (wanted > analysis::kMostRasterTokens)
      refuse("--tokens", std::to_string(wanted) + " tokens", "at most " + std::to_string(analysis::kMostRasterTokens));
    raster->setTokens(0);
  }
  for (const std::string& file : c.beside) {
    const auto trace = trace::Trace::open(file);
    if (trace->run_count() == 0) throw Error({.file = file, .item = "runs", .found = "none", .expected = "at least 1"});
    const auto run = readRunData(trace, 0);
    const auto& first = run->summary.first;
    raster->addBeside(run, analysis::load_head(*trace, 0, first.layer, first.head));
  }
}

// Everything that can be refused without opening the trace.
void checkOptions(const FigureCommand& c) {
  if (!c.quantity.empty()) {
    std::string names;
    bool known = false;
    for (const QuantityName& q : quantities) {
      names += (names.empty() ? "" : ", ") + std::string(q.name);
      known = known || c.quantity == q.name;
    }
    bool matrix = false;
    for (const MatrixName& m : matrices) matrix = matrix || c.quantity == m.name;
    if (c.kind == "overlap" && !matrix) refuse("--quantity", "'" + c.quantity + "'", "one of overlap, induced, against, difference");
    if (c.kind == "addresses" && std::find(std::begin(address_modes), std::end(address_modes), c.quantity) == std::end(address_modes))
      refuse("--quantity", "'" + c.quantity + "'", "one of access, factors, digits, mass");
    if (c.kind != "overlap" && c.kind != "addresses" && !known) refuse("--quantity", "'" + c.quantity + "'", "one of " + names);
    if (c.kind != "heatmap" && c.kind != "compare" && c.kind != "overlap" && c.kind != "addresses")
      refuse("--quantity", "with --kind " + c.kind, "--kind heatmap, compare, overlap or addresses");
  }
  if (!c.map.empty()) {
    if (!views::colourMapNames().contains(QString::fromStdString(c.map)))
      refuse("--map", "'" + c.map + "'", "one of " + views::colourMapNames().join(", ").toStdString());
    if (c.kind != "heatmap") refuse("--map", "with --kind " + c.kind, "--kind heatmap");
  }
  const bool compares = c.kind == "compare";
  if (compares && c.compare.empty()) refuse("--kind", "compare without a second trace", "--compare B.h5");
  const bool beside = c.kind == "overlap";  // B's weights stand beside the overlap
  if (!compares && !beside && !c.compare.empty()) refuse("--compare", "with --kind " + c.kind, "--kind compare or overlap");
  if (!compares && ((c.layer_b || c.head_b || c.run_b) ? !beside || c.compare.empty() : false))
    refuse("--run-b, --layer-b, --head-b", "with --kind " + c.kind, "--kind compare or overlap with --compare B.h5");
  if (!compares && (!c.ranges.empty() || c.compare_layout != "stacked"))
    refuse("--layout, --ranges", "with --kind " + c.kind, "--kind compare");
  if (c.tokens && c.kind != "heatmap" && c.kind != "compare" && c.kind != "raster" && c.kind != "overlap" && c.kind != "addresses")
    refuse("--tokens", "with --kind " + c.kind, "--kind heatmap, raster, overlap, addresses or compare");
  if (!c.beside.empty() && c.kind != "raster") refuse("--beside", "with --kind " + c.kind, "--kind raster");
  if (c.beside.size() > 4) refuse("--beside", std::to_string(c.beside.size()) + " traces", "at most 4");
  const std::string suffix = QFileInfo(QString::fromStdString(c.out)).suffix().toLower().toStdString();
  if (suffix != "png" && suffix != "svg" && suffix != "pdf")
    refuse("--out", "'" + c.out + "'", "a name ending in .png, .svg or .pdf");
}


void checkIndex(const char* option, long long value, long long count, const char* what) {
  if (value >= count)
    refuse(option, std::to_string(value),
           count > 0 ? std::string(what) + " 0 to " + std::to_string(count - 1) : std::string("no ") + what);
}

views::ExportOptions exportOptions(const FigureCommand& c) {
  views::ExportOptions options;
  options.dpi = c.dpi;
  if (c.size) options.size = QSizeF(c.size->first, c.size->second);
  options.dark = c.theme == "dark";
  options.force = c.force;
  options.csv = c.csv;
  options.figure.selection = c.selection;
  options.figure.caption = !c.no_caption;
  options.figure.countFromOne = c.count_from_one;
  return options;
}

// A is the selection's run and head; B comes with its best head unless told. A head without routes is part of the
// figure, which says why; both missing make none.
QStringList makeComparison(const FigureCommand& c, views::SelectionModel* selection,
                           const std::shared_ptr<const views::RunData>& run) {
  const auto trace = trace::Trace::open(c.compare);
  checkIndex("--run-b", c.run_b, trace->run_count(), "runs");
  const auto other = readRunData(trace, c.run_b);
  if (c.layer_b) checkIndex("--layer-b", *c.layer_b, (long long)(other->info().layers.size()), "layers");
  views::CompareModel model(selection);
  views::CompareView view(selection, nullptr);
  view.setModel(&model);
  QObject::connect(&model, &views::CompareModel::otherHeadWanted, &view, [&](int layer, int head) {
    QString why;
    const auto data = readHead(*other, layer, head, &why);
    model.setOtherHead(data, why);
  });
  QString why;
  model.setRun(run);
  model.setHead(readHead(*run, selection->current().layer, selection->current().head, &why), why);
  model.setOtherRun(other);
  if (c.layer_b || c.head_b) {
    const auto& first = other->summary.first;
    const int layer = c.layer_b.value_or(first.layer);
    const int head = c.head_b.value_or(layer == first.layer ? first.head : 0);
    checkIndex("--head-b", head, model.otherHeads(layer), "heads");
    model.chooseOther(layer, head);
  }
  if (!model.a().head && !model.b().head)
    throw Error({.file = c.trace, .item = "layer " + std::to_string(selection->current().layer),
                 .found = model.a().why.toStdString(), .advice = "Choose layers with routes in at least one of the traces"});
  if (c.tokens) selection->setTokenRange(c.tokens->first, std::min<long long>(c.tokens->second, run->info().tokens));
  for (const QuantityName& q : quantities)
    if (c.quantity == q.name) view.setQuantity(q.quantity);
  if (!c.ranges.empty()) view.setSharedRanges(c.ranges == "shared");
  const auto layout = *compareLayout(c.compare_layout);
  if (const QString refused = view.whyNot(layout); !refused.isEmpty())
    throw Error({.item = "--layout", .found = c.compare_layout + ": " + refused.toStdString()});
  view.setLayoutKind(layout);
  view.drawNow();
  return views::exportFigure(view, QString::fromStdString(c.out), exportOptions(c));
}

// Options about layers and tokens have no meaning for a file without them.
void refuseTraceOptions(const FigureCommand& c, const char* what) {
  const std::pair<const char*, bool> given[] = {{"--layer", c.layer.has_value()}, {"--head", c.head.has_value()}, {"--slot", c.slot.has_value()},
                                                {"--token", c.token.has_value()}, {"--tokens", c.tokens.has_value()}, {"--run", c.run != 0}};
  for (const auto& [option, there] : given)
    if (there) refuse(option, std::string("given for ") + what, "a trace, which has runs, layers and tokens");
}

QStringList makeSweepFigure(const FigureCommand& c) {
  if (!c.kind.empty() && c.kind != "sweep") refuse("--kind", c.kind + " of a sweep", "sweep, or a trace");
  refuseTraceOptions(c, "a sweep");
  return views::exportFigure(views::sweepFigure(views::readSweep(QString::fromStdString(c.trace))), QString::fromStdString(c.out),
                             exportOptions(c));
}

// The figure of a computed result, by its kind.
QStringList makeResultFigure(const FigureCommand& c) {
  refuseTraceOptions(c, "a result");
  const auto file = trace::ResultFile::open(c.trace);
  const std::string& kind = file->description().kind;
  if (kind == analysis::kTheoryKind) {
    if (!c.kind.empty() && c.kind != "theory") refuse("--kind", c.kind + " of a theory file", "theory");
    return views::exportFigure(views::theoryFigure(views::readTheory(QString::fromStdString(c.trace))), QString::fromStdString(c.out),
                               exportOptions(c));
  }
  if (kind == analysis::kOverlapKind) {
    if (!c.kind.empty() && c.kind != "overlap") refuse("--kind", c.kind + " of an overlap file", "overlap");
    return views::exportFigure(views::overlapFigure(trace::read_result(c.trace, kind), c.trace, c.quantity), QString::fromStdString(c.out), exportOptions(c));
  }
  if (kind != analysis::kValueFieldKind)
    throw Error({.file = c.trace, .item = "kind", .found = "'" + kind + "', of which there is no figure", .expected = std::string(analysis::kValueFieldKind) + ", " + analysis::kTheoryKind + " or " + analysis::kOverlapKind});
  if (!c.kind.empty() && c.kind != "value-field") refuse("--kind", c.kind + " of a value field", "value-field");
  const auto field = analysis::field_of_result(trace::read_result(c.trace, analysis::kValueFieldKind), c.trace);
  return views::exportFigure(views::valueFieldFigure(field), QString::fromStdString(c.out), exportOptions(c));
}

QStringList makeFigure(const FigureCommand& c) {
  checkOptions(c);
  const std::string format = trace::file_format(c.trace);
  if (format == "slotscope-sweep") return makeSweepFigure(c);
  if (format == "slotscope-result") return makeResultFigure(c);
  if (c.kind.empty() || c.kind == "sweep" || c.kind == "value-field" || c.kind == "theory")
    refuse("--kind", c.kind.empty() ? "not given for a trace" : c.kind + " of a trace", "heatmap, esl, esl-grid, allocation, raster, overlap, addresses or compare");
  const auto trace = trace::Trace::open(c.trace);
  checkIndex("--run", c.run, trace->run_count(), "runs");
  const auto run = readRunData(trace, c.run);
  const auto& info = run->info();
  const auto& first = run->summary.first;
  if (c.layer) checkIndex("--layer", *c.layer, (long long)(info.layers.size()), "layers");
  const int layer = c.layer.value_or(first.layer);
  const auto& spec = info.layers.at(size_t(layer));
  // Another layer or head than the first one's: its own head 0 unless told.
  const int head = c.head.value_or(!c.layer || *c.layer == first.layer ? first.head : 0);
  if (c.head) checkIndex("--head", head, spec.route_heads, "heads that own slots");
  if (c.slot) checkIndex("--slot", *c.slot, spec.slots, "slots");
  if (c.token) checkIndex("--token", *c.token, info.tokens, "tokens");
  if (c.tokens) checkIndex("--tokens", c.tokens->first, info.tokens, "tokens");

  views::SelectionModel selection;
  selection.setLimits(trace->run_count(), int(info.layers.size()), int(spec.route_heads), int(spec.slots),
                      info.tokens);
  selection.request({.run = c.run,
                     .layer = layer,
                     .head = head,
                     .slot = c.slot.value_or(first.slot),
                     .token = c.token.value_or(first.token)});
  if (c.kind == "compare") return makeComparison(c, &selection, run);
  if (c.tokens) selection.setTokenRange(c.tokens->first, std::min<long long>(c.tokens->second, info.tokens));
  const std::unique_ptr<views::View> view(
      makeView(QString::fromStdString(c.kind), &selection, nullptr, nullptr));
  view->setRun(run);
  // Grids show all heads; the others need theirs, and say why when it has no routes.
  if (showsOneHead(QString::fromStdString(c.kind)))
    view->setHead(analysis::load_head(*trace, c.run, spec.index, head));
  applyHeatmapOptions(view.get(), c);
  if (auto* overlap = qobject_cast<views::OverlapView*>(view.get())) applyOverlapOptions(overlap, c);
  if (auto* addresses = qobject_cast<views::AddressView*>(view.get())) applyAddressOptions(addresses, c);
  if (auto* raster = qobject_cast<views::RasterView*>(view.get())) applyRasterOptions(raster, c, info.tokens);

  return views::exportFigure(*view, QString::fromStdString(c.out), exportOptions(c));
}

}  // namespace

int runFigure(const FigureCommand& command) {
  views::Theme::apply(views::Theme::light());
  try {
    for (const QString& file : makeFigure(command)) std::printf("%s\n", file.toUtf8().constData());
    return std::fflush(stdout) == 0 ? 0 : 1;
  } catch (const Error& e) {
    std::fprintf(stderr, "slotscope figure: %s\n", e.what());
    return e.kind() == Error::Kind::usage ? 2 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "slotscope figure: %s\n", e.what());
    return 1;
  }
}

}  // namespace slotscope::app
