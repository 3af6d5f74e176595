#include "views/heatmap_paint.h"

#include <QFontMetricsF>
#include <QPaintEngine>
#include <algorithm>
#include <cmath>

#include "views/format.h"
#include "views/token_cells.h"

namespace slotscope::views {

namespace {

using analysis::Cell;

bool special(Cell c) { return c == Cell::nan || c == Cell::pos_inf || c == Cell::neg_inf; }

}  // namespace

QImage gridImage(const SlotGrid& grid, const ColourScale& scale, const QVector<QRgb>& colours) {
  if (grid.columns <= 0 || grid.rows <= 0) return {};
  QImage image(grid.columns, grid.rows, QImage::Format_ARGB32_Premultiplied);
  image.fill(0);
  for (int r = 0; r < grid.rows; ++r) {
    auto* line = reinterpret_cast<QRgb*>(image.scanLine(r));
    const size_t row = size_t(r) * size_t(grid.columns);
    for (int c = 0; c < grid.columns; ++c) {
      switch (grid.state[row + size_t(c)]) {
        case Cell::finite:
          if (scale.valid)
            line[c] = colours[int(std::lround(scale.place(double(grid.value[row + size_t(c)])) * 255))];
          break;
        case Cell::pos_inf:
          line[c] = colours[scale.downwards ? 0 : 255];
          break;
        case Cell::neg_inf:
          line[c] = colours[scale.downwards ? 255 : 0];
          break;
        default:
          break;
      }
    }
  }
  return image;
}

QString HeatmapScene::slotName(int slot) const {
  if (slot_names && slot >= 0 && slot < slot_names->size()) return (*slot_names)[slot];
  return count(shown(slot, count_from_one));
}

QImage blendImage(const SlotGrid& a, const ColourScale& scale_a, const SlotGrid& b, const ColourScale& scale_b,
                  const Theme& theme) {
  if (a.columns <= 0 || a.rows <= 0) return {};
  QImage image(a.columns, a.rows, QImage::Format_ARGB32_Premultiplied);
  image.fill(0);
  const bool same = a.rows == b.rows && a.columns == b.columns;
  // From 20 % up, so that the weakest write still differs from the ground.
  const auto colour = [&](const SlotGrid& grid, const ColourScale& scale, size_t at, const QColor& full) {
    if (grid.state[at] == Cell::not_routed || grid.state[at] == Cell::nan) return theme.plot;
    const double place = grid.state[at] == Cell::finite ? (scale.valid ? scale.place(double(grid.value[at])) : 0.0) : 1.0;
    return mix(full, theme.plot, 0.2 + 0.8 * place);
  };
  const auto over = [&](int x, int y, int ground) {
    return theme.dark ? std::min(255, x + y - ground) : ground > 0 ? x * y / ground : 0;
  };
  for (int r = 0; r < a.rows; ++r) {
    auto* line = reinterpret_cast<QRgb*>(image.scanLine(r));
    for (int c = 0; c < a.columns; ++c) {
      const size_t at = size_t(r) * size_t(a.columns) + size_t(c);
      const bool in_b = same && b.state[at] != Cell::not_routed;
      if (a.state[at] == Cell::not_routed && !in_b) continue;
      const QColor x = colour(a, scale_a, at, theme.modelA), y = in_b ? colour(b, scale_b, at, theme.modelB) : theme.plot;
      line[c] = qRgb(std::clamp(over(x.red(), y.red(), theme.plot.red()), 0, 255),
                     std::clamp(over(x.green(), y.green(), theme.plot.green()), 0, 255),
                     std::clamp(over(x.blue(), y.blue(), theme.plot.blue()), 0, 255));
    }
  }
  return image;
}

void paintBlend(QPainter& painter, const HeatmapScene& s) {
  if (!s.blend.isNull()) paintGridImage(painter, s, s.blend);
}

QRectF gridRect(const HeatmapScene& s) {
  const auto& g = s.geometry;
  // Columns and rows are whole: the last ones may reach beyond the data, where the plot ends.
  return {QPointF(g.x(double(s.grid->first)), g.y(double(s.grid_row))),
          QPointF(g.x(double(s.grid->first) + s.grid->columns * s.grid->tokens_per_column),
                  g.y(double(s.grid_row) + s.grid->rows * s.grid->slots_per_row))};
}

void paintGridImage(QPainter& painter, const HeatmapScene& s, const QImage& image) {
  if (!s.grid || image.isNull()) return;
  const QRectF all = gridRect(s);
  painter.save();
  painter.setRenderHint(QPainter::SmoothPixmapTransform, false);
  painter.setClipRect(s.geometry.plot, Qt::IntersectClip);
  const bool raster = painter.paintEngine() && painter.paintEngine()->type() == QPaintEngine::Raster;
  // Vector formats get one image. Qt's raster engine counts in 16.16 fixed point, so wide images go in pieces
  // whose edges lie where both sides round to the same device pixel.
  const int piece = raster ? 4096 : image.width();
  for (int from = 0; from < image.width(); from += piece) {
    const int to = std::min(image.width(), from + piece);
    const double x0 = all.left() + all.width() * from / image.width(),
                 x1 = all.left() + all.width() * to / image.width();
    const QRectF target(x0, all.top(), x1 - x0, all.height());
    if (!target.intersects(s.geometry.plot)) continue;
    if (from == 0 && to == image.width()) {
      painter.drawImage(target, image, QRectF(image.rect()));
    } else {
      const QImage part = image.copy(from, 0, to - from, image.height());
      painter.drawImage(target, part, QRectF(part.rect()));
    }
  }
  painter.restore();
}

void paintGround(QPainter& painter, const HeatmapScene& s) {
  painter.fillRect(s.geometry.plot, s.theme->plot);
}

namespace {

// One line in a box over the middle of the plot.
void paintPlotText(QPainter& painter, const HeatmapScene& s, const QString& text, const QColor& colour) {
  painter.setFont(s.theme->semibold());
  const QFontMetricsF m(painter.font());
  const QRectF box(s.geometry.plot.center() - QPointF(m.horizontalAdvance(text) / 2 + 8, m.height() / 2 + 4),
                   QSizeF(m.horizontalAdvance(text) + 16, m.height() + 8));
  painter.fillRect(box, s.theme->surface);
  painter.setPen(colour);
  painter.drawText(box, Qt::AlignCenter, text);
}

}  // namespace

void paintColourLegend(QPainter& painter, const QRectF& strip, const HeatmapScene& s, const QString& name) {
  const double u = s.theme->base / 12, bar_width = 120 * u, bar_height = 10 * u;
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing, false);
  painter.setFont(s.theme->label());
  const QFontMetricsF m(painter.font());
  const auto text = [&](double x, double width, int align, const QString& t, const QColor& colour) {
    painter.setPen(colour);
    painter.drawText(QRectF(x, strip.top(), width, strip.height()), align | Qt::AlignVCenter, t);
  };
  const double y = std::round(strip.center().y() - bar_height / 2);
  double x = strip.right();
  if (s.scale.valid) {
    const QString low = limitText(s.scale.left()), high = limitText(s.scale.right());
    x -= m.horizontalAdvance(high);
    text(x, m.horizontalAdvance(high) + 1, Qt::AlignLeft, high, s.theme->text2);
    x -= bar_width + 6 * u;
    const QRectF bar(std::round(x), y, bar_width, bar_height);
    QLinearGradient gradient(bar.topLeft(), bar.topRight());
    for (int i = 0; i <= 32; ++i)
      gradient.setColorAt(i / 32.0, QColor(s.colours[std::min<qsizetype>(255, i * 8)]));
    painter.fillRect(bar, gradient);
    painter.setPen(QPen(s.theme->lineStrong, 1));
    painter.drawRect(bar);
    x -= m.horizontalAdvance(low) + 6 * u;
    text(x, m.horizontalAdvance(low) + 1, Qt::AlignLeft, low, s.theme->text2);
    x -= 18 * u;
  }
  const QString none = QStringLiteral("not routed");
  x -= m.horizontalAdvance(none);
  text(x, m.horizontalAdvance(none) + 1, Qt::AlignLeft, none, s.theme->text2);
  const QRectF box(std::round(x - bar_height - 5 * u), y, bar_height, bar_height);
  painter.fillRect(box, s.theme->plot);
  painter.setPen(QPen(s.theme->lineStrong, 1));
  painter.drawRect(box);
  QString title = name;
  if (s.scale.valid && s.scale.scale != RangeScale::linear) title += QStringLiteral(" (logarithmic)");
  if (s.grid && s.grid->nan_cells) title += QStringLiteral(" · %1 NaN").arg(count(s.grid->nan_cells));
  if (s.grid && s.grid->inf_cells) title += QStringLiteral(" · %1 infinite").arg(count(s.grid->inf_cells));
  text(strip.left(), std::max(0.0, box.left() - strip.left() - 8 * u), Qt::AlignLeft, title, s.theme->text);
  painter.restore();
}

void paintSpecialCells(QPainter& painter, const HeatmapScene& s) {
  const auto& g = s.geometry;
  if (!s.grid || s.grid->columns <= 0) return;
  // An empty plot says why: it must never pass for "nothing was written".
  if (s.grid->finite_cells + s.grid->nan_cells + s.grid->inf_cells == 0 && !s.empty.isEmpty()) {
    painter.save();
    paintPlotText(painter, s, s.empty, s.theme->text2);
    painter.restore();
    return;
  }
  if (s.grid->nan_cells + s.grid->inf_cells == 0) return;
  painter.save();
  painter.setClipRect(g.plot, Qt::IntersectClip);
  const QRectF all = gridRect(s);
  const double w = all.width() / s.grid->columns, h = all.height() / s.grid->rows;
  for (int r = 0; r < s.grid->rows; ++r)
    for (int c = 0; c < s.grid->columns; ++c) {
      const Cell state = s.grid->state[size_t(r) * size_t(s.grid->columns) + size_t(c)];
      if (!special(state)) continue;
      // A thin cell is widened: a single NaN among 131 072 tokens must not vanish.
      const QRectF cell(std::floor(all.left() + c * w), std::floor(all.top() + r * h),
                        std::max(2.0, std::ceil(w)), std::max(2.0, std::ceil(h)));
      if (!cell.intersects(g.plot)) continue;
      if (state == Cell::nan) {
        painter.fillRect(cell, mix(s.theme->nan, s.theme->plot, 0.25));
        painter.fillRect(
            cell, QBrush(s.theme->nan,
                         cell.width() >= 8 && cell.height() >= 8 ? Qt::BDiagPattern : Qt::Dense3Pattern));
        continue;
      }
      const double side = std::min({8.0, cell.width() - 2, cell.height() - 2});
      if (side < 3) continue;
      const QPointF m = cell.center();
      const double up = state == Cell::pos_inf ? 1 : -1;
      painter.setRenderHint(QPainter::Antialiasing, true);
      painter.setPen(Qt::NoPen);
      const int end = (state == Cell::pos_inf) != s.scale.downwards ? 255 : 0;
      painter.setBrush(contrast(QColor(s.colours[end]), s.theme->surface) >
                               contrast(QColor(s.colours[end]), s.theme->text)
                           ? s.theme->surface
                           : s.theme->text);
      const QPointF corners[3] = {{m.x() - side / 2, m.y() + up * side / 2},
                                  {m.x() + side / 2, m.y() + up * side / 2},
                                  {m.x(), m.y() - up * side / 2}};
      painter.drawPolygon(corners, 3);
      painter.setRenderHint(QPainter::Antialiasing, false);
    }
  if (!s.scale.valid && s.grid->finite_cells == 0) {
    paintPlotText(painter, s, QStringLiteral("no finite values"), s.theme->error);
  }
  painter.restore();
}

double chipWidth(const QString& text, const Theme& theme) {
  return std::ceil(QFontMetricsF(theme.labelSemibold()).horizontalAdvance(text)) + 12;
}

void paintChip(QPainter& painter, const QRectF& rect, const QString& text, const Theme& theme) {
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing, true);
  painter.setPen(Qt::NoPen);
  painter.setBrush(theme.selection);
  painter.drawRoundedRect(rect, 3, 3);
  painter.setPen(theme.selectionChipText);
  painter.setFont(theme.labelSemibold());
  painter.drawText(rect, Qt::AlignCenter, text);
  painter.restore();
}

QVector<SpanName> placeSpanNames(QVector<SpanName> names, double left, double right, double gap) {
  std::stable_sort(names.begin(), names.end(),
                   [](const SpanName& a, const SpanName& b) { return a.wanted < b.wanted; });
  while (!names.isEmpty()) {
    double x = left;
    for (SpanName& n : names) {
      n.left = std::max(n.wanted, x);
      x = n.left + n.width + gap;
    }
    double end = right;
    for (auto n = names.rbegin(); n != names.rend(); ++n) {
      n->left = std::min(n->left, end - n->width);
      end = n->left - gap;
    }
    // A name far from its span misleads. The worst one goes, key and answer last.
    const auto shift = [&](const SpanName& n) { return n.left < left ? 1e9 : std::abs(n.left - n.wanted); };
    qsizetype worst = -1;
    double most = 0;
    for (qsizetype i = 0; i < names.size(); ++i) most = std::max(most, shift(names[i]));
    if (most <= 64) break;
    const bool others =
        std::any_of(names.begin(), names.end(), [](const SpanName& n) { return !n.retrieval; });
    double worst_shift = -1;
    for (qsizetype i = 0; i < names.size(); ++i)
      if (!(others && names[i].retrieval) && shift(names[i]) > worst_shift)
        worst = i, worst_shift = shift(names[i]);
    names.removeAt(worst);
  }
  return names;
}

QVector<TokenLabel> tokenLabels(const trace::RunInfo& run, int64_t first, int64_t last) {
  const auto byte = [&](int64_t t) {
    const auto b = run.token_bytes(t);
    return b.empty() ? 0u : unsigned(static_cast<unsigned char>(b.front()));
  };
  const auto special = [&](int64_t t) { return size_t(t) < run.special.size() && run.special[size_t(t)]; };
  QVector<TokenLabel> labels;
  for (int64_t t = first; t < last;) {
    int count = 1;
    // A lead byte takes as many tokens as its character has bytes, when together they are that character.
    const unsigned lead = byte(t);
    const int bytes = lead >= 0xF0 && lead < 0xF5   ? 4
                      : lead >= 0xE0 && lead < 0xF0 ? 3
                      : lead >= 0xC2 && lead < 0xE0 ? 2
                                                    : 1;
    if (!special(t) && int(run.token_bytes(t).size()) < bytes) {
      std::string joined(run.token_bytes(t));
      int64_t u = t + 1;
      while (u < run.tokens && int(joined.size()) < bytes && !special(u) && (byte(u) & 0xC0) == 0x80)
        joined += run.token_bytes(u++);
      const QString text = tokenText(joined);
      if (int(joined.size()) == bytes && text == QString::fromUtf8(joined.data(), qsizetype(joined.size()))) {
        labels.push_back({t, int(u - t), text});
        t = u;
        continue;
      }
    }
    const auto b = run.token_bytes(t);
    labels.push_back(
        {t, count, special(t)                          ? QString::fromUtf8(b.data(), qsizetype(b.size()))
                   : b.empty() && !run.bytes.empty() ? tokenName(run, t)  // "<unused 300>"
                                                     : tokenText(b)});
    ++t;
  }
  return labels;
}

}  // namespace slotscope::views
