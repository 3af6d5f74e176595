#include "views/key_plot.h"

#include <QFontMetricsF>
#include <QPainter>
#include <QPainterPath>
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "views/format.h"
#include "views/heatmap_paint.h"
#include "views/theme.h"

namespace slotscope::views {

namespace {

struct Axis {
  QRectF plot;
  CellRange tokens;
  double x(double token) const {
    return plot.left() + (token - double(tokens.first)) * plot.width() / double(tokens.second - tokens.first);
  }
  double y(double share) const { return plot.bottom() - share * plot.height(); }
};

QString familyName(const std::string& family) {
  QString name = QString::fromStdString(family).replace(QLatin1Char('_'), QLatin1Char(' '));
  if (name.size() <= 4) return name.toUpper();
  name[0] = name[0].toUpper();
  return name;
}

void paintFrame(QPainter& p, const Axis& axis, const KeyPlotScene& s, const Theme& theme, double k) {
  p.setFont(theme.label());
  const QFontMetricsF m(p.font());
  for (const int percent : {0, 50, 100}) {
    const double y = std::round(axis.y(percent / 100.0));
    if (percent > 0) p.fillRect(QRectF(axis.plot.left(), y, axis.plot.width(), 1), theme.line);
    p.fillRect(QRectF(axis.plot.left() - 5, y, 5, 1), theme.lineStrong);
    p.setPen(theme.text2);
    p.drawText(QRectF(axis.plot.left() - 60 * k, y - 9 * k, 60 * k - 9, 18 * k), Qt::AlignRight | Qt::AlignVCenter,
               QString::number(percent));
  }
  p.fillRect(QRectF(axis.plot.left(), axis.plot.top(), 1, axis.plot.height() + 1), theme.lineStrong);
  p.fillRect(QRectF(axis.plot.left(), axis.plot.bottom(), axis.plot.width(), 1), theme.lineStrong);
  const QString title = QStringLiteral("key left, %");
  p.save();
  p.translate(axis.plot.left() - 48 * k, axis.plot.center().y());
  p.rotate(-90);
  p.setPen(theme.text2);
  p.drawText(QRectF(-60 * k, -9 * k, 120 * k, 18 * k), Qt::AlignCenter, title);
  p.restore();
  QRectF chip;
  if (s.selected >= axis.tokens.first && s.selected < axis.tokens.second) {
    const double half = 24 * k;
    chip = QRectF(axis.x(double(s.selected) + 0.5) - half, axis.plot.bottom(), 2 * half, 22 * k);
  }
  const int64_t step = tickStep(axis.plot.width() / double(axis.tokens.second - axis.tokens.first), 60 * k);
  const int64_t offset = s.count_from_one ? 1 : 0;
  for (int64_t label = (axis.tokens.first + offset + step - 1) / step * step; label - offset < axis.tokens.second;
       label += step) {
    const int64_t t = label - offset;
    if (t < axis.tokens.first) continue;
    const double x = std::round(axis.x(double(t)));
    p.fillRect(QRectF(x, axis.plot.bottom() + 1, 1, 4), theme.lineStrong);
    const QString text = count(label);
    const double width = m.horizontalAdvance(text);
    const QRectF box(std::round(x - width / 2), axis.plot.bottom() + 6, width, m.height());
    if (!chip.isNull() && box.right() > chip.left() && box.left() < chip.right()) continue;
    p.setPen(theme.text2);
    p.drawText(QPointF(box.left(), box.top() + m.ascent()), text);
  }
  p.setPen(theme.text2);
  p.drawText(QRectF(axis.plot.left(), axis.plot.bottom() + 22 * k, axis.plot.width(), 14 * k), Qt::AlignCenter,
             QStringLiteral("token position"));
}

// Positions on A's axis of the tokens of B; the middle of a token is where its value stands.
double placeOf(const CompareModel& model, bool b, int64_t token) {
  if (!b || model.tokens().same_tokens) return double(token) + 0.5;
  const int64_t at = model.tokens().a_of(token);
  return at < 0 ? std::nan("") : double(at) + 0.5;
}

void paintCurve(QPainter& p, const Axis& axis, const CompareModel& model, bool b, const Theme& theme) {
  const analysis::KeyCurve& curve = b ? model.b().key : model.a().key;
  QPainterPath path;
  bool drawing = false;
  // Points closer than a quarter of a pixel, and those on a level stretch, are left out; the last of them is kept
  // back until it is known whether the line goes on from it.
  std::optional<QPointF> skipped;
  QPointF last;
  const auto finish = [&] {
    if (skipped) path.lineTo(*std::exchange(skipped, std::nullopt));
  };
  for (size_t i = 0; i < curve.left.size(); ++i) {
    const double place = placeOf(model, b, curve.first + int64_t(i)), v = curve.left[i];
    if (std::isnan(place) && !std::isnan(v)) continue;  // a token without a place of its own
    if (std::isnan(v)) {
      finish();
      drawing = false;
      continue;
    }
    const QPointF at(axis.x(place), axis.y(std::clamp(v, 0.0, 1.05)));
    if (drawing && (at.x() - last.x() < 0.25 || std::abs(at.y() - last.y()) < 0.05)) {
      skipped = at;
      continue;
    }
    finish();
    if (drawing)
      path.lineTo(at);
    else
      path.moveTo(at);
    drawing = true;
    last = at;
  }
  finish();
  if (path.isEmpty()) return;
  p.save();
  p.setRenderHint(QPainter::Antialiasing, true);
  p.setClipRect(axis.plot.adjusted(-1, -8, 1, 2), Qt::IntersectClip);
  QPen pen(b ? theme.modelB : theme.modelA, 2);
  pen.setCapStyle(Qt::FlatCap);
  pen.setJoinStyle(Qt::RoundJoin);
  if (b) pen.setDashPattern({4, 2});
  p.setPen(pen);
  p.setBrush(Qt::NoBrush);
  p.drawPath(path);
  p.restore();
}

struct DirectLabel {
  QString text;
  QColor colour;
  double line = 0;   // y of the curve at the end of the label
  double above = 0;  // and where it is highest
  double top = 0;
};

// Names at the curves: above them, kept apart and inside of the plot.
void paintLabels(QPainter& p, const Axis& axis, const CompareModel& model, double right, const Theme& theme, double k) {
  std::vector<DirectLabel> labels;
  for (const bool b : {false, true}) {
    const CompareSide& side = b ? model.b() : model.a();
    const analysis::KeyCurve& curve = side.key;
    if (curve.left.empty()) continue;
    const bool at_query = curve.query >= curve.first && !std::isnan(curve.at_query);
    const double value = at_query ? curve.at_query : curve.left.back();
    if (std::isnan(value)) continue;
    DirectLabel label;
    label.text = (b ? QStringLiteral("B  ") : QStringLiteral("A  ")) + shortName(model, b) + QStringLiteral("  ") +
                 (value > 0 && value < 0.001 ? QStringLiteral("under 0.1 % left")
                  : value > 0 && value < 0.01 ? QStringLiteral("%1 % left").arg(100 * value, 0, 'f', 1)
                                              : QStringLiteral("%1 % left").arg(std::lround(100 * value)));
    label.colour = b ? theme.modelB : theme.modelA;
    label.line = axis.y(std::clamp(value, 0.0, 1.0));
    // Above the curve along the whole of its length: curves fall, so its left end is the highest.
    const double from = right - 12 - QFontMetricsF(theme.labelSemibold()).horizontalAdvance(label.text);
    label.above = label.line;
    for (size_t i = 0; i < curve.left.size(); ++i) {
      const double x = axis.x(placeOf(model, b, curve.first + int64_t(i)));
      if (x >= from && x <= right && !std::isnan(curve.left[i]))
        label.above = std::min(label.above, axis.y(std::clamp(curve.left[i], 0.0, 1.0)));
    }
    labels.push_back(label);
  }
  p.setFont(theme.labelSemibold());
  const double height = std::ceil(QFontMetricsF(p.font()).height());
  std::sort(labels.begin(), labels.end(), [](const auto& x, const auto& y) { return x.line < y.line; });
  for (auto& label : labels) label.top = std::max(axis.plot.top() - 6 * k, label.above - height - 4 * k);
  if (labels.size() == 2 && labels[1].top < std::max(labels[0].top + height, labels[0].line + 2)) {
    // Between two close lines there is no room for the lower name: it goes below its line, or over the upper name's line.
    if (labels[1].line + 2 * k + height <= axis.plot.bottom() + 1) {
      labels[1].top = std::max(labels[1].line + 2 * k, labels[0].top + height);
    } else {
      labels[1].top = labels[0].above - height - 4 * k;
      labels[0].top = labels[1].top - height;
    }
  }
  for (const auto& label : labels) {
    p.setPen(label.colour);
    p.drawText(QRectF(axis.plot.left() + 4, label.top, right - axis.plot.left() - 8, height),
               Qt::AlignRight | Qt::AlignVCenter, label.text);
  }
}

}  // namespace

QString shortName(const CompareModel& model, bool b) {
  const auto& run = b ? model.b().run : model.a().run;
  if (!run) return {};
  if (model.familiesDiffer() && run->trace) return familyName(run->trace->model().family);
  QString name = run->model_name;
  return name.size() <= 20 ? name : name.left(9) + QChar(0x2026) + name.right(10);
}

QString keyReason(const CompareSide& side, const QString& letter) {
  if (!side.run || !side.key.left.empty() || side.key.why.empty()) return {};
  return letter + QStringLiteral(": ") + QString::fromStdString(side.key.why);
}

QRectF keyPlotArea(const QRectF& area, const KeyPlotScene& s, double k) {
  const double top = (s.title ? kCompareHeader + 14 : 14) * k;
  return {QPointF(area.left() + HeatmapGeometry::kLeft * k, area.top() + top),
          QPointF(area.right() - HeatmapGeometry::kPaneRight * k, area.bottom() - 42 * k)};
}

int64_t keyTokenAt(const QRectF& plot, const KeyPlotScene& s, double x) {
  const double share = (x - plot.left()) / std::max(1.0, plot.width());
  const auto width = double(s.tokens.second - s.tokens.first);
  return std::clamp<int64_t>(s.tokens.first + int64_t(std::floor(share * width)), s.tokens.first, s.tokens.second - 1);
}

void paintBadge(QPainter& p, const QRectF& box, const QString& letter, const QColor& colour, const Theme& theme) {
  p.save();
  p.setRenderHint(QPainter::Antialiasing, true);
  p.setPen(Qt::NoPen);
  p.setBrush(colour);
  p.drawRoundedRect(box, 3, 3);
  p.setPen(theme.surface);
  p.setFont(theme.labelSemibold());
  p.drawText(box, Qt::AlignCenter, letter);
  p.restore();
}

void paintKeyPlot(QPainter& p, const QRectF& area, const KeyPlotScene& s, const Theme& theme) {
  const double k = theme.base / 12;
  p.save();
  p.setRenderHint(QPainter::Antialiasing, false);
  const Axis axis{keyPlotArea(area, s, k), s.tokens};
  if (s.title) {
    const double middle = area.top() + kCompareHeader * k / 2;
    paintBadge(p, {area.left() + 10, middle - 8 * k, 18 * k, 16 * k}, QStringLiteral("≈"), theme.text2, theme);
    p.setFont(theme.semibold());
    p.setPen(theme.text);
    const QString title = QStringLiteral("Is the key still there?");
    const double left = area.left() + 10 + 26 * k, width = QFontMetricsF(p.font()).horizontalAdvance(title);
    p.drawText(QRectF(left, middle - 10 * k, width + 2, 20 * k), Qt::AlignVCenter, title);
    p.setFont(theme.label());
    p.setPen(theme.text2);
    const double from = left + width + 16 * k;
    const QString about = QStringLiteral("share of the key tokens’ write strength that is left in this head; dashed line: the query");
    p.drawText(QRectF(from, middle - 10 * k, std::max(0.0, area.right() - from - 10), 20 * k), Qt::AlignVCenter,
               QFontMetricsF(p.font()).elidedText(about, Qt::ElideRight, std::max(0.0, area.right() - from - 10)));
  }
  paintFrame(p, axis, s, theme, k);
  const CompareModel& model = *s.model;
  const auto column = [&](int64_t token, const QColor& colour) {
    if (token < s.tokens.first || token >= s.tokens.second) return;
    p.fillRect(QRectF(std::floor(axis.x(double(token) + 0.5)), axis.plot.top(), 1, axis.plot.height()), colour);
  };
  QColor faint = theme.selection;
  faint.setAlphaF(0.6f);
  column(s.selected, faint);
  column(s.hovered, theme.lineStrong);
  // One line where both ask at the same place, else one in each model's colour.
  const auto line = [&](double place, const QColor& colour) {
    if (std::isnan(place) || place < double(s.tokens.first) || place > double(s.tokens.second)) return;
    const double x = std::floor(axis.x(place)) + 0.5;
    p.setPen(QPen(colour, 1, Qt::DashLine));
    p.drawLine(QPointF(x, axis.plot.top()), QPointF(x, axis.plot.bottom()));
  };
  const int64_t query_a = model.a().key.query, query_b = model.b().key.query;
  const double place_a = query_a < 0 ? std::nan("") : placeOf(model, false, query_a),
               place_b = query_b < 0 || !model.b().run ? std::nan("") : placeOf(model, true, query_b);
  const bool same = place_a == place_b || std::isnan(place_b);
  line(place_a, same ? theme.text2 : theme.modelA);
  if (!same) line(place_b, theme.modelB);
  paintCurve(p, axis, model, false, theme);
  paintCurve(p, axis, model, true, theme);
  double right = axis.plot.right();
  const double query_x = std::isnan(place_a) ? axis.plot.right() : axis.x(place_a);
  if (query_x > axis.plot.left() + axis.plot.width() / 2 && query_x < axis.plot.right()) right = query_x - 8 * k;
  paintLabels(p, axis, model, right, theme, k);
  QStringList reasons;
  for (const QString& reason : {keyReason(model.a(), QStringLiteral("A")), keyReason(model.b(), QStringLiteral("B"))})
    if (!reason.isEmpty()) reasons << reason;
  if (!reasons.isEmpty()) {
    // In the half that the other curve leaves free, on a ground of its own.
    const auto& other = model.a().key.left.empty() ? model.b().key : model.a().key;
    const double stands = other.left.empty() ? 1 : std::isnan(other.at_query) ? other.left.back() : other.at_query;
    p.setFont(theme.label());
    const QRectF room = axis.plot.adjusted(10, 4, -10, -4);
    const int flags = int(Qt::AlignLeft | (stands > 0.5 ? Qt::AlignBottom : Qt::AlignTop)) | Qt::TextWordWrap;
    const QString text = reasons.join(QLatin1Char('\n'));
    p.fillRect(p.boundingRect(room, flags, text).adjusted(-4, -1, 4, 1), theme.surface);
    p.setPen(theme.text2);
    p.drawText(room, flags, text);
  }
  if (s.selected >= s.tokens.first && s.selected < s.tokens.second) {
    QString text = count(shown(s.selected, s.count_from_one));
    const double width = std::max(chipWidth(text, theme), 36.0 * k);
    const double x = std::clamp(std::round(axis.x(double(s.selected) + 0.5) - width / 2), area.left() + 2,
                                std::max(area.left() + 2, area.right() - width - 2));
    paintChip(p, {x, axis.plot.bottom() + 4, width, 16 * k}, text, theme);
  }
  p.restore();
}

}  // namespace slotscope::views
