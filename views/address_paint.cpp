// Painting of the address views: the same on screen and in figures.
#include <algorithm>
#include <cmath>

#include "views/address_view.h"
#include "views/caption.h"
#include "views/format.h"
#include "views/heatmap_data.h"
#include "views/heatmap_paint.h"
#include "views/token_axis.h"
#include "views/token_cells.h"

namespace slotscope::views {

namespace {

constexpr double kLeft = 100, kTop = 32, kRight = 56, kBottom = 46, kRank = 20;

// Weak accesses stay visible: a quarter of the colour, up to all of it by the square root of the weight.
double colourShare(double weight, double most) { return 0.25 + 0.75 * std::sqrt(std::clamp(weight / std::max(most, 1e-300), 0.0, 1.0)); }

void frame(QPainter& p, const QRectF& plot, const QColor& colour) {
  p.setBrush(Qt::NoBrush);
  p.setPen(QPen(colour, 1));
  p.drawRect(plot.adjusted(-0.5, -0.5, 0.5, 0.5));
}

// 0 to 1 beside the plot.
void paintScale(QPainter& p, const QRectF& plot, const QVector<QRgb>& map, const Theme& theme, double scale) {
  const QRectF bar(std::round(plot.right() + 14 * scale), plot.top(), std::round(10 * scale), std::min(plot.height(), 120 * scale));
  QLinearGradient gradient(bar.bottomLeft(), bar.topLeft());
  for (int i = 0; i <= 32; ++i) gradient.setColorAt(i / 32.0, QColor(map[std::min(255, i * 8)]));
  p.fillRect(bar, gradient);
  frame(p, bar, theme.lineStrong);
  p.setFont(theme.micro());
  p.setPen(theme.text2);
  p.drawText(QRectF(bar.right() + 4, bar.top() - 6, 30, 14), Qt::AlignLeft | Qt::AlignVCenter, QStringLiteral("1"));
  p.drawText(QRectF(bar.right() + 4, bar.bottom() - 8, 30, 14), Qt::AlignLeft | Qt::AlignVCenter, QStringLiteral("0"));
}

QColor onMap(const QVector<QRgb>& map, double v) { return QColor(map[int(std::lround(std::clamp(v, 0.0, 1.0) * 255))]); }

// Text over a colour of the map.
QColor over(const QColor& ground, const Theme& theme) {
  return contrast(ground, theme.text) >= contrast(ground, theme.surface) ? theme.text : theme.surface;
}

double niceStep(double most) {
  const double unit = std::pow(10, std::floor(std::log10(std::max(most, 1e-300) / 4)));
  for (const double m : {1.0, 2.0, 5.0, 10.0})
    if (m * unit * 5 >= most) return m * unit;
  return unit * 10;
}

}  // namespace

QRectF AddressView::plotFor(const QRectF& area, double s) const {
  return QRectF(std::floor(area.left() + kLeft * s), std::floor(area.top() + kTop * s), std::max(1.0, std::floor(area.width() - (kLeft + kRight) * s)),
                std::max(1.0, std::floor(area.height() - (kTop + kBottom) * s)));
}

QVector<LegendItem> AddressView::legend(const Theme& theme) const {
  const bool own = !picture_ || !picture_->addresses || picture_->addresses->own_reads;
  const LegendItem written{LegendItem::Square, theme.retrieval, QStringLiteral("written"), {}}, read{LegendItem::Square, theme.other, QStringLiteral("read"), {}},
      both{LegendItem::Square, theme.shared, QStringLiteral("both"), {}};
  switch (mode_) {
    case AddressMode::access:
      return own ? QVector<LegendItem>{written, read, both} : QVector<LegendItem>{written};
    case AddressMode::mass:
      return own ? QVector<LegendItem>{{LegendItem::Square, theme.retrieval, QStringLiteral("written by the token"), QStringLiteral("written")},
                                       {LegendItem::Square, theme.other, QStringLiteral("read by it"), QStringLiteral("read")}}
                 : QVector<LegendItem>{};
    default:
      return {};
  }
}

QImage AddressView::accessImage(const Theme& theme) const {
  const auto& g = picture_->access;
  QImage image(g.columns, g.rows, QImage::Format_RGB32);
  for (int c = 0; c < g.columns; ++c)
    for (int r = 0; r < g.rows; ++r) {
      const size_t at = size_t(r) * size_t(g.columns) + size_t(c);
      const double w = g.write[at], read = g.read[at];
      QColor colour = g.missing[size_t(c)] ? mix(theme.line, theme.plot, 0.6) : theme.plot;
      if (w > 0 && read > 0) colour = mix(theme.shared, theme.plot, std::max(colourShare(w, g.max_write), colourShare(read, g.max_read)));
      else if (w > 0) colour = mix(theme.retrieval, theme.plot, colourShare(w, g.max_write));
      else if (read > 0) colour = mix(theme.other, theme.plot, colourShare(read, g.max_read));
      image.setPixel(c, r, colour.rgb());
    }
  return image;
}

void AddressView::paintSlotAxis(QPainter& p, const Look& l, const QRectF& plot) const {
  const auto& code = picture_->addresses->code;
  const double height = plot.height() / double(slots_.second - slots_.first);
  const int offset = l.count_from_one ? 1 : 0;
  const bool names = code.known() && height >= 13 * l.scale;
  p.setFont(l.theme->label());
  const auto y = [&](double slot) { return plot.top() + (slot - double(slots_.first)) * height; };
  const int64_t chosen = l.marks && selection_ && !decoded_ ? selection_->current().slot : -1;
  const double chip = chosen >= slots_.first && chosen < slots_.second ? y(double(chosen) + 0.5) : -1e9;
  const int64_t step = names ? 1 : tickStep(height, 26 * l.scale);
  p.setPen(l.theme->text2);
  for (int64_t slot = (slots_.first + step - 1) / step * step; slot < slots_.second; slot += step) {
    const double at = y(double(slot) + (height >= 4 ? 0.5 : 0));
    p.fillRect(QRectF(plot.left() - 5, std::round(at), 4, 1), l.theme->lineStrong);
    if (std::abs(at - chip) < 15 * l.scale) continue;
    p.drawText(QRectF(plot.left() - 8 - 90 * l.scale, at - 10, 90 * l.scale, 20), Qt::AlignRight | Qt::AlignVCenter,
               names && !offset ? QString::fromStdString(analysis::slot_name(code, slot)) : count(slot + offset));
  }
  p.save();
  p.translate(l.area.left() + 10 * l.scale, plot.center().y());
  p.rotate(-90);
  p.drawText(QRectF(-120, -9, 240, 18), Qt::AlignCenter, decoded_ ? QStringLiteral("slot before the shift") : QStringLiteral("slot"));
  p.restore();
  if (chip < -1e8) return;
  const QString text = count(chosen + offset);
  const double width = chipWidth(text, *l.theme);
  paintChip(p, QRectF(plot.left() - 10 * l.scale - width, chip - 8 * l.scale, width, 16 * l.scale), text, *l.theme);
}

void AddressView::paintAccess(QPainter& p, const Look& l) const {
  const QRectF plot = plotFor(l.area, l.scale);
  const auto& g = picture_->access;
  p.fillRect(plot, l.theme->plot);
  if (g.rows > 0) {
    QImage& kept = image_;
    if (kept.isNull() || image_dark_ != l.theme->dark) kept = accessImage(*l.theme), image_dark_ = l.theme->dark;
    const double w = plot.width() / double(tokens_.second - tokens_.first), h = plot.height() / double(slots_.second - slots_.first);
    p.save();
    p.setClipRect(plot, Qt::IntersectClip);
    p.setRenderHint(QPainter::SmoothPixmapTransform, false);
    p.drawImage(QRectF(plot.left() + double(g.first_token - tokens_.first) * w, plot.top() + double(g.first_slot - slots_.first) * h,
                       double(g.columns * g.tokens_per_column) * w, double(g.rows * g.slots_per_row) * h), kept, QRectF(kept.rect()));
    if (l.marks && selection_) {
      const auto& chosen = selection_->current();
      if (chosen.token >= tokens_.first && chosen.token < tokens_.second)
        paintBand(p, plot, true, plot.left() + double(chosen.token - tokens_.first) * w, plot.left() + double(chosen.token + 1 - tokens_.first) * w, l.theme->selection);
      if (!decoded_ && chosen.slot >= slots_.first && chosen.slot < slots_.second)
        paintBand(p, plot, false, plot.top() + double(chosen.slot - slots_.first) * h, plot.top() + double(chosen.slot + 1 - slots_.first) * h, l.theme->selection);
      const int64_t hover = selection_->hoverToken();
      if (hover >= tokens_.first && hover < tokens_.second)
        p.fillRect(QRectF(plot.left() + (double(hover - tokens_.first) + 0.5) * w, plot.top(), 1, plot.height()), l.theme->hover);
    }
    p.restore();
  }
  frame(p, plot, l.theme->lineStrong);
  paintSlotAxis(p, l, plot);
}

void AddressView::paintFactors(QPainter& p, const Look& l) const {
  const QRectF plot = plotFor(l.area, l.scale);
  const auto& code = picture_->addresses->code;
  const auto& g = picture_->factors;
  const auto map = colourMap(QStringLiteral("cividis"), l.theme->dark);
  const double gap = std::round(6 * l.scale), strip = (plot.height() - gap * (code.factors - 1)) / code.factors;
  ColourScale scale;
  scale.valid = true;
  scale.high = 1;
  const QImage image = gridImage(g, scale, map);
  const double w = plot.width() / double(tokens_.second - tokens_.first);
  for (int u = 0; u < code.factors; ++u) {
    const QRectF part(plot.left(), std::round(plot.top() + u * (strip + gap)), plot.width(), std::floor(strip));
    p.fillRect(part, l.theme->plot);
    if (!image.isNull()) {
      const QImage rows = image.copy(0, u * code.codes, image.width(), code.codes);
      p.save();
      p.setClipRect(part, Qt::IntersectClip);
      p.drawImage(QRectF(part.left() + double(g.first - tokens_.first) * w, part.top(), image.width() * g.tokens_per_column * w, part.height()), rows, QRectF(rows.rect()));
      p.restore();
    }
    frame(p, part, l.theme->lineStrong);
    p.setFont(l.theme->labelSemibold());
    p.setPen(l.theme->text);
    p.drawText(QRectF(part.left() - 92 * l.scale, part.top(), 62 * l.scale, part.height()), Qt::AlignLeft | Qt::AlignVCenter, QStringLiteral("factor %1").arg(u + (l.count_from_one ? 1 : 0)));
    p.setFont(l.theme->micro());
    p.setPen(l.theme->text3);
    const double cell = part.height() / code.codes;
    const int step = std::max(1, int(std::ceil(11 * l.scale / cell)));
    for (int j = 0; j < code.codes; j += step)
      p.drawText(QRectF(part.left() - 26 * l.scale, part.top() + j * cell, 20 * l.scale, cell * (step > 1 ? 1 : 1)).adjusted(0, -4, 0, 4), Qt::AlignRight | Qt::AlignVCenter, QString::number(j + (l.count_from_one ? 1 : 0)));
  }
  if (l.marks && selection_) {
    const int64_t t = selection_->current().token;
    if (t >= tokens_.first && t < tokens_.second)
      paintBand(p, plot, true, plot.left() + double(t - tokens_.first) * w, plot.left() + double(t + 1 - tokens_.first) * w, l.theme->selection);
  }
  paintScale(p, plot, map, *l.theme, l.scale);
}

QRectF AddressView::rankRow(const QRectF& area, double s, bool read, int rank) const {
  const double gap = 40 * s, width = (area.width() - 2 * 28 * s - gap) / 2;
  const auto& code = picture_->addresses->code;
  const double cell = std::min({34 * s, (width - 70 * s) / std::max(1, code.codes), (area.height() * 0.55 - 60 * s) / std::max(1, code.factors)});
  const double top = area.top() + 66 * s + cell * code.factors + 34 * s;
  return QRectF(area.left() + 28 * s + (read ? width + gap : 0), std::round(top + rank * kRank * s), width, kRank * s);
}

void AddressView::paintAddress(QPainter& p, const Look& l, bool read) const {
  const auto& a = *picture_->addresses;
  const auto& code = a.code;
  const QRectF first = rankRow(l.area, l.scale, read, 0);
  const double cell = (first.top() - l.area.top() - 100 * l.scale) / std::max(1, code.factors);
  const trace::RunInfo* info = run_ && hasInfo(*run_) ? &run_->info() : nullptr;
  const QString what = (read ? QStringLiteral("Read address") : a.own_reads ? QStringLiteral("Write address") : QStringLiteral("Route")) +
                       QStringLiteral(" of token %1").arg(count(picture_->token + (l.count_from_one ? 1 : 0))) +
                       (info ? QLatin1Char(' ') + tokenTitle(*info, picture_->token) : QString());
  p.setFont(l.theme->title());
  p.setPen(read ? l.theme->otherText : l.theme->retrieval);
  p.drawText(QRectF(first.left(), l.area.top() + 8 * l.scale, first.width(), 22 * l.scale), Qt::AlignLeft | Qt::AlignVCenter, what);
  p.setFont(l.theme->label());
  p.setPen(l.theme->text2);
  p.drawText(QRectF(first.left(), l.area.top() + 28 * l.scale, first.width(), 18 * l.scale), Qt::AlignLeft | Qt::AlignVCenter,
             a.rule.renormalised ? QStringLiteral("renormalised over the kept slots: sum %1").arg(strength(picture_->kept[read ? 0 : 1], 4))
                                 : QStringLiteral("kept %1, left out by Top-K %2").arg(strength(picture_->kept[read ? 0 : 1], 4),
                                                                                    strength(std::max(0.0, 1 - picture_->kept[read ? 0 : 1]), 4)));
  const auto map = colourMap(QStringLiteral("cividis"), l.theme->dark);
  const auto& marginal = picture_->marginal[read ? 0 : 1];
  const double left = first.left() + 62 * l.scale, top = l.area.top() + 66 * l.scale;
  p.setFont(l.theme->micro());
  p.setPen(l.theme->text3);
  p.drawText(QRectF(first.left(), top - 16 * l.scale, 60 * l.scale, 14 * l.scale), Qt::AlignLeft | Qt::AlignVCenter, QStringLiteral("code"));
  const int offset = l.count_from_one ? 1 : 0;
  for (int j = 0; j < code.codes; ++j)
    p.drawText(QRectF(left + j * cell, top - 16 * l.scale, cell, 14 * l.scale), Qt::AlignCenter, QString::number(j + offset));
  for (int u = 0; u < code.factors; ++u) {
    p.setFont(l.theme->label());
    p.setPen(l.theme->text2);
    p.drawText(QRectF(first.left(), top + u * cell, 58 * l.scale, cell), Qt::AlignLeft | Qt::AlignVCenter, QStringLiteral("factor %1").arg(u + offset));
    for (int j = 0; j < code.codes; ++j) {
      const double v = marginal[size_t(u * code.codes + j)];
      const QRectF box(left + j * cell, top + u * cell, cell - 2, cell - 2);
      const QColor ground = v > 0 ? onMap(map, v) : l.theme->plot;
      p.fillRect(box, ground);
      if (cell < 26 * l.scale || !(v > 0)) continue;
      p.setFont(l.theme->micro());
      p.setPen(over(ground, *l.theme));
      p.drawText(box, Qt::AlignCenter, QString::number(v, 'f', 2));
    }
  }
  p.setFont(l.theme->micro());
  p.setPen(l.theme->text3);
  p.drawText(first.translated(0, -kRank * l.scale + 2), Qt::AlignLeft | Qt::AlignVCenter, QStringLiteral("rank   slot (digits, factor 0 first)") +
             (code.shift ? QStringLiteral(", before the shift") : QString()));
  p.drawText(first.translated(0, -kRank * l.scale + 2), Qt::AlignRight | Qt::AlignVCenter, read ? QStringLiteral("r") : a.own_reads ? QStringLiteral("w") : QStringLiteral("r"));
  const int ranks = read ? a.read_k : a.write->top_k;
  double most = 0;
  for (int k = 0; k < ranks; ++k) most = std::max(most, read ? a.read_weight_at(picture_->row, k) : a.write->weight_at(picture_->row, k));
  for (int k = 0; k < ranks; ++k) {
    const QRectF row = rankRow(l.area, l.scale, read, k);
    if (row.bottom() > l.area.bottom() - 4) {
      p.setFont(l.theme->label());
      p.setPen(l.theme->text3);
      p.drawText(row.translated(0, -2), Qt::AlignLeft | Qt::AlignTop, QStringLiteral("%1 more").arg(ranks - k));
      break;
    }
    const int64_t slot = read ? a.read_slot_at(picture_->row, k) : a.write->slot_at(picture_->row, k);
    const double weight = read ? a.read_weight_at(picture_->row, k) : a.write->weight_at(picture_->row, k);
    const bool chosen = l.marks && selection_ && selection_->current().slot == slot;
    if (chosen) p.fillRect(row, l.theme->selectionRow);
    p.setFont(l.theme->label());
    p.setPen(l.theme->text3);
    p.drawText(row.adjusted(2, 0, 0, 0), Qt::AlignLeft | Qt::AlignVCenter, QString::number(k + offset));
    p.setPen(chosen ? l.theme->selection : l.theme->text);
    QString name = QString::fromStdString(analysis::slot_name(code, slot));
    if (code.shift) name += QStringLiteral("   ") + QString::fromStdString(analysis::slot_name(code, code.decoded(slot, a.position[size_t(picture_->row)], a.slots())));
    p.drawText(row.adjusted(30 * l.scale, 0, -120 * l.scale, 0), Qt::AlignLeft | Qt::AlignVCenter, p.fontMetrics().elidedText(name, Qt::ElideRight, int(row.width() - 150 * l.scale)));
    const double length = 56 * l.scale * (most > 0 ? weight / most : 0);
    p.fillRect(QRectF(row.right() - 114 * l.scale, row.center().y() - 3, std::max(1.0, length), 6), read ? l.theme->other : l.theme->retrieval);
    p.setPen(l.theme->text);
    p.drawText(row, Qt::AlignRight | Qt::AlignVCenter, strength(weight, 4));
  }
}

void AddressView::paintDigits(QPainter& p, const Look& l) const {
  if (picture_->row < 0) {
    p.setFont(l.theme->ui);
    p.setPen(l.theme->text2);
    p.drawText(l.area, Qt::AlignCenter, QStringLiteral("The addresses of token %1 were not captured.").arg(count(picture_->token)));
    return;
  }
  paintAddress(p, l, false);
  if (picture_->addresses->own_reads) paintAddress(p, l, true);
}

void AddressView::paintMass(QPainter& p, const Look& l) const {
  const QRectF plot = plotFor(l.area, l.scale);
  const auto& a = *picture_->addresses;
  const auto& mass = picture_->mass.mass;
  p.fillRect(plot, l.theme->plot);
  double most = 0;
  for (const double m : mass)
    if (std::isfinite(m)) most = std::max(most, m);
  const double step = niceStep(most), top = std::max(step, std::ceil(most / step - 1e-9) * step);
  const auto y = [&](double v) { return plot.bottom() - plot.height() * v / top; };
  p.setFont(l.theme->label());
  for (double v = 0; v <= top * (1 + 1e-9); v += step) {
    if (v > 0) p.fillRect(QRectF(plot.left(), std::round(y(v)), plot.width(), 1), l.theme->line);
    p.setPen(l.theme->text2);
    p.drawText(QRectF(plot.left() - 72 * l.scale, y(v) - 10, 64 * l.scale, 20), Qt::AlignRight | Qt::AlignVCenter, limitText(v));
  }
  const double width = plot.width() / double(slots_.second - slots_.first);
  const auto x = [&](double slot) { return plot.left() + (slot - double(slots_.first)) * width; };
  const int64_t per = std::max<int64_t>(1, int64_t(std::ceil(1 / std::max(width, 1e-9))));
  const QColor bar = mix(l.theme->text2, l.theme->surface, 0.7);
  const auto draw = [&](int64_t from, int64_t to, const QColor& colour) {
    double high = 0;
    bool bad = false;
    for (int64_t slot = from; slot < to; ++slot) bad = bad || !std::isfinite(mass[size_t(slot)]), high = std::max(high, mass[size_t(slot)]);
    const double left = std::floor(x(double(from))), right = std::max(std::floor(x(double(to))) - (width >= 4 ? 1 : 0), left + 1);
    p.fillRect(QRectF(left, bad ? plot.top() : y(high), right - left, plot.bottom() - (bad ? plot.top() : y(high))), bad ? l.theme->nan : colour);
  };
  p.save();
  p.setClipRect(plot.adjusted(0, 0, 0, 8), Qt::IntersectClip);
  for (int64_t slot = slots_.first; slot < std::min<int64_t>(slots_.second, int64_t(mass.size())); slot += per)
    draw(slot, std::min<int64_t>({slot + per, slots_.second, int64_t(mass.size())}), bar);
  if (l.marks && selection_ && selection_->current().slot >= slots_.first && selection_->current().slot < std::min<int64_t>(slots_.second, int64_t(mass.size())))
    draw(selection_->current().slot, selection_->current().slot + 1, l.theme->selection);
  for (const bool write : {false, true})
    for (int k = 0; picture_->row >= 0 && k < (write ? a.write->top_k : a.reads()) && (write || a.own_reads); ++k) {
      const int64_t slot = write ? a.write->slot_at(picture_->row, k) : a.read_slot_at(picture_->row, k);
      p.fillRect(QRectF(std::floor(x(double(slot))), plot.bottom() + (write ? 0 : 4), std::max(2.0, std::floor(width)), 3), write ? l.theme->retrieval : l.theme->other);
    }
  p.restore();
  p.setPen(QPen(l.theme->lineStrong, 1));
  p.drawLine(plot.bottomLeft(), plot.bottomRight());
  p.drawLine(plot.topLeft(), plot.bottomLeft());
  TokenAxis axis{.plot = plot.translated(0, 8), .first = slots_.first, .last = slots_.second, .theme = l.theme, .scale = l.scale,
                 .selected = l.marks && selection_ ? selection_->current().slot : -1, .count_from_one = l.count_from_one, .title = QStringLiteral("slot")};
  paintTokenAxis(p, axis);
  p.setFont(l.theme->semibold());
  p.setPen(l.theme->text);
  const trace::RunInfo* info = run_ && hasInfo(*run_) ? &run_->info() : nullptr;
  QString title = QStringLiteral("%1 after token %2").arg(a.rule.pdma ? QStringLiteral("weight z") : QStringLiteral("mass m")).arg(count(picture_->mass.token));
  if (info) title += QLatin1Char(' ') + tokenTitle(*info, picture_->mass.token);
  p.drawText(QRectF(plot.left(), plot.top() - 26 * l.scale, plot.width(), 20 * l.scale), Qt::AlignLeft | Qt::AlignVCenter, title);
  p.setFont(l.theme->label());
  p.setPen(l.theme->text2);
  const QString source = picture_->mass.replayed ? (a.rule.pdma ? QStringLiteral("replayed from w") : QStringLiteral("replayed from w and γ"))
                         : picture_->mass.token == picture_->token ? QStringLiteral("as stored")
                                                                   : QStringLiteral("as stored at the last state before the selected token");
  p.drawText(QRectF(plot.left(), plot.top() - 26 * l.scale, plot.width(), 20 * l.scale), Qt::AlignRight | Qt::AlignVCenter,
             per > 1 ? source + QStringLiteral(", largest of %1 slots per bar").arg(per) : source);
}

void AddressView::paintMode(QPainter& p, const Look& l) const {
  p.setRenderHint(QPainter::Antialiasing, false);
  switch (mode_) {
    case AddressMode::access:
      paintAccess(p, l);
      break;
    case AddressMode::factors:
      paintFactors(p, l);
      break;
    case AddressMode::digits:
      return paintDigits(p, l);
    case AddressMode::mass:
      return paintMass(p, l);
  }
  TokenAxis axis{.plot = plotFor(l.area, l.scale), .first = tokens_.first, .last = tokens_.second, .run = run_ && hasInfo(*run_) ? &run_->info() : nullptr,
                 .theme = l.theme, .scale = l.scale, .selected = l.marks && selection_ ? selection_->current().token : -1, .count_from_one = l.count_from_one};
  paintTokenSpans(p, axis);
  paintTokenAxis(p, axis);
}

}  // namespace slotscope::views
