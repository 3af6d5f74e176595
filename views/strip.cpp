#include "views/strip.h"

#include <QPainter>
#include <algorithm>
#include <cmath>
#include <utility>

#include "views/theme.h"

namespace slotscope::views {

QString slotClassName(analysis::SlotClass kind) {
  switch (kind) {
    case analysis::SlotClass::retrieval:
      return QStringLiteral("retrieval only");
    case analysis::SlotClass::shared:
      return QStringLiteral("shared");
    case analysis::SlotClass::other:
      return QStringLiteral("other only");
    case analysis::SlotClass::empty:
      break;
  }
  return QStringLiteral("empty");
}

double stripShade(int64_t written, int64_t max_written) {
  if (written <= 0 || max_written <= 0) return 0;
  return 0.18 + 0.82 * std::sqrt(std::min(1.0, double(written) / double(max_written)));
}

QColor stripColour(const analysis::HeadAllocation& allocation, int slot, const Theme& theme) {
  const auto kind = allocation.slot_class[size_t(slot)];
  if (kind == analysis::SlotClass::empty) return theme.surface;
  const QColor full = theme.roleColour(kind);
  if (kind == analysis::SlotClass::retrieval) return full;
  return mix(full, theme.surface, stripShade(allocation.written[size_t(slot)], allocation.max_written));
}

std::pair<double, double> stripColumn(const QRectF& rect, int slots, int at) {
  const double width = rect.width() / std::max(1, slots);
  return {std::floor(rect.left() + at * width), std::floor(rect.left() + (at + 1) * width)};
}

int stripSlotAt(const QRectF& rect, const analysis::HeadAllocation& allocation, double x) {
  const int slots = int(allocation.order.size());
  if (slots == 0 || x < rect.left() || x >= rect.right()) return -1;
  int at = std::clamp(int((x - rect.left()) / rect.width() * slots), 0, slots - 1);
  while (at > 0 && x < stripColumn(rect, slots, at).first) --at;  // edges are floored
  while (at + 1 < slots && x >= stripColumn(rect, slots, at).second) ++at;
  return allocation.order[size_t(at)];
}

void paintAllocationStrip(QPainter& painter, const QRectF& rect, const analysis::HeadAllocation& allocation,
                          const Theme& theme, int selectedSlot) {
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing, false);
  painter.setPen(Qt::NoPen);
  painter.fillRect(rect, theme.surface);
  const int slots = int(allocation.order.size());
  const double pixel = 1 / std::max(1.0, painter.deviceTransform().m11());
  const auto edge = [&](int at) {
    return std::floor((rect.left() + at * rect.width() / std::max(1, slots)) / pixel) * pixel;
  };
  const double end = edge(std::clamp(slots - allocation.counts[3], 0, slots));
  // Neighbours of one colour become one rectangle: fewer objects in SVG and PDF, and viewers show no
  // hairlines between them.
  for (int from = 0; from < slots;) {
    const QColor colour = stripColour(allocation, allocation.order[size_t(from)], theme);
    int to = from + 1;
    while (to < slots && stripColour(allocation, allocation.order[size_t(to)], theme) == colour) ++to;
    const double left = edge(from), right = edge(to);
    // Up to the end of the strip, the next one over it: no viewer can show a seam between them.
    if (right > left && colour != theme.surface)
      painter.fillRect(QRectF(left, rect.top(), end - left, rect.height()), colour);
    from = to;
  }
  // A single retrieval-only slot is the finding: it stays visible when columns are thinner than a pixel.
  if (allocation.counts[0] > 0 &&
      stripColumn(rect, slots, allocation.counts[0] - 1).second < std::floor(rect.left()) + 2)
    painter.fillRect(QRectF(std::floor(rect.left()) + 1, rect.top(), 1, rect.height()), theme.retrieval);
  painter.setPen(QPen(theme.lineStrong, 1));
  painter.setBrush(Qt::NoBrush);
  painter.drawRect(QRectF(rect.left(), rect.top(), rect.width() - 1, rect.height() - 1).translated(0.5, 0.5));
  if (selectedSlot >= 0 && selectedSlot < slots) {
    const auto found = std::find(allocation.order.begin(), allocation.order.end(), selectedSlot);
    if (found != allocation.order.end()) {
      const auto [left, right] = stripColumn(rect, slots, int(found - allocation.order.begin()));
      const double middle = std::floor((left + std::max(right, left + 1)) / 2);
      painter.fillRect(QRectF(middle - 1, rect.top() - 5, 3, 5), theme.selection);
    }
  }
  painter.restore();
}

}  // namespace slotscope::views
