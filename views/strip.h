// The allocation strip of one head (design: sections 8 and 9; Raven Figs 6, 7): one column per slot in the
// order retrieval | shared | other | empty. The same function draws the heads navigator, the allocation view
// and exported figures.
#pragma once

#include <QColor>
#include <QRectF>
#include <QString>
#include <utility>

#include "core/analysis/allocation.h"

class QPainter;

namespace slotscope::views {

struct Theme;

QString slotClassName(analysis::SlotClass kind);  // "retrieval only", "shared", "other only", "empty"

// Colour of one slot: retrieval always full, shared and other mixed with the surface by stripShade, empty =
// surface.
QColor stripColour(const analysis::HeadAllocation& allocation, int slot, const Theme& theme);
// Share of full colour of a slot written `written` times when the strip's most written slot has
// `max_written`: 0.18 to 1 by the square root.
double stripShade(int64_t written, int64_t max_written);

// Draws the strip inside `rect` with a 1 px frame. Column edges are floored to whole device-independent
// pixels, so neighbours share an edge and no seam shows; exported at a higher resolution, to the pixels of
// the file. selectedSlot >= 0: a tick, 3 wide and 5 high, above the strip.
void paintAllocationStrip(QPainter& painter, const QRectF& rect, const analysis::HeadAllocation& allocation,
                          const Theme& theme, int selectedSlot);
// Left and right edge of position `at` (0 .. slots-1 in strip order) inside `rect`, as drawn.
std::pair<double, double> stripColumn(const QRectF& rect, int slots, int at);
// Slot under x, or -1.
int stripSlotAt(const QRectF& rect, const analysis::HeadAllocation& allocation, double x);

}  // namespace slotscope::views
