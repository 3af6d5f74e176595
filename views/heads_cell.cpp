#include "views/heads_cell.h"

#include <QFontMetricsF>
#include <QPainter>
#include <QPainterPath>
#include <algorithm>
#include <cmath>

#include "views/format.h"
#include "views/strip.h"

namespace slotscope::views {

HeadsGeometry HeadsGeometry::make(const QRectF& area, int layers, int heads, double k) {
  HeadsGeometry g;
  g.area = area;
  g.layers = layers, g.heads = heads;
  g.left = 27 * k, g.top = 16 * k;
  if (layers <= 0 || heads <= 0) return g;
  const double width = area.width() - g.left - 9;
  const double height = area.height() - g.top;
  g.cell_width = std::floor((width - (heads - 1) * g.gap) / heads);
  g.cell_height = std::clamp(std::floor(height / layers - g.gap), 40.0, 72.0);
  g.squares = g.cell_width < 30 || height / layers - g.gap < 22;
  if (!g.squares) return g;
  // Squares as large as the width allows, at least 10, at most 22; more than fits scrolls.
  g.gap = 2;
  g.cell_width = g.cell_height = std::clamp(std::floor((width - (heads - 1) * g.gap) / heads), 10.0, 22.0);
  return g;
}

HeadNumber headNumber(const analysis::RunSummary& summary, const analysis::HeadSummary& head,
                      HeadsView::Picture picture) {
  HeadNumber n;
  double largest = 1;
  switch (picture) {
    case HeadsView::Picture::mean_strength:
      n.value = head.mean_write_strength;
      largest = 0;
      for (const auto& h : summary.head_list)
        if (std::isfinite(h.mean_write_strength)) largest = std::max(largest, h.mean_write_strength);
      break;
    case HeadsView::Picture::read_mass_on_key:
      n.value = head.read_mass_on_key;
      break;
    case HeadsView::Picture::entropy:
      n.value = head.statistics.entropy;
      largest = std::log(std::max<double>(2, double(head.esl.esl.size())));
      break;
    case HeadsView::Picture::esl_curve:
      n.value = head.statistics.gini;
      break;
    case HeadsView::Picture::allocation:
      n.value = head.allocation.head_score;
      break;
  }
  n.place = std::isnan(n.value) ? n.value : largest > 0 ? std::clamp(n.value / largest, 0.0, 1.0) : 0;
  n.text = strength(n.value, picture == HeadsView::Picture::entropy ? 2 : 3);
  return n;
}

namespace {

void hatch(QPainter& p, const QRectF& r, const Theme& theme) {
  p.fillRect(r, theme.surface);
  p.fillRect(r, QBrush(theme.line, Qt::BDiagPattern));
  p.setPen(QPen(theme.line, 1));
  p.setBrush(Qt::NoBrush);
  p.drawRect(r.adjusted(0.5, 0.5, -0.5, -0.5));
}

QColor map_colour(double place, const Theme& theme) {
  const auto map = colourMap(QStringLiteral("cividis"), theme.dark);
  return std::isnan(place) ? theme.surface : QColor(map[int(std::lround(place * 255))]);
}

QColor text_on(const QColor& ground, const Theme& theme) {
  const QColor a = theme.dark ? theme.onInk : theme.text, b = theme.dark ? theme.text : theme.onInk;
  return contrast(ground, a) >= contrast(ground, b) ? a : b;
}

void esl_curve(QPainter& p, const QRectF& r, const analysis::HeadSummary& head, const Theme& theme) {
  p.fillRect(r, theme.surface);
  const auto& e = head.esl;
  uint32_t most = 0;
  for (const uint32_t v : e.esl) most = std::max(most, v);
  const double n = std::max<double>(1, double(e.order.size()));
  for (size_t i = 0; i < e.order.size() && most > 0; ++i) {
    const auto slot = size_t(e.order[i]);
    const double x0 = std::floor(r.left() + double(i) / n * r.width()),
                 x1 = std::floor(r.left() + double(i + 1) / n * r.width());
    const double h = std::round(double(e.esl[slot]) / most * (r.height() - 3));
    if (x1 > x0 && h > 0)
      p.fillRect(QRectF(x0, r.bottom() - 1 - h, x1 - x0, h), theme.regimeColour(e.regime[slot]));
  }
  p.setPen(QPen(theme.lineStrong, 1));
  p.setBrush(Qt::NoBrush);
  p.drawRect(r.adjusted(0.5, 0.5, -0.5, -0.5));
}

}  // namespace

void paintHeadCell(QPainter& p, const QRectF& r, const analysis::RunSummary& summary,
                   const analysis::HeadSummary& head, HeadsView::Picture picture, int selected_slot,
                   const Theme& theme) {
  p.save();
  p.setRenderHint(QPainter::Antialiasing, false);
  if (!head.has_routes) {
    hatch(p, r, theme);
    p.restore();
    return;
  }
  const QRectF upper = r.adjusted(0, 0, 0, -5), bar(r.left(), r.bottom() - 5, r.width(), 5);
  if (picture == HeadsView::Picture::allocation) {
    paintAllocationStrip(p, upper, head.allocation, theme, selected_slot);
  } else if (picture == HeadsView::Picture::esl_curve) {
    esl_curve(p, upper, head, theme);
  } else {
    const HeadNumber n = headNumber(summary, head, picture);
    const QColor ground = map_colour(n.place, theme);
    p.fillRect(upper, ground);
    p.setPen(QPen(theme.lineStrong, 1));
    p.setBrush(Qt::NoBrush);
    p.drawRect(upper.adjusted(0.5, 0.5, -0.5, -0.5));
    p.setPen(text_on(ground, theme));
    p.setFont(theme.micro());
    p.drawText(upper, Qt::AlignCenter, n.text);
  }
  // Retrieval score: the bar's frame shares the strip's lower edge.
  p.fillRect(bar, mix(theme.line, theme.surface, 0.5));
  const double score = head.allocation.head_score;
  if (score > 0)
    p.fillRect(
        QRectF(bar.left(), bar.top(), std::max(1.0, std::round(bar.width() * std::min(1.0, score))), 5),
        theme.retrieval);
  p.fillRect(QRectF(bar.left(), bar.bottom() - 1, bar.width(), 1), theme.line);
  p.fillRect(QRectF(bar.left(), bar.top(), 1, bar.height()), theme.line);
  p.fillRect(QRectF(bar.right() - 1, bar.top(), 1, bar.height()), theme.line);
  p.restore();
}

void paintHeadSquare(QPainter& p, const QRectF& r, const analysis::RunSummary& summary,
                     const analysis::HeadSummary& head, HeadsView::Picture picture, const Theme& theme) {
  if (!head.has_routes) return hatch(p, r, theme);
  const HeadNumber n = headNumber(summary, head, picture);
  p.fillRect(r, map_colour(n.place, theme));
  if (!(n.place > 0.02)) {
    p.setPen(QPen(theme.line, 1));
    p.setBrush(Qt::NoBrush);
    p.drawRect(r.adjusted(0.5, 0.5, -0.5, -0.5));
  }
}

void paintHeadsLabels(QPainter& p, const HeadsGeometry& g, int layer, int head, const Theme& theme) {
  p.save();
  const QFontMetricsF m(theme.labelSemibold());
  const auto label = [&](const QRectF& box, const QString& text, bool selected, Qt::Alignment align) {
    p.setFont(selected ? theme.labelSemibold() : theme.label());
    p.setPen(selected ? theme.selection : theme.text2);
    p.drawText(box, int(align), text);
  };
  double drawn_to = -1e9;
  for (int h = 0; h < g.heads; ++h) {
    const QRectF c = g.cell(0, h);
    const QString text = QStringLiteral("H") + QString::number(h);
    const double w = m.horizontalAdvance(text), x = c.center().x() - w / 2;
    // In fine grids only labels that fit are written; the selected head always is.
    const bool near_selected =
        h != head && head >= 0 && std::abs(c.center().x() - g.cell(0, head).center().x()) < w + 3;
    if ((x < drawn_to + 3 || near_selected) && h != head) continue;
    label(QRectF(x - 4, g.area.top(), w + 8, g.top - 2), text, h == head, Qt::AlignCenter);
    drawn_to = x + w;
  }
  const int every = std::max(1, int(std::ceil(m.height() / (g.cell_height + g.gap))));
  for (int l = 0; l < g.layers; ++l) {
    if (l % every != 0 && l != layer) continue;
    if (l != layer && layer >= 0 && std::abs(l - layer) < every) continue;
    const QRectF c = g.cell(l, 0);
    label(QRectF(g.area.left(), c.top() - 4, g.left - 4, c.height() + 8),
          QStringLiteral("L") + QString::number(l), l == layer, Qt::AlignRight | Qt::AlignVCenter);
  }
  p.restore();
}

void paintHeadsRing(QPainter& p, const QRectF& cell, const Theme& theme) {
  p.save();
  p.setRenderHint(QPainter::Antialiasing, true);
  p.setBrush(Qt::NoBrush);
  const QRectF ring = cell.adjusted(-2, -2, 2, 2);
  p.setPen(QPen(theme.surface, 4));
  p.drawRoundedRect(ring, 3, 3);
  p.setPen(QPen(theme.selection, 2));
  p.drawRoundedRect(ring, 3, 3);
  p.restore();
}

double paintHeadsLegend(QPainter& p, const QPointF& at, const Theme& theme) {
  p.save();
  p.setRenderHint(QPainter::Antialiasing, false);
  p.setFont(theme.micro());
  const QFontMetricsF m(p.font());
  double x = at.x();
  const std::pair<QColor, QString> items[] = {{theme.retrieval, QStringLiteral("retrieval")},
                                              {theme.shared, QStringLiteral("shared")},
                                              {theme.other, QStringLiteral("other")}};
  for (const auto& [colour, text] : items) {
    p.fillRect(QRectF(x, at.y() + 3, 8, 8), colour);
    p.setPen(theme.text2);
    p.drawText(QPointF(x + 11, at.y() + 2 + m.ascent()), text);
    x += 11 + m.horizontalAdvance(text) + 9;
  }
  p.restore();
  return 14;
}

}  // namespace slotscope::views
