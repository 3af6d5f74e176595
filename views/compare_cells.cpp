// What overlay and difference draw: cells of both heads row by row, and the line that explains them.
#include <QFontMetricsF>
#include <QLinearGradient>
#include <QPainter>
#include <algorithm>
#include <cmath>

#include "views/compare_view.h"
#include "views/format.h"
#include "views/heatmap_view.h"
#include "views/pair_note.h"
#include "views/token_cells.h"

namespace slotscope::views {

namespace {

constexpr int64_t kSampleColumns = 2048;

// A grid ends where its run does; both must have the cells that were asked for.
SlotGrid padded(SlotGrid grid, const GridJob& job) {
  const auto divide_up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const int64_t tokens = std::max<int64_t>(0, job.tokens.second - job.tokens.first);
  const int64_t width = std::max({divide_up(tokens, std::max(1, job.max_columns)), job.per_column, int64_t(1)});
  const int64_t height = std::max<int64_t>(1, divide_up(int64_t(job.rows.size()), std::max(1, job.max_rows)));
  SlotGrid out;
  out.first = job.tokens.first, out.last = job.tokens.second;
  out.columns = int(divide_up(tokens, width)), out.rows = int(divide_up(int64_t(job.rows.size()), height));
  out.tokens_per_column = double(width), out.slots_per_row = double(height);
  out.nan_cells = grid.nan_cells, out.inf_cells = grid.inf_cells, out.finite_cells = grid.finite_cells;
  out.min = grid.min, out.max = grid.max;
  out.value.assign(size_t(out.rows) * size_t(out.columns), std::numeric_limits<float>::quiet_NaN());
  out.state.assign(out.value.size(), analysis::Cell::not_routed);
  out.reduction = grid.reduction;
  for (int r = 0; r < std::min(out.rows, grid.rows); ++r)
    for (int c = 0; c < std::min(out.columns, grid.columns); ++c) {
      const size_t from = size_t(r) * size_t(grid.columns) + size_t(c), to = size_t(r) * size_t(out.columns) + size_t(c);
      out.value[to] = grid.value[from], out.state[to] = grid.state[from];
    }
  return out;
}

// `job` for one of the two: its head and its slots.
GridJob jobFor(GridJob job, const std::shared_ptr<const HeadData>& head, const PairedRows& rows, bool b, int64_t reference) {
  for (int& row : job.rows) {
    const auto& pair = rows.pair[size_t(row)];
    row = b ? pair.b : pair.a;
  }
  job.head = head;
  job.reference = reference;
  return job;
}

QString cellWords(const std::shared_ptr<const HeadData>& head, Quantity q, int slot, int64_t token, int64_t reference) {
  if (slot < 0) return QStringLiteral("no slot");
  if (token < 0 || token >= head->writes.tokens) return QStringLiteral("no token");
  const auto v = cellValue(*head, q, slot, token, reference);
  return !v ? QStringLiteral("not routed") : std::isnan(*v) ? QStringLiteral("NaN") : q == Quantity::log_gate ? signedNumber(*v, 4) : strength(*v, 4);
}

}  // namespace

std::shared_ptr<const CellSource> CompareView::makeCells() const {
  const auto a = model_->a().head, b = model_->b().head;
  if (!a || !b || !paired()) return nullptr;
  auto cells = std::make_shared<CellSource>();
  const auto rows = std::make_shared<const PairedRows>(model_->paired());
  cells->rows = rows->rows;
  cells->names = rows->names;
  cells->classes = rows->classes;
  const Quantity q = quantity_;
  const int64_t at_a = model_->selectionA()->current().token, at_b = model_->selectionB()->current().token;
  const int64_t axis = model_->axisTokens();
  const auto run = model_->a().run;
  const bool difference = layout_ == CompareLayout::difference;
  cells->diverging = difference;
  cells->name = (difference ? QStringLiteral("A − B: ") : QStringLiteral("A over B: ")) + quantityName(q);
  cells->text = [=](int row, qint64 token) {
    if (row < 0 || size_t(row) >= rows->pair.size()) return QString();
    const auto& pair = rows->pair[size_t(row)];
    QString text = pair.a >= 0 && pair.b >= 0 ? QStringLiteral("slot %1 of A, %2 of B").arg(pair.a).arg(pair.b)
                   : pair.a >= 0              ? QStringLiteral("slot %1 of A").arg(pair.a)
                                              : QStringLiteral("slot %1 of B").arg(pair.b);
    text += QStringLiteral(" × token %1").arg(count(token));
    if (token < run->info().tokens) text += QLatin1Char(' ') + tokenTitle(run->info(), token);
    text += QStringLiteral("   A ") + cellWords(a, q, pair.a, token, at_a) + QStringLiteral(", B ") +
            cellWords(b, q, pair.b, token, at_b);
    if (!difference) return text;
    const auto x = pair.a >= 0 && token < a->writes.tokens ? cellValue(*a, q, pair.a, token, at_a) : std::nullopt;
    const auto y = pair.b >= 0 && token < b->writes.tokens ? cellValue(*b, q, pair.b, token, at_b) : std::nullopt;
    const bool survival = q == Quantity::survival_at || q == Quantity::survival_of;
    if (survival ? x && y : x || y) text += QStringLiteral(", A − B ") + signedNumber(x.value_or(0) - y.value_or(0), 4);
    return text;
  };
  if (difference) {
    const auto subtract = [=](const std::vector<int>& wanted, int64_t first, int64_t last, int64_t width, int max_rows) {
      analysis::DifferenceRequest request;
      request.quantity = q;
      for (const int row : wanted) request.rows.push_back(rows->pair[size_t(row)]);
      request.first = first, request.last = last;
      request.reference_a = at_a, request.reference_b = at_b;
      request.tokens_per_column = width;
      request.max_rows = max_rows;
      return analysis::difference_grid(*a, *b, request);
    };
    cells->grid = [=](const GridJob& job) {
      const int64_t tokens = job.tokens.second - job.tokens.first, most = std::max(1, job.max_columns);
      return subtract(job.rows, job.tokens.first, job.tokens.second,
                      std::max<int64_t>({job.per_column, (tokens + most - 1) / most, 1}), job.max_rows);
    };
    cells->samples = [=] { return subtract(rows->rows.slot, 0, axis, std::max<int64_t>(1, axis / kSampleColumns), 2048); };
    return cells;
  }
  cells->grid = [=](const GridJob& job) { return padded(makeGrid(jobFor(job, a, *rows, false, at_a)), job); };
  cells->over = [=](const GridJob& job) { return padded(makeGrid(jobFor(job, b, *rows, true, at_b)), job); };
  cells->samples = [=] { return valueSamples(*a, q, at_a); };
  cells->over_scale = [pane = QPointer<HeatmapView>(pane_b_)] { return pane ? pane->colourScale() : ColourScale{}; };
  return cells;
}

QString CompareView::pairNote() const { return pair_note_ ? pair_note_->note().text : QString(); }

void CompareView::followPair() {
  if (!pane_pair_) return;
  pane_pair_->setAxisTokens(model_->axisTokens());
  if (!paired()) {
    pane_pair_->setCells(nullptr);
    pane_pair_->setHead(nullptr);
    return;
  }
  const auto cells = makeCells();
  if (pane_pair_->runData() != model_->a().run) pane_pair_->setRun(model_->a().run);
  pane_pair_->setCells(cells);
  pane_pair_->setHead(cells ? model_->a().head : nullptr);
  showPairNote();
}

// Limits come when the samples of the worker are there.
void CompareView::showPairNote() {
  if (!paired()) return;
  PairNoteText note;
  note.difference = layout_ == CompareLayout::difference;
  if (pane_pair_->cells()) {
    const ColourScale scale = pane_pair_->colourScale();
    if (scale.valid) note.low = limitText(scale.low), note.high = limitText(scale.high);
    const SlotGrid* grid = pane_pair_->shownGrid();
    const bool none = note.difference && grid && grid->finite_cells > 0 && grid->nan_cells + grid->inf_cells == 0 &&
                      grid->min == 0 && grid->max == 0;
    if (none) note.low.clear(), note.high.clear();  // there is nothing to measure limits by
    const auto& match = model_->match();
    if (model_->paired().matched) {
      note.text = (none ? QStringLiteral("no difference · ") : QString()) + QStringLiteral("rows matched by read overlap: %1 of %2").arg(match.pairs.size()).arg(match.b_of_a.size());
      if (!match.only_a.empty() || !match.only_b.empty())
        note.text += QStringLiteral(", %1 of A and %2 of B unmatched at the end").arg(match.only_a.size()).arg(match.only_b.size());
    } else {
      note.text = QStringLiteral("row over row, ") + QString::fromStdString(match.why);
    }
  } else {
    note.text = model_->whyNoDifference();
  }
  pair_note_->setNote(note);
}

void paintPairNote(QPainter& p, const QRectF& area, const PairNoteText& note, const Theme& theme) {
  const double k = theme.base / 12, y = std::round(area.center().y() - 5 * k);
  p.save();
  p.setFont(theme.label());
  const QFontMetricsF m(p.font());
  double x = area.left() + 10 + 26 * k;
  const auto word = [&](const QString& text, const QColor& colour) {
    p.setPen(colour);
    p.drawText(QRectF(x, area.top(), std::max(0.0, area.right() - x - 8), area.height()), Qt::AlignVCenter,
               m.elidedText(text, Qt::ElideRight, std::max(0.0, area.right() - x - 8)));
    x += m.horizontalAdvance(text) + 6 * k;
  };
  if (note.difference) {
    word(QStringLiteral("more in B  ") + note.low, theme.modelB);
    const QRectF bar(std::round(x), y, 120 * k, 10 * k);
    const auto colours = divergingMap(theme.dark);
    QLinearGradient gradient(bar.topLeft(), bar.topRight());
    for (int i = 0; i <= 32; ++i) gradient.setColorAt(i / 32.0, QColor(colours[std::min<qsizetype>(255, i * 8)]));
    p.fillRect(bar, gradient);
    p.setPen(QPen(theme.lineStrong, 1));
    p.drawRect(bar);
    x += bar.width() + 6 * k;
    word(note.high + QStringLiteral("  more in A"), theme.modelA);
  } else {
    for (const auto& [name, colour] : {std::pair{QStringLiteral("A"), theme.modelA}, std::pair{QStringLiteral("B"), theme.modelB}}) {
      p.fillRect(QRectF(std::round(x), y, 10 * k, 10 * k), colour);
      x += 15 * k;
      word(name, colour);
    }
    const QRectF both(std::round(x), y, 10 * k, 10 * k);
    const auto over = [&](int a, int b, int ground) {
      return std::clamp(theme.dark ? a + b - ground : ground > 0 ? a * b / ground : 0, 0, 255);
    };
    p.fillRect(both, QColor(over(theme.modelA.red(), theme.modelB.red(), theme.plot.red()),
                            over(theme.modelA.green(), theme.modelB.green(), theme.plot.green()),
                            over(theme.modelA.blue(), theme.modelB.blue(), theme.plot.blue())));
    x += 15 * k;
    word(QStringLiteral("both"), theme.text2);
  }
  x += 10 * k;
  word(note.text, theme.text2);
  p.restore();
}

void PairNote::setNote(const PairNoteText& note) {
  note_ = note;
  setAccessibleName(note.text);
  setToolTip(note.text);
  update();
}

void PairNote::paintEvent(QPaintEvent*) {
  const Theme& theme = Theme::current();
  QPainter painter(this);
  painter.fillRect(rect(), theme.surface);
  paintPairNote(painter, QRectF(rect()), note_, theme);
}

}  // namespace slotscope::views
