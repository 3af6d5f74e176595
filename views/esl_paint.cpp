#include "views/esl_paint.h"

#include <QPainter>
#include <QPainterPath>
#include <algorithm>
#include <cmath>

#include "views/format.h"
#include "views/theme.h"

namespace slotscope::views {

QString regimeName(analysis::Regime regime) {
  switch (regime) {
    case analysis::Regime::long_range:
      return QStringLiteral("long");
    case analysis::Regime::intermediate:
      return QStringLiteral("intermediate");
    case analysis::Regime::short_range:
      return QStringLiteral("short");
    case analysis::Regime::uniform:
      return QStringLiteral("uniform");
    case analysis::Regime::empty:
      break;
  }
  return QStringLiteral("empty");
}

double EslPanel::normalised(int slot) const {
  return esl && esl->tokens > 0 ? double(esl->esl[size_t(slot)]) / double(esl->tokens) : 0.0;
}

QColor eslBarColour(const EslPanel& panel, int slot, const Theme& theme) {
  QColor colour;
  if (panel.by_class && panel.allocation && size_t(slot) < panel.allocation->slot_class.size())
    colour = theme.roleColour(panel.allocation->slot_class[size_t(slot)]);
  else
    colour = theme.regimeColour(panel.esl->regime[size_t(slot)]);
  return theme.dark ? colour : mix(QColor(Qt::white), colour, 0.12);
}

double eslY(const EslPanel& panel, const QRectF& plot, double normalised) {
  return plot.bottom() - plot.height() * normalised / (panel.y_max > 0 ? panel.y_max : 1.0);
}

QRectF eslBar(const EslPanel& panel, const QRectF& plot, int at) {
  const int slots = panel.slots();
  if (slots == 0 || at < 0 || at >= slots) return {};
  const double width = plot.width() / slots;
  const double left = std::floor((plot.left() + at * width) / panel.pixel) * panel.pixel;
  double right = std::floor((plot.left() + (at + 1) * width) / panel.pixel) * panel.pixel;
  if (width >= 6) right -= 1;  // surface gap
  if (right <= left) right = left + panel.pixel;
  const double value = panel.normalised(panel.esl->order[size_t(at)]);
  double top = std::round(std::max(plot.top(), eslY(panel, plot, value)) / panel.pixel) * panel.pixel;
  // A written slot is never drawn as nothing.
  if (value > 0) top = std::min(top, plot.bottom() - panel.pixel);
  return {left, top, right - left, plot.bottom() - top};
}

int eslBarAt(const EslPanel& panel, const QRectF& plot, double x) {
  const int slots = panel.slots();
  if (slots == 0 || x < plot.left() || x >= plot.right()) return -1;
  const double width = plot.width() / slots;
  int at = std::clamp(int((x - plot.left()) / width), 0, slots - 1);
  while (at + 1 < slots && x >= std::floor(plot.left() + (at + 1) * width)) ++at;  // edges are floored
  return at;
}

QString fitText(const analysis::EslFit& fit) {
  if (!fit.valid) return {};
  const QString gap = QStringLiteral("    ");
  return QStringLiteral("fit  c·e^(−i/λ)") + gap + QStringLiteral("c = ") + signedNumber(fit.c, 3) + gap +
         QStringLiteral("λ = ") +
         (std::isfinite(fit.lambda) ? signedNumber(fit.lambda, 1) + QStringLiteral(" slots")
                                    : QStringLiteral("∞")) +
         gap + QStringLiteral("R² = ") + (std::isnan(fit.r2) ? QStringLiteral("–") : signedNumber(fit.r2, 3));
}

QVector<double> roundTicks(double top, int most, bool whole) {
  QVector<double> ticks{0};
  if (!(top > 0) || !std::isfinite(top) || most < 1) return ticks;
  double step = std::pow(10.0, std::floor(std::log10(top / most)));
  while (true) {
    bool done = false;
    for (const double factor : {1.0, 2.0, 5.0})
      if (top / (step * factor) <= most + 1e-9) {
        step *= factor;
        done = true;
        break;
      }
    if (done) break;
    step *= 10;
  }
  if (whole) step = std::max(1.0, std::ceil(step));
  for (int i = 1; i * step <= top * (1 + 1e-9); ++i) ticks.push_back(i * step);
  return ticks;
}

QVector<double> slotTicks(int slots, double width, double least_gap) {
  QVector<double> ticks;
  if (slots <= 0) return ticks;
  const int most = std::max(1, int(width / least_gap));
  int step = 1;
  // Slot counts are powers of two as a rule: steps of 1, 2, 4, ... end exactly at the last slot.
  while (slots / step > most || slots / step > 8) step *= 2;
  for (int t = 0; t <= slots; t += step) ticks.push_back(t);
  if (slots % step != 0) {
    if (slots - ticks.back() < step / 2.0 && ticks.size() > 1) ticks.removeLast();
    ticks.push_back(slots);
  }
  return ticks;
}

void paintEslBars(QPainter& painter, const EslPanel& given, const QRectF& plot, const Theme& theme,
                  double fit_width) {
  if (!given.esl) return;
  EslPanel panel = given;
  panel.pixel = 1 / std::max(1.0, painter.deviceTransform().m11());
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing, false);
  const int slots = panel.slots();
  for (int at = 0; at < slots; ++at) {
    const int slot = panel.esl->order[size_t(at)];
    if (panel.esl->esl[size_t(slot)] == 0) break;  // sorted: only empty ones follow
    painter.fillRect(eslBar(panel, plot, at), eslBarColour(panel, slot, theme));
  }
  const auto& fit = panel.esl->fit;
  if (fit.valid && panel.esl->used > 0) {
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setClipRect(plot, Qt::IntersectClip);
    QPainterPath path;
    // Bar i is drawn over i .. i+1, so the curve's i sits at its middle.
    const double last = slots - 0.5, step = std::max(0.05, slots / std::max(1.0, plot.width()));
    bool first = true;
    for (double i = 0;; i = std::min(i + step, last)) {
      const double value = std::isfinite(fit.lambda) ? fit.c * std::exp(-i / fit.lambda) : fit.c;
      const QPointF point(plot.left() + (i + 0.5) / slots * plot.width(), eslY(panel, plot, value));
      if (first)
        path.moveTo(point);
      else
        path.lineTo(point);
      first = false;
      if (i >= last) break;
    }
    painter.setPen(QPen(theme.fit, fit_width));
    painter.setBrush(Qt::NoBrush);
    painter.drawPath(path);
  }
  painter.restore();
}

}  // namespace slotscope::views
