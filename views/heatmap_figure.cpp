// The heatmap as an exported figure, and its data.
#include <QPaintEngine>
#include <QPainter>
#include <algorithm>
#include <cmath>

#include "views/caption.h"
#include "views/format.h"
#include "views/heatmap_view.h"

namespace slotscope::views {

namespace {
constexpr double kFigureWidth = 748, kFigureHeight = 462, kLegend = 26, kCaption = 28;
// Print resolution for pictures inside of vector figures, per logical pixel.
constexpr double kVectorScale = 600.0 / 96;
constexpr int64_t kMostColumns = 1 << 20;
}  // namespace

QSizeF HeatmapView::figureSize() const {
  if (figure_pixels_per_token_ <= 0 || !head_) return {kFigureWidth, kFigureHeight};
  const CellRange t = tokenRange(), r = row_range_;
  const double width = std::ceil(double(t.second - t.first) * figure_pixels_per_token_);
  const double height = std::max(
      kFigureHeight, double(r.second - r.first) + HeatmapGeometry::kTop + HeatmapGeometry::kBottomWithTokens + kLegend + kCaption);
  return {width + HeatmapGeometry::kLeft + HeatmapGeometry::kRight, height};
}

void HeatmapView::paintFigure(QPainter& painter, const QRectF& area, const Theme& theme,
                              const FigureOptions& options) {
  painter.save();
  painter.fillRect(area, theme.surface);
  Theme scaled = theme;
  if (options.scale != 1) scaled.setBase(theme.base * options.scale);
  QRectF rest = area;
  if (options.caption && run_ && head_) {
    QString extra = quantityName(quantity_);
    if (needsReference(quantity_)) extra += QStringLiteral(" at token %1").arg(shown(reference(), options.countFromOne));
    rest = paintCaption(painter, area, captionText(*run_, head_.get(), extra, options), scaled);
  }
  const double legend = options.legend ? std::round(kLegend * scaled.base / 12) : 0;
  rest.setTop(rest.top() + legend);
  const auto on_screen = scene(rest, scaled);
  if (!on_screen) {
    painter.setPen(theme.text2);
    painter.setFont(scaled.ui);
    painter.drawText(area, Qt::AlignCenter,
                     message_.isEmpty() ? QStringLiteral("nothing to draw") : message_);
    painter.restore();
    return;
  }
  HeatmapScene s = *on_screen;
  // As many columns as the device has pixels there: every token when each has one.
  const bool raster = painter.paintEngine() && painter.paintEngine()->type() == QPaintEngine::Raster;
  const QTransform to_device = painter.deviceTransform();
  const double kx = std::max(raster ? 0.0 : kVectorScale, std::hypot(to_device.m11(), to_device.m12()));
  const double ky = std::max(raster ? 0.0 : kVectorScale, std::hypot(to_device.m21(), to_device.m22()));
  s.geometry = geometryFor(rest, scaled.base / 12, kx, ky);
  const HeatmapGeometry& g = s.geometry;
  const int columns =
      int(std::clamp<int64_t>(std::llround(std::floor(g.plot.width() * kx + 1e-6)), 1, kMostColumns));
  const int lines =
      int(std::clamp<int64_t>(std::llround(std::floor(g.plot.height() * ky + 1e-6)), 1, kMostColumns));
  const CellRange range{g.first, std::min(g.last, tokens())},
      rows{g.row_first, std::min<int64_t>(g.row_last, int64_t(rows_.slot.size()))};
  GridJob request = job(range, rows, columns, lines);
  request.per_column = tokensPerColumn(tokenRange().second - tokenRange().first, columns);
  const Picture made = drawn(cells_, request);
  const SlotGrid& grid = *made.grid;
  s.grid = &grid;
  s.grid_row = rows.first;
  s.colours = cells_ && cells_->diverging ? divergingMap(theme.dark) : colourMap(colours_.map, theme.dark, colours_.reverse, colours_.soft);
  if (samples_ && !shared_range_) s.scale = scaleOf(&grid);
  s.count_from_one = options.countFromOne;
  s.hover_slot = -1, s.hover_token = -1;
  s.rubber = {};
  s.focus_ring = false;
  s.brush.reset();
  // Reduced data say so on the axis.
  if (grid.tokens_per_column > 1 || grid.slots_per_row > 1) s.note = QString::fromStdString(grid.reduction);
  if (!options.selection) s.selection.slot = -1, s.selection.token = -1;
  paintGround(painter, s);
  s.blend = made.over ? blendImage(grid, s.scale, *made.over, cells_->over_scale(), theme) : QImage();
  paintGridImage(painter, s, made.over ? s.blend : gridImage(grid, s.scale, s.colours));
  paintSpecialCells(painter, s);
  paintOverlay(painter, s);
  if (options.legend)
    paintColourLegend(painter, {s.geometry.plot.left(), area.top() + 2, s.geometry.plot.width(), legend}, s,
                      cells_ ? cells_->name : quantityName(quantity_));
  if (options.selection) paintSelection(painter, s);
  painter.restore();
}

QString HeatmapView::csv() const {
  QString text;
  const auto line = [&](const QString& key, const QString& value) {
    text += QStringLiteral("# %1: %2\n").arg(key, value);
  };
  line(QStringLiteral("figure"), figureKind());
  line(QStringLiteral("quantity"), quantityName(quantity_));
  if (run_) {
    line(QStringLiteral("model"), run_->model_name);
    line(QStringLiteral("prompt"), QString::fromStdString(run_->info().name));
    line(QStringLiteral("tokens"), QString::number(run_->info().tokens));
  }
  if (!head_) return text;
  line(QStringLiteral("layer"), QString::number(head_->layer));
  line(QStringLiteral("head"), QString::number(head_->head));
  line(QStringLiteral("slots"), QString::number(head_->writes.slots));
  if (needsReference(quantity_)) line(QStringLiteral("reference_token"), QString::number(reference()));
  line(QStringLiteral("colour_map"), colours_.map);
  line(QStringLiteral("colour_range"),
       QString::number(scale_.low, 'g', 9) + QStringLiteral(" to ") + QString::number(scale_.high, 'g', 9));
  line(QStringLiteral("cells"),
       QStringLiteral("routed cells of the visible tokens and slots, unreduced; all others are not routed"));
  return text + QStringLiteral("token,slot,value\n") + csvCells({});
}

QString HeatmapView::csvCells(const QString& prefix) const {
  QString text;
  if (!head_) return text;
  const CellRange range = tokenRange();
  const auto number = [](double v) {
    return std::isfinite(v) ? QString::number(v, 'g', 17)
           : std::isnan(v)  ? QStringLiteral("nan")
           : v > 0          ? QStringLiteral("inf")
                            : QStringLiteral("-inf");
  };
  const auto row = [&](int64_t t, int slot) {
    if (const auto v = cellValue(*head_, quantity_, slot, t, reference()))
      text += prefix + QString::number(t) + QLatin1Char(',') + QString::number(slot) + QLatin1Char(',') + number(*v) +
              QLatin1Char('\n');
  };
  const auto& w = head_->writes;
  for (int64_t r = row_range_.first; r < std::min<int64_t>(row_range_.second, int64_t(rows_.slot.size()));
       ++r) {
    const int slot = rows_.slot[size_t(r)];
    if (quantity_ == Quantity::read_weight) {
      for (const int64_t t : head_->read_token)
        if (t >= range.first && t < range.second) row(t, slot);
    } else if (quantity_ == Quantity::survival_of) {
      if (cellValue(*head_, quantity_, slot, reference(), reference()))
        for (int64_t t = std::max(range.first, reference()); t < range.second; ++t) row(t, slot);
    } else {
      for (int64_t e = w.entries_until(slot, range.first - 1); e < w.entries_until(slot, range.second - 1); ++e)
        row(w.token_at(e), slot);
    }
  }
  return text;
}

}  // namespace slotscope::views
