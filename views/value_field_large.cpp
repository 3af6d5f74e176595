// One panel of a value field large: its codes' regions, its slots or stored keys, and its numbers.
#include <QPainter>
#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/analysis/product_code.h"
#include "views/format.h"
#include "views/value_field_paint.h"

namespace slotscope::views {

using analysis::FieldKind;
using analysis::FieldPanel;
using analysis::FieldResult;
using analysis::FieldSettings;
using analysis::FieldSpace;

namespace {

constexpr double kTurn = 2 * std::numbers::pi;

// White with a dark line under it, so that it is seen on every colour.
void paleLine(QPainter& painter, const QPointF& a, const QPointF& b) {
  painter.setPen(QPen(QColor(0x17, 0x1B, 0x22, 90), 2));
  painter.drawLine(a, b);
  painter.setPen(QPen(QColor(255, 255, 255, 150), 1));
  painter.drawLine(a, b);
}

// Where one code gives way to the next: lines half-way between codes (torus), rays (plane).
void drawCodeBorders(QPainter& painter, const QRectF& panel, const FieldSettings& s, int codes) {
  painter.save();
  painter.setClipRect(panel, Qt::IntersectClip);
  painter.setRenderHint(QPainter::Antialiasing, s.space == FieldSpace::plane);
  for (int j = 0; j < codes; ++j) {
    const double angle = kTurn * (j + 0.5) / codes;
    if (s.space == FieldSpace::torus) {
      const QPointF at = fieldPoint(s, panel, angle, angle);
      const double x = std::floor(at.x()) + 0.5, y = std::floor(at.y()) + 0.5;
      paleLine(painter, {x, panel.top()}, {x, panel.bottom()});
      paleLine(painter, {panel.left(), y}, {panel.right(), y});
    } else {
      paleLine(painter, fieldPoint(s, panel, 0, 0), fieldPoint(s, panel, 3 * s.extent * std::cos(angle), 3 * s.extent * std::sin(angle)));
    }
  }
  painter.restore();
}

// A square per slot at its codes: area by mass, colour by value. Unwritten slots are small crosses.
void drawSlots(QPainter& painter, const QRectF& panel, const FieldSettings& s, const FieldPanel& p, const FieldResult& field, const Theme& theme) {
  const auto book = analysis::circular_codebook(p.codes);
  const double k = theme.base / 12, most_mass = *std::max_element(field.mass.begin(), field.mass.end());
  const double pitch = s.space == FieldSpace::torus ? panel.width() / p.codes : panel.width() / s.extent * std::numbers::pi / p.codes;
  const double largest = std::clamp(0.34 * pitch, 4.0, 26 * k);
  painter.save();
  painter.setClipRect(panel.adjusted(-largest, -largest, largest, largest), Qt::IntersectClip);
  painter.setRenderHint(QPainter::Antialiasing, false);
  for (size_t slot = 0; slot < field.mass.size(); ++slot) {
    const size_t a = slot % size_t(p.codes), b = slot / size_t(p.codes);
    const QPointF at = s.space == FieldSpace::torus ? fieldPoint(s, panel, kTurn * double(a) / p.codes, kTurn * double(b) / p.codes)
                                                     : fieldPoint(s, panel, book.cos[a], book.sin[a]);
    const QPointF middle(std::floor(at.x()) + 0.5, std::floor(at.y()) + 0.5);
    if (!(field.mass[slot] > 0)) {
      painter.setPen(QPen(QColor(255, 255, 255, 190), 1));
      painter.drawLine(middle - QPointF(2, 2), middle + QPointF(2, 2));
      painter.drawLine(middle - QPointF(2, -2), middle + QPointF(2, -2));
      continue;
    }
    const double side = std::max(3.0, std::round(largest * std::sqrt(field.mass[slot] / most_mass)));
    const QRectF square(std::floor(middle.x() - side / 2) + 0.5, std::floor(middle.y() - side / 2) + 0.5, side, side);
    painter.setPen(QPen(QColor(0x171B22), 1));
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(square.adjusted(-1, -1, 1, 1));
    painter.setPen(QPen(Qt::white, 1));
    painter.setBrush(fieldColour(s, &field.state[slot * size_t(s.channels)]));
    painter.drawRect(square);
  }
  painter.restore();
}

// Keys as a quantised memory holds them: diamonds, tied to the keys they stand for.
void drawStored(QPainter& painter, const QRectF& panel, const FieldSettings& s, const FieldResult& field, const std::vector<analysis::FieldKey>& keys, const Theme& theme) {
  const double k = theme.base / 12;
  painter.save();
  painter.setClipRect(panel.adjusted(-6, -6, 6, 6), Qt::IntersectClip);
  painter.setRenderHint(QPainter::Antialiasing);
  for (size_t i = 0; i < field.stored.size() && i < keys.size(); ++i) {
    const QPointF from = fieldPoint(s, panel, keys[i].x, keys[i].y), to = fieldPoint(s, panel, field.stored[i].x, field.stored[i].y);
    // Over the edge of the torus the way is the other one: then no line.
    if (std::abs(from.x() - to.x()) < panel.width() / 2 && std::abs(from.y() - to.y()) < panel.height() / 2) paleLine(painter, from, to);
    const double r = 6 * k;
    const QPolygonF diamond{{to + QPointF(0, -r), to + QPointF(r, 0), to + QPointF(0, r), to + QPointF(-r, 0)}};
    painter.setPen(QPen(QColor(0x171B22), 3));
    painter.setBrush(Qt::NoBrush);
    painter.drawPolygon(diamond);
    painter.setPen(QPen(Qt::white, 1.2));
    painter.setBrush(fieldColour(s, field.stored[i].value.data()));
    painter.drawPolygon(diamond);
  }
  painter.restore();
}

QString plain(double v) { return QString::number(v, 'g', 4); }

QVector<std::pair<QString, QString>> numbersOf(const FieldSettings& s, const FieldPanel& p, const FieldResult& field, double row, double star) {
  QVector<std::pair<QString, QString>> rows;
  if (p.kind == FieldKind::full_attention) return {{QStringLiteral("keys"), count(qint64(s.keys.size()))}, {QStringLiteral("τ"), plain(s.tau)}};
  rows.push_back({QStringLiteral("RMSE to full attention"), QString::number(field.rmse, 'f', 4)});
  if (p.kind == FieldKind::quantised) {
    if (p.quantiser != analysis::FieldQuantiser::none)
      rows.push_back({p.quantiser == analysis::FieldQuantiser::circular ? QStringLiteral("codes per factor") : QStringLiteral("centroids"), count(p.codes)});
    if (p.value_bits > 0) rows.push_back({QStringLiteral("bits of a value"), count(p.value_bits)});
  }
  if (p.kind == FieldKind::linear_features) rows.push_back({QStringLiteral("random features"), count(p.features)});
  if (p.kind != FieldKind::ramnet) return rows;
  const auto beta = [&](double times) { return std::isinf(row * times) ? QStringLiteral("∞") : plain(row * times * star); };
  rows.push_back({QStringLiteral("mean read mass on written slots"), QString::number(field.mean_read_mass, 'f', 4)});
  rows.push_back({QStringLiteral("mean write mass kept"), QString::number(field.mean_write_mass, 'f', 4)});
  rows.push_back({QStringLiteral("slots written"), QStringLiteral("%1 of %2").arg(count(field.written), count(qint64(field.mass.size())))});
  rows.push_back({QStringLiteral("codes per factor d"), count(p.codes)});
  rows.push_back({QStringLiteral("Top-K"), count(qint64(std::min<int64_t>(p.top_k, int64_t(field.mass.size()))))});
  rows.push_back({QStringLiteral("β read, write"), beta(p.beta_read) + QStringLiteral(", ") + beta(p.beta_write)});
  rows.push_back({QStringLiteral("readout"), p.mass_aware ? QStringLiteral("mass-aware") : p.divide ? QStringLiteral("standard, divided") : QStringLiteral("standard")});
  rows.push_back({QStringLiteral("update"), p.cumulative ? QStringLiteral("cumulative mean") : QStringLiteral("GSU, γ = %1").arg(plain(p.gamma))});
  if (field.empty_cells > 0) rows.push_back({QStringLiteral("queries that read nothing"), count(field.empty_cells)});
  return rows;
}

QString legendOf(const FieldPanel& p) {
  switch (p.kind) {
    case FieldKind::ramnet: return QStringLiteral("Squares: slots at their codes; area by retained mass, colour by stored value, a small cross where nothing was written. Lines: half-way between codes.");
    case FieldKind::quantised: return QStringLiteral("Diamonds: keys and values as they are stored, tied to the keys they stand for.");
    case FieldKind::full_attention: return QStringLiteral("Every key and value is kept as it is.");
    default: return QStringLiteral("Keys and values are summed into one state: there is nothing to draw at a place.");
  }
}

}  // namespace

void paintLargeField(QPainter& painter, const QRectF& area, const analysis::ValueField& field, int at, const Theme& theme, const FieldMarks& marks, FieldImages& images) {
  const FieldSettings& s = field.settings;
  if (at < 0 || at >= int(field.panels.size())) return;
  const size_t column = size_t(at) % s.columns.size(), row = size_t(at) / s.columns.size();
  const FieldPanel& p = s.columns[column];
  const FieldResult& result = *field.panels[size_t(at)];
  const double k = theme.base / 12;
  const QRectF panel = largeFieldPanel(area, theme);
  const auto& keys = marks.keys ? *marks.keys : s.keys;

  painter.setFont(theme.semibold());
  painter.setPen(theme.text);
  painter.drawText(QRectF(panel.left(), panel.top() - 26 * k, panel.width() + 200 * k, 20 * k), int(Qt::AlignLeft | Qt::AlignVCenter),
                   fieldTitle(s, column) + (p.kind == FieldKind::ramnet ? QStringLiteral(" · ") + fieldRowText(s.rows[row]) : QString()));
  const QImage& image = images.of(s, field.panels[size_t(at)]);
  painter.setRenderHint(QPainter::SmoothPixmapTransform, !marks.fine || panel.width() < 4 * image.width());
  painter.drawImage(panel, image);
  const bool circular = p.kind == FieldKind::ramnet || (p.kind == FieldKind::quantised && p.quantiser == analysis::FieldQuantiser::circular);
  if (circular && p.codes <= 64) drawCodeBorders(painter, panel, s, p.codes);
  if (p.kind == FieldKind::ramnet && !result.mass.empty()) drawSlots(painter, panel, s, p, result, theme);
  if (p.kind == FieldKind::quantised) drawStored(painter, panel, s, result, keys, theme);
  paintFieldMarks(painter, panel, s, theme, marks);

  // Numbers at the right, explanation under them.
  const double left = panel.right() + 24 * k, width = std::max(60.0, area.right() - left - 14 * k);
  double y = panel.top();
  painter.setFont(theme.label());
  const QFontMetricsF metrics(theme.label());
  for (const auto& [name, value] : numbersOf(s, p, result, s.rows[row], field.beta_star)) {
    painter.setPen(theme.text2);
    painter.drawText(QRectF(left, y, width, 20 * k), int(Qt::AlignLeft | Qt::AlignVCenter), metrics.elidedText(name, Qt::ElideRight, width - metrics.horizontalAdvance(value) - 8));
    painter.setPen(theme.text);
    painter.drawText(QRectF(left, y, width, 20 * k), int(Qt::AlignRight | Qt::AlignVCenter), value);
    y += 20 * k;
  }
  painter.setPen(theme.text3);
  painter.drawText(QRectF(left, y + 10 * k, width, 200 * k), int(Qt::AlignLeft | Qt::AlignTop) | Qt::TextWordWrap, legendOf(p));
}

}  // namespace slotscope::views
