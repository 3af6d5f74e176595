#include "views/overlap_figure.h"

#include <cmath>

#include "core/error.h"
#include "views/caption.h"
#include "views/overlap_paint.h"

namespace slotscope::views {

namespace {

struct Part {
  const char* name;
  const char* title;
  MatrixKind kind;
};
constexpr Part parts[] = {{"overlap", "Address overlap", MatrixKind::overlap},
                          {"induced", "Induced weights A", MatrixKind::induced},
                          {"attention", "Attention of B", MatrixKind::against},
                          {"difference", "A − B, rows ÷ sum", MatrixKind::difference}};

struct Drawn {
  OverlapPicture picture;
  Part shown = parts[0];
  QString description, caption, csv;
  CellRange window{0, 1};
};

[[noreturn]] void damaged(const std::string& file, const std::string& item, const std::string& found, const std::string& expected) {
  throw Error({.file = file, .item = item, .found = found, .expected = expected, .advice = "Compute it again"});
}

// Stored pixels as a grid; NaN: nothing there.
analysis::SlotGrid gridOf(const trace::Result& r, const std::string& file, const std::string& name, int64_t first, int64_t last, int64_t step) {
  const trace::ResultDataset& d = r.at(name);
  const int64_t n = (last - first + step - 1) / step;
  const std::vector<double> values = trace::as_doubles(d.values);
  if (d.shape != std::vector<int64_t>{n, n} || int64_t(values.size()) != n * n) damaged(file, name, "another shape", std::to_string(n) + " x " + std::to_string(n));
  analysis::SlotGrid g;
  g.rows = g.columns = int(n);
  g.first = first, g.last = last;
  g.slots_per_row = g.tokens_per_column = double(step);
  bool any = false;
  for (const double v : values) {
    g.value.push_back(float(v));
    g.state.push_back(std::isnan(v) ? analysis::Cell::not_routed : std::isinf(v) ? (v > 0 ? analysis::Cell::pos_inf : analysis::Cell::neg_inf) : analysis::Cell::finite);
    if (g.state.back() != analysis::Cell::finite) continue;
    g.min = any ? std::min(g.min, v) : v, g.max = any ? std::max(g.max, v) : v;
    any = true;
    ++g.finite_cells;
  }
  g.reduction = "max of " + std::to_string(step) + " × " + std::to_string(step) + " tokens per pixel";
  return g;
}

analysis::MatrixGrid matrixOf(const trace::Result& r, const std::string& file, const Part& part, CellRange window) {
  analysis::MatrixGrid g{.t0 = window.first, .t1 = window.second, .s0 = window.first, .s1 = window.second};
  if (const auto* d = r.find(part.name)) {
    const int64_t n = window.second - window.first;
    if (d->shape != std::vector<int64_t>{n, n}) damaged(file, part.name, "another shape", std::to_string(n) + " x " + std::to_string(n));
    const auto m = analysis::stored_matrix(trace::as_doubles(d->values), window.first, n, part.name, part.kind == MatrixKind::difference);
    return analysis::pixels(*m, {.t0 = window.first, .t1 = window.second, .s0 = window.first, .s1 = window.second, .max_rows = 1024, .max_columns = 1024});
  }
  const int64_t step = r.integer("tokens_per_pixel");
  if (step < 1) damaged(file, "tokens_per_pixel", std::to_string(step), "at least 1");
  g.max = gridOf(r, file, std::string(part.name) + "_max", window.first, window.second, step);
  g.mean = gridOf(r, file, std::string(part.name) + "_mean", window.first, window.second, step);
  return g;
}

bool has(const trace::Result& r, const char* name) { return r.find(name) || r.find(std::string(name) + "_max"); }

void addDivergence(const trace::Result& r, Drawn& d) {
  const char* const names[][2] = {{"js_induced_attention", "JS(A, B)"}, {"js_overlap_attention", "JS(O, B)"}, {"js_overlap_induced", "JS(O, A)"}};
  for (const auto& [name, title] : names) {
    const auto* js = r.find(name);
    if (!js) continue;
    const auto values = trace::as_doubles(js->values);
    if (int64_t(values.size()) != d.window.second - d.window.first) return;
    d.picture.js_name = QString::fromUtf8(title);
    const int64_t step = int64_t(d.picture.grid.max.slots_per_row);
    for (int64_t row = 0; row < d.picture.grid.max.rows; ++row) {
      d.picture.js.push_back(values[size_t(row * step)]);
      d.picture.js_token.push_back(d.window.first + row * step);
    }
    return;
  }
}

void addWords(const trace::Result& r, Drawn& d) {
  const QString base = QString::fromUtf8(d.shown.name);
  const auto* whole = r.find(d.shown.name);
  d.description = QString::fromStdString((whole ? *whole : r.at(std::string(d.shown.name) + "_max")).description).section(QLatin1Char(';'), 0, 0);
  Facts facts;
  for (const auto& [name, value] : r.parameters) {
    QString text;
    if (const auto* t = std::get_if<std::string>(&value)) text = QString::fromStdString(*t);
    else if (const auto* n = std::get_if<int64_t>(&value)) text = QString::number(*n);
    else if (const auto* x = std::get_if<double>(&value)) text = csvNumber(*x);
    if (!text.isEmpty()) facts.push_back({QString::fromStdString(name), text});
  }
  const auto fact = [&](const char* name) {
    for (const auto& f : facts)
      if (f.first == QLatin1String(name)) return f.second;
    return QString();
  };
  d.caption = QStringLiteral("%1 · layer %2 · head %3 · tokens %4–%5 · %6 slots, Top-%7").arg(fact("trace"), fact("layer"), fact("head")).arg(d.window.first)
                  .arg(d.window.second - 1).arg(fact("slots"), fact("top_k"));
  if (!fact("against").isEmpty()) d.caption += QStringLiteral(" · B: %1 layer %2 head %3").arg(fact("against"), fact("against_layer"), fact("against_head"));
  d.caption += QStringLiteral(" · ") + QString::fromStdString(d.picture.grid.max.reduction);
  facts.push_back({QStringLiteral("figure"), QStringLiteral("overlap")});
  d.csv = factLines(facts) + QStringLiteral("quantity,t,s,value\n");
  const auto& g = d.picture.grid.max;
  for (int row = 0; row < g.rows; ++row)
    for (int c = 0; c < g.columns; ++c)
      if (const size_t at = size_t(row) * size_t(g.columns) + size_t(c); g.state[at] == analysis::Cell::finite && g.value[at] != 0)
        d.csv += QStringLiteral("%1,%2,%3,%4\n").arg(base).arg(d.window.first + row * int64_t(g.slots_per_row)).arg(d.window.first + c * int64_t(g.tokens_per_column))
                     .arg(csvNumber(double(g.value[at])));
  for (size_t i = 0; i < d.picture.js.size(); ++i)
    if (!std::isnan(d.picture.js[i])) d.csv += QStringLiteral("js,%1,,%2\n").arg(d.picture.js_token[i]).arg(csvNumber(d.picture.js[i]));
}

void paint(QPainter& painter, const QRectF& area, const Theme& theme, const FigureOptions& options, const Drawn& d) {
  const auto mapOf = [&](MatrixKind kind) { return kind == MatrixKind::difference ? divergingMap(theme.dark) : colourMap(QStringLiteral("cividis"), theme.dark); };
  const auto scaleOf = [](const analysis::SlotGrid& g, MatrixKind kind) {
    ColourScale scale = ColourScale::make(g, &g, {});
    if (kind != MatrixKind::difference) return scale;
    scale.high = std::max(std::abs(g.min), std::abs(g.max));
    if (!(scale.high > 0)) scale.high = 1;
    scale.low = -scale.high;
    scale.downwards = false;
    return scale;
  };
  painter.save();
  painter.fillRect(area, theme.surface);
  QRectF rest = area;
  if (options.caption) rest = paintCaption(painter, area, d.caption, theme);
  const ColourScale scale = scaleOf(d.picture.grid.max, d.shown.kind);
  if (options.legend) {
    const double bar = 26 * theme.base / 12;
    paintMatrixLegend(painter, QRectF(rest.left(), rest.top(), rest.width(), bar), QString::fromUtf8(d.shown.title) + QStringLiteral("   ") + d.description, scale, mapOf(d.shown.kind), theme);
    rest.setTop(rest.top() + bar);
  }
  const QImage image = gridImage(d.picture.grid.max, scale, mapOf(d.shown.kind));
  QVector<QImage> side;
  MatrixScene s;
  for (const auto& one : d.picture.side) {
    side << gridImage(one.grid.max, scaleOf(one.grid.max, one.kind), mapOf(one.kind));
    s.side_name << QString::fromUtf8(parts[int(one.kind)].title);
  }
  s.geometry = MatrixGeometry::make(rest, d.window, d.window, theme.base / 12, int(side.size()), !d.picture.js_name.isEmpty());
  s.theme = &theme;
  s.picture = &d.picture;
  s.grid = &d.picture.grid.max;
  s.image = &image;
  s.side = &side;
  s.marks = false;
  s.count_from_one = options.countFromOne;
  paintMatrix(painter, s);
  painter.restore();
}

}  // namespace

Figure overlapFigure(const trace::Result& r, const std::string& file, const std::string& shown) {
  auto d = std::make_shared<Drawn>();
  d->window = {r.integer("first_token"), r.integer("last_token")};
  if (d->window.first < 0 || d->window.second <= d->window.first || d->window.second > int64_t(1) << 40)
    damaged(file, "first_token, last_token", std::to_string(d->window.first) + ", " + std::to_string(d->window.second), "a range of tokens");
  const Part* wanted = nullptr;
  for (const Part& part : parts)
    if (shown == part.name || (shown.empty() && part.kind == MatrixKind::overlap) || (shown == "against" && part.kind == MatrixKind::against)) wanted = &part;
  if (!wanted || !has(r, wanted->name))
    throw Error({.file = file, .item = shown.empty() ? "overlap" : shown, .found = "not in this file", .expected = "overlap, induced, attention or difference as computed"},
                wanted ? Error::Kind::input : Error::Kind::usage);
  d->shown = *wanted;
  d->picture.grid = matrixOf(r, file, *wanted, d->window);
  for (const Part& part : parts)
    if (part.kind != wanted->kind && has(r, part.name)) d->picture.side.push_back({part.kind, matrixOf(r, file, part, d->window)});
  addDivergence(r, *d);
  addWords(r, *d);
  Figure figure;
  figure.size = {840, 560};
  figure.kind = QStringLiteral("overlap");
  figure.title = QStringLiteral("Slotscope address overlap · ") + d->caption;
  figure.csv = d->csv;
  figure.facts = parseFacts(figure.csv);
  figure.paint = [d](QPainter& painter, const QRectF& area, const Theme& theme, const FigureOptions& options) { paint(painter, area, theme, options, *d); };
  return figure;
}

}  // namespace slotscope::views
