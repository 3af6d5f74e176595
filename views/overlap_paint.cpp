#include "views/overlap_paint.h"

#include <algorithm>
#include <cmath>

#include "views/answer_verdict.h"
#include "views/format.h"
#include "views/painted_view.h"
#include "views/token_axis.h"
#include "views/token_cells.h"

namespace slotscope::views {

namespace {

constexpr double kLeft = 100, kTop = 32, kBottom = 46, kBars = 78, kGap = 18, kTitle = 34, kLeastSide = 84;

// Largest squares of `n` pictures with a title over each in a rectangle, row by row.
QVector<QRectF> sideBySide(const QRectF& room, int n, double scale) {
  double best = 0;
  int columns = 1;
  for (int c = 1; c <= n; ++c) {
    const int lines = (n + c - 1) / c;
    const double size = std::min((room.width() - (c - 1) * kGap * scale) / c, room.height() / lines - kTitle * scale);
    if (size > best) best = size, columns = c;
  }
  QVector<QRectF> out;
  best = std::floor(std::min(best, 300 * scale));
  if (best < kLeastSide * scale) return out;
  for (int i = 0; i < n; ++i)
    out.push_back(QRectF(std::floor(room.left() + (i % columns) * (best + kGap * scale)),
                         std::floor(room.top() + (i / columns) * (best + kTitle * scale) + kTitle * scale - 8 * scale), best, best));
  return out;
}

// The image of a grid, whose last column and row may cover fewer tokens, over a window.
void paintGrid(QPainter& p, const QRectF& plot, CellRange rows, CellRange columns, const analysis::MatrixGrid& g, const QImage& image) {
  if (image.isNull()) return;
  const double w = plot.width() / double(columns.second - columns.first), h = plot.height() / double(rows.second - rows.first);
  const QRectF target(plot.left() + double(g.s0 - columns.first) * w, plot.top() + double(g.t0 - rows.first) * h,
                      image.width() * g.max.tokens_per_column * w, image.height() * g.max.slots_per_row * h);
  p.save();
  p.setRenderHint(QPainter::SmoothPixmapTransform, false);
  p.setClipRect(plot, Qt::IntersectClip);
  p.drawImage(target, image, QRectF(image.rect()));
  p.restore();
}

void frame(QPainter& p, const QRectF& plot, const QColor& colour) {
  p.setBrush(Qt::NoBrush);
  p.setPen(QPen(colour, 1));
  p.drawRect(plot.adjusted(-0.5, -0.5, 0.5, 0.5));
}

void paintRowSpans(QPainter& p, const MatrixScene& s) {
  if (!s.run) return;
  const auto& g = s.geometry;
  for (const bool strong : {false, true})
    for (const Span& span : s.run->spans) {
      if (isStrongSpan(*s.run, span.name) != strong || span.end <= g.rows.first || span.begin >= g.rows.second) continue;
      const double thick = strong ? 4 : 2, top = std::max(g.plot.top(), std::floor(g.y(double(span.begin))));
      const double bottom = std::min(g.plot.bottom(), std::max(std::ceil(g.y(double(span.end))), top + 2));
      p.fillRect(QRectF(g.plot.left() - 2 - thick, top, thick, bottom - top), strong ? s.theme->retrieval : s.theme->text2);
    }
}

TokenAxis columnAxis(const MatrixScene& s) {
  const auto& g = s.geometry;
  return {.plot = g.plot, .first = g.columns.first, .last = g.columns.second, .run = s.run, .theme = s.theme, .scale = g.scale,
          .selected = s.marks ? s.selected : -1, .count_from_one = s.count_from_one, .title = QStringLiteral("token s that wrote")};
}

void rowTitle(QPainter& p, const MatrixScene& s) {
  const auto& g = s.geometry;
  p.setFont(s.theme->label());
  p.setPen(s.theme->text2);
  p.save();
  p.translate(g.area.left() + 10 * g.scale, g.plot.center().y());
  p.rotate(-90);
  p.drawText(QRectF(-120, -9, 240, 18), Qt::AlignCenter, QStringLiteral("token t that reads"));
  p.restore();
}

void paintRowAxis(QPainter& p, const MatrixScene& s) {
  const auto& g = s.geometry;
  const double k = g.scale, right = g.plot.left() - 10 * k;
  const int64_t offset = s.count_from_one ? 1 : 0;
  const bool strip = s.run && g.rowHeight() >= HeatmapGeometry::kSlotIdsFrom * k;
  const double chip = s.marks && s.selected >= g.rows.first && s.selected < g.rows.second ? g.y(double(s.selected) + 0.5) : -1e9;
  if (strip) {
    p.setFont(s.theme->fixed);
    const QFontMetricsF m(p.font());
    for (const TokenLabel& label : tokenLabels(*s.run, g.rows.first, g.rows.second)) {
      const QRectF box(right - 26 * k, g.y(double(label.first)), 26 * k, g.rowHeight() * label.count);
      if (isRetrieval(*s.run, label.first)) p.fillRect(box, mix(s.theme->retrieval, s.theme->surface, s.theme->dark ? 0.35 : 0.2));
      p.setPen(s.theme->text);
      p.drawText(box, Qt::AlignCenter, m.elidedText(label.text, Qt::ElideRight, box.width()));
    }
  }
  p.setFont(s.theme->label());
  const QFontMetricsF m(p.font());
  p.setPen(s.theme->text2);
  const double edge = strip ? right - 30 * k : right;
  const int64_t step = tickStep(g.rowHeight(), (strip ? 14 : 26) * k);
  for (int64_t label = (g.rows.first + offset + step - 1) / step * step; label - offset < g.rows.second; label += step) {
    if (label - offset < g.rows.first) continue;
    const double y = g.y(double(label - offset) + (strip ? 0.5 : 0));
    if (!strip) p.fillRect(QRectF(g.plot.left() - 7, std::round(y), 4, 1), s.theme->lineStrong);
    if (std::abs(y - chip) < 17 * k) continue;
    p.drawText(QRectF(edge - 60, y - 10, 60, 20), Qt::AlignRight | Qt::AlignVCenter, count(label));
  }
  if (chip < -1e8) return;
  const QString text = count(s.selected + offset);
  const double width = chipWidth(text, *s.theme);
  paintChip(p, QRectF(edge - width, chip - 8 * k, width, 16 * k), text, *s.theme);
}

void paintBars(QPainter& p, const MatrixScene& s) {
  const auto& g = s.geometry;
  const OverlapPicture& picture = *s.picture;
  const double axis = g.plot.right() + 7, width = 50 * g.scale, most = std::log(2.0);
  p.setFont(s.theme->micro());
  p.setPen(s.theme->text2);
  p.drawText(QRectF(axis, g.plot.top() - 2 - 12 * g.scale, 70 * g.scale, 12 * g.scale), Qt::AlignLeft | Qt::AlignVCenter, picture.js_name);
  p.fillRect(QRectF(axis, g.plot.top(), 1, g.plot.height()), s.theme->line);
  const int64_t step = std::max<int64_t>(1, int64_t(picture.grid.max.slots_per_row));
  for (size_t i = 0; i < picture.js.size(); ++i) {
    const double top = std::floor(g.y(double(picture.grid.t0 + int64_t(i) * step)));
    const double bottom = std::max(std::floor(g.y(double(picture.grid.t0 + int64_t(i + 1) * step))) - (step * g.rowHeight() >= 3 ? 1 : 0), top + 1);
    const QRectF bar(axis + 1, std::max(top, g.plot.top()), width * std::min(1.0, picture.js[i] / most), std::min(bottom, g.plot.bottom()) - std::max(top, g.plot.top()));
    if (!(picture.js[i] >= 0) || bar.height() <= 0) continue;
    const bool chosen = s.marks && s.selected >= picture.grid.t0 + int64_t(i) * step && s.selected < picture.grid.t0 + int64_t(i + 1) * step;
    p.fillRect(bar, chosen ? s.theme->selection : mix(s.theme->text2, s.theme->surface, 0.7));
  }
  p.setFont(s.theme->micro());
  p.setPen(s.theme->text3);
  p.drawText(QRectF(axis - 3, g.plot.bottom() + 4, 20, 13 * g.scale), Qt::AlignLeft | Qt::AlignVCenter, QStringLiteral("0"));
  p.drawText(QRectF(axis + width - 30, g.plot.bottom() + 4, 60, 13 * g.scale), Qt::AlignCenter, QStringLiteral("ln 2"));
}

void paintSide(QPainter& p, const MatrixScene& s) {
  const auto& g = s.geometry;
  for (qsizetype i = 0; i < g.side.size() && i < s.side->size(); ++i) {
    const QRectF& plot = g.side[i];
    const auto& side = s.picture->side[size_t(i)];
    p.fillRect(plot, s.theme->plot);
    paintGrid(p, plot, g.rows, g.columns, side.grid, s.side->at(i));
    frame(p, plot, i == s.side_hover ? s.theme->hover : s.theme->lineStrong);
    p.setFont(s.theme->labelSemibold());
    p.setPen(s.theme->text);
    const QFontMetricsF bold(p.font());
    const double high = 14 * g.scale, room = plot.width() + kGap * g.scale - 4;
    p.drawText(QRectF(plot.left(), plot.top() - 2 * high + 1, room, high), Qt::AlignLeft | Qt::AlignVCenter, bold.elidedText(s.side_name.value(i), Qt::ElideRight, room));
    p.setFont(s.theme->micro());
    p.setPen(s.theme->text3);
    const auto& grid = side.grid.max;
    const QString range = grid.finite_cells ? QStringLiteral("%1 to %2").arg(limitText(grid.min), limitText(grid.max)) : QStringLiteral("no row captured here");
    p.drawText(QRectF(plot.left(), plot.top() - high, room, high - 1), Qt::AlignLeft | Qt::AlignVCenter, range);
  }
}

}  // namespace

MatrixGeometry MatrixGeometry::make(const QRectF& area, CellRange rows, CellRange columns, double scale, int side, bool bars) {
  MatrixGeometry g;
  g.area = area;
  g.rows = {rows.first, std::max(rows.second, rows.first + 1)};
  g.columns = {columns.first, std::max(columns.second, columns.first + 1)};
  g.scale = scale;
  g.bars = bars;
  const double right = (bars ? kBars : 16) * scale;
  const double height = area.height() - (kTop + kBottom) * scale;
  double size = std::min(area.width() - kLeft * scale - right, height);
  if (side > 0) {
    // The small pictures take the room that is left, and a part of a narrow view.
    const double wanted = std::max(kLeastSide * scale, std::min(area.width() * 0.24, 220 * scale));
    const double with = std::min(size, area.width() - kLeft * scale - right - wanted - 12 * scale);
    if (with > 220 * scale) size = with;
    else side = 0;
  }
  size = std::max(1.0, std::floor(size));
  g.plot = QRectF(std::floor(area.left() + kLeft * scale), std::floor(area.top() + kTop * scale), size, size);
  const double from = g.plot.right() + right;
  if (side > 0) g.side = sideBySide(QRectF(from, area.top(), area.right() - from - 12 * scale, g.plot.height() + kTop * scale), side, scale);
  return g;
}

void paintMatrix(QPainter& p, const MatrixScene& s) {
  const auto& g = s.geometry;
  p.save();
  p.setRenderHint(QPainter::Antialiasing, false);
  p.fillRect(g.plot, s.theme->plot);
  if (s.image && s.picture) paintGrid(p, g.plot, g.rows, g.columns, s.picture->grid, *s.image);
  if (s.picture && s.picture->grid.max.finite_cells == 0 && s.picture->grid.max.rows > 0) {
    p.setFont(s.theme->ui);
    p.setPen(s.theme->text2);
    p.drawText(g.plot.adjusted(20, 0, -20, 0), int(Qt::AlignCenter) | Qt::TextWordWrap, QStringLiteral("No row of this window was captured."));
  }
  frame(p, g.plot, s.theme->lineStrong);
  paintRowSpans(p, s);
  paintTokenSpans(p, columnAxis(s));
  paintTokenAxis(p, columnAxis(s));
  paintRowAxis(p, s);
  rowTitle(p, s);
  if (g.bars && s.picture) paintBars(p, s);
  if (s.picture && s.side) paintSide(p, s);
  if (s.marks && s.selected >= 0) {
    p.save();
    p.setClipRect(g.plot.adjusted(-1, -1, 1, 1), Qt::IntersectClip);
    if (s.selected >= g.rows.first && s.selected < g.rows.second) paintBand(p, g.plot, false, g.y(double(s.selected)), g.y(double(s.selected + 1)), s.theme->selection);
    if (s.selected >= g.columns.first && s.selected < g.columns.second) paintBand(p, g.plot, true, g.x(double(s.selected)), g.x(double(s.selected + 1)), s.theme->selection);
    p.restore();
  }
  const auto inside = [](int64_t v, CellRange r) { return v >= r.first && v < r.second; };
  if (s.marks && (inside(s.hover_row, g.rows) || inside(s.hover_column, g.columns))) {
    p.setBrush(Qt::NoBrush);
    p.setPen(QPen(s.theme->hover, 1.5));
    if (inside(s.hover_row, g.rows) && inside(s.hover_column, g.columns)) {
      const QRectF cell(g.x(double(s.hover_column)), g.y(double(s.hover_row)), std::max(5.0, g.cellWidth()), std::max(5.0, g.rowHeight()));
      p.drawRect(cell.adjusted(-1, -1, 1, 1));
    } else if (inside(s.hover_column, g.columns)) {
      p.fillRect(QRectF(g.x(double(s.hover_column) + 0.5), g.plot.top(), 1, g.plot.height()), s.theme->hover);
    }
  }
  p.restore();
}

void paintMatrixLegend(QPainter& painter, const QRectF& strip, const QString& name, const ColourScale& scale, const QVector<QRgb>& map,
                       const Theme& theme) {
  const double u = theme.base / 12;
  painter.save();
  painter.setFont(theme.label());
  const QFontMetricsF m(painter.font());
  painter.setPen(theme.text);
  double right = strip.right() - 8 * u;
  if (scale.valid) {
    const QString low = limitText(scale.left()), high = limitText(scale.right());
    painter.drawText(QRectF(right - m.horizontalAdvance(high), strip.top(), m.horizontalAdvance(high) + 1, strip.height()), Qt::AlignLeft | Qt::AlignVCenter, high);
    const QRectF bar(std::round(right - m.horizontalAdvance(high) - 126 * u), std::round(strip.center().y() - 5 * u), 120 * u, 10 * u);
    QLinearGradient gradient(bar.topLeft(), bar.topRight());
    for (int i = 0; i <= 32; ++i) gradient.setColorAt(i / 32.0, QColor(map[std::min(255, i * 8)]));
    painter.fillRect(bar, gradient);
    painter.setPen(QPen(theme.lineStrong, 1));
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(bar);
    painter.setPen(theme.text);
    right = bar.left() - m.horizontalAdvance(low) - 6 * u;
    painter.drawText(QRectF(right, strip.top(), m.horizontalAdvance(low) + 1, strip.height()), Qt::AlignLeft | Qt::AlignVCenter, low);
  }
  const double left = strip.left() + 100 * u;
  painter.drawText(QRectF(left, strip.top(), right - left - 10, strip.height()), Qt::AlignLeft | Qt::AlignVCenter, m.elidedText(name, Qt::ElideRight, right - left - 10));
  painter.restore();
}

}  // namespace slotscope::views
