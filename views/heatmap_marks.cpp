// Selection, brush and hover of a slot heatmap: drawn on layers of their own, so that they move without
// repainting the cells.
#include <QFontMetricsF>
#include <algorithm>
#include <cmath>

#include "views/format.h"
#include "views/heatmap_paint.h"

namespace slotscope::views {

namespace {

QColor with_alpha(QColor c, double a) {
  c.setAlphaF(float(a));
  return c;
}

int64_t row_of(const HeatmapScene& s, int slot) {
  return slot >= 0 && size_t(slot) < s.rows->row_of.size() ? s.rows->row_of[size_t(slot)] : -1;
}

// Two 1 px lines just outside of [from, to) with a 3 px casing, or one line at 60 % when the band is thin.
void band(QPainter& p, const HeatmapScene& s, double from, double to, bool horizontal, double least) {
  const QRectF& r = s.geometry.plot;
  const auto line = [&](double at, double thickness, const QColor& c) {
    const QRectF rect =
        horizontal ? QRectF(r.left(), at, r.width(), thickness) : QRectF(at, r.top(), thickness, r.height());
    p.fillRect(rect.intersected(r.adjusted(-1, -1, 1, 1)), c);
  };
  if (to - from >= least) {
    const double a = std::round(from) - 1, b = std::round(to);
    for (const double at : {a, b}) line(at - 1, 3, with_alpha(s.theme->surface, 0.8));
    for (const double at : {a, b}) line(at, 1, s.theme->selection);
  } else {
    line(std::floor((from + to) / 2), 1, with_alpha(s.theme->selection, 0.6));
  }
}

}  // namespace

void paintSelection(QPainter& p, const HeatmapScene& s) {
  const auto& g = s.geometry;
  const double k = g.scale;
  const int64_t row = row_of(s, s.selection.slot), token = s.selection.token;
  const bool row_seen = row >= g.row_first && row < g.row_last,
             token_seen = token >= g.first && token < g.last;
  p.save();
  p.setRenderHint(QPainter::Antialiasing, false);
  if (s.brush && s.brush->second > g.first && s.brush->first < g.last) {
    const double x0 = std::max(g.plot.left(), std::round(g.x(double(s.brush->first))));
    const double x1 = std::min(g.plot.right(), std::max(std::round(g.x(double(s.brush->second))), x0 + 1));
    p.fillRect(QRectF(x0, g.plot.top(), x1 - x0, g.plot.height()), with_alpha(s.theme->selection, 0.12));
    p.fillRect(QRectF(x0, g.plot.top(), 1, g.plot.height()), s.theme->selection);
    p.fillRect(QRectF(x1 - 1, g.plot.top(), 1, g.plot.height()), s.theme->selection);
  }
  const bool thin = g.cellWidth() < 5 || g.rowHeight() < 4;
  if (token_seen) band(p, s, g.x(double(token)), g.x(double(token + 1)), false, 5);
  if (row_seen) band(p, s, g.y(double(row)), g.y(double(row + 1)), true, 4);
  p.setRenderHint(QPainter::Antialiasing, true);
  if (token_seen && g.cellWidth() < 5) {
    const double x = std::floor(g.x(token + 0.5)) + 0.5, y = g.plot.top();
    const QPointF corners[3] = {{x - 4, y - 6}, {x + 4, y - 6}, {x, y}};
    p.setPen(Qt::NoPen);
    p.setBrush(s.theme->selection);
    p.drawPolygon(corners, 3);
  }
  if (token_seen && row_seen && thin) {
    const QPointF m(std::floor(g.x(token + 0.5)) + 0.5, g.y(row + 0.5));
    const QSizeF size(std::max(8.0, g.cellWidth() + 4), std::max(10.0, g.rowHeight() + 6));
    const QRectF ring(m.x() - size.width() / 2, std::round(m.y() - size.height() / 2), size.width(),
                      size.height());
    p.setBrush(Qt::NoBrush);
    p.setPen(QPen(with_alpha(s.theme->surface, 0.8), 3.5));
    p.drawRoundedRect(ring, 3, 3);
    p.setPen(QPen(s.theme->selection, 1.5));
    p.drawRoundedRect(ring, 3, 3);
  }
  if (row_seen) {
    const QString text = s.slotName(s.selection.slot);
    const double w = std::max(chipWidth(text, *s.theme), 28.0 * k);
    const double y =
        std::clamp(std::round(g.y(row + 0.5) - 8 * k), g.plot.top() - 4, g.plot.bottom() - 12 * k);
    // Beside slot ids the chip takes the id's place; else it stands at the far left, clear of the group
    // names.
    const double x = g.slotIds() ? g.plot.left() - 15 - w : g.area.left() + 4;
    paintChip(p, QRectF(x, y, w, 16 * k), text, *s.theme);
  }
  if (token_seen && !g.pane) {
    QString text = count(shown(token, s.count_from_one));
    if (s.run && token < s.run->tokens) {
      const auto b = s.run->token_bytes(token);
      const bool special = size_t(token) < s.run->special.size() && s.run->special[size_t(token)];
      QString name = special ? QString::fromUtf8(b.data(), qsizetype(b.size())) : tokenText(b);
      name = QFontMetricsF(s.theme->labelSemibold()).elidedText(name, Qt::ElideRight, 90 * k);
      if (!name.isEmpty()) text += QStringLiteral("  ") + name;
    }
    const double w = std::max(chipWidth(text, *s.theme), 36.0 * k);
    const double x = std::clamp(std::round(g.x(token + 0.5) - w / 2), g.area.left() + 2,
                                std::max(g.area.left() + 2, g.area.right() - w - 2));
    paintChip(p, QRectF(x, g.plot.bottom() + (g.tokenStrip() ? 22 * k : 4), w, 16 * k), text, *s.theme);
  }
  p.restore();
}

void paintHover(QPainter& p, const HeatmapScene& s) {
  const auto& g = s.geometry;
  if (s.focus_ring) {
    p.save();
    p.setRenderHint(QPainter::Antialiasing, true);
    p.setBrush(Qt::NoBrush);
    p.setPen(QPen(s.theme->selection, 2));
    p.drawRoundedRect(g.area.adjusted(2, 2, -2, -2), 3, 3);
    p.restore();
  }
  if (!s.rubber.isEmpty()) {
    const QRectF r = s.rubber.intersected(g.plot);
    p.fillRect(r, with_alpha(s.theme->hover, 0.08));
    p.setBrush(Qt::NoBrush);
    p.setPen(QPen(s.theme->hover, 1, Qt::DashLine));
    p.drawRect(r);
    return;
  }
  const int64_t row = row_of(s, s.hover_slot);
  const bool row_seen = row >= g.row_first && row < g.row_last;
  const bool token_seen = s.hover_token >= g.first && s.hover_token < g.last;
  if (!row_seen && !token_seen) return;
  QRectF box = g.plot;
  if (row_seen) box.setTop(g.y(double(row))), box.setBottom(g.y(double(row + 1)));
  if (token_seen) box.setLeft(g.x(double(s.hover_token))), box.setRight(g.x(double(s.hover_token + 1)));
  // A cell smaller than the pen is still framed.
  const double grow_x = std::max(0.0, (4 - box.width()) / 2), grow_y = std::max(0.0, (4 - box.height()) / 2);
  box = QRectF(QPointF(std::round(box.left() - grow_x), std::round(box.top() - grow_y)),
               QPointF(std::round(box.right() + grow_x), std::round(box.bottom() + grow_y)));
  p.save();
  p.setRenderHint(QPainter::Antialiasing, true);
  p.setClipRect(g.plot.adjusted(-3, -3, 3, 3), Qt::IntersectClip);
  p.setBrush(Qt::NoBrush);
  p.setPen(QPen(with_alpha(s.theme->surface, 0.8), 3.5));
  p.drawRect(box);
  p.setPen(QPen(s.theme->hover, 1.5));
  p.drawRect(box);
  p.restore();
}

}  // namespace slotscope::views
