// slotscope figure: the window's figures of a trace, with no display.
#include <QApplication>
#include <QFileInfo>
#include <cstdio>
#include <memory>

#include "app/window/launch.h"
#include "app/window/view_factory.h"
#include "core/error.h"
#include "views/export.h"
#include "views/heatmap_data.h"
#include "views/heatmap_view.h"
#include "views/view.h"

namespace slotscope::app {

namespace {

[[noreturn]] void refuse(const std::string& option, const std::string& found, const std::string& expected) {
  throw Error({.item = option, .found = found, .expected = expected}, Error::Kind::usage);
}

QString modelName(const trace::Trace& trace) {
  const QString folder = QString::fromStdString(trace.model().checkpoint);
  const QString name = QFileInfo(QFileInfo(folder).absoluteFilePath()).fileName();
  return name.isEmpty() ? QString::fromStdString(trace.model().family) : name;
}

std::shared_ptr<const views::RunData> readRun(const std::shared_ptr<trace::Trace>& trace, int run) {
  auto data = std::make_shared<views::RunData>();
  data->trace = trace;
  data->run = run;
  data->summary = analysis::summarise(*trace, run);
  data->model_name = modelName(*trace);
  const QString device = QString::fromStdString(trace->model().device).toUpper();
  data->device_text = device + QStringLiteral(" · ") + QString::fromStdString(trace->model().dtype);
  return data;
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
                        views::readsAt(head, heatmap->reference()).empty();
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

// Everything that can be refused without opening the trace.
void checkOptions(const FigureCommand& c) {
  if (!c.quantity.empty()) {
    std::string names;
    bool known = false;
    for (const QuantityName& q : quantities) {
      names += (names.empty() ? "" : ", ") + std::string(q.name);
      known = known || c.quantity == q.name;
    }
    if (!known) refuse("--quantity", "'" + c.quantity + "'", "one of " + names);
    if (c.kind != "heatmap") refuse("--quantity", "with --kind " + c.kind, "--kind heatmap");
  }
  if (!c.map.empty()) {
    if (!views::colourMapNames().contains(QString::fromStdString(c.map)))
      refuse("--map", "'" + c.map + "'", "one of " + views::colourMapNames().join(", ").toStdString());
    if (c.kind != "heatmap") refuse("--map", "with --kind " + c.kind, "--kind heatmap");
  }
  if (c.tokens && c.kind != "heatmap") refuse("--tokens", "with --kind " + c.kind, "--kind heatmap");
  const std::string suffix = QFileInfo(QString::fromStdString(c.out)).suffix().toLower().toStdString();
  if (suffix != "png" && suffix != "svg" && suffix != "pdf")
    refuse("--out", "'" + c.out + "'", "a name ending in .png, .svg or .pdf");
}

void checkIndex(const char* option, long long value, long long count, const char* what) {
  if (value >= count)
    refuse(option, std::to_string(value),
           count > 0 ? std::string(what) + " 0 to " + std::to_string(count - 1) : std::string("no ") + what);
}

QStringList makeFigure(const FigureCommand& c) {
  checkOptions(c);
  const auto trace = trace::Trace::open(c.trace);
  checkIndex("--run", c.run, trace->run_count(), "runs");
  const auto run = readRun(trace, c.run);
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
  if (c.tokens) selection.setTokenRange(c.tokens->first, std::min<long long>(c.tokens->second, info.tokens));
  const std::unique_ptr<views::View> view(
      makeView(QString::fromStdString(c.kind), &selection, nullptr, nullptr));
  view->setRun(run);
  // Grids show all heads; the others need theirs, and say why when it has no routes.
  if (c.kind == "heatmap" || c.kind == "esl")
    view->setHead(analysis::load_head(*trace, c.run, spec.index, head));
  applyHeatmapOptions(view.get(), c);

  views::ExportOptions options;
  options.dpi = c.dpi;
  if (c.size) options.size = QSizeF(c.size->first, c.size->second);
  options.dark = c.theme == "dark";
  options.force = c.force;
  options.csv = c.csv;
  options.figure.selection = c.selection;
  options.figure.caption = !c.no_caption;
  options.figure.countFromOne = c.count_from_one;
  return views::exportFigure(*view, QString::fromStdString(c.out), options);
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
