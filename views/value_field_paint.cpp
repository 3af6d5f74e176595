#include "views/value_field_paint.h"

#include <QPainter>
#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/analysis/product_code.h"
#include "views/caption.h"
#include "views/format.h"

namespace slotscope::views {

using analysis::FieldKind;
using analysis::FieldResult;
using analysis::FieldSettings;
using analysis::FieldSpace;

namespace {

// At base 12: room for row names and y labels, right edge, between panels, caption of a panel, line below all.
constexpr double kLeft = 75, kRight = 15, kGap = 10, kCaption = 26, kFoot = 26, kTop = 14, kHeaderLine = 15, kLeastPanel = 84,
                 kFigurePanel = 122, kWidestPanel = 460;
constexpr double kTurn = 2 * std::numbers::pi;

bool hasTwoLines(const FieldSettings& s) {
  for (const auto& p : s.columns)
    if (analysis::field_title(p, s.space).find('\n') != std::string::npos) return true;
  return false;
}
double headerHeight(const FieldSettings& s, const Theme& theme) {
  return (kTop + (hasTwoLines(s) ? 2 : 1) * kHeaderLine) * theme.base / 12;
}
double widthFor(const FieldSettings& s, double width, double k) {
  const double n = double(s.columns.size());
  return std::clamp(std::floor((width - (kLeft + kRight) * k - (n - 1) * kGap * k) / n), 8.0, kWidestPanel * k);
}

const QVector<QRgb>& viridis() {
  static const QVector<QRgb> map = colourMap(QStringLiteral("viridis"), true, false, false);
  return map;
}

QRgb colourOf(const double* v, int channels, double low, double high) {
  const auto part = [](double x) { return std::isnan(x) ? 0.0 : std::clamp(x, 0.0, 1.0); };
  if (channels == 3) return qRgb(int(std::lround(255 * part(v[0]))), int(std::lround(255 * part(v[1]))), int(std::lround(255 * part(v[2]))));
  return viridis()[int(std::lround(255 * part((v[0] - low) / (high - low))))] | 0xFF000000U;
}

QString bound(double v) { return signedNumber(v, v == std::round(v) ? 0 : v * 10 == std::round(v * 10) ? 1 : 2); }

void drawKey(QPainter& painter, const QPointF& at, const QColor& fill, double k, const QColor& ring) {
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(Qt::NoPen);
  if (ring.isValid()) {
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(ring, 2 * k));
    painter.drawEllipse(at, 8 * k, 8 * k);
    painter.setPen(Qt::NoPen);
  }
  painter.setBrush(QColor(0x171B22));
  painter.drawEllipse(at, 5 * k, 5 * k);
  painter.setBrush(Qt::white);
  painter.drawEllipse(at, 4.2 * k, 4.2 * k);
  painter.setBrush(fill);
  painter.drawEllipse(at, 2.9 * k, 2.9 * k);
}

void drawCross(QPainter& painter, const QPointF& at, double k) {
  painter.setRenderHint(QPainter::Antialiasing, false);
  const QPointF middle(std::floor(at.x()) + 0.5, std::floor(at.y()) + 0.5);
  for (const auto& [colour, width] : {std::pair<QColor, double>{QColor(0x171B22), 3}, {Qt::white, 1}}) {
    painter.setPen(QPen(colour, width * k, Qt::SolidLine, Qt::FlatCap));
    const double reach = (width > 1 ? 8.5 : 7.5) * k;
    painter.drawLine(middle - QPointF(reach, 0), middle + QPointF(reach, 0));
    painter.drawLine(middle - QPointF(0, reach), middle + QPointF(0, reach));
  }
}

void drawImage(QPainter& painter, const QRectF& panel, const QImage& image, bool fine) {
  // Where cells are smaller than a few pixels they are smoothed, else every query is a square of its own.
  const double cell = panel.width() * painter.device()->devicePixelRatioF() * painter.transform().m11() / std::max(1, image.width());
  painter.setRenderHint(QPainter::SmoothPixmapTransform, !fine || cell < 4);
  painter.drawImage(panel, image);
  painter.setRenderHint(QPainter::SmoothPixmapTransform, false);
}

void drawFrame(QPainter& painter, const QRectF& panel, const Theme& theme, bool focused) {
  painter.setRenderHint(QPainter::Antialiasing, false);
  painter.setBrush(Qt::NoBrush);
  painter.setPen(QPen(focused ? theme.selection : theme.lineStrong, focused ? 2 : 1));
  painter.drawRect(panel.adjusted(-0.5, -0.5, 0.5, 0.5));
}

void drawMarks(QPainter& painter, const QRectF& panel, const FieldSettings& s, const Theme& theme, const FieldMarks& marks) {
  const double k = theme.base / 12;
  const auto& keys = marks.keys ? *marks.keys : s.keys;
  const double key_size = k * (panel.width() > 300 * k ? 1.4 : std::clamp(panel.width() / (110 * k), 0.55, 1.0)) *
                          std::clamp(std::sqrt(24.0 / double(std::max<size_t>(1, keys.size()))), 0.5, 1.0);  // fields are seen between keys
  painter.save();
  painter.setClipRect(panel.adjusted(-6 * k, -6 * k, 6 * k, 6 * k), Qt::IntersectClip);
  if (!s.queries.empty()) {
    painter.setRenderHint(QPainter::Antialiasing);
    for (const auto& [colour, radius] : {std::pair<QColor, double>{QColor(0x17, 0x1B, 0x22, 140), 1.9}, {QColor(255, 255, 255, 220), 1.1}}) {
      painter.setPen(Qt::NoPen);
      painter.setBrush(colour);
      for (const auto& q : s.queries) painter.drawEllipse(fieldPoint(s, panel, q[0], q[1]), radius * key_size, radius * key_size);
    }
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    const QColor ring = int(i) == marks.selected ? theme.selection : int(i) == marks.hovered ? theme.hover : QColor();
    drawKey(painter, fieldPoint(s, panel, keys[i].x, keys[i].y), fieldColour(s, keys[i].value.data()), key_size, ring);
  }
  if (marks.cross) drawCross(painter, fieldPoint(s, panel, marks.cross->x(), marks.cross->y()), key_size);
  painter.restore();
}

void drawAxisNames(QPainter& painter, const QRectF& panel, const FieldSettings& s, const Theme& theme) {
  const double k = theme.base / 12;
  const bool torus = s.space == FieldSpace::torus;
  painter.setFont(theme.micro());
  painter.setPen(theme.text2);
  const auto at = [&](double y, const QString& text) {
    painter.drawText(QRectF(panel.left() - 60 * k, y - 8 * k, 54 * k, 16 * k), int(Qt::AlignRight | Qt::AlignVCenter), text);
  };
  at(panel.top() + 2 * k, torus ? QStringLiteral("2π") : bound(s.extent));
  at(panel.center().y(), torus ? QStringLiteral("φ₁") : QStringLiteral("q₁"));
  at(panel.bottom() - 2 * k, torus ? QStringLiteral("0") : bound(-s.extent));
}

void drawHeader(QPainter& painter, const QRectF& panel, const FieldSettings& s, size_t column, const Theme& theme, double gap) {
  const QStringList lines = QString::fromStdString(analysis::field_title(s.columns[column], s.space)).split(QLatin1Char('\n'));
  const double k = theme.base / 12, line = kHeaderLine * k;
  painter.setFont(s.columns[column].kind == FieldKind::full_attention ? theme.semibold() : theme.ui);
  painter.setPen(theme.text);
  for (const QString& text : lines)
    if (QFontMetricsF(painter.font(), painter.device()).horizontalAdvance(text) > panel.width() + gap) {
      painter.setFont(theme.micro());
      break;
    }
  const QFontMetricsF metrics(painter.font(), painter.device());
  for (qsizetype i = 0; i < lines.size(); ++i) {
    const double bottom = panel.top() - 3 * k - double(lines.size() - 1 - i) * line;
    painter.drawText(QRectF(panel.left() - gap / 2, bottom - line - 2, panel.width() + gap, line + 2), int(Qt::AlignHCenter | Qt::AlignBottom),
                     metrics.elidedText(lines[i], Qt::ElideRight, panel.width() + gap - 2));
  }
}

QString footText(const FieldSettings& s) {
  return s.space == FieldSpace::torus
             ? QStringLiteral("query angle φ₀ (factor 0) from 0 to 2π in every panel; φ₁ (factor 1) upwards")
             : QStringLiteral("query coordinate q₀ from %1 to %2 in every panel; q₁ upwards").arg(bound(-s.extent), bound(s.extent));
}

bool anyMemory(const FieldSettings& s) {
  return std::any_of(s.columns.begin(), s.columns.end(), [](const auto& p) { return p.kind == FieldKind::ramnet; });
}

}  // namespace

void paintFieldMarks(QPainter& painter, const QRectF& panel, const FieldSettings& s, const Theme& theme, const FieldMarks& marks) {
  drawFrame(painter, panel, theme, false);
  drawAxisNames(painter, panel, s, theme);
  const double k = theme.base / 12;
  const bool torus = s.space == FieldSpace::torus;
  const auto at = [&](double x, const QString& text) {
    painter.drawText(QRectF(x - 40 * k, panel.bottom() + 2 * k, 80 * k, 17 * k), Qt::AlignCenter, text);
  };
  at(panel.left(), torus ? QStringLiteral("0") : bound(-s.extent));
  at(panel.center().x(), torus ? QStringLiteral("φ₀") : QStringLiteral("q₀"));
  at(panel.right(), torus ? QStringLiteral("2π") : bound(s.extent));
  drawMarks(painter, panel, s, theme, marks);
}

int FieldGeometry::at(const QPointF& point, double margin) const {
  for (qsizetype i = 0; i < panels.size(); ++i)
    if (panels[i].adjusted(-margin, -margin, margin, margin).contains(point)) return int(i);
  return -1;
}

FieldGeometry fieldGeometry(const FieldSettings& s, const QRectF& area, const Theme& theme) {
  const double k = theme.base / 12;
  FieldGeometry g;
  g.area = area;
  g.rows = int(s.rows.size()), g.columns = int(s.columns.size());
  g.header = headerHeight(s, theme);
  const double by_height = std::floor((area.height() - g.header - kFoot * k) / std::max(1, g.rows) - kCaption * k);
  g.size = std::min(widthFor(s, area.width(), k), std::max(kLeastPanel * k, by_height));
  const double wide = g.columns * g.size + (g.columns - 1) * kGap * k;
  // Panels that the height made smaller stand in the middle.
  const double left = std::floor(area.left() + kLeft * k + std::max(0.0, (area.width() - (kLeft + kRight) * k - wide) / 2));
  for (int row = 0; row < g.rows; ++row)
    for (int column = 0; column < g.columns; ++column)
      g.panels.push_back(QRectF(left + std::floor(column * (g.size + kGap * k)), std::floor(area.top() + g.header + row * (g.size + kCaption * k)), g.size, g.size));
  g.bottom = area.top() + g.header + g.rows * (g.size + kCaption * k) + kFoot * k;
  return g;
}

double fieldHeight(const FieldSettings& s, double width, const Theme& theme) {
  const double k = theme.base / 12, size = std::min(widthFor(s, width, k), kLeastPanel * k);
  return headerHeight(s, theme) + double(s.rows.size()) * (size + kCaption * k) + kFoot * k;
}

QSizeF fieldFigureSize(const FieldSettings& s) {
  const double n = double(s.columns.size()), panel = n <= 4 ? 190 : kFigurePanel;
  return {kLeft + kRight + n * panel + (n - 1) * kGap,
          kTop + (hasTwoLines(s) ? 2 : 1) * kHeaderLine + double(s.rows.size()) * (panel + kCaption) + kFoot + 26 + (s.origin.empty() ? 34 : 78)};
}

QRectF largeFieldPanel(const QRectF& area, const Theme& theme) {
  const double k = theme.base / 12;
  const double size = std::floor(std::max(40.0, std::min(area.height() - 70 * k, area.width() - 300 * k)));
  return {std::floor(area.left() + 60 * k), std::floor(area.top() + 32 * k), size, size};
}

QPointF fieldPoint(const FieldSettings& s, const QRectF& panel, double x, double y) {
  if (s.space == FieldSpace::torus) {
    const auto turn = [](double a) { return a - kTurn * std::floor(a / kTurn); };
    x = turn(x) / kTurn, y = turn(y) / kTurn;
  } else {
    x = (x + s.extent) / (2 * s.extent), y = (y + s.extent) / (2 * s.extent);
  }
  return {panel.left() + x * panel.width(), panel.bottom() - y * panel.height()};
}

QPointF fieldQuery(const FieldSettings& s, const QRectF& panel, const QPointF& point) {
  double x = (point.x() - panel.left()) / panel.width(), y = (panel.bottom() - point.y()) / panel.height();
  if (s.space == FieldSpace::torus) return {kTurn * (x - std::floor(x)), kTurn * (y - std::floor(y))};
  x = std::clamp(x, 0.0, 1.0), y = std::clamp(y, 0.0, 1.0);
  return {s.extent * (2 * x - 1), s.extent * (2 * y - 1)};
}

std::pair<double, double> fieldRange(const FieldSettings& s) {
  double low = 0, high = 1;
  if (s.channels == 3) return {low, high};
  for (const auto& key : s.keys) low = std::min(low, key.value[0]), high = std::max(high, key.value[0]);
  if (low == 0 && high == 1) return {0, 1};
  // Values that leave 0..1 have their own range.
  low = high = s.keys[0].value[0];
  for (const auto& key : s.keys) low = std::min(low, key.value[0]), high = std::max(high, key.value[0]);
  return high > low ? std::pair{low, high} : std::pair{low - 0.5, low + 0.5};
}

QColor fieldColour(const FieldSettings& s, const double* value) {
  const auto [low, high] = fieldRange(s);
  return QColor::fromRgb(colourOf(value, s.channels, low, high));
}

QImage fieldImage(const FieldSettings& s, const FieldResult& field) {
  const size_t C = size_t(s.channels), G = size_t(std::lround(std::sqrt(double(field.value.size() / C))));
  const auto [low, high] = fieldRange(s);
  const int side = int(G);
  QImage image(side, side, QImage::Format_RGB32);
  for (size_t y = 0; y < G; ++y) {
    auto* line = reinterpret_cast<QRgb*>(image.scanLine(int(G - 1 - y)));
    for (size_t x = 0; x < G; ++x) line[x] = colourOf(&field.value[(y * G + x) * C], s.channels, low, high);
  }
  return image;
}

const QImage& FieldImages::of(const FieldSettings& s, const std::shared_ptr<const FieldResult>& field) {
  QImage& image = images_[field];
  if (image.isNull()) image = fieldImage(s, *field);
  return image;
}

void FieldImages::forgetOthers(const analysis::ValueField& field) {
  std::erase_if(images_, [&](const auto& entry) {
    return entry.first != field.reference && std::find(field.panels.begin(), field.panels.end(), entry.first) == field.panels.end();
  });
}

QString fieldTitle(const FieldSettings& s, size_t column) {
  return QString::fromStdString(analysis::field_title(s.columns[column], s.space)).replace(QLatin1Char('\n'), QLatin1Char(' '));
}

QString fieldRowText(double row) {
  if (row == 1) return QStringLiteral("β = β*");
  if (row == 0) return QStringLiteral("β = 0");
  return QStringLiteral("β = %1 β*").arg(std::isinf(row) ? QStringLiteral("∞") : QString::number(row, 'g', 4));
}

QString fieldCaption(const FieldSettings& s, const FieldResult& field, size_t column) {
  const auto& p = s.columns[column];
  if (p.kind == FieldKind::full_attention) return QStringLiteral("reference");
  QString text = QStringLiteral("RMSE %1").arg(field.rmse, 0, 'f', 3);
  if (p.kind == FieldKind::ramnet) text += QStringLiteral("   mass %1").arg(field.mean_read_mass, 0, 'f', 2);
  return text;
}

QString fieldFacts(const FieldSettings& s) {
  QStringList parts{QStringLiteral("%1 keys").arg(count(qint64(s.keys.size())))};
  if (!s.origin.empty()) parts << QString::fromStdString(s.origin) << QStringLiteral("small dots: the model's queries");
  parts << (s.space == FieldSpace::torus ? QStringLiteral("U = 2") : QStringLiteral("U = 1"));
  parts << QStringLiteral("τ = %1, β* = √(2/τ) = %2").arg(QString::number(s.tau, 'g', 6), QString::number(analysis::beta_star_of_tau(s.tau), 'g', 6));
  parts << QStringLiteral("%1 × %1 queries").arg(s.grid);
  if (anyMemory(s)) {
    const bool all = std::all_of(s.columns.begin(), s.columns.end(), [](const auto& p) { return p.kind != FieldKind::ramnet || p.cumulative; });
    parts << (all ? QStringLiteral("cumulative mean") : QStringLiteral("cumulative mean where no γ is given"));
    parts << QStringLiteral("mass: mean read weight on written slots");
  }
  parts << QStringLiteral("RMSE to full attention");
  return parts.join(QStringLiteral(" · "));
}

void paintField(QPainter& painter, const FieldGeometry& g, const analysis::ValueField& field, const Theme& theme, const FieldMarks& marks, FieldImages& images) {
  const FieldSettings& s = field.settings;
  const double k = theme.base / 12;
  for (int column = 0; column < g.columns; ++column) drawHeader(painter, g.panel(0, column), s, size_t(column), theme, kGap * k);
  for (int row = 0; row < g.rows; ++row) {
    if (anyMemory(s)) {
      painter.save();
      painter.translate(g.panel(row, 0).left() - 52 * k, g.panel(row, 0).center().y());
      painter.rotate(-90);
      painter.setFont(theme.semibold());
      painter.setPen(theme.text);
      painter.drawText(QRectF(-70 * k, -10 * k, 140 * k, 20 * k), Qt::AlignCenter, fieldRowText(s.rows[size_t(row)]));
      painter.restore();
    }
    drawAxisNames(painter, g.panel(row, 0), s, theme);
    for (int column = 0; column < g.columns; ++column) {
      const QRectF& panel = g.panel(row, column);
      const auto& result = field.panels[size_t(row * g.columns + column)];
      drawImage(painter, panel, images.of(s, result), marks.fine);
      drawFrame(painter, panel, theme, marks.focused == row * g.columns + column);
      drawMarks(painter, panel, s, theme, marks);
      painter.setFont(theme.micro());
      painter.setPen(theme.text2);
      const QFontMetricsF metrics(painter.font(), painter.device());
      const double room = panel.width() + kGap * k;
      QString caption = fieldCaption(s, *result, size_t(column));
      if (metrics.horizontalAdvance(caption) > room)  // the numbers alone
        caption.remove(QStringLiteral("RMSE ")).replace(QStringLiteral("   mass "), QStringLiteral(" · "));
      painter.drawText(QRectF(panel.left() - kGap * k / 2, panel.bottom() + 2 * k, room, 17 * k), Qt::AlignCenter, metrics.elidedText(caption, Qt::ElideRight, room));
    }
  }
  painter.setFont(theme.micro());
  painter.setPen(theme.text2);
  if (!g.panels.isEmpty())
    painter.drawText(QRectF(g.area.left(), g.bottom - (kFoot + 4) * k, g.area.width(), kFoot * k), Qt::AlignCenter, footText(s));
}

void paintFieldLegend(QPainter& painter, double right, double middle, const FieldSettings& s, const Theme& theme) {
  const double k = theme.base / 12;
  painter.save();
  painter.setFont(theme.label());
  painter.setPen(theme.text2);
  const QFontMetricsF metrics(theme.label());
  if (s.channels == 3) {
    painter.drawText(QRectF(right - 200 * k, middle - 10 * k, 200 * k, 20 * k), int(Qt::AlignRight | Qt::AlignVCenter), QStringLiteral("value: RGB colour"));
    painter.restore();
    return;
  }
  const auto [low, high] = fieldRange(s);
  const QString high_text = bound(high), low_text = bound(low);
  const QRectF bar(std::floor(right - metrics.horizontalAdvance(high_text) - 6 * k - 110 * k), std::floor(middle - 5 * k), std::floor(110 * k), std::floor(9 * k));
  QImage ramp(256, 1, QImage::Format_RGB32);
  for (int i = 0; i < 256; ++i) ramp.setPixel(i, 0, viridis()[i]);
  painter.drawImage(bar, ramp);
  painter.setBrush(Qt::NoBrush);
  painter.setRenderHint(QPainter::Antialiasing, false);
  painter.setPen(QPen(theme.lineStrong, 1));
  painter.drawRect(bar.adjusted(-0.5, -0.5, 0.5, 0.5));
  painter.setPen(theme.text2);
  painter.drawText(QRectF(bar.right() + 5 * k, middle - 10 * k, 80 * k, 20 * k), int(Qt::AlignLeft | Qt::AlignVCenter), high_text);
  painter.drawText(QRectF(bar.left() - 205 * k, middle - 10 * k, 200 * k, 20 * k), int(Qt::AlignRight | Qt::AlignVCenter), QStringLiteral("value   ") + low_text);
  painter.restore();
}

void paintFieldFigure(QPainter& painter, const QRectF& area, const Theme& theme, const FigureOptions& options, const analysis::ValueField& field, const FieldMarks& marks) {
  painter.save();
  painter.fillRect(area, theme.surface);
  QRectF rest = options.caption ? paintCaption(painter, area, fieldFacts(field.settings), theme) : area;
  if (options.legend) {
    const double bar = 22 * theme.base / 12;
    paintFieldLegend(painter, rest.right() - 12, rest.top() + 4 + bar / 2, field.settings, theme);
    rest.setTop(rest.top() + bar);
  }
  FieldImages images;
  paintField(painter, fieldGeometry(field.settings, rest, theme), field, theme, marks, images);
  painter.restore();
}

QString fieldCsv(const analysis::ValueField& field) {
  const FieldSettings& s = field.settings;
  const size_t C = size_t(s.channels), G = field.x.size();
  Facts facts{{QStringLiteral("figure"), QStringLiteral("value-field")}, {QStringLiteral("keys"), QString::number(s.keys.size())},
              {QStringLiteral("space"), s.space == FieldSpace::torus ? QStringLiteral("torus") : QStringLiteral("plane")},
              {QStringLiteral("tau"), csvNumber(s.tau)}, {QStringLiteral("beta_star"), csvNumber(field.beta_star)}, {QStringLiteral("grid"), QString::number(s.grid)}};
  for (size_t i = 0; i < s.keys.size(); ++i) {
    QStringList v{csvNumber(s.keys[i].x), csvNumber(s.keys[i].y)};
    for (size_t c = 0; c < C; ++c) v << csvNumber(s.keys[i].value[c]);
    facts.push_back({QStringLiteral("key_%1").arg(i), v.join(QLatin1Char(' '))});
  }
  for (size_t at = 0; at < field.panels.size(); ++at) {
    const size_t column = at % s.columns.size();
    facts.push_back({QStringLiteral("panel_%1").arg(at), QStringLiteral("%1; %2; RMSE %3; read mass %4")
                                                              .arg(fieldRowText(s.rows[at / s.columns.size()]), fieldTitle(s, column), csvNumber(field.panels[at]->rmse), csvNumber(field.panels[at]->mean_read_mass))});
  }
  QString text = factLines(facts) + (s.space == FieldSpace::torus ? QStringLiteral("phi_0,phi_1") : QStringLiteral("q_0,q_1"));
  const QStringList names = C == 3 ? QStringList{QStringLiteral("_r"), QStringLiteral("_g"), QStringLiteral("_b")} : QStringList{QString()};
  for (const QString& c : names) text += QStringLiteral(",full_attention") + c;
  for (size_t at = 0; at < field.panels.size(); ++at)
    for (const QString& c : names) text += QStringLiteral(",panel_%1%2").arg(at).arg(c);
  text += QLatin1Char('\n');
  for (size_t y = 0; y < G; ++y)
    for (size_t x = 0; x < G; ++x) {
      text += csvNumber(field.x[x]) + QLatin1Char(',') + csvNumber(field.y[y]);
      const auto put = [&](const FieldResult& f) {
        for (size_t c = 0; c < C; ++c) text += QLatin1Char(',') + csvNumber(f.value[(y * G + x) * C + c]);
      };
      put(*field.reference);
      for (const auto& panel : field.panels) put(*panel);
      text += QLatin1Char('\n');
    }
  return text;
}

Figure valueFieldFigure(std::shared_ptr<const analysis::ValueField> field) {
  Figure figure;
  figure.size = fieldFigureSize(field->settings);
  figure.kind = QStringLiteral("value-field");
  figure.title = QStringLiteral("Slotscope value fields · ") + fieldFacts(field->settings);
  figure.csv = fieldCsv(*field);
  figure.facts = parseFacts(figure.csv);
  figure.paint = [field](QPainter& painter, const QRectF& area, const Theme& theme, const FigureOptions& options) {
    paintFieldFigure(painter, area, theme, options, *field, {});
  };
  return figure;
}

}  // namespace slotscope::views
