// Frame, groups, class strip, row names, spans, ESL bars, ticks and token strip of a slot heatmap.
#include <QFontMetricsF>
#include <QPainterPath>
#include <algorithm>
#include <cmath>

#include "views/format.h"
#include "views/answer_verdict.h"
#include "views/heatmap_paint.h"
#include "views/painted_view.h"

namespace slotscope::views {

namespace {

using analysis::SlotClass;

QString class_name(SlotClass c) {
  switch (c) {
    case SlotClass::retrieval:
      return QStringLiteral("retrieval");
    case SlotClass::shared:
      return QStringLiteral("shared");
    case SlotClass::other:
      return QStringLiteral("other");
    case SlotClass::empty:
      break;
  }
  return QStringLiteral("empty");
}

SlotClass class_of(const HeatmapScene& s, int64_t row) {
  const auto slot = size_t(s.rows->slot[size_t(row)]);
  const auto& classes = s.slot_classes ? *s.slot_classes : s.head->allocation.slot_class;
  return slot < classes.size() ? classes[slot] : SlotClass::empty;
}

// Visible part of a group in whole pixels; empty when it is scrolled out.
QRectF group_rect(const HeatmapScene& s, const RowGroup& group) {
  const auto& g = s.geometry;
  const double top = std::clamp(std::round(g.y(double(group.begin))), g.plot.top(), g.plot.bottom());
  const double bottom = std::clamp(std::round(g.y(double(group.end))), g.plot.top(), g.plot.bottom());
  return {QPointF(g.plot.left(), top), QPointF(g.plot.right(), bottom)};
}

void paint_frame(QPainter& p, const HeatmapScene& s) {
  const QRectF& r = s.geometry.plot;
  for (const auto& group : s.rows->groups) {
    if (group.begin <= s.geometry.row_first || group.begin >= s.geometry.row_last) continue;
    p.fillRect(QRectF(r.left(), std::round(s.geometry.y(double(group.begin))) - 1, r.width(), 1),
               s.theme->separator);
  }
  const QColor& c = s.theme->line;
  p.fillRect(QRectF(r.left() - 1, r.top() - 1, r.width() + 2, 1), c);
  p.fillRect(QRectF(r.left() - 1, r.bottom(), r.width() + 2, 1), c);
  p.fillRect(QRectF(r.left() - 1, r.top(), 1, r.height()), c);
  p.fillRect(QRectF(r.right(), r.top(), 1, r.height()), c);
}

void paint_class_strip(QPainter& p, const HeatmapScene& s) {
  const auto& g = s.geometry;
  const double left = g.plot.left() - 10, width = 7;
  const int64_t last = std::min<int64_t>(g.row_last, int64_t(s.rows->slot.size()));
  for (int64_t row = g.row_first; row < last;) {
    const SlotClass kind = class_of(s, row);
    int64_t end = row + 1;
    while (end < last && class_of(s, end) == kind) ++end;
    const double top = std::round(g.y(double(row))), bottom = std::round(g.y(double(end)));
    row = end;
    if (bottom <= top) continue;
    const QRectF rect(left, top, width, bottom - top);
    if (kind != SlotClass::empty) {
      p.fillRect(rect, s.theme->roleColour(kind));
      continue;
    }
    p.fillRect(rect, s.theme->surface);
    p.setPen(QPen(s.theme->lineStrong, 1));
    p.setBrush(Qt::NoBrush);
    p.drawRect(rect.adjusted(0.5, 0.5, -0.5, -0.5));
  }
}

void vertical_text(QPainter& p, const QPointF& centre, const QString& text) {
  p.save();
  p.translate(centre);
  p.rotate(-90);
  const QFontMetricsF m(p.font(), p.device());
  p.drawText(QPointF(-m.horizontalAdvance(text) / 2, (m.ascent() - m.descent()) / 2), text);
  p.restore();
}

void paint_group_names(QPainter& p, const HeatmapScene& s) {
  const auto& g = s.geometry;
  const double k = g.scale;
  const bool ids = g.slotIds();
  p.setFont(s.theme->label());
  const QFontMetricsF m(p.font());
  for (const auto& group : s.rows->groups) {
    const QRectF r = group_rect(s, group);
    const int64_t n = group.end - group.begin;
    const QString name = group.name.isEmpty() ? class_name(group.kind) : group.name;
    if (ids) {
      QString text = name + QStringLiteral(" · ") + count(n);
      if (m.horizontalAdvance(text) > r.height() - 4) text = name;
      if (m.horizontalAdvance(text) > r.height() - 4) continue;
      p.setPen(s.theme->roleTextColour(group.kind));
      vertical_text(p, {g.area.left() + 14 * k, r.center().y()}, text);
      continue;
    }
    if (r.height() < 13 * k) continue;
    const double right = g.plot.left() - 14;
    const double line = std::round(m.height());
    const bool two = r.height() >= 28 * k;
    const double top = std::round(r.center().y() - (two ? line : line / 2));
    p.setPen(s.theme->roleTextColour(group.kind));
    p.drawText(QRectF(g.area.left(), top, right - g.area.left(), line), Qt::AlignRight | Qt::AlignVCenter,
               name);
    if (!two) continue;
    p.setPen(s.theme->text3);
    p.drawText(QRectF(g.area.left(), top + line, right - g.area.left(), line),
               Qt::AlignRight | Qt::AlignVCenter,
               count(n) + (n == 1 ? QStringLiteral(" slot") : QStringLiteral(" slots")));
  }
}

void paint_slot_ids(QPainter& p, const HeatmapScene& s) {
  const auto& g = s.geometry;
  if (!g.slotIds()) return;
  p.setFont(s.theme->label());
  p.setPen(s.theme->text2);
  const double right = g.plot.left() - 14;
  for (int64_t row = g.row_first; row < std::min<int64_t>(g.row_last, int64_t(s.rows->slot.size())); ++row)
    p.drawText(QRectF(right - 60, g.y(double(row)), 60, g.rowHeight()), Qt::AlignRight | Qt::AlignVCenter,
               s.slotName(s.rows->slot[size_t(row)]));
}

void paint_spans(QPainter& p, const HeatmapScene& s) {
  if (!s.run) return;
  const auto& g = s.geometry;
  QVector<SpanName> names;
  QVector<std::pair<QRectF, QColor>> bars;
  for (const bool retrieval : {false, true})  // key and answer over the others
    for (const Span& span : s.run->spans) {
      if (isStrongSpan(*s.run, span.name) != retrieval) continue;
      if (span.end <= g.first || span.begin >= g.last) continue;
      const double x0 = std::max(g.plot.left(), std::floor(g.x(double(span.begin))));
      const double x1 = std::min(g.plot.right(), std::max(std::ceil(g.x(double(span.end))), x0 + 2));
      p.fillRect(QRectF(x0, g.plot.top() - 5, x1 - x0, retrieval ? 4 : 2),
                 retrieval ? s.theme->retrieval : s.theme->text2);
      SpanName name;
      name.text = QString::fromUtf8(span.name.c_str());
      name.retrieval = retrieval;
      name.width = std::ceil(QFontMetricsF(retrieval ? s.theme->labelSemibold() : s.theme->label())
                                 .horizontalAdvance(name.text));
      name.wanted = retrieval ? (x0 + x1 - name.width) / 2 : x0;
      names.push_back(name);
    }
  for (const SpanName& n : placeSpanNames(names, g.plot.left(), g.plot.right())) {
    p.setFont(n.retrieval ? s.theme->labelSemibold() : s.theme->label());
    p.setPen(n.retrieval ? s.theme->retrieval : s.theme->text2);
    p.drawText(QRectF(std::round(n.left), g.plot.top() - 5 - 16 * g.scale, n.width + 2, 14 * g.scale),
               Qt::AlignLeft | Qt::AlignVCenter, n.text);
  }
}

void paint_margin(QPainter& p, const HeatmapScene& s) {
  const auto& g = s.geometry;
  const double axis = g.plot.right() + 7, left = axis + 1, width = 44 * g.scale;
  p.setFont(s.theme->label());
  p.setPen(s.theme->text2);
  p.drawText(QRectF(axis, g.plot.top() - 5 - 13 * g.scale, g.area.right() - axis, 14 * g.scale),
             Qt::AlignLeft | Qt::AlignVCenter, marginName(s.margin_kind));
  p.fillRect(QRectF(axis, g.plot.top(), 1, g.plot.height()), s.theme->line);
  if (!s.margin) return;
  double most = 0;
  for (const double v : *s.margin)
    if (std::isfinite(v)) most = std::max(most, v);
  if (!(most > 0)) return;
  const double share = s.theme->dark ? 0.75 : 0.65;
  for (int64_t row = g.row_first; row < std::min<int64_t>(g.row_last, int64_t(s.rows->slot.size())); ++row) {
    const auto slot = size_t(s.rows->slot[size_t(row)]);
    double v = (*s.margin)[slot];
    if (!(v > 0)) continue;
    const double top = std::floor(g.y(double(row)));
    const double bottom = std::max(std::floor(g.y(double(row + 1))) - (g.rowHeight() >= 3 ? 1 : 0), top + 1);
    const double length = std::max(1.0, std::round(width * v / most));
    const bool selected = int(slot) == s.selection.slot;
    p.fillRect(QRectF(left, top, length, bottom - top),
               selected && s.selection.slot >= 0
                   ? s.theme->selection
                   : mix(s.theme->roleColour(class_of(s, row)), s.theme->surface, share));
  }
  p.setFont(s.theme->micro());
  p.setPen(s.theme->text3);
  const QRectF below(axis - 8, g.plot.bottom() + 4, width + 8 + 26, 13 * g.scale);
  const QFontMetricsF m(p.font());
  p.drawText(QPointF(axis - m.horizontalAdvance(QLatin1Char('0')) / 2, below.top() + m.ascent()),
             QStringLiteral("0"));
  const bool whole = s.margin_kind == MarginKind::esl || s.margin_kind == MarginKind::last_write;
  const QString text = whole ? count(qint64(most)) : strength(most, most >= 10 ? 1 : 2);
  const double at =
      std::min(left + width - m.horizontalAdvance(text) / 2, g.area.right() - m.horizontalAdvance(text) - 2);
  p.drawText(QPointF(std::round(at), below.top() + m.ascent()), text);
}

// Tick labels leave room for the chip of the selected token.
void paint_ticks(QPainter& p, const HeatmapScene& s) {
  const auto& g = s.geometry;
  const double k = g.scale;
  const bool strip = g.tokenStrip();
  const double base = g.plot.bottom() + (strip ? 22 * k : 1);
  const int64_t step = tickStep(g.cellWidth(), 60 * k);
  p.setFont(s.theme->label());
  const QFontMetricsF m(p.font());
  QRectF chip;
  if (s.selection.token >= g.first && s.selection.token < g.last) {
    const double half = 30 * k;
    chip = QRectF(g.x(double(s.selection.token) + 0.5) - half, base, 2 * half, 20);
  }
  const int64_t offset = s.count_from_one ? 1 : 0;  // labels stay round when counting starts at 1
  for (int64_t label = (g.first + offset + step - 1) / step * step; label - offset < g.last; label += step) {
    const int64_t t = label - offset;
    if (t < g.first) continue;
    const double x = strip ? g.x(double(t) + 0.5) : g.x(double(t));
    if (!strip) p.fillRect(QRectF(std::round(x), g.plot.bottom() + 1, 1, 4), s.theme->lineStrong);
    const QString text = count(label);
    const double w = m.horizontalAdvance(text);
    const QRectF box(std::round(x - w / 2), base + 5, w, m.height());
    if (s.selection.token >= 0 && !chip.isNull() && box.right() > chip.left() - 4 &&
        box.left() < chip.right() + 4)
      continue;
    p.setPen(s.theme->text2);
    p.drawText(QPointF(box.left(), base + (strip ? 3 : 5) * 1.0 + m.ascent()), text);
  }
  if (strip && s.note.isEmpty()) return;
  QString title = QStringLiteral("token position");
  if (!s.note.isEmpty()) title += QStringLiteral(" (") + s.note + QLatin1Char(')');
  if (strip) return;
  p.setPen(s.theme->text2);
  p.drawText(QRectF(g.plot.left(), g.plot.bottom() + 21 * k, g.plot.width(), 14 * k), Qt::AlignCenter, title);
}

// Positions of the axis that this run never came to.
void paint_missing(QPainter& p, const HeatmapScene& s) {
  const auto& g = s.geometry;
  const int64_t tokens = s.head->writes.tokens;
  if (g.last <= tokens || s.slot_names) return;
  const double left = std::max(g.plot.left(), std::round(g.x(double(tokens))));
  const QRectF rest(QPointF(left, g.plot.top()), g.plot.bottomRight());
  if (rest.width() < 1) return;
  paintHatch(p, rest, *s.theme);
  p.fillRect(QRectF(left, g.plot.top(), 1, g.plot.height()), s.theme->lineStrong);
  const bool partial = s.run && s.run->tokens < s.run->prompt_tokens;  // an answer may be shorter than planned
  const QString text = partial ? QStringLiteral("this trace ends at token %1").arg(count(tokens))
                               : QStringLiteral("%1 tokens").arg(count(tokens));
  p.setFont(s.theme->label());
  const double width = QFontMetricsF(p.font()).horizontalAdvance(text) + 12;
  if (width > rest.width()) return;
  const QRectF box(rest.center().x() - width / 2, rest.center().y() - 9, width, 18);
  p.fillRect(box, s.theme->surface);
  p.setPen(s.theme->text2);
  p.drawText(box, Qt::AlignCenter, text);
}

void paint_token_strip(QPainter& p, const HeatmapScene& s) {
  const auto& g = s.geometry;
  if (!g.tokenStrip() || !s.run) return;
  const double top = g.plot.bottom() + 3, height = 18 * g.scale, cell = g.cellWidth();
  const auto retrieval = [&](int64_t t) {
    return size_t(t) < s.run->roles.size() && s.run->roles[size_t(t)] == 1;
  };
  const auto in_span = [&](int64_t t) {
    return std::any_of(s.run->spans.begin(), s.run->spans.end(),
                       [&](const Span& x) { return t >= x.begin && t < x.end; });
  };
  const QColor red = mix(s.theme->retrieval, s.theme->surface, s.theme->dark ? 0.35 : 0.20);
  const QColor red_text = s.theme->dark ? mix(s.theme->retrieval, s.theme->text, 0.6)
                                        : mix(s.theme->retrieval, s.theme->text, 0.9);
  const int64_t last = std::min(g.last, s.run->tokens);
  for (int64_t t = g.first; t < last; ++t) {
    if (!retrieval(t) && !in_span(t)) continue;
    const double x0 = std::round(g.x(double(t))), x1 = std::round(g.x(double(t + 1)));
    p.fillRect(QRectF(x0, top, x1 - x0, height), retrieval(t) ? red : s.theme->spanWash);
  }
  int64_t from = g.first;
  while (from > 0 && from > g.first - 3 && !s.run->token_bytes(from).empty() &&
         (static_cast<unsigned char>(s.run->token_bytes(from).front()) & 0xC0) == 0x80)
    --from;
  p.save();
  p.setClipRect(QRectF(g.plot.left(), top, g.plot.width(), g.area.bottom() - top), Qt::IntersectClip);
  for (const TokenLabel& label : tokenLabels(*s.run, from, last)) {
    const bool selected = s.selection.token >= label.first && s.selection.token < label.first + label.count;
    QFont font = s.theme->fixed;
    if (retrieval(label.first) || selected) font.setBold(true);
    p.setFont(font);
    p.setPen(selected ? s.theme->selection : retrieval(label.first) ? red_text : s.theme->text);
    const QRectF box(g.x(double(label.first)), top, cell * label.count, height);
    const QFontMetricsF m(font);
    if (m.horizontalAdvance(label.text) <= box.width() + 2) {
      p.drawText(box.adjusted(-2, 0, 2, 0), Qt::AlignCenter, label.text);
    } else if (cell >= 24) {
      // Turned tokens have the strip's height only: as many characters as fit downwards, the rest is in the
      // tooltip.
      const QString cut = m.elidedText(label.text, Qt::ElideRight, std::max(box.width(), height));
      p.drawText(box, Qt::AlignCenter, cut);
    } else {
      p.drawText(box, Qt::AlignCenter, m.elidedText(label.text, Qt::ElideRight, box.width()));
    }
    if (label.count > 1) {  // thin bracket under the joined cells
      p.fillRect(QRectF(box.left() + 1, box.bottom() - 1, box.width() - 2, 1), s.theme->lineStrong);
      p.fillRect(QRectF(box.left() + 1, box.bottom() - 3, 1, 2), s.theme->lineStrong);
      p.fillRect(QRectF(box.right() - 2, box.bottom() - 3, 1, 2), s.theme->lineStrong);
    }
  }
  p.restore();
}

}  // namespace

void paintOverlay(QPainter& painter, const HeatmapScene& scene) {
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing, false);
  painter.setRenderHint(QPainter::TextAntialiasing, true);
  paint_frame(painter, scene);
  paint_class_strip(painter, scene);
  paint_group_names(painter, scene);
  paint_slot_ids(painter, scene);
  paint_spans(painter, scene);
  if (scene.geometry.pane) {
    paint_missing(painter, scene);
  } else {
    paint_margin(painter, scene);
    paint_ticks(painter, scene);
  }
  paint_token_strip(painter, scene);
  painter.restore();
}

}  // namespace slotscope::views
