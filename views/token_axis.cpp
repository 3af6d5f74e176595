#include "views/token_axis.h"

#include <algorithm>
#include <cmath>

#include "views/answer_verdict.h"
#include "views/format.h"
#include "views/heatmap_paint.h"
#include "views/token_cells.h"

namespace slotscope::views {

void paintTokenSpans(QPainter& p, const TokenAxis& a) {
  if (!a.run) return;
  QVector<SpanName> names;
  for (const bool strong : {false, true})  // key and answer over the others
    for (const Span& span : a.run->spans) {
      if (isStrongSpan(*a.run, span.name) != strong || span.end <= a.first || span.begin >= a.last) continue;
      const double thick = strong ? 4 : 2, left = std::max(a.plot.left(), std::floor(a.x(double(span.begin))));
      const double right = std::min(a.plot.right(), std::max(std::ceil(a.x(double(span.end))), left + 2));
      p.fillRect(QRectF(left, a.plot.top() - 2 - thick, right - left, thick), strong ? a.theme->retrieval : a.theme->text2);
      SpanName name;
      name.text = QString::fromUtf8(span.name.c_str());
      name.retrieval = strong;
      name.width = std::ceil(QFontMetricsF(strong ? a.theme->labelSemibold() : a.theme->label()).horizontalAdvance(name.text));
      name.wanted = strong ? (left + right - name.width) / 2 : left;
      names.push_back(name);
    }
  for (const SpanName& n : placeSpanNames(names, a.plot.left(), a.plot.right() - 8)) {
    p.setFont(n.retrieval ? a.theme->labelSemibold() : a.theme->label());
    p.setPen(n.retrieval ? a.theme->retrieval : a.theme->text2);
    p.drawText(QRectF(std::round(n.left), a.plot.top() - 7 - 15 * a.scale, n.width + 2, 14 * a.scale), Qt::AlignLeft | Qt::AlignVCenter, n.text);
  }
}

void paintTokenAxis(QPainter& p, const TokenAxis& a) {
  const double k = a.scale;
  const bool strip = a.run && a.cell() >= HeatmapGeometry::kTokenStripFrom * k;
  const double base = a.plot.bottom() + (strip ? 20 * k : 0);
  if (strip) {
    p.setFont(a.theme->fixed);
    const QFontMetricsF m(p.font());
    for (const TokenLabel& label : tokenLabels(*a.run, a.first, a.last)) {
      const QRectF box(a.x(double(label.first)), a.plot.bottom() + 2, a.cell() * label.count, 18 * k);
      const QRectF seen = box.intersected(QRectF(a.plot.left(), box.top(), a.plot.width(), box.height()));
      if (isRetrieval(*a.run, label.first)) p.fillRect(seen, mix(a.theme->retrieval, a.theme->surface, a.theme->dark ? 0.35 : 0.2));
      p.setPen(a.theme->text);
      p.drawText(box, Qt::AlignCenter, m.elidedText(label.text, Qt::ElideRight, box.width()));
    }
  }
  p.setFont(a.theme->label());
  const QFontMetricsF m(p.font());
  p.setPen(a.theme->text2);
  const int64_t step = tickStep(a.cell(), 60 * k), offset = a.count_from_one ? 1 : 0;
  const double chip = a.selected >= a.first && a.selected < a.last ? a.x(double(a.selected) + 0.5) : -1e9;
  for (int64_t label = (a.first + offset + step - 1) / step * step; label - offset < a.last; label += step) {
    if (label - offset < a.first) continue;
    const double x = a.x(double(label - offset) + (strip ? 0.5 : 0));
    if (!strip) p.fillRect(QRectF(std::round(x), a.plot.bottom() + 1, 1, 4), a.theme->lineStrong);
    if (std::abs(x - chip) < 34 * k) continue;
    p.drawText(QRectF(x - 40, base + 5, 80, m.height()), Qt::AlignCenter, count(label));
  }
  if (!strip)
    p.drawText(QRectF(a.plot.left(), a.plot.bottom() + 22 * k, a.plot.width(), 16 * k), Qt::AlignCenter, a.title);
  if (chip < -1e8) return;
  const QString text = count(a.selected + offset);
  const double width = chipWidth(text, *a.theme);
  paintChip(p, QRectF(std::clamp(chip - width / 2, a.plot.left() - 20, a.plot.right() - width + 20), base + 4, width, 16 * k), text, *a.theme);
}

void paintBand(QPainter& p, const QRectF& plot, bool vertical, double from, double to, const QColor& colour) {
  QColor thin = colour;
  thin.setAlphaF(0.6);
  const auto line = [&](double at, const QColor& c) {
    p.fillRect(vertical ? QRectF(std::round(at), plot.top(), 1, plot.height()) : QRectF(plot.left(), std::round(at), plot.width(), 1), c);
  };
  if (to - from < 4) return line((from + to) / 2 - 0.5, thin);
  line(from - 1, colour);
  line(to, colour);
}

}  // namespace slotscope::views
